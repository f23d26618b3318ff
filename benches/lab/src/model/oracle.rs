//! Perfect knowledge: a copy of the server that runs ahead of it.

use super::bucket::Bucket;
use super::scenario::Scenario;
use super::tenant::{Tenant, Unseen};

/// Timers go by whole milliseconds.
const TICK: f64 = 0.001;
/// Tokens that two ways of adding up the same level may differ by.
const ROUNDING: f64 = 0.01;

/// The server as it will be after everything that has been let go. It knows when a tenant will call, and leaves room
/// for the next of those calls.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    bucket: Bucket,
    tenant: Option<std::iter::Peekable<Tenant>>,
}

impl Plan {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let tenant = (scenario.tenant > 0.0).then(|| Tenant::new(scenario).peekable());
        Self { bucket: Bucket::new(), tenant }
    }

    /// When a call that could arrive at `earliest` will be taken, behind all that were planned before. It is planned
    /// unless it would arrive after `latest`.
    pub(super) fn admit(
        &mut self,
        scenario: &Scenario,
        cost: f64,
        earliest: f64,
        latest: f64,
    ) -> Option<f64> {
        let mut plan = self.clone();
        // Of two calls in one millisecond nobody knows which comes first.
        let mut at = up(earliest.max(plan.bucket.last + TICK));
        loop {
            let is_alone = plan.advance(scenario, at);
            let over = plan.bucket.over(scenario, cost) + ROUNDING;
            if over <= 0.0 && is_alone && plan.leaves_room(scenario, cost) {
                break;
            }
            let emptied = if over > 0.0 { at + over / scenario.capacity_at(at) } else { f64::INFINITY };
            let changed = plan.bucket.next_return().into_iter().chain(plan.next_unseen());
            let changed = changed.chain(scenario.changes().into_iter().filter(|change| *change > at));
            let next = if is_alone { changed.fold(emptied, f64::min) } else { at };
            at = up(next.max(at + TICK));
            if at > latest {
                return None;
            }
        }
        if at > latest {
            return None;
        }
        plan.bucket.add(scenario, cost);
        *self = plan;
        Some(at)
    }

    /// Lets time go on until `at`; false where the tenant calls in that very millisecond.
    fn advance(&mut self, scenario: &Scenario, at: f64) -> bool {
        let mut is_alone = true;
        while let Some(unseen) = self.tenant.as_mut().and_then(|tenant| tenant.next_if(|next| next.at <= at))
        {
            self.bucket.advance(scenario, unseen.at);
            if self.bucket.takes(scenario, unseen.cost) {
                self.bucket.add(scenario, unseen.cost);
            }
            is_alone = unseen.at < at;
        }
        self.bucket.advance(scenario, at);
        is_alone
    }

    /// Whether the tenant's next call will find room though this one is admitted now.
    fn leaves_room(&mut self, scenario: &Scenario, cost: f64) -> bool {
        let Some(unseen) = self.tenant.as_mut().and_then(|tenant| tenant.peek().copied()) else {
            return true;
        };
        let mut then = self.bucket.clone();
        then.add(scenario, cost);
        then.advance(scenario, unseen.at);
        then.takes(scenario, unseen.cost)
    }

    fn next_unseen(&mut self) -> Option<f64> {
        self.tenant.as_mut()?.peek().map(|Unseen { at, .. }| *at)
    }
}

/// The whole millisecond at or after `at`.
fn up(at: f64) -> f64 {
    (1000.0 * at - 1e-6).ceil() / 1000.0
}
