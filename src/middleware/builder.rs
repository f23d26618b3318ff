//! Builds an [`Admission`].

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Admission;
use super::quota;
use super::retry_budget::RetryBudget;
use super::shared::{ScopeFn, Shared};
use crate::clock::{self, Chance};
use crate::gate::{Gate, ScopeKey};
use crate::observe::Observer;
use crate::ownership::Guard;
use crate::policy::{AdmissionPolicy, AdmissionPolicyBuilder, PolicyError};
use crate::reading::Profile;
use crate::scope::RecentScopes;
use crate::spill::{Circuits, Deployment, FailOver, RouteError, RouteSettings, Router, Routes};

/// Builds an [`Admission`]; [`build`](Self::build) checks everything at once.
#[derive(Default)]
pub struct AdmissionBuilder {
    policy: AdmissionPolicyBuilder,
    profile: Option<Profile>,
    profiles: Vec<Profile>,
    chance: Chance,
    observer: Option<Arc<dyn Observer>>,
    guarded: bool,
    gate: GateChoice,
    scope_by: Option<Arc<ScopeFn>>,
    settle_from_usage: bool,
    routes: RouteSettings,
    #[cfg(feature = "estimate")]
    estimator: Option<crate::estimate::BodyEstimator>,
}

/// Which gate to use; by default one of its own.
#[derive(Debug, Default)]
enum GateChoice {
    #[default]
    Own,
    Shared(Gate),
    None,
}

impl AdmissionBuilder {
    /// Sets the whole policy.
    #[must_use]
    pub fn policy(mut self, policy: AdmissionPolicy) -> Self {
        self.policy = policy.into();
        self
    }

    /// Sets the policy's [latency budget](AdmissionPolicy::latency_budget).
    #[must_use]
    pub fn latency_budget(mut self, budget: Duration) -> Self {
        self.policy = self.policy.latency_budget(budget);
        self
    }

    /// Sets the policy's [attempts](AdmissionPolicy::max_attempts).
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.policy = self.policy.max_attempts(attempts);
        self
    }

    /// Reads all responses with this profile, instead of the one of each answering host.
    #[must_use]
    pub fn profile(mut self, profile: impl Into<Profile>) -> Self {
        self.profile = Some(profile.into());
        self
    }

    /// Reads the responses of each of these profiles' hosts with it, before the built-in ones.
    #[must_use]
    pub fn profiles(mut self, profiles: impl IntoIterator<Item = Profile>) -> Self {
        self.profiles.extend(profiles);
        self
    }

    /// Uses `gate` instead of one of its own: configured limits, or one gate for several clients.
    ///
    /// Clients share the scopes of a shared gate if endpoint, credential and label are the same. A credential in the
    /// [default headers](reqwest::ClientBuilder::default_headers) of a client cannot be seen here: clients that differ
    /// in it must not share a gate. An [`AdmissionClient`](crate::AdmissionClient) therefore shares no scope with an
    /// earlier one at the same gate, unless [`scope_by`](Self::scope_by) or the call itself names the scope.
    #[must_use]
    pub fn gate(mut self, gate: Gate) -> Self {
        self.gate = GateChoice::Shared(gate);
        self
    }

    /// Uses no gate: every call goes by its own advice alone, and nothing is learned.
    #[must_use]
    pub fn without_gate(mut self) -> Self {
        self.gate = GateChoice::None;
        self
    }

    /// Names the scope of each request, instead of endpoint, credential and deployment or model. A
    /// [`ScopeKey`](crate::gate::ScopeKey) that a call brings with `with_extension` goes before. If `scope` panics, the call
    /// has the usual scope.
    #[must_use]
    pub fn scope_by(mut self, scope: impl Fn(&reqwest::Request) -> ScopeKey + Send + Sync + 'static) -> Self {
        self.scope_by = Some(Arc::new(scope));
        self
    }

    /// Settles each call's estimate with the token usage that its response states: in a JSON body, or in the last event of
    /// a stream that has one. Off by default. A stream is read as it passes by, never kept.
    #[must_use]
    pub const fn settle_from_usage(mut self, settle: bool) -> Self {
        self.settle_from_usage = settle;
        self
    }

    /// Estimates the tokens of calls that bring no [`TokenEstimate`](crate::pace::TokenEstimate) from their bodies.
    #[cfg(feature = "estimate")]
    #[cfg_attr(docsrs, doc(cfg(feature = "estimate")))]
    #[must_use]
    pub fn estimator(mut self, estimator: crate::estimate::BodyEstimator) -> Self {
        self.estimator = Some(estimator);
        self
    }

    /// Adds a deployment that takes calls which the primary does not take in time. Asked in the order in which they are
    /// added, or drawn by [weight](Deployment::weight); each at most once per call. See [`spill`](crate::spill).
    #[must_use]
    pub fn spill_to(mut self, deployment: Deployment) -> Self {
        self.routes.deployments.push(deployment);
        self
    }

    /// Says which calls are routed: those to URLs at or below `url`. [`spill_to`](Self::spill_to) needs it. A deployment that
    /// is the same is an error of [`build`](Self::build).
    #[must_use]
    pub fn primary(mut self, url: &str) -> Self {
        self.routes.primary = Some(url.to_owned());
        self
    }

    /// Has `router` decide where calls go; see [`Router`].
    #[must_use]
    pub fn router(mut self, router: impl Router + 'static) -> Self {
        self.routes.router = Some(Arc::new(router));
        self
    }

    /// Sets after how many honoured waits in vain, in a row, a call leaves for another deployment. Default: 2; 0 leaves
    /// at the first refusal.
    #[must_use]
    pub const fn spill_after_failed_waits(mut self, waits: u32) -> Self {
        self.routes.failed_waits = Some(waits);
        self
    }

    /// Sets the part of each call's budget that is kept for the next deployment: no wait for the primary goes into it. Half
    /// of it is for the primary's answer after the last such wait; no other deployment is asked with less than the other
    /// half. Less than the policy's latency budget.
    ///
    /// By default twice the time that the next deployment usually takes to answer, at least a tenth of the budget; half
    /// of the budget for one that has not answered yet, or takes longer than the budget.
    #[must_use]
    pub const fn spill_reserve(mut self, reserve: Duration) -> Self {
        self.routes.reserve = Some(reserve);
        self
    }

    /// Sets which failures of a deployment, not refusals, send a call on to the next one; see [`FailOver`].
    #[must_use]
    pub const fn fail_over(mut self, fail_over: FailOver) -> Self {
        self.routes.fail_over = fail_over;
        self
    }

    /// Is told about every decision; see [`Observer`].
    #[must_use]
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Makes all random draws from one generator of this seed, for repeatable tests.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.chance = Chance::seeded(seed);
        self
    }

    /// Takes all random draws for waits from `draw`, which returns numbers in `[0, 1)`; others are moved into range.
    /// If it panics, the draw is 0.
    #[must_use]
    pub fn draws(mut self, draw: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.chance = Chance::Injected(Arc::new(draw));
        self
    }

    /// Builds for a stack with a guard at its inner end.
    pub(crate) const fn guarded(mut self) -> Self {
        self.guarded = true;
        self
    }

    /// What a guard needs to know of the built layer.
    pub(crate) fn guard(&self) -> Guard {
        Guard { ownership: self.policy.ownership(), observer: self.observer.clone(), seals: false }
    }

    /// Checks the settings and builds.
    ///
    /// # Errors
    ///
    /// [`BuildError::Policy`] if a setting is out of its range, [`BuildError::Route`] if a deployment to spill to is not
    /// valid, is the primary, or leads to the same place as another, if no primary is named, and if the reserve is no
    /// less than the latency budget.
    pub fn build(self) -> Result<Admission, BuildError> {
        let policy = self.policy.clone().build()?;
        let guard = Guard { seals: true, ..self.guard() };
        let routes = self.routes.clone().build(policy.latency_budget().duration(), &guard)?;
        Ok(self.with_policy(policy, routes))
    }

    /// Builds with a policy that is already known to be good.
    fn with_policy(self, policy: AdmissionPolicy, routes: Option<Arc<Routes>>) -> Admission {
        let retry_budget = Mutex::new(RetryBudget::new(policy.retry_budget(), clock::now()));
        #[cfg(feature = "estimate")]
        let estimator = self.estimator;
        let Self { profile, profiles, chance, observer, guarded, gate, scope_by, settle_from_usage, .. } =
            self;
        let (gate, recent_scopes) = match gate {
            GateChoice::Own => (Some(Gate::default()), RecentScopes::default()),
            GateChoice::Shared(gate) => {
                // Its default headers may have a credential that nobody sees here.
                let apart = guarded && !gate.is_first_client();
                (Some(gate), if apart { RecentScopes::apart() } else { RecentScopes::default() })
            }
            GateChoice::None => (None, RecentScopes::default()),
        };
        let last_profile = Mutex::default();
        let refuses_inside = profile.iter().chain(&profiles).any(Profile::refuses_inside);
        Admission(Arc::new(Shared {
            guarded,
            any_arrived: AtomicBool::new(false),
            policy,
            profile,
            profiles,
            refuses_inside,
            last_profile,
            gate,
            scope_by,
            recent_scopes,
            settle_from_usage,
            routes,
            native_spill_overs: AtomicU64::new(0),
            #[cfg(feature = "estimate")]
            estimator,
            quotas: Circuits::new(quota::LONGEST),
            chance,
            observer,
            retry_budget,
            calls: AtomicU64::new(0),
        }))
    }
}

impl Default for Admission {
    fn default() -> Self {
        AdmissionBuilder::default().with_policy(AdmissionPolicy::default(), None)
    }
}

impl fmt::Debug for AdmissionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionBuilder")
            .field("policy", &self.policy)
            .field("profile", &self.profile)
            .field("chance", &self.chance)
            .finish_non_exhaustive()
    }
}

/// Why an [`Admission`] cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A setting of the policy is out of its range.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A deployment to spill to cannot be routed to.
    #[error(transparent)]
    Route(#[from] RouteError),
}
