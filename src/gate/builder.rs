//! The settings of a gate.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::fleet::Fleet;
use super::memory::Memory;
use super::state::Bounds;
use super::store::Store;
use super::{Gate, Settings, Shared};
use crate::clock::Draws;
use crate::pace::{InvalidLimits, Limits, Rules};

/// How long one response closes a scope at most, unless told.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

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
    rules: Rules,
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
            rules: Rules { max_cool_down: DAY, ..Rules::default() },
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

    /// The longest that one response closes a scope, 24 hours unless told. After it one call at a time asks again, whatever
    /// the server advised; the refused call itself keeps to its advice.
    pub const fn max_cool_down(mut self, wait: Duration) -> Self {
        self.rules.max_cool_down = wait;
        self
    }

    /// Whether advice always holds for all calls of a scope; off unless told.
    ///
    /// Otherwise it holds for the refused call alone where the server itself shows that it is not for all: most calls sent
    /// after a refused one, within the advised time and before the refusal was heard of, went through.
    pub const fn advice_for_all(mut self, always: bool) -> Self {
        self.rules.always_for_all = always;
        self
    }

    /// Whether other processes use the same limits without a shared [`Store`]; off unless told.
    ///
    /// To each of them the others' calls look like refusals by chance, and one that bears those takes all of the limit. So
    /// refusals always slow the process down then, and its rate grows with time rather than with its own calls, which makes the
    /// shares equal. A single process is better off without.
    pub const fn shared_limit(mut self, shared: bool) -> Self {
        self.rules.shared_limit = shared;
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
            settings: Mutex::new(Settings { limits: self.limits, rules: self.rules, draws }),
            bounds: Bounds { most_waiting: self.max_queue, longest_wait: self.max_queue_wait },
            fleet: self.store.map(Fleet::new),
            by_route: Default::default(),
            has_client: false.into(),
        }))
    }
}
