//! The arithmetic of one scope: when the next call may go, and what responses teach.
//!
//! A plain value: an event and the moment it happened make the next state. Nothing here waits, locks, reads a clock or draws
//! at random. The queue that stands before it is [`crate::gate`].
//!
//! # The mechanism
//!
//! Until the first refusal calls go as they come. From then on they go one after another, at a rate that follows **CUBIC**
//! ([RFC 9438](https://www.rfc-editor.org/rfc/rfc9438)), with calls instead of seconds on its axis:
//!
//! ```text
//! rate                                                    refused: cut ─┐
//!                                                                   ╱   ↓
//!                                                                 ╱     ╷
//!  top ├┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄___─────────────────___┄┄┄┄┄┄┄┄┄╱┄┄┄┄┄┄┄┼┄┄┄
//!      │                  __──‾‾                       ‾‾──__ ╱         │
//!      │              _─‾                                               │  _─‾
//!  .9  ├┄┄┄┄┄┄┄┄┄┄┄_‾                                                   └‾
//!      └───────────┴──────────────────┴──────────────────┴──────────────────→
//!                  0                one way            two ways      calls held back
//!                       back to the top     flat around it   then doubling
//! ```
//!
//! The calls between two refusals are the price of staying at a limit, 2 to 3 of a hundred calls; what it buys is that no kind
//! of limiter has to be known. Eight rules make it hold at most of them.
//!
//! 1. **Admitted by patience** (`pending`). A refusal comes within milliseconds, an answer after the service time. What is not
//!    refused within three times what refusals take was admitted, and verdicts are given in the order of sending.
//! 2. **Closed runs** (`pacer`). From the second refusal in a row on the scope is closed: single probes, waits that double. The
//!    rate is decided by the first call admitted afterwards, and nowhere else.
//! 3. **Where it falls to** (`pacer`). What went through in a cycle, closed time included, is the capacity if unused
//!    capacity is saved; otherwise it is less. So the new top is the middle between that and the rate reached, or the
//!    throughput alone if the scope was shut for most of the cycle. A first burst that was mostly refused tells no rate.
//! 4. **The loop is no faster than its feedback** (`curve`, `pacer`). The way back grows with the time that refusals take, and
//!    with the time that they close the scope.
//! 5. **Pacing has to pay** (`undo`). Refusals that come early, several times in a row, are no limit: the cut is undone as TCP
//!    undoes a spurious one (Eifel, RFC 3522; F-RTO, RFC 5682), and the share that comes at any rate is borne, unless a long
//!    trial shows that nothing more goes through for it.
//! 6. **In flight** (`in_flight`). If the number in flight splits the refused calls from the admitted ones, that is capped
//!    instead.
//! 7. **Witnesses and suspects** (`witnesses`, `suspects`). Advice is for all, unless calls sent after the refused one, in its
//!    advised time and before it was heard of, went through. A call or route that is refused again and again while others go
//!    through says nothing of the scope.
//! 8. **Statements are hypotheses** (`stated`, `level`, `trust`). What headers state holds calls back as far as it came true:
//!    at first for a minute, later for twice as long as it ever did. Two calls that both took the last one contradict it.
//!
//! Rates are in calls of mean cost: a call of twice the mean tokens keeps the next one back twice as long. Below it all is a
//! net (`net`): if pacing lets through less than half of what would go through without it, it is given up.

mod cost;
mod curve;
mod in_flight;
mod level;
mod limits;
mod net;
mod number;
mod pacer;
mod pending;
mod sent;
mod stated;
mod suspects;
mod taught;
mod trust;
mod undo;
mod view;
mod wait;
mod witnesses;

use std::time::{Duration, Instant};

pub(crate) use cost::{Amounts, add, subtract};
pub use cost::{Cost, TokenEstimate, TokenUsage};
pub(crate) use in_flight::InFlight;
use level::Level;
pub use limits::{InvalidLimits, Limits};
pub(crate) use number::{LONGEST, float, wait_of, whole};
use pacer::Pacer;
pub(crate) use sent::Demand;
pub use sent::Sent;
use stated::StatedWindow;
pub(crate) use taught::{Lesson, RefusedCall};
pub use view::{LimitOrigin, UnitState};
pub use wait::{Wait, WaitCause};

/// The pace of one scope.
#[derive(Debug, Clone)]
pub struct Pace {
    epoch: Instant,
    units: [Unit; 4],
    /// The time window that headers state, and the unit it counts.
    stated: Option<(usize, StatedWindow)>,
    pacer: Pacer,
    /// The unit that work is measured in.
    lead: usize,
    limits: Limits,
    rules: Rules,
    closed_until: Option<Instant>,
    /// The shortest time from sending to the head of the response, in seconds.
    shortest_trip: f64,
    last_sent: f64,
    /// Refusals in a row that named the calls in flight.
    too_many: u32,
    /// The call that was alone in the scope when it was refused, until any call is sent: it keeps its own plan.
    lone: Option<u64>,
    /// How long a call takes from sending to the end of its body, in seconds.
    mean_duration: f64,
}

/// What the user has decided on how a scope behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Whether advice always closes the scope for all, whatever witnesses say.
    pub(crate) always_for_all: bool,
    /// Whether other processes use the same limit.
    pub(crate) shared_limit: bool,
    /// The longest that one response closes the scope.
    pub(crate) max_cool_down: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self { always_for_all: false, shared_limit: false, max_cool_down: LONGEST }
    }
}

/// One quota unit.
#[derive(Debug, Clone, Default)]
struct Unit {
    level: Level,
    /// The mean cost of a call.
    mean: f64,
    /// Everything sent so far.
    sent: f64,
}

impl Pace {
    /// A scope of which nothing is known but the configured limits.
    #[must_use]
    pub fn new(limits: Limits, now: Instant) -> Self {
        Self::with_rules(limits, Rules::default(), now)
    }

    pub(crate) fn with_rules(limits: Limits, rules: Rules, now: Instant) -> Self {
        let mut pace = Self {
            epoch: now,
            units: Default::default(),
            stated: None,
            pacer: Pacer::new(rules.shared_limit),
            lead: 0,
            limits: Limits::default(),
            rules,
            closed_until: None,
            shortest_trip: f64::INFINITY,
            last_sent: f64::NEG_INFINITY,
            too_many: 0,
            lone: None,
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
        self.pacer.in_flight.configure(limits.slots());
        self.limits = limits;
    }

    /// The configured limits.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Seconds since this pace began; a clock that steps back before that stands still.
    #[inline]
    fn seconds(&self, now: Instant) -> f64 {
        now.saturating_duration_since(self.epoch).as_secs_f64()
    }

    /// The cost of a call in every unit, with the scope's mean for what is not estimated.
    pub(crate) fn demand(&self, cost: Cost) -> Demand {
        let amounts = cost.amounts(|| self.units.each_ref().map(|unit| unit.mean));
        Demand { amounts, estimated: cost.is_estimated(), again: None }
    }

    /// Whether a call was alone in the scope when it was refused, and no other has been sent since.
    fn is_lone(&self, demand: &Demand) -> bool {
        demand.again.is_some() && demand.again == self.lone
    }

    /// The work of a call: its cost in calls of mean cost.
    fn work(&self, cost: &Amounts) -> f64 {
        /// Beyond it is the estimate that is odd.
        const MOST: f64 = 64.0;
        let work = self.work_of(cost).min(MOST);
        if work > 0.0 { work } else { 1.0 }
    }

    /// Amounts in calls of mean cost.
    fn work_of(&self, amounts: &Amounts) -> f64 {
        let known = self.units.get(self.lead).zip(amounts.get(self.lead));
        known.filter(|(unit, _)| unit.mean > 0.0).map_or(0.0, |(unit, amount)| amount / unit.mean)
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

    /// Closes the scope for `wait` from `now`, by maximum; returns whether that is longer than before.
    pub fn close(&mut self, wait: Duration, now: Instant) -> bool {
        let before = self.closed_until;
        let bounded = wait.min(self.rules.max_cool_down).min(LONGEST);
        self.closed_until = before.max(now.checked_add(bounded));
        if bounded < wait {
            // Nobody knows what holds after so long: one call at a time asks again.
            self.pacer.ask_singly();
        }
        self.closed_until > before
    }

    /// Ends the cool-down and whatever else a refusal has set, limits that are configured or stated apart.
    pub fn reopen(&mut self, now: Instant) {
        self.closed_until = None;
        self.pacer.reopen(self.seconds(now));
    }

    /// Whether the pace was given up: calls go by the cool-down alone.
    #[must_use]
    pub const fn has_opened(&self) -> bool {
        self.pacer.net.has_opened()
    }

    /// The same, if it has changed since this was asked last.
    pub(crate) fn news(&mut self) -> Option<bool> {
        self.pacer.net.news()
    }

    pub(crate) const fn in_flight(&self) -> &InFlight {
        &self.pacer.in_flight
    }
}

#[cfg(test)]
mod tests;
