//! The time of one call over several deployments: what is kept for the next, and when an attempt ends.

use std::time::{Duration, Instant};

use reqwest::Request;

use super::call::LogicalCall;
use super::legs::{Legs, Turn};
use super::sent::Sent;
use crate::spill::FailOver;

impl Legs<'_> {
    /// The deadline of the primary's leg: the rest belongs to the next.
    pub(super) fn first_deadline(&self) -> Instant {
        self.deadline.checked_sub(self.reserve).unwrap_or(self.deadline)
    }

    /// What follows on where the call is now: `next` is the target that takes it from here, if any.
    pub(super) fn keep_for(&mut self, next: Option<usize>, hurries: bool) {
        self.hurries = hurries && next.is_some();
        if next.is_some() {
            self.reserve = self.routes.reserve(self.budget, next);
            self.least = self.routes.least(self.reserve, self.budget, next);
        }
    }

    /// When an attempt that begins at `now` is to end: where the next target's time begins, but not before half of what is
    /// left has passed.
    fn attempt_end(&self, now: Instant) -> Option<Instant> {
        if !self.hurries {
            return None;
        }
        let half = self.deadline.saturating_duration_since(now).checked_div(2)?;
        Some(now.checked_add(half)?.max(self.first_deadline()))
    }

    /// Takes note of the time that a target took to answer, or took without an answer.
    pub(super) fn learn_time(&self, turn: Turn<'_>, time: Duration) {
        let counts = match turn {
            Turn::Answered(status, _) => status.is_success(),
            Turn::Sent(sent) => matches!(sent, Sent::CutOff),
            Turn::Refused(_) | Turn::Unasked => false,
        };
        if counts && self.at.is_some() {
            self.routes.recent(self.at).took(time);
        }
    }
}

impl LogicalCall<'_> {
    /// When an attempt that begins at `now` is cut off.
    pub(super) fn attempt_ends(&self, now: Instant) -> Option<Instant> {
        let end = self.cut_off?;
        let of_leg = self.legs.as_ref().and_then(|legs| legs.attempt_end(now));
        Some(of_leg.map_or(end, |of_leg| of_leg.min(end)))
    }

    /// Sees to the time of the first leg, once the request is known.
    pub(super) fn plan_time(&mut self, request: &Request) {
        let idempotent = self.idempotent;
        let Some(legs) = self.legs.as_mut().filter(|legs| legs.routes.fail_over == FailOver::Safe) else {
            return;
        };
        let next = legs.candidates(request).first().copied();
        legs.keep_for(next, idempotent);
    }

    /// Gives the primary all of the time, if no other deployment can take the request. Says whether it had less.
    pub(super) fn takes_all_time(&mut self, request: Option<&Request>) -> bool {
        let Some(legs) = self.legs.as_ref().filter(|legs| legs.at.is_none()) else { return false };
        let had_less = self.deadline < legs.deadline;
        if !had_less || request.is_some_and(|request| !legs.candidates(request).is_empty()) {
            return false;
        }
        self.deadline = legs.deadline;
        true
    }

    /// What is left of the budget, where it is enough to begin a leg with.
    pub(super) fn left_for_a_leg(&self, now: Instant) -> Option<Duration> {
        let legs = self.legs.as_ref()?;
        let left = legs.deadline.saturating_duration_since(now);
        (!left.is_zero() && left >= legs.least).then_some(left)
    }
}
