//! Durations with units: Go and protobuf, ISO 8601, .NET `TimeSpan`, and those of sentences. All in nanoseconds.

use jiff::fmt::temporal::SpanParser;

use super::number::{Decimal, decimal, scan_decimal, scan_usual};

const MICROSECOND: u128 = 1_000;
const MILLISECOND: u128 = 1_000_000;
const SECOND: u128 = super::NANOS_PER_SEC;
const MINUTE: u128 = 60 * SECOND;
const HOUR: u128 = 60 * MINUTE;
const DAY: u128 = 24 * HOUR;
const WEEK: u128 = 7 * DAY;

/// The units that sentences spell out.
const WORD_UNITS: [(&[u8], u128); 12] = [
    (b"milliseconds", 1_000_000),
    (b"millisecond", 1_000_000),
    (b"seconds", SECOND),
    (b"second", SECOND),
    (b"secs", SECOND),
    (b"sec", SECOND),
    (b"minutes", MINUTE),
    (b"minute", MINUTE),
    (b"mins", MINUTE),
    (b"min", MINUTE),
    (b"hours", HOUR),
    (b"hour", HOUR),
];

const DAY_UNITS: [(&[u8], u128); 6] =
    [(b"hrs", HOUR), (b"hr", HOUR), (b"days", DAY), (b"day", DAY), (b"weeks", WEEK), (b"week", WEEK)];

/// The units of Go's [`time.ParseDuration`] and, beyond Go, days. The longer spelling stands before its prefix, or
/// `120ms` would be two hours. The micro sign comes as U+00B5, as U+03BC and, from Latin-1 servers, as one byte.
///
/// [`time.ParseDuration`]: https://pkg.go.dev/time#ParseDuration
const fn go_unit(rest: &[u8]) -> Option<(u128, &[u8])> {
    Some(match rest {
        [b'm', b's', tail @ ..] => (MILLISECOND, tail),
        [b'u', b's', tail @ ..]
        | [0xC2, 0xB5, b's', tail @ ..]
        | [0xCE, 0xBC, b's', tail @ ..]
        | [0xB5, b's', tail @ ..] => (MICROSECOND, tail),
        [b'n', b's', tail @ ..] => (1, tail),
        [b's', tail @ ..] => (SECOND, tail),
        [b'm', tail @ ..] => (MINUTE, tail),
        [b'h', tail @ ..] => (HOUR, tail),
        [b'd', tail @ ..] => (DAY, tail),
        _ => return None,
    })
}

fn add(total: u128, number: u128, unit: u128) -> u128 {
    let nanos = match unit {
        SECOND => number,
        MILLISECOND => super::quotient(number.saturating_add(999), 1_000),
        MINUTE => number.saturating_mul(60),
        HOUR => number.saturating_mul(3_600),
        _ => number.saturating_mul(unit).div_ceil(SECOND),
    };
    total.saturating_add(nanos)
}

/// A Go duration such as `6m0s` or `1m26.4s`, a protobuf [`Duration`] such as `34.07s`. As in Go the parts may come
/// in any order and add up; every number needs its unit.
///
/// [`Duration`]: https://protobuf.dev/reference/protobuf/google.protobuf/#duration
///
/// Takes the first number as it has been read already, with what follows it.
pub(super) fn go_from(first: (Decimal, &[u8])) -> Option<u128> {
    let mut total = 0;
    let (mut number, mut rest) = first;
    loop {
        let (unit, tail) = go_unit(rest)?;
        total = add(total, number.nanos(), unit);
        if tail.is_empty() {
            return Some(total);
        }
        (number, rest) = scan_decimal(tail)?;
    }
}

/// What [`go_from`] reads, where all numbers are of the usual kind and the units no longer than an hour; or a number of
/// that kind by itself, with `true`.
#[inline]
pub(super) fn go_usual(value: &[u8]) -> Option<(u64, bool)> {
    let mut total: u64 = 0;
    let mut rest = value;
    loop {
        let (number, unit) = scan_usual(rest)?;
        let (nanos, tail) = match unit {
            // Below 10¹⁸, so that the sum cannot overflow.
            [b'm', b's', tail @ ..] => (number.wrapping_add(999) / 1_000, tail),
            [b's', tail @ ..] => (number, tail),
            [b'm', tail @ ..] => (number.checked_mul(60)?, tail),
            [b'h', tail @ ..] => (number.checked_mul(3_600)?, tail),
            [] if rest.len() == value.len() => return Some((number, true)),
            _ => return None,
        };
        total = total.checked_add(nanos)?;
        if tail.is_empty() {
            return Some((total, false));
        }
        rest = tail;
    }
}

/// The duration that lower-case prose begins with: `7m12s`, `33 seconds`, `1 hour and 30 minutes`.
pub(in crate::reading) fn scan_units(text: &[u8]) -> Option<u128> {
    let mut total: Option<u128> = None;
    let mut rest = text;
    loop {
        let Some((nanos, tail)) = scan_unit(rest) else { return total };
        total = Some(total.unwrap_or(0).saturating_add(nanos));
        let tail = tail.trim_ascii_start();
        let tail = tail.strip_prefix(b",").unwrap_or(tail).trim_ascii_start();
        rest = tail.strip_prefix(b"and ").unwrap_or(tail).trim_ascii_start();
    }
}

fn scan_unit(text: &[u8]) -> Option<(u128, &[u8])> {
    let (number, tail) = scan_decimal(text)?;
    let ends = |tail: &&[u8]| !tail.first().is_some_and(u8::is_ascii_alphabetic);
    // Azure Resource Manager: `after '6' seconds`.
    let unquoted = tail.strip_prefix(b"'").or_else(|| tail.strip_prefix(b"\"")).unwrap_or(tail);
    let spaced = unquoted.strip_prefix(b" ").or_else(|| unquoted.strip_prefix(b"-")).unwrap_or(unquoted);
    let spaced = spaced.strip_prefix(b"more ").unwrap_or(spaced);
    let word = WORD_UNITS
        .iter()
        .chain(&DAY_UNITS)
        .find_map(|(unit, nanos)| Some((*nanos, spaced.strip_prefix(*unit).filter(ends)?)));
    let (unit, tail) = word.or_else(|| go_unit(spaced).filter(|(_, tail)| ends(tail)))?;
    Some((add(0, number.nanos(), unit), tail))
}

/// An ISO 8601 duration. Years and months have no fixed length and are refused; a day has 24 hours.
pub(super) fn iso8601(bytes: &[u8]) -> Option<u128> {
    static PARSER: SpanParser = SpanParser::new();
    let span = PARSER.parse_span(bytes).ok()?;
    if span.is_negative() || span.get_years() != 0 || span.get_months() != 0 {
        return None;
    }
    let parts = [
        (i64::from(span.get_weeks()), WEEK),
        (i64::from(span.get_days()), DAY),
        (i64::from(span.get_hours()), HOUR),
        (span.get_minutes(), MINUTE),
        (span.get_seconds(), SECOND),
        (span.get_milliseconds(), 1_000_000),
        (span.get_microseconds(), 1_000),
        (span.get_nanoseconds(), 1),
    ];
    parts.into_iter().try_fold(0_u128, |total, (number, unit)| {
        total.checked_add(u128::try_from(number).ok()?.checked_mul(unit)?)
    })
}

/// A .NET [`TimeSpan`], `[d.]hh:mm:ss[.fffffff]`, as Cosmos DB's Gremlin endpoint sends it. Only fields that are
/// known to carry it are read so: elsewhere it could be a time of day.
///
/// [`TimeSpan`]: https://learn.microsoft.com/dotnet/standard/base-types/standard-timespan-format-strings
pub(in crate::reading) fn timespan(bytes: &[u8]) -> Option<u128> {
    let mut parts = bytes.trim_ascii().split(|byte| *byte == b':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let (days, hours) = match hours.iter().position(|byte| *byte == b'.') {
        Some(dot) => (hours.get(..dot)?, hours.get(dot.checked_add(1)?..)?),
        None => (b"0".as_slice(), hours),
    };
    let whole = |part: &[u8], below: u128| {
        let digits = !part.is_empty() && part.iter().all(u8::is_ascii_digit);
        decimal(part)
            .map(|number| number.nanos())
            .filter(|nanos| digits && *nanos < below.saturating_mul(SECOND))
    };
    let seconds = decimal(seconds)?.nanos();
    let total = add(0, whole(days, 100_000)?, DAY);
    let total = add(add(total, whole(hours, 24)?, HOUR), whole(minutes, 60)?, MINUTE);
    (seconds < MINUTE).then(|| total.checked_add(seconds))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(bytes: &[u8]) -> Option<u128> {
        go_from(scan_decimal(bytes)?)
    }

    const MS: u128 = 1_000_000;

    #[test]
    fn go_durations() {
        for (text, nanos) in [
            ("6m0s", 360_000 * MS),
            ("20ms", 20 * MS),
            ("1m26.4s", 86_400 * MS),
            ("23h47m36.648s", 85_656_648 * MS),
            ("500µs", MS / 2),
            ("500μs", MS / 2),
            ("30s1m", 90_000 * MS),
            ("1d2h", 93_600_000 * MS),
            ("0s", 0),
            ("17.399999999s", 17_399_999_999),
        ] {
            assert_eq!(go(text.as_bytes()), Some(nanos), "{text}");
        }
        assert_eq!(go(b"500\xB5s"), Some(MS / 2));
        for text in ["", "1m26", "s", "-1s", "1 s", "1S", "1y", "1mo"] {
            assert_eq!(go(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn durations_in_prose() {
        for (text, nanos) in [
            ("7m12s.", Some(432_000 * MS)),
            ("33 seconds. please", Some(33_000 * MS)),
            ("2 hours", Some(7_200_000 * MS)),
            ("1 hour and 30 minutes", Some(5_400_000 * MS)),
            ("1 minute, 5 seconds", Some(65_000 * MS)),
            ("900.2ms\"}", Some(900_200_000)),
            ("5 sec", Some(5_000 * MS)),
            ("1h 30m", Some(5_400_000 * MS)),
            ("20. visit", None),
            ("a few minutes", None),
            ("5 monkeys", None),
            ("0 seconds before", Some(0)),
            ("12 more seconds before", Some(12_000 * MS)),
            ("6' seconds.", Some(6_000 * MS)),
            ("30\" seconds", Some(30_000 * MS)),
            ("5 second(s).", Some(5_000 * MS)),
            ("5 more", None),
        ] {
            assert_eq!(scan_units(text.as_bytes()), nanos, "{text}");
        }
    }

    #[test]
    fn iso_8601_durations() {
        assert_eq!(iso8601(b"PT1M"), Some(MINUTE));
        assert_eq!(iso8601(b"P1DT2H"), Some(DAY + 2 * HOUR));
        assert_eq!(iso8601(b"PT0.5S"), Some(SECOND / 2));
        assert_eq!(iso8601(b"P2W"), Some(2 * WEEK));
        assert_eq!(iso8601(b"P1M"), None);
        assert_eq!(iso8601(b"P"), None);
        assert_eq!(iso8601(b"-PT1M"), None);
    }

    #[test]
    fn time_spans() {
        assert_eq!(timespan(b"00:00:00.033"), Some(33 * MS));
        assert_eq!(timespan(b"1.02:03:04.5"), Some(DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND + SECOND / 2));
        for text in ["24:00:00", "00:60:00", "00:00:60", "00:00", "1:2:3:4", "-00:00:01", "::"] {
            assert_eq!(timespan(text.as_bytes()), None, "{text}");
        }
    }
}
