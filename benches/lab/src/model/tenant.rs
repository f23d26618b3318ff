//! Somebody else at the same bucket, who is never seen and does not repeat what is refused.

use super::Random;
use super::scenario::Scenario;

/// One call of the tenant's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unseen {
    /// When it arrives at the server, in seconds from the start and whole milliseconds, as timers go.
    pub(super) at: f64,
    pub(super) cost: f64,
}

/// All calls of a tenant, in their order; the same for the same seed.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    random: Random,
    mean: f64,
    clock: f64,
}

impl Tenant {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let mean = 2000.0 / (scenario.tenant * scenario.capacity);
        Self { random: Random::new(scenario.seed, 7_000_000), mean, clock: 0.0 }
    }
}

impl Iterator for Tenant {
    type Item = Unseen;

    fn next(&mut self) -> Option<Unseen> {
        self.clock += self.random.exponential(self.mean);
        Some(Unseen { at: (1000.0 * self.clock).ceil() / 1000.0, cost: self.random.size() })
    }
}
