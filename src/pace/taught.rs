//! What responses teach: limits that they state, and refusals.

use std::time::{Duration, Instant};

use super::cost::PACED;
use super::level::Observation;
use super::number::{LONGEST, at_least, at_most, duration, float};
use super::pacer::{Circumstances, Heard, Meaning};
use super::stated::{ROUND, StatedWindow, Statement};
use super::{Pace, Sent};
use crate::reading::ServiceLimit;
use crate::units::{QuotaUnit, QuotaUnits};

/// The most that half a round trip is taken for, in seconds; answers also hold the time the server worked.
const LONGEST_ONE_WAY: f64 = 0.05;
/// A stated window is believed to last an hour at most: a success is weaker evidence than a refusal, and a wrong unit must not
/// close a scope for days.
const LONGEST_WINDOW: f64 = 3_600.0;
/// Nothing left and no reset: that holds back for so many seconds, once.
const ASSUMED_RESET: f64 = 1.0;
/// The first wait without advice of a call that waits by itself, and the longest, in seconds; it doubles with each refusal.
const FIRST_BACKOFF: f64 = 0.5;
const LONGEST_BACKOFF: f64 = 8.0;
/// The first and the longest cool-down after "too many at once" without advice, in seconds.
const TOO_MANY: (f64, f64) = (0.25, 1.0);

/// A refusal for want of capacity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusedCall {
    /// The call, and its kind: calls of one kind may be refused together.
    pub(crate) who: (u64, u64),
    /// The wait that the response asks for, counted from its receipt.
    pub(crate) advice: Option<Duration>,
    /// The wait that the call itself plans, margin and jitter included.
    pub(crate) planned: Duration,
    /// The units that are used up, as the response says.
    pub(crate) exhausted: QuotaUnits,
    /// Whether nobody else waits or is in flight.
    pub(crate) is_alone: bool,
    /// How often this call was refused before.
    pub(crate) refusals: u32,
    /// A random number from [0, 1).
    pub(crate) draw: f64,
}

/// What follows from a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lesson {
    /// Whether the scope's waits have become longer.
    pub(crate) is_later: bool,
    /// How long the refused call waits at least, whatever the others do.
    pub(crate) own: Duration,
    /// Whether it goes behind the others.
    pub(crate) is_suspect: bool,
}

impl Pace {
    /// The server took a call: learns from the limits that its response states.
    ///
    /// The level follows `min(B, remaining + r·(now − sent − one way)) − (cost sent since)`; down at once, up by a
    /// quarter of the difference. Observations older than the last one are left out. A window that
    /// [resets at once](ServiceLimit::resets_at_once) is believed as far as it came true.
    pub(crate) fn observe(&mut self, sent: &Sent, who: (u64, u64), limits: &[ServiceLimit], now: Instant) {
        let at = self.seconds(now);
        self.shortest_trip = at_most(at_least(at - sent.at, 0.0), self.shortest_trip);
        self.score(sent, false);
        let heard = Heard { now: at, call: sent.passed, who };
        let patience = self.pacer.pending.patience();
        if let Some((unit, window)) = &mut self.stated {
            let is_alone = sent.passed.in_flight <= 1;
            window.admitted(&sent.counted(*unit), is_alone, !limits.is_empty(), patience);
        }
        self.state(sent, limits, tightest(limits, true), at);
        self.pacer.admitted(&heard);
    }

    /// Takes in the limits that a response states, and the window that is the tightest of them.
    fn state(&mut self, sent: &Sent, limits: &[ServiceLimit], window: Option<Tightest<'_>>, at: f64) {
        if limits.is_empty() {
            return;
        }
        let one_way = at_most(0.5 * self.shortest_trip, LONGEST_ONE_WAY);
        for ((unit, name), (cost, before)) in
            self.units.iter_mut().zip(&PACED).zip(sent.cost.iter().zip(&sent.before))
        {
            let Some(limit) = shortest_window(limits, *name) else { continue };
            let sent_after = at_least(unit.sent - *before - *cost, 0.0);
            unit.level.observe(&Observation { limit, sent_at: sent.at, now: at, sent_after, one_way });
        }
        let Some((place, limit, said)) = window else { return };
        let Some(unit) = self.units.get(place) else { return };
        if self.stated.as_ref().is_none_or(|(known, _)| *known != place) {
            let one = if limit.unit == QuotaUnit::Requests { 1.0 } else { unit.mean.max(1.0) };
            self.stated = Some((place, StatedWindow::new(one, unit.sent, self.pacer.pending.latest())));
        }
        if let Some((_, window)) = &mut self.stated {
            window.state(&sent.counted(place), &said);
        }
    }

    fn score(&mut self, sent: &Sent, refused: bool) {
        for (unit, against) in self.units.iter_mut().zip(sent.against) {
            if against {
                unit.level.score(refused, sent.idle);
            }
        }
    }

    /// The server refused a call for want of capacity, its response received at `now`, which states `limits`.
    ///
    /// Where the advice is for all, the scope is closed for as long, by maximum; it re-opens paced.
    pub(crate) fn refused(
        &mut self,
        sent: &Sent,
        refusal: &RefusedCall,
        limits: &[ServiceLimit],
        now: Instant,
    ) -> Lesson {
        let at = self.seconds(now);
        let advice = refusal.advice.filter(|wait| !wait.is_zero()).map(|wait| wait.min(LONGEST));
        let draw = if (0.0..1.0).contains(&refusal.draw) { refusal.draw } else { 0.5 };
        let too_many = refusal.exhausted.contains(QuotaUnit::Concurrency);
        let long_lived = refusal.exhausted.contains(QuotaUnit::Quota);
        self.follow(sent, refusal.exhausted);
        self.score(sent, true);
        for (unit, cost) in self.units.iter_mut().zip(sent.cost) {
            unit.level.refill(at);
            unit.level.add(cost);
        }
        let mut is_explained = too_many || long_lived;
        if let Some((unit, window)) = &mut self.stated {
            window.uncount(&sent.counted(*unit));
        }
        let window = tightest(limits, false);
        // A wait that ends clearly before the reset says that something else holds.
        let is_overruled = advice
            .zip(window.as_ref())
            .is_some_and(|(advice, (.., said))| advice.as_secs_f64() + ROUND < said.reset);
        self.state(sent, limits, window.filter(|_| !is_overruled), at);
        if !is_overruled && let Some((unit, window)) = &mut self.stated {
            let takes = self.pacer.pending.refusal_takes().max(at - sent.at);
            is_explained |= window.explains(at, &sent.counted(*unit), takes);
        }

        let (closed, next) = (self.closed_until, self.pacer.next());
        let heard = Heard { now: at, call: sent.passed, who: refusal.who };
        // The moment that the decision names closes the scope, so that it holds with any number of callers.
        let advice = advice.map(|wait| wait.max(refusal.planned));
        let seconds = advice.map_or(0.0, |wait| wait.min(self.rules.max_cool_down).as_secs_f64());
        let is_alone = refusal.is_alone;
        self.lone = is_alone.then_some(refusal.who.0);
        let meaning = self.pacer.refused(
            &heard,
            &Circumstances {
                advice: seconds,
                may_be_alone: !self.rules.always_for_all,
                is_explained,
                has_no_others: is_alone,
            },
        );
        let mut own = refusal.planned.max(advice.unwrap_or_default());
        match meaning {
            Meaning::ForAll => {
                let wait = match advice {
                    None if too_many && is_alone && !refusal.planned.is_zero() => Some(refusal.planned),
                    None if too_many => Some(self.back_off(draw)),
                    advice => advice,
                };
                if too_many {
                    self.pacer.in_flight.too_many(at, sent.at, sent.passed.in_flight);
                }
                // The advice itself, not its float: nothing may be sent a nanosecond before.
                self.close(wait.unwrap_or_default(), now);
            }
            Meaning::Alone => {}
            Meaning::Suspect if is_alone => {}
            Meaning::Suspect => {
                let doubled = FIRST_BACKOFF * f64::from(refusal.refusals.min(16)).exp2();
                own = own.max(duration(doubled.min(LONGEST_BACKOFF) * (0.5 + 0.5 * draw)));
            }
        }
        let is_later = self.closed_until > closed || self.pacer.next() > next;
        Lesson { is_later, own: own.min(LONGEST), is_suspect: meaning == Meaning::Suspect }
    }

    /// Work is measured in the unit that refuses.
    fn follow(&mut self, sent: &Sent, exhausted: QuotaUnits) {
        let named =
            PACED.iter().zip(sent.cost).position(|(unit, cost)| exhausted.contains(*unit) && cost > 0.0);
        self.lead =
            named.unwrap_or_else(|| usize::from(sent.cost.iter().skip(1).take(1).any(|cost| *cost > 0.0)));
    }

    fn back_off(&mut self, draw: f64) -> Duration {
        let (first, longest) = TOO_MANY;
        let doubled = first * f64::from(self.too_many.min(8)).exp2();
        self.too_many = self.too_many.saturating_add(1);
        duration(doubled.min(longest) * (0.5 + draw))
    }
}

/// The entry of a unit with the shortest window; the first where no window is stated.
fn shortest_window(limits: &[ServiceLimit], unit: QuotaUnit) -> Option<&ServiceLimit> {
    let of_unit = limits.iter().filter(|limit| limit.unit == unit && limit.limit.is_some());
    of_unit.min_by_key(|limit| limit.window.unwrap_or(Duration::MAX))
}

/// The place of a window's unit, the window, and what is said of it.
type Tightest<'l> = (usize, &'l ServiceLimit, Statement);

/// The window that resets at once with the least left in proportion, with the place of its unit; of equals the one that resets
/// last.
fn tightest(limits: &[ServiceLimit], was_admitted: bool) -> Option<Tightest<'_>> {
    limits
        .iter()
        .filter(|limit| limit.resets_at_once && limit.limit != Some(0))
        .filter_map(|limit| {
            let place = PACED.iter().position(|unit| *unit == limit.unit)?;
            let remaining = float(limit.remaining?);
            let stated = limit.reset.filter(|reset| !reset.is_zero());
            let reset = stated.map_or(ASSUMED_RESET, |reset| reset.as_secs_f64().min(LONGEST_WINDOW));
            let most = limit.limit.map_or(remaining.max(1.0), float);
            let is_assumed = stated.is_none();
            let said = Statement { limit: most, remaining, reset, is_assumed, was_admitted };
            Some((place, limit, said))
        })
        .min_by(|(_, _, one), (_, _, other)| {
            let share = |said: &Statement| said.remaining / said.limit;
            share(one).total_cmp(&share(other)).then(other.reset.total_cmp(&one.reset))
        })
}
