//! What is known of a logical call over its runs and attempts. It stands beside the call's report, so that a call has one
//! allocation for both.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// One run at a time writes here; copies of extensions, and what a run has left behind, only read.
#[derive(Debug, Default)]
pub(crate) struct CallState(Mutex<Known>);

#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) is_running: bool,
    pub(super) given_up: bool,
    /// Attempts that did not end well: refused, failed, or dropped on their way. Others do not count: a layer that
    /// refreshes credentials after a 401 or revalidates a cache runs the call again for good reasons.
    pub(super) attempts: u32,
    /// Whether the newest run has sent an attempt and has not ended: it is on its way, or was dropped.
    pub(super) is_unfinished: bool,
    /// That of the newest run; without attempts it does not bind the next.
    pub(super) deadline: Option<Instant>,
    /// When the newest run was dropped.
    pub(super) dropped: Option<Instant>,
    /// The number of the newest attempt, and how far it has come.
    pub(super) newest: u64,
    pub(super) stage: AttemptState,
    /// Whether a client has asked for its sealed body.
    pub(super) is_touched: bool,
    /// Whether the guard has stopped a repeat of the newest attempt.
    pub(super) is_stopped: bool,
}

/// How far an attempt has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum AttemptState {
    /// It has not arrived at the inner end of the stack.
    #[default]
    Fresh,
    /// On its way, failed, refused or dropped: whoever sends it again retries.
    Sent,
    /// Answered, and not by a refusal or failure: a layer that refreshes credentials or revalidates a cache may go on.
    Answered,
}

impl CallState {
    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_running(&self) -> bool {
        self.lock().is_running
    }
}

impl Known {
    /// The next run in the same extensions is another call.
    pub(super) const fn forget(&mut self) {
        (self.given_up, self.attempts, self.is_unfinished) = (false, 0, false);
    }
}
