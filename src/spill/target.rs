//! [`Target`]: a deployment whose settings are checked.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::header::HeaderName;
use reqwest::Url;
use reqwest_middleware::ClientWithMiddleware;

use super::error::{RouteError, RouteProblem};
use super::rewrite::Rewrite;
use super::route::{Deployment, PathRule};
use crate::credentials::{names_credential, strip_url};
use crate::gate::ScopeKey;
use crate::policy::AdmissionPolicy;
use crate::reading::Profile;
use crate::scope;

/// A deployment whose settings are known to be good.
pub(crate) struct Target {
    pub(crate) name: Arc<str>,
    pub(crate) weight: u32,
    pub(crate) budget_share: f64,
    pub(crate) policy: Option<AdmissionPolicy>,
    pub(crate) profile: Profile,
    scope: ScopeKey,
    /// Whether the user named the scope.
    pub(crate) has_scope: bool,
    /// Whether the scope is counted per label of the request, which passes unchanged.
    follows_label: bool,
    /// The client that it is reached with, if not through the primary's own stack.
    pub(crate) client: Option<ClientWithMiddleware>,
    /// Whether a sealed request has ever come through that client's layers.
    pub(crate) any_arrived: AtomicBool,
    /// Whether that is one of the user's, which may show it anything.
    pub(crate) has_client: bool,
    pub(crate) rewrite: Rewrite,
}

impl Target {
    /// Whether the other one leads to the same place, as far as can be seen.
    pub(crate) fn leads_where(&self, other: &Self) -> bool {
        !self.has_client && !other.has_client && self.rewrite.leads_where(&other.rewrite)
    }

    /// The scope of a call that is counted under `label` at the primary, by a `client` whose scopes are its own, if it is one.
    pub(crate) fn scope(&self, label: Option<&str>, client: Option<u64>) -> ScopeKey {
        let scope = match label.filter(|_| self.follows_label) {
            Some(label) => self.scope.clone().label(label),
            None => self.scope.clone(),
        };
        match client.filter(|_| self.client.is_none() && !self.has_scope) {
            Some(client) => scope.of_client(client),
            None => scope,
        }
    }
}

impl Deployment {
    /// Checks every setting. `plain` makes the client of a deployment on another origin that has none.
    pub(crate) fn check(
        self,
        primary: &Url,
        plain: impl FnOnce() -> Option<ClientWithMiddleware>,
    ) -> Result<Target, RouteError> {
        let mut base = self.check_settings()?;
        let fault = |problem| RouteError::new(&self.name, problem);
        let header_names = |names: &[String]| {
            let names = names.iter().map(HeaderName::try_from);
            names.collect::<Result<Vec<_>, _>>().map_err(|_| fault(RouteProblem::Header))
        };
        let (remove_headers, forward_headers) =
            (header_names(&self.remove_headers)?, header_names(&self.forward_headers)?);
        let crosses_origin = base.origin() != primary.origin();
        let has_client = self.client.is_some();
        let client = match &self.client {
            None if crosses_origin => Some(plain().ok_or_else(|| fault(RouteProblem::Client))?),
            client => client.clone(),
        };
        let mut set_query: Vec<(String, String)> = base.query_pairs().into_owned().collect();
        set_query.extend_from_slice(&self.query);
        base.set_query(None);
        let usual_path = if base.path() == "/" { PathRule::Keep } else { PathRule::Replace };
        let path = self.path.clone().unwrap_or(usual_path);
        let has_label = self.label.is_some() || self.model.is_some();
        let scope = self.scope.clone().unwrap_or_else(|| self.usual_scope(&base, &set_query));
        let profile = self.profile.clone();
        let profile =
            profile.unwrap_or_else(|| Profile::for_host(base.host_str().unwrap_or_default()).clone());
        Ok(Target {
            name: self.name.as_str().into(),
            weight: self.weight.unwrap_or(1),
            budget_share: self.budget_share,
            policy: self.policy.clone(),
            profile,
            scope,
            has_scope: self.scope.is_some(),
            follows_label: !has_label && path == PathRule::Keep && self.scope.is_none(),
            client,
            any_arrived: AtomicBool::new(false),
            has_client,
            rewrite: Rewrite {
                base,
                path,
                set_query,
                remove_headers,
                crosses_origin,
                forward_headers,
                deployment: self,
            },
        })
    }

    /// Checks what can be checked without the others. Returns its URL.
    fn check_settings(&self) -> Result<Url, RouteError> {
        let fault = |problem| Err(RouteError::new(&self.name, problem));
        if self.name.is_empty() || self.name == super::PRIMARY {
            return fault(RouteProblem::Name);
        }
        let Some(base) = checked_url(&self.url) else { return fault(RouteProblem::Url) };
        if self.credential.check().is_err() {
            return fault(RouteProblem::Credential);
        }
        if self.credentials > 1 {
            return fault(RouteProblem::TwoCredentials);
        }
        if self.weight == Some(0) {
            return fault(RouteProblem::Weight);
        }
        if !(self.budget_share > 0.0 && self.budget_share <= 1.0) {
            let error = RouteError::new(&self.name, RouteProblem::BudgetShare);
            return Err(error.value(self.budget_share.to_string()));
        }
        Ok(base)
    }

    /// Endpoint, credential and deployment or model.
    fn usual_scope(&self, base: &Url, set_query: &[(String, String)]) -> ScopeKey {
        let mut shown: Vec<&[u8]> = self.credential.identity().into_iter().collect();
        let in_query = set_query.iter().filter(|(name, _)| names_credential(name));
        shown.extend(in_query.map(|(_, value)| value.as_bytes()));
        let mut scope = ScopeKey::new(&base.origin().ascii_serialization());
        if !shown.is_empty() {
            scope = scope.credential(&shown.join(&b'\n'));
        } else if self.client.is_some() || !self.credential.is_none() {
            // It may be shown anything, which another one is not.
            scope = scope.of_client(scope::apart());
        }
        match self.label.as_ref().or(self.model.as_ref()) {
            Some(label) => scope.label(label),
            None => scope,
        }
    }
}

/// A URL that requests can go to. Its user information would be a credential in the wrong place.
pub(crate) fn checked_url(url: &str) -> Option<Url> {
    let url = Url::parse(url).ok()?;
    let plain = matches!(url.scheme(), "http" | "https") && url.has_host();
    let mut bare = url.clone();
    strip_url(&mut bare, |_| true);
    (plain && bare.username() == url.username() && bare.password() == url.password()).then_some(url)
}
