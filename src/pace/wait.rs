//! How long a call has to wait, and for what.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::number::{ROUNDING, at_most, duration};
use super::stated::NEVER;
use super::{Amounts, Cost, Demand, Pace};

/// How long a call has to wait, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// The time until the call may be sent; zero when it may be sent now. While all slots are taken it is the least
    /// time, since nobody knows when a call in flight will end.
    pub time: Duration,
    /// What holds the call back.
    pub cause: WaitCause,
}

/// What holds a call back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WaitCause {
    /// Nothing: it may be sent.
    Nothing,
    /// The cool-down that the server asked for.
    CoolDown,
    /// A configured or stated limit: the level of its unit is too low.
    Limit,
    /// The rate at which a scope re-opens after refusals.
    Pacing,
    /// The calls in flight: one has to end first.
    Concurrency,
    /// The other processes of the fleet.
    Fleet,
}

impl Pace {
    /// How long a call of `cost` waits when nothing is ahead of it.
    #[must_use]
    pub fn wait(&mut self, cost: Cost, batch: bool, now: Instant) -> Wait {
        let demand = self.demand(cost);
        self.wait_behind(&[0.0; 4], &demand, batch, now)
    }

    /// How long a call waits when calls of the cost `ahead` go first: the longest of the cool-down, of every level, of the
    /// stated window and of the pace. What is stated and the pace bind others than a call that was refused
    /// [alone](Self::is_lone): it keeps its own plan, within the configured limits.
    pub(crate) fn wait_behind(
        &mut self,
        ahead: &Amounts,
        demand: &Demand,
        batch: bool,
        now: Instant,
    ) -> Wait {
        let cost = &demand.amounts;
        let at = self.seconds(now);
        let in_flight = self.pacer.in_flight.count();
        let [requests_ahead, ..] = *ahead;
        let is_lone = requests_ahead <= 0.0 && self.is_lone(demand);
        let idle = (requests_ahead <= 0.0 && in_flight == 0).then_some(at - self.last_sent);
        let idle = if is_lone { Some(f64::INFINITY) } else { idle };
        let mut limit = 0.0_f64;
        for ((unit, ahead), cost) in self.units.iter_mut().zip(ahead).zip(cost) {
            unit.level.refill(at);
            limit = limit.max(unit.level.wait(*ahead, *cost, unit.mean, batch, idle));
        }
        let work_ahead = if requests_ahead > 0.0 { self.work_of(ahead) } else { 0.0 };
        let mut pace = self.pacer.earliest(at, work_ahead);
        if is_lone {
            pace = self.pacer.closed();
        }
        let mut must_end = !self.pacer.in_flight.is_free(batch);
        if !is_lone && let Some((unit, window)) = &mut self.stated {
            let pending = &self.pacer.pending;
            // A closing ends no later than the response that stated it says, which counts from its receipt.
            let times = (at_most(pending.refusal_takes(), self.shortest_trip), pending.patience());
            let stated = window.earliest(at, in_flight, pace, self.pacer.closed(), times);
            // A closing that holds decides by itself; one pilot goes first, whatever the pace is.
            if stated < NEVER {
                (pace, limit) = if stated > pace { (pace, limit.max(stated - at)) } else { (stated, limit) };
            } else {
                must_end = true;
            }
            let of = |amounts: &Amounts| amounts.get(*unit).copied().unwrap_or(0.0);
            if let Some(end) = window.end()
                && window.holds_back(of(ahead), of(cost))
            {
                limit = limit.max(end - at);
            }
        }
        let pacing = pace - at;
        let (learned, learned_cause) =
            if pacing > limit { (pacing, WaitCause::Pacing) } else { (limit, WaitCause::Limit) };
        let learned = duration(learned);
        let closed = self.closed_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        let (time, cause) = if closed.saturating_add(ROUNDING) >= learned {
            (closed, WaitCause::CoolDown)
        } else {
            (learned, learned_cause)
        };
        match time.is_zero() {
            false => Wait { time, cause },
            true if must_end => Wait { time, cause: WaitCause::Concurrency },
            true => Wait { time, cause: WaitCause::Nothing },
        }
    }
}
