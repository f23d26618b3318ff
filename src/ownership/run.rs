//! What is remembered of a logical call over its runs: how often it was sent, and whether it was given up.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::Extensions;

use super::guard::{Attempt, Passage};
use super::{ConflictKind, RetryConflict};
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

/// What is known of a logical call, shared by its runs and attempts.
///
/// One run at a time writes here; the copies of a mark and what a run has left behind only look.
#[derive(Debug, Default)]
pub(crate) struct CallCell {
    running: AtomicBool,
    given_up: AtomicBool,
    /// Attempts that have not ended well: refused, failed, or dropped on their way. Others do not count: a layer that
    /// refreshes credentials after a 401 or revalidates a cache runs the call again for good reasons.
    attempts: AtomicU32,
    /// The newest run has sent an attempt and has not ended: it is on its way, or was dropped.
    unfinished: AtomicBool,
    times: Mutex<Times>,
    /// See [`sealed`](super::sealed).
    pub(super) touched: AtomicBool,
    /// See [`guard`](super::guard).
    pub(super) passage: Passage,
}

/// Moments of the newest run.
#[derive(Debug, Default)]
struct Times {
    /// Of no account if there are no attempts.
    deadline: Option<Instant>,
    /// When it was dropped.
    dropped: Option<Instant>,
}

/// A layer that has dropped a try sends the next within this time. Extensions that nobody has used for longer serve a new
/// call.
const SOON: Duration = Duration::from_secs(60);

impl CallCell {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    fn forget(&self) {
        self.given_up.store(false, Ordering::Relaxed);
        self.attempts.store(0, Ordering::Relaxed);
        self.unfinished.store(false, Ordering::Relaxed);
    }
}

/// Copied extensions are another call, unless they are copied inside of a run: then they are still inside of it.
impl Clone for CallMark {
    fn clone(&self) -> Self {
        let running = self.call.cell().is_running();
        let around = if running { self.call.downgrade() } else { self.around.clone() };
        Self { around, attempt: self.attempt.clone(), ..Self::of(CallReport::new()) }
    }
}

impl CallMark {
    pub(super) fn of(call: CallReport) -> Self {
        Self { call, around: WeakReport::default(), attempt: None }
    }

    /// The call that is running and that a run in these extensions would be inside of.
    fn outer(&self) -> Option<CallReport> {
        if self.call.cell().is_running() {
            return Some(self.call.clone());
        }
        self.around.upgrade().filter(|outer| outer.cell().is_running())
    }
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
    #[inline]
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
            // What this one does is not to be mixed up with what the outer one knows.
            let run = Self { call: CallReport::new() };
            let report = brought.unwrap_or(outer);
            // The guard knows the run alone, whose own report nobody sees.
            report.leave_in(extensions);
            let conflict = Some(RetryConflict::new(ConflictKind::NestedAdmission));
            return Entered { run, report, deadline, attempts: 0, conflict };
        }
        let run = Self { call: mark.call.clone() };
        let report = brought.unwrap_or_else(|| run.call.clone());
        let cell = run.cell();
        let mut times = cell.times();
        let given_up = cell.given_up.load(Ordering::Relaxed);
        let soon = |dropped: Instant| now.saturating_duration_since(dropped) <= SOON;
        let dropped = cell.unfinished.load(Ordering::Relaxed) && times.dropped.is_some_and(soon);
        let late = times.deadline.is_some_and(|old| old <= now);
        // After the deadline of a call that came to an end, the same extensions serve a new call. A call that was dropped
        // on its way a moment ago is still the same one: whoever drops it and sends it again has a time limit for each try.
        if late && !given_up && !dropped {
            cell.forget();
        }
        let attempts = cell.attempts.load(Ordering::Relaxed);
        // One deadline per logical call, however often a layer outside runs it.
        let deadline = times.deadline.filter(|_| attempts > 0).unwrap_or(deadline);
        times.deadline = Some(deadline);
        drop(times);
        cell.running.store(true, Ordering::Release);
        // An ordinary failure that was handed on may be sent again by a layer outside: to refuse that would destroy the
        // response that the layer falls back on. It is sent once, since the attempts of earlier runs count.
        let reentered = given_up || (dropped && (late || attempts >= max_attempts));
        let conflict = reentered.then(|| RetryConflict::new(ConflictKind::Reentry));
        Entered { run, report, deadline, attempts, conflict }
    }

    fn cell(&self) -> &CallCell {
        self.call.cell()
    }

    /// An attempt is on its way; until it ends well it counts, even if it is dropped.
    pub(crate) fn attempt_started(&self) {
        self.cell().unfinished.store(true, Ordering::Relaxed);
        self.count(|attempts| attempts.saturating_add(1));
    }

    /// The run has come to its end, whatever it is; a run that is dropped does not get here.
    pub(crate) fn ended(&self) {
        self.cell().unfinished.store(false, Ordering::Relaxed);
    }

    /// The attempt ended in something that nobody retries for want of capacity.
    pub(crate) fn attempt_excused(&self) {
        self.count(|attempts| attempts.saturating_sub(1));
    }

    fn count(&self, change: impl Fn(u32) -> u32) {
        let attempts = &self.cell().attempts;
        attempts.store(change(attempts.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// The call came to a success, so the same extensions may serve another call.
    pub(crate) fn succeeded(&self) {
        self.cell().forget();
    }

    /// The call was given up.
    pub(crate) fn gave_up(&self) {
        self.cell().given_up.store(true, Ordering::Relaxed);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let cell = self.cell();
        if cell.unfinished.load(Ordering::Relaxed) {
            cell.times().dropped = Some(clock::now());
        }
        cell.running.store(false, Ordering::Release);
    }
}
