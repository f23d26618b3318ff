//! The two forms that nearly all instants come in, read by place. Whatever is out of the ordinary in them, such as a
//! leap second or a day that the month does not have, is left to the general readers.

use super::super::number::{PLACES, plain_number};

/// An RFC 3339 instant in UTC such as `2024-06-03T10:59:40.25Z`, in nanoseconds since the epoch.
pub(in crate::reading::value) fn rfc3339_utc(bytes: &[u8]) -> Option<u64> {
    // Once, so that none of the parts asks again.
    if bytes.len() < b"2024-06-03T10:59:40Z".len() {
        return None;
    }
    let (century, rest) = bytes.split_first_chunk::<2>()?;
    let (date, rest) = rest.split_first_chunk::<8>()?;
    let (between, rest) = rest.split_first_chunk::<1>()?;
    let (time, rest) = rest.split_first_chunk::<8>()?;
    let [year, month, day] = pairs(date, b'-')?;
    let year = plain_number(century)?.wrapping_mul(100).wrapping_add(year);
    let seconds = instant(year, month, day, time)?;
    let nanos = match rest {
        [b'Z' | b'z'] => 0,
        [b'.', digits @ .., b'Z' | b'z'] => fraction(digits)?,
        _ => return None,
    };
    matches!(between, b"T" | b"t" | b" ").then(|| seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos))
}

/// An IMF-fixdate such as `Mon, 03 Jun 2024 10:59:40 GMT`, in nanoseconds since the epoch.
pub(in crate::reading::value) fn imf_fixdate(bytes: &[u8]) -> Option<u64> {
    let bytes: &[u8; 29] = bytes.try_into().ok()?;
    let [w0, w1, w2, b',', b' ', rest @ ..] = bytes else { return None };
    let [d0, d1, b' ', m0, m1, m2, b' ', y0, y1, y2, y3, b' ', time @ .., b' ', b'G', b'M', b'T'] = rest
    else {
        return None;
    };
    if !matches!(&[*w0, *w1, *w2], b"Mon" | b"Tue" | b"Wed" | b"Thu" | b"Fri" | b"Sat" | b"Sun") {
        return None;
    }
    let month = match &[*m0, *m1, *m2] {
        b"Jan" => 1,
        b"Feb" => 2,
        b"Mar" => 3,
        b"Apr" => 4,
        b"May" => 5,
        b"Jun" => 6,
        b"Jul" => 7,
        b"Aug" => 8,
        b"Sep" => 9,
        b"Oct" => 10,
        b"Nov" => 11,
        b"Dec" => 12,
        _ => return None,
    };
    let (year, day) = (plain_number(&[*y0, *y1, *y2, *y3])?, plain_number(&[*d0, *d1])?);
    Some(instant(year, month, day, time.first_chunk()?)?.wrapping_mul(1_000_000_000))
}

/// The days of a year before each month, and those of the month, in a year that is no leap year.
const MONTHS: [(u64, u64); 12] = [
    (0, 31),
    (31, 28),
    (59, 31),
    (90, 30),
    (120, 31),
    (151, 30),
    (181, 31),
    (212, 31),
    (243, 30),
    (273, 31),
    (304, 30),
    (334, 31),
];

/// The seconds since the epoch of a date and an `hh:mm:ss`, between 1970 and 2099, where every fourth year is a leap
/// year and no number below can overflow.
#[inline]
fn instant(year: u64, month: u64, day: u64, time: &[u8; 8]) -> Option<u64> {
    let [hour, minute, second] = pairs(time, b':')?;
    let (before, length) = MONTHS.get(usize::try_from(month.wrapping_sub(1)).ok()?)?;
    let leap = year & 3 == 0;
    let length = length.wrapping_add(u64::from(leap && month == 2));
    if !(1970..2100).contains(&year) || day == 0 || day > length || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let years = year.wrapping_sub(1970);
    let leap_days = (years.wrapping_add(1) >> 2).wrapping_add(u64::from(leap && month > 2));
    let days = years
        .wrapping_mul(365)
        .wrapping_add(leap_days)
        .wrapping_add(*before)
        .wrapping_add(day)
        .wrapping_sub(1);
    let minutes = days.wrapping_mul(24).wrapping_add(hour).wrapping_mul(60).wrapping_add(minute);
    Some(minutes.wrapping_mul(60).wrapping_add(second))
}

/// The three numbers of `10:59:40` or `24-06-03`, all at once, each byte in its own place of a machine word.
#[inline]
fn pairs(text: &[u8; 8], separator: u8) -> Option<[u64; 3]> {
    const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);
    /// What makes the top bit one of every digit beyond 9, and of every separator that is another.
    const BEYOND: u64 = u64::from_le_bytes([0x76, 0x76, 0x7f, 0x76, 0x76, 0x7f, 0x76, 0x76]);

    let zeros = [b'0', b'0', separator, b'0', b'0', separator, b'0', b'0'];
    let digits = u64::from_le_bytes(*text) ^ u64::from_le_bytes(zeros);
    if (digits.wrapping_add(BEYOND) | digits) & TOPS != 0 {
        return None;
    }
    let [first, _, _, second, _, _, third, _] =
        digits.wrapping_mul(10).wrapping_add(digits >> 8).to_le_bytes();
    Some([first.into(), second.into(), third.into()])
}

/// The nanoseconds of one to nine digits behind a dot.
fn fraction(digits: &[u8]) -> Option<u64> {
    Some(plain_number(digits)?.wrapping_mul(*PLACES.get(digits.len())?))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use jiff::Timestamp;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn every_day_is_where_the_general_readers_have_it() {
        for day in 0_u64..47_482 {
            let at = day * 86_400 + day * 7_919 % 86_400;
            let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(at));
            let instant = Timestamp::from_second(at.try_into().unwrap()).unwrap().to_string();
            assert_eq!(imf_fixdate(date.as_bytes()), Some(at * SECOND), "{date}");
            assert_eq!(rfc3339_utc(instant.as_bytes()), Some(at * SECOND), "{instant}");
        }
    }

    #[test]
    fn fractions() {
        let at = |text: &str| rfc3339_utc(text.as_bytes());
        assert_eq!(at("1970-01-01t00:00:01.5z"), Some(SECOND * 3 / 2));
        assert_eq!(at("1970-01-01 00:00:00.123456789Z"), Some(123_456_789));
        for text in ["1970-01-01T00:00:00.Z", "1970-01-01T00:00:00.1234567891Z", "1970-01-01T00:00:00.1-Z"] {
            assert_eq!(at(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_left_to_the_general_readers() {
        for text in [
            "2023-02-29T00:00:00Z",
            "2024-02-30T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-00-01T00:00:00Z",
            "2024-06-00T00:00:00Z",
            "2024-06-31T00:00:00Z",
            "2024-06-03T24:00:00Z",
            "2024-06-03T00:60:00Z",
            "2024-06-03T00:00:60Z",
            "1969-12-31T23:59:59Z",
            "2100-01-01T00:00:00Z",
            "2024-06-03T00:00:00+00:00",
            "2024-06-03T00:00:00",
            "2024-06-03T00:00Z",
            "2024-06-0:T00:00:00Z",
            "+024-06-03T00:00:00Z",
        ] {
            assert_eq!(rfc3339_utc(text.as_bytes()), None, "{text}");
        }
        for text in [
            "Mon, 31 Jun 2024 10:59:40 GMT",
            "Mon, 03 jun 2024 10:59:40 GMT",
            "Moo, 03 Jun 2024 10:59:40 GMT",
            "Mon, 03 Jun 2024 10:59:60 GMT",
            "Mon, 3 Jun 2024 10:59:40 GMT",
            "Mon, 03 Jun 2024 10:59:40 UTC",
            "Mon, 03 Jun 2024 10:59:40 GMT ",
            "Mon, 03 Jun 1969 10:59:40 GMT",
        ] {
            assert_eq!(imf_fixdate(text.as_bytes()), None, "{text}");
        }
    }
}
