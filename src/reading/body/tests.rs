use super::*;
use std::time::SystemTime;

use http::HeaderMap;

use super::super::hint::Hint;
use super::super::profile::Profile;

fn read(profile: &str, body: &str) -> Body {
    let headers = HeaderMap::new();
    let now = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(1_767_225_600)).unwrap();
    let rules = Profile::named(profile).rules();
    Body::read(rules, body.as_bytes(), &Clock::new(&headers, now, rules.utc_offset), false)
}

fn advice(body: &str) -> Option<(u128, String)> {
    read("standard", body).advice.map(|advice| (advice.advice.wait.as_millis(), advice.path))
}

#[track_caller]
fn states(body: &str, wait: u128, path: &str) {
    assert_eq!(advice(body), Some((wait, path.to_owned())), "{body}");
}

#[test]
fn sentences() {
    for (sentence, wait) in [
        ("Please try again in 7m12s. Visit x", Some(432_000)),
        ("Please retry in 900.2ms.", Some(901)),
        ("Please retry after 33 seconds. Please go here", Some(33_000)),
        ("Please retry after 2 hours.", Some(7_200_000)),
        (
            "Rate limit of 150 per 86400s exceeded. Please wait 42567 seconds before retrying.",
            Some(42_567_000),
        ),
        ("Wait 20 seconds, then slow down!", Some(20_000)),
        ("Your quota will reset after 18h31m10s.", Some(66_670_000)),
        ("Try again in 1 minute and 5 seconds", Some(65_000)),
        ("Please try again after Thu, 01 Jan 2026 00:10:00 GMT or email help", Some(600_000)),
        ("Retry at 2026-01-01T00:01:00Z.", Some(60_000)),
        ("Please wait a few minutes before you try again.", None),
        ("please retry shortly", None),
        ("Please try again later", None),
        ("limited to 20 API calls / minute", None),
        ("try again in 99999999999999999999s", Some(Hint::LONGEST_WAIT.as_millis())),
        ("You will regain access on 2026-09-01 at 00:00 UTC.", None),
        ("retry after 30", None),
        ("Request was throttled. Expected available in 831.0 seconds.", Some(831_000)),
        ("Please try again after '6' seconds.", Some(6_000)),
        ("Your rate limit resets in ~7s.", Some(7_000)),
        ("For security purposes, you can only request this after 42 seconds.", Some(42_000)),
        ("Quota will be replenished in 00:30:02.", Some(1_802_000)),
        ("Quota will be replenished in 5.03:23:11.", Some(444_191_000)),
        ("Quota will be replenished in 2.12 days.", Some(183_168_000)),
        ("Way too many requests; IP banned until 1767225660000. Please use", Some(60_000)),
        ("Retry after 1767225660", Some(60_000)),
        ("Not available in your plan: 20 requests per 60 seconds", None),
        ("Closed, try again at 12:30:00", None),
        ("retry after 00:30:00", None),
        ("banned until tomorrow", None),
        ("banned until 99999999999999", None),
    ] {
        let body = serde_json::json!({ "error": { "message": sentence } }).to_string();
        assert_eq!(advice(&body), wait.map(|wait| (wait, "error.message".to_owned())), "{sentence}");
    }
}

#[test]
fn shapes() {
    states(r#"{"retry_after":64.57}"#, 64_570, "retry_after");
    states(r#"{"retryAfter":"5"}"#, 5_000, "retryafter");
    states(r#"{"error":{"retry_after_ms":250,"retry_after":1}}"#, 250, "error.retry_after_ms");
    states(r#"{"error":{"retry_after_ms":0,"retry_after":1}}"#, 1_000, "error.retry_after");
    states(
        r#"{"error":{"reason":{".tag":"too_many_requests"},"retry_after":300}}"#,
        300_000,
        "error.retry_after",
    );
    states(r#"{"errors":[{"meta":{"retry_after":4}}]}"#, 4_000, "errors[].meta.retry_after");
    states(r#"{"description":"Flood control: retry after 9 seconds"}"#, 9_000, "description");
    states(r#"{"ok":false,"parameters":{"retry_after":35}}"#, 35_000, "parameters.retry_after");
    states(
        r#"{"error":{"data":{"rate":{"backoff_seconds":30.5}}}}"#,
        30_500,
        "error.data.rate.backoff_seconds",
    );
    states(r#"{"RateLimitResetTime":"2026-01-01T00:00:01.5Z"}"#, 1_500, "ratelimitresettime");
    states("\u{feff} {\"retry_after\":3}", 3_000, "retry_after");
    states(r#"{"error":{"details":"wait 5s","message":"wait 5s"}}"#, 5_000, "error.message");
    states(r#"{"error":{"details":"wait 6s","message":"wait 5s"}}"#, 6_000, "error.details");
    states(r#"{"errors":[{"detail":"try again in 5s"}]}"#, 5_000, "errors[].detail");
    states(r#"{"error":"Retry after 1 seconds."}"#, 1_000, "error");
    states(r#"[{"error":{"details":[{"retryDelay":"34.07s"}]}}]"#, 34_070, "error.details[].retrydelay");
    states(
        r#"{"error":{"details":[{"retryDelay":{"seconds":"3","nanos":1}}]}}"#,
        3_001,
        "error.details[].retrydelay",
    );
    states(r#""{\"error\":{\"message\":\"retry in 5s\"}}""#, 5_000, "error.message");
    states(
        r#"{"error":{"message":"got 429. {\"error\":{\"message\":\"retry in 5s\"}}"}}"#,
        5_000,
        "error.message",
    );
    states(
        r#"{"error":{"metadata":{"headers":{"X-RateLimit-Reset":1767225660000,"X-RateLimit-Remaining":"0"}}}}"#,
        60_000,
        "error.metadata.headers.x-ratelimit-reset",
    );
    states(
        r#"{"error":{"limit":{"remaining":0,"reset":1767225610,"resetMs":1767225610563}}}"#,
        10_563,
        "error.limit.resetms",
    );
    for nothing in [
        "",
        "null",
        "5",
        "[]",
        r#"{"error":{"#,
        r#"{"retry_after":null}"#,
        r#"{"retry_after":-1}"#,
        r#"{"retry_after":[]}"#,
        "<html>Please try again in 30 seconds</html>",
        "Please try again in 30 seconds",
    ] {
        assert_eq!(advice(nothing), None, "{nothing}");
    }
}

#[test]
fn codes() {
    let terminal = |profile: &str, body: &str| {
        let body = read(profile, body);
        body.final_code || body.final_phrase
    };
    assert!(terminal("standard", r#"{"error":{"code":"insufficientquota"}}"#));
    assert!(terminal("openai", r#"{"error":{"code":"project_spend_limit_exceeded"}}"#));
    assert!(terminal("salesforce", r#"[{"errorCode":"REQUEST_LIMIT_EXCEEDED"}]"#));
    assert!(!terminal("databricks", r#"{"error_code":"REQUEST_LIMIT_EXCEEDED"}"#));
    assert!(!terminal("azure-openai", r#"{"error":{"code":"QuotaExceeded"}}"#));
    assert!(!terminal(
        "standard",
        r#"{"error":{"message":"Quota exceeded, check billing. insufficient_quota"}}"#
    ));
    let concurrent =
        r#"[{"message":"ConcurrentRequests Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]"#;
    assert!(!terminal("salesforce", concurrent));
    let quota = |message: &str| format!("{{\"message\":\"{message}\",\"code\":\"insufficient_quota\"}}");
    assert!(!terminal("dashscope", &quota("Allocated quota exceeded, please increase your quota limit.")));
    assert!(terminal("dashscope", &quota("Free allocated quota exceeded.")));
    assert!(terminal("openai", &quota("Allocated quota exceeded, please increase your quota limit.")));
    let throttle = quota("Requests have exceeded call rate limit. Please retry after 6 seconds.");
    assert!(!terminal("azure-openai", &throttle) && terminal("openai", &throttle));
    assert!(terminal("azure-openai", &quota("You exceeded your current quota.")));
    assert!(terminal("aws-bedrock", r#"{"message":"Too many tokens per day, please wait"}"#));
    assert!(!terminal("openai", r#"{"error":{"message":"Too many tokens per day, please wait"}}"#));
}

#[test]
fn codes_of_aws_stand_behind_a_namespace() {
    let limited = |body: &str| read("standard", body).rate_limited;
    let long = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException";
    assert!(limited(&format!("{{\"__type\":\"{long}\"}}")));
    assert!(limited(r#"{"__type":"com.amazon.coral.availability#ThrottlingException"}"#));
    assert!(!limited(r#"{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"}"#));
    // A problem type is an address, and what it is about is not a code of the service.
    let problem = read("standard", r#"{"type":"https://iana.org/problem-types#quota-exceeded"}"#);
    assert!(problem.units.is_empty());
}

#[test]
fn deep_and_wide_bodies_are_bounded() {
    let deep = format!("{}1{}", r#"{"error":"#.repeat(120), "}".repeat(120));
    assert_eq!(advice(&deep), None);
    assert_eq!(advice(&"[".repeat(60_000)), None);
    let mut nested = r#"{"retry_after":1}"#.to_owned();
    for _ in 0..6 {
        nested = serde_json::json!({ "message": nested }).to_string();
    }
    assert_eq!(advice(&nested), None);
    assert_eq!(advice(&serde_json::json!({ "message": "wait ".repeat(13_000) }).to_string()), None);
}

#[test]
fn numbers_in_every_notation_of_json() {
    for (number, wait) in [
        ("1e2", Some(100_000)),
        ("1.5E3", Some(1_500_000)),
        ("1e-7", Some(1)),
        ("2.5e-1", Some(250)),
        ("12E-1", Some(1_200)),
        ("0e5", Some(0)),
        ("1767225607e0", Some(7_000)),
        ("1.767225607E9", Some(7_000)),
        ("1.767225607e18", Some(7_000)),
        ("-1e2", None),
        ("-0", None),
    ] {
        for key in ["retry_after", "retryDelay", "resets_in_seconds"] {
            let read = advice(&format!("{{\"{key}\":{number}}}")).map(|(wait, _)| wait);
            assert_eq!(read, wait, "{key} {number}");
        }
        let in_millis = advice(&format!("{{\"retry_after_ms\":{number}}}")).map(|(wait, _)| wait);
        assert!(wait.is_some() || in_millis.is_none(), "retry_after_ms {number}");
    }
    assert_eq!(advice(r#"{"retry_after_ms":1e2}"#).unwrap().0, 100);
    assert_eq!(advice(r#"{"retry_after_ms":1.5E3}"#).unwrap().0, 1_500);
    // In strings the grammars of the headers hold, which have no exponents.
    assert_eq!(advice(r#"{"retry_after":"1e2"}"#), None);
    assert_eq!(advice(r#"{"retry_after":"1e-7"}"#), None);
}

#[test]
fn a_protobuf_duration_is_read_as_far_as_it_goes() {
    for (duration, wait) in [
        (r#"{"seconds":34,"nanos":74824224}"#, Some(34_075)),
        (r#"{"seconds":"34"}"#, Some(34_000)),
        (r#"{"nanos":1}"#, Some(1)),
        (r#"{"nanos":1500000000}"#, Some(1_500)),
        (r#"{"seconds":1e2}"#, Some(100_000)),
        (r#"{"seconds":1.5,"nanos":0}"#, Some(1_500)),
        (r#"{"seconds":1e300,"nanos":5}"#, Some(Hint::LONGEST_WAIT.as_millis())),
        (r#"{"seconds":-1,"nanos":5}"#, None),
        (r#"{"seconds":"5s"}"#, None),
        (r#"{"seconds":"5s","nanos":1}"#, None),
        // In protobuf's JSON null is as good as nothing.
        (r#"{"seconds":100,"nanos":null}"#, Some(100_000)),
        (r#"{"seconds":null,"nanos":5}"#, Some(1)),
        (r#"{"seconds":null,"nanos":null}"#, None),
        (r#"{"seconds":null}"#, None),
        (r#"{"seconds":5,"nanos":-1}"#, Some(5_000)),
        (r#"{"seconds":5,"nanos":"x"}"#, Some(5_000)),
        (r#"{"seconds":5,"nanos":1e300}"#, Some(5_000)),
        (r#"{"seconds":5,"nanos":[]}"#, Some(5_000)),
        (r#"{"nanos":-1}"#, None),
        ("{}", None),
    ] {
        let read = advice(&format!("{{\"retry_after\":{duration}}}")).map(|(wait, _)| wait);
        assert_eq!(read, wait, "{duration}");
    }
}
