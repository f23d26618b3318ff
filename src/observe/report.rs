//! The report of one logical call.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::{Extensions, StatusCode};

use crate::body::LastResponse;
use crate::decision::{Decision, Failure};
use crate::gate::Ledger;
use crate::ownership::{CallState, RetryConflict};
use crate::pace::TokenUsage;
use crate::reading::{Hint, NativeSpillOver};
use crate::spill::{LegReport, Quiet, SpillOver};

/// What happened to one logical call: attempts, waits, hints, request ids, the decision.
///
/// A call finds its report in `response.extensions()`. To have it after an error as well, or past a layer that
/// drops extensions or wraps errors, pass one in and keep a clone:
///
/// ```
/// # async fn example(client: reqwest_middleware::ClientWithMiddleware) {
/// use reqwest_admission::CallReport;
///
/// let report = CallReport::new();
/// let call = client.get("https://api.example/").with_extension(report.clone());
/// let outcome = call.send().await;
/// println!("{} attempts, waited {:?}", report.attempts(), report.waited());
/// # }
/// ```
///
/// Cloning is cheap and clones share the report. Pass a new one to each call: a report that is used again goes on
/// counting.
#[derive(Debug, Clone, Default)]
pub struct CallReport(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    attempts: AtomicU32,
    record: Mutex<Record>,
    state: CallState,
}

/// A report that is not kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct WeakReport(Weak<Shared>);

impl WeakReport {
    pub(crate) fn upgrade(&self) -> Option<CallReport> {
        self.0.upgrade().map(CallReport)
    }
}

/// What happened to the call. Events, metrics and the signal are views of it.
#[derive(Debug, Default)]
pub(crate) struct Record {
    waited: Duration,
    attempts: Vec<AttemptReport>,
    /// How the call ended, if not with what was decided about its newest attempt.
    pub(crate) end: Option<Decision>,
    pub(crate) ledger: Option<Arc<Ledger>>,
    pub(crate) spill_over: Option<SpillOver>,
    pub(crate) last: Option<LastResponse>,
    conflicts: Vec<RetryConflict>,
    pub(crate) legs: Vec<LegReport>,
    pub(crate) native: Quiet,
}

impl Record {
    /// An attempt was decided about.
    pub(crate) fn decided(&mut self, attempt: AttemptReport) {
        self.end = None;
        self.attempts.truncate(MAX_DETAILS.saturating_sub(1));
        self.attempts.push(attempt);
    }

    /// A wait is over.
    pub(crate) fn waited(&mut self, waited: Duration) {
        self.waited = self.waited.saturating_add(waited);
        if let Some(newest) = self.attempts.last_mut().filter(|newest| newest.wait.is_some()) {
            newest.waited = Some(waited);
        }
    }

    /// Another layer that retries showed itself.
    pub(crate) fn conflicted(&mut self, conflict: RetryConflict) {
        if self.conflicts.len() < MAX_DETAILS {
            self.conflicts.push(conflict);
        }
    }
}

/// More attempts than any policy allows; what a report used again keeps is bounded by it.
const MAX_DETAILS: usize = 128;

/// One attempt of a call and what was decided about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptReport {
    pub(crate) status: Option<StatusCode>,
    pub(crate) failure: Option<Failure>,
    pub(crate) request_id: Option<String>,
    pub(crate) hint: Option<Hint>,
    pub(crate) decision: Decision,
    pub(crate) wait: Option<Duration>,
    pub(crate) waited: Option<Duration>,
}

impl AttemptReport {
    /// The response's status; `None` if there was no response.
    #[must_use]
    pub const fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// Why there is no response.
    #[must_use]
    pub const fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// The server's id of the request.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// The advice of the response, and the field it was read from.
    #[must_use]
    pub const fn hint(&self) -> Option<&Hint> {
        self.hint.as_ref()
    }

    /// What was decided.
    #[must_use]
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The wait as planned, jitter included. The gate may add to it.
    #[must_use]
    pub const fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// The wait as it really was, from the outcome of this attempt until the gate admitted the next one or turned it away.
    #[must_use]
    pub const fn waited(&self) -> Option<Duration> {
        self.waited
    }
}

impl CallReport {
    /// An empty report.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What single retry ownership remembers beside the report: of the call that the report was made for, if of any.
    pub(crate) fn state(&self) -> &CallState {
        &self.0.state
    }

    /// Puts the report where a caller who keeps the extensions of the call finds it: an error has no place for it.
    pub(crate) fn put_in(&self, extensions: &mut Extensions) {
        extensions.get_or_insert_with(|| self.clone());
    }

    pub(crate) fn downgrade(&self) -> WeakReport {
        WeakReport(Arc::downgrade(&self.0))
    }

    /// How many times the request was sent.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.0.attempts.load(Ordering::Relaxed)
    }

    /// How long the call has waited between attempts.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.lock().waited
    }

    /// The attempts in order; at most the first 127 and the newest.
    #[must_use]
    pub fn details(&self) -> Vec<AttemptReport> {
        self.lock().attempts.clone()
    }

    /// The request ids of all attempts whose responses had one.
    #[must_use]
    pub fn request_ids(&self) -> Vec<String> {
        self.details().into_iter().filter_map(|attempt| attempt.request_id).collect()
    }

    /// The newest decision; at the end of a call, how it ended. So a call that the gate turns away after a refusal ends in
    /// [`Decision::SpillOver`], though the refusal was answered with a wait.
    #[must_use]
    pub fn decision(&self) -> Option<Decision> {
        let inner = self.lock();
        inner.end.clone().or_else(|| Some(inner.attempts.last()?.decision.clone()))
    }

    /// The server's last response that did not reach the caller as one: a refusal, or a failure that was repeated. It is
    /// here also if the call ended in an error of its own, after a later attempt or on another deployment.
    #[must_use]
    pub fn last_response(&self) -> Option<LastResponse> {
        self.lock().last.clone()
    }

    /// The signal, if the call was spilled over.
    #[must_use]
    pub fn spill_over(&self) -> Option<SpillOver> {
        self.lock().spill_over.clone()
    }

    /// Settles the call: what it has really taken replaces its estimate, up or down, in the window of the reservation. May be
    /// called again with better numbers, also after the body's end.
    ///
    /// Returns whether there was anybody to tell: not without a gate, before the response, or once the scope is gone.
    #[must_use = "false where there was nobody to tell"]
    pub fn settle(&self, usage: TokenUsage) -> bool {
        let ledger = self.lock().ledger.clone();
        ledger.is_some_and(|ledger| ledger.settle(usage))
    }

    /// What showed itself of other layers that retry.
    #[must_use]
    pub fn conflicts(&self) -> Vec<RetryConflict> {
        self.lock().conflicts.clone()
    }

    pub(crate) fn sent(&self) {
        self.0.attempts.fetch_add(1, Ordering::Relaxed);
    }

    /// The call's way over several deployments, from where to where, why, and what each leg cost; the last has the
    /// answer, or the reason why no answer came. Empty for a call that stayed with the primary.
    #[must_use]
    pub fn legs(&self) -> Vec<LegReport> {
        self.lock().legs.clone()
    }

    /// The marks of a service that spilled the call over by itself, or tried to
    /// ([Azure OpenAI's spill-over](https://learn.microsoft.com/azure/ai-foundry/openai/how-to/spillover-traffic-management)).
    #[must_use]
    pub fn native_spill_over(&self) -> Option<NativeSpillOver> {
        self.lock().native.0.clone()
    }

    /// A report is worth nothing if one panic makes all later ones panic.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
