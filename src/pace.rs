//! The arithmetic of one scope: levels, anchored pacing, slots, cool-down, and the wait that follows from them.
//!
//! Pure: the moment and the random draw are arguments, nothing here waits, locks or reads a clock. The queue that
//! stands before it is [`crate::gate`]. Sources: token bucket with debt as in Go's `x/time/rate`; additive increase and
//! multiplicative decrease as in Netflix's concurrency-limits; anchored pacing is this crate's own and is described
//! at [`Pace::refused`].

mod anchor;
mod concurrency;
mod cost;
mod independent;
mod learn;
mod level;
mod limits;
mod number;
mod planned;
mod recent;
mod view;
mod window;

use std::time::{Duration, Instant};

use serde::Serialize;

use anchor::Pacer;
pub(crate) use concurrency::Slots;
pub(crate) use cost::{Amounts, add, subtract};
pub use cost::{Cost, TokenEstimate, TokenUsage};
use level::{Level, Origin, STALE};
pub use limits::{InvalidLimits, Limits};
use number::duration;
pub(crate) use number::{LONGEST, float, wait_of, whole};
pub use planned::Planned;
pub use view::{LimitOrigin, UnitState};
use window::Window;

/// See [`Pace::wait_behind`].
const ROUNDING: Duration = Duration::from_micros(5);

/// The pace of one scope.
#[derive(Debug, Clone)]
pub struct Pace {
    epoch: Instant,
    /// The moment that was asked for last, in seconds: one event asks several times.
    latest: (Instant, f64),
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
    window: Window,
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
    /// The other processes of the fleet.
    Fleet,
}

/// A call that was let go, as the pace remembers it until it ends.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    granted: Instant,
    at: f64,
    cost: Amounts,
    before: Amounts,
    /// Whether the tokens were estimated by the caller rather than taken from the mean.
    estimated: bool,
}

impl Sent {
    /// The call left later than it was let go.
    pub(crate) fn left(&mut self, now: Instant) {
        if now > self.granted {
            self.at += now.saturating_duration_since(self.granted).as_secs_f64();
            self.granted = now;
        }
    }
}

/// What a call asks for, resolved against the means of its scope.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    pub(crate) amounts: Amounts,
    estimated: bool,
}

impl Sent {
    /// What the call is counted for in tokens.
    pub(crate) const fn tokens(&self) -> f64 {
        let [_, tokens, ..] = self.cost;
        tokens
    }
}

impl Pace {
    /// A scope of which nothing is known but the configured limits.
    #[must_use]
    pub fn new(limits: Limits, now: Instant) -> Self {
        let mut pace = Self {
            epoch: now,
            latest: (now, 0.0),
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
        let at = self.tick(now);
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

    /// The same, remembered.
    fn tick(&mut self, now: Instant) -> f64 {
        if now != self.latest.0 {
            self.latest = (now, self.seconds(now));
        }
        self.latest.1
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
        let at = self.tick(now);
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

    /// Lets a call go: takes its cost and a slot.
    pub fn send(&mut self, cost: Cost, now: Instant) -> Sent {
        let demand = self.demand(cost);
        self.send_demand(demand, now)
    }

    pub(crate) fn send_demand(&mut self, demand: Demand, now: Instant) -> Sent {
        let at = self.tick(now);
        let Demand { amounts: cost, estimated } = demand;
        let mut before = [0.0; 4];
        for ((unit, cost), before) in self.units.iter_mut().zip(cost).zip(&mut before) {
            if cost <= 0.0 {
                *before = unit.pacer.sent();
                continue;
            }
            unit.level.refill(at);
            unit.level.take(cost);
            unit.window.take(cost);
            let cap = unit.level.bucket().map(|bucket| bucket.rate);
            *before = unit.pacer.send(at, cost, cap);
        }
        self.slots.take();
        self.last_sent = self.last_sent.max(at);
        Sent { granted: now, at, cost, before, estimated }
    }

    /// Gives back the slot of a call that has ended, however it ended.
    pub const fn ended(&mut self) {
        self.slots.release();
    }

    /// A call, whose slot is still held, has ended cleanly with the end of its body.
    pub fn succeeded(&mut self, sent: &Sent, now: Instant) {
        let took = (self.tick(now) - sent.at).max(0.0);
        self.mean_duration = if self.mean_duration > 0.0 {
            self.mean_duration + 0.1 * (took - self.mean_duration)
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
        let at = self.tick(now);
        for ((unit, estimate), actual) in self.units.iter_mut().zip(sent.cost).zip(actual) {
            unit.level.refill(at);
            unit.level.add(estimate - actual);
            unit.window.correct(sent.at, actual - estimate);
            unit.pacer.correct(actual - estimate);
        }
    }

    pub(crate) const fn slots(&self) -> &Slots {
        &self.slots
    }
}
