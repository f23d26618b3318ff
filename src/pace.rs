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
mod sent;
mod view;
mod wait;
mod window;

use std::time::Instant;

use anchor::Pacer;
pub(crate) use concurrency::Slots;
pub(crate) use cost::{Amounts, add, subtract};
pub use cost::{Cost, TokenEstimate, TokenUsage};
use level::Level;
pub use limits::{InvalidLimits, Limits};
pub(crate) use number::{LONGEST, float, wait_of, whole};
pub use planned::Planned;
pub(crate) use sent::Demand;
pub use sent::Sent;
pub use view::{LimitOrigin, UnitState};
pub use wait::{Wait, WaitCause};
use window::Window;

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
    #[inline]
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

    pub(crate) const fn slots(&self) -> &Slots {
        &self.slots
    }
}
