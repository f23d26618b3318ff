//! The level of a bucket over time.

use super::scenario::{Scenario, ServerKind};

/// Seconds that one moment may differ by where it was reckoned in two ways.
const ROUNDING: f64 = 1e-7;

/// Drains by itself; what was set aside for running calls beyond their cost comes off when they end.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    pub(super) level: f64,
    /// The moment of `level`, in seconds from the start.
    pub(super) last: f64,
    /// When what is given back, the latest first.
    due: Vec<(f64, f64)>,
}

impl Bucket {
    pub(super) const fn new() -> Self {
        Self { level: 0.0, last: 0.0, due: Vec::new() }
    }

    /// Lets time go on until `at`.
    pub(super) fn advance(&mut self, scenario: &Scenario, at: f64) {
        while let Some((end, excess)) = self.due.pop_if(|(end, _)| *end <= at + ROUNDING) {
            self.drain(scenario, end.min(at));
            self.level = (self.level - excess).max(0.0);
        }
        self.drain(scenario, at);
    }

    fn drain(&mut self, scenario: &Scenario, at: f64) {
        for end in scenario.changes().into_iter().chain([at]) {
            if !(self.last..=at).contains(&end) {
                continue;
            }
            let middle = (self.last + end) / 2.0;
            self.level = (self.level - scenario.capacity_at(middle) * (end - self.last)).max(0.0);
            self.last = end;
        }
    }

    /// When the next call gives something back.
    pub(super) fn next_return(&self) -> Option<f64> {
        self.due.last().map(|(end, _)| *end)
    }

    /// By how much a call of this cost is too much at the moment; a negative number is room.
    pub(super) fn over(&self, scenario: &Scenario, cost: f64) -> f64 {
        match scenario.server {
            ServerKind::Leaky => self.level - scenario.bucket(),
            // A token bucket admits a call when all of its cost is there; `level` is what has been taken.
            ServerKind::Headers => self.level + cost - scenario.bucket(),
        }
    }

    pub(super) fn takes(&self, scenario: &Scenario, cost: f64) -> bool {
        let over = self.over(scenario, cost);
        match scenario.server {
            ServerKind::Leaky => over < 0.0,
            ServerKind::Headers => over <= 0.0,
        }
    }

    /// A call is admitted.
    pub(super) fn add(&mut self, scenario: &Scenario, cost: f64) {
        self.level += scenario.reserve * cost;
        let excess = (scenario.reserve - 1.0) * cost;
        if excess > 0.0 {
            let end = self.last + 0.3 + cost / 5000.0;
            let place = self.due.partition_point(|(other, _)| *other > end);
            self.due.insert(place, (end, excess));
        }
    }
}
