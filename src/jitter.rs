//! The random part of a wait: upward jitter on top of advice, full jitter without advice.
//!
//! Jitter spreads callers that were all told the same moment. It only ever adds to what a server advised: a
//! draw that shortens the wait sends into a closed window, and costs a rejection for nothing. Where no server
//! advice exists there is nothing to undercut, and [full jitter] spreads best.
//!
//! Chance is an argument here: the same [`Draw`] gives the same wait.
//!
//! [full jitter]: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/

use std::fmt;
use std::time::Duration;

use serde::de;
use serde::{Deserialize, Serialize, Serializer};

/// One random draw, uniform on `[0, 1)`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Draw(f64);

impl Draw {
    /// The lowest draw: no jitter at all.
    pub const ZERO: Self = Self(0.0);

    /// A draw of `value`; anything outside `[0, 1)`, NaN included, is moved to the nearest end.
    #[must_use]
    pub const fn new(value: f64) -> Self {
        const LARGEST: f64 = 1.0 - f64::EPSILON;
        if value >= LARGEST {
            Self(LARGEST)
        } else if value > 0.0 {
            Self(value)
        } else {
            Self(0.0)
        }
    }

    /// The number itself.
    pub(crate) const fn get(self) -> f64 {
        self.0
    }

    /// The part of `whole` that this draw stands for.
    pub(crate) fn of(self, whole: Duration) -> Duration {
        // Never above `whole`, so within range; the conversion can only fail on rounding at Duration::MAX.
        Duration::try_from_secs_f64(whole.as_secs_f64() * self.0).unwrap_or(whole).min(whole)
    }
}

/// How far past the advised moment a call may wake: jitter that only adds.
///
/// Written as `"proportional"` (with its defaults), `{ proportional = { share = 0.2, at_least = "10ms" } }`,
/// `{ uniform = { up_to = "50ms" } }` or `"none"`, here in TOML.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum UpwardJitter {
    /// Uniform on `[0, max(share × wait, at_least))`.
    Proportional {
        /// The share of the wait, from 0 to 1.
        #[serde(default = "default_share")]
        share: f64,
        /// The spread of short waits.
        #[serde(with = "crate::policy::duration::jitter_at_least", default = "default_spread")]
        at_least: Duration,
    },
    /// Uniform on `[0, up_to)`, whatever the wait.
    Uniform {
        /// The spread.
        #[serde(with = "crate::policy::duration::jitter_up_to")]
        up_to: Duration,
    },
    /// Wake at the advised moment exactly. Callers that share a limit then wake together.
    None,
}

impl Default for UpwardJitter {
    /// Up to 10 % of the wait, at least 4 ms.
    fn default() -> Self {
        Self::Proportional { share: default_share(), at_least: default_spread() }
    }
}

impl Serialize for UpwardJitter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for UpwardJitter {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrSettings;

        impl<'de> de::Visitor<'de> for NameOrSettings {
            type Value = UpwardJitter;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a jitter, or a map of its name to its settings")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
                match name {
                    // All of its settings have defaults.
                    "proportional" => Ok(UpwardJitter::default()),
                    "uniform" => Err(E::custom("jitter.uniform.up_to is missing, allowed is 0s to 1h")),
                    "none" => Ok(UpwardJitter::None),
                    _ => Err(E::unknown_variant(name, &["proportional", "uniform", "none"])),
                }
            }

            fn visit_map<A: de::MapAccess<'de>>(self, settings: A) -> Result<Self::Value, A::Error> {
                let settings = de::value::MapAccessDeserializer::new(settings);
                UpwardJitter::deserialize(settings)
            }

            // As YAML has it, with a tag.
            fn visit_enum<A: de::EnumAccess<'de>>(self, tagged: A) -> Result<Self::Value, A::Error> {
                UpwardJitter::deserialize(de::value::EnumAccessDeserializer::new(tagged))
            }
        }

        if deserializer.is_human_readable() {
            return deserializer.deserialize_any(NameOrSettings);
        }
        Self::deserialize(deserializer)
    }
}

const fn default_share() -> f64 {
    0.1
}

const fn default_spread() -> Duration {
    Duration::from_millis(4)
}

impl UpwardJitter {
    /// What to add to `wait`.
    pub(crate) fn on_top_of(&self, wait: Duration, draw: Draw) -> Duration {
        match *self {
            Self::Proportional { share, at_least } => draw.of(share_of(wait, share).max(at_least)),
            Self::Uniform { up_to } => draw.of(up_to),
            Self::None => Duration::ZERO,
        }
    }
}

/// Full jitter: uniform on `[0, min(cap, base · 2ⁿ))`, `n` counting repeats from 0.
pub(crate) fn full_jitter(base: Duration, cap: Duration, n: u32, draw: Draw) -> Duration {
    draw.of(exponential(base, cap, n))
}

/// `min(cap, base · 2ⁿ)`.
pub(crate) fn exponential(base: Duration, cap: Duration, n: u32) -> Duration {
    // An exponent that overflows is past any cap.
    1_u32.checked_shl(n).and_then(|factor| base.checked_mul(factor)).map_or(cap, |step| step.min(cap))
}

fn share_of(wait: Duration, share: f64) -> Duration {
    Duration::try_from_secs_f64(wait.as_secs_f64() * share).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_draw_is_moved_into_range() {
        for (value, expected) in [(-1.0, 0.0), (f64::NAN, 0.0), (0.5, 0.5), (f64::NEG_INFINITY, 0.0)] {
            assert_eq!(Draw::new(value), Draw(expected));
        }
        assert!(Draw::new(f64::INFINITY).0 < 1.0);
    }

    #[test]
    fn proportional_jitter_is_a_tenth_of_the_wait_and_some_milliseconds_of_short_ones() {
        let jitter = UpwardJitter::default();
        let half = Draw::new(0.5);
        assert_eq!(jitter.on_top_of(1000 * MS, half), 50 * MS);
        assert_eq!(jitter.on_top_of(MS, half), 2 * MS);
        assert_eq!(jitter.on_top_of(1000 * MS, Draw::ZERO), Duration::ZERO);
        assert_eq!(UpwardJitter::Uniform { up_to: 10 * MS }.on_top_of(1000 * MS, half), 5 * MS);
        assert_eq!(UpwardJitter::None.on_top_of(1000 * MS, half), Duration::ZERO);
    }

    #[test]
    fn the_backoff_step_doubles_up_to_its_cap() {
        let step = |n| exponential(500 * MS, 20_000 * MS, n);
        assert_eq!([step(0), step(1), step(5), step(6)], [500 * MS, 1000 * MS, 16_000 * MS, 20_000 * MS]);
        assert_eq!(step(u32::MAX), 20_000 * MS);
        assert_eq!(exponential(Duration::MAX, Duration::MAX, 199), Duration::MAX);
    }

    proptest! {
        #[test]
        fn jitter_only_adds_and_backoff_never_passes_its_cap(
            wait in any::<u64>(), value in any::<f64>(), n in any::<u32>(), share in 0.0..=1.0_f64,
        ) {
            let (wait, draw) = (Duration::from_nanos(wait), Draw::new(value));
            prop_assert!(draw.of(wait) <= wait);
            let jitter = UpwardJitter::Proportional { share, at_least: 4 * MS };
            prop_assert!(jitter.on_top_of(wait, draw) <= wait.max(4 * MS));
            prop_assert!(full_jitter(500 * MS, 20_000 * MS, n, draw) <= 20_000 * MS);
        }
    }
}
