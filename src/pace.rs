//! The arithmetic of one scope: levels, anchored pacing, slots, cool-down, and the wait that follows from them.
//!
//! Pure: the moment and the random draw are arguments, nothing here waits, locks or reads a clock. The queue that
//! stands before it is [`crate::gate`]. Sources: token bucket with debt as in Go's `x/time/rate`; additive increase and
//! multiplicative decrease as in Netflix's concurrency-limits; anchored pacing is this crate's own and is described
//! at [`Pace::refused`].

mod anchor;
mod concurrency;
mod cost;
mod level;
mod limits;
mod number;
mod view;

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::reading::ServiceLimit;
use crate::units::{QuotaUnit, QuotaUnits};
use anchor::{Pacer, Refused};
pub(crate) use concurrency::Slots;
pub(crate) use cost::{Amounts, PACED, add, subtract};
pub use cost::{Cost, TokenEstimate, TokenUsage};
use level::{Level, Observation, Origin, STALE};
pub use limits::{InvalidLimits, Limits};
pub(crate) use number::LONGEST;
use number::{duration, float};
pub use view::{LimitOrigin, UnitState};

/// A server's stated level below this share of its limit starts pacing, above the second share it ends.
const ENTER: f64 = 0.05;
const LEAVE: f64 = 0.10;
const ROUNDING: Duration = Duration::from_micros(5);
/// The most that half a round trip is taken for, in seconds; answers also hold the time the server worked.
const LONGEST_ONE_WAY: f64 = 0.05;
/// The cool-down after "too many at once" without advice, in seconds, before doubling and jitter.
const SLOT_BACKOFF: f64 = 0.25;
const LONGEST_SLOT_BACKOFF: f64 = 1.0;

/// The pace of one scope.
#[derive(Debug, Clone)]
pub struct Pace {
    epoch: Instant,
    units: [Unit; 4],
    slots: Slots,
    limits: Limits,
    closed_until: Option<Instant>,
    /// The shortest time from sending to the head of the response, in seconds.
    shortest_trip: f64,
    last_sent: f64,
    slot_failures: i32,
    /// How long a call takes from sending to the end of its body, in seconds.
    mean_duration: f64,
}

#[derive(Debug, Clone, Default)]
struct Unit {
    level: Level,
    pacer: Pacer,
}

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
}

/// A call that was let go, as the pace remembers it until it ends.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    at: f64,
    cost: Amounts,
    before: Amounts,
    /// Whether the tokens were estimated by the caller rather than taken from the mean.
    estimated: bool,
}

/// What a call asks for, resolved against the means of its scope.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    pub(crate) amounts: Amounts,
    estimated: bool,
}

impl Pace {
    /// A scope of which nothing is known but the configured limits.
    #[must_use]
    pub fn new(limits: Limits, now: Instant) -> Self {
        let mut pace = Self {
            epoch: now,
            units: Default::default(),
            slots: Slots::default(),
            limits: Limits::default(),
            closed_until: None,
            shortest_trip: f64::INFINITY,
            last_sent: f64::NEG_INFINITY,
            slot_failures: 0,
            mean_duration: 0.0,
        };
        pace.set_limits(limits, now);
        pace
    }

    /// Changes the configured limits. What has been spent stays spent: levels are refilled at the old rate first.
    pub fn set_limits(&mut self, limits: Limits, now: Instant) {
        let at = self.seconds(now);
        for (unit, per_minute) in self.units.iter_mut().zip(limits.per_minute()) {
            unit.level.configure(per_minute, at);
        }
        self.slots.configure(limits.slots());
        self.limits = limits;
    }

    /// The configured limits.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Seconds since this pace began; a clock that steps back stands still.
    fn seconds(&self, now: Instant) -> f64 {
        now.saturating_duration_since(self.epoch).as_secs_f64()
    }

    /// The cost of a call in every paced unit, with the scope's mean for what is not estimated.
    pub(crate) fn demand(&self, cost: Cost) -> Demand {
        let amounts = cost.amounts(|| self.units.each_ref().map(|unit| unit.pacer.mean()));
        Demand { amounts, estimated: cost.is_estimated() }
    }

    /// A call arrives; an idle pacer opens.
    pub fn arrived(&mut self, now: Instant) {
        if self.is_closed(now) {
            return;
        }
        let at = self.seconds(now);
        for unit in &mut self.units {
            unit.pacer.arrived(at);
        }
    }

    /// Whether the scope is in a cool-down.
    #[must_use]
    pub fn is_closed(&self, now: Instant) -> bool {
        self.closed_until.is_some_and(|until| now < until)
    }

    /// The end of the cool-down, which may be past.
    #[must_use]
    pub const fn closed_until(&self) -> Option<Instant> {
        self.closed_until
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
        let at = self.seconds(now);
        let [requests_ahead, ..] = *ahead;
        let (mut limit, mut pacing) = (0.0_f64, 0.0_f64);
        for ((unit, ahead), cost) in self.units.iter_mut().zip(ahead).zip(cost) {
            unit.level.refill(at);
            let mut low = unit.level.wait(*ahead, *cost, unit.pacer.mean(), batch);
            if unit.level.is_learned() && requests_ahead <= 0.0 && low > 0.0 && self.slots.in_flight() == 0 {
                // What headers said a minute ago may hold no longer; one call may find out. A configured limit
                // that is the lower one is not doubted.
                if unit.level.origin() != Some(Origin::Configured) {
                    low = low.min(self.last_sent + STALE - at);
                }
            }
            limit = limit.max(low);
            if *cost > 0.0 {
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

    /// Lets a call go: takes its cost and a slot.
    pub fn send(&mut self, cost: Cost, now: Instant) -> Sent {
        let demand = self.demand(cost);
        self.send_demand(demand, now)
    }

    pub(crate) fn send_demand(&mut self, demand: Demand, now: Instant) -> Sent {
        let at = self.seconds(now);
        let Demand { amounts: cost, estimated } = demand;
        let mut before = [0.0; 4];
        for ((unit, cost), before) in self.units.iter_mut().zip(cost).zip(&mut before) {
            unit.level.refill(at);
            unit.level.take(cost);
            let cap = unit.level.bucket().map(|bucket| bucket.rate);
            *before = unit.pacer.send(at, cost, cap);
        }
        self.slots.take();
        self.last_sent = self.last_sent.max(at);
        Sent { at, cost, before, estimated }
    }

    /// The call left later than it was let go.
    pub(crate) fn sent_at(&self, sent: &mut Sent, now: Instant) {
        sent.at = sent.at.max(self.seconds(now));
    }

    /// Gives back the slot of a call that has ended, however it ended.
    pub const fn ended(&mut self) {
        self.slots.release();
    }

    /// A call, whose slot is still held, has ended cleanly with the end of its body.
    pub fn succeeded(&mut self, sent: &Sent, now: Instant) {
        let took = (self.seconds(now) - sent.at).max(0.0);
        self.mean_duration = if self.mean_duration > 0.0 {
            0.1f64.mul_add(took - self.mean_duration, self.mean_duration)
        } else {
            took
        };
        self.slots.succeeded();
        self.slot_failures = 0;
    }

    /// Gives back the cost of a call that was let go and never sent.
    pub fn give_back(&mut self, sent: &Sent, now: Instant) {
        self.correct(sent, [0.0; 4], now);
    }

    /// Replaces the estimate of a call by its usage, in both directions.
    pub fn settle(&mut self, sent: &mut Sent, usage: TokenUsage, now: Instant) {
        let actual = usage.amounts();
        self.correct(sent, actual, now);
        if !sent.estimated {
            for (unit, tokens) in self.units.iter_mut().zip(actual).skip(1) {
                unit.pacer.learn_mean(tokens);
            }
        }
        sent.cost = actual;
    }

    fn correct(&mut self, sent: &Sent, actual: Amounts, now: Instant) {
        let at = self.seconds(now);
        for ((unit, estimate), actual) in self.units.iter_mut().zip(sent.cost).zip(actual) {
            unit.level.refill(at);
            unit.level.add(estimate - actual);
            unit.pacer.correct(actual - estimate);
        }
    }

    /// The server took a call: learns from the limits that its response states.
    ///
    /// The level follows `min(B, remaining + r·(now − sent − one way)) − (cost sent since)`; down at once, up by a
    /// quarter of the difference. Observations older than the last one are left out. Where a server has less than
    /// 5 % of its limit left, calls are paced before it refuses; above 10 % no longer.
    pub fn observe(&mut self, sent: &Sent, limits: &[ServiceLimit], now: Instant) {
        let at = self.seconds(now);
        self.shortest_trip = self.shortest_trip.min((at - sent.at).max(0.0));
        let one_way = (0.5 * self.shortest_trip).min(LONGEST_ONE_WAY);
        for ((unit, name), (cost, before)) in
            self.units.iter_mut().zip(PACED).zip(sent.cost.into_iter().zip(sent.before))
        {
            unit.pacer.succeeded();
            let Some(limit) = shortest_window(limits, name) else { continue };
            let sent_after = (unit.pacer.sent() - before - cost).max(0.0);
            let seen = Observation { limit, sent_at: sent.at, now: at, sent_after, one_way };
            let Some(server) = unit.level.observe(&seen) else { continue };
            let (Some(stated), Some(rate)) = (limit.limit, unit.level.learned_rate()) else { continue };
            let stated = float(stated);
            if server < ENTER * stated {
                unit.pacer.enter(at, rate);
            } else if server > LEAVE * stated {
                unit.pacer.leave();
            }
        }
    }

    /// The server refused a call for want of capacity; returns whether the scope's waits have become longer.
    ///
    /// `advice` is the wait that the response asks for, counted from its receipt at `now`; `exhausted` the units it
    /// says are used up; `alone`, of a call that has the scope to itself, is the wait that it plans, jitter included; `draw` is a random number from [0, 1).
    ///
    /// The scope is closed until `now + advice`, by maximum, and then re-opens paced. A refusal without advice (or
    /// with one of zero) backs off, doubling from the time of one mean call.
    pub fn refused(
        &mut self,
        sent: &Sent,
        advice: Option<Duration>,
        exhausted: QuotaUnits,
        alone: Option<Duration>,
        draw: f64,
        now: Instant,
    ) -> bool {
        let at = self.seconds(now);
        let advice = advice.filter(|wait| !wait.is_zero()).map(|wait| wait.min(LONGEST));
        let draw = if (0.0..1.0).contains(&draw) { draw } else { 0.5 };
        let long_lived = exhausted.contains(QuotaUnit::Quota);
        let slots = exhausted.contains(QuotaUnit::Concurrency);
        // A unit in which the call cost nothing cannot pace; the calls themselves then stand in for it.
        let named =
            PACED.into_iter().zip(sent.cost).any(|(unit, cost)| exhausted.contains(unit) && cost > 0.0);
        let lead = if sent.cost.iter().skip(1).take(1).any(|cost| *cost > 0.0) {
            QuotaUnit::Tokens
        } else {
            QuotaUnit::Requests
        };

        let before = self.closed_until;
        let mut later = false;
        let mut wait = 0.0_f64;
        for ((unit, name), (cost, sent_before)) in
            self.units.iter_mut().zip(PACED).zip(sent.cost.into_iter().zip(sent.before))
        {
            unit.level.refill(at);
            unit.level.add(cost);
            let blamed =
                cost > 0.0 && exhausted.contains(name) || !named && !slots && !long_lived && name == lead;
            if !blamed {
                unit.pacer.not_admitted(cost);
                continue;
            }
            let header_rate = unit.level.learned_rate();
            let seen = Refused {
                now: at,
                sent_at: sent.at,
                sent_before,
                cost,
                advice: advice.map(|wait| wait.as_secs_f64()),
                alone: alone.map(|planned| planned.as_secs_f64()),
                draw,
                header_rate,
                cap: unit.level.bucket().map(|bucket| bucket.rate),
            };
            let was = unit.pacer.wait(at, 0.0, 0.0, None);
            wait = wait.max(unit.pacer.refuse(&seen));
            later |= unit.pacer.wait(at, 0.0, 0.0, None) > was;
        }
        if slots {
            self.slots.refused(sent.at, at);
            self.slot_failures = self.slot_failures.saturating_add(1);
            let doublings = f64::from(self.slot_failures.saturating_sub(1).clamp(0, 8)).exp2();
            wait = wait.max((SLOT_BACKOFF * doublings).min(LONGEST_SLOT_BACKOFF) * (0.5 + draw));
        }
        // The advice itself, not its float: nothing may be sent a nanosecond before.
        let floor = alone.max(advice).unwrap_or_else(|| duration(wait)).min(LONGEST);
        let until = now.checked_add(floor);
        self.closed_until = self.closed_until.max(until);
        later || self.closed_until > before
    }

    /// Closes the scope for `wait` from `now`, by maximum; returns whether that is longer than before.
    pub fn close(&mut self, wait: Duration, now: Instant) -> bool {
        let before = self.closed_until;
        self.closed_until = before.max(now.checked_add(wait.min(LONGEST)));
        self.closed_until > before
    }

    pub(crate) const fn slots(&self) -> &Slots {
        &self.slots
    }
}

/// The entry of a unit with the shortest window; the first where no window is stated.
fn shortest_window(limits: &[ServiceLimit], unit: QuotaUnit) -> Option<&ServiceLimit> {
    limits
        .iter()
        .filter(|limit| limit.unit == unit && limit.limit.is_some())
        .min_by_key(|limit| limit.window.unwrap_or(Duration::MAX))
}
