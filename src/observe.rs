//! What operators see: every event, field and metric name, the observer, and the report of one call.
//!
//! | name | kind | fields |
//! |---|---|---|
//! | `admission call` | span, one per logical call | `method`, `host`, `attempts`, `decision`, `reason` |
//! | `retry conflict` | event, one per conflict | `kind`, `layer`, `count` |
//! | `admission decision` | event, one per decision | `decision`, `reason`, `attempt`, `status`, `raw_wait_ms`, `wait_ms`, `source`, `request_id`, `failure` |
//! | `admission wait` | event, one per wait that ended | `attempt`, `planned_wait_ms`, `waited_ms` |
//! | `call routed` | event, one per leg on another deployment | `from`, `to`, `reason` |
//! | `native spill-over` | event, one per call that the service spilled over by itself | |
//! | `pace given up` | event, where pacing let through less than half of what the cool-down alone allows; and `pace taken up` | |
//! | `reqwest_admission_decisions_total` | counter, feature `metrics` | `decision`, `reason` |
//! | `reqwest_admission_responses_total` | counter, feature `metrics` | `status` |
//! | `reqwest_admission_wait_seconds` | histogram, feature `metrics` | |
//! | `reqwest_admission_advised_wait_seconds` | histogram, feature `metrics` | |
//! | `reqwest_admission_retry_conflicts_total` | counter, feature `metrics` | `kind` |
//! | `reqwest_admission_routed_total` | counter, feature `metrics` | `to`, `reason` |
//! | `reqwest_admission_native_spill_overs_total` | counter, feature `metrics` | |
//!
//! A decision has the wait as planned; the gate may add to it. `admission wait` and the histogram
//! `reqwest_admission_wait_seconds` have what was really waited, from the receipt of the refusal to the next send.
//!
//! All have the target `reqwest_admission`. An admission is a `DEBUG` event, a wait `INFO`, its end `DEBUG`, a spill-over
//! `WARN`; the span is `INFO`. These names are part of the API. No field holds a path, query, header value (but for the request id, bounded and
//! printable), body or credential.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Span};

use crate::decision::{Decision, Failure, Reason};
use crate::ownership::RetryConflict;
use crate::reading::{Hint, HintSource};
use crate::unharmed::unharmed;

#[cfg(feature = "metrics")]
mod metrics;
mod report;

pub use crate::body::LastResponse;
pub(crate) use report::WeakReport;
pub use report::{AttemptReport, CallReport};

/// The target of all events and spans.
pub const TARGET: &str = "reqwest_admission";

/// Is told about every decision, in the task of the call and before it is carried out.
///
/// A closure `Fn(&DecisionEvent<'_>)` is one. It should return soon: the call waits for it. An observer that panics
/// does not hurt the call.
///
/// ```
/// use reqwest_admission::{Admission, observe::DecisionEvent};
///
/// let admission = Admission::builder()
///     .observer(|event: &DecisionEvent<'_>| println!("{} {:?}", event.decision, event.wait))
///     .build()?;
/// # Ok::<(), reqwest_admission::BuildError>(())
/// ```
pub trait Observer: Send + Sync {
    /// A decision was made.
    fn decided(&self, event: &DecisionEvent<'_>);

    /// A wait of the call with this [number](DecisionEvent::call) is over: as it was planned, and as long as it really was.
    fn waited(&self, call: u64, planned: Duration, waited: Duration) {
        let _ = (call, planned, waited);
    }

    /// Another layer that retries showed itself.
    fn conflicted(&self, conflict: &RetryConflict) {
        let _ = conflict;
    }
}

impl<F: Fn(&DecisionEvent<'_>) + Send + Sync> Observer for F {
    fn decided(&self, event: &DecisionEvent<'_>) {
        self(event);
    }
}

/// One decision, as events and observers see it.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct DecisionEvent<'a> {
    /// Which call of this admission layer the decision is about: the same number for all decisions of one call.
    pub call: u64,
    /// The host that the attempt was sent to.
    pub host: &'a str,
    /// `admit`, `wait` or `spill_over`.
    pub decision: &'static str,
    /// Why the call is spilled over.
    pub reason: Option<Reason>,
    /// Which attempt of the call this is about, counted from 1; 0 for a wait at the gate before the first.
    pub attempt: u32,
    /// The response's status.
    pub status: Option<StatusCode>,
    /// Why there is no response.
    pub failure: Option<Failure>,
    /// The wait before margin and jitter.
    pub raw_wait: Option<Duration>,
    /// The wait as planned, with margin and jitter. The gate may add to it; see [`Observer::waited`].
    pub wait: Option<Duration>,
    /// The field that the advice was read from.
    pub source: Option<&'a HintSource>,
    /// The server's id of the request.
    pub request_id: Option<&'a str>,
}

impl<'a> DecisionEvent<'a> {
    /// What an attempt's report says, for those who look on.
    pub(crate) fn of(report: &'a AttemptReport) -> Self {
        let advised = report.hint.as_ref();
        let (reason, raw_wait) = match &report.decision {
            Decision::Admit => (None, advised.map(Hint::wait)),
            Decision::Wait { wait, .. } => (None, Some(*wait)),
            Decision::SpillOver(reason) => (Some(*reason), advised.map(Hint::wait)),
        };
        Self {
            decision: name(&report.decision),
            reason,
            status: report.status,
            failure: report.failure,
            raw_wait,
            wait: report.wait,
            source: advised.map(Hint::source),
            request_id: report.request_id.as_deref(),
            ..Self::default()
        }
    }
}

/// Emits that a scope's pace was given up, or taken up again.
pub(crate) fn pace(given_up: bool) {
    if given_up {
        tracing::event!(target: TARGET, Level::WARN, "pace given up");
    } else {
        tracing::event!(target: TARGET, Level::INFO, "pace taken up");
    }
}

/// Emits a decision: to tracing, the metrics and the observer.
pub(crate) fn emit(event: &DecisionEvent<'_>, observer: Option<&Arc<dyn Observer>>) {
    #[cfg(feature = "metrics")]
    metrics::decision(event);
    macro_rules! emit {
        ($level:expr) => {
            tracing::event!(
                target: TARGET,
                $level,
                decision = event.decision,
                reason = event.reason.map(Reason::as_str),
                attempt = event.attempt,
                status = event.status.map(|status| status.as_u16()),
                failure = event.failure.map(Failure::as_str),
                raw_wait_ms = event.raw_wait.map(milliseconds),
                wait_ms = event.wait.map(milliseconds),
                source = event.source.map(display),
                request_id = event.request_id,
                "admission decision"
            )
        };
    }
    match event.decision {
        ADMIT => emit!(Level::DEBUG),
        WAIT => emit!(Level::INFO),
        _ => emit!(Level::WARN),
    }
    if let Some(observer) = observer {
        // The call belongs to the caller; a fault in what looks on must not end it.
        let _ = unharmed(|| observer.decided(event));
    }
}

/// Emits the end of a wait.
pub(crate) fn waited(
    call: u64,
    attempt: u32,
    planned: Duration,
    waited: Duration,
    observer: Option<&Arc<dyn Observer>>,
) {
    #[cfg(feature = "metrics")]
    metrics::waited(waited);
    tracing::event!(
        target: TARGET,
        Level::DEBUG,
        attempt,
        planned_wait_ms = milliseconds(planned),
        waited_ms = milliseconds(waited),
        "admission wait"
    );
    if let Some(observer) = observer {
        let _ = unharmed(|| observer.waited(call, planned, waited));
    }
}

/// Emits that another layer retries.
pub(crate) fn conflict(conflict: &RetryConflict, observer: Option<&Arc<dyn Observer>>) {
    #[cfg(feature = "metrics")]
    metrics::conflict(conflict);
    tracing::event!(
        target: TARGET,
        Level::WARN,
        kind = conflict.kind().as_str(),
        layer = conflict.layer(),
        count = conflict.count(),
        "retry conflict"
    );
    if let Some(observer) = observer {
        let _ = unharmed(|| observer.conflicted(conflict));
    }
}

/// Emits that a call goes on to another deployment.
pub(crate) fn routed(from: &str, to: &str, reason: Reason) {
    #[cfg(feature = "metrics")]
    metrics::routed(to, reason);
    tracing::event!(target: TARGET, Level::INFO, from, to, reason = reason.as_str(), "call routed");
}

/// Emits that a service spilled a call over by itself.
pub(crate) fn native_spill_over() {
    #[cfg(feature = "metrics")]
    metrics::native_spill_over();
    tracing::event!(target: TARGET, Level::INFO, "native spill-over");
}

const ADMIT: &str = "admit";
pub(crate) const WAIT: &str = "wait";
const SPILL_OVER: &str = "spill_over";

/// The name of a decision in events.
pub(crate) const fn name(decision: &Decision) -> &'static str {
    match decision {
        Decision::Admit => ADMIT,
        Decision::Wait { .. } => WAIT,
        Decision::SpillOver(_) => SPILL_OVER,
    }
}

/// The span of one logical call; none if nobody looks at it.
pub(crate) fn call_span(request: &reqwest::Request) -> Span {
    // The macro puts the fields together before it finds out that there is no subscriber.
    if LevelFilter::current() < Level::INFO {
        return Span::none();
    }
    tracing::info_span!(
        target: TARGET,
        "admission call",
        method = request.method().as_str(),
        host = request.url().host_str().unwrap_or_default(),
        attempts = Empty,
        decision = Empty,
        reason = Empty
    )
}

/// Fills in what is known of a call at its end.
pub(crate) fn close(span: &Span, attempts: u32, decision: &Decision) {
    if span.is_none() {
        return;
    }
    span.record("attempts", attempts);
    span.record("decision", name(decision));
    if let Decision::SpillOver(reason) = decision {
        span.record("reason", reason.as_str());
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
