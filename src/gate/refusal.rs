//! What the gate says when it does not let a call go.

use std::time::Duration;

use serde::Serialize;
use thiserror::Error;

use crate::pace::{Wait, WaitCause};

/// The gate does not let a call go within its deadline; the call has consumed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not admitted ({reason}): the wait would be {wait:?}")]
#[non_exhaustive]
pub struct Refusal {
    /// How long the call would have had to wait.
    ///
    /// Exact while one limit binds and nobody of a higher class arrives, otherwise the least it would be.
    pub wait: Duration,
    /// What it would have waited for.
    pub cause: WaitCause,
    /// Why the wait is not acceptable.
    pub reason: RefusalReason,
}

impl Refusal {
    pub(crate) const fn new(wait: &Wait, reason: RefusalReason) -> Self {
        Self { wait: wait.time, cause: wait.cause, reason }
    }
}

/// Why a wait is not acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RefusalReason {
    /// It ends after the call's deadline.
    BeyondDeadline,
    /// It is longer than the gate's own bound, see [`GateBuilder::max_queue_wait`](super::GateBuilder::max_queue_wait).
    BeyondQueueWait,
    /// The queue of the scope is full.
    QueueFull,
    /// The scope is new, and as many as the gate may hold are all closed or occupied.
    TooManyScopes,
}

impl std::fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::BeyondDeadline => "beyond the deadline",
            Self::BeyondQueueWait => "beyond the longest wait in the queue",
            Self::QueueFull => "queue full",
            Self::TooManyScopes => "too many scopes",
        })
    }
}
