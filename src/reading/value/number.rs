//! Numbers: digits with at most one dot. A time without a unit and a count are both read as so many seconds.

use std::time::Duration;

/// Reads the number that `bytes` begins with and gives back the rest: `1*DIGIT` of [RFC 9110 §10.2.3] with the fraction that
/// many servers add. Exact to nine places, rounded up beyond them; the greatest there is if it is out of all proportion.
///
/// [RFC 9110 §10.2.3]: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
pub(in crate::reading) fn scan_number(bytes: &[u8]) -> Option<(Duration, &[u8])> {
    let (mut whole, mut nanos, mut place) = (0_u64, 0_u64, None::<u64>);
    let (mut digits, mut inexact, mut rest) = (false, false, bytes);
    while let [byte, tail @ ..] = rest {
        match (byte, &mut place) {
            (b'0'..=b'9', None) => {
                whole = whole.saturating_mul(10).saturating_add(u64::from(byte & 0x0f));
            }
            (b'0'..=b'9', Some(place)) => {
                *place /= 10;
                let digit = u64::from(byte & 0x0f);
                nanos = nanos.saturating_add(digit.saturating_mul(*place));
                inexact |= *place == 0 && digit > 0;
            }
            (b'.', None) => {
                place = Some(1_000_000_000);
                rest = tail;
                continue;
            }
            _ => break,
        }
        (digits, rest) = (true, tail);
    }
    let nanos = Duration::from_nanos(nanos.saturating_add(inexact.into()));
    digits.then(|| (Duration::from_secs(whole).saturating_add(nanos), rest))
}

pub(in crate::reading) fn number(bytes: &[u8]) -> Option<Duration> {
    match scan_number(bytes)? {
        (number, []) => Some(number),
        _ => None,
    }
}

/// Reads a number of JSON ([RFC 8259 §6]) that is not negative; unlike in headers it may have an exponent.
///
/// [RFC 8259 §6]: https://www.rfc-editor.org/rfc/rfc8259#section-6
pub(in crate::reading) fn json_number(text: &str) -> Option<Duration> {
    if !text.contains(['e', 'E']) {
        return number(text.as_bytes());
    }
    let value = text.parse::<f64>().ok().filter(|value| *value >= 0.0)?;
    Some(Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX))
}

/// What a `limit` or `remaining` field counts. A negative one is the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::reading) struct Count {
    positive: bool,
    number: Duration,
}

impl Count {
    pub(in crate::reading) const fn of(whole: u64) -> Self {
        Self { positive: true, number: Duration::from_secs(whole) }
    }

    pub(in crate::reading) const fn thousandths(number: i64) -> Self {
        Self { positive: number >= 0, number: Duration::from_millis(number.unsigned_abs()) }
    }

    pub(in crate::reading) fn positive(self) -> Option<Duration> {
        self.positive.then_some(self.number)
    }

    /// The whole part; 0 if the count is negative.
    pub(in crate::reading) const fn whole(self) -> u64 {
        if self.positive { self.number.as_secs() } else { 0 }
    }

    /// The same; `None` if -1 stands for "unknown".
    pub(in crate::reading) fn known(self) -> Option<u64> {
        (!self.is_minus_one()).then(|| self.whole())
    }

    pub(in crate::reading) const fn is_zero_or_less(self) -> bool {
        !self.positive || self.number.is_zero()
    }

    pub(in crate::reading) const fn is_minus_one(self) -> bool {
        !self.positive && self.number.as_nanos() == 1_000_000_000
    }
}

/// Reads a count: a number, with a minus if the bucket is overdrawn or `-1` stands for "unknown".
pub(in crate::reading) fn count(bytes: &[u8]) -> Option<Count> {
    let bytes = bytes.trim_ascii();
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let number = number(digits)?;
    Some(Count { positive: digits.len() == bytes.len() || number.is_zero(), number })
}
