//! What looks like a wait and is none, and what looks like none and is one: sentences, members of a body, headers, by kind.
#![cfg(test)]

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest_admission::Reading;

/// 2026-03-01T12:00:00Z.
const NOW: u64 = 1_772_366_400;

fn wait(fields: &[(&str, &str)], body: Option<&str>) -> Option<u128> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    let reading = Reading::from_parts(StatusCode::TOO_MANY_REQUESTS, &headers, body.map(str::as_bytes), at);
    reading.hint().map(|hint| hint.wait().as_millis())
}

#[track_caller]
fn messages(cases: &[(&str, Option<u128>)]) {
    for (message, expected) in cases {
        let body = serde_json::json!({ "error": { "message": message } }).to_string();
        assert_eq!(wait(&[], Some(&body)), *expected, "{message}");
    }
}

#[track_caller]
fn bodies(cases: &[(&str, Option<u128>)]) {
    for (body, expected) in cases {
        assert_eq!(wait(&[], Some(body)), *expected, "{body}");
    }
}

#[test]
fn what_is_forbidden_for_a_time_is_a_wait_and_what_is_forbidden_in_a_time_is_none() {
    messages(&[
        ("Please do not retry in 30 seconds", None),
        ("Don't retry after 5 minutes", None),
        ("Do not try again in 5 minutes", None),
        ("You should never retry after 30 seconds", None),
        ("You won't have to wait 30 seconds", None),
        ("Do not retry before 30 seconds have passed", Some(30_000)),
        ("Do not retry before 2026-03-01T12:05:00Z", Some(300_000)),
        ("Do not retry until 2026-03-01T12:05:00Z", Some(300_000)),
        ("You cannot retry for 5 minutes", Some(300_000)),
        ("Retry no sooner than 30 seconds from now", Some(30_000)),
        // The denial is of something else.
        ("Your request was not accepted, please retry in 30 seconds", Some(30_000)),
        ("Could not process the request. Retry in 30 seconds", Some(30_000)),
    ]);
}

#[test]
fn times_of_something_else_are_no_wait() {
    messages(&[
        ("Model x-5 is available at 2026-03-05 12:00:00 UTC", None),
        ("New version available in 3 days", None),
        ("Invoice available in 5 days", None),
        ("20 requests available in 60 seconds", None),
        ("You have 5 calls available in 60 seconds", None),
        ("Your session will be locked for 10 minutes of inactivity", None),
        ("Lock wait 50 seconds", None),
        ("The request had to wait 3.2 seconds", None),
        ("Without having to wait 30 seconds", None),
        ("Exponential backoff (1s base)", None),
        ("Please retry with backoff: 1s, 2s, 4s", None),
        ("Backoff 5s applied", None),
        ("Quota was last reset at 2026-02-28T00:00:00Z", None),
        ("The limits were reset at 2026-02-28T00:00:00Z", None),
        ("try again in 5 m tokens", None),
        ("retry - in 5 minutes you made 20 calls", None),
        ("Please try again in -5 seconds", None),
        ("wait until 12:30:00", None),
        ("capacity will be available in 7 minutes", Some(420_000)),
        ("more requests available in 60 seconds", Some(60_000)),
    ]);
}

#[test]
fn a_range_is_no_wait() {
    messages(&[
        ("try again in 5s-10s", None),
        ("try again in 30s - 60s", None),
        ("try again in 5 seconds to 10 seconds", None),
        ("try again in 5 minutes or 10 minutes", None),
        ("try again in 2-3 minutes", None),
        ("wait 5 seconds or more", Some(5_000)),
        ("wait 5 seconds to continue", Some(5_000)),
    ]);
}

#[test]
fn further_spellings_of_a_wait_in_a_sentence() {
    messages(&[
        ("Next request allowed in 30 seconds", Some(30_000)),
        ("You may send requests again in 30 seconds", Some(30_000)),
        ("try again in half an hour", Some(1_800_000)),
        ("try again in 5 microseconds", Some(1)),
        ("Please wait 00:01:30 before retrying", Some(90_000)),
        ("Usage resets Mar 1, 2026 12:05:00 UTC", Some(300_000)),
        ("Try again at 1st March 2026 12:05 UTC", Some(300_000)),
        ("Try again at March 1st, 2026 12:05 PM UTC", Some(300_000)),
        ("Try again after Sun Mar  1 12:05:00 UTC 2026", Some(300_000)),
        ("Your ban expires in 7 seconds", Some(7_000)),
        ("Rate limited until 2026-03-01T12:05:00Z", Some(300_000)),
        ("We'll be back in 7 minutes", Some(420_000)),
    ]);
}

#[test]
fn members_that_name_something_else_state_no_wait() {
    for name in [
        "last_reset_at",
        "previous_reset_time",
        "last_retry_at",
        "time_since_reset",
        "seconds_since_reset",
        "average_wait_time",
        "avg_wait_ms",
        "total_wait_ms",
        "wait_time_avg",
        "min_wait_seconds",
        "min_retry_delay",
        "initial_backoff_seconds",
        "default_backoff_ms",
        "refresh_rate_seconds",
        "refresh_interval_seconds",
        "reset_window_seconds",
        "limit_reset_period_seconds",
        "throttle_seconds_used",
        "throttled_requests_in_window",
        "estimated_time_saved",
        "next_available_version",
        "subscription_renewal_date",
        "blocked_since_seconds",
        "throttle_rate_seconds",
        "timeout",
        "expires_in",
        "window",
        "interval",
        "ttl",
        "max_age",
        "latency_ms",
        "processing_time",
        "created_at",
        "reset_count",
        "retry_count",
        "retry_timeout",
        "uptime_seconds",
    ] {
        for value in ["50", "\"50\"", "\"2026-03-05T00:00:00Z\"", "1772798400"] {
            bodies(&[(&format!("{{\"error\":{{{name:?}:{value}}}}}"), None)]);
        }
    }
}

#[test]
fn a_member_is_in_the_unit_of_its_name_or_says_nothing() {
    bodies(&[
        (r#"{"retry_after_days":1}"#, Some(86_400_000)),
        (r#"{"resetInHours":2}"#, Some(7_200_000)),
        (r#"{"retry_after_min":5}"#, Some(300_000)),
        (r#"{"wait_min":5}"#, Some(300_000)),
        (r#"{"retryAfterMicros":5000000}"#, None),
        (r#"{"retry_after_us":5000000}"#, None),
        (r#"{"retry_after_nanos":5000000000}"#, None),
        (r#"{"rate_limit_reset_seconds":30}"#, Some(30_000)),
        (r#"{"retry_after":"00:00:05"}"#, Some(5_000)),
        (r#"{"reset_time":"12:30:00"}"#, None),
        (r#"{"block_duration":300}"#, Some(300_000)),
        (r#"{"lockout_seconds":300}"#, Some(300_000)),
        (r#"{"ban_expires_at":"2026-03-01T12:05:00Z"}"#, Some(300_000)),
        (r#"{"suggested_wait":5}"#, Some(5_000)),
    ]);
}

#[test]
fn a_name_may_be_spread_over_two_members_and_a_wait_of_something_sold_is_none() {
    bodies(&[
        (r#"{"retry":{"after":5}}"#, Some(5_000)),
        (r#"{"error":{"retry":{"after_ms":1500,"max":9}}}"#, Some(1_500)),
        (r#"{"wait":{"seconds":12}}"#, Some(12_000)),
        (r#"{"retry":[{"after":5},{"after":7}]}"#, Some(7_000)),
        (r#"{"rateLimit":{"remaining":0,"limit":9,"reset":{"in":30}}}"#, Some(30_000)),
        (r#"{"quota":{"reset":{"at":"2026-03-01T12:05:00Z"}}}"#, Some(300_000)),
        (r#"{"retry":{"count":3,"limit":5,"attempts":2,"enabled":1,"value":9}}"#, None),
        (r#"{"cache":{"after":5}}"#, None),
        (r#"{"max_retry":{"after":5}}"#, None),
        (r#"{"password":{"reset":{"at":"2026-03-01T12:05:00Z"}}}"#, None),
        (r#"{"subscription":{"renews_at":"2026-03-05T00:00:00Z"}}"#, None),
        (r#"{"user":{"plan":{"limits":{"renews_at":"2026-03-05T00:00:00Z"}}}}"#, None),
        (
            r#"{"trial":{"reset_at":"2026-03-05T00:00:00Z"},"limit":{"reset_at":"2026-03-01T12:05:00Z"}}"#,
            Some(300_000),
        ),
    ]);
}

#[test]
fn a_penalty_is_a_wait_and_a_call_that_took_too_long_is_none() {
    messages(&[
        ("You have been timed out for 60 seconds.", Some(60_000)),
        ("Timed out for 60 seconds waiting for the upstream", None),
        ("The request timed out after 60 seconds", None),
        ("Requests are blocked during the remaining period of 564 seconds.", Some(564_000)),
        ("The remaining period of 564 seconds of your trial", None),
        ("a wait of 20 seconds is needed", Some(20_000)),
    ]);
}

#[test]
fn of_several_limits_in_a_body_the_spent_ones_count() {
    bodies(&[
        (
            r#"{"limits":[{"limit":5,"remaining":0,"reset":30},{"limit":500,"remaining":400,"reset":86400}]}"#,
            Some(30_000),
        ),
        (
            r#"{"limits":[{"limit":5,"remaining":4,"reset":30},{"limit":500,"remaining":"0","reset":86400}]}"#,
            Some(86_400_000),
        ),
        (
            r#"{"quota":{"remaining":3,"reset_at":1772366490},"burst":{"remaining":0,"reset_at":1772366410}}"#,
            Some(10_000),
        ),
        // Nothing else is stated.
        (r#"{"limit":{"remaining":5,"reset":30}}"#, Some(30_000)),
        (r#"{"limit":100,"remaining":0,"reset":30}"#, Some(30_000)),
        (r#"{"limit":100,"remaining":7,"reset":30,"message":"try again in 5s"}"#, Some(5_000)),
    ]);
}

#[test]
fn headers_of_something_else_state_no_wait() {
    for name in [
        "x-password-reset",
        "x-connection-reset",
        "x-cache-reset",
        "x-session-reset",
        "x-reset-count",
        "x-ratelimit-reset-count",
        "x-max-retry-after",
        "x-no-retry-after",
        "x-retry-after-count",
        "x-cache-ttl",
        "age",
        "x-runtime",
        "x-response-time",
        "x-timeout",
        "x-window-seconds",
        "x-ratelimit-window",
    ] {
        assert_eq!(wait(&[(name, "300")], None), None, "{name}");
    }
    for (name, value) in [
        ("server-timing", "total;dur=350"),
        ("strict-transport-security", "max-age=31536000"),
        ("keep-alive", "timeout=5"),
    ] {
        assert_eq!(wait(&[(name, value)], None), None, "{name}");
    }
}

#[test]
fn the_window_that_makes_a_unit_plausible_may_stand_in_a_field_of_its_own() {
    let reset = |field: (&str, &str)| {
        wait(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "30000"), field], None)
    };
    assert_eq!(reset(("x-ratelimit-window", "60")), Some(30_000));
    assert_eq!(reset(("x-ratelimit-window", "1m")), Some(30_000));
    assert_eq!(reset(("x-ratelimit-limit-minute", "100")), Some(30_000));
    assert_eq!(reset(("x-ratelimit-limit", "100")), Some(30_000_000));
    let lone = [("x-ratelimit-remaining-minute", "0"), ("x-ratelimit-reset", "30000")];
    assert_eq!(wait(&lone, None), Some(30_000));
}

/// Ten minutes for a burst in one second is what people set, and no count of milliseconds.
#[test]
fn a_penalty_that_people_set_stays_one() {
    let after =
        |value: &str, policy: &str| wait(&[("retry-after", value), ("ratelimit-policy", policy)], None);
    for seconds in [120, 300, 600, 900] {
        assert_eq!(after(&seconds.to_string(), "10;w=1"), Some(seconds * 1_000));
    }
    assert_eq!(after("7200", "100;w=60"), Some(7_200_000));
    assert_eq!(after("850", "10;w=1"), Some(850));
    assert_eq!(after("60000", "100;w=60"), Some(60_000));
}
