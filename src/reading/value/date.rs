//! Instants: HTTP-dates and RFC 3339. All in nanoseconds since the epoch; an earlier instant is the epoch itself.

mod usual;

use std::time::{Duration, SystemTime};

use arrayvec::ArrayVec;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::Offset;

pub(super) use usual::{imf_fixdate, rfc3339_utc};

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Whether a word is the name of a weekday, in full or by its first three letters.
pub(in crate::reading) fn is_weekday(word: &[u8]) -> bool {
    WEEKDAYS.iter().any(|day| {
        word.eq_ignore_ascii_case(day.as_bytes())
            || day.as_bytes().get(..3).is_some_and(|short| word.eq_ignore_ascii_case(short))
    })
}

/// An HTTP-date of [RFC 9110 §5.6.7]: IMF-fixdate, the RFC 850 form, asctime.
///
/// Tolerated beyond the grammar, because the instant stays exact: a real weekday that is not the date's own, `UTC`
/// and numeric offsets, a day without its zero, the leap second (POSIX time maps it to the next second).
///
/// [RFC 9110 §5.6.7]: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7
pub(super) fn http_date(bytes: &[u8], received_at: SystemTime) -> Option<u128> {
    if let Some(nanos) = imf_fixdate(bytes) {
        return Some(nanos.into());
    }
    let text = str::from_utf8(bytes).ok()?;
    // The crate reads two-digit years by another rule than the RFC's; only that form has a hyphen.
    if !text.contains('-')
        && let Ok(date) = httpdate::parse_http_date(text)
    {
        return Some(since_epoch(date).as_nanos());
    }
    lenient(text, received_at)
}

fn since_epoch(at: SystemTime) -> Duration {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

fn lenient(text: &str, received_at: SystemTime) -> Option<u128> {
    let mut words = ArrayVec::<&str, 6>::new();
    for word in text.split([' ', '\t', ',']).filter(|word| !word.is_empty()) {
        words.try_push(word).ok()?;
    }
    let [weekday, rest @ ..] = words.as_slice() else { return None };
    if !is_weekday(weekday.as_bytes()) {
        return None;
    }
    let (day, month, year, time, zone) = match *rest {
        [date, time, zone] => {
            let mut parts = date.split('-');
            let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
            if parts.next().is_some() {
                return None;
            }
            let year =
                if year.len() == 2 { full_year(digits(year, 2)?, received_at)? } else { digits(year, 4)? };
            (day, month, year, time, zone)
        }
        [day, month, year, time, zone] => (day, month, digits(year, 4)?, time, zone),
        [month, day, time, year] => (day, month, digits(year, 4)?, time, "GMT"),
        _ => return None,
    };
    let day = if day.len() == 1 { digits(day, 1)? } else { digits(day, 2)? };
    let month = MONTHS.iter().zip(1_i8..).find(|(name, _)| name.eq_ignore_ascii_case(month))?.1;
    instant(i16::try_from(year).ok()?, month, i8::try_from(day).ok()?, time, offset(zone)?)
}

fn instant(year: i16, month: i8, day: i8, time: &str, offset: i64) -> Option<u128> {
    let mut parts = time.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let second = digits(second, 2)?;
    let leap = second == 60;
    let (hour, minute) = (i8::try_from(digits(hour, 2)?).ok()?, i8::try_from(digits(minute, 2)?).ok()?);
    let second = if leap { 59 } else { i8::try_from(second).ok()? };
    let civil = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    let seconds = Offset::UTC.to_timestamp(civil).ok()?.as_second();
    let seconds = seconds.checked_add(i64::from(leap))?.checked_sub(offset)?;
    u128::try_from(seconds.max(0)).ok()?.checked_mul(super::NANOS_PER_SEC)
}

/// The number of exactly `len` digits.
fn digits(text: &str, len: usize) -> Option<u32> {
    let plain = text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// RFC 9110 §5.6.7: a year that appears to be more than 50 years ahead is the most recent past year that ends so.
fn full_year(short: u32, received_at: SystemTime) -> Option<u32> {
    let now = Timestamp::try_from(received_at).ok()?;
    let now = u32::try_from(Offset::UTC.to_datetime(now).year()).ok()?;
    let year = now.checked_sub(now.checked_rem(100)?)?.checked_add(short)?;
    Some(if year > now.saturating_add(50) {
        year.saturating_sub(100)
    } else if year.saturating_add(50) <= now {
        year.saturating_add(100)
    } else {
        year
    })
}

/// The seconds that a zone is ahead of UTC. Named zones other than UTC are not in use in HTTP.
fn offset(zone: &str) -> Option<i64> {
    if ["GMT", "UTC", "UT", "Z"].iter().any(|utc| zone.eq_ignore_ascii_case(utc)) {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hhmm = i64::from(digits(zone.get(1..)?, 4)?);
    let (hours, minutes) = (hhmm.checked_div(100)?, hhmm.checked_rem(100)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?.checked_mul(sign)
}

/// An [RFC 3339] instant; the seconds may be missing, the offset may not.
///
/// [RFC 3339]: https://www.rfc-editor.org/rfc/rfc3339#section-5.6
pub(super) fn rfc3339(bytes: &[u8]) -> Option<u128> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    if let Some(nanos) = rfc3339_utc(bytes) {
        return Some(nanos.into());
    }
    // The parser also takes basic forms, bare hours and `[zone]` annotations, which servers do not send.
    let [_, _, _, _, b'-', _, _, b'-', _, _, b'T' | b't' | b' ', _, _, b':', rest @ ..] = bytes else {
        return None;
    };
    if bytes.contains(&b'[') {
        return None;
    }
    let at = PARSER.parse_timestamp(bytes).ok()?;
    let leap = matches!(rest, [_, _, b':', b'6', b'0', ..]);
    let nanos = at.as_nanosecond().checked_add(if leap { 1_000_000_000 } else { 0 })?;
    u128::try_from(nanos.max(0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str, received_at: u64) -> Option<u128> {
        let received_at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(received_at)).unwrap();
        http_date(text.as_bytes(), received_at).map(|nanos| nanos / 1_000_000_000)
    }

    #[test]
    fn all_forms_of_one_instant() {
        for text in [
            "Mon, 03 Jun 2019 11:30:12 GMT",
            "Mon, 03 Jun 2019 11:30:12 UTC",
            "Mon, 3 Jun 2019 11:30:12 GMT",
            "Tue, 03 Jun 2019 11:30:12 GMT",
            "Mon, 03 Jun 2019 13:30:12 +0200",
            "Mon, 03 Jun 2019 06:00:12 -0530",
            "Monday, 03-Jun-19 11:30:12 GMT",
            "Mon, 03-Jun-2019 11:30:12 GMT",
            "Mon Jun  3 11:30:12 2019",
            "mon, 03 jun 2019 11:30:12 gmt",
        ] {
            assert_eq!(seconds(text, 1_559_559_600), Some(1_559_561_412), "{text}");
        }
    }

    #[test]
    fn what_is_no_date() {
        for text in [
            "Zun, 29 Sep 2023 16:26:27 GMT",
            "29 Sep 2023 16:26:27 GMT",
            "Thu, 99 Foo 2026 00:00:09 GMT",
            "Fri, 30 Feb 2024 00:00:00 GMT",
            "Fri, 01 Mar 2024 24:00:00 GMT",
            "Fri, 01 Mar 2024 12:00:61 GMT",
            "Fri, 01 Mar 2024 12:00:00",
            "Fri, 01 Mar 2024 12:00:00 CET",
            "Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)",
            "Mon",
            "yesterday",
        ] {
            assert_eq!(seconds(text, 1_559_559_600), None, "{text}");
        }
    }

    #[test]
    fn two_digit_years_are_at_most_fifty_years_ahead() {
        assert_eq!(seconds("Sunday, 06-Nov-94 08:49:37 GMT", 1_704_067_200), Some(784_111_777));
        assert_eq!(seconds("Monday, 03-Jun-19 11:30:12 GMT", 946_000_000), Some(1_559_561_412));
    }

    #[test]
    fn the_leap_second_is_the_next_second() {
        assert_eq!(seconds("Sat, 31 Dec 2016 23:59:60 GMT", 0), Some(1_483_228_800));
        assert_eq!(rfc3339(b"2016-12-31T23:59:60Z"), Some(1_483_228_800_000_000_000));
    }

    #[test]
    fn rfc_3339() {
        assert_eq!(rfc3339(b"2024-03-01T12:00Z"), Some(1_709_294_400_000_000_000));
        assert_eq!(rfc3339(b"2024-03-01t12:00:00z"), Some(1_709_294_400_000_000_000));
        assert_eq!(rfc3339(b"2024-03-01T14:00:00.25+02:00"), Some(1_709_294_400_250_000_000));
        for text in [
            "2024-03-01T12:00:00",
            "2024-03-01 12:00:00",
            "2024-03-01",
            "20240301T120000Z",
            "2024-13-01T12:00Z",
        ] {
            assert_eq!(rfc3339(text.as_bytes()), None, "{text}");
        }
    }
}
