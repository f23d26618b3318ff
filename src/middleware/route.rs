//! The route of a call over several deployments: which one it is with, which it has tried, and whose time it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use reqwest::Request;

use super::outcome::AttemptOutcome;
use crate::gate::{Refusal, ScopeKey};
use crate::reading::Reading;
use crate::spill::{LegReport, PRIMARY, Routes, Target, Trial};

/// The route of one call.
pub(super) struct Route<'a> {
    pub(super) routes: &'a Routes,
    /// The deployment that the call is with: a target by its index, or the primary.
    pub(super) at: Option<usize>,
    /// The targets that it has been with, one bit each.
    tried: u64,
    pub(super) done: Vec<LegReport>,
    /// The deadline of the whole call; a leg's own may be earlier.
    pub(super) deadline: Instant,
    budget: Duration,
    /// What is kept of the budget for the next target, and the least to begin with there.
    reserve: Duration,
    least: Duration,
    /// Whether an attempt here ends early, so that the next target can take the call.
    hurries: bool,
    pub(super) began: Instant,
    pub(super) attempts_before: u32,
    pub(super) waited_before: Duration,
    /// Refusals on this leg, in a row.
    pub(super) refusals: u32,
    pub(super) primary_scope: Option<ScopeKey>,
    /// Held by the call that tries a primary which refused others.
    pub(super) probe: Option<Trial<'a, ScopeKey>>,
    /// Held by the call that tries a primary which failed.
    pub(super) trial: Option<Trial<'a, ()>>,
    pub(super) next: NextTarget,
}

/// What has been decided about the next leg.
pub(super) enum NextTarget {
    Undecided,
    /// A target by its index.
    To(usize),
    GiveUp,
}

/// How a leg ends.
#[derive(Clone, Copy)]
pub(super) enum LegOutcome<'a> {
    /// With what came of an attempt.
    Attempt(&'a AttemptOutcome),
    /// The gate rejected the call.
    Rejected(&'a Refusal),
    /// With an answer for the caller.
    Answered(StatusCode, Option<&'a Reading>),
    /// A router said so, or the deployment cannot take the request.
    Unasked,
}

impl<'a> Route<'a> {
    pub(super) fn new(routes: &'a Routes, now: Instant, deadline: Instant, budget: Duration) -> Self {
        let reserve = routes.reserve(budget, Some(0));
        Self {
            routes,
            at: None,
            tried: 0,
            done: Vec::new(),
            deadline,
            budget,
            reserve,
            least: routes.least(reserve, budget, Some(0)),
            hurries: false,
            began: now,
            attempts_before: 0,
            waited_before: Duration::ZERO,
            refusals: 0,
            primary_scope: None,
            probe: None,
            trial: None,
            next: NextTarget::Undecided,
        }
    }

    pub(super) fn target(&self) -> Option<&'a Target> {
        self.at.and_then(|index| self.routes.targets.get(index))
    }

    pub(super) fn name(&self) -> Arc<str> {
        self.target().map_or_else(|| PRIMARY.into(), |target| Arc::clone(&target.name))
    }

    /// The targets that the request may still go to.
    pub(super) fn candidates(&self, request: &Request) -> Vec<usize> {
        let takes = |(index, target): &(usize, &Target)| {
            self.tried & bit(*index) == 0 && Routes::can_take(target, request)
        };
        self.routes.targets.iter().enumerate().filter(takes).map(|(index, _)| index).collect()
    }

    /// The call is with target `index` now; what has been counted so far belongs to earlier legs.
    pub(super) fn go_to(&mut self, index: usize, attempts: u32, waited: Duration, now: Instant) {
        self.tried |= bit(index);
        (self.at, self.next) = (Some(index), NextTarget::Undecided);
        (self.began, self.refusals) = (now, 0);
        (self.attempts_before, self.waited_before) = (attempts, waited);
    }

    /// The deadline of a leg that leaves the next target its time.
    pub(super) fn early_deadline(&self) -> Instant {
        self.deadline.checked_sub(self.reserve).unwrap_or(self.deadline)
    }

    /// Keeps time for the target that takes the call next, if there is one; attempts here are cut short for it if `hurries`.
    pub(super) fn keep_for(&mut self, next: Option<usize>, hurries: bool) {
        self.hurries = hurries && next.is_some();
        if next.is_some() {
            self.reserve = self.routes.reserve(self.budget, next);
            self.least = self.routes.least(self.reserve, self.budget, next);
        }
    }

    /// When an attempt that begins at `now` is cut short: where the next target's time begins, but not before half of what
    /// is left has passed.
    pub(super) fn attempt_end(&self, now: Instant) -> Option<Instant> {
        let half = self.deadline.saturating_duration_since(now).checked_div(2)?;
        let end = now.checked_add(half)?.max(self.early_deadline());
        self.hurries.then_some(end)
    }

    /// Learns the time that a target took to answer, or took without an answer.
    pub(super) fn learn_time(&self, outcome: LegOutcome<'_>, time: Duration) {
        let counts = match outcome {
            LegOutcome::Answered(status, _) => status.is_success(),
            LegOutcome::Attempt(outcome) => matches!(outcome, AttemptOutcome::CutOff),
            LegOutcome::Rejected(_) | LegOutcome::Unasked => false,
        };
        if counts && self.at.is_some() {
            self.routes.recent(self.at).took(time);
        }
    }

    /// Whether what is left of the budget is enough to begin a leg with.
    pub(super) fn has_time_for_a_leg(&self, now: Instant) -> bool {
        let left = self.deadline.saturating_duration_since(now);
        !left.is_zero() && left >= self.least
    }
}

/// There are at most 64 targets.
fn bit(index: usize) -> u64 {
    u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index)).unwrap_or_default()
}
