//! A call that was let go: what is taken for it, and what comes back.

use std::time::Instant;

use super::pacer::Passed;
use super::stated::Counted;
use super::{Amounts, Cost, Pace, TokenUsage};

/// A call that was let go, as the pace remembers it until it ends.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    granted: Instant,
    pub(super) at: f64,
    pub(super) cost: Amounts,
    pub(super) before: Amounts,
    /// Whether the tokens were estimated by the caller rather than taken from the mean.
    pub(super) estimated: bool,
    pub(super) passed: Passed,
    /// The units whose stated level spoke against it, and how long no call had been sent.
    pub(super) against: [bool; 4],
    pub(super) idle: f64,
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

    /// The call in terms of a window that counts `unit`.
    pub(super) fn counted(&self, unit: usize) -> Counted {
        let cost = self.cost.get(unit).copied().unwrap_or(0.0);
        let before = self.before.get(unit).copied().unwrap_or(0.0);
        Counted { order: self.passed.order, at: self.at, cost, sum: before + cost }
    }
}

/// What a call asks for, resolved against the means of its scope.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    pub(crate) amounts: Amounts,
    pub(super) estimated: bool,
    /// Which call it is, if it comes back after a refusal.
    pub(crate) again: Option<u64>,
}

/// The weight of one call in the mean cost.
const MEAN_GAIN: f64 = 1.0 / 64.0;

impl Pace {
    /// Lets a call go: takes its cost and its place among those in flight.
    pub fn send(&mut self, cost: Cost, now: Instant) -> Sent {
        let demand = self.demand(cost);
        self.send_demand(&demand, now)
    }

    pub(crate) fn send_demand(&mut self, demand: &Demand, now: Instant) -> Sent {
        let at = self.seconds(now);
        let Demand { amounts: cost, estimated, .. } = *demand;
        self.lone = None;
        self.pacer.in_flight.take(at);
        let (mut before, mut against) = ([0.0; 4], [false; 4]);
        for (((unit, cost), before), against) in
            self.units.iter_mut().zip(&cost).zip(&mut before).zip(&mut against)
        {
            *before = unit.sent;
            if *cost > 0.0 {
                unit.level.refill(at);
                *against = unit.level.speaks_against(*cost);
                unit.level.take(*cost);
                unit.sent += cost;
                learn(&mut unit.mean, *cost);
            }
        }
        let passed = self.pacer.sent(at, self.work(&cost));
        let idle = (at - self.last_sent).clamp(0.0, 1e9);
        let sent = Sent { granted: now, at, cost, before, estimated, passed, against, idle };
        if let Some((unit, window)) = &mut self.stated {
            window.sent(&sent.counted(*unit));
        }
        self.last_sent = self.last_sent.max(at);
        sent
    }

    /// A call, however it ended, is no longer in flight.
    pub const fn ended(&mut self) {
        self.pacer.in_flight.release();
    }

    /// A call that is still counted as in flight has ended cleanly with the end of its body.
    pub fn succeeded(&mut self, sent: &Sent, now: Instant) {
        let took = (self.seconds(now) - sent.at).max(0.0);
        let gain = if self.mean_duration > 0.0 { 0.1 } else { 1.0 };
        self.mean_duration += gain * (took - self.mean_duration);
        self.too_many = 0;
        self.pacer.in_flight.ended_cleanly(self.seconds(now), sent.at);
    }

    /// Gives back all that was taken for a call that was let go and never sent, as if it had not been.
    pub fn give_back(&mut self, sent: &Sent, now: Instant) {
        self.correct(sent, &[0.0; 4], now);
        self.pacer.returned(&sent.passed);
    }

    /// Replaces the estimate of a call by its usage, in both directions.
    pub fn settle(&mut self, sent: &mut Sent, usage: TokenUsage, now: Instant) {
        let actual = usage.amounts();
        let beyond = if sent.cost.get(self.lead).is_some_and(|cost| *cost > 0.0) {
            self.work(&actual) - self.work(&sent.cost)
        } else {
            0.0
        };
        self.pacer.correct(beyond);
        self.correct(sent, &actual, now);
        if !sent.estimated {
            for (unit, tokens) in self.units.iter_mut().zip(actual).skip(1) {
                learn(&mut unit.mean, tokens);
            }
        }
        sent.cost = actual;
    }

    fn correct(&mut self, sent: &Sent, actual: &Amounts, now: Instant) {
        let at = self.seconds(now);
        for ((unit, estimate), actual) in self.units.iter_mut().zip(&sent.cost).zip(actual) {
            unit.level.refill(at);
            unit.level.add(estimate - actual);
        }
        if let Some((unit, window)) = &mut self.stated {
            let (call, actual) = (sent.counted(*unit), actual.get(*unit).copied().unwrap_or(0.0));
            window.uncount(&Counted { cost: call.cost - actual, ..call });
        }
    }
}

fn learn(mean: &mut f64, cost: f64) {
    if cost > 0.0 {
        *mean += if *mean > 0.0 { MEAN_GAIN * (cost - *mean) } else { cost };
    }
}
