//! Counters and resets: which bucket is spent, and when it resets.

use super::*;
use crate::units::QuotaUnit;

#[test]
fn no_limit_is_not_spent() {
    let (none, zero) = ("x-ratelimit-limit: -1", "x-ratelimit-limit: 0");
    let left = "x-ratelimit-remaining: 0\nx-ratelimit-reset: 0";
    check(&format!("200 x\n{none}\n{left}"), "- -");
    check(&format!("429 x\n{none}\n{left}"), "- -");
    check(
        &format!("429 x\n{none}\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 9"),
        "9000 x-ratelimit-reset",
    );
    check(&format!("200 x\n{zero}\n{left}"), "- -");
    check(&format!("429 x\n{zero}\n{left}"), "0 x-ratelimit-reset requests");
    check("200 x\nx-ratelimit-remaining: 0\nx-ratelimit-limit: 5", "- - requests");
    let reading = read(&format!("200 x\n{none}\n{left}"));
    assert!(reading.limits().iter().all(|limit| limit.limit.is_none() && limit.remaining.is_none()));
}

#[test]
fn a_reset_by_itself_belongs_to_what_is_spent() {
    let reset = "x-contentful-ratelimit-reset: 1";
    check(
        &format!(
            "429 x\n{reset}\nx-contentful-ratelimit-second-remaining: 0\nx-contentful-ratelimit-hour-remaining: 9"
        ),
        "1000 x-contentful-ratelimit-reset requests",
    );
    check("429 x\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-tokens: 9s", "- - requests");
    check(
        "429 x\nx-ratelimit-remaining-minute: 0\nx-ratelimit-remaining: 5\nx-ratelimit-reset: 9",
        "- - requests",
    );
    check(
        "429 x\nx-rate-limit-requests-left: 0\nx-rate-limit-time-reset-ms: 15000",
        "15000 x-rate-limit-time-reset-ms requests",
    );
}

#[test]
fn limits_of_a_success() {
    let reading = read(
        "200 openai\nx-ratelimit-limit-requests: 10000\nx-ratelimit-remaining-requests: 9999\nx-ratelimit-reset-requests: 8.64s\nx-ratelimit-limit-tokens: 200000\nx-ratelimit-remaining-tokens: 0\nx-retry-limit: 5",
    );
    let limits: Vec<_> =
        reading.limits().iter().map(|limit| (limit.unit, limit.limit, limit.remaining)).collect();
    assert_eq!(
        limits,
        [(QuotaUnit::Requests, Some(10_000), Some(9_999)), (QuotaUnit::Tokens, Some(200_000), Some(0))]
    );
    assert!(reading.hint().is_none() && reading.exhausted().contains(QuotaUnit::Tokens));
}

#[test]
fn of_two_resets_of_one_bucket_the_later_counts_whichever_comes_first() {
    let wait = |fields: &[(&'static str, &'static str)]| {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let reading =
            Reading::from_parts(StatusCode::TOO_MANY_REQUESTS, &headers, None, SystemTime::UNIX_EPOCH);
        reading.hint().map(|hint| hint.wait().as_millis())
    };
    for (one, other, later) in [("6m0s", "1, 0", 360_000), ("6m0s", "400", 400_000), ("5", "7", 7_000)] {
        for (one, other) in [(one, other), (other, one)] {
            let fields = [("x-ratelimit-requests-reset", one), ("x-ratelimit-reset-requests", other)];
            let back = [fields[1], fields[0]];
            assert_eq!((wait(&fields), wait(&back)), (Some(later), Some(later)), "{one} {other}");
        }
    }
}

#[test]
fn a_reading_holds_up_to_twelve_limits() {
    for count in [0, 1, 4, 5, 12, 13, 20] {
        let mut headers = HeaderMap::new();
        for window in 1..=count {
            let name = format!("x-ratelimit-remaining-requests-{window}-hour");
            headers.append(http::HeaderName::try_from(name).unwrap(), HeaderValue::from(window - 1));
        }
        let reading = Reading::from_parts(StatusCode::OK, &headers, None, SystemTime::UNIX_EPOCH);
        let left: Vec<_> = reading.limits().iter().filter_map(|limit| limit.remaining).collect();
        let expected: Vec<_> = (0..count.min(12)).collect();
        assert_eq!(left, expected);
        assert_eq!(reading.exhausted().is_empty(), count == 0);
        assert_eq!(format!("{:?}", reading.limits), format!("{:?}", reading.limits()));
    }
}

#[test]
fn azure_tells_its_unit_by_the_renewal_period() {
    let spent = "x-ratelimit-limit-tokens: 1000\nx-ratelimit-remaining-tokens: 0\nx-ratelimit-renewalperiod-tokens: 60";
    check(
        &format!("429 azure-openai\n{spent}\nx-ratelimit-reset-tokens: 59"),
        "59000 x-ratelimit-reset-tokens tokens",
    );
    check(
        &format!("429 azure-openai\n{spent}\nx-ratelimit-reset-tokens: 59990"),
        "59990 x-ratelimit-reset-tokens tokens",
    );
    check("429 azure-openai\nx-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 59", "- - tokens");
    check(
        "429 azure-openai\nx-ratelimit-limit-tokens: -1\nx-ratelimit-remaining-tokens: -1\nx-ratelimit-reset-tokens: 0",
        "- -",
    );
    check(
        "429 standard\nx-ratelimit-limit-tokens: -1\nx-ratelimit-remaining-tokens: -1\nx-ratelimit-reset-tokens: 0",
        "- -",
    );
    check("429 azure-openai\nretry-after: 5\nx-ratelimit-type: Requests", "5000 retry-after requests");
    for (kind, unit) in [
        ("UserByModelByDay", "requests"),
        ("UserByMinute", "requests"),
        ("UserByModelByMinuteUncachedInputTokens", "input-tokens"),
        ("UserConcurrentRequests", "concurrency"),
    ] {
        let named = format!("5000 retry-after {unit}");
        check(&format!("429 github-models\nretry-after: 5\nx-ratelimit-type: {kind}"), &named);
        let sentence = format!("{{\"message\":\"Rate limit of 9 per 60s exceeded for {kind}.\"}}");
        check(&format!("429 azure-openai\nretry-after: 5\n\n{sentence}"), &named);
    }
}

#[test]
fn anthropic_subscription_windows() {
    check(
        "200 anthropic\nanthropic-ratelimit-unified-status: allowed\nanthropic-ratelimit-unified-representative-claim: five_hour\nanthropic-ratelimit-unified-overage-status: rejected\nanthropic-ratelimit-unified-5h-utilization: 0.4",
        "- -",
    );
    check(
        "429 anthropic\nanthropic-ratelimit-unified-7d-status: rejected\nanthropic-ratelimit-unified-7d-reset: 2024-01-01T01:00:00Z\nanthropic-ratelimit-unified-5h-status: allowed_warning\nanthropic-ratelimit-unified-5h-reset: 1704067201",
        "3600000 anthropic-ratelimit-unified-7d-reset quota",
    );
}
