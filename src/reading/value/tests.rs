use std::time::SystemTime;

use http::HeaderMap;
use http::header::{AGE, DATE};

use super::super::hint::Hint;
use super::*;

fn read_at(value: &[u8], received_at: u64, zone: Option<i32>) -> Option<Value> {
    let headers = HeaderMap::new();
    let received_at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(received_at)).unwrap();
    Value::read(value, &Clock::new(&headers, received_at, zone))
}

fn wait(value: &str) -> Option<u128> {
    match read_at(value.as_bytes(), 0, None)?.stated(TimeUnit::Seconds) {
        Stated::Delay(wait) | Stated::At(wait) => Some(wait.as_nanos().div_ceil(1_000_000)),
        Stated::Beyond => None,
    }
}

/// The seconds since the epoch of an instant.
fn instant(text: &str, received_at: u64) -> Option<u64> {
    match read_at(text.as_bytes(), received_at, None)? {
        Value::Stated(Stated::At(at)) => Some(at.as_secs()),
        _ => None,
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
    assert_eq!(wait("1700000000123456"), Some(1_700_000_000_123 + 1), "rounded up");
    assert_eq!(wait("1700000000123456789"), Some(1_700_000_000_123 + 1), "rounded up");
    assert_eq!(wait("4102444800"), Some(4_102_444_800_000));
    assert_eq!(wait("4102444801"), None);
    assert_eq!(wait("18446744073709551616"), None);
    assert_eq!(wait("99999999999999999999999999999999999999999999"), None);
}

#[test]
fn a_bare_number_of_milliseconds_keeps_the_epochs() {
    let read = |value: &str| read_at(value.as_bytes(), 0, None).unwrap().stated(TimeUnit::Milliseconds);
    assert_eq!(read("600000"), Stated::Delay(Duration::from_secs(600)));
    assert_eq!(read("1987.5"), Stated::Delay(Duration::from_micros(1_987_500)));
    assert!(matches!(read("1700000000000"), Stated::At(_)));
    let minutes = read_at(b"90", 0, None).unwrap().stated(TimeUnit::Minutes);
    assert_eq!(minutes, Stated::Delay(Duration::from_secs(5_400)));
}

#[test]
fn what_is_no_value() {
    for value in [
        "",
        " ",
        "-1",
        "+1",
        "1e3",
        "0x10",
        "inf",
        "NaN",
        "nope",
        "²",
        ".",
        "1.2.3",
        "1m26",
        "1 s",
        "12:30:00",
        "1_000",
        "5 seconds",
        "P1M",
        "P",
        "-PT1M",
    ] {
        assert_eq!(wait(value), None, "{value:?}");
    }
}

#[test]
fn numbers_and_counts() {
    let nanos = |text: &str| number(text.as_bytes()).map(|number| number.as_nanos());
    assert_eq!(nanos("2.0"), Some(2_000_000_000));
    assert_eq!(nanos(".5"), Some(500_000_000));
    assert_eq!(nanos("5."), Some(5_000_000_000));
    assert_eq!(nanos("0.0000000001"), Some(1), "rounded up");
    assert_eq!(nanos("0.9999999999"), Some(1_000_000_000));
    assert_eq!(nanos("0000000000000000000000000000000000000000000000000007"), Some(7_000_000_000));
    let json = |text: &str| json_number(text).map(|number| number.as_nanos());
    assert_eq!(json("1.5E3"), Some(1_500_000_000_000));
    assert_eq!(json("1.7e9"), Some(1_700_000_000_000_000_000));
    assert_eq!(json("1e400"), Some(Duration::MAX.as_nanos()), "out of all proportion");
    for text in ["-1e2", "-7", "1e", "e2", "1.2.3e2", "", "nan", "inf"] {
        assert_eq!(json(text), None, "{text}");
    }
    let read = |text: &str| count(text.as_bytes()).unwrap();
    assert!(read("0.0").is_zero_or_less() && !read("0.5").is_zero_or_less());
    assert!(read("-3").is_zero_or_less() && !read("-3").is_minus_one() && read("-1").is_minus_one());
    assert_eq!((read("-1").known(), read("-3").known(), read("5").known()), (None, Some(0), Some(5)));
    assert_eq!(read("99999999999999999999999").whole(), u64::MAX);
    assert_eq!(read("-2").min(read("0.5")), read("-2"));
    assert!(count(b"null").is_none() && count(b"+1").is_none());
}

#[test]
fn instants_are_measured_against_date_and_age() {
    let mut headers = HeaderMap::new();
    headers.insert(DATE, "Mon, 03 Jun 2019 10:59:40 GMT".parse().unwrap());
    headers.insert(AGE, "20".parse().unwrap());
    let clock = Clock::new(&headers, SystemTime::UNIX_EPOCH, None);
    let wait = |value: &[u8]| clock.read(value, TimeUnit::Seconds).map(|advice| advice.wait.as_millis());
    assert_eq!(wait(b"Mon, 03 Jun 2019 11:00:10 GMT"), Some(10_000));
    assert_eq!(wait(b"2019-06-03T11:00:10.0005Z"), Some(10_001));
    assert_eq!(wait(b"2019-06-03T10:00:00Z"), Some(0));
    assert_eq!(wait(b"2101-06-03T10:00:00Z"), Some(Hint::LONGEST_WAIT.as_millis()));
    assert_eq!(wait(b"7"), Some(7_000));
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
        "2019-06-03T11:30:12Z",
        "2019-06-03t11:30:12.000z",
        "2019-06-03 11:30:12 UTC",
        "2019-06-03T13:30:12+02:00",
        "2019/06/03 11:30:12 +0000",
        "2019-Jun-03 11:30:12+0000 UTC",
        "Mon Jun 03 2019 11:30:12 GMT+0000 (Coordinated Universal Time)",
    ] {
        assert_eq!(instant(text, 1_559_559_600), Some(1_559_561_412), "{text}");
    }
    assert_eq!(instant("2024-03-01T12:00Z", 0), Some(1_709_294_400), "without seconds");
    assert_eq!(instant("Sat, 31 Dec 2016 23:59:60 GMT", 0), Some(1_483_228_800), "a leap second");
    assert_eq!(instant("2016-12-31T23:59:60Z", 0), Some(1_483_228_800));
    assert_eq!(instant("0001-01-01T00:00:00Z", 0), Some(0));
    // Two-digit years are at most fifty years ahead.
    assert_eq!(instant("Sunday, 06-Nov-94 08:49:37 GMT", 1_704_067_200), Some(784_111_777));
    assert_eq!(instant("Monday, 03-Jun-19 11:30:12 GMT", 946_000_000), Some(1_559_561_412));
}

#[test]
fn what_is_no_instant() {
    for text in [
        "Zun, 29 Sep 2023 16:26:27 GMT",
        "29 Sep 2023 16:26:27 GMT",
        "Thu, 99 Foo 2026 00:00:09 GMT",
        "Fri, 30 Feb 2024 00:00:00 GMT",
        "Fri, 01 Mar 2024 24:00:00 GMT",
        "Fri, 01 Mar 2024 12:00:61 GMT",
        "Fri, 01 Mar 2024 12:00:00",
        "Fri, 01 Mar 2024 12:00:00 CET",
        "Fri, 01 Mar 2024 12:00:00 GMT extra",
        "Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)",
        "Mon",
        "yesterday",
        "2024-03-01T12:00:00",
        "2024-03-01 12:00:00",
        "2024-03-01",
        "20240301T120000Z",
        "2024-13-01T12:00Z",
        "2024-03-01T12:00:00+25:00",
        "2024/03-01 12:00:00Z",
    ] {
        assert_eq!(instant(text, 1_559_559_600), None, "{text}");
    }
}

#[test]
fn a_time_without_a_zone_is_one_of_the_profiles_zone() {
    let read = |zone| match read_at(b"2026-09-12 00:35:41", 0, zone) {
        Some(Value::Stated(Stated::At(at))) => Some(at.as_secs()),
        _ => None,
    };
    assert_eq!(
        (read(None), read(Some(0)), read(Some(28_800))),
        (None, Some(1_789_173_341), Some(1_789_144_541))
    );
}

#[test]
fn durations() {
    for (text, millis) in [
        ("6m0s", 360_000),
        ("20ms", 20),
        ("1m26.4s", 86_400),
        ("23h47m36.648s", 85_656_648),
        ("500µs", 1),
        ("500μs", 1),
        ("30s1m", 90_000),
        ("1d2h", 93_600_000),
        ("0s", 0),
        ("17.399999999s", 17_400),
        ("PT1M", 60_000),
        ("P1DT2H", 93_600_000),
        ("PT0.5S", 500),
        ("P2W", 1_209_600_000),
    ] {
        assert_eq!(wait(text), Some(millis), "{text}");
    }
    for text in ["s", "-1s", "1S", "1y", "1mo", "5monkeys"] {
        assert_eq!(wait(text), None, "{text}");
    }
    assert!(read_at(b"500\xB5s", 0, None).is_some(), "Latin-1");
}

#[test]
fn durations_in_prose() {
    let day = 86_400_000;
    for (text, millis) in [
        ("7m12s.", Some(432_000)),
        ("33 seconds. please", Some(33_000)),
        ("2 hours", Some(7_200_000)),
        ("1 hour and 30 minutes", Some(5_400_000)),
        ("58 hours 33 minutes", Some(210_780_000)),
        ("1 minute, 5 seconds", Some(65_000)),
        ("1 hour, 2 minutes, and 3 seconds", Some(3_723_000)),
        ("900.2ms\"}", Some(901)),
        ("250 millis", Some(250)),
        ("500µs", Some(1)),
        ("1h 30m", Some(5_400_000)),
        ("1m30", Some(90_000)),
        ("2h15", Some(8_100_000)),
        ("one minute", Some(60_000)),
        ("an hour", Some(3_600_000)),
        ("twenty-four hours", Some(day)),
        ("1,800 seconds", Some(1_800_000)),
        ("2 weeks", Some(14 * day)),
        ("0 seconds before", Some(0)),
        ("12 more seconds before", Some(12_000)),
        ("6' seconds.", Some(6_000)),
        ("30\" seconds", Some(30_000)),
        ("30-second", Some(30_000)),
        ("5 second(s).", Some(5_000)),
        ("5 seconds, 30 minutes", Some(5_000)),
        ("20. visit", None),
        ("a few minutes", None),
        ("a second", None),
        ("5 monkeys", None),
        ("5 more", None),
        ("5/min", None),
        ("5-10 minutes", None),
    ] {
        let read = scan_prose(text).map(|(delay, _)| delay.as_nanos().div_ceil(1_000_000));
        assert_eq!(read, millis, "{text}");
    }
}

#[test]
fn time_spans() {
    let millis = |text: &[u8]| timespan(text).map(|span| span.as_millis());
    assert_eq!(millis(b"00:00:00.033"), Some(33));
    assert_eq!(millis(b"1.02:03:04.5"), Some(93_784_500));
    for text in ["24:00:00", "00:60:00", "00:00:60", "00:00", "1:2:3:4", "-00:00:01", "::"] {
        assert_eq!(millis(text.as_bytes()), None, "{text}");
    }
}
