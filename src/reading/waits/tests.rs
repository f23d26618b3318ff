use std::time::SystemTime;

use http::HeaderValue;

use super::*;
use crate::reading::Profile;

fn choose(fields: &[(&'static str, &str)]) -> Option<(u128, String)> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    let now = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(1_559_559_600)).unwrap();
    let clock = Clock::new(&headers, now, None);
    let wait = explicit(&headers, &clock, Profile::standard().rules());
    wait.map(|wait| (wait.advice.wait.as_millis(), wait.name.to_string()))
}

#[test]
fn the_more_precise_field_wins_in_any_order() {
    let chosen = |wait, name: &str| Some((wait, name.to_owned()));
    assert_eq!(choose(&[("retry-after", "10"), ("retry-after-ms", "3000")]), chosen(3000, "retry-after-ms"));
    assert_eq!(
        choose(&[("x-ms-retry-after-ms", "1"), ("retry-after-ms", "3000")]),
        chosen(3000, "retry-after-ms")
    );
    assert_eq!(choose(&[("x-ratelimit-retry-after", "5"), ("retry-after", "0")]), chosen(0, "retry-after"));
    assert_eq!(choose(&[("x-ratelimit-timeremaining", "5")]), chosen(5000, "x-ratelimit-timeremaining"));
    assert_eq!(choose(&[("x-retry-in", "480ms"), ("retry-after", "0")]), chosen(480, "x-retry-in"));
    assert_eq!(choose(&[("x-amz-retry-after", "1500")]), chosen(1500, "x-amz-retry-after"));
    assert_eq!(
        choose(&[("x-amzn-kiro-ratelimit-retry-after", "800")]),
        chosen(800, "x-amzn-kiro-ratelimit-retry-after")
    );
    assert_eq!(
        choose(&[("x-amz-retry-after", "1500"), ("retry-after", "2")]),
        chosen(1500, "x-amz-retry-after")
    );
    assert_eq!(
        choose(&[("x-amzn-remapped-retry-after", "30")]),
        chosen(30_000, "x-amzn-remapped-retry-after"),
        "a gateway's name for the field of the service behind it"
    );
    assert_eq!(choose(&[("x-retry-in", "3.2s")]), chosen(3200, "x-retry-in"));
    assert_eq!(choose(&[("x-app-retry-after-ms", "5")]), chosen(5, "x-app-retry-after-ms"));
    assert_eq!(choose(&[("retry-after-ms", "junk"), ("retry-after", "7")]), chosen(7000, "retry-after"));
}

#[test]
fn zero_milliseconds_beside_a_positive_wait_are_a_truncation() {
    let chosen = |wait, name: &str| Some((wait, name.to_owned()));
    assert_eq!(choose(&[("retry-after-ms", "0"), ("retry-after", "5")]), chosen(5000, "retry-after"));
    assert_eq!(choose(&[("x-ms-retry-after-ms", "0"), ("retry-after", "5")]), chosen(5000, "retry-after"));
    assert_eq!(choose(&[("retry-after-ms", "0"), ("retry-after", "0")]), chosen(0, "retry-after-ms"));
    assert_eq!(choose(&[("retry-after-ms", "0")]), chosen(0, "retry-after-ms"));
}

#[test]
fn several_lines_and_members_the_longest_counts() {
    let wait = |fields: &[(&'static str, &str)]| choose(fields).map(|(wait, _)| wait);
    assert_eq!(wait(&[("retry-after", "5"), ("retry-after", "30")]), Some(30_000));
    assert_eq!(wait(&[("retry-after", "30"), ("retry-after", "5")]), Some(30_000));
    assert_eq!(wait(&[("retry-after", "5, 30")]), Some(30_000));
    assert_eq!(wait(&[("retry-after", "nope,7,")]), Some(7_000));
    assert_eq!(wait(&[("retry-after", "5, Mon, 03 Jun 2019 11:30:12 GMT")]), Some(1_812_000));
    assert_eq!(
        wait(&[("retry-after", "Mon, 03 Jun 2019 11:30:12 GMT, Mon, 03 Jun 2019 11:30:13 GMT")]),
        Some(1_813_000)
    );
    assert_eq!(wait(&[("retry-after", "Zun, 29 Sep 2023 16:26:27 GMT")]), None);
    assert_eq!(wait(&[("retry-after", "")]), None);
}

#[test]
fn a_time_span_is_read_in_milliseconds_fields_only() {
    let wait = |fields: &[(&'static str, &str)]| choose(fields).map(|(wait, _)| wait);
    assert_eq!(wait(&[("x-ms-retry-after-ms", "00:00:00.033")]), Some(33));
    assert_eq!(wait(&[("retry-after", "00:00:33")]), None);
}
