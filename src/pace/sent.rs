//! A call that was let go: what is taken for it, and what comes back.

use std::time::Instant;

use super::{Amounts, Cost, Pace, TokenUsage, Unit};

/// A call that was let go, as the pace remembers it until it ends.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    granted: Instant,
    pub(super) at: f64,
    pub(super) cost: Amounts,
    pub(super) before: Amounts,
    /// Whether the tokens were estimated by the caller rather than taken from the mean.
    pub(super) estimated: bool,
}

impl Sent {
    /// The call left later than it was let go.
    #[inline]
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
    pub(super) estimated: bool,
}

impl Sent {
    /// What the call is counted for in tokens.
    pub(crate) const fn tokens(&self) -> f64 {
        let [_, tokens, ..] = self.cost;
        tokens
    }
}

impl Pace {
    /// Lets a call go: takes its cost and a slot.
    pub fn send(&mut self, cost: Cost, now: Instant) -> Sent {
        let demand = self.demand(cost);
        self.send_demand(&demand, now)
    }

    /// Lets a call go if it can be seen at a glance that nothing holds it back, as is the case for most. Where it is not,
    /// [`wait_behind`](Self::wait_behind) tells what does, if anything; by that a call may still go.
    #[inline]
    pub(crate) fn send_at_once(&mut self, demand: &Demand, batch: bool, now: Instant) -> Option<Sent> {
        if self.is_closed(now) || !self.slots.is_free() {
            return None;
        }
        let at = self.tick(now);
        for (unit, cost) in self.units.iter_mut().zip(&demand.amounts) {
            if !unit.admits(at, *cost, batch) {
                return None;
            }
        }
        Some(self.take(demand, at, now))
    }

    pub(crate) fn send_demand(&mut self, demand: &Demand, now: Instant) -> Sent {
        let at = self.tick(now);
        for unit in &mut self.units {
            unit.level.refill(at);
        }
        self.take(demand, at, now)
    }

    #[inline(always)]
    fn take(&mut self, demand: &Demand, at: f64, now: Instant) -> Sent {
        let Demand { amounts: cost, estimated } = *demand;
        let mut sent = Sent { granted: now, at, cost, before: [0.0; 4], estimated };
        for ((unit, cost), before) in self.units.iter_mut().zip(&sent.cost).zip(&mut sent.before) {
            *before = unit.take(at, *cost);
        }
        self.slots.take();
        self.last_sent = self.last_sent.max(at);
        sent
    }

    /// Gives back the slot of a call that has ended, however it ended.
    pub const fn ended(&mut self) {
        self.slots.release();
    }

    /// A call, whose slot is still held, has ended cleanly with the end of its body.
    #[inline]
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
        self.correct(sent, &[0.0; 4], now);
    }

    /// Replaces the estimate of a call by its usage, in both directions.
    #[inline]
    pub fn settle(&mut self, sent: &mut Sent, usage: TokenUsage, now: Instant) {
        let actual = usage.amounts();
        self.correct(sent, &actual, now);
        if !sent.estimated {
            for (unit, tokens) in self.units.iter_mut().zip(actual).skip(1) {
                unit.pacer.learn_mean(tokens);
            }
        }
        sent.cost = actual;
    }

    #[inline(always)]
    fn correct(&mut self, sent: &Sent, actual: &Amounts, now: Instant) {
        let at = self.tick(now);
        for ((unit, estimate), actual) in self.units.iter_mut().zip(&sent.cost).zip(actual) {
            unit.level.refill(at);
            unit.level.add(estimate - actual);
            unit.window.correct(sent.at, actual - estimate);
            unit.pacer.correct(actual - estimate);
        }
    }
}

impl Unit {
    /// Whether it can be seen at a glance that a call of `cost` may pass with nobody before it.
    #[inline]
    fn admits(&mut self, at: f64, cost: f64, batch: bool) -> bool {
        self.pacer.arrived(at);
        self.level.refill(at);
        !self.pacer.is_pacing()
            && self.level.wait(0.0, cost, self.pacer.mean(), batch) <= 0.0
            && self.window.wait(at, 0.0, cost) <= 0.0
    }

    /// Takes the `cost` of a call, if any; returns everything sent before it. The level has been refilled.
    #[inline]
    fn take(&mut self, at: f64, cost: f64) -> f64 {
        if cost <= 0.0 {
            return self.pacer.sent();
        }
        self.level.take(cost);
        self.window.take(cost);
        let cap = self.level.bucket().map(|bucket| bucket.rate);
        self.pacer.send(at, cost, cap)
    }
}
