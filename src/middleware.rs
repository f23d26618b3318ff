//! [`Admission`], the middleware: send, read, decide, then wait or return.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};
use tracing::Instrument as _;

use crate::budget::RetryBudget;
use crate::clock::Chance;
use crate::error_chain;
use crate::gate::{Gate, ScopeKey};
use crate::observe::{self, CallReport, Observer};
use crate::ownership::RetryConflict;
use crate::policy::{AdmissionPolicy, RetryOwnership};
use crate::reading::Profile;
use crate::scope::RecentScopes;
use crate::spill::Routes;

mod acquire;
mod attempt;
mod builder;
mod call;
mod entry;
mod finish;
mod leg_time;
mod legs;
mod read;
mod replay;
mod report;
mod routing;
mod sent;

use call::LogicalCall;

pub use builder::{AdmissionBuilder, BuildError};

/// Admits calls as the server's capacity allows: a [`reqwest_middleware::Middleware`].
///
/// It sends, reads what the response says about capacity, decides, and then waits on tokio's clock or returns. Put it
/// outermost, so that a wait covers all other layers; see the front page for the order with others.
///
/// Cloning is cheap, and clones share the retry budget.
///
/// # Cancel safety
///
/// Dropping the future of a call at any point ends it: nothing is sent after the drop and no task or timer is left.
///
/// # Panics
///
/// None of its own; tokio's timer must be running, which `#[tokio::main]` and `enable_all()` see to.
///
/// ```
/// use reqwest_admission::Admission;
///
/// let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
///     .with(Admission::default())
///     .build();
/// ```
#[derive(Debug, Clone)]
pub struct Admission(Arc<Shared>);

/// Names the scope of a request.
pub(crate) type ScopeFn = dyn Fn(&Request) -> ScopeKey + Send + Sync;

struct Shared {
    /// Whether a guard stands at the inner end, so that attempts need no seal.
    guarded: bool,
    /// Whether a sealed request has ever come through the layers inside.
    any_arrived: AtomicBool,
    policy: AdmissionPolicy,
    profile: Option<Profile>,
    /// Those of single hosts, before the built-in ones.
    profiles: Vec<Profile>,
    /// Whether one of these profiles says that a server refuses inside of successes.
    refuses_inside: bool,
    /// The host that was asked for last, and its profile: most clients talk to one.
    last_profile: Mutex<Option<(Box<str>, Profile)>>,
    gate: Option<Gate>,
    scope_by: Option<Arc<ScopeFn>>,
    recent_scopes: RecentScopes,
    settle_from_usage: bool,
    routes: Option<Arc<Routes>>,
    /// Calls that the primary spilled over by itself.
    native_spill_overs: AtomicU64,
    #[cfg(feature = "estimate")]
    estimator: Option<crate::estimate::BodyEstimator>,
    chance: Chance,
    observer: Option<Arc<dyn Observer>>,
    retry_budget: Mutex<RetryBudget>,
    /// How many calls there were.
    calls: AtomicU64,
}

impl Admission {
    /// A builder for anything but the defaults.
    #[must_use]
    pub fn builder() -> AdmissionBuilder {
        AdmissionBuilder::default()
    }

    /// How many calls the service spilled over by itself so far (`x-ms-is-spilled-over: true`). Counted where there is a
    /// gate or an observer, for whom responses are read.
    #[must_use]
    pub fn native_spill_overs(&self) -> u64 {
        self.0.native_spill_overs.load(Ordering::Relaxed)
    }
}

impl Default for Admission {
    fn default() -> Self {
        AdmissionBuilder::default().with_policy(AdmissionPolicy::default(), None)
    }
}

#[async_trait]
impl Middleware for Admission {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut request = Box::new(request);
        let mut call = LogicalCall::begin(&self.0, &mut request, extensions)?;
        let span = call.span.clone();
        let outcome = call.run(request, extensions, &next).instrument(span).await;
        call.run.ended();
        if outcome.is_err() {
            call.report.leave_in(extensions);
        }
        outcome
    }
}

impl Shared {
    fn profile_of(&self, host: &str) -> Profile {
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

    fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells of other layers that retry, and refuses the call if one is in the way.
    fn own(
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
                report.leave_in(extensions);
                Err(error_chain::raise(conflict))
            }
            _ => Ok(()),
        }
    }

    fn conflict(&self, conflict: RetryConflict, report: &CallReport) {
        observe::conflict(&conflict, self.observer.as_ref());
        report.conflicted(conflict);
    }

    fn lock_retry_budget(&self) -> std::sync::MutexGuard<'_, RetryBudget> {
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
