//! The general rules of reading, by kind: what is known of a server that nobody has heard of.
#![cfg(test)]

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use reqwest_admission::Reading;
use reqwest_admission::reading::{CountedBy, HintSource, Profile, Terminal, TimeUnit};
use reqwest_admission::units::QuotaUnit;

/// 2026-03-01T12:00:00Z.
const NOW: u64 = 1_772_366_400;

fn read_with(profile: &Profile, status: u16, fields: &[(&str, &str)], body: Option<&str>) -> Reading {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    Reading::with_profile(
        profile,
        StatusCode::from_u16(status).unwrap(),
        &headers,
        body.map(str::as_bytes),
        at,
    )
}

fn read(status: u16, fields: &[(&str, &str)], body: Option<&str>) -> Reading {
    read_with(Profile::standard(), status, fields, body)
}

fn wait(reading: &Reading) -> Option<u128> {
    reading.hint().map(|hint| hint.wait().as_millis())
}

/// The wait of a refusal with these headers.
fn of_headers(fields: &[(&str, &str)]) -> Option<u128> {
    wait(&read(429, fields, None))
}

/// The wait of a refusal with this message.
fn of_message(message: &str) -> Option<u128> {
    wait(&read(429, &[], Some(&serde_json::json!({ "error": { "message": message } }).to_string())))
}

#[test]
fn several_windows_in_one_field_pair_by_their_places() {
    let brave = |left: &str, reset: &str| {
        of_headers(&[
            ("x-ratelimit-limit", "1, 15000"),
            ("x-ratelimit-policy", "1;w=1, 15000;w=2592000"),
            ("x-ratelimit-remaining", left),
            ("x-ratelimit-reset", reset),
        ])
    };
    assert_eq!(brave("0, 9000", "1, 1419704"), Some(1_000));
    assert_eq!(brave("1, 0", "1, 1419704"), Some(1_419_704_000));
    assert_eq!(brave("0, 0", "1, 1419704"), Some(1_419_704_000), "the longest of several");
    assert_eq!(brave("0, 0, 5", "1, 3, 99"), Some(3_000));
    assert_eq!(
        brave("0, junk", "1, 99"),
        Some(1_000),
        "a place that says nothing holds the others in theirs"
    );
    // What is stated once belongs to every place.
    assert_eq!(of_headers(&[("x-ratelimit-remaining", "3, 0"), ("x-ratelimit-reset", "9")]), Some(9_000));
    assert_eq!(of_headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "9, 30")]), Some(30_000));
    let reading = read(
        200,
        &[
            ("x-ratelimit-limit", "1, 15000"),
            ("x-ratelimit-remaining", "1, 14523"),
            ("x-ratelimit-reset", "1, 1419704"),
        ],
        None,
    );
    let limits: Vec<_> = reading.limits().iter().map(|limit| (limit.limit, limit.remaining)).collect();
    assert_eq!(limits, [(Some(1), Some(1)), (Some(15_000), Some(14_523))]);
}

#[test]
fn the_unit_of_a_bare_number_is_the_plausible_one() {
    // A reset is no longer than its window.
    let reset = |window: &str, reset: &str| {
        of_headers(&[
            ("x-ratelimit-limit", &format!("100;w={window}")),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", reset),
        ])
    };
    assert_eq!(reset("30", "17000"), Some(17_000), "milliseconds");
    assert_eq!(reset("60", "45"), Some(45_000));
    assert_eq!(reset("60", "61"), Some(61_000), "rounded, and still seconds");
    assert_eq!(reset("60", "90000"), Some(90_000_000), "neither fits");
    assert_eq!(reset("60", "1772366430"), Some(30_000), "an epoch is no delay");
    // An explicit wait may be a penalty, and has to be absurd.
    let retry_after = |value: &str| {
        of_headers(&[
            ("retry-after", value),
            ("x-ratelimit-violatedpolicy", r#"{"samplingPeriod": "PT1M", "limit": 1}"#),
        ])
    };
    assert_eq!(retry_after("55408"), Some(55_408));
    assert_eq!(retry_after("45"), Some(45_000));
    assert_eq!(retry_after("3600"), Some(3_600_000), "an hour's penalty for a minute's limit");
    assert_eq!(
        retry_after("86400"),
        Some(86_400_000),
        "a day's, which as milliseconds is longer than the minute, too"
    );
    assert_eq!(of_headers(&[("retry-after", "55408")]), Some(55_408_000), "nothing beside it says otherwise");
    assert_eq!(of_headers(&[("ratelimit-policy", "100;w=60"), ("retry-after", "20")]), Some(20_000));
}

/// Messages, and the wait in milliseconds that they state.
const SENTENCES: [(&str, u128); 59] = [
    ("Please retry after 1m30", 90_000),
    ("Retry in 250 millis.", 250),
    ("try again in 500µs", 1),
    ("Wait 58 hours 33 minutes", 210_780_000),
    ("Rate limit exceeded. Limit resets on March 1, 2026 at 12:05 PM UTC", 300_000),
    ("Your quota resets at 2026/03/01 12:10:00 +0000", 600_000),
    ("You are blocked until 2026-03-01T13:00:00Z.", 3_600_000),
    ("Come back in 2 hours", 7_200_000),
    ("Quota renews in 3 days", 259_200_000),
    ("access will be available again in 15 mins", 900_000),
    ("Too many requests (retry after 45s)", 45_000),
    ("retry_after=30s", 30_000),
    ("[Retry-After: 12 sec]", 12_000),
    ("Please wait **30 seconds**", 30_000),
    ("You have been temporarily blocked for 10 minutes", 600_000),
    ("Your rate limit will be refreshed in 20 seconds", 20_000),
    ("you've exceeded the rate limit, please slow down and try again after 51.84 seconds.", 51_840),
    ("Expected available in 831 seconds", 831_000),
    ("Try again in about an hour", 3_600_000),
    ("please try your request again in 20s", 20_000),
    ("Please retry your request after 20s.", 20_000),
    ("Cooldown: 30s", 30_000),
    ("Please back off for 30 seconds", 30_000),
    ("Reset time: 2026-03-01 12:01:00 UTC", 60_000),
    ("wait time: 30 seconds", 30_000),
    ("You need to wait at least 5 more minutes", 300_000),
    ("limit will reset in 1 day, 2 hours", 93_600_000),
    ("Resets in: 3h 2m 1s", 10_921_000),
    ("Next request available at 2026-03-01T12:00:30+00:00", 30_000),
    ("Too Many Requests! Wait for 0s", 0),
    ("Retry after Sun, 01 Mar 2026 12:00:10 GMT", 10_000),
    ("You can try again at Mar 1 2026 12:00:20 UTC", 20_000),
    ("retry at 1 March 2026 12:00:20 UTC", 20_000),
    ("Please try again in thirty seconds", 30_000),
    ("Please try again in one minute.", 60_000),
    ("Your quota will be renewed in 09 hours and 57 minutes", 35_820_000),
    ("Please retry in 1,800 seconds", 1_800_000),
    ("Please try again in PT5M", 300_000),
    ("try again in 0.5 hours", 1_800_000),
    ("You may retry in: 5 min", 300_000),
    ("temporarily banned, unbanned in 3 minutes", 180_000),
    ("Please wait for 2 minutes, then retry", 120_000),
    ("Service unavailable; retry after: '6' seconds", 6_000),
    ("retry after 2026-03-01 12:00:30.500 UTC", 30_500),
    ("Throttled for 20 seconds", 20_000),
    ("retry delay: 20s", 20_000),
    ("Your access is suspended until 2026-03-02T00:00:00Z", 43_200_000),
    ("in the meantime please wait 10 seconds.", 10_000),
    ("available from 2026-03-01T12:01:00Z", 60_000),
    ("retry-after: 10.305464ms, allowed: 2000/minute", 11),
    ("too many requests from this IP, more requests available in 17524 seconds", 17_524_000),
    ("The rate limit for this resource is 4/day. Please try again in 85092 seconds", 85_092_000),
    ("Too many failed attempts (> 20) resulting in a failure. Please wait 30s and try again.", 30_000),
    ("Consumed (req/min): 11, Remaining (req/min): 0. Upgrade your plan or please retry after 25s", 25_000),
    ("User-rate limit exceeded.  Retry after 2026-03-01T12:15:15.961Z (Forwarding rules)", 915_961),
    ("resets at Sun Mar 01 2026 12:00:25 GMT+0000 (Coordinated Universal Time)", 25_000),
    ("IP banned until 1772366460000", 60_000),
    ("Quota will be replenished in 00:30:02.", 1_802_000),
    ("Retry after 1772366460", 60_000),
];

/// Messages that state counts, limits, windows, prices, versions, and no wait.
const NO_SENTENCES: [&str; 64] = [
    "Rate limit of 150 per 86400s exceeded",
    "You made 20 requests in 60 seconds",
    "Limit: 100 requests per 5 minutes",
    "Upgrade for $20/month",
    "version 2.5 available in all regions",
    "Not available in your plan: 20 requests per 60 seconds",
    "API calls quota exceeded! maximum admitted 2 per 5m.",
    "Retry up to 5 times",
    "retry 3 times in 10 seconds",
    "retry within 30 seconds",
    "blocked after 5 requests in 10 seconds",
    "blocked for exceeding 100 requests per 60 seconds",
    "Your subscription renews in 12 days",
    "The window resets every 60 seconds",
    "The limit resets in 24h windows",
    "a 24 hour window",
    "Timeout after 30 seconds",
    "Timed out after waiting 30 seconds",
    "Waiting for 10.0.0.1: 7 seconds lagged",
    "The request took 30 seconds",
    "max wait 60s exceeded",
    "Maximum wait 30 seconds",
    "You waited 5 seconds",
    "The average wait is 20 seconds",
    "This link is available for 5 minutes",
    "token expires in 3600 seconds",
    "Session expires at 2026-03-01T13:00:00Z",
    "cache refreshed 5 minutes ago",
    "prices reset at $5",
    "Version 1.2.3 will be retired in 30 days",
    "Please retry with a smaller request: 5s audio",
    "Wait, 5 requests",
    "Please wait a moment",
    "Please wait a few minutes before you try again.",
    "try again later",
    "try again in a second",
    "try again tomorrow",
    "Wait an hour or so, then try again.",
    "Try again in a minute or two",
    "in 5 minutes you made 20 calls",
    "API v2 resets 5 counters",
    "allowed: 2000/minute",
    "Limited to 4/day",
    "Current limit: 2, Remaining: 0",
    "5 attempts left, 3 minutes used",
    "Please reset your password in 5 minutes",
    "You can send 5 messages in 30 seconds",
    "Closed, try again at 12:30:00",
    "Retry after 30",
    "see retry 2 minutes policy",
    "Requests are retried after 3 failures",
    "Not available until you upgrade",
    "concurrency limit 5 reached after 30 seconds",
    "The model was released on 2026-03-05T00:00:00Z",
    "limit of 5 minutes of audio per request, retry with less",
    "Do not retry for 5xx",
    "Request id 2026-03-05T00:00:00Z: retry",
    "wait < 5s",
    "rate limit is 60 requests per minute and resets each minute",
    "you have to wait between requests: 100 per 10 seconds",
    "Retry later. Window: 60 seconds",
    "retry, limit 5 per 60s",
    "Your limit will reset at 2026-03-01 20:35:41",
    "You will regain access on 2026-09-01 at 00:00 UTC.",
];

#[test]
fn sentences_that_state_a_wait() {
    for (message, millis) in SENTENCES {
        assert_eq!(of_message(message), Some(millis), "{message}");
    }
}

#[test]
fn sentences_that_state_something_else() {
    for message in NO_SENTENCES {
        assert_eq!(of_message(message), None, "{message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// In whatever member it stands, and with whatever of its kind beside it.
    #[test]
    fn no_text_of_the_must_not_list_ever_gives_a_wait(
        texts in prop::collection::vec(prop::sample::select(&NO_SENTENCES), 1..5),
        key in prop::sample::select(vec!["message", "error", "detail", "errorMessage", "reason", "title", "description"]),
        between in prop::sample::select(vec![" ", ". ", "; ", "\n", " - "]),
        upper in any::<bool>(),
    ) {
        let text = texts.join(if between == " " { ". " } else { between });
        let text = if upper { text.to_uppercase() } else { text };
        for body in [serde_json::json!({ key: text }), serde_json::json!({ "errors": [{ key: text }] }), serde_json::json!(text)] {
            let reading = read(429, &[], Some(&body.to_string()));
            prop_assert_eq!(wait(&reading), None, "{}", body);
        }
    }

    /// A wait is never shorter than the reset of a spent window, if nothing but windows states one.
    #[test]
    fn a_reading_never_wakes_before_the_longest_spent_window(
        windows in prop::collection::vec((0_u64..3, 0_u64..100_000), 1..5), listed in any::<bool>(), backwards in any::<bool>(),
    ) {
        let spent = windows.iter().filter(|(left, _)| *left == 0).map(|(_, reset)| u128::from(*reset) * 1_000).max();
        let mut fields: Vec<(String, String)> = Vec::new();
        if listed {
            let list = |of: fn(&(u64, u64)) -> u64| windows.iter().map(|w| of(w).to_string()).collect::<Vec<_>>().join(", ");
            fields.push(("x-ratelimit-remaining".into(), list(|w| w.0)));
            fields.push(("x-ratelimit-reset".into(), list(|w| w.1)));
        } else {
            for (at, (left, reset)) in windows.iter().enumerate() {
                fields.push((format!("x-ratelimit-remaining-tier{at}"), left.to_string()));
                fields.push((format!("x-ratelimit-reset-tier{at}"), reset.to_string()));
            }
        }
        if backwards {
            fields.reverse();
        }
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        if let Some(spent) = spent {
            prop_assert_eq!(of_headers(&fields), Some(spent));
        }
    }

    /// The order of a body's members, and that of the header fields, change nothing.
    #[test]
    fn no_order_of_fields_changes_a_reading(
        members in prop::collection::vec(prop::sample::select(vec![
            ("retry_after", "7"), ("retryAfterMs", "9000"), ("message", "\"try again in 5s\""), ("detail", "\"wait 8 seconds\""),
            ("resets_at", "1772366490"), ("code", "\"rate_limit_exceeded\""), ("reset_time", "\"2026-03-01T12:02:00Z\""),
            ("limit", "{\"remaining\":0,\"reset\":33}"), ("type", "\"tokens\""), ("next_access_time", "\"2026-03-01T12:00:12Z\""),
        ]), 1..7),
        fields in prop::collection::vec(prop::sample::select(vec![
            ("retry-after", "4"), ("x-ratelimit-remaining", "0, 3"), ("x-ratelimit-reset", "30, 90"), ("ratelimit", "\"a\";r=0;t=11"),
            ("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1m"), ("x-ratelimit-limit", "5, 50"),
            ("x-ratelimit-policy", "5;w=60, 50;w=600"), ("x-retry-in", "2s"),
        ]), 0..6),
    ) {
        let mut members = members;
        members.sort_unstable();
        members.dedup_by_key(|member| member.0);
        let mut fields = fields;
        fields.sort_unstable();
        fields.dedup();
        let body = |members: &mut dyn Iterator<Item = &(&str, &str)>| {
            let members: Vec<_> = members.map(|(key, value)| format!("{key:?}:{value}")).collect();
            format!("{{{}}}", members.join(","))
        };
        let forth = read(429, &fields, Some(&body(&mut members.iter())));
        fields.reverse();
        let back = read(429, &fields, Some(&body(&mut members.iter().rev())));
        prop_assert_eq!(forth.hint(), back.hint());
        prop_assert_eq!(forth.exhausted(), back.exhausted());
        prop_assert_eq!(forth.terminal(), back.terminal());
    }
}

#[test]
fn members_of_a_body_are_matched_by_their_words() {
    for (body, millis) in [
        (r#"{"estimated_time":20.0}"#, 20_000),
        (r#"{"error_extra":{"retry_after":66}}"#, 66_000),
        (r#"{"ThrottleSeconds":7}"#, 7_000),
        (r#"{"nextAccessTime":"2026-Mar-01 12:00:30+0000 UTC"}"#, 30_000),
        (r#"{"timeToReset":15}"#, 15_000),
        (r#"{"backOffMilliseconds":178510}"#, 178_510),
        (r#"{"retryAfterSec":3600}"#, 3_600_000),
        (r#"{"retry_after_minutes":2}"#, 120_000),
        (r#"{"retryafterms":70}"#, 70),
        (r#"{"msBeforeNext":700}"#, 700),
        (r#"{"secondsUntilReset":12}"#, 12_000),
        (r#"{"deep":{"er":{"waitTime":5}}}"#, 5_000),
        (r#"{"blockedUntil":"2026-03-01T12:01:00Z"}"#, 60_000),
        (r#"{"available_in":7}"#, 7_000),
        (r#"{"try_again_in":8}"#, 8_000),
        (r#"{"backoff":10}"#, 10_000),
        (r#"{"retry_after":"30 seconds"}"#, 30_000),
        (
            r#"[{"errors":[{"meta":{"rate_limit":{"max":4},"reset_time":"2026/03/01 13:00:00 +0000"}}]}]"#,
            3_600_000,
        ),
        (r#""{\"retryAfter\":3}""#, 3_000),
    ] {
        assert_eq!(wait(&read(429, &[], Some(body))), Some(millis), "{body}");
    }
    for key in [
        "max_retries",
        "retry_count",
        "retryAttempts",
        "timeout",
        "request_timeout_seconds",
        "time",
        "timestamp",
        "created_at",
        "expires_in",
        "window",
        "limit",
        "interval",
        "max_wait_time",
        "retry_limit",
        "reset_token",
        "password_reset_at",
        "duration",
        "status",
        "code",
        "remaining",
        "used",
        "retry",
        "period_seconds",
        "wait_timeout",
        "reset",
        "id",
        "estimated_cost",
        "next_page",
        "available",
        "blocked",
        "delay",
        "request_time",
        "retry_url",
        "processing_time_ms",
        "server_time",
    ] {
        let body = format!("{{{key:?}:1772366420}}");
        assert_eq!(wait(&read(429, &[], Some(&body))), None, "{body}");
        let body = format!("{{{key:?}:5}}");
        assert_eq!(wait(&read(429, &[], Some(&body))), None, "{body}");
    }
}

#[test]
fn an_xml_fault_is_read_by_its_elements() {
    let fault = r#"<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please try again in 5 seconds.</Message></Error>"#;
    assert_eq!(wait(&read(503, &[], Some(fault))), Some(5_000));
    let soap = r#"<s:Envelope xmlns:s="x"><s:Body><s:Fault><detail><t:Value Name="BackOffMilliseconds">1500</t:Value></detail></s:Fault></s:Body></s:Envelope>"#;
    assert_eq!(wait(&read(429, &[], Some(soap))), Some(1_500));
    for page in [
        "<html><body>Try again in 30 seconds</body></html>",
        "<!DOCTYPE html><p>retry after 30s</p>",
        "<a",
        "<a>",
        "<>5<",
    ] {
        assert_eq!(wait(&read(429, &[], Some(page))), None, "{page}");
    }
}

#[test]
fn statuses_that_refuse_with_an_explicit_wait_or_a_spent_counter() {
    let spent: [(&str, &str); 2] = [("x-esi-error-limit-remain", "0"), ("x-esi-error-limit-reset", "38")];
    for status in [403, 420, 498, 509] {
        let with_wait = read(status, &[("retry-after", "60")], None);
        assert_eq!((with_wait.is_throttled(), wait(&with_wait)), (true, Some(60_000)), "{status}");
        let counter = read(status, &spent, None);
        assert_eq!((counter.is_throttled(), wait(&counter)), (true, Some(38_000)), "{status}");
        let left =
            read(status, &[("x-esi-error-limit-remain", "4"), ("x-esi-error-limit-reset", "38")], None);
        assert!(!left.is_throttled() && left.hint().is_none(), "{status}");
        assert!(!read(status, &[], Some(r#"{"message":"Forbidden"}"#)).is_throttled(), "{status}");
    }
    for status in [200, 404, 418, 500] {
        assert!(!read(status, &[("retry-after", "60")], None).is_throttled(), "{status}");
    }
    let large = read(413, &[("retry-after", "9")], None);
    assert_eq!((large.terminal(), wait(&large)), (None, Some(9_000)));
    let bill = read(402, &[("retry-after", "9")], None);
    assert_eq!(
        (bill.terminal(), wait(&bill)),
        (Some(Terminal::QuotaExhausted), Some(9_000)),
        "keeps its moment"
    );
}

#[test]
fn a_secondary_limit_never_waits_for_a_window_that_is_not_spent() {
    let github = Profile::named("github");
    let body = Some(r#"{"message":"You have exceeded a secondary rate limit. Please wait a few minutes."}"#);
    let left = read_with(
        github,
        403,
        &[("x-ratelimit-remaining", "4000"), ("x-ratelimit-reset", "1772368800")],
        body,
    );
    assert_eq!((wait(&left), left.backoff_floor()), (None, Some(Duration::from_secs(60))));
    let spent =
        read_with(github, 403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1772368800")], body);
    assert_eq!(wait(&spent), Some(2_400_000));
    let unstated = read_with(github, 403, &[("x-ratelimit-reset", "1772366460")], body);
    assert_eq!(wait(&unstated), Some(60_000));
}

#[test]
fn a_quotas_code_beside_a_short_wait_is_a_throttle() {
    let azure = Profile::named("azure-openai");
    let body =
        Some(r#"{"error":{"code":"insufficient_quota","message":"You exceeded your current quota."}}"#);
    for (retry_after, terminal) in [("6", false), ("60", false), ("61", true)] {
        let reading = read_with(azure, 429, &[("retry-after", retry_after)], body);
        assert_eq!(reading.terminal().is_some(), terminal, "{retry_after}");
    }
    assert!(read_with(azure, 429, &[], body).terminal().is_some());
    assert!(read(429, &[("retry-after", "6")], body).terminal().is_some(), "elsewhere it means what it says");
}

#[test]
fn a_plan_that_is_used_up_without_a_time_spills() {
    for (message, terminal) in [
        ("Daily API request limit exceeded. Please try again tomorrow.", true),
        ("Monthly limit reached, resets next month", true),
        ("You have used up your monthly quota. Please upgrade your plan.", true),
        ("Please try again tomorrow, or in 2 hours: try again in 2 hours", false),
        ("You are limited to 20 API calls / minute. Please upgrade.", false),
        ("Rate limit exceeded, upgrade for more", false),
        ("Minutely API request limit exceeded. Please try again in one minute.", false),
        ("You have reached your monthly limit.", true),
        ("100 requests over a 24 hour period are allowed, quota exceeded", true),
        ("You have reached your monthly limit. Try again in 20 days", false),
        ("Daily limit reached? No: 60 requests per minute exceeded", false),
        ("See your daily usage in the dashboard", false),
    ] {
        let reading = read(429, &[], Some(&serde_json::json!({ "reason": message }).to_string()));
        assert_eq!(reading.terminal() == Some(Terminal::QuotaExhausted), terminal, "{message}");
    }
}

#[test]
fn a_profile_may_declare_a_refusal_inside_of_a_200() {
    let shopify = &Profile::builder("my-shop").refusal_code_in_success("THROTTLED").build().unwrap();
    let throttled = |requested: u32, available: u32| {
        format!(
            r#"{{"errors":[{{"message":"Throttled","extensions":{{"code":"THROTTLED"}}}}],"extensions":{{"cost":{{
            "requestedQueryCost":{requested},"actualQueryCost":null,"throttleStatus":{{"maximumAvailable":1000.0,
            "currentlyAvailable":{available},"restoreRate":50.0}}}}}}}}"#
        )
    };
    let reading = read_with(shopify, 200, &[], Some(&throttled(752, 2)));
    assert_eq!((reading.is_throttled(), wait(&reading)), (true, Some(15_000)));
    let larger = read_with(shopify, 200, &[], Some(&throttled(1_500, 2)));
    assert_eq!(larger.terminal(), Some(Terminal::RequestTooLarge));
    let passed = read_with(shopify, 200, &[], Some(&throttled(752, 2).replace("THROTTLED", "OTHER")));
    assert!(!passed.is_throttled() && passed.hint().is_none());
    assert!(!read(200, &[], Some(&throttled(752, 2))).is_throttled(), "no other profile looks");

    let exchange = Profile::builder("my-exchange").refusal_code_in_success("10006").build().unwrap();
    let spent: [(&str, &str); 2] =
        [("x-bapi-limit-status", "0"), ("x-bapi-limit-reset-timestamp", "1772366401500")];
    let reading = read_with(&exchange, 200, &spent, Some(r#"{"retCode":10006,"retMsg":"Too many visits."}"#));
    assert_eq!((reading.is_throttled(), wait(&reading)), (true, Some(1_500)));
    assert!(!read_with(&exchange, 200, &spent, Some(r#"{"retCode":0,"retMsg":"OK"}"#)).is_throttled());
}

/// The servers that were recorded: what each refusal says, and that a success never says a wait.
#[test]
fn recorded_servers_are_read() {
    #[derive(serde::Deserialize)]
    struct Recorded {
        server: String,
        config: String,
        kind: String,
        status: u16,
        headers: Vec<(String, String)>,
        body: String,
    }
    let expected = |server: &str, config: &str| -> Option<u128> {
        Some(match (server, config) {
            ("express-rate-limit", "none5") | ("haproxy" | "nginx", _) => return None,
            ("litellm-proxy", config) if config.starts_with("deployment") => return None,
            ("litellm-proxy", _) => 60_000,
            ("express-rate-limit", "d8_60") => 59_000,
            ("express-rate-limit", "legacy60" | "d6_60")
            | ("flask-limiter", "f60-moving")
            | ("drf", "j60") => 58_000,
            ("rate-limiter-flexible", "rlf1-epoch") => 875,
            ("rate-limiter-flexible", _) => 874,
            // Whole seconds beside an epoch to the fraction: the latter cannot have been rounded down.
            ("slowapi", "s5-moving") => 5_773,
            ("slowapi", _) => 2_595,
            ("koa-ratelimit", _) => 4_677,
            ("flask-limiter", _) => 4_000,
            ("fastify", "f1") | ("fastapi-limiter-0.1.6-redis", "r1") => 1_000,
            ("tower_governor", _) => 0,
            _ => 5_000,
        })
    };
    let mut count = 0;
    for line in include_str!("data/real-servers.jsonl").lines() {
        let recorded: Recorded = serde_json::from_str(line).unwrap();
        let fields: Vec<_> =
            recorded.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let reading = read(recorded.status, &fields, Some(&recorded.body));
        let of = format!("{} {} {}", recorded.server, recorded.config, recorded.kind);
        if recorded.kind == "success" {
            assert!(!reading.is_throttled() && reading.hint().is_none(), "{of}");
        } else {
            assert_eq!(wait(&reading), expected(&recorded.server, &recorded.config), "{of}");
            assert_eq!(reading.terminal(), None, "{of}");
        }
        if recorded.server == "tower_governor" && recorded.kind == "success" {
            let limit = reading.limits()[0];
            assert_eq!((limit.window, limit.reset), (None, None), "no window is made up");
        }
        if recorded.config.contains("max_parallel_requests") {
            let counts_calls_in_flight = reading.exhausted().contains(QuotaUnit::Concurrency)
                || reading.limits().iter().any(|limit| limit.unit == QuotaUnit::Concurrency);
            assert!(counts_calls_in_flight, "{of}");
        }
        if recorded.config == "d7_5" || recorded.config == "d6_5" {
            assert_eq!(reading.limits()[0].window, Some(Duration::from_secs(5)), "{of}: the policy's window");
        }
        if recorded.config.contains("JS Date") {
            assert!(reading.limits()[0].reset.is_some(), "{of}: the reset is a date as JavaScript prints it");
        }
        if recorded.config.starts_with("sk-tpm1") && recorded.kind == "refusal" {
            assert!(reading.exhausted().contains(QuotaUnit::Tokens), "{of}");
        }
        count += 1;
    }
    assert_eq!(count, 63);
}

/// The profile of the guide "A server that says things in its own way".
fn gateway() -> &'static str {
    let guide = include_str!("../src/guide/own_gateway.md");
    guide.split_once("```toml").unwrap().1.split_once("```").unwrap().0
}

#[test]
fn a_users_profile_says_the_same_from_a_file_and_from_the_builder() {
    let file: Profile = toml::from_str(gateway()).unwrap();
    let built = Profile::builder("my-gateway")
        .host("gateway.example.com")
        .refusal_status(402)
        .refusal_status(452)
        .refusal_code_in_success("E_BUSY")
        .wait_header("X-Backoff", TimeUnit::Milliseconds)
        .wait_member("data.pause", TimeUnit::Minutes)
        .final_code("plan_used_up")
        .passing_phrase("short burst")
        .exhausts("E_TOKENS", QuotaUnit::Tokens)
        .counted_by(CountedBy::Model)
        .utc_offset("+08:00")
        .backoff_floor(Duration::from_secs(10))
        .build()
        .unwrap();
    for gateway in [&file, &built] {
        let read = |status, fields: &[(&str, &str)], body| read_with(gateway, status, fields, body);
        assert_eq!(wait(&read(452, &[("x-backoff", "1500")], None)), Some(1_500));
        assert_eq!(
            wait(&read(452, &[("x-backoff", "1500"), ("retry-after", "9")], None)),
            Some(1_500),
            "it outranks"
        );
        assert_eq!(wait(&read(429, &[], Some(r#"{"data":{"pause":2}}"#))), Some(120_000));
        assert_eq!(wait(&read(402, &[("retry-after", "9")], None)), Some(9_000));
        assert_eq!(read(402, &[("retry-after", "9")], None).terminal(), None, "a refusal, not a bill");
        assert!(!read(452, &[], None).is_throttled(), "without evidence a status means what it means");
        assert!(read(200, &[], Some(r#"{"code":"E_BUSY"}"#)).is_throttled());
        let used_up = Some(r#"{"code":"plan_used_up"}"#);
        assert_eq!(read(429, &[], used_up).terminal(), Some(Terminal::QuotaExhausted));
        let burst = Some(r#"{"code":"plan_used_up","message":"Short burst limit"}"#);
        assert_eq!(read(429, &[], burst).terminal(), None);
        assert!(read(429, &[], Some(r#"{"code":"E_TOKENS"}"#)).exhausted().contains(QuotaUnit::Tokens));
        let local = Some(r#"{"message":"Your limit will reset at 2026-03-01 20:00:30"}"#);
        assert_eq!(wait(&read(429, &[], local)), Some(30_000));
        assert_eq!(read(429, &[], None).backoff_floor(), Some(Duration::from_secs(10)));
    }
}

#[test]
fn a_users_function_has_the_last_word() {
    let gateway = Profile::builder("my-gateway")
        .refusal_status(503)
        .adjust(|status, headers, body, reading| {
            match headers.get("x-queue").and_then(|depth| depth.to_str().ok()) {
                Some(depth) if status == StatusCode::SERVICE_UNAVAILABLE && body.is_some() => {
                    let wait = Duration::from_millis(100 * depth.parse::<u64>().unwrap_or(0));
                    reading
                        .with_wait(wait, HintSource::Body("queue".into()))
                        .with_exhausted(QuotaUnit::Concurrency)
                }
                _ => reading.refused(false).with_terminal(None),
            }
        })
        .build()
        .unwrap();
    let reading = read_with(&gateway, 503, &[("x-queue", "7")], Some("busy"));
    assert_eq!(wait(&reading), Some(700));
    assert!(reading.exhausted().contains(QuotaUnit::Concurrency));
    assert!(!read_with(&gateway, 429, &[("retry-after", "7")], Some("")).is_throttled());
    let broken = Profile::builder("broken").adjust(|_, _, _, _| panic!("the user's own")).build().unwrap();
    assert_eq!(
        wait(&read_with(&broken, 429, &[("retry-after", "7")], None)),
        Some(7_000),
        "what was read holds"
    );
}

#[test]
fn a_profile_that_can_match_nothing_is_an_error_that_names_it() {
    for (file, field) in [
        ("name = \"\"", "name"),
        ("name = \"My Gateway\"", "name"),
        ("name = \"x\"\nhosts = [\"https://x.example\"]", "hosts"),
        ("name = \"x\"\nhosts = [\"*.example\"]", "hosts"),
        ("name = \"x\"\nrefusal_statuses = [200]", "refusal_statuses"),
        ("name = \"x\"\nrefusal_statuses = [1000]", "refusal_statuses"),
        ("name = \"x\"\nwait_headers = [[\"x y\", \"seconds\"]]", "wait_headers"),
        ("name = \"x\"\nwait_headers = [[\"x-y\", \"fortnights\"]]", "fortnights"),
        ("name = \"x\"\nwait_members = [[\"\", \"seconds\"]]", "wait_members"),
        ("name = \"x\"\nfinal_codes = [\"--\"]", "final_codes"),
        ("name = \"x\"\nfinal_codes = [\"*\"]", "final_codes"),
        ("name = \"x\"\nfinal_phrases = [\" \"]", "final_phrases"),
        ("name = \"x\"\nutc_offset = \"CET\"", "utc_offset"),
        ("name = \"x\"\nutc_offset = \"+25:00\"", "utc_offset"),
        ("name = \"x\"\nretry_header = \"x\"", "retry_header"),
    ] {
        let error = toml::from_str::<Profile>(file).unwrap_err().to_string();
        assert!(error.contains(field), "{file}: {error}");
    }
    let error = Profile::builder("x").refusal_status(204).build().unwrap_err().to_string();
    assert!(
        error.contains("refusal_statuses") && error.contains("204") && error.contains("400 to 599"),
        "{error}"
    );
}
