//! The grammars of a value: what a field states, and what that means by the server's clock.
//!
//! A value is a bare number, a duration with units, or an instant. A sign, an exponent, hexadecimal digits, `inf`,
//! `nan`, a local time whose zone nobody knows and prose are not values.

mod clock;
mod date;
mod duration;
mod number;

use std::time::Duration;

pub(super) use clock::{Advice, Clock};
pub(super) use date::{is_weekday, scan_instant};
pub(super) use duration::{iso8601, scan_prose, timespan};
pub(super) use number::{Count, count, json_number, number, scan_number};

/// The longest relative delay of a reset that is plausible: 366 days. A longer one is a mistake, not advice.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(31_622_400);

/// 2100-01-01T00:00:00Z. A later reset is a mistake.
const LATEST: Duration = Duration::from_secs(4_102_444_800);

/// The unit of a number that carries none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TimeUnit {
    /// Thousandths of a second.
    Milliseconds,
    /// Seconds, as in `Retry-After`.
    Seconds,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
    /// Days of 24 hours.
    Days,
}

impl TimeUnit {
    fn of(self, number: Duration) -> Duration {
        match self {
            Self::Milliseconds => number.checked_div(1_000).unwrap_or_default(),
            Self::Seconds => number,
            Self::Minutes => number.saturating_mul(60),
            Self::Hours => number.saturating_mul(3_600),
            Self::Days => number.saturating_mul(86_400),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stated {
    /// A time from receipt.
    Delay(Duration),
    /// An instant by the server's clock, since the epoch, up to the beginning of 2100.
    At(Duration),
    /// Well-formed, and beyond every bound: advice longer than any budget, or a mistaken reset.
    Beyond,
}

impl Stated {
    pub(super) fn delay(delay: Duration) -> Self {
        if delay <= MAX_DELAY { Self::Delay(delay) } else { Self::Beyond }
    }

    pub(super) fn at(at: Duration) -> Self {
        if at <= LATEST { Self::At(at) } else { Self::Beyond }
    }

    /// The statement, unless it is beyond every bound.
    pub(super) fn within_bounds(self) -> Option<Self> {
        (self != Self::Beyond).then_some(self)
    }

    /// A bare number: a delay up to 366 days, else an epoch in seconds, milli-, micro- or nanoseconds by its
    /// magnitude, whatever the field is called: `RateLimit-Reset` carries delays and epochs alike.
    pub(super) fn bare(number: Duration, unit: TimeUnit) -> Self {
        let delay = unit.of(number);
        if delay <= MAX_DELAY {
            return Self::Delay(delay);
        }
        let per_second = match number.as_secs() {
            1_000_000_000..100_000_000_000 => 1,
            1_000_000_000_000..100_000_000_000_000 => 1_000,
            1_000_000_000_000_000..100_000_000_000_000_000 => 1_000_000,
            1_000_000_000_000_000_000.. => 1_000_000_000,
            _ => return Self::Beyond,
        };
        Self::at(number.checked_div(per_second).unwrap_or(number))
    }
}

/// What a value says before the unit of bare numbers is known.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    /// A number without a unit, as seconds.
    Bare(Duration),
    Stated(Stated),
}

impl Value {
    pub(super) fn read(value: &[u8], clock: &Clock<'_>) -> Option<Self> {
        let value = value.trim_ascii();
        let stated = match value {
            [b'0'..=b'9', _, _, _, b'-' | b'/', ..] => Stated::at(date::instant(value, clock)?),
            [b'0'..=b'9' | b'.', ..] => match scan_number(value)? {
                (number, []) => return Some(Self::Bare(number)),
                _ => Stated::delay(duration::compact(value)?),
            },
            [b'P' | b'p', ..] => Stated::delay(iso8601(value)?),
            [b'A'..=b'Z' | b'a'..=b'z', ..] => Stated::at(date::instant(value, clock)?),
            _ => return None,
        };
        Some(Self::Stated(stated))
    }

    pub(super) fn stated(self, unit: TimeUnit) -> Stated {
        match self {
            Self::Bare(number) => Stated::bare(number, unit),
            Self::Stated(stated) => stated,
        }
    }
}

#[cfg(test)]
mod tests;
