//! What can be seen of a pace from outside.

use std::time::Instant;

use serde::Serialize;

use super::Pace;
use super::cost::PACED;
use super::level::Origin;
use super::number::whole;
use crate::units::QuotaUnit;

/// What is known of one quota unit of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UnitState {
    /// The unit.
    pub unit: QuotaUnit,
    /// What is left of the bucket, in units; negative while it is overdrawn.
    pub level: Option<f64>,
    /// The capacity of the bucket in force, in units.
    pub capacity: Option<f64>,
    /// The rate in force, in units per second.
    pub rate: Option<f64>,
    /// Where the rate in force comes from.
    pub origin: Option<LimitOrigin>,
    /// The rate in force as refusals have taught it, in units per second.
    pub learned_capacity: Option<f64>,
    /// What is left of a fixed window until it resets, in units.
    pub window_left: Option<f64>,
    /// Whether calls go one after another at the learned rate.
    pub is_pacing: bool,
    /// The mean cost of a call, in units.
    pub mean_cost: f64,
}

/// Where a limit in force comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LimitOrigin {
    /// The operator configured it.
    Configured,
    /// Rate-limit headers state it.
    Headers,
}

/// What fits into the levels now.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Room {
    pub(crate) output: Option<u64>,
    pub(crate) calls: Option<u64>,
    pub(crate) concurrency: Option<u64>,
}

impl Pace {
    /// What is known of every unit in which something is.
    #[must_use]
    pub fn unit_states(&self, now: Instant) -> Vec<UnitState> {
        let at = self.seconds(now);
        self.units
            .iter()
            .zip(PACED)
            .enumerate()
            .filter(|(_, (unit, _))| unit.level.bucket().is_some() || unit.sent > 0.0)
            .map(|(place, (unit, name))| {
                let mut level = unit.level.clone();
                level.refill(at);
                let bucket = level.bucket();
                UnitState {
                    unit: name,
                    level: bucket.map(|_| level.level()),
                    capacity: bucket.map(|bucket| bucket.capacity),
                    rate: bucket.map(|bucket| bucket.rate),
                    origin: level.origin().map(|origin| match origin {
                        Origin::Configured => LimitOrigin::Configured,
                        Origin::Headers => LimitOrigin::Headers,
                    }),
                    learned_capacity: self
                        .pacer
                        .rate()
                        .filter(|_| place == self.lead)
                        .map(|rate| rate * unit.mean.max(f64::MIN_POSITIVE)),
                    window_left: self
                        .stated
                        .as_ref()
                        .filter(|(stated, _)| *stated == place)
                        .and_then(|(_, window)| window.end().filter(|end| at < *end).map(|_| window.left())),
                    is_pacing: self.pacer.is_pacing() && place == self.lead,
                    mean_cost: unit.mean,
                }
            })
            .collect()
    }

    /// How much fits at once: calls of mean cost, output tokens of one more call, calls in flight.
    pub(crate) fn room(&self, now: Instant) -> Room {
        let mut room = Room::default();
        let least = |known: Option<u64>, new: u64| Some(known.map_or(new, |known| known.min(new)));
        let mean_input = self.units.get(2).map_or(0.0, |unit| unit.mean);
        for state in self.unit_states(now) {
            if let (Some(level), mean) = (state.level, state.mean_cost)
                && mean > 0.0
            {
                room.calls = least(room.calls, whole(level / mean));
                match state.unit {
                    QuotaUnit::Tokens => room.output = least(room.output, whole(level - mean_input)),
                    QuotaUnit::OutputTokens => room.output = least(room.output, whole(level)),
                    _ => {}
                }
            }
            if let (Some(left), QuotaUnit::Requests) = (state.window_left, state.unit) {
                room.calls = least(room.calls, whole(left));
            }
            // Little's law: calls in flight = calls a second × seconds a call takes.
            let rate = match (state.rate, state.learned_capacity) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            if let Some(rate) = rate
                && state.mean_cost > 0.0
                && self.mean_duration > 0.0
            {
                let busy = whole((rate / state.mean_cost * self.mean_duration).ceil()).max(1);
                room.concurrency = least(room.concurrency, busy);
            }
        }
        let in_flight = &self.pacer.in_flight;
        if let Some(limit) = in_flight.cap() {
            let free = u64::from(limit.saturating_sub(in_flight.count()));
            room.calls = least(room.calls, free);
            room.concurrency = least(room.concurrency, u64::from(limit));
        }
        if self.is_closed(now) {
            room.calls = Some(0);
        }
        room
    }
}
