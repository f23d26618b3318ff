//! A look at one scope, for those who choose between several.

use std::time::{Duration, Instant};

use super::{Gate, Priority, ScopeKey};
use crate::pace::{Cost, Limits};

/// What a scope is like now.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Look {
    /// The time until its cool-down ends.
    pub(crate) closed_for: Option<Duration>,
    /// How long a call would wait.
    pub(crate) wait: Duration,
    /// Whether it has limits that the user configured.
    pub(crate) is_configured: bool,
}

impl Gate {
    /// How long a call of `cost` would wait in a scope now, by what is known of it; nothing of one that is not.
    pub(crate) fn look(&self, scope: &ScopeKey, cost: Cost, class: Priority, now: Instant) -> Look {
        let Some(cell) = self.0.memory.get(scope) else { return Look::default() };
        let mut state = cell.lock();
        let demand = state.pace.demand(cost);
        let wait = state.peek(demand, class, now).time;
        let closed_for = state
            .pace
            .closed_until()
            .map(|until| until.saturating_duration_since(now))
            .filter(|left| !left.is_zero());
        Look { closed_for, wait, is_configured: state.pace.limits() != Limits::default() }
    }
}
