//! What a builder has been told, each thing at most once.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::BuildError;
use crate::clock::{self, Chance};
use crate::gate::Gate;
use crate::middleware::Admission;
use crate::middleware::quota;
use crate::middleware::retry_budget::RetryBudget;
use crate::middleware::shared::{ScopeFn, Shared};
use crate::observe::Observer;
use crate::ownership::Guard;
use crate::policy::AdmissionPolicy;
use crate::reading::Profile;
use crate::scope::RecentScopes;
use crate::spill::{Circuits, Deployment, FailOver, RouteSettings, Router, Routes};

/// A setting that may be set once. Setting it again is remembered, and an error when the builder builds.
pub(crate) struct Once<T> {
    value: Option<T>,
    again: bool,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self { value: None, again: false }
    }
}

impl<T> Once<T> {
    pub(crate) fn set(&mut self, value: T) {
        self.again |= self.value.replace(value).is_some();
    }

    fn merge(&mut self, other: Self) {
        self.again |= other.again;
        if let Some(value) = other.value {
            self.set(value);
        }
    }

    const fn is_set(&self) -> bool {
        self.value.is_some()
    }
}

/// Everything that an admission layer can be told.
#[derive(Default)]
pub(crate) struct Settings {
    pub(super) policy: Once<AdmissionPolicy>,
    pub(super) latency_budget: Once<Duration>,
    pub(super) max_attempts: Once<u32>,
    pub(super) profile: Once<Profile>,
    pub(super) profiles: Vec<Profile>,
    pub(super) seed: Once<Chance>,
    pub(super) draws: Once<Chance>,
    pub(super) observer: Once<Arc<dyn Observer>>,
    pub(super) gate: Once<Gate>,
    pub(super) without_gate: Once<()>,
    pub(super) scope_by: Once<Arc<ScopeFn>>,
    pub(super) settle_from_usage: Once<bool>,
    pub(super) deployments: Vec<Deployment>,
    pub(super) primary: Once<String>,
    pub(super) router: Once<Arc<dyn Router>>,
    pub(super) spill_after_failed_waits: Once<u32>,
    pub(super) spill_reserve: Once<Duration>,
    pub(super) fail_over: Once<FailOver>,
    #[cfg(feature = "estimate")]
    pub(super) estimator: Once<crate::estimate::BodyEstimator>,
}

impl Settings {
    /// Takes over what another builder was told.
    pub(crate) fn merge(&mut self, other: Self) {
        self.policy.merge(other.policy);
        self.latency_budget.merge(other.latency_budget);
        self.max_attempts.merge(other.max_attempts);
        self.profile.merge(other.profile);
        self.profiles.extend(other.profiles);
        self.seed.merge(other.seed);
        self.draws.merge(other.draws);
        self.observer.merge(other.observer);
        self.gate.merge(other.gate);
        self.without_gate.merge(other.without_gate);
        self.scope_by.merge(other.scope_by);
        self.settle_from_usage.merge(other.settle_from_usage);
        self.deployments.extend(other.deployments);
        self.primary.merge(other.primary);
        self.router.merge(other.router);
        self.spill_after_failed_waits.merge(other.spill_after_failed_waits);
        self.spill_reserve.merge(other.spill_reserve);
        self.fail_over.merge(other.fail_over);
        #[cfg(feature = "estimate")]
        self.estimator.merge(other.estimator);
    }

    /// The first two methods that set the same thing.
    fn set_twice(&self) -> Option<(&'static str, &'static str)> {
        let again = [
            ("policy", self.policy.again),
            ("latency_budget", self.latency_budget.again),
            ("max_attempts", self.max_attempts.again),
            ("profile", self.profile.again),
            ("seed", self.seed.again),
            ("draws", self.draws.again),
            ("observer", self.observer.again),
            ("gate", self.gate.again),
            ("scope_by", self.scope_by.again),
            ("settle_from_usage", self.settle_from_usage.again),
            ("primary", self.primary.again),
            ("router", self.router.again),
            ("spill_after_failed_waits", self.spill_after_failed_waits.again),
            ("spill_reserve", self.spill_reserve.again),
            ("fail_over", self.fail_over.again),
            #[cfg(feature = "estimate")]
            ("estimator", self.estimator.again),
        ];
        let both = [
            ("policy", "latency_budget", self.policy.is_set() && self.latency_budget.is_set()),
            ("policy", "max_attempts", self.policy.is_set() && self.max_attempts.is_set()),
            ("profile", "profiles", self.profile.is_set() && !self.profiles.is_empty()),
            ("gate", "without_gate", self.gate.is_set() && self.without_gate.is_set()),
            ("seed", "draws", self.seed.is_set() && self.draws.is_set()),
        ];
        let again = again.into_iter().filter(|(_, again)| *again).map(|(name, _)| (name, name));
        let both = both.into_iter().filter(|(.., both)| *both).map(|(one, other, _)| (one, other));
        again.chain(both).next()
    }

    /// What a guard needs to know of the layer that is built.
    pub(crate) fn guard(&self) -> Guard {
        let ownership = self.policy.value.as_ref().map(AdmissionPolicy::retry_ownership).unwrap_or_default();
        Guard { ownership, observer: self.observer.value.clone(), seals: false }
    }

    /// Checks everything and builds; `guarded` if a guard stands at the inner end of the stack.
    pub(crate) fn build(mut self, guarded: bool) -> Result<Admission, BuildError> {
        if let Some((setting, other)) = self.set_twice() {
            return Err(BuildError::SetTwice { setting, other });
        }
        let mut policy = self.policy.value.take().unwrap_or_default().to_builder();
        if let Some(budget) = self.latency_budget.value {
            policy = policy.latency_budget(budget);
        }
        if let Some(attempts) = self.max_attempts.value {
            policy = policy.max_attempts(attempts);
        }
        let policy = policy.build()?;
        let guard = Guard { seals: true, ownership: policy.retry_ownership(), ..self.guard() };
        let routes = RouteSettings {
            deployments: std::mem::take(&mut self.deployments),
            primary: self.primary.value.take(),
            router: self.router.value.take(),
            failed_waits: self.spill_after_failed_waits.value,
            reserve: self.spill_reserve.value,
            fail_over: self.fail_over.value,
        };
        let routes = routes.build(policy.latency_budget().duration(), &guard)?;
        Ok(self.assemble(policy, routes, guarded))
    }

    /// Builds from what is known to be good.
    pub(crate) fn assemble(
        self,
        policy: AdmissionPolicy,
        routes: Option<Arc<Routes>>,
        guarded: bool,
    ) -> Admission {
        let (gate, recent_scopes) = match (self.gate.value, self.without_gate.is_set()) {
            (_, true) => (None, RecentScopes::default()),
            (None, false) => (Some(Gate::default()), RecentScopes::default()),
            (Some(gate), false) => {
                // The client's default headers may hold a credential that no layer sees.
                let apart = guarded && !gate.is_first_client();
                (Some(gate), if apart { RecentScopes::apart() } else { RecentScopes::default() })
            }
        };
        let (profile, profiles) = (self.profile.value, self.profiles);
        Admission(Arc::new(Shared {
            guarded,
            any_arrived: AtomicBool::new(false),
            retry_budget: Mutex::new(RetryBudget::new(policy.retry_budget(), clock::now())),
            policy,
            refuses_inside: profile.iter().chain(&profiles).any(Profile::refuses_inside),
            profile,
            profiles,
            last_profile: Mutex::default(),
            gate,
            scope_by: self.scope_by.value,
            recent_scopes,
            settle_from_usage: self.settle_from_usage.value.unwrap_or_default(),
            routes,
            native_spill_overs: AtomicU64::new(0),
            #[cfg(feature = "estimate")]
            estimator: self.estimator.value,
            quotas: Circuits::new(quota::LONGEST),
            chance: self.draws.value.or(self.seed.value).unwrap_or_default(),
            observer: self.observer.value,
            calls: AtomicU64::new(0),
        }))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("policy", &self.policy.value)
            .field("latency_budget", &self.latency_budget.value)
            .field("max_attempts", &self.max_attempts.value)
            .field("profile", &self.profile.value)
            .field("deployments", &self.deployments)
            .finish_non_exhaustive()
    }
}
