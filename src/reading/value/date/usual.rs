//! The two forms that nearly all instants come in, read by place. Whatever is out of the ordinary in them, such as a
//! leap second or a day that the month does not have, is left to the general readers.

/// An RFC 3339 instant in UTC such as `2024-06-03T10:59:40.25Z`, in nanoseconds since the epoch.
pub(super) fn rfc3339_utc(bytes: &[u8]) -> Option<u128> {
    let (at, rest) = bytes.split_first_chunk::<19>()?;
    let [y0, y1, y2, y3, b'-', o0, o1, b'-', d0, d1, b'T' | b't' | b' ', time @ ..] = at else { return None };
    let seconds = instant([*y0, *y1, *y2, *y3], number([*o0, *o1])?, [*d0, *d1], time)?;
    let nanos = match rest {
        [b'Z' | b'z'] => 0,
        [b'.', digits @ .., b'Z' | b'z'] => fraction(digits)?,
        _ => return None,
    };
    Some(u128::from(seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos)))
}

/// An IMF-fixdate such as `Mon, 03 Jun 2024 10:59:40 GMT`, in nanoseconds since the epoch.
pub(super) fn imf_fixdate(bytes: &[u8]) -> Option<u128> {
    let (weekday, rest) = bytes.split_first_chunk::<5>()?;
    if !matches!(weekday, b"Mon, " | b"Tue, " | b"Wed, " | b"Thu, " | b"Fri, " | b"Sat, " | b"Sun, ") {
        return None;
    }
    let [d0, d1, b' ', m0, m1, m2, b' ', y0, y1, y2, y3, b' ', time @ .., b' ', b'G', b'M', b'T'] = rest
    else {
        return None;
    };
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
    let seconds = instant([*y0, *y1, *y2, *y3], month, [*d0, *d1], time.try_into().ok()?)?;
    Some(u128::from(seconds.wrapping_mul(1_000_000_000)))
}

/// The seconds since the epoch of a date and an `hh:mm:ss`, between 1970 and 2099, where every fourth year is a leap
/// year and no number below can overflow.
fn instant(year: [u8; 4], month: u64, day: [u8; 2], time: &[u8; 8]) -> Option<u64> {
    let (year, day) = (number(year)?, number(day)?);
    let [h0, h1, b':', n0, n1, b':', s0, s1] = *time else { return None };
    let (hour, minute, second) = (number([h0, h1])?, number([n0, n1])?, number([s0, s1])?);
    let leap = u64::from(year & 3 == 0);
    let (before, days) = match month {
        1 => (0, 31),
        2 => (31, leap.wrapping_add(28)),
        3 => (59, 31),
        4 => (90, 30),
        5 => (120, 31),
        6 => (151, 30),
        7 => (181, 31),
        8 => (212, 31),
        9 => (243, 30),
        10 => (273, 31),
        11 => (304, 30),
        12 => (334, 31),
        _ => return None,
    };
    if !(1970..2100).contains(&year) || day == 0 || day > days || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let years = year.wrapping_sub(1970);
    let leap_days = (years.wrapping_add(1) >> 2).wrapping_add(if month > 2 { leap } else { 0 });
    let days = years
        .wrapping_mul(365)
        .wrapping_add(leap_days)
        .wrapping_add(before)
        .wrapping_add(day)
        .wrapping_sub(1);
    let minutes = days.wrapping_mul(24).wrapping_add(hour).wrapping_mul(60).wrapping_add(minute);
    Some(minutes.wrapping_mul(60).wrapping_add(second))
}

/// The number of some digits, few enough not to overflow.
fn number<const N: usize>(digits: [u8; N]) -> Option<u64> {
    let mut number: u64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    Some(number)
}

/// The nanoseconds of one to nine digits behind a dot.
fn fraction(digits: &[u8]) -> Option<u64> {
    if !(1..=9).contains(&digits.len()) {
        return None;
    }
    let mut nanos: u64 = 0;
    for place in 0..9 {
        let digit = digits.get(place).map_or(0, |byte| byte.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        nanos = nanos.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use jiff::Timestamp;

    use super::*;

    const SECOND: u128 = 1_000_000_000;

    #[test]
    fn every_day_is_where_the_general_readers_have_it() {
        for day in 0_u64..47_482 {
            let at = day * 86_400 + day * 7_919 % 86_400;
            let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(at));
            let instant = Timestamp::from_second(at.try_into().unwrap()).unwrap().to_string();
            assert_eq!(imf_fixdate(date.as_bytes()), Some(u128::from(at) * SECOND), "{date}");
            assert_eq!(rfc3339_utc(instant.as_bytes()), Some(u128::from(at) * SECOND), "{instant}");
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
