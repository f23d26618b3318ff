//! What can be wrong with routes.

/// A deployment that cannot be routed to. Says which and why, nothing of its URL or credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("deployment {deployment:?}: {problem}{}", .value.as_ref().map(|value| format!("; it is {value}")).unwrap_or_default())]
pub struct RouteError {
    deployment: String,
    problem: RouteProblem,
    value: Option<String>,
}

impl RouteError {
    pub(crate) fn new(deployment: &str, problem: RouteProblem) -> Self {
        Self { deployment: deployment.to_owned(), problem, value: None }
    }

    /// The same with the value that is out of its range.
    pub(crate) fn value(self, value: String) -> Self {
        Self { value: Some(value), ..self }
    }

    /// The name of the deployment.
    #[must_use]
    pub fn deployment(&self) -> &str {
        &self.deployment
    }

    /// What is wrong with it.
    #[must_use]
    pub const fn problem(&self) -> RouteProblem {
        self.problem
    }
}

/// What is wrong with a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum RouteProblem {
    /// The name is empty, or `primary`.
    #[error("its name is empty or \"primary\": give it another")]
    Name,
    /// Two deployments have this name.
    #[error("another deployment has the same name: give each its own")]
    SameName,
    /// The URL is not an absolute `http` or `https` URL without user information.
    #[error("its URL must be an absolute http or https URL without user information")]
    Url,
    /// A header to be removed or forwarded has a name that no header can have.
    #[error("a header to be removed or forwarded has a name that no header can have")]
    Header,
    /// The credential has a name or value that no header can carry.
    #[error("its credential has a name or value that no header can carry")]
    Credential,
    /// It has two credentials.
    #[error("it has two credentials; set one, or several headers with one Credential::from_fn")]
    TwoCredentials,
    /// reqwest cannot build a client for it.
    #[error("reqwest cannot build a client for it: pass one with client(..)")]
    Client,
    /// The weight is 0.
    #[error("weight is 0, allowed is 1 to 4294967295")]
    Weight,
    /// Some deployments have a weight and others have none.
    #[error("some deployments have a weight and others have none: give one to all or to none")]
    MixedWeights,
    /// The share of the budget is not above 0 and at most 1.
    #[error("budget_share is out of its range, allowed is above 0 and at most 1")]
    BudgetShare,
    /// The deployment is the primary, so a spilled call would go in a circle. For another account there, give it a
    /// [client](super::Deployment::client) of its own: the primary's may add the primary's credential.
    #[error(
        "it is the primary itself, so a spilled call would go in a circle: name another URL, or pass a client(..) with another account"
    )]
    IsPrimary,
    /// Another deployment leads to the same place with the same credential, so a spilled call would go in a circle.
    #[error(
        "another deployment leads to the same place, so a spilled call would go in a circle: remove one of them"
    )]
    SamePlace,
    /// There are more than 64 deployments.
    #[error("it is one too many, allowed are 1 to 64 deployments")]
    TooMany,
    /// No primary is given, so that every call of the client would be routed.
    #[error(
        "spill_to needs primary(url): without it every call of the client would be routed, whatever its host"
    )]
    NoPrimary,
    /// The reserve for a spill-over is no less than the latency budget, so that no wait would ever fit.
    #[error("spill_reserve has to be less than the policy's latency_budget, or no wait ever fits")]
    Reserve,
    /// A primary, a router or another setting of routes is given, but no deployment.
    #[error(
        "no deployment is given: add one with spill_to, or leave out primary, router, fail_over and the spill_ settings"
    )]
    NoDeployment,
}
