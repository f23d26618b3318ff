//! [`Deployment`]: who else can take a call, and what a call looks like there.

use std::fmt;
use std::sync::Arc;

use reqwest_middleware::ClientWithMiddleware;

use super::credential::Credential;
use crate::gate::ScopeKey;
use crate::policy::AdmissionPolicy;
use crate::reading::Profile;

/// Maps a request body; `None` if it is not one that the deployment can take.
pub(super) type MapBody = dyn Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync;

/// Where the path of a routed request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathRule {
    /// The request's own.
    Keep,
    /// Always this one.
    Replace,
    /// This one, then what follows the version (`/v1/`) or the deployment (`/deployments/{name}/`) in the request's own.
    Under,
}

/// Another deployment that can take calls which the primary does not take in time.
///
/// A deployment on another origin than the primary has a [client](Self::client) of its own, and a request that is routed to
/// it takes along only headers that are known to be harmless. See
/// [what reaches another deployment](crate::spill#what-reaches-another-deployment).
///
/// Settings are checked by [`AdmissionBuilder::build`](crate::AdmissionBuilder::build).
///
/// ```
/// use reqwest_admission::{Admission, Deployment};
///
/// let standby = "https://standby.openai.azure.com";
/// let standby = Deployment::azure_openai("standard", standby, "gpt-standard").api_key("0123");
/// let admission =
///     Admission::builder().primary("https://ptu.openai.azure.com").spill_to(standby).build()?;
/// # Ok::<(), reqwest_admission::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Deployment {
    pub(crate) name: String,
    pub(super) url: String,
    pub(super) path: Option<PathRule>,
    pub(super) query: Vec<(String, String)>,
    pub(super) remove_query: Vec<String>,
    pub(super) remove_headers: Vec<String>,
    pub(super) forward_headers: Vec<String>,
    pub(super) forward_query: Vec<String>,
    pub(super) client: Option<ClientWithMiddleware>,
    pub(super) credential: Credential,
    /// How many credentials were set.
    pub(super) credentials: usize,
    pub(super) model: Option<String>,
    pub(super) map_body: Option<Arc<MapBody>>,
    pub(super) scope: Option<ScopeKey>,
    /// What limits are counted by, if it is known.
    pub(super) label: Option<String>,
    pub(crate) weight: Option<u32>,
    pub(super) budget_share: f64,
    pub(super) policy: Option<AdmissionPolicy>,
    pub(super) profile: Option<Profile>,
}

impl Deployment {
    /// A deployment at `url`, known as `name` in reports, events and metrics.
    ///
    /// If `url` has a path other than `/`, all routed requests go there; otherwise they keep their own path. Its
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
            forward_headers: Vec::new(),
            forward_query: Vec::new(),
            client: None,
            credential: Credential::none(),
            credentials: 0,
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

    /// Sets what the deployment is shown in place of the primary's credential. One at most: to show several headers, set
    /// them with [`Credential::from_fn`].
    #[must_use]
    pub fn credential(mut self, credential: Credential) -> Self {
        self.credentials = self.credentials.saturating_add(usize::from(!credential.is_none()));
        self.credential = credential;
        self
    }

    /// Sends requests to this deployment with `client`, a `reqwest::Client` or a `ClientWithMiddleware`.
    ///
    /// By default a deployment on another origin than the primary has a plain client with the TLS backend that reqwest is
    /// compiled with, the proxies of the environment, no cookies and no retries, which follows redirects within the
    /// deployment's origin only. One on the primary's origin is reached through the primary's own client and layers, unless
    /// a client is set.
    ///
    /// Name one for certificates, proxies or layers, for example one that adds a token. What it adds reaches the
    /// deployment: don't give it the primary's credentials. Nothing in it may retry: each attempt is let through once, as
    /// in an [`AdmissionClient`](crate::AdmissionClient), which can't be used here. reqwest follows redirects to any origin
    /// unless told otherwise, and then takes off `Authorization` and cookies but no other header; build the client
    /// with a [redirect policy](reqwest::redirect::Policy) if the credential is in a header like `api-key`.
    #[must_use]
    pub fn client(mut self, client: impl Into<ClientWithMiddleware>) -> Self {
        self.client = Some(client.into());
        self
    }

    /// Lets a header go along to another origin that would be left behind, whatever it holds.
    #[must_use]
    pub fn forward_header(mut self, name: &str) -> Self {
        self.forward_headers.push(name.to_owned());
        self
    }

    /// Lets a query parameter go along that is named like a credential but is not one.
    #[must_use]
    pub fn forward_query(mut self, name: &str) -> Self {
        self.forward_query.push(name.to_owned());
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
    /// if neither is named, the request's own label, so that models do not hold each other back.
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
}

/// Neither headers nor query, which may hold credentials.
impl fmt::Debug for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deployment")
            .field("name", &self.name)
            .field("credential", &self.credential)
            .field("weight", &self.weight)
            .field("client", &self.client.as_ref().map(|_| "set"))
            .finish_non_exhaustive()
    }
}
