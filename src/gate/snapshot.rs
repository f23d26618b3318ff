//! What can be seen from outside: the state of the scopes, and advice on how large calls should be.

use std::time::Instant;

use serde::Serialize;

use super::{Gate, Priority, ScopeKey};
use crate::pace::{Cost, UnitState, WaitCause};

/// The state of a gate at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its scopes, in no particular order.
    pub scopes: Vec<ScopeSnapshot>,
}

/// The state of one scope at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ScopeSnapshot {
    /// The endpoint of the key.
    pub endpoint: String,
    /// The label of the key.
    pub label: Option<String>,
    /// Seconds until the cool-down ends; 0 if there is none.
    pub closed_for_seconds: f64,
    /// Calls in the queue, by class.
    pub waiting: Waiting,
    /// Permits that are out.
    pub in_flight: u32,
    /// The concurrency limit in force, configured or learned.
    pub concurrency_limit: Option<u32>,
    /// The concurrency limit as learned from refusals.
    pub concurrency_learned: Option<u32>,
    /// Whether the pace was given up, because less than half of what the cool-down alone allows went through.
    pub has_opened: bool,
    /// The units in which something is known.
    pub units: Vec<UnitState>,
}

/// Calls in the queue of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Waiting {
    /// Of class high.
    pub high: usize,
    /// Of class normal.
    pub normal: usize,
    /// Of class batch.
    pub batch: usize,
}

/// How large calls should be now, see [`Gate::advice`](super::Gate::advice).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Advice {
    /// Seconds until a call of mean cost would be admitted.
    pub wait_seconds: f64,
    /// What it would wait for.
    pub cause: WaitCause,
    /// The most output tokens that a call may ask for without waiting longer; `None` if no limit is known.
    pub max_output: Option<u64>,
    /// How many calls of mean cost may be sent at once; `None` if no limit is known.
    pub batch_size: Option<u64>,
    /// How many calls in flight the capacity keeps busy; `None` if it is not known.
    pub concurrency: Option<u64>,
}

impl Gate {
    /// The state of every scope at `now`.
    #[must_use]
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        let scopes = self
            .0
            .memory
            .all()
            .into_iter()
            .map(|(key, cell)| {
                let state = cell.lock();
                let in_flight = state.pace.in_flight();
                ScopeSnapshot {
                    endpoint: key.endpoint().to_owned(),
                    label: key.label_str().map(str::to_owned),
                    closed_for_seconds: state
                        .pace
                        .closed_until()
                        .map_or(0.0, |until| until.saturating_duration_since(now).as_secs_f64()),
                    waiting: Waiting {
                        high: state.queue.waiting(Priority::High),
                        normal: state.queue.waiting(Priority::Normal),
                        batch: state.queue.waiting(Priority::Batch),
                    },
                    in_flight: in_flight.count(),
                    concurrency_limit: in_flight.cap(),
                    concurrency_learned: in_flight.learned(),
                    has_opened: state.pace.has_opened(),
                    units: state.pace.unit_states(now),
                }
            })
            .collect();
        Snapshot { scopes }
    }

    /// How large calls should be in a scope, by what is left of its limits; `None` for an unknown scope.
    #[must_use]
    pub fn advice(&self, scope: &ScopeKey, now: Instant) -> Option<Advice> {
        let cell = self.0.memory.get(scope)?;
        let mut state = cell.lock();
        let demand = state.pace.demand(Cost::request());
        let wait = state.peek(demand, Priority::Normal, now);
        let room = state.pace.room(now);
        Some(Advice {
            wait_seconds: wait.time.as_secs_f64(),
            cause: wait.cause,
            max_output: room.output,
            batch_size: room.calls,
            concurrency: room.concurrency,
        })
    }
}
