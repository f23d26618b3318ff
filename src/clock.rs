//! The only place that knows what time it is, sleeps, or draws at random.
#![expect(clippy::disallowed_methods, reason = "this is the room that the other rooms are sent to")]

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::jitter::Draw;
use crate::unharmed::unharmed;

/// Now, by tokio's clock, so that a paused clock in tests is obeyed.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Now, by the wall clock; only for measuring the absolute times of servers that send no `Date`.
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// A timer that fires at `until` or up to a millisecond later. Dropping it leaves nothing behind.
pub(crate) fn sleep_until(until: Instant) -> tokio::time::Sleep {
    tokio::time::sleep_until(tokio::time::Instant::from_std(until))
}

/// Runs `future` until it is done or `until` has come. What is done at once sets no timer.
pub(crate) async fn until<F: Future>(until: Instant, future: F) -> Option<F::Output> {
    let (mut future, mut timer) = (pin!(future), pin!(None));
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        if timer.is_none() {
            timer.set(Some(sleep_until(until)));
        }
        timer.as_mut().as_pin_mut().map_or(Poll::Pending, |timer| timer.poll(context).map(|()| None))
    })
    .await
}

/// The source of random draws.
#[derive(Clone, Default)]
pub(crate) enum Chance {
    /// The thread's generator.
    #[default]
    Thread,
    /// One generator of a known seed: the same draws in the same order.
    Seeded(Arc<Mutex<StdRng>>),
    /// The caller's own.
    Injected(Arc<dyn Fn() -> f64 + Send + Sync>),
}

impl Chance {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    pub(crate) fn draw(&self) -> Draw {
        Draw::new(match self {
            Self::Thread => rand::rng().random(),
            Self::Seeded(generator) => generator.lock().unwrap_or_else(PoisonError::into_inner).random(),
            // Without an answer there is no jitter.
            Self::Injected(draw) => unharmed(|| draw()).unwrap_or_default(),
        })
    }

    /// A random version 4 UUID ([RFC 9562](https://www.rfc-editor.org/rfc/rfc9562#section-5.4)).
    pub(crate) fn uuid(&self) -> String {
        let bits: u128 = match self {
            Self::Seeded(generator) => generator.lock().unwrap_or_else(PoisonError::into_inner).random(),
            // An injected draw is for jitter; keys stay unique whatever it returns.
            Self::Thread | Self::Injected(_) => rand::rng().random(),
        };
        const VERSION: u128 = 0x4 << 76;
        const VARIANT: u128 = 0b10 << 62;
        const FREE: u128 = !((0xf << 76) | (0b11 << 62));
        let hex = format!("{:032x}", (bits & FREE) | VERSION | VARIANT);
        let part = |from, to| hex.get(from..to).unwrap_or_default();
        format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
    }
}

impl fmt::Debug for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread => "Thread",
            Self::Seeded(_) => "Seeded",
            Self::Injected(_) => "Injected",
        })
    }
}

/// The time from `earlier` to now.
pub(crate) fn since(earlier: Instant) -> Duration {
    now().saturating_duration_since(earlier)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_draws_stay_in_range() {
        let draws = |chance: Chance| (0..100).map(|_| chance.draw()).collect::<Vec<_>>();
        assert_eq!(draws(Chance::seeded(7)), draws(Chance::seeded(7)));
        assert_ne!(draws(Chance::seeded(7)), draws(Chance::seeded(8)));
        assert_eq!(draws(Chance::Injected(Arc::new(|| 9.0)))[0], Draw::new(1.0));
    }

    #[test]
    fn uuids_are_of_version_4_and_differ() {
        let uuids: std::collections::HashSet<_> = (0..100).map(|_| Chance::Thread.uuid()).collect();
        assert_eq!(uuids.len(), 100);
        for uuid in uuids {
            let parts: Vec<_> = uuid.split('-').collect();
            assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{uuid}");
            assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{uuid}");
        }
    }
}
