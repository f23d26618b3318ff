//! Properties of reading: any bytes are read without a panic and within bounds; valid values come out exactly.
#![cfg(test)]

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use reqwest_admission::reading::{Hint, Profile, Reading};

/// How much of a body is looked at.
const MAX_BODY: usize = 64 * 1024;

const NAMES: [&str; 49] = [
    "retry-after",
    "retry-after-ms",
    "x-ms-retry-after-ms",
    "x-ratelimit-retry-after",
    "x-ratelimit-timeremaining",
    "x-should-retry",
    "date",
    "age",
    "ratelimit",
    "ratelimit-policy",
    "beta-ratelimit",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "ratelimit-resettime",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-reset-after",
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
    "x-ratelimit-renewalperiod-requests",
    "x-ratelimit-remaining-tokens-minute",
    "x-ratelimit-reset-req-10-second",
    "anthropic-ratelimit-unified-5h-status",
    "anthropic-ratelimit-unified-5h-reset",
    "anthropic-ratelimit-unified-7d-utilization",
    "x-hubspot-ratelimit-interval-milliseconds",
    "x-hubspot-ratelimit-remaining",
    "x-hubspot-ratelimit-daily-remaining",
    "zendesk-ratelimit-tickets-index",
    "x-shopify-shop-api-call-limit",
    "sforce-limit-info",
    "x-amzn-errortype",
    "x-ratelimit-type",
    "x-amz-retry-after",
    "x-retry-in",
    "x-contentful-ratelimit-reset",
    "x-contentful-ratelimit-second-remaining",
    "x-ratelimit-userremaining",
    "x-ratelimit-userreset",
    "x-rate-limit-requests-left",
    "x-rate-limit-time-reset-ms",
    "x-items-remaining",
    "x-request-id",
    "x-ms-spillover-from-deployment",
    "x-ms-spillover-error",
    "content-type",
];

const VALUES: [&str; 36] = [
    "0",
    "-1",
    "-3",
    "1",
    "42",
    "1.5",
    "1e3",
    "",
    " ",
    "null",
    "18446744073709551616",
    "99999999999999999999999999999999999999999",
    "1700000000",
    "1700000000000",
    "6m0s",
    "500µs",
    "1m26",
    "PT1M",
    "P9999999999999Y",
    "00:00:00.033",
    "2023-11-14T22:13:20Z",
    "2024-03-01T12:00Z",
    "9999-12-31T23:59:60+23:59",
    "Mon, 03 Jun 2019 11:30:12 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Mon Jun  3 11:30:12 2019",
    "Sat, 31 Dec 9999 23:59:60 -2359",
    "\"api\";r=0;t=55",
    "limit=10, remaining=0, reset=5",
    "10, 10;w=1, 50;w=60",
    "100;w=18446744073709551615",
    "total=100; remaining=0; resets=27",
    "15000/15000",
    "rejected",
    "false",
    ",,,,,,,,,,,,,,",
];

fn name() -> impl Strategy<Value = HeaderName> {
    prop_oneof![
        8 => prop::sample::select(&NAMES).prop_map(HeaderName::from_static),
        1 => "(x-)?(rate-?limit|limit|remaining|reset|[a-z0-9]{1,8})(-(limit|remaining|reset|requests|day|10|second|_)){0,9}"
            .prop_filter_map("a header name", |name| HeaderName::try_from(name).ok()),
    ]
}

fn value() -> impl Strategy<Value = HeaderValue> {
    let bytes = prop_oneof![
        4 => prop::sample::select(&VALUES).prop_map(|value| value.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => "[0-9.,;:=hmsµPTZGMT +-]{0,60}".prop_map(String::into_bytes),
        1 => (prop::sample::select(&VALUES), prop::sample::select(&VALUES))
            .prop_map(|(one, other)| format!("{one}, {other}").into_bytes()),
    ];
    bytes.prop_filter_map("a header value", |bytes| HeaderValue::from_bytes(&bytes).ok())
}

fn headers() -> impl Strategy<Value = HeaderMap> {
    prop::collection::vec((name(), value()), 0..24).prop_map(|fields| {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value);
        }
        headers
    })
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        prop::sample::select(&VALUES).prop_map(serde_json::Value::from),
        "(Please )?(try again|retry|wait|reset|available|banned) (in|after|at|until) ['~]?[0-9.:]{0,30}'? ?(s|ms|m|hours|seconds|GMT)?"
            .prop_map(Into::into),
        any::<String>().prop_map(serde_json::Value::from),
    ];
    let keys = [
        "error",
        "errors",
        "message",
        "detail",
        "details",
        "code",
        "type",
        "retry_after",
        "retryAfterMs",
        "retryDelay",
        "metadata",
        "headers",
        "limit",
        "remaining",
        "reset",
        "resetMs",
        "quotaId",
        "quota_limit",
        "__type",
        "meta",
        "backoff_seconds",
        "violations",
        "violated-policies",
        "X-RateLimit-Reset",
        "Retry-After",
        "extensions",
        "seconds",
        "nanos",
        "quotaResetTimeStamp",
        "reason",
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            prop::collection::vec((prop::sample::select(keys.to_vec()), inner.clone()), 0..6).prop_map(
                |members| {
                    members
                        .into_iter()
                        .map(|(key, value)| (key.to_owned(), value))
                        .collect::<serde_json::Map<_, _>>()
                        .into()
                }
            ),
            inner.prop_map(|inner| serde_json::Value::from(inner.to_string())),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => json().prop_map(|json| json.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..200),
        1 => (json(), any::<prop::sample::Index>()).prop_map(|(json, cut)| {
            let mut bytes = json.to_string().into_bytes();
            bytes.truncate(cut.index(bytes.len() + 1));
            bytes
        }),
    ]
}

fn status() -> impl Strategy<Value = StatusCode> {
    prop::sample::select(&[200_u16, 202, 301, 400, 402, 403, 404, 413, 429, 429, 429, 500, 503, 529])
        .prop_map(|status| StatusCode::from_u16(status).unwrap())
}

fn profile() -> impl Strategy<Value = &'static Profile> {
    let names = [
        "standard",
        "azure-openai",
        "gemini",
        "github",
        "discord",
        "hubspot",
        "prisjakt",
        "okta",
        "atlassian",
        "linear",
        "aws-bedrock",
        "azure-apim",
        "binance",
        "dashscope",
        "openai",
        "salesforce",
    ];
    prop::sample::select(names.to_vec()).prop_map(Profile::named)
}

/// Any moment that a clock may show, broken ones included.
fn moment() -> impl Strategy<Value = SystemTime> {
    prop_oneof![
        4 => (0_u64..4_102_444_800_000).prop_map(Duration::from_millis),
        1 => (0_u64..300_000_000_000).prop_map(Duration::from_secs),
    ]
    .prop_flat_map(|since| {
        prop_oneof![
            9 => Just(SystemTime::UNIX_EPOCH + since),
            1 => Just(SystemTime::UNIX_EPOCH - since),
        ]
    })
}

fn read_429(fields: &[(&'static str, String)], received_at: SystemTime) -> Reading {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    Reading::from_parts(StatusCode::TOO_MANY_REQUESTS, &headers, None, received_at)
}

fn wait_ms(reading: &Reading) -> Option<u128> {
    reading.hint().map(|hint| hint.wait().as_millis())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_within_bounds(
        profile in profile(), status in status(), headers in headers(), body in prop::option::of(body()), at in moment(),
    ) {
        let reading = Reading::with_profile(profile, status, &headers, body.as_deref(), at);
        if let Some(hint) = reading.hint() {
            prop_assert!(reading.is_throttled());
            prop_assert!(hint.wait() <= Hint::LONGEST_WAIT);
            prop_assert_eq!(hint.wait().subsec_nanos() % 1_000_000, 0);
            prop_assert!(hint.source().to_string().len() <= 1024);
        }
        if status.is_success() || status.is_redirection() || status == StatusCode::NOT_FOUND {
            prop_assert!(!reading.is_throttled() && reading.hint().is_none() && reading.terminal().is_none());
        }
        prop_assert!(reading.request_id().is_none_or(|id| id.len() <= 128 && id.is_ascii()));
        let debug = format!("{reading:?}");
        prop_assert!(debug.len() < 8 * 1024, "{} bytes", debug.len());
        for limit in reading.limits() {
            prop_assert!(limit.reset.is_none_or(|reset| reset <= Hint::LONGEST_WAIT));
        }
    }

    #[test]
    fn delay_seconds_come_out_exactly(seconds in 0_u64..=31_622_400, millis in 0_u64..1000) {
        let at = SystemTime::UNIX_EPOCH;
        prop_assert_eq!(wait_ms(&read_429(&[("retry-after", seconds.to_string())], at)), Some(u128::from(seconds) * 1000));
        let ms = u128::from(seconds) * 1000;
        prop_assert_eq!(wait_ms(&read_429(&[("retry-after-ms", ms.to_string())], at)), Some(ms));
        if seconds < 31_622_400 {
            let fraction = format!("{seconds}.{millis:03}");
            prop_assert_eq!(wait_ms(&read_429(&[("retry-after", fraction)], at)), Some(ms + u128::from(millis)));
        }
    }

    #[test]
    fn go_durations_come_out_exactly(hours in 0_u64..8000, minutes in 0_u64..60, seconds in 0_u64..60, millis in 0_u64..1000) {
        let text = format!("{hours}h{minutes}m{seconds}.{millis:03}s");
        let ms = ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis;
        let reading = read_429(&[("x-ratelimit-reset-tokens", text)], SystemTime::UNIX_EPOCH);
        prop_assert_eq!(wait_ms(&reading), Some(u128::from(ms)));
    }

    #[test]
    fn epochs_of_every_magnitude_come_out_exactly(now in 1_000_000_000_u64..4_000_000_000, ahead_ms in 0_u64..100_000_000) {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
        let ms = now * 1000 + ahead_ms;
        let whole_second = u128::from(ahead_ms / 1000 * 1000);
        for (text, wait) in [
            ((ms / 1000).to_string(), whole_second),
            (ms.to_string(), u128::from(ahead_ms)),
            (format!("{ms}000"), u128::from(ahead_ms)),
            (format!("{ms}000000"), u128::from(ahead_ms)),
        ] {
            prop_assert_eq!(wait_ms(&read_429(&[("x-ratelimit-reset", text.clone())], at)), Some(wait), "{}", text);
        }
    }

    #[test]
    fn dates_are_measured_against_the_servers_clock(
        server in 1_000_000_000_u64..4_000_000_000, ours in 1_000_000_000_u64..4_000_000_000, ahead in 0_u64..100_000_000,
    ) {
        let date = |seconds| httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let fields = [("retry-after", date(server + ahead)), ("date", date(server))];
        let reading = read_429(&fields, SystemTime::UNIX_EPOCH + Duration::from_secs(ours));
        prop_assert_eq!(wait_ms(&reading), Some(u128::from(ahead) * 1000));
    }

    #[test]
    fn the_order_of_lines_does_not_matter(fields in prop::collection::vec((name(), value()), 0..10)) {
        // Equal names keep their order among themselves, as HTTP has it; all fields here are read by all their lines.
        let collect = |fields: &mut dyn Iterator<Item = &(HeaderName, HeaderValue)>| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.insert(name.clone(), value.clone());
            }
            headers
        };
        let mut once = fields;
        once.sort_by(|one, other| one.0.as_str().cmp(other.0.as_str()));
        once.dedup_by(|one, other| one.0 == other.0);
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let read = |headers: &HeaderMap| Reading::from_parts(StatusCode::TOO_MANY_REQUESTS, headers, None, at);
        let (forth, back) = (read(&collect(&mut once.iter())), read(&collect(&mut once.iter().rev())));
        prop_assert_eq!(wait_ms(&forth), wait_ms(&back));
        prop_assert_eq!(forth.exhausted(), back.exhausted());
        prop_assert_eq!(forth.terminal(), back.terminal());
    }
}

#[test]
fn large_input_is_read_in_bounded_time() {
    let mut headers = HeaderMap::new();
    for part in ["1,", "\"a\";r=1, ", "Mon, ", "a=b;", "1;w=1,", "1h", "x "] {
        for name in
            ["retry-after", "ratelimit", "ratelimit-policy", "x-ratelimit-remaining", "x-ratelimit-reset"]
        {
            for _ in 0..8 {
                headers.append(name, HeaderValue::from_str(&part.repeat(16 * 1024 / part.len())).unwrap());
            }
        }
    }
    let bodies = [
        "[".repeat(MAX_BODY),
        format!("[{}]", "{},".repeat(MAX_BODY / 3 - 1)),
        serde_json::json!({ "error": { "message": "{".repeat(MAX_BODY - 64) } }).to_string(),
        serde_json::json!({ "error": { "message": "wait 1 wait in ".repeat(4000) } }).to_string(),
        serde_json::json!({ "error": { "message": "1s ".repeat(20_000) } }).to_string(),
        format!("{{{}\"a\":1}}", "\"retry_after\":1,".repeat(4000)),
        "x".repeat(4 * MAX_BODY),
    ];
    for body in bodies {
        let start = std::time::Instant::now();
        let at = SystemTime::UNIX_EPOCH;
        let _ = Reading::from_parts(StatusCode::TOO_MANY_REQUESTS, &headers, Some(body.as_bytes()), at);
        assert!(start.elapsed() < Duration::from_secs(2), "{} …", body.get(..20).unwrap_or_default());
    }
}
