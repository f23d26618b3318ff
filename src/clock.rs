//! The only source of time and chance: everything else is told.

#![expect(clippy::disallowed_methods, reason = "this is the place that asks the clock and the generator")]

use std::time::Instant;

/// The present moment, by the clock of tokio, so that paused time is seen.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// A timer that fires at `instant` or up to a millisecond later.
pub(crate) fn sleep_until(instant: Instant) -> tokio::time::Sleep {
    tokio::time::sleep_until(instant.into())
}

/// Random numbers for jitter (SplitMix64): spread matters, secrecy does not.
#[derive(Debug, Clone)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) const fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn new() -> Self {
        Self(rand::random())
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from [0, 1).
    pub(crate) fn draw(&mut self) -> f64 {
        let high = u32::try_from(self.next() >> 32).unwrap_or(0);
        f64::from(high) / 4_294_967_296.0
    }
}
