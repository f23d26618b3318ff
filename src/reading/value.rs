//! The grammars of a value: what a field states, and what that means by the server's clock.
//!
//! A value is a bare number, a duration with units, or an instant. A sign, an exponent, hexadecimal digits, `inf`,
//! `nan`, a local time without a zone and prose are not values.

mod clock;
mod count;
mod date;
mod duration;
mod number;

use std::time::{Duration, SystemTime};

pub(super) use clock::{Advice, Clock};
pub(super) use count::{Count, count};
pub(super) use date::is_weekday;
pub(super) use duration::{scan_units, timespan};
pub(super) use number::{Decimal, decimal, json_decimal, plain_number, scan_decimal, scan_digits};

/// The longest relative delay of a reset that is plausible: 366 days. A longer one is a mistake, not advice.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(31_622_400);

/// 2100-01-01T00:00:00Z, in nanoseconds since the epoch. A later instant is a mistake, not advice.
const LATEST: u64 = 4_102_444_800_000_000_000;

/// 2001-09-09T01:46:40Z, in nanoseconds since the epoch. A lower number of seconds is no epoch.
const EARLIEST_EPOCH: u64 = 1_000_000_000_000_000_000;

/// A value that is longer than any of the grammars needs is not looked at.
const MAX_VALUE: usize = 128;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// The unit of a number that carries none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BareUnit {
    Seconds,
    Milliseconds,
}

/// What a field states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stated {
    /// A time from receipt, in whole milliseconds, rounded up.
    Delay(Duration),
    /// An instant by the server's clock, in nanoseconds since the epoch, up to the beginning of 2100.
    At(u64),
    /// Well-formed, and beyond every bound: longer than any budget where it is advice, a mistake where it is a reset.
    Beyond,
}

impl Stated {
    /// A number of nanoseconds as a delay.
    pub(super) fn delay(nanos: u128) -> Self {
        whole_millis(nanos).filter(|delay| *delay <= MAX_DELAY).map_or(Self::Beyond, Self::Delay)
    }

    /// The statement, unless it is beyond every bound.
    pub(super) fn within_bounds(self) -> Option<Self> {
        (self != Self::Beyond).then_some(self)
    }

    /// The same of a number that fits into a machine word.
    fn delay_of(nanos: u64) -> Self {
        const LONGEST: u64 = MAX_DELAY.as_secs().wrapping_mul(1_000_000_000);
        // Rounded up by adding, which cannot overflow here; asking for a remainder takes twice as long.
        let rounded_up = || nanos.wrapping_add(999_999) / 1_000_000;
        if nanos <= LONGEST { Self::Delay(Duration::from_millis(rounded_up())) } else { Self::Beyond }
    }

    /// An instant as nanoseconds since the epoch.
    fn at(nanos: u128) -> Self {
        u64::try_from(nanos).ok().filter(|nanos| *nanos <= LATEST).map_or(Self::Beyond, Self::At)
    }

    /// A bare number: a delay up to 366 days, else an epoch in seconds, milli-, micro- or nanoseconds by its
    /// magnitude, whatever the field is called: `RateLimit-Reset` carries delays and epochs alike.
    pub(super) fn number(number: Decimal, unit: BareUnit) -> Self {
        let scaled = number.nanos();
        if unit == BareUnit::Seconds
            && let Ok(nanos) = u64::try_from(scaled)
        {
            // Too few for an epoch in anything but seconds.
            let epoch = (EARLIEST_EPOCH..=LATEST).contains(&nanos);
            return if epoch { Self::At(nanos) } else { Self::delay_of(nanos) };
        }
        let delay = match unit {
            BareUnit::Seconds => scaled,
            BareUnit::Milliseconds => scaled.div_ceil(1_000),
        };
        if delay <= MAX_DELAY.as_nanos() {
            return Self::delay(delay);
        }
        let divisor = match quotient(scaled, 1_000_000_000) {
            1_000_000_000..100_000_000_000 => 1,
            1_000_000_000_000..100_000_000_000_000 => 1_000,
            1_000_000_000_000_000..100_000_000_000_000_000 => 1_000_000,
            1_000_000_000_000_000_000..100_000_000_000_000_000_000 => 1_000_000_000,
            _ => return Self::Beyond,
        };
        Self::at(quotient(scaled, divisor))
    }

    /// Reads any of the grammars.
    pub(super) fn parse(value: &[u8], unit: BareUnit, received_at: SystemTime) -> Option<Self> {
        let value = value.trim_ascii();
        if value.len() > MAX_VALUE && !value.iter().all(u8::is_ascii_digit) {
            return None;
        }
        match Value::read(value, received_at)? {
            Value::Bare(number) => Some(Self::number(number, unit)),
            Value::Stated(stated) => Some(stated),
        }
    }
}

/// What a value says before the unit of bare numbers is known.
pub(super) enum Value {
    Bare(Decimal),
    Stated(Stated),
}

impl Value {
    /// Reads any of the grammars. The usual way is merged into its callers, so that no large value is handed over.
    #[inline(always)]
    pub(super) fn read(value: &[u8], received_at: SystemTime) -> Option<Self> {
        Self::read_usual(value).or_else(|| Self::read_unusual(value.trim_ascii(), received_at))
    }

    /// An instant in UTC, a short number, a Go duration of short numbers; `None` also where the general way has to decide.
    #[inline(always)]
    fn read_usual(value: &[u8]) -> Option<Self> {
        // Of all grammars that begin with a digit only an instant has a hyphen there.
        if matches!(value, [_, _, _, _, b'-', ..]) {
            return date::rfc3339_utc(value).map(|nanos| Self::Stated(Stated::At(nanos)));
        }
        if matches!(value, [.., b'0'..=b'9'])
            && let Some(whole) = plain_number(value)
        {
            return Some(Self::Bare(Decimal::of_whole(whole)));
        }
        match duration::go_usual(value)? {
            (number, true) => Some(Self::Bare(Decimal::of_nanos(number))),
            (nanos, false) => Some(Self::Stated(Stated::delay_of(nanos))),
        }
    }

    #[inline(never)]
    fn read_unusual(value: &[u8], received_at: SystemTime) -> Option<Self> {
        let short = value.len() <= MAX_VALUE;
        let stated = match value {
            [b'0'..=b'9', _, _, _, b'-', ..] if short => date::rfc3339(value).map(Stated::at),
            [b'0'..=b'9' | b'.', ..] => match scan_decimal(value)? {
                (number, []) => return Some(Self::Bare(number)),
                first => duration::go_from(first).map(Stated::delay),
            },
            [b'P' | b'p', ..] if short => duration::iso8601(value).map(Stated::delay),
            [b'A'..=b'Z' | b'a'..=b'z', ..] if short => date::http_date(value, received_at).map(Stated::at),
            _ => None,
        };
        stated.map(Self::Stated)
    }
}

/// A quotient rounded down. A division of 128 bits is a slow library call; the usual value fits into 64.
fn quotient(number: u128, divisor: u64) -> u128 {
    match u64::try_from(number) {
        Ok(number) => number.checked_div(divisor).map_or(0, u128::from),
        Err(_) => number.checked_div(u128::from(divisor)).unwrap_or(0),
    }
}

fn whole_millis(nanos: u128) -> Option<Duration> {
    let rounded_up = quotient(nanos.checked_add(999_999)?, 1_000_000);
    u64::try_from(rounded_up).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::{AGE, DATE};

    use super::*;
    use crate::reading::Hint;

    fn wait(value: &str) -> Option<u128> {
        match Stated::parse(value.as_bytes(), BareUnit::Seconds, SystemTime::UNIX_EPOCH)? {
            Stated::Delay(delay) => Some(delay.as_millis()),
            Stated::At(nanos) => Some(u128::from(nanos / 1_000_000)),
            Stated::Beyond => None,
        }
    }

    #[test]
    fn bare_numbers_are_delays_or_epochs_by_magnitude() {
        assert_eq!(wait("31622400"), Some(31_622_400_000));
        assert_eq!(wait("31622401"), None);
        assert_eq!(wait("999999999"), None);
        assert_eq!(wait("1700000000"), Some(1_700_000_000_000));
        assert_eq!(wait("1700000000.25"), Some(1_700_000_000_250));
        assert_eq!(wait("1700000000123"), Some(1_700_000_000_123));
        assert_eq!(wait("1700000000123456"), Some(1_700_000_000_123));
        assert_eq!(wait("1700000000123456789"), Some(1_700_000_000_123));
        assert_eq!(wait("4102444800"), Some(4_102_444_800_000));
        assert_eq!(wait("4102444801"), None);
        assert_eq!(wait("18446744073709551616"), None);
        assert_eq!(wait("99999999999999999999999999999999999999999999"), None);
    }

    #[test]
    fn a_bare_number_of_milliseconds_keeps_the_epochs() {
        let read =
            |value: &str| Stated::parse(value.as_bytes(), BareUnit::Milliseconds, SystemTime::UNIX_EPOCH);
        assert_eq!(read("600000"), Some(Stated::Delay(Duration::from_secs(600))));
        assert_eq!(read("1987.5"), Some(Stated::Delay(Duration::from_millis(1988))));
        assert!(matches!(read("1700000000000"), Some(Stated::At(_))));
    }

    #[test]
    fn what_is_no_value() {
        for value in [
            "", " ", "-1", "+1", "1e3", "0x10", "inf", "NaN", "nope", "²", ".", "1.2.3", "1m26", "1 s",
            "12:30:00",
        ] {
            assert_eq!(wait(value), None, "{value:?}");
        }
    }

    #[test]
    fn instants_are_measured_against_date_and_age() {
        let mut headers = HeaderMap::new();
        headers.insert(DATE, "Mon, 03 Jun 2019 10:59:40 GMT".parse().unwrap());
        headers.insert(AGE, "20".parse().unwrap());
        let clock = Clock::new(&headers, SystemTime::UNIX_EPOCH);
        let wait = |value: &[u8]| clock.read(value, BareUnit::Seconds).map(|advice| advice.wait.as_millis());
        assert_eq!(wait(b"Mon, 03 Jun 2019 11:00:10 GMT"), Some(10_000));
        assert_eq!(wait(b"2019-06-03T11:00:10.0005Z"), Some(10_001));
        assert_eq!(wait(b"2019-06-03T10:00:00Z"), Some(0));
        assert_eq!(wait(b"2101-06-03T10:00:00Z"), Some(Hint::LONGEST_WAIT.as_millis()));
        assert_eq!(wait(b"7"), Some(7_000));
    }

    #[test]
    fn the_lines_that_were_noted_are_those_that_are_looked_up() {
        let dates = ["Mon, 03 Jun 2019 10:59:40 GMT", "Monday, 03-Jun-19 10:59:50 GMT", "junk"];
        for lines in [
            &[][..],
            &[(DATE, dates[0])],
            &[(DATE, dates[1]), (AGE, "20")],
            &[(AGE, "x"), (DATE, dates[0]), (AGE, "20")],
            &[(DATE, dates[2]), (DATE, dates[1]), (DATE, dates[0]), (AGE, "7"), (AGE, "8")],
            &[(DATE, dates[2])],
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(name, value.parse().unwrap());
            }
            let (looked_up, mut noted) =
                (Clock::new(&headers, SystemTime::UNIX_EPOCH), Clock::new(&headers, SystemTime::UNIX_EPOCH));
            headers.iter().for_each(|(name, value)| noted.note(name, value));
            noted.all_are_noted();
            let wait = |clock: &Clock<'_>| clock.read(b"2019-06-03T11:00:10Z", BareUnit::Seconds).unwrap();
            assert_eq!(wait(&looked_up), wait(&noted), "{lines:?}");
        }
    }
}
