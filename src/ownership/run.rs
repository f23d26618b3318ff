//! One run of a logical call through the owner, and how later runs in the same extensions are told from new calls.

use std::time::{Duration, Instant};

use http::Extensions;

use super::conflict::{ConflictKind, RetryConflict};
use super::state::AttemptState;
use crate::clock;
use crate::observe::{CallReport, WeakReport};

/// What is remembered of a logical call in its extensions, over re-runs by layers outside.
#[derive(Debug)]
pub(super) struct CallMark {
    call: CallReport,
    /// The run that the extensions were copied in, by a layer inside.
    around: WeakReport,
    /// What the guard at the inner end is to expect.
    pub(super) attempt: Option<Attempt>,
}

/// A layer that has dropped a try sends the next within this time. Extensions that nobody has used for longer serve a new
/// call.
const SOON: Duration = Duration::from_secs(60);

/// Copied extensions are another call, unless they are copied inside of a run: then they are still inside of it.
impl Clone for CallMark {
    fn clone(&self) -> Self {
        let running = self.call.state().is_running();
        let around = if running { self.call.downgrade() } else { self.around.clone() };
        Self { around, attempt: self.attempt.clone(), ..Self::of(CallReport::new()) }
    }
}

impl CallMark {
    fn of(call: CallReport) -> Self {
        Self { call, around: WeakReport::default(), attempt: None }
    }

    /// The call that is running and that a run in these extensions would be inside of.
    fn outer(&self) -> Option<CallReport> {
        if self.call.state().is_running() {
            return Some(self.call.clone());
        }
        self.around.upgrade().filter(|outer| outer.state().is_running())
    }
}

/// One run through the owner; ends when dropped.
#[derive(Debug)]
pub(crate) struct Run {
    call: CallReport,
    end: RunEnd,
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// It was dropped on its way.
    Dropped,
    /// With a failure or a conflict.
    Failed,
    /// With an attempt that nobody retries for want of capacity.
    Excused,
    /// With a success, so the same extensions may serve another call.
    Succeeded,
    GaveUp,
}

/// How a run begins.
pub(crate) struct Entered {
    pub(crate) run: Run,
    pub(crate) report: CallReport,
    pub(crate) deadline: Instant,
    /// The attempts of earlier runs of the same call that did not end well.
    pub(crate) attempts: u32,
    pub(crate) conflict: Option<RetryConflict>,
}

impl Run {
    /// Enters the owner with a call's extensions. On a conflict there is a run as well, for those who only report it.
    pub(crate) fn enter(
        extensions: &mut Extensions,
        now: Instant,
        deadline: Instant,
        max_attempts: u32,
    ) -> Entered {
        // A report that the caller brings may be that of several calls, and then says nothing of this one.
        let brought = extensions.get::<CallReport>().cloned();
        let mark = extensions.get_or_insert_with(|| CallMark::of(CallReport::new()));
        if let Some(outer) = mark.outer() {
            // What this run does must not be mixed up with what the outer one knows.
            let run = Self { call: CallReport::new(), end: RunEnd::Dropped };
            let report = brought.unwrap_or(outer);
            // The guard knows the run alone, whose own report nobody sees.
            report.put_in(extensions);
            let conflict = Some(RetryConflict::new(ConflictKind::NestedAdmission));
            return Entered { run, report, deadline, attempts: 0, conflict };
        }
        let run = Self { call: mark.call.clone(), end: RunEnd::Dropped };
        let report = brought.unwrap_or_else(|| run.call.clone());
        let mut known = run.call.state().lock();
        let soon = |dropped: Instant| now.saturating_duration_since(dropped) <= SOON;
        let dropped = known.is_unfinished && known.dropped.is_some_and(soon);
        let late = known.deadline.is_some_and(|old| old <= now);
        // After the deadline of a call that came to an end, the same extensions serve a new call. A call that was dropped
        // on its way a moment ago is still the same one: whoever drops it and sends it again has a time limit for each try.
        if late && !known.given_up && !dropped {
            known.forget();
        }
        let attempts = known.attempts;
        // One deadline per logical call, however often a layer outside runs it.
        let deadline = known.deadline.filter(|_| attempts > 0).unwrap_or(deadline);
        known.deadline = Some(deadline);
        known.is_running = true;
        // A layer outside may send an ordinary failure again: to refuse that would destroy the response that the layer falls
        // back on. Each of its runs sends once, since the attempts of earlier runs count.
        let reentered = known.given_up || (dropped && (late || attempts >= max_attempts));
        drop(known);
        let conflict = reentered.then(|| RetryConflict::new(ConflictKind::Reentry));
        Entered { run, report, deadline, attempts, conflict }
    }

    /// An attempt is on its way; until it ends well it counts, even if it is dropped.
    pub(crate) fn attempt_started(&self) -> Attempt {
        let mut known = self.call.state().lock();
        known.is_unfinished = true;
        known.attempts = known.attempts.saturating_add(1);
        known.newest = known.newest.wrapping_add(1);
        (known.stage, known.is_touched, known.is_stopped) = (AttemptState::Fresh, false, false);
        Attempt { call: self.call.clone(), number: known.newest }
    }

    /// The run comes to this end.
    pub(crate) const fn ends(&mut self, end: RunEnd) {
        self.end = end;
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let mut known = self.call.state().lock();
        known.is_running = false;
        if self.end != RunEnd::Dropped {
            known.is_unfinished = false;
        } else if known.is_unfinished {
            known.dropped = Some(clock::now());
        }
        match self.end {
            RunEnd::Succeeded => known.forget(),
            RunEnd::Excused => known.attempts = known.attempts.saturating_sub(1),
            RunEnd::GaveUp => known.given_up = true,
            RunEnd::Dropped | RunEnd::Failed => {}
        }
    }
}

/// One attempt, as the inner end is to know it: in the extensions, where each attempt has its own, and with the owner.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(super) call: CallReport,
    number: u64,
}

impl Attempt {
    /// Has the guard at the inner end expect it.
    pub(crate) fn expect_in(&self, extensions: &mut Extensions) {
        let mark = extensions.get_or_insert_with(|| CallMark::of(self.call.clone()));
        mark.attempt = Some(self.clone());
    }

    /// Moves the attempt on if it is the newest and in one of these states.
    fn moves(&self, from: &[AttemptState], to: AttemptState) -> bool {
        let mut known = self.call.state().lock();
        let moves = known.newest == self.number && from.contains(&known.stage);
        if moves {
            known.stage = to;
        }
        moves
    }

    /// The attempt has come to the inner end. Whether it may: it has not been sent yet, or was answered.
    pub(super) fn arrives(&self) -> bool {
        self.moves(&[AttemptState::Fresh, AttemptState::Answered], AttemptState::Sent)
    }

    /// A client asks for its sealed body.
    pub(super) fn is_touched(&self) {
        let mut known = self.call.state().lock();
        known.is_touched |= known.newest == self.number;
    }

    /// It was answered by something that no layer retries for want of capacity.
    pub(super) fn is_answered(&self) {
        self.moves(&[AttemptState::Sent], AttemptState::Answered);
    }

    /// Whether it has come to the inner end.
    pub(crate) fn has_arrived(&self) -> bool {
        let known = self.call.state().lock();
        known.newest != self.number || known.is_touched || known.stage != AttemptState::Fresh
    }
}
