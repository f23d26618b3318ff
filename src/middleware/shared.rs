//! What the calls of one admission layer share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Extensions;
use reqwest::Request;
use reqwest_middleware::Result;

use super::retry_budget::RetryBudget;
use crate::clock::Chance;
use crate::error_chain;
use crate::gate::{Gate, ScopeKey};
use crate::observe::{self, CallReport, Observer};
use crate::ownership::RetryConflict;
use crate::policy::{AdmissionPolicy, RetryOwnership};
use crate::reading::Profile;
use crate::scope::RecentScopes;
use crate::spill::{Circuits, Routes};

/// Names the scope of a request.
pub(super) type ScopeFn = dyn Fn(&Request) -> ScopeKey + Send + Sync;

/// The settings of an admission layer, and what its calls share.
pub(super) struct Shared {
    /// Whether a guard stands at the inner end, so that attempts need no seal.
    pub(super) guarded: bool,
    /// Whether a sealed request has ever come through the layers inside.
    pub(super) any_arrived: AtomicBool,
    pub(super) policy: AdmissionPolicy,
    pub(super) profile: Option<Profile>,
    /// Those of single hosts, before the built-in ones.
    pub(super) profiles: Vec<Profile>,
    /// Whether one of these profiles says that a server refuses inside of successes.
    pub(super) refuses_inside: bool,
    /// The host that was asked for last, and its profile: most clients talk to one.
    pub(super) last_profile: Mutex<Option<(Box<str>, Profile)>>,
    pub(super) gate: Option<Gate>,
    pub(super) scope_by: Option<Arc<ScopeFn>>,
    pub(super) recent_scopes: RecentScopes,
    pub(super) settle_from_usage: bool,
    pub(super) routes: Option<Arc<Routes>>,
    /// Calls that the primary spilled over by itself.
    pub(super) native_spill_overs: AtomicU64,
    #[cfg(feature = "estimate")]
    pub(super) estimator: Option<crate::estimate::BodyEstimator>,
    /// The accounts whose quota is exhausted.
    pub(super) quotas: Circuits<ScopeKey>,
    pub(super) chance: Chance,
    pub(super) observer: Option<Arc<dyn Observer>>,
    pub(super) retry_budget: Mutex<RetryBudget>,
    /// How many calls there were.
    pub(super) calls: AtomicU64,
}

impl Shared {
    pub(super) fn profile_of(&self, host: &str) -> Profile {
        if let Some(profile) = &self.profile {
            return profile.clone();
        }
        let mut last = self.last_profile.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, profile)) if **known == *host => profile.clone(),
            _ => {
                let own = Profile::of_host(&self.profiles, host);
                let profile = own.unwrap_or_else(|| Profile::for_host(host)).clone();
                *last = Some((host.into(), profile.clone()));
                profile
            }
        }
    }

    pub(super) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Reports other layers that retry, and refuses the call if one is in the way.
    pub(super) fn own(
        &self,
        announced: Option<RetryConflict>,
        conflict: Option<RetryConflict>,
        report: &CallReport,
        extensions: &mut Extensions,
    ) -> Result<()> {
        for conflict in announced.into_iter().chain(conflict.clone()) {
            self.conflict(conflict, report);
        }
        match conflict {
            Some(conflict) if self.policy.retry_ownership() == RetryOwnership::Enforce => {
                report.put_in(extensions);
                Err(error_chain::raise(conflict))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn conflict(&self, conflict: RetryConflict, report: &CallReport) {
        observe::conflict(&conflict, self.observer.as_ref());
        report.lock().conflicted(conflict);
    }

    pub(super) fn lock_retry_budget(&self) -> MutexGuard<'_, RetryBudget> {
        self.retry_budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("policy", &self.policy)
            .field("profile", &self.profile)
            .field("chance", &self.chance)
            .finish_non_exhaustive()
    }
}
