//! Numbers: digits with at most one dot, and the counts of a limit.

/// A non-negative decimal number, exact to nine places and rounded up beyond them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::reading) struct Decimal(u128);

impl Decimal {
    /// The number times 10⁹: read as seconds, its nanoseconds.
    pub(in crate::reading) const fn nanos(self) -> u128 {
        self.0
    }
}

/// Reads the number that `bytes` begins with and gives back the rest.
///
/// `1*DIGIT` of [RFC 9110 §10.2.3] with the fraction that many servers add; no sign and no exponent, which the
/// number parsers of most languages would take.
///
/// [RFC 9110 §10.2.3]: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
pub(in crate::reading) fn scan_decimal(bytes: &[u8]) -> Option<(Decimal, &[u8])> {
    let mut whole: u128 = 0;
    let mut fraction: u128 = 0;
    let mut places: u32 = 0;
    let mut inexact = false;
    let mut digits = false;
    let mut rest = bytes;
    while let [digit @ b'0'..=b'9', tail @ ..] = rest {
        whole = whole.checked_mul(10)?.checked_add(u128::from(digit.wrapping_sub(b'0')))?;
        digits = true;
        rest = tail;
    }
    if let [b'.', tail @ ..] = rest {
        rest = tail;
        while let [digit @ b'0'..=b'9', tail @ ..] = rest {
            let digit = u128::from(digit.wrapping_sub(b'0'));
            if places < 9 {
                fraction = fraction.checked_mul(10)?.checked_add(digit)?;
                places = places.checked_add(1)?;
            } else {
                inexact |= digit != 0;
            }
            digits = true;
            rest = tail;
        }
    }
    if !digits {
        return None;
    }
    let fraction = fraction.checked_mul(10_u128.checked_pow(9_u32.checked_sub(places)?)?)?;
    let scaled = whole.checked_mul(super::NANOS_PER_SEC)?.checked_add(fraction)?;
    Some((Decimal(scaled.checked_add(u128::from(inexact))?), rest))
}

/// Reads a number that is the whole value.
pub(in crate::reading) fn decimal(bytes: &[u8]) -> Option<Decimal> {
    match scan_decimal(bytes)? {
        (number, []) => Some(number),
        _ => None,
    }
}

/// What a `limit` or `remaining` field counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::reading) struct Count {
    negative: bool,
    value: Decimal,
}

impl Count {
    /// The whole part; 0 where the count is negative.
    pub(in crate::reading) fn whole(self) -> u64 {
        if self.negative {
            return 0;
        }
        self.value
            .0
            .checked_div(super::NANOS_PER_SEC)
            .and_then(|whole| u64::try_from(whole).ok())
            .unwrap_or(u64::MAX)
    }

    pub(in crate::reading) const fn is_zero_or_less(self) -> bool {
        self.negative || self.value.0 == 0
    }

    pub(in crate::reading) const fn is_minus_one(self) -> bool {
        self.negative && self.value.0 == super::NANOS_PER_SEC
    }

    /// The smaller of two, a negative one being the smallest.
    pub(in crate::reading) fn min(self, other: Self) -> Self {
        if self.negative || (!other.negative && self.value <= other.value) { self } else { other }
    }

    pub(in crate::reading) const fn of(value: Decimal) -> Self {
        Self { negative: false, value }
    }
}

/// Reads a count: a number, with a minus where the bucket is overdrawn or `-1` stands for "unknown".
pub(in crate::reading) fn count(bytes: &[u8]) -> Option<Count> {
    match bytes.trim_ascii() {
        [b'-', digits @ ..] => decimal(digits).map(|value| Count { negative: value.0 != 0, value }),
        digits => decimal(digits).map(Count::of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        let nanos = |text: &str| decimal(text.as_bytes()).map(Decimal::nanos);
        assert_eq!(nanos("120"), Some(120_000_000_000));
        assert_eq!(nanos("2.0"), Some(2_000_000_000));
        assert_eq!(nanos(".5"), Some(500_000_000));
        assert_eq!(nanos("5."), Some(5_000_000_000));
        assert_eq!(nanos("0.0000000001"), Some(1));
        assert_eq!(nanos("0.0000000000"), Some(0));
        assert_eq!(nanos("0000000000000000000000000000000000000000000000000007"), Some(7_000_000_000));
        assert_eq!(nanos("1.2.3"), None);
        assert_eq!(nanos("1_000"), None);
    }

    #[test]
    fn counts() {
        let read = |text: &str| count(text.as_bytes());
        assert!(read("0.0").unwrap().is_zero_or_less());
        assert!(read("-3").unwrap().is_zero_or_less() && !read("-3").unwrap().is_minus_one());
        assert!(read("-1").unwrap().is_minus_one());
        assert!(!read("0.5").unwrap().is_zero_or_less());
        assert_eq!(read("99999999999999999999999").unwrap().whole(), u64::MAX);
        assert_eq!(read("null"), None);
        assert_eq!(read("+1"), None);
    }
}
