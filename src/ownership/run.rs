//! What is remembered of a logical call over its runs: how often it was sent, and whether it was given up.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use http::Extensions;

use super::guard::{Attempt, Passage};
use super::{ConflictKind, RetryConflict};
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

/// What is known of a logical call, shared by its runs and attempts.
#[derive(Debug, Default)]
pub(crate) struct CallCell {
    state: Mutex<CallState>,
    /// See [`sealed`](super::sealed).
    pub(super) touched: AtomicBool,
    /// See [`guard`](super::guard).
    pub(super) passage: Passage,
}

impl CallCell {
    fn lock(&self) -> MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copied extensions are another call, unless they are copied inside of a run: then they are still inside of it.
impl Clone for CallMark {
    fn clone(&self) -> Self {
        let running = self.call.cell().lock().running;
        let around = if running { self.call.downgrade() } else { self.around.clone() };
        Self { around, attempt: self.attempt.clone(), ..Self::of(CallReport::new()) }
    }
}

impl CallMark {
    pub(super) fn of(call: CallReport) -> Self {
        Self { call, around: WeakReport::default(), attempt: None }
    }

    fn is_inside_a_run(&self) -> bool {
        let running = |call: &CallReport| call.cell().lock().running;
        running(&self.call) || self.around.upgrade().is_some_and(|outer| running(&outer))
    }
}

#[derive(Debug, Default)]
struct CallState {
    running: bool,
    given_up: bool,
    /// Attempts that have not ended well: refused, failed, or dropped on their way. Others do not count: a layer that
    /// refreshes credentials after a 401 or revalidates a cache runs the call again for good reasons.
    attempts: u32,
    deadline: Option<Instant>,
}

/// One run through the owner; ends when dropped.
#[derive(Debug)]
pub(crate) struct Run {
    pub(super) call: CallReport,
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
        let mut own = None;
        let report = extensions.get_or_insert_with(|| own.insert(CallReport::new()).clone()).clone();
        let mark = extensions.get_or_insert_with(|| CallMark::of(own.unwrap_or_default()));
        if mark.is_inside_a_run() {
            // What this one does is not to be mixed up with what the outer one knows.
            let run = Self { call: CallReport::new() };
            let conflict = Some(RetryConflict::new(ConflictKind::NestedAdmission));
            return Entered { run, report, deadline, attempts: 0, conflict };
        }
        let run = Self { call: mark.call.clone() };
        let mut state = run.lock();
        // Whoever comes after the deadline of a call that was not given up has a new call, in old extensions.
        if !state.given_up && state.deadline.is_some_and(|old| old <= now) {
            *state = CallState::default();
        }
        let conflict = state.given_up || state.attempts >= max_attempts;
        state.running = true;
        let attempts = state.attempts;
        // One deadline per logical call, however often a layer outside runs it.
        let deadline = if attempts > 0 { state.deadline.unwrap_or(deadline) } else { deadline };
        state.deadline = Some(deadline);
        drop(state);
        let conflict = conflict.then(|| RetryConflict::new(ConflictKind::Reentry));
        Entered { run, report, deadline, attempts, conflict }
    }

    fn lock(&self) -> MutexGuard<'_, CallState> {
        self.call.cell().lock()
    }

    /// An attempt is on its way; until it ends well it counts, even if it is dropped.
    pub(crate) fn attempt_started(&self) {
        let mut state = self.lock();
        state.attempts = state.attempts.saturating_add(1);
    }

    /// The attempt ended in something that nobody retries for want of capacity.
    pub(crate) fn attempt_excused(&self) {
        let mut state = self.lock();
        state.attempts = state.attempts.saturating_sub(1);
    }

    /// The call came to a success, so the same extensions may serve another call.
    pub(crate) fn succeeded(&self) {
        *self.lock() = CallState { running: true, ..CallState::default() };
    }

    /// The call was given up.
    pub(crate) fn gave_up(&self) {
        self.lock().given_up = true;
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.lock().running = false;
    }
}
