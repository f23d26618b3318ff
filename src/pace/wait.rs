//! How long a call has to wait, and for what.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::level::{Origin, STALE};
use super::number::duration;
use super::{Amounts, Cost, Pace};

/// See [`Pace::wait_behind`].
const ROUNDING: Duration = Duration::from_micros(5);

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
    /// The drip after a refusal, or shortly before one is to be expected.
    Pacing,
    /// All slots are taken by calls in flight.
    Concurrency,
    /// The other processes of the fleet.
    Fleet,
}

impl Pace {
    /// A call arrives; an idle pacer opens.
    #[inline]
    pub fn arrived(&mut self, now: Instant) {
        if self.is_closed(now) {
            return;
        }
        let at = self.tick(now);
        for unit in &mut self.units {
            unit.pacer.arrived(at);
        }
    }

    /// How long a call of `cost` waits when nothing is ahead of it.
    #[must_use]
    pub fn wait(&mut self, cost: Cost, batch: bool, now: Instant) -> Wait {
        let demand = self.demand(cost);
        self.wait_behind(&[0.0; 4], &demand.amounts, batch, now)
    }

    /// How long a call waits when calls of the cost `ahead` go first: the longest of the cool-down, of every level and
    /// of every pacer.
    pub(crate) fn wait_behind(&mut self, ahead: &Amounts, cost: &Amounts, batch: bool, now: Instant) -> Wait {
        let at = self.tick(now);
        let [requests_ahead, ..] = *ahead;
        let (mut limit, mut pacing) = (0.0_f64, 0.0_f64);
        for ((unit, ahead), cost) in self.units.iter_mut().zip(ahead).zip(cost) {
            // Most scopes have limits in one unit or two.
            if unit.level.bucket().is_none() && !unit.pacer.is_pacing() && unit.window.left(at).is_none() {
                continue;
            }
            unit.level.refill(at);
            let mut low = unit.level.wait(*ahead, *cost, unit.pacer.mean(), batch);
            if unit.level.is_learned() && requests_ahead <= 0.0 && low > 0.0 && self.slots.in_flight() == 0 {
                // What headers said a minute ago may hold no longer; one call may find out. A configured limit
                // that is the lower one is not doubted.
                if unit.level.origin() != Some(Origin::Configured) {
                    low = low.min(self.last_sent + STALE - at);
                }
            }
            limit = limit.max(low).max(unit.window.wait(at, *ahead, *cost));
            if *cost > 0.0 && unit.pacer.is_pacing() {
                pacing = pacing.max(unit.pacer.wait(at, *ahead, *cost, unit.level.learned_rate()));
            }
        }
        let (learned, learned_cause) =
            if pacing > limit { (pacing, WaitCause::Pacing) } else { (limit, WaitCause::Limit) };
        let learned = duration(learned);
        let closed = self.closed_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        // What pacing adds of less than this is the rounding of its arithmetic, and would cost a tick of the timer.
        let (time, cause) = if closed.saturating_add(ROUNDING) >= learned {
            (closed, WaitCause::CoolDown)
        } else {
            (learned, learned_cause)
        };
        if !time.is_zero() {
            Wait { time, cause }
        } else if self.slots.is_free() {
            Wait { time, cause: WaitCause::Nothing }
        } else {
            Wait { time, cause: WaitCause::Concurrency }
        }
    }
}
