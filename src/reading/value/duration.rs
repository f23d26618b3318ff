//! Durations with units: Go and protobuf, ISO 8601, .NET `TimeSpan`, and those of sentences.

use std::time::Duration;

use jiff::SpanRelativeTo;
use jiff::fmt::temporal::SpanParser;

use super::number::{number, scan_number};

/// The units by all their spellings, in nanoseconds. The micro sign comes as U+00B5, as U+03BC and, from Latin-1 servers, as one
/// byte.
const UNITS: [(&[&[u8]], u64); 8] = [
    (&[b"s", b"sec", b"secs", b"second", b"seconds"], SECOND),
    (&[b"ms", b"msec", b"msecs", b"millis", b"millisecond", b"milliseconds"], 1_000_000),
    (&[b"m", b"min", b"mins", b"minute", b"minutes"], 60 * SECOND),
    (&[b"h", b"hr", b"hrs", b"hour", b"hours"], 3_600 * SECOND),
    (&[b"d", b"day", b"days"], 86_400 * SECOND),
    (&[b"w", b"week", b"weeks"], 604_800 * SECOND),
    (&[b"us", b"usec", b"microsecond", b"microseconds", b"\xC2\xB5s", b"\xCE\xBCs", b"\xB5s"], 1_000),
    (&[b"ns", b"nanosecond", b"nanoseconds"], 1),
];
const SECOND: u64 = 1_000_000_000;

/// The numbers that sentences spell out.
const NUMBER_WORDS: &str = "an=1 one=1 two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10 eleven=11 \
    twelve=12 fifteen=15 twenty=20 twenty-four=24 thirty=30 forty=40 forty-five=45 fifty=50 sixty=60 ninety=90";

/// The unit that a text begins with, and what follows; a unit ends where its letters end.
fn unit(text: &[u8]) -> Option<(u64, &[u8])> {
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || !byte.is_ascii();
    let end = text.iter().position(|byte| !is_letter(byte)).unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(end)?;
    UNITS.iter().find(|(spellings, _)| spellings.contains(&word)).map(|(_, nanos)| (*nanos, rest))
}

/// So many units, rounded down to a nanosecond.
fn times(number: Duration, unit: u64) -> Duration {
    match u32::try_from(unit / SECOND) {
        Ok(seconds @ 1..) => number.saturating_mul(seconds),
        _ => {
            let parts = SECOND.checked_div(unit).and_then(|parts| u32::try_from(parts).ok());
            parts.and_then(|parts| number.checked_div(parts)).unwrap_or_default()
        }
    }
}

/// A Go duration such as `6m0s` or `1m26.4s`, a protobuf [`Duration`] such as `34.07s`. As in Go the parts may come
/// in any order and add up; every number needs its unit, and nothing stands between them.
///
/// [`Duration`]: https://protobuf.dev/reference/protobuf/google.protobuf/#duration
pub(super) fn compact(value: &[u8]) -> Option<Duration> {
    let (mut total, mut rest) = (Duration::ZERO, value);
    loop {
        let (number, tail) = scan_number(rest)?;
        let (unit, tail) = unit(tail)?;
        total = total.saturating_add(times(number, unit));
        if tail.is_empty() {
            return Some(total);
        }
        rest = tail;
    }
}

/// The duration that lower-case prose begins with, and what follows it: `7m12s`, `33 seconds`, `1 hour and 30 minutes`,
/// `one minute`, `1m30`.
pub(in crate::reading) fn scan_prose(text: &str) -> Option<(Duration, &str)> {
    let (mut total, mut last, mut rest) = (None, 0, text);
    while let Some((number, unit, tail)) = part(rest, total.is_some().then_some(last)) {
        total = Some(total.unwrap_or(Duration::ZERO).saturating_add(times(number, unit)));
        last = unit;
        let next = tail.trim_start().trim_start_matches(',').trim_start();
        let next = next.strip_prefix("and ").unwrap_or(next).trim_start();
        // A number directly behind a unit, as in `1m30`, is read as the next smaller one.
        rest = if tail.starts_with(|letter: char| letter.is_ascii_digit()) { tail } else { next };
        if part(rest, Some(last)).is_none() {
            return total.map(|total| (total, tail));
        }
    }
    None
}

/// A number and its unit; `last` is the unit before it in the same duration.
fn part(text: &str, last: Option<u64>) -> Option<(Duration, u64, &str)> {
    let (number, tail) = match scan_number(text.as_bytes()) {
        Some((number, tail)) => thousands(number, text.get(text.len().checked_sub(tail.len())?..)?),
        None => number_word(text)?,
    };
    // Azure Resource Manager: `after '6' seconds`.
    let unquoted = tail.strip_prefix(['\'', '"', '`']).unwrap_or(tail);
    let spaced = unquoted.strip_prefix([' ', '-']).unwrap_or(unquoted);
    let spaced = spaced.strip_prefix("more ").unwrap_or(spaced);
    if let Some((unit, rest)) = unit(spaced.as_bytes()) {
        // `last` of a larger unit, or the two are no one duration: `5 seconds, 30 minutes`.
        let rest = spaced.get(spaced.len().checked_sub(rest.len())?..)?;
        return last.is_none_or(|last| unit < last).then_some((number, unit, rest));
    }
    let smaller = match last? {
        unit if unit == 3_600 * SECOND => 60 * SECOND,
        unit if unit == 60 * SECOND => SECOND,
        _ => return None,
    };
    let ends = !tail.starts_with(|letter: char| letter.is_alphanumeric() || letter == ':');
    (ends && number < Duration::from_secs(60)).then_some((number, smaller, tail))
}

/// The further digits of a number such as `1,800`.
fn thousands(number: Duration, tail: &str) -> (Duration, &str) {
    let further = tail.strip_prefix(',').filter(|_| number.subsec_nanos() == 0).and_then(|rest| {
        let (digits, after) = rest.split_at_checked(3)?;
        let ends = !after.starts_with(|letter: char| letter.is_ascii_digit());
        let digits = super::number(digits.as_bytes()).filter(|_| ends && !digits.contains('.'))?;
        Some((number.saturating_mul(1_000).saturating_add(digits), after))
    });
    further.unwrap_or((number, tail))
}

/// `one minute`, `an hour`, `a day`; but neither `a few minutes` nor `a second`, which is a manner of speaking.
fn number_word(text: &str) -> Option<(Duration, &str)> {
    if let Some(unit) = text.strip_prefix("half an ").or_else(|| text.strip_prefix("half a ")) {
        return Some((Duration::from_millis(500), unit));
    }
    let (word, tail) = text.split_at(text.find(' ')?);
    if word == "a" {
        let is_unit = ["minute", "day", "week"].iter().any(|unit| tail.trim_start().starts_with(unit));
        return is_unit.then_some((Duration::from_secs(1), tail));
    }
    let known = NUMBER_WORDS.split(' ').find_map(|pair| pair.strip_prefix(word)?.strip_prefix('='))?;
    Some((Duration::from_secs(known.parse().ok()?), tail))
}

/// An ISO 8601 duration. Years and months have no fixed length and are refused; a day has 24 hours.
pub(in crate::reading) fn iso8601(bytes: &[u8]) -> Option<Duration> {
    static PARSER: SpanParser = SpanParser::new();
    let span = PARSER.parse_span(bytes).ok()?;
    let fixed = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(fixed).ok()
}

/// A .NET [`TimeSpan`], `[d.]hh:mm:ss[.fffffff]`, as Cosmos DB's Gremlin endpoint sends it. Only fields that are
/// known to carry it are read so: elsewhere it could be a time of day.
///
/// [`TimeSpan`]: https://learn.microsoft.com/dotnet/standard/base-types/standard-timespan-format-strings
pub(in crate::reading) fn timespan(bytes: &[u8]) -> Option<Duration> {
    let mut parts = bytes.trim_ascii().split(|byte| *byte == b':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let (days, hours) = match hours.iter().position(|byte| *byte == b'.') {
        Some(dot) => (hours.get(..dot)?, hours.get(dot.checked_add(1)?..)?),
        None => (b"0".as_slice(), hours),
    };
    let whole = |part: &[u8], below: u64, unit: u32| {
        let plain = part.iter().all(u8::is_ascii_digit);
        let number = number(part).filter(|number| plain && *number < Duration::from_secs(below))?;
        Some(number.saturating_mul(unit))
    };
    let seconds = number(seconds).filter(|seconds| *seconds < Duration::from_secs(60))?;
    let total = whole(days, 100_000, 86_400)?.saturating_add(whole(hours, 24, 3_600)?);
    Some(total.saturating_add(whole(minutes, 60, 60)?).saturating_add(seconds))
}
