//! Calls that this gate has not admitted, and whose answers somebody reports.

use std::sync::Arc;
use std::time::Instant;

use super::{Gate, Permit, Priority, ScopeKey};
use crate::pace::Cost;

impl Gate {
    /// The permit of a call that was sent without asking; `None` if the gate can hold no more scopes.
    pub(crate) fn sent_unasked(&self, scope: &ScopeKey, cost: Cost, now: Instant) -> Option<Permit> {
        let cell = self.cell(scope, now)?;
        let (number, call) = cell.visit(|state, _| state.send_unasked(cost, now));
        // Each is a kind of its own: they are never admitted, and would soon be taken for calls that are always refused.
        Some(Permit::new(Arc::clone(&cell), call, number, now, Priority::Normal, number.call()))
    }
}
