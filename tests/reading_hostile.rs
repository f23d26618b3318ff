//! Input that no honest server sends, or that a broken proxy has been at: each has a reading by the rules, and none is a
//! panic, an early send or a wait beyond reason.
#![cfg(test)]

use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest_admission::decision::{Call, Decision, Outcome, Reason, decide};
use reqwest_admission::jitter::Draw;
use reqwest_admission::reading::{Hint, HintKind, Profile, Terminal};
use reqwest_admission::{AdmissionPolicy, LatencyBudget, Reading};

/// 2024-01-01T00:00:00Z.
const NOW: u64 = 1_704_067_200;

fn read(profile: &str, fields: &[(&str, &[u8])], body: &[u8]) -> Reading {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value).unwrap());
    }
    let now = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(NOW)).unwrap();
    let status = StatusCode::TOO_MANY_REQUESTS;
    Reading::with_profile(Profile::named(profile), status, &headers, Some(body), now)
}

/// The wait of advice beyond every bound, in milliseconds.
const BEYOND: Option<u128> = Some(Hint::LONGEST_WAIT.as_millis());

fn wait(reading: &Reading) -> Option<u128> {
    reading.hint().map(|hint| hint.wait().as_millis())
}

#[track_caller]
fn retry_after(value: impl AsRef<[u8]>, expected: Option<u128>) {
    let value = value.as_ref();
    let read = wait(&read("standard", &[("retry-after", value)], b""));
    assert_eq!(read, expected, "{:?}", String::from_utf8_lossy(value));
}

#[test]
fn numbers_that_are_none() {
    for value in [
        "-5",
        "-0",
        "+5",
        "5e0",
        "1E2",
        "0x5",
        "0b1",
        "1_000",
        "5%",
        "5 5",
        "5;5",
        "five",
        "NaN",
        "Infinity",
        "-inf",
        "null",
        "undefined",
        "true",
        "[5]",
        "{5}",
        "\"5\"",
        "'5'",
        "5,5s,",
        "٣",
        "５",
        "½",
        "²",
        "0.1.2",
        "..5",
        "5..",
        "--5",
        "5-",
        "5s5",
        "s",
        "ms",
        "5 s",
        "PT",
        "P1Y",
        "P1M",
        "-PT5S",
        "PT-5S",
        "",
    ] {
        // Members of a list are read one by one, so that some of these have one that is a value.
        let expected = if value == "5,5s," { Some(5_000) } else { None };
        retry_after(value, expected);
    }
    for value in
        [b"\xFF".as_slice(), b"5\xA0", b"\xEF\xBB\xBF5", b"5\xC2\xA0", b"\x80\x80\x80\x80", b"5\xFFs"]
    {
        retry_after(value, None);
    }
}

#[test]
fn numbers_out_of_all_proportion() {
    retry_after("0.0000000000000000000000000001", Some(1));
    retry_after("00000000000000000000000000000000000005", Some(5_000));
    retry_after("31622400", Some(31_622_400_000));
    retry_after("5".to_owned() + &" ".repeat(2_000) + "x", None);
}

/// What is well-formed and beyond every bound is longer than any budget: neither "no advice", after which a call would
/// come back at once, nor a number to reckon with.
const HUGE: [&str; 21] = [
    "31622401",
    "31622400.5",
    "999999999",
    "9223372037",
    "99999999999",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "99999999999999999999999999999999999999999999999999999999999999999999999.5",
    "99999999999999999999h",
    "8784h1ms",
    "P366DT1S",
    "P99999W",
    "Thu, 01 Jan 4099 00:00:00 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Mon, 01 Jan 2101 00:00:10 GMT",
    "Fri Dec 31 23:59:59 9999",
    "4099-01-01T00:00:00Z",
    "9999-12-31T23:59:59+00:00",
    "2101-01-01T00:00:00Z",
    "5, 9223372037",
];

/// The call spills at once, whatever is left of it.
#[track_caller]
fn spills_at_once(reading: &Reading, text: &str) {
    assert_eq!(wait(reading), BEYOND, "{text}");
    assert_eq!(reading.hint().map(Hint::kind), Some(HintKind::RetryAfter), "{text}");
    let now = Instant::now();
    let call = Call::new(LatencyBudget::new(Duration::from_secs(86_400 * 366)).deadline(now));
    let decision = decide(&AdmissionPolicy::default(), Outcome::Response(reading), &call, now, Draw::ZERO);
    assert_eq!(decision, Decision::SpillOver(Reason::BudgetExceeded), "{text}");
}

#[test]
fn huge_advice_in_a_header_is_longer_than_any_budget() {
    for value in HUGE {
        for name in ["retry-after", "x-ratelimit-retry-after"] {
            spills_at_once(&read("standard", &[(name, value.as_bytes())], b""), value);
        }
    }
    let digits = "9".repeat(1_000);
    spills_at_once(&read("standard", &[("retry-after", digits.as_bytes())], b""), "a thousand digits");
    for millis in ["31622400001", "99999999999999", "99999999999999999999999999"] {
        spills_at_once(&read("standard", &[("retry-after-ms", millis.as_bytes())], b""), millis);
    }
    // The seconds are a smaller number, and the milliseconds the surer one.
    let both: [(&str, &[u8]); 2] = [("retry-after-ms", b"99999999999999999999"), ("retry-after", b"5")];
    spills_at_once(&read("standard", &both, b""), "both");
}

#[test]
fn huge_advice_in_a_body_is_longer_than_any_budget() {
    for member in [
        "31622401",
        "9223372037",
        "18446744073709551616",
        "1e30",
        "1e300",
        "1e400",
        "\"9223372037\"",
        "\"4099-01-01T00:00:00Z\"",
        "\"Thu, 01 Jan 4099 00:00:00 GMT\"",
        "\"99999999999999999999h\"",
        "{\"seconds\":\"9223372036854775807\"}",
        "{\"seconds\":1e300,\"nanos\":5}",
    ] {
        for name in ["retry_after", "retryAfter", "retryDelay"] {
            let body = format!("{{\"error\":{{\"{name}\":{member}}}}}");
            spills_at_once(&read("standard", &[], body.as_bytes()), &body);
        }
    }
    let sentence = r#"{"message":"Please try again in 99999999999999999999s"}"#;
    spills_at_once(&read("standard", &[], sentence.as_bytes()), sentence);
}

#[test]
fn a_reset_beyond_every_bound_stays_a_mistake() {
    for value in HUGE {
        let fields = [("x-ratelimit-remaining", b"0".as_slice()), ("x-ratelimit-reset", value.as_bytes())];
        let reading = read("standard", &fields, b"");
        assert!(wait(&reading).is_none_or(|wait| wait <= 5_000), "{value}");
        let body = serde_json::json!({ "quotaResetTimeStamp": value }).to_string();
        assert_eq!(wait(&read("standard", &[], body.as_bytes())), None, "{value}");
    }
}

#[test]
fn a_terminal_refusal_keeps_the_moment_that_it_names() {
    type Case<'c> = (&'c str, &'c [(&'c str, &'c [u8])], &'c str, Terminal);
    let cases: [Case<'_>; 4] = [
        (
            "openai",
            &[("retry-after", b"20")],
            r#"{"error":{"code":"insufficient_quota"}}"#,
            Terminal::QuotaExhausted,
        ),
        (
            "openai",
            &[],
            r#"{"error":{"code":"insufficient_quota","retry_after":20}}"#,
            Terminal::QuotaExhausted,
        ),
        ("anthropic", &[("x-should-retry", b"false"), ("retry-after", b"20")], "", Terminal::ServerDirective),
        (
            "openai",
            &[("x-ratelimit-remaining-requests", b"0"), ("x-ratelimit-reset-requests", b"20s")],
            r#"{"error":{"code":"billing_hard_limit_reached"}}"#,
            Terminal::QuotaExhausted,
        ),
    ];
    for (profile, fields, body, terminal) in cases {
        let reading = read(profile, fields, body.as_bytes());
        assert_eq!((reading.terminal(), wait(&reading)), (Some(terminal), Some(20_000)), "{fields:?} {body}");
    }
    // A day's quota that is said to be back in seconds is not honest, and nobody is told of that moment.
    let daily =
        r#"{"error":{"details":[{"violations":[{"quotaId":"RequestsPerDay"}]},{"retryDelay":"17s"}]}}"#;
    let reading = read("gemini", &[], daily.as_bytes());
    assert_eq!((reading.terminal(), wait(&reading)), (Some(Terminal::QuotaExhausted), None));
}

#[test]
fn dates_that_are_none_or_past() {
    for value in [
        "Mon, 01 Jan 2024 00:00:10 EST",
        "Mon, 01 Jan 2024 00:00:10 PST",
        "Mon, 01 Jan 2024 00:00:10 +2500",
        "Mon, 01 Jan 2024 00:00:10 +0070",
        "Mon, 01 Jan 2024 00:00:10 +01:00",
        "Mon, 01 Jan 2024 00:00:10",
        "Mon, 01 Jan 2024 24:00:10 GMT",
        "Mon, 01 Jan 2024 00:60:10 GMT",
        "Mon, 00 Jan 2024 00:00:10 GMT",
        "Mon, 30 Feb 2024 00:00:10 GMT",
        "Mon, 01 Foo 2024 00:00:10 GMT",
        "Mon, 01 Jan 20240 00:00:10 GMT",
        "Mon, 01 Jan -2024 00:00:10 GMT",
        "01 Jan 2024 00:00:10 GMT",
        "2024-01-01T00:00:10",
        "2024-01-01 00:00:10",
        "2024-01-01",
        "2024-1-1T00:00:10Z",
        "2024-01-01T00:00:10ZZ",
        "2024-01-01T00:00:10[UTC]",
        "01/01/2024 00:00:10",
        "Mon Jan 01 2024 00:00:10 GMT+0100 (Central European Standard Time)",
    ] {
        retry_after(value, None);
    }
    for value in [
        "Sun, 31 Dec 2023 23:59:59 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Mon, 01 Jan 0001 00:00:00 GMT",
        "Mon, 01 Jan 2024 01:00:00 +0200",
        "0001-01-01T00:00:00Z",
        "1000000000",
    ] {
        retry_after(value, Some(0));
    }
    retry_after("Mon, 01 Jan 2024 02:00:10 +0200", Some(10_000));
    retry_after("Mon Jan 01 2024 00:00:10 GMT+0000 (Coordinated Universal Time)", Some(10_000));
    retry_after("2024-01-01T02:00:10+02:00", Some(10_000));
}

#[test]
fn several_values_of_which_the_longest_valid_one_counts() {
    let several = |values: &[&str]| {
        let fields: Vec<_> = values.iter().map(|value| ("retry-after", value.as_bytes())).collect();
        wait(&read("standard", &fields, b""))
    };
    assert_eq!(several(&["5", "nope", "7", "-9"]), Some(7_000));
    assert_eq!(several(&["Mon, 01 Jan 2024 00:00:30 GMT", "5"]), Some(30_000));
    assert_eq!(several(&["5, Mon, 01 Jan 2024 00:00:30 GMT, 7"]), Some(30_000));
    assert_eq!(several(&["5,,,,7"]), Some(7_000));
    assert_eq!(several(&[",", ", ,"]), None);
    // A list that has no end is looked at as far as its first members, and all lines are.
    assert_eq!(several(&[&"9,".repeat(500)]), Some(9_000));
    assert_eq!(several(&[&"9,".repeat(600)]), None);
    let many: Vec<_> = (0..5_000).map(|n| (n % 100).to_string()).collect();
    assert_eq!(several(&many.iter().map(String::as_str).collect::<Vec<_>>()), Some(99_000));
}

#[test]
fn a_clock_that_was_tampered_with_is_bounded() {
    let reset = ("retry-after", b"Mon, 01 Jan 2024 00:00:30 GMT".as_slice());
    let with = |fields: &[(&str, &[u8])]| wait(&read("standard", &[fields, &[reset]].concat(), b""));
    assert_eq!(with(&[("date", b"Mon, 01 Jan 2024 00:00:20 GMT")]), Some(10_000));
    assert_eq!(with(&[("date", b"\xFF"), ("date", b"Mon, 01 Jan 2024 00:00:20 GMT")]), Some(10_000));
    assert_eq!(with(&[("date", b"Fri, 01 Jan 2100 00:00:00 GMT")]), Some(0));
    assert_eq!(with(&[("date", b"Mon, 01 Jan 2024 00:00:20 GMT"), ("age", b"-5")]), Some(10_000));
    assert_eq!(
        with(&[("date", b"Mon, 01 Jan 2024 00:00:20 GMT"), ("age", b"99999999999999999999")]),
        Some(0)
    );
    assert_eq!(with(&[("date", b"Mon, 01 Jan 2024 00:00:20 GMT"), ("age", b"five")]), Some(10_000));
    assert_eq!(with(&[("age", b"20")]), Some(30_000), "an age without a date says nothing");
}

#[test]
fn bodies_in_other_clothes() {
    let json = br#"{"retry_after":3}"#;
    let body = |body: &[u8]| wait(&read("standard", &[], body));
    assert_eq!(body(json), Some(3_000));
    assert_eq!(body(&[b"\xEF\xBB\xBF".as_slice(), json].concat()), Some(3_000), "a byte order mark");
    assert_eq!(body(&[b"\r\n\t ".as_slice(), json, b"\r\n"].concat()), Some(3_000));
    let utf16 = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
        std::iter::once(0xFEFF).chain(json.iter().map(|byte| u16::from(*byte))).flat_map(order).collect()
    };
    assert_eq!(body(&utf16(u16::to_le_bytes)), None);
    assert_eq!(body(&utf16(u16::to_be_bytes)), None);
    assert_eq!(
        body(b"\x1F\x8B\x08\x00\x00\x00\x00\x00\x00\x03"),
        None,
        "compressed, and nobody has unpacked it"
    );
    assert_eq!(body(&[json.as_slice(), b"\0"].concat()), None);
    assert_eq!(body(&[json.as_slice(), json].concat()), None, "two values are no JSON");
    assert_eq!(body(b"{\"retry_after\":3"), None);
    assert_eq!(body(b"{\"retry_after\":3,}"), None);
    assert_eq!(body(b"{\"retry_after\":\"\\ud800\"}"), None);
    assert_eq!(body(b"{\"retry_after\":\"3\xFF\"}"), None);
    assert_eq!(body(b"data: {\"retry_after\":3}\n\n"), None);
}

#[test]
fn members_that_lie() {
    let body = |text: &str| wait(&read("standard", &[], text.as_bytes()));
    assert_eq!(body(r#"{"retry_after":1,"retry_after":9}"#), Some(9_000), "the last of two of one name");
    assert_eq!(body(r#"{"retry_after":[9],"error":{"retry_after":{"retry_after":9}}}"#), None);
    assert_eq!(body(r#"{"retry_after":true}"#), None);
    assert_eq!(body(r#"{"retry_after":-0.0}"#), None);
    assert_eq!(body(r#"{"retry_after":1e-9}"#), Some(1));
    assert_eq!(body(&format!("{{\"{}\":5,\"retry_after\":2}}", "k".repeat(60_000))), Some(2_000));
    let wide: String = (0..4_000).map(|n| format!("\"k{n}\":1,")).collect();
    assert_eq!(body(&format!("{{{wide}\"retry_after\":2}}")), Some(2_000));
    assert_eq!(body(&format!("{{{}\"retry_after\":2}}", wide.repeat(2))), None, "beyond what is looked at");
    let elements = "{\"message\":\"wait 5s\"},".repeat(2_000);
    assert_eq!(body(&format!("{{\"errors\":[{}]}}", elements.trim_end_matches(','))), Some(5_000));
    for depth in [7, 100, 126, 200, 20_000] {
        let deep = format!("{}{{\"retry_after\":2}}{}", "{\"error\":".repeat(depth), "}".repeat(depth));
        assert_eq!(body(&deep), (depth < 8).then_some(2_000), "{depth} deep");
    }
    // JSON in a string in JSON, again and again.
    let mut nested = r#"{"retry_after":2}"#.to_owned();
    for _ in 0..12 {
        nested = serde_json::json!({ "message": nested }).to_string();
    }
    assert_eq!(body(&nested), None);
}

#[test]
fn counters_that_lie() {
    let fields = |fields: &[(&str, &str)]| {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        read("standard", &fields, b"")
    };
    let reset = ("x-ratelimit-reset", "9");
    for remaining in ["0", "-5", "0.0", "-0", "0, 5", "0;w=60"] {
        let reading = fields(&[("x-ratelimit-limit", "5"), ("x-ratelimit-remaining", remaining), reset]);
        assert!(!reading.exhausted().is_empty(), "{remaining}");
        assert_eq!(wait(&reading), Some(9_000), "{remaining}");
    }
    for remaining in ["null", "", "none", "unlimited", "1e0", "0x0", "∞", "-", "+0"] {
        let reading = fields(&[("x-ratelimit-limit", "5"), ("x-ratelimit-remaining", remaining), reset]);
        assert!(reading.exhausted().is_empty(), "{remaining}");
        assert_eq!(wait(&reading), Some(9_000), "{remaining}: the reset is all there is");
    }
    // Hundreds of buckets: the first ones count, and nothing is lost but the rest.
    let names: Vec<_> = (0..400).map(|n| format!("x-ratelimit-remaining-b{n}")).collect();
    let reading = fields(&names.iter().map(|name| (name.as_str(), "0")).collect::<Vec<_>>());
    assert!(reading.limits().len() <= 12 && !reading.exhausted().is_empty());
}
