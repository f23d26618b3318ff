//! What happened, as the origin and the callers saw it: the only thing that the laws are checked against.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// Milliseconds of virtual time since the start, or of a duration.
pub(crate) type Ms = u64;

/// One event of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) at: Ms,
    pub(crate) scope: usize,
    pub(crate) call: usize,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A caller makes a call with this budget. Batch calls may have to leave room for others.
    Began { budget: Ms, batch: bool },
    /// An attempt reaches the origin, which decides about it at once.
    Sent { admitted: bool },
    /// The head of an answer is handed to the crate, or the news that there will be none.
    Heard(Answer),
    /// An attempt was dropped before it had an answer.
    Abandoned,
    /// The body of an answer was read to its end, failed, or was dropped.
    BodyOver,
    /// The caller gets its answer, or has cancelled the call.
    Ended(End),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Not refused for want of capacity; the body is still to come.
    Taken,
    /// Refused, with the advised wait where there is one. The body takes so long.
    Refused { wait: Option<Ms>, body: Ms },
    /// The connection was lost, or none came about.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Answered,
    SpilledOver,
    Failed,
    Cancelled,
}

/// The log of one run.
pub(crate) struct Log {
    start: Instant,
    lines: Mutex<Vec<Line>>,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), lines: Mutex::default() }
    }

    /// All times of a run are whole milliseconds, since tokio's timers are, so the laws can be checked without tolerance.
    pub(crate) fn now(&self) -> Ms {
        let since = Instant::now() - self.start;
        assert_eq!(since.subsec_nanos() % 1_000_000, 0, "a moment between two milliseconds: {since:?}");
        Ms::try_from(since.as_millis()).unwrap()
    }

    pub(crate) fn note(&self, scope: usize, call: usize, what: What) {
        let line = Line { at: self.now(), scope, call, what };
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    pub(crate) fn take(&self) -> Vec<Line> {
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
