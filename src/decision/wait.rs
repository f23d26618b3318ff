//! How long to wait, and whether that fits into what is left of the call.

use std::time::{Duration, Instant};

use super::{Call, Decision, Reason};
use crate::jitter::{Draw, exponential, full_jitter};
use crate::policy::{AdmissionPolicy, RetryCharge};
use crate::reading::{Hint, HintKind, Reading};

/// A wait that is wanted, before it is known to fit.
pub(super) struct RetryPlan {
    /// Tested as a whole against the deadline, never shortened.
    raw: Duration,
    /// Only if it still fits.
    margin: Duration,
    jittered: bool,
    hint: Option<Hint>,
    advised: bool,
}

impl RetryPlan {
    pub(super) fn for_refusal(
        policy: &AdmissionPolicy,
        reading: &Reading,
        call: &Call,
        at: Instant,
        draw: Draw,
    ) -> Self {
        let (backoff, repeats) = (policy.backoff(), call.attempts.saturating_sub(1));
        let wait = |raw, advised| Self {
            raw,
            margin: Duration::ZERO,
            jittered: true,
            hint: reading.hint().cloned(),
            advised,
        };
        match (reading.hint(), reading.backoff_floor()) {
            (Some(hint), _) if hint.wait() > Duration::ZERO => {
                let is_reset = hint.kind() == HintKind::WindowReset;
                let margin = if is_reset { policy.reset_margin() } else { Duration::ZERO };
                Self { margin, ..wait(hint.wait(), true) }
            }
            // "Now", from a server that has just refused: honest for a concurrency limit, a rounding error elsewhere.
            (Some(_), _) => wait(exponential(backoff.floor, backoff.cap, repeats), false),
            (None, Some(floor)) => wait(exponential(floor, Duration::MAX, repeats), false),
            (None, None) => Self::without_advice(policy, call, at, draw),
        }
    }

    pub(super) fn without_advice(policy: &AdmissionPolicy, call: &Call, at: Instant, draw: Draw) -> Self {
        let backoff = policy.backoff();
        let left = call.deadline.saturating_duration_since(at);
        // Nobody named this wait, so drawing it from what is left of the budget breaks no promise, and no
        // unlucky draw turns a call away that had time. Half of it belongs to the attempt itself.
        let cap = backoff.cap.min(left.checked_div(2).unwrap_or_default());
        let raw =
            full_jitter(backoff.base, cap, call.attempts.saturating_sub(1), draw).max(backoff.floor.min(cap));
        Self { raw, margin: Duration::ZERO, jittered: false, hint: None, advised: false }
    }

    pub(super) fn fit(self, policy: &AdmissionPolicy, call: &Call, at: Instant, draw: Draw) -> Decision {
        let left = call.deadline.saturating_duration_since(at);
        // A deadline that has come leaves nothing to wait in, not even a wait of zero.
        if self.raw > left || left.is_zero() {
            return Decision::SpillOver(Reason::BudgetExceeded);
        }
        if call.attempts >= call.max_attempts.unwrap_or(policy.max_attempts()) {
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
