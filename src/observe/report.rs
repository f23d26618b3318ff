//! The report of one logical call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;

use crate::decision::{Decision, Failure};
use crate::gate::Ledger;
use crate::ownership::RetryConflict;
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
/// let outcome = client.get("https://api.example/").with_extension(report.clone()).send().await;
/// println!("{} attempt(s), waited {:?}", report.attempts(), report.waited());
/// # }
/// ```
///
/// Cloning is cheap and clones share the report. Pass a new one to each call: a report that is used again goes on
/// counting.
#[derive(Debug, Clone, Default)]
pub struct CallReport(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    attempts: u32,
    waited: Duration,
    /// The newest attempt, apart from the others so that a call of one attempt allocates nothing for it.
    newest: Option<AttemptReport>,
    earlier: Vec<AttemptReport>,
    spill_over: Option<SpillOver>,
    conflicts: Vec<RetryConflict>,
    ledger: Option<Arc<Ledger>>,
    legs: Vec<LegReport>,
    native: Quiet,
}

/// More attempts than any policy allows; what a report used again keeps is bounded by it.
const MAX_DETAILS: usize = 128;

/// One attempt of a call and what was decided about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttemptReport {
    /// The response's status.
    pub status: Option<StatusCode>,
    /// Why there is no response.
    pub failure: Option<Failure>,
    /// The server's id of the request.
    pub request_id: Option<String>,
    /// The advice of the response.
    pub hint: Option<Hint>,
    /// What was decided.
    pub decision: Decision,
    /// The wait as planned, jitter included.
    pub wait: Option<Duration>,
}

impl CallReport {
    /// An empty report.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many times the request was sent.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.lock().attempts
    }

    /// How long the call has waited between attempts.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.lock().waited
    }

    /// The attempts in order; at most the first 127 and the newest.
    #[must_use]
    pub fn details(&self) -> Vec<AttemptReport> {
        let inner = self.lock();
        inner.earlier.iter().chain(&inner.newest).cloned().collect()
    }

    /// The request ids of all attempts whose responses had one.
    #[must_use]
    pub fn request_ids(&self) -> Vec<String> {
        self.details().into_iter().filter_map(|attempt| attempt.request_id).collect()
    }

    /// The newest decision.
    #[must_use]
    pub fn decision(&self) -> Option<Decision> {
        self.lock().newest.as_ref().map(|newest| newest.decision.clone())
    }

    /// The signal, if the call was spilled over.
    #[must_use]
    pub fn spill_over(&self) -> Option<SpillOver> {
        self.lock().spill_over.clone()
    }

    /// Tells the gate what the call has really taken, in place of its estimate; the difference is booked in both
    /// directions, in the window of the reservation. May be told again with better numbers, also after the body's end.
    ///
    /// Returns whether there was anybody to tell: not without a gate, before the response, or once the scope is gone.
    #[must_use = "false where there was nobody to tell"]
    pub fn settle(&self, usage: TokenUsage) -> bool {
        let ledger = self.lock().ledger.clone();
        ledger.is_some_and(|ledger| ledger.settle(usage))
    }

    /// The call's way over several deployments, from where to where, why, and what each leg cost; the last has the
    /// answer, or the reason why there is none. Empty for a call that stayed with the primary.
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

    pub(crate) fn went(&self, legs: Vec<LegReport>) {
        if !legs.is_empty() {
            self.lock().legs = legs;
        }
    }

    pub(crate) fn spilled_over_natively(&self, native: &NativeSpillOver) {
        self.lock().native = Quiet(Some(native.clone()));
    }

    pub(crate) fn holds(&self, ledger: Arc<Ledger>) {
        self.lock().ledger = Some(ledger);
    }

    /// What showed itself of other layers that retry.
    #[must_use]
    pub fn conflicts(&self) -> Vec<RetryConflict> {
        self.lock().conflicts.clone()
    }

    pub(crate) fn conflicted(&self, conflict: RetryConflict) {
        let mut inner = self.lock();
        if inner.conflicts.len() < MAX_DETAILS {
            inner.conflicts.push(conflict);
        }
    }

    pub(crate) fn sent(&self) {
        let mut inner = self.lock();
        inner.attempts = inner.attempts.saturating_add(1);
    }

    pub(crate) fn decided(&self, attempt: AttemptReport) {
        let mut inner = self.lock();
        if let Some(earlier) = inner.newest.replace(attempt)
            && inner.earlier.len() < MAX_DETAILS.saturating_sub(1)
        {
            inner.earlier.push(earlier);
        }
    }

    pub(crate) fn waited_for(&self, wait: Duration) {
        let mut inner = self.lock();
        inner.waited = inner.waited.saturating_add(wait);
    }

    pub(crate) fn spilled_over(&self, spill: SpillOver) {
        self.lock().spill_over = Some(spill);
    }

    /// A report is worth nothing if one panic makes all later ones panic.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
