//! Numbers: digits with at most one dot. A time without a unit and a count are both read as so many seconds.

use std::time::Duration;

/// Reads the number that `bytes` begins with and gives back the rest: exact to nine places, rounded up beyond them, and the
/// greatest there is where it is out of all proportion.
///
/// `1*DIGIT` of [RFC 9110 §10.2.3] with the fraction that many servers add; no sign and no exponent, which the
/// number parsers of most languages would take.
///
/// [RFC 9110 §10.2.3]: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
pub(in crate::reading) fn scan_number(bytes: &[u8]) -> Option<(Duration, &[u8])> {
    let (mut whole, mut digits, mut rest) = (0_u64, false, bytes);
    while let [digit @ b'0'..=b'9', tail @ ..] = rest {
        whole = whole.saturating_mul(10).saturating_add(u64::from(digit.wrapping_sub(b'0')));
        (digits, rest) = (true, tail);
    }
    let mut nanos: u64 = 0;
    if let [b'.', tail @ ..] = rest {
        rest = tail;
        let (mut place, mut inexact) = (1_000_000_000_u64, false);
        while let [digit @ b'0'..=b'9', tail @ ..] = rest {
            let digit = u64::from(digit.wrapping_sub(b'0'));
            place /= 10;
            nanos = nanos.wrapping_add(digit.wrapping_mul(place));
            inexact |= place == 0 && digit != 0;
            (digits, rest) = (true, tail);
        }
        nanos = nanos.wrapping_add(u64::from(inexact));
    }
    digits.then(|| (Duration::from_secs(whole).saturating_add(Duration::from_nanos(nanos)), rest))
}

/// Reads a number that is the whole value.
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

/// What a `limit` or `remaining` field counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::reading) struct Count {
    negative: bool,
    number: Duration,
}

impl Count {
    pub(in crate::reading) const fn of(whole: u64) -> Self {
        Self { negative: false, number: Duration::from_secs(whole) }
    }

    /// The whole part; 0 where the count is negative.
    pub(in crate::reading) const fn whole(self) -> u64 {
        if self.negative { 0 } else { self.number.as_secs() }
    }

    /// The same; `None` where -1 stands for "unknown".
    pub(in crate::reading) fn known(self) -> Option<u64> {
        (!self.is_minus_one()).then(|| self.whole())
    }

    pub(in crate::reading) const fn is_zero_or_less(self) -> bool {
        self.negative || self.number.is_zero()
    }

    pub(in crate::reading) const fn is_minus_one(self) -> bool {
        self.negative && self.number.as_nanos() == 1_000_000_000
    }

    /// The smaller of two, a negative one being the smallest.
    pub(in crate::reading) fn least(self, other: Self) -> Self {
        if (!self.negative, self.number) <= (!other.negative, other.number) { self } else { other }
    }
}

/// Reads a count: a number, with a minus where the bucket is overdrawn or `-1` stands for "unknown".
pub(in crate::reading) fn count(bytes: &[u8]) -> Option<Count> {
    let (negative, digits) = match bytes.trim_ascii() {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let number = number(digits)?;
    Some(Count { negative: negative && !number.is_zero(), number })
}

impl From<i64> for Count {
    fn from(number: i64) -> Self {
        Self { negative: number < 0, number: Duration::from_secs(number.unsigned_abs()) }
    }
}
