//! The admission decision: what to do about one outcome of one attempt.
//!
//! Pure: [`decide`] is a function of the outcome, the call so far, the moment and one random [`Draw`]. It reads no
//! clock, and gives the same answer for the same arguments, so that other stacks can use it without any client:
//!
//! ```
//! use std::time::{Duration, Instant, SystemTime};
//! use http::{HeaderMap, HeaderValue, StatusCode};
//! use reqwest_admission::decision::{Call, Decision, Outcome, Reason, decide};
//! use reqwest_admission::{AdmissionPolicy, LatencyBudget, Reading, jitter::Draw};
//!
//! let mut headers = HeaderMap::new();
//! headers.insert("retry-after-ms", HeaderValue::from_static("1500"));
//! let reading = Reading::from_parts(StatusCode::TOO_MANY_REQUESTS, &headers, None, SystemTime::now());
//!
//! let now = Instant::now();
//! let call = |budget| Call::new(LatencyBudget::new(budget).deadline(now));
//! let policy = AdmissionPolicy::default();
//!
//! let roomy = decide(&policy, Outcome::Response(&reading), &call(Duration::from_secs(30)), now, Draw::ZERO);
//! assert!(matches!(roomy, Decision::Wait { until, .. } if until == now + Duration::from_millis(1500)));
//!
//! let tight = decide(&policy, Outcome::Response(&reading), &call(Duration::from_secs(1)), now, Draw::ZERO);
//! assert_eq!(tight, Decision::SpillOver(Reason::BudgetExceeded));
//! ```

use std::fmt;
use std::time::{Duration, Instant};

use crate::jitter::{Draw, exponential, full_jitter};
use crate::policy::{AdmissionPolicy, RetryCharge};
use crate::reading::{Hint, HintKind, Reading, Terminal};

/// What to do about the outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "three answers are the whole point; a fourth is a new major version"
)]
pub enum Decision {
    /// Hand the outcome to the caller as it is: a success, an error of the caller's own making, or a failure that
    /// is not about capacity and may not be repeated.
    Admit,
    /// Send again at `until`.
    Wait {
        /// The moment to send at: never before the advised one, never after the call's deadline.
        until: Instant,
        /// The raw wait, before jitter and margin, counted from the outcome.
        wait: Duration,
        /// The advice, where there was any.
        hint: Option<Hint>,
        /// Whether the re-send is to be taken out of the [retry budget](crate::budget::RetryBudget).
        charged: bool,
    },
    /// Give the call up here, at once, so that something else can take it.
    SpillOver(Reason),
}

/// Why a call is spilled over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The wait does not fit into what is left of the latency budget.
    BudgetExceeded,
    /// The call has had all its attempts.
    AttemptsExhausted,
    /// Credit, spend cap or a long-lived quota is used up: no wait helps.
    QuotaExhausted,
    /// The request's body is a stream that cannot be sent twice.
    BodyNotReplayable,
    /// The client as a whole has re-sent its share.
    RetryBudgetSpent,
    /// The server says not to repeat the request.
    ServerDirective,
    /// The request is larger than the server's limit will ever take.
    RequestTooLarge,
    /// As many calls wait at the gate as may.
    QueueFull,
    /// The wait at the gate would be longer than the gate's own bound.
    QueueWaitExceeded,
    /// Honoured waits were in vain too often in a row, and another deployment can take the call.
    WaitsFailed,
    /// A router chose another deployment, or to give up.
    RouterChoice,
    /// Another call is finding out whether the primary takes calls again.
    AwaitingProbe,
    /// No connection to a deployment that calls are routed to.
    Unreachable,
    /// The request's path or body is none that the deployment can take.
    NotForTarget,
}

impl Reason {
    /// The reason's name in snake case, as events and metrics have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BudgetExceeded => "budget_exceeded",
            Self::AttemptsExhausted => "attempts_exhausted",
            Self::QuotaExhausted => "quota_exhausted",
            Self::BodyNotReplayable => "body_not_replayable",
            Self::RetryBudgetSpent => "retry_budget_spent",
            Self::ServerDirective => "server_directive",
            Self::RequestTooLarge => "request_too_large",
            Self::QueueFull => "queue_full",
            Self::QueueWaitExceeded => "queue_wait_exceeded",
            Self::WaitsFailed => "waits_failed",
            Self::RouterChoice => "router_choice",
            Self::AwaitingProbe => "awaiting_probe",
            Self::Unreachable => "unreachable",
            Self::NotForTarget => "not_for_target",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BudgetExceeded => "the wait exceeds the latency budget",
            Self::AttemptsExhausted => "all attempts are used",
            Self::QuotaExhausted => "the quota is exhausted",
            Self::BodyNotReplayable => "the request body cannot be sent again",
            Self::RetryBudgetSpent => "the retry budget is spent",
            Self::ServerDirective => "the server says not to repeat the request",
            Self::RequestTooLarge => "the request is larger than the limit",
            Self::QueueFull => "too many calls are waiting",
            Self::QueueWaitExceeded => "the wait at the gate exceeds its bound",
            Self::WaitsFailed => "honoured waits were in vain",
            Self::RouterChoice => "a router chose so",
            Self::AwaitingProbe => "the primary is being probed",
            Self::Unreachable => "the deployment cannot be reached",
            Self::NotForTarget => "the request is none for the deployment",
        })
    }
}

/// What came of an attempt.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Outcome<'a> {
    /// A response, as read.
    Response(&'a Reading),
    /// No response.
    Failure(Failure),
}

/// Why there is no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// No connection came about, so nothing was sent: may be repeated for any method.
    Connect,
    /// The connection was lost or the attempt timed out: the server may have processed the request.
    Unknown,
    /// Anything else, for example an error of another layer or a bad request: never repeated.
    Permanent,
}

impl Failure {
    /// The failure's name in snake case, as events have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Unknown => "unknown",
            Self::Permanent => "permanent",
        }
    }
}

/// What matters of the logical call so far.
///
/// Made for a first attempt of an idempotent, replayable request; the setters say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    deadline: Instant,
    attempts: u32,
    idempotent: bool,
    replayable: bool,
    retry_budget_open: bool,
}

impl Call {
    /// A call of one attempt so far that must be over by `deadline`.
    #[must_use]
    pub const fn new(deadline: Instant) -> Self {
        Self { deadline, attempts: 1, idempotent: true, replayable: true, retry_budget_open: true }
    }

    /// Sets the number of attempts made so far, the one that `outcome` is of included.
    #[must_use]
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets whether the request may be processed twice: an idempotent method ([RFC 9110 §9.2.2]) or an
    /// `Idempotency-Key`.
    ///
    /// [RFC 9110 §9.2.2]: https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2
    #[must_use]
    pub const fn idempotent(mut self, idempotent: bool) -> Self {
        self.idempotent = idempotent;
        self
    }

    /// Sets whether the request is at hand to be sent again.
    #[must_use]
    pub const fn replayable(mut self, replayable: bool) -> Self {
        self.replayable = replayable;
        self
    }

    /// Sets whether the [retry budget](crate::budget::RetryBudget) has room for one more re-send.
    #[must_use]
    pub const fn retry_budget_open(mut self, open: bool) -> Self {
        self.retry_budget_open = open;
        self
    }
}

/// Decides about one `outcome` that was received at `at`.
///
/// The laws it keeps:
///
/// * Advice is a floor: `until` is never before `at` plus the advised wait; jitter and margin only add.
/// * The whole raw wait is tested against the deadline: equal or less waits, more spills over. Jitter is fitted into
///   what is left, so it never turns the decision.
/// * Missing advice is not zero: exponential backoff with full jitter; advice of zero is raised to a growing floor.
/// * A refusal before processing (429, 529, 503 with advice) may be repeated for any method, an unclear outcome
///   only where that is harmless.
/// * Terminal is terminal.
#[must_use]
pub fn decide(
    policy: &AdmissionPolicy,
    outcome: Outcome<'_>,
    call: &Call,
    at: Instant,
    draw: Draw,
) -> Decision {
    match outcome {
        Outcome::Response(reading) => decide_response(policy, reading, call, at, draw),
        Outcome::Failure(failure) => {
            let repeatable = match failure {
                Failure::Connect => true,
                Failure::Unknown => call.idempotent,
                Failure::Permanent => false,
            };
            repeat_unclear(policy, repeatable, call, at, draw)
        }
    }
}

fn decide_response(
    policy: &AdmissionPolicy,
    reading: &Reading,
    call: &Call,
    at: Instant,
    draw: Draw,
) -> Decision {
    if !reading.is_throttled() {
        return repeat_unclear(policy, reading.leaves_outcome_open() && call.idempotent, call, at, draw);
    }
    if let Some(terminal) = reading.terminal() {
        return Decision::SpillOver(match terminal {
            Terminal::QuotaExhausted => Reason::QuotaExhausted,
            Terminal::ServerDirective => Reason::ServerDirective,
            Terminal::RequestTooLarge => Reason::RequestTooLarge,
        });
    }
    if !reading.is_refused_unprocessed() && !call.idempotent {
        return Decision::Admit;
    }
    let wait = Wait::for_refusal(policy, reading, call, at, draw);
    wait.fit(policy, call, at, draw)
}

/// A failure that is not about capacity: repeated where that is harmless and affordable, else handed on as it is.
fn repeat_unclear(
    policy: &AdmissionPolicy,
    repeatable: bool,
    call: &Call,
    at: Instant,
    draw: Draw,
) -> Decision {
    if !repeatable {
        return Decision::Admit;
    }
    match Wait::without_advice(policy, call, at, draw).fit(policy, call, at, draw) {
        wait @ Decision::Wait { .. } => wait,
        Decision::Admit | Decision::SpillOver(_) => Decision::Admit,
    }
}

/// A wait that is wanted, before it is known to fit.
struct Wait {
    /// Tested as a whole against the deadline, never shortened.
    raw: Duration,
    /// Only where it still fits.
    margin: Duration,
    jittered: bool,
    hint: Option<Hint>,
    advised: bool,
}

impl Wait {
    fn for_refusal(
        policy: &AdmissionPolicy,
        reading: &Reading,
        call: &Call,
        at: Instant,
        draw: Draw,
    ) -> Self {
        let backoff = policy.backoff();
        let repeats = call.attempts.saturating_sub(1);
        match reading.hint() {
            Some(hint) if hint.wait() > Duration::ZERO => Self {
                raw: hint.wait(),
                margin: if hint.kind() == HintKind::WindowReset {
                    policy.reset_margin()
                } else {
                    Duration::ZERO
                },
                jittered: true,
                hint: Some(hint.clone()),
                advised: true,
            },
            // "Now", from a server that has just refused: honest for a concurrency limit, a rounding error elsewhere.
            Some(hint) => Self {
                raw: exponential(backoff.floor, backoff.cap, repeats),
                margin: Duration::ZERO,
                jittered: true,
                hint: Some(hint.clone()),
                advised: false,
            },
            None => match reading.backoff_floor() {
                Some(floor) => Self {
                    raw: exponential(floor, Duration::MAX, repeats),
                    margin: Duration::ZERO,
                    jittered: true,
                    hint: None,
                    advised: false,
                },
                None => Self::without_advice(policy, call, at, draw),
            },
        }
    }

    fn without_advice(policy: &AdmissionPolicy, call: &Call, at: Instant, draw: Draw) -> Self {
        let backoff = policy.backoff();
        let left = call.deadline.saturating_duration_since(at);
        // Nobody named this wait, so drawing it from what is left of the budget breaks no promise, and no
        // unlucky draw turns a call away that had time. Half of it belongs to the attempt itself.
        let cap = backoff.cap.min(left.checked_div(2).unwrap_or_default());
        let raw =
            full_jitter(backoff.base, cap, call.attempts.saturating_sub(1), draw).max(backoff.floor.min(cap));
        Self { raw, margin: Duration::ZERO, jittered: false, hint: None, advised: false }
    }

    fn fit(self, policy: &AdmissionPolicy, call: &Call, at: Instant, draw: Draw) -> Decision {
        let left = call.deadline.saturating_duration_since(at);
        // A deadline that has come leaves nothing to wait in, not even a wait of zero.
        if self.raw > left || left.is_zero() {
            return Decision::SpillOver(Reason::BudgetExceeded);
        }
        if call.attempts >= policy.max_attempts() {
            return Decision::SpillOver(Reason::AttemptsExhausted);
        }
        if !call.replayable {
            return Decision::SpillOver(Reason::BodyNotReplayable);
        }
        let charged = !self.advised || policy.retry_budget().charged() == RetryCharge::All;
        if charged && !call.retry_budget_open {
            return Decision::SpillOver(Reason::RetryBudgetSpent);
        }
        let jitter = if self.jittered { policy.jitter().on_top_of(self.raw, draw) } else { Duration::ZERO };
        // Half of what is left beyond the raw wait belongs to the attempt itself.
        let room = left.saturating_sub(self.raw).checked_div(2).unwrap_or_default();
        let planned = self.raw.saturating_add(self.margin.saturating_add(jitter).min(room));
        match at.checked_add(planned) {
            Some(until) => Decision::Wait { until, wait: self.raw, hint: self.hint, charged },
            None => Decision::SpillOver(Reason::BudgetExceeded),
        }
    }
}

#[cfg(test)]
mod tests;
