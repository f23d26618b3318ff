//! What can be wrong with routes.

/// A deployment that cannot be routed to. Says which and why, nothing of its URL or credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("deployment {deployment:?}: {problem}{}", .value.as_ref().map(|value| format!("; it is {value}")).unwrap_or_default())]
pub struct RouteError {
    pub(crate) deployment: String,
    pub(crate) problem: RouteProblem,
    /// The value that is out of its range, unless the problem says it.
    pub(crate) value: Option<String>,
}

impl RouteError {
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
    #[error("its name is empty or \"primary\"")]
    Name,
    /// Two deployments have this name.
    #[error("another deployment has the same name")]
    SameName,
    /// The URL is not an absolute `http` or `https` URL without user information.
    #[error("its URL is not an absolute http or https URL without user information")]
    Url,
    /// A header to be removed has a name that no header can have.
    #[error("a header to be removed has a name that no header can have")]
    Header,
    /// The credential has a name or value that no header can carry.
    #[error("its credential has a name or value that no header can carry")]
    Credential,
    /// The weight is 0.
    #[error("weight is 0, allowed is 1 to 4294967295")]
    Weight,
    /// Some deployments have a weight and others have none.
    #[error("some deployments have a weight and others have none")]
    MixedWeights,
    /// The share of the budget is not above 0 and at most 1.
    #[error("budget_share is out of its range, allowed is above 0 and at most 1")]
    BudgetShare,
    /// The deployment is the primary, so a spilled call would go in a circle.
    #[error("it is the primary itself, so that a spilled call would go in a circle")]
    IsPrimary,
    /// Another deployment leads to the same place with the same credential, so a spilled call would go in a circle.
    #[error("another deployment leads to the same place, so that a spilled call would go in a circle")]
    SamePlace,
    /// There are more than 64 deployments.
    #[error("it is one too many, allowed are 1 to 64 deployments")]
    TooMany,
    /// A primary or a router is given but no deployment to spill to.
    #[error("no deployment is given to spill to")]
    NoDeployment,
}
