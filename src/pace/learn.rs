//! What a pace learns from responses: from stated limits, and from refusals.

use std::time::{Duration, Instant};

use super::anchor::Refused;
use super::cost::PACED;
use super::level::Observation;
use super::number::{LONGEST, at_least, at_most, duration};
use super::planned::Planned;
use super::window::tightest;
use super::{Pace, Sent};
use crate::reading::ServiceLimit;
use crate::units::{QuotaUnit, QuotaUnits};

/// A server's stated level below this share of its limit starts pacing, above the second share it ends.
const ENTER: f64 = 0.05;
const LEAVE: f64 = 0.10;
/// The most that half a round trip is taken for, in seconds; answers also hold the time the server worked.
const LONGEST_ONE_WAY: f64 = 0.05;
/// The cool-down after "too many at once" without advice, in seconds, before doubling and jitter.
const SLOT_BACKOFF: f64 = 0.25;
const LONGEST_SLOT_BACKOFF: f64 = 1.0;

impl Pace {
    /// The server took a call: learns from the limits that its response states.
    ///
    /// The level follows `min(B, remaining + r·(now − sent − one way)) − (cost sent since)`; down at once, up by a
    /// quarter of the difference. Observations older than the last one are left out. Where a server has less than
    /// 5 % of its limit left, calls are paced before it refuses; above 10 % no longer.
    ///
    /// Of a window that [resets at once](ServiceLimit::resets_at_once) no more is sent than it has left, until it resets;
    /// for a second where nobody says when that is, and for an hour at most.
    pub fn observe(&mut self, sent: &Sent, limits: &[ServiceLimit], now: Instant) {
        let at = self.tick(now);
        self.shortest_trip = at_most(at_least(at - sent.at, 0.0), self.shortest_trip);
        let windows = limits.iter().any(|limit| limit.resets_at_once);
        let one_way = at_most(0.5 * self.shortest_trip, LONGEST_ONE_WAY);
        for ((unit, name), (cost, before)) in
            self.units.iter_mut().zip(&PACED).zip(sent.cost.iter().zip(&sent.before))
        {
            unit.pacer.succeeded();
            let sent_in_all = unit.pacer.sent();
            let observed = |limit| {
                let sent_after = at_least(sent_in_all - *before - *cost, 0.0);
                Observation { limit, sent_at: sent.at, now: at, sent_after, one_way }
            };
            if windows && let Some(limit) = tightest(limits, *name) {
                unit.window.observe(&observed(limit));
            }
            let Some(limit) = shortest_window(limits, *name) else { continue };
            let Some(seen) = unit.level.observe(&observed(limit)) else { continue };
            if seen.level < ENTER * seen.stated {
                unit.pacer.enter(at, seen.rate);
            } else if seen.level > LEAVE * seen.stated {
                unit.pacer.leave();
            }
        }
    }

    /// The server refused a call for want of capacity; returns whether the scope's waits have become longer.
    ///
    /// `advice` is the wait that the response asks for, counted from its receipt at `now`; `exhausted` the units it
    /// says are used up; `alone`, of a call that has the scope to itself, is the wait that it plans; `draw` is a random number from [0, 1).
    ///
    /// The scope is closed until `now + advice`, by maximum, and then re-opens paced. A refusal without advice (or
    /// with one of zero) backs off, doubling from the time of one mean call.
    pub fn refused(
        &mut self,
        sent: &Sent,
        advice: Option<Duration>,
        exhausted: QuotaUnits,
        alone: Option<Planned>,
        draw: f64,
        now: Instant,
    ) -> bool {
        let at = self.tick(now);
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
                alone: alone.map(|plan| (plan.wait.as_secs_f64(), plan.at_most.as_secs_f64())),
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
        let planned = alone.map(|plan| plan.wait).max(advice).filter(|wait| !wait.is_zero());
        let floor = planned.unwrap_or_else(|| duration(wait)).min(LONGEST);
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
}

/// The entry of a unit with the shortest window; the first where no window is stated.
fn shortest_window(limits: &[ServiceLimit], unit: QuotaUnit) -> Option<&ServiceLimit> {
    let mut shortest: Option<&ServiceLimit> = None;
    for limit in limits.iter().filter(|limit| limit.unit == unit && limit.limit.is_some()) {
        let window = |limit: &ServiceLimit| limit.window.unwrap_or(Duration::MAX);
        if shortest.is_none_or(|known| window(limit) < window(known)) {
            shortest = Some(limit);
        }
    }
    shortest
}
