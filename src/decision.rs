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
//! let (status, received) = (StatusCode::TOO_MANY_REQUESTS, SystemTime::now());
//! let reading = Reading::from_parts(status, &headers, None, received);
//!
//! let now = Instant::now();
//! let call = |budget| Call::new(LatencyBudget::new(budget).deadline(now));
//! let policy = AdmissionPolicy::default();
//!
//! let outcome = Outcome::Response(&reading);
//! let roomy = decide(&policy, outcome, &call(Duration::from_secs(30)), now, Draw::ZERO);
//! let then = now + Duration::from_millis(1500);
//! assert!(matches!(roomy, Decision::Wait { until, .. } if until == then));
//!
//! let tight = decide(&policy, outcome, &call(Duration::from_secs(1)), now, Draw::ZERO);
//! assert_eq!(tight, Decision::SpillOver(Reason::BudgetExceeded));
//! ```

use std::time::{Duration, Instant};

use crate::jitter::Draw;
use crate::policy::AdmissionPolicy;
use crate::reading::{Hint, Reading, Terminal};

mod reason;
mod wait;

pub use reason::Reason;
use wait::RetryPlan;

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
    /// Send again at `until`. More fields may follow.
    #[non_exhaustive]
    Wait {
        /// The moment to send at: never before the advised one, never after the call's deadline.
        until: Instant,
        /// The raw wait, before jitter and margin, counted from the outcome.
        wait: Duration,
        /// The advice, if there was any.
        hint: Option<Hint>,
        /// Whether the re-send is to be taken out of the [retry budget](crate::budget#why-a-retry-budget).
        charged: bool,
    },
    /// Give the call up here, at once, so that something else can take it.
    SpillOver(Reason),
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
    /// No connection came about, so nothing was sent: may be repeated for any method. One that no repeat can mend, such as
    /// that of a certificate or a scheme, is [`Permanent`](Self::Permanent).
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
    max_attempts: Option<u32>,
}

impl Call {
    /// A call of one attempt so far that must be over by `deadline`.
    #[must_use]
    pub const fn new(deadline: Instant) -> Self {
        Self {
            deadline,
            attempts: 1,
            idempotent: true,
            replayable: true,
            retry_budget_open: true,
            max_attempts: None,
        }
    }

    /// Sets the number of attempts made so far, the one that `outcome` is of included.
    #[must_use]
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the most attempts of this call, in place of the policy's.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
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

    /// Sets whether the [retry budget](crate::budget#why-a-retry-budget) has room for one more re-send.
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
///   only if that is harmless.
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
    let wait = RetryPlan::for_refusal(policy, reading, call, at, draw);
    wait.fit(policy, call, at, draw)
}

/// A failure that is not about capacity: repeated if that is harmless and affordable, else handed on as it is.
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
    match RetryPlan::without_advice(policy, call, at, draw).fit(policy, call, at, draw) {
        wait @ Decision::Wait { .. } => wait,
        Decision::Admit | Decision::SpillOver(_) => Decision::Admit,
    }
}

#[cfg(test)]
mod tests;
