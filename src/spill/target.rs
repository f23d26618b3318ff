//! [`Target`]: a deployment whose settings are checked.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::header::HeaderName;
use reqwest::Url;
use reqwest_middleware::ClientWithMiddleware;

use super::error::{RouteError, RouteProblem};
use super::rewrite::{PathRule, Rewrite};
use super::route::Deployment;
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
        let fault = |problem| RouteError { deployment: self.name.clone(), problem, value: None };
        if self.name.is_empty() || self.name == super::PRIMARY {
            return Err(fault(RouteProblem::Name));
        }
        let mut base = checked_url(&self.url).ok_or_else(|| fault(RouteProblem::Url))?;
        self.credential.check().map_err(|_| fault(RouteProblem::Credential))?;
        if self.credentials > 1 {
            return Err(fault(RouteProblem::TwoCredentials));
        }
        if self.weight == Some(0) {
            return Err(fault(RouteProblem::Weight));
        }
        if !(self.budget_share > 0.0 && self.budget_share <= 1.0) {
            let value = Some(self.budget_share.to_string());
            return Err(RouteError { value, ..fault(RouteProblem::BudgetShare) });
        }
        let remove_headers = names(&self.remove_headers).ok_or_else(|| fault(RouteProblem::Header))?;
        let forward_headers = names(&self.forward_headers).ok_or_else(|| fault(RouteProblem::Header))?;
        let mut set_query: Vec<(String, String)> = base.query_pairs().into_owned().collect();
        set_query.extend_from_slice(&self.query);
        base.set_query(None);
        let path =
            self.path.clone().unwrap_or(if base.path() == "/" { PathRule::Keep } else { PathRule::Replace });
        let has_label = self.label.is_some() || self.model.is_some();
        let follows_label = !has_label && path == PathRule::Keep && self.scope.is_none();
        let scope = self.scope.clone().unwrap_or_else(|| self.usual_scope(&base, &set_query));
        let profile = self.profile.clone();
        let profile =
            profile.unwrap_or_else(|| Profile::for_host(base.host_str().unwrap_or_default()).clone());
        let crosses_origin = base.origin() != primary.origin();
        let has_client = self.client.is_some();
        let client = match self.client {
            None if crosses_origin => Some(plain().ok_or(RouteError {
                deployment: self.name.clone(),
                problem: RouteProblem::Client,
                value: None,
            })?),
            client => client,
        };
        let Self { remove_query, forward_query, credential, model, map_body, .. } = self;
        Ok(Target {
            name: self.name.into(),
            weight: self.weight.unwrap_or(1),
            budget_share: self.budget_share,
            policy: self.policy,
            profile,
            scope,
            has_scope: self.scope.is_some(),
            follows_label,
            client,
            any_arrived: AtomicBool::new(false),
            has_client,
            rewrite: Rewrite {
                base,
                path,
                set_query,
                remove_query,
                remove_headers,
                crosses_origin,
                forward_headers,
                forward_query,
                credential,
                model,
                map_body,
            },
        })
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

fn names(names: &[String]) -> Option<Vec<HeaderName>> {
    names.iter().map(|name| HeaderName::try_from(name).ok()).collect()
}

/// A URL that requests can go to. Its user information would be a credential in the wrong place.
pub(crate) fn checked_url(url: &str) -> Option<Url> {
    let url = Url::parse(url).ok()?;
    let plain = matches!(url.scheme(), "http" | "https") && url.has_host();
    let mut bare = url.clone();
    strip_url(&mut bare, |_| true);
    (plain && bare.username() == url.username() && bare.password() == url.password()).then_some(url)
}
