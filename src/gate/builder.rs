//! The settings of a gate.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::fleet::Fleet;
use super::memory::Memory;
use super::state::Bounds;
use super::store::Store;
use super::{Gate, Settings, Shared};
use crate::clock::Draws;
use crate::pace::{InvalidLimits, Limits};

/// Settings of a [`Gate`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct GateBuilder {
    limits: Limits,
    max_scopes: usize,
    max_queue: usize,
    max_queue_wait: Option<Duration>,
    seed: Option<u64>,
    store: Option<Arc<dyn Store>>,
}

impl Default for GateBuilder {
    fn default() -> Self {
        Self {
            limits: Limits::new(),
            max_scopes: 1024,
            max_queue: 16_384,
            max_queue_wait: None,
            seed: None,
            store: None,
        }
    }
}

impl GateBuilder {
    /// The limits that every scope starts with; [`Gate::set_limits`] changes those of one.
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How many scopes are kept, at least 1. Default: 1,024. If they are full, the sixteenth part that was used longest ago
    /// makes room for new ones, but never a scope that is closed or has calls waiting or in flight.
    pub const fn max_scopes(mut self, scopes: usize) -> Self {
        self.max_scopes = scopes;
        self
    }

    /// How many calls may wait in one scope, at least 1. Default: 16,384.
    pub const fn max_queue(mut self, calls: usize) -> Self {
        self.max_queue = calls;
        self
    }

    /// The longest that any call may wait in the queue, whatever its deadline. Default: no bound.
    ///
    /// Under lasting overload every call that is served waits about as long as it may, so this should be well below
    /// the callers' budgets.
    pub const fn max_queue_wait(mut self, wait: Duration) -> Self {
        self.max_queue_wait = Some(wait);
        self
    }

    /// Makes the jitter repeatable, for tests.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Shares the configured limits and all cool-downs with the other gates of `store`; see [`Store`].
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// The gate.
    ///
    /// # Errors
    ///
    /// [`InvalidLimits`] if a limit, `max_scopes` or `max_queue` is 0.
    pub fn build(self) -> Result<Gate, InvalidLimits> {
        self.limits.validate()?;
        for (limit, size) in [("max_scopes", self.max_scopes), ("max_queue", self.max_queue)] {
            if size == 0 {
                return Err(InvalidLimits { limit });
            }
        }
        Ok(self.assemble())
    }

    /// The gate of limits that are known to be valid.
    pub(super) fn assemble(self) -> Gate {
        let draws = self.seed.map_or_else(Draws::new, Draws::seeded);
        Gate(Arc::new(Shared {
            memory: Memory::new(self.max_scopes),
            settings: Mutex::new(Settings { limits: self.limits, draws }),
            bounds: Bounds { most_waiting: self.max_queue, longest_wait: self.max_queue_wait },
            fleet: self.store.map(Fleet::new),
            by_route: Default::default(),
            has_client: false.into(),
        }))
    }
}
