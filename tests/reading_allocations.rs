//! Reading the headers of a success allocates nothing, whichever of the usual families they are of.
#![cfg(test)]

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest_admission::Reading;
use reqwest_admission::reading::Profile;

const SUCCESSES: [(&str, &[(&str, &str)]); 7] = [
    ("standard", &[("ratelimit-limit", "100;w=21600"), ("ratelimit-remaining", "99;w=21600")]),
    (
        "openai",
        &[
            ("date", "Sun, 01 Mar 2026 12:00:00 GMT"),
            ("content-type", "application/json"),
            ("x-ratelimit-limit-requests", "10000"),
            ("x-ratelimit-limit-tokens", "200000"),
            ("x-ratelimit-remaining-requests", "9999"),
            ("x-ratelimit-remaining-tokens", "199703"),
            ("x-ratelimit-reset-requests", "8.64s"),
            ("x-ratelimit-reset-tokens", "1m26.4s"),
            ("x-request-id", "req_0123456789abcdef01234567"),
        ],
    ),
    (
        "anthropic",
        &[
            ("date", "Sun, 01 Mar 2026 12:00:00 GMT"),
            ("anthropic-ratelimit-requests-limit", "4000"),
            ("anthropic-ratelimit-requests-remaining", "3999"),
            ("anthropic-ratelimit-requests-reset", "2026-03-01T12:00:01Z"),
            ("anthropic-ratelimit-input-tokens-limit", "400000"),
            ("anthropic-ratelimit-input-tokens-remaining", "399000"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-03-01T12:00:01Z"),
            ("anthropic-ratelimit-unified-5h-utilization", "0.4"),
            ("request-id", "req_0123456789abcdef01234567"),
        ],
    ),
    (
        "github",
        &[
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", "4987"),
            ("x-ratelimit-reset", "1772366460"),
            ("x-ratelimit-used", "13"),
            ("x-ratelimit-resource", "core"),
            ("x-github-request-id", "ABCD:1234:5678:9ABC:665DA0FC"),
        ],
    ),
    (
        "standard",
        &[
            ("ratelimit-policy", "\"default\";q=100;w=60, \"day\";q=5000;w=86400"),
            ("ratelimit", "\"default\";r=50;t=30"),
        ],
    ),
    (
        "standard",
        &[
            ("ratelimit-policy", "100;w=60"),
            ("ratelimit-limit", "100"),
            ("ratelimit-remaining", "99"),
            ("ratelimit-reset", "30"),
            ("ratelimit", "limit=100, remaining=99, reset=5"),
        ],
    ),
    (
        "standard",
        &[
            ("x-ratelimit-limit", "1, 15000"),
            ("x-ratelimit-policy", "1;w=1, 15000;w=2592000"),
            ("x-ratelimit-remaining", "1, 14523"),
            ("x-ratelimit-reset", "1, 1419704"),
        ],
    ),
];

#[test]
fn the_headers_of_a_success_are_read_without_an_allocation() {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_772_366_400);
    for (profile, fields) in SUCCESSES {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let profile = Profile::named(profile);
        let read = || Reading::with_profile(profile, StatusCode::OK, &headers, None, at);
        // The tables are made once.
        assert!(!read().limits().is_empty());
        let counted = allocation_counter::measure(|| {
            let _ = read();
        });
        assert_eq!(counted.count_total, 0, "{fields:?}");
    }
}
