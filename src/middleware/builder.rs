//! The one builder, of an [`Admission`] alone and of a whole client around it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Admission;
use crate::clock::Chance;
use crate::gate::{Gate, ScopeKey};
use crate::observe::Observer;
use crate::policy::{AdmissionPolicy, PolicyError};
use crate::reading::Profile;
use crate::spill::{Deployment, FailOver, RouteError, Router};

mod settings;

pub(crate) use settings::Settings;

/// Builds an [`Admission`], or by [`AdmissionClient::builder`](crate::AdmissionClient::builder) a whole client. The settings are
/// the same.
///
/// Nothing is checked before `build`, which then checks everything. Setting the same thing twice is an error there, so that
/// no setting is lost in silence.
///
/// ```
/// use std::time::Duration;
/// use reqwest_admission::{Admission, BuildError};
///
/// let budget = Duration::from_secs(5);
/// let admission = Admission::builder().latency_budget(budget).max_attempts(3).build()?;
///
/// let error = Admission::builder().max_attempts(3).max_attempts(4).build().unwrap_err();
/// assert_eq!(error.to_string(), "max_attempts is set twice: keep one of the two calls");
/// # Ok::<(), BuildError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct AdmissionBuilder<S = ()> {
    pub(crate) settings: Settings,
    /// The client around the layer, if one is built.
    pub(crate) stack: S,
}

impl Default for AdmissionBuilder {
    fn default() -> Self {
        Self { settings: Settings::default(), stack: () }
    }
}

impl AdmissionBuilder {
    /// Checks the settings and builds the layer.
    ///
    /// # Errors
    ///
    /// [`BuildError::SetTwice`] if two calls set the same thing, [`BuildError::Policy`] if a setting is out of its range, and
    /// [`BuildError::Route`] if a deployment is not valid, is the primary, or leads to the same place as another; if
    /// deployments come without a primary, or settings of routes without a deployment; or if the reserve is not less than
    /// the latency budget.
    pub fn build(self) -> Result<Admission, BuildError> {
        self.settings.build(false)
    }
}

impl<S> AdmissionBuilder<S> {
    /// Sets the whole policy, for example one read from a configuration file. See [`policy`](crate::policy).
    pub fn policy(mut self, policy: AdmissionPolicy) -> Self {
        self.settings.policy.set(policy);
        self
    }

    /// Sets the [latency budget](AdmissionPolicy::latency_budget) of an otherwise default policy.
    pub fn latency_budget(mut self, budget: Duration) -> Self {
        self.settings.latency_budget.set(budget);
        self
    }

    /// Sets the [attempts](AdmissionPolicy::max_attempts) of an otherwise default policy.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts.set(attempts);
        self
    }

    /// Reads all responses with this profile, whatever host answers.
    pub fn profile(mut self, profile: impl Into<Profile>) -> Self {
        self.settings.profile.set(profile.into());
        self
    }

    /// Reads the responses of each of these profiles' hosts with it; those of other hosts with the built-in profiles.
    /// Called again, it adds more.
    pub fn profiles(mut self, profiles: impl IntoIterator<Item = Profile>) -> Self {
        self.settings.profiles.extend(profiles);
        self
    }

    /// Uses `gate` instead of one of its own: for configured limits, or to share one gate among several clients. See
    /// [`gate`](crate::gate).
    ///
    /// Clients share the scopes of a shared gate if endpoint, credential and label are the same. A credential in the
    /// [default headers](reqwest::ClientBuilder::default_headers) of a client cannot be seen here: clients that differ
    /// in it must not share a gate. An [`AdmissionClient`](crate::AdmissionClient) therefore shares no scope with an
    /// earlier one at the same gate, unless [`scope_by`](Self::scope_by) or the call itself names the scope.
    pub fn gate(mut self, gate: Gate) -> Self {
        self.settings.gate.set(gate);
        self
    }

    /// Uses no gate: every call goes by its own advice alone, and nothing is learned.
    pub fn without_gate(mut self) -> Self {
        self.settings.without_gate.set(());
        self
    }

    /// Names the scope of each request, in place of endpoint, credential and deployment or model. A
    /// [scope](crate::AdmissionRequestExt::scope) that a call sets itself goes first. If `scope` panics, the call has the
    /// usual scope.
    pub fn scope_by(mut self, scope: impl Fn(&reqwest::Request) -> ScopeKey + Send + Sync + 'static) -> Self {
        self.settings.scope_by.set(Arc::new(scope));
        self
    }

    /// Replaces each call's estimate by the token usage that its response states: in a JSON body, or in the last event of
    /// a stream that has one. Off by default. A stream is read as it passes by, never kept.
    pub fn settle_from_usage(mut self, settle: bool) -> Self {
        self.settings.settle_from_usage.set(settle);
        self
    }

    /// Estimates the tokens of calls that bring no [estimate](crate::AdmissionRequestExt::token_estimate) from their bodies.
    #[cfg(feature = "estimate")]
    #[cfg_attr(docsrs, doc(cfg(feature = "estimate")))]
    pub fn estimator(mut self, estimator: crate::estimate::BodyEstimator) -> Self {
        self.settings.estimator.set(estimator);
        self
    }

    /// Adds a deployment that takes calls which the primary does not take in time. Deployments are asked in the order in
    /// which they are added, or drawn by [weight](Deployment::weight); each at most once per call. See
    /// [`spill`](crate::spill).
    pub fn spill_to(mut self, deployment: Deployment) -> Self {
        self.settings.deployments.push(deployment);
        self
    }

    /// Says which calls may be sent to another deployment: those to URLs at or below `url`. [`spill_to`](Self::spill_to)
    /// needs it.
    pub fn primary(mut self, url: &str) -> Self {
        self.settings.primary.set(url.to_owned());
        self
    }

    /// Has `router` decide where calls go; see [`Router`].
    pub fn router(mut self, router: impl Router + 'static) -> Self {
        self.settings.router.set(Arc::new(router));
        self
    }

    /// Sets after how many waits in a row that ended in another refusal a call leaves for another deployment. Default: 2;
    /// 0 leaves at the first refusal.
    pub fn spill_after_failed_waits(mut self, waits: u32) -> Self {
        self.settings.spill_after_failed_waits.set(waits);
        self
    }

    /// Sets the part of each call's budget that is kept for the next deployment: no wait for the primary goes into it. Half
    /// of it is for the primary's answer after the last such wait; no other deployment is asked with less than the other
    /// half. It must be less than the policy's latency budget.
    ///
    /// By default it is twice the time that the next deployment usually takes to answer, and at least a tenth of the
    /// budget; half of the budget for one that has not answered yet, or takes longer than the budget.
    pub fn spill_reserve(mut self, reserve: Duration) -> Self {
        self.settings.spill_reserve.set(reserve);
        self
    }

    /// Sets which failures of a deployment, other than refusals, send a call on to the next one; see [`FailOver`].
    pub fn fail_over(mut self, fail_over: FailOver) -> Self {
        self.settings.fail_over.set(fail_over);
        self
    }

    /// Calls `observer` at every decision; see [`Observer`].
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.settings.observer.set(Arc::new(observer));
        self
    }

    /// Makes all random draws from one generator of this seed, for repeatable tests.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed.set(Chance::seeded(seed));
        self
    }

    /// Takes all random draws for waits from `draw`, which returns numbers in `[0, 1)`; others are moved into range.
    /// If it panics, the draw is 0. `|| 0.0` leaves the jitter out.
    pub fn draws(mut self, draw: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.settings.draws.set(Chance::Injected(Arc::new(draw)));
        self
    }
}

impl Default for Admission {
    fn default() -> Self {
        Settings::default().assemble(AdmissionPolicy::default(), None, false)
    }
}

impl<S> fmt::Debug for AdmissionBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Why an [`Admission`] cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two calls set the same thing, so that one of them would be lost.
    #[error("{}", said_twice(setting, other))]
    #[non_exhaustive]
    SetTwice {
        /// The method that sets it.
        setting: &'static str,
        /// The other method that sets it; the same one if it was called twice.
        other: &'static str,
    },
    /// A setting of the policy is out of its range.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A deployment cannot be used as a route.
    #[error(transparent)]
    Route(#[from] RouteError),
}

fn said_twice(setting: &str, other: &str) -> String {
    if setting == other {
        return format!("{setting} is set twice: keep one of the two calls");
    }
    format!("{setting} and {other} set the same thing: keep one of the two calls")
}
