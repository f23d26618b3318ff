//! Calls in flight: counted slots, with a limit that is configured or learned by additive increase and
//! multiplicative decrease.
//!
//! The limit is learned only from refusals that say "too many at once". Latency is no evidence: that of an LLM follows
//! the length of its output.

use super::number::{float, whole};

const DECREASE: f64 = 0.9;
/// A learned limit that has grown so far limits nothing any more.
const FORGOTTEN: f64 = 65_536.0;

#[derive(Debug, Clone, Default)]
pub(crate) struct Slots {
    in_flight: u32,
    configured: Option<u32>,
    learned: Option<f64>,
    /// Clean ends since the limit last grew.
    credit: f64,
    /// When the limit was last lowered; refusals of calls sent before then tell of the old limit.
    lowered: f64,
}

impl Slots {
    pub(crate) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(crate) const fn configure(&mut self, slots: Option<u32>) {
        self.configured = slots;
    }

    #[inline]
    pub(crate) fn learned(&self) -> Option<u32> {
        self.learned.map(|limit| u32::try_from(whole(limit)).unwrap_or(u32::MAX).max(1))
    }

    /// The limit in force.
    #[inline]
    pub(crate) fn limit(&self) -> Option<u32> {
        match (self.configured, self.learned()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.limit().is_none_or(|limit| self.in_flight < limit)
    }

    pub(crate) const fn take(&mut self) {
        self.in_flight = self.in_flight.saturating_add(1);
    }

    pub(crate) const fn release(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// A call, still counted as in flight, has ended cleanly.
    pub(crate) fn succeeded(&mut self) {
        let Some(limit) = self.learned else { return };
        self.credit += 1.0;
        // Only a limit that is in use is known to be too low.
        if 2.0 * f64::from(self.in_flight) >= limit && self.credit >= limit {
            self.credit = 0.0;
            let grown = limit + 1.0;
            let cap = self.configured.map_or(FORGOTTEN, |slots| float(u64::from(slots)));
            self.learned = (grown < cap).then_some(grown);
        }
    }

    /// A call, still counted as in flight, was refused because too many were.
    pub(crate) fn refused(&mut self, sent_at: f64, now: f64) {
        if self.learned.is_some() && sent_at < self.lowered {
            return;
        }
        let base = self.learned.unwrap_or_else(|| f64::from(self.in_flight));
        self.learned = Some((base * DECREASE).max(1.0));
        self.lowered = now;
        self.credit = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_falls_once_per_round_trip_and_grows_by_one_per_limit_of_successes() {
        let mut slots = Slots::default();
        for _ in 0..20 {
            slots.take();
        }
        assert!(slots.is_free());
        slots.refused(0.0, 1.0);
        slots.refused(0.5, 1.1);
        assert_eq!(slots.limit(), Some(18), "two refusals of one round trip lower the limit once");
        assert!(!slots.is_free());
        for _ in 0..18 {
            slots.succeeded();
        }
        assert_eq!(slots.limit(), Some(19));
        for _ in 0..15 {
            slots.release();
        }
        for _ in 0..100 {
            slots.succeeded();
        }
        assert_eq!(slots.limit(), Some(19), "a limit that is not in use does not grow");
    }

    #[test]
    fn the_limit_never_falls_below_one() {
        let mut slots = Slots::default();
        slots.take();
        for round in 0..100_u32 {
            slots.refused(f64::from(round), f64::from(round));
        }
        assert_eq!(slots.limit(), Some(1));
        slots.release();
        assert!(slots.is_free());
    }
}
