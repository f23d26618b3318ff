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

    /// What the call is counted for in tokens.
    pub(crate) const fn tokens(&self) -> f64 {
        let [_, tokens, ..] = self.cost;
        tokens
    }
}

/// What a call asks for, resolved against the means of its scope.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    pub(crate) amounts: Amounts,
    pub(super) estimated: bool,
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

    // In line where every call goes by; the other caller is for calls that have waited.
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

    // In line where every call with a usage goes by; the other caller is for calls that were never sent.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{self, Draws};
    use crate::pace::{Limits, TokenEstimate, Wait, WaitCause};
    use crate::reading::ServiceLimit;
    use crate::units::{QuotaUnit, QuotaUnits};

    /// The long way: whatever holds the call back is reckoned.
    fn send_after_all(pace: &mut Pace, demand: &Demand, batch: bool, now: Instant) -> Result<Sent, Wait> {
        pace.arrived(now);
        let wait = pace.wait_behind(&[0.0; 4], &demand.amounts, batch, now);
        if wait.cause == WaitCause::Nothing { Ok(pace.send_demand(demand, now)) } else { Err(wait) }
    }

    /// Both ways lead to the same, to the last bit of what is kept.
    fn send(pace: &mut Pace, cost: Cost, batch: bool, now: Instant) -> (Result<Sent, Wait>, bool) {
        let demand = pace.demand(cost);
        let mut other = pace.clone();
        let expected = send_after_all(&mut other, &demand, batch, now);
        let at_once = pace.send_at_once(&demand, batch, now);
        let is_at_once = at_once.is_some();
        let sent = match at_once {
            Some(sent) => Ok(sent),
            None => send_after_all(pace, &demand, batch, now),
        };
        assert_eq!(format!("{sent:?} {pace:?}"), format!("{expected:?} {other:?}"));
        (sent, is_at_once)
    }

    fn stated(draws: &mut Draws) -> [ServiceLimit; 2] {
        [QuotaUnit::Requests, QuotaUnit::Tokens].map(|unit| ServiceLimit {
            limit: Some(100 + draws.next() % 10_000),
            remaining: Some(draws.next() % 10_000),
            reset: Some(Duration::from_millis(draws.next() % 60_000)),
            resets_at_once: draws.next().is_multiple_of(4),
            ..ServiceLimit::new(unit)
        })
    }

    #[test]
    fn what_is_let_go_at_a_glance_would_have_been_let_go_after_all() {
        let (mut at_once, mut after_all, mut held_back) = (0, 0, 0);
        for seed in 0..60_u64 {
            let mut draws = Draws::seeded(seed);
            let mut limits = Limits::new();
            if seed.is_multiple_of(2) {
                limits = limits.requests_per_minute(60 + draws.next() % 600);
            }
            if seed.is_multiple_of(3) {
                limits = limits.tokens_per_minute(10_000 + draws.next() % 100_000);
            }
            if seed.is_multiple_of(5) {
                limits = limits.concurrency(4);
            }
            let mut now = clock::now();
            let mut pace = Pace::new(limits, now);
            let mut calls: Vec<Sent> = Vec::new();
            for _ in 0..100 {
                let longest = if draws.next().is_multiple_of(4) { 60_000_000 } else { 1_000_000 };
                now += Duration::from_micros(draws.next() % longest);
                let estimate = TokenEstimate::new(draws.next() % 1_000, draws.next() % 500);
                let cost =
                    if draws.next().is_multiple_of(3) { Cost::request() } else { Cost::from(estimate) };
                match send(&mut pace, cost, draws.next().is_multiple_of(4), now) {
                    (Ok(sent), true) => (at_once, _) = (at_once + 1, calls.push(sent)),
                    (Ok(sent), false) => (after_all, _) = (after_all + 1, calls.push(sent)),
                    (Err(_), _) => held_back += 1,
                }
                let Some(mut call) = draws.next().is_multiple_of(2).then(|| calls.pop()).flatten() else {
                    continue;
                };
                now += Duration::from_micros(draws.next() % 1_000_000);
                match draws.next() % 16 {
                    0 => {
                        let advice = Some(Duration::from_millis(draws.next() % 3_000));
                        let _ = pace.refused(&call, advice, QuotaUnits::EMPTY, None, 0.5, now);
                    }
                    1 => pace.give_back(&call, now),
                    2..6 => pace.observe(&call, &stated(&mut draws), now),
                    6..12 => pace.settle(&mut call, TokenUsage::new(draws.next() % 1_000, 100), now),
                    _ => pace.succeeded(&call, now),
                }
                pace.ended();
            }
        }
        assert!(at_once > 1_000 && after_all > 30 && held_back > 1_000, "{at_once} {after_all} {held_back}");
    }
}
