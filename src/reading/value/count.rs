//! Counts: what a `limit` or `remaining` field states.

use super::number::{decimal, plain_number};

/// What a `limit` or `remaining` field counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::reading) struct Count {
    whole: u64,
    kind: Kind,
}

/// What a count is beside its whole part. In order, so that one comparison tells what is negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Whole,
    Fraction,
    Negative,
    NegativeFraction,
}

impl Count {
    const fn is_negative(self) -> bool {
        matches!(self.kind, Kind::Negative | Kind::NegativeFraction)
    }

    /// The whole part; 0 where the count is negative.
    pub(in crate::reading) const fn whole(self) -> u64 {
        if self.is_negative() { 0 } else { self.whole }
    }

    /// The same; `None` where -1 stands for "unknown".
    pub(in crate::reading) const fn known(self) -> Option<u64> {
        if !self.is_negative() {
            Some(self.whole)
        } else if self.is_minus_one() {
            None
        } else {
            Some(0)
        }
    }

    pub(in crate::reading) const fn is_zero_or_less(self) -> bool {
        self.is_negative() || matches!(self, Self { whole: 0, kind: Kind::Whole })
    }

    pub(in crate::reading) const fn is_minus_one(self) -> bool {
        matches!(self, Self { whole: 1, kind: Kind::Negative })
    }

    /// The smaller of two, a negative one being the smallest.
    pub(in crate::reading) fn min(self, other: Self) -> Self {
        let smaller = self.is_negative()
            || !other.is_negative() && (self.whole, self.kind) <= (other.whole, other.kind);
        if smaller { self } else { other }
    }

    pub(in crate::reading) const fn of(whole: u64) -> Self {
        Self { whole, kind: Kind::Whole }
    }
}

/// Reads a count: a number, with a minus where the bucket is overdrawn or `-1` stands for "unknown".
pub(in crate::reading) fn count(bytes: &[u8]) -> Option<Count> {
    let (negative, digits) = match bytes.trim_ascii() {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let (whole, fraction) = match plain_number(digits) {
        Some(whole) => (whole, false),
        None => {
            let nanos = decimal(digits)?.nanos();
            let whole = nanos.checked_div(super::NANOS_PER_SEC)?;
            let fraction = nanos.checked_rem(super::NANOS_PER_SEC)? != 0;
            (u64::try_from(whole).unwrap_or(u64::MAX), fraction)
        }
    };
    let kind = match (negative, fraction) {
        (true, true) => Kind::NegativeFraction,
        (true, false) if whole > 0 => Kind::Negative,
        (false, true) => Kind::Fraction,
        (_, false) => Kind::Whole,
    };
    Some(Count { whole, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

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
