//! [`Deployment`]: who else can take a call, and what a call looks like there.

use std::fmt;
use std::sync::Arc;

use http::header::HeaderName;
use reqwest::Url;

use super::credential::{self, Credential};
use super::error::{RouteError, RouteProblem};
use super::rewrite::{MapBody, PathRule, Rewrite};
use crate::gate::ScopeKey;
use crate::policy::AdmissionPolicy;
use crate::reading::Profile;

/// Another deployment that can take calls which the primary does not take in time.
///
/// A request that is routed here gets this one's scheme, host and port, and loses all that it proved itself with to the
/// primary: credential headers (`Authorization`, `api-key`, `x-api-key`, `x-goog-api-key`, ...), everything marked
/// [sensitive](http::HeaderValue::set_sensitive), cookies, user information and credential parameters of the query.
/// Name others with [`remove_header`](Self::remove_header) and [`remove_query`](Self::remove_query). All other headers
/// go along, an `Idempotency-Key` unchanged.
///
/// Settings are checked by [`AdmissionBuilder::build`](crate::AdmissionBuilder::build).
///
/// ```
/// use reqwest_admission::{Admission, Deployment};
///
/// let standby = Deployment::azure_openai("standard", "https://standby.openai.azure.com", "gpt-standard")
///     .api_key("0123");
/// let admission = Admission::builder().spill_to(standby).build()?;
/// # Ok::<(), reqwest_admission::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Deployment {
    pub(crate) name: String,
    url: String,
    path: Option<PathRule>,
    query: Vec<(String, String)>,
    remove_query: Vec<String>,
    remove_headers: Vec<String>,
    credential: Credential,
    model: Option<String>,
    map_body: Option<Arc<MapBody>>,
    scope: Option<ScopeKey>,
    /// What limits are counted by, where it is known.
    label: Option<String>,
    pub(crate) weight: Option<u32>,
    budget_share: f64,
    policy: Option<AdmissionPolicy>,
    profile: Option<Profile>,
}

impl Deployment {
    /// A deployment at `url`, known as `name` in reports, events and metrics.
    ///
    /// A `url` with a path (other than `/`) is where all routed requests go; without one they keep their own path. Its
    /// query parameters are set on each request, in place of those of the same name.
    #[must_use]
    pub fn new(name: &str, url: &str) -> Self {
        Self {
            name: name.to_owned(),
            url: url.to_owned(),
            path: None,
            query: Vec::new(),
            remove_query: Vec::new(),
            remove_headers: Vec::new(),
            credential: Credential::none(),
            model: None,
            map_body: None,
            scope: None,
            label: None,
            weight: None,
            budget_share: 1.0,
            policy: None,
            profile: None,
        }
    }

    /// A deployment of Azure OpenAI: `/openai/deployments/{deployment}/...` at the resource's `endpoint`, for example
    /// `https://my-resource.openai.azure.com`.
    ///
    /// Takes requests in the same form and in OpenAI's own (`/v1/...`). `api-version` stays as the request has it unless
    /// [`query`](Self::query) says otherwise. See the
    /// [reference](https://learn.microsoft.com/azure/ai-foundry/openai/reference).
    #[must_use]
    pub fn azure_openai(name: &str, endpoint: &str, deployment: &str) -> Self {
        let endpoint = endpoint.trim_end_matches('/');
        let mut route = Self::new(name, &format!("{endpoint}/openai/deployments/{deployment}"));
        route.path = Some(PathRule::Under);
        route.label = Some(deployment.to_owned());
        route
    }

    /// A service that speaks OpenAI's API under `base_url`, for example `https://api.openai.com/v1`.
    ///
    /// Takes requests in that form and in Azure's (`/openai/deployments/{name}/...`, whose `api-version` is taken off); the
    /// `model` field of their bodies becomes `model`.
    #[must_use]
    pub fn openai_compatible(name: &str, base_url: &str, model: &str) -> Self {
        let mut route = Self::new(name, base_url).model(model).remove_query("api-version");
        route.path = Some(PathRule::Under);
        route
    }

    /// Sets what the deployment is shown in place of the primary's credential.
    #[must_use]
    pub fn credential(mut self, credential: Credential) -> Self {
        self.credential = credential;
        self
    }

    /// Shows an API key in `api-key`, as Azure OpenAI has it.
    #[must_use]
    pub fn api_key(self, key: &str) -> Self {
        self.credential(Credential::header("api-key", key))
    }

    /// Shows a bearer token.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.credential(Credential::bearer(token))
    }

    /// Sets the `model` field of JSON bodies. A body that is no JSON object, or a stream, is not routed here.
    #[must_use]
    pub fn model(mut self, model: &str) -> Self {
        self.model = Some(model.to_owned());
        self
    }

    /// Maps the body, after [`model`](Self::model). `None` says that this deployment cannot take the request.
    #[must_use]
    pub fn map_body(mut self, map: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        self.map_body = Some(Arc::new(map));
        self
    }

    /// Sets a query parameter, in place of those of the same name.
    #[must_use]
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Takes off a query parameter.
    #[must_use]
    pub fn remove_query(mut self, name: &str) -> Self {
        self.remove_query.push(name.to_owned());
        self
    }

    /// Takes off a header.
    #[must_use]
    pub fn remove_header(mut self, name: &str) -> Self {
        self.remove_headers.push(name.to_owned());
        self
    }

    /// Sets the scope that its limits are counted in. By default its endpoint, credential and deployment or model;
    /// where neither is named, the request's own label, so that models do not park each other.
    #[must_use]
    pub fn scope(mut self, scope: ScopeKey) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Has the deployment drawn by weight. Either all deployments have one or none, which are then asked in order.
    #[must_use]
    pub const fn weight(mut self, weight: u32) -> Self {
        self.weight = Some(weight);
        self
    }

    /// Sets the share of what is left of the call's budget that it may wait here: above 0, at most 1, which is the
    /// default.
    #[must_use]
    pub const fn budget_share(mut self, share: f64) -> Self {
        self.budget_share = share;
        self
    }

    /// Sets the attempts, the backoff and the jitter of calls while they are here. By default those of the admission layer;
    /// its budget, its `on_spill` and its `retry_ownership` hold in any case.
    #[must_use]
    pub fn policy(mut self, policy: AdmissionPolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Reads its responses with this profile. By default with that of its host.
    #[must_use]
    pub fn profile(mut self, profile: impl Into<Profile>) -> Self {
        self.profile = Some(profile.into());
        self
    }

    /// Checks every setting.
    pub(crate) fn check(self) -> Result<Target, RouteError> {
        let fault = |problem| RouteError { deployment: self.name.clone(), problem, value: None };
        if self.name.is_empty() || self.name == super::PRIMARY {
            return Err(fault(RouteProblem::Name));
        }
        let mut base = checked_url(&self.url).ok_or_else(|| fault(RouteProblem::Url))?;
        self.credential.check().map_err(|_| fault(RouteProblem::Credential))?;
        if self.weight == Some(0) {
            return Err(fault(RouteProblem::Weight));
        }
        if !(self.budget_share > 0.0 && self.budget_share <= 1.0) {
            let value = Some(self.budget_share.to_string());
            return Err(RouteError { value, ..fault(RouteProblem::BudgetShare) });
        }
        let remove_headers: Result<Vec<_>, _> =
            self.remove_headers.iter().map(HeaderName::try_from).collect();
        let remove_headers = remove_headers.map_err(|_| fault(RouteProblem::Header))?;
        let mut set_query: Vec<(String, String)> = base.query_pairs().into_owned().collect();
        set_query.extend(self.query);
        base.set_query(None);
        let path = self.path.unwrap_or(if base.path() == "/" { PathRule::Keep } else { PathRule::Replace });
        let label = self.label.or_else(|| self.model.clone());
        let follows_label = label.is_none() && path == PathRule::Keep && self.scope.is_none();
        let scope = self.scope.unwrap_or_else(|| {
            let scope = ScopeKey::new(&base.origin().ascii_serialization());
            let scope = match self.credential.identity() {
                Some(credential) => scope.credential(credential),
                None => scope,
            };
            match &label {
                Some(label) => scope.label(label),
                None => scope,
            }
        });
        let own = || Profile::for_host(base.host_str().unwrap_or_default()).clone();
        let profile = self.profile.unwrap_or_else(own);
        let Self { remove_query, credential, model, map_body, .. } = self;
        Ok(Target {
            name: self.name.into(),
            weight: self.weight.unwrap_or(1),
            budget_share: self.budget_share,
            policy: self.policy,
            profile,
            scope,
            follows_label,
            rewrite: Rewrite {
                base,
                path,
                set_query,
                remove_query,
                remove_headers,
                credential,
                model,
                map_body,
            },
        })
    }
}

/// A URL that requests can go to. Its user information would be a credential in the wrong place.
pub(crate) fn checked_url(url: &str) -> Option<Url> {
    let url = Url::parse(url).ok()?;
    let plain = matches!(url.scheme(), "http" | "https") && url.has_host();
    let mut bare = url.clone();
    credential::strip_url(&mut bare);
    (plain && bare.username() == url.username() && bare.password() == url.password()).then_some(url)
}

/// Neither headers nor query, which may hold credentials.
impl fmt::Debug for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deployment")
            .field("name", &self.name)
            .field("credential", &self.credential)
            .field("weight", &self.weight)
            .finish_non_exhaustive()
    }
}

/// A deployment whose settings are known to be good.
pub(crate) struct Target {
    pub(crate) name: Arc<str>,
    pub(crate) weight: u32,
    pub(crate) budget_share: f64,
    pub(crate) policy: Option<AdmissionPolicy>,
    pub(crate) profile: Profile,
    scope: ScopeKey,
    /// Whether the scope is counted per label of the request, which passes unchanged.
    follows_label: bool,
    pub(crate) rewrite: Rewrite,
}

impl Target {
    /// The scope of a call that is counted under `label` at the primary.
    pub(crate) fn scope(&self, label: Option<&str>) -> ScopeKey {
        match label.filter(|_| self.follows_label) {
            Some(label) => self.scope.clone().label(label),
            None => self.scope.clone(),
        }
    }
}
