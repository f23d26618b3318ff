//! The rules by which the parts of a response make one reading, by kinds of response.

mod windows;

use super::*;

const NOW: u64 = 1_704_067_200; // 2024-01-01T00:00:00Z

/// Reads a response written as `status profile`, field lines, an empty line and the body.
#[track_caller]
fn read(text: &str) -> Reading {
    let (head, body) = text.split_once("\n\n").map_or((text, None), |(head, body)| (head, Some(body.trim())));
    let mut lines = head.lines().map(str::trim);
    let (status, profile) = lines.next().unwrap().split_once(' ').unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in lines.map(|line| line.split_once(':').unwrap()) {
        let name = http::HeaderName::try_from(name).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.trim().as_bytes()).unwrap());
    }
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(NOW)).unwrap();
    let status = StatusCode::from_bytes(status.as_bytes()).unwrap();
    Reading::with_profile(Profile::named(profile), status, &headers, body.map(str::as_bytes), at)
}

/// Checks wait, source and exhausted units as one line: `5000 retry-after requests`, with `-` for none.
#[track_caller]
fn check(text: &str, expected: &str) {
    let reading = read(text);
    // What a terminal refusal names, nobody waits for within the call.
    let mut line = match reading.hint().filter(|_| reading.terminal().is_none()) {
        Some(hint) => format!("{} {}", hint.wait().as_millis(), hint.source()),
        None => "- -".to_owned(),
    };
    for unit in reading.exhausted().iter() {
        line.push(' ');
        line.push_str(unit.as_str());
    }
    if let Some(terminal) = reading.terminal() {
        line.push_str(&format!(" {terminal:?}"));
    }
    assert_eq!(line, expected, "{text}");
}

#[test]
fn families_of_names() {
    check(
        "429 x\nX-App-Limit-24Hour-Limit: 10\nx-app-limit-24hour-remaining: 0\nx-app-limit-24hour-reset: 1704067260\nx-rate-limit-remaining: 5\nx-rate-limit-reset: 1704067201",
        "60000 x-app-limit-24hour-reset requests",
    );
    check(
        "429 zendesk\nZendesk-RateLimit-Tickets-Index: total=100; remaining=0; resets=27",
        "27000 zendesk-ratelimit-tickets-index requests",
    );
    check(
        "429 zendesk\nZendesk-RateLimit-Tickets-Index: total=100; remaining=4; resets=27\nratelimit-remaining: 0\nratelimit-reset: 3",
        "3000 ratelimit-reset requests",
    );
    check(
        "429 x\nx-ratelimit-reset-after: 2.5\nx-ratelimit-reset: 1704067203\nx-ratelimit-remaining: 0",
        "2500 x-ratelimit-reset-after requests",
    );
    check(
        "429 gitlab\nratelimit-remaining: 0\nRateLimit-ResetTime: Mon, 01 Jan 2024 00:00:20 GMT",
        "20000 ratelimit-resettime requests",
    );
    check(
        "429 x\nx-ratelimit-remaining: 0\nx-ratelimit-next: 2024-01-01T00:00:05.000Z",
        "5000 x-ratelimit-next requests",
    );
    check(
        "429 anthropic\nanthropic-priority-output-tokens-remaining: 0\nanthropic-priority-output-tokens-reset: 2024-01-01T00:00:05Z",
        "5000 anthropic-priority-output-tokens-reset output-tokens",
    );
    check(
        "429 fireworks\nretry-after: 0.05\nx-ratelimit-remaining-tokens-prompt: 0\nx-ratelimit-remaining-tokens-generated: 9\nx-ratelimit-over-limit: yes",
        "50 retry-after input-tokens",
    );
    check(
        "429 mistral\nx-ratelimit-remaining-req-10-second: 0\nx-ratelimit-remaining-tokens-minute: 5",
        "- - requests",
    );
    check("429 shopify\nX-Shopify-Shop-Api-Call-Limit: 40/40", "- - requests");
    check("200 cohere\nx-trial-endpoint-call-remaining: 33", "- -");
    check(
        "429 x\nx-ratelimit-remaining-input-images: 0\nx-ratelimit-reset-input-images: 12s",
        "12000 x-ratelimit-reset-input-images quota",
    );
    check(
        "429 x\nx-ratelimit-limit-tokens_usage_based: 5\nx-ratelimit-remaining-tokens_usage_based: 0\nx-ratelimit-reset-tokens_usage_based: 1ms",
        "1 x-ratelimit-reset-tokens_usage_based tokens",
    );
    check("200 salesforce\nSforce-Limit-Info: api-usage=15000/15000", "- - quota");
    check("429 docker-hub\nratelimit-limit: 100;w=21600\nratelimit-remaining: 20;w=21600", "- -");
    check(
        "429 x\nratelimit-limit: 10, 10;w=1, 50;w=60\nratelimit-remaining: 0\nratelimit-reset: 1",
        "1000 ratelimit-reset requests",
    );
    check(
        "429 x\nratelimit-remaining: 5\nratelimit-remaining: 0\nratelimit-reset: 1\nratelimit-reset: 4",
        "4000 ratelimit-reset requests",
    );
}

#[test]
fn resets_and_bodies() {
    let sentence = r#"{"error":{"message":"Please try again in 7s"}}"#;
    let spent = "x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests";
    check(&format!("429 openai\n{spent}: 6m0s\n\n{sentence}"), "7000 body:error.message requests");
    check(
        &format!(
            "429 openai\nx-ratelimit-remaining-requests: 3\nx-ratelimit-reset-requests: 1s\n\n{sentence}"
        ),
        "7000 body:error.message",
    );
    check(&format!("429 openai\nretry-after: 1\n{spent}: 6m0s\n\n{sentence}"), "1000 retry-after requests");
    check(
        "429 x\nx-ratelimit-reset-tokens-day: 99\nx-ratelimit-reset-req-minute: 8\nx-ratelimit-reset-tokens-minute: 9",
        "9000 x-ratelimit-reset-tokens-minute",
    );
    check(
        "429 x\nx-ratelimit-remaining-requests: 0\nx-ratelimit-remaining-tokens: 9\nx-ratelimit-reset-tokens: 9s",
        "- - requests",
    );
}

#[test]
fn ietf_fields() {
    check("429 x\nRateLimit: \"a\";r=0;t=5\nRateLimit: \"b\";r=0;t=9", "9000 ratelimit requests");
    check("429 x\nRateLimit: limit=10, remaining=0, reset=5", "5000 ratelimit requests");
    check(
        "429 x\nRateLimit: \"a\";r=3;t=5, \"b\";r=4;t=90\n\n{\"violated-policies\":[\"b\"]}",
        "90000 ratelimit requests",
    );
    check(
        "429 x\nRateLimit-Policy: \"a\";q=5;w=60, \"b\";q=5;w=3600\nRateLimit: \"a\";r=3;t=5, \"b\";r=4;t=90",
        "5000 ratelimit",
    );
    check(
        "429 x\nRateLimit-Policy: \"a\";q=5;qu=\"concurrent-requests\"\nRateLimit: \"a\";r=0",
        "- - concurrency",
    );
    check("429 x\nRateLimit: \"a\";r=0;t=5;\nRateLimit: 5;;", "- -");
    check("429 atlassian\nBeta-RateLimit: \"global-app-quota\";t=3200", "- -");
    check("429 atlassian\nBeta-RateLimit: \"global-app-quota\";r=0;t=320", "320000 beta-ratelimit quota");
    let reading = read(
        "200 x\nRateLimit-Policy: 100;w=60\nRateLimit-Limit: 100\nRateLimit-Remaining: 7\nRateLimit-Reset: 5",
    );
    let limit = reading.limits().first().unwrap();
    assert_eq!((limit.limit, limit.remaining), (Some(100), Some(7)));
    assert_eq!((limit.window, limit.reset), (Some(Duration::from_secs(60)), Some(Duration::from_secs(5))));
}

#[test]
fn terminal_or_not() {
    check(
        "429 openai\nretry-after: 20\n\n{\"error\":{\"code\":\"organization_spend_limit_exceeded\",\"type\":\"requests\"}}",
        "- - quota QuotaExhausted",
    );
    check("429 anthropic\nx-should-retry: FALSE\nretry-after: 2", "- - ServerDirective");
    check("200 openai\nx-should-retry: false", "- -");
    check("429 cerebras\nx-should-retry: false\nretry-after: 2", "2000 retry-after");
    check("402 deepseek\nretry-after: 2", "- - quota QuotaExhausted");
    check("402 stripe\nretry-after: 2", "- -");
    check(
        "413 groq\nretry-after: 2\n\n{\"error\":{\"message\":\"Request too large on tokens per minute\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}",
        "- - tokens RequestTooLarge",
    );
    check("413 standard\n\n<html>", "- - RequestTooLarge");
    assert!(!read("413 standard").is_throttled());
    // RFC 9110 §15.5.14: with Retry-After the condition is temporary, unless the body says otherwise.
    check("413 standard\nretry-after: 2\n\n<html>", "2000 retry-after");
    check("413 standard\nretry-after: 2\n\n{\"message\":\"Payload too large\"}", "- - RequestTooLarge");
    let large = "{\"error\":{\"message\":\"Request too large for m on tokens per min (TPM): Limit 3, Requested 4.\",\"type\":\"tokens\"}}";
    check(&format!("429 openai\nretry-after: 2\n\n{large}"), "- - tokens RequestTooLarge");
    check(&format!("429 standard\nretry-after: 2\n\n{large}"), "2000 retry-after tokens");
    let per_day = |delay: &str| {
        format!(
            "{{\"error\":{{\"details\":[{{\"violations\":[{{\"quotaId\":\"GenerateRequestsPerDayPerProject\"}}]}}{delay}]}}}}"
        )
    };
    check(&format!("429 gemini\n\n{}", per_day(",{\"retryDelay\":\"17s\"}")), "- - quota QuotaExhausted");
    check(&format!("429 gemini\n\n{}", per_day("")), "- - quota QuotaExhausted");
    check(
        &format!("429 gemini\n\n{}", per_day(",{\"retryDelay\":\"3600s\"}")),
        "3600000 body:error.details[].retrydelay quota",
    );
    check(
        "429 hubspot\nX-HubSpot-RateLimit-Daily-Remaining: 0\nX-HubSpot-RateLimit-Remaining: 9\nX-HubSpot-RateLimit-Interval-Milliseconds: 10000",
        "- - quota QuotaExhausted",
    );
}

#[test]
fn statuses_that_refuse_only_with_evidence() {
    for (text, throttled) in [
        (
            "403 github\nx-ratelimit-remaining: 4999\nx-ratelimit-reset: 1704067260\n\n{\"message\":\"Resource not accessible\"}",
            false,
        ),
        ("403 github\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1704067260", true),
        ("403 github\nretry-after: 60", true),
        ("403 github\n\n{\"message\":\"API rate limit exceeded for 192.0.2.1\"}", true),
        ("403 standard\nretry-after: 60", true),
        ("400 linear\n\n{\"errors\":[{\"extensions\":{\"code\":\"RATELIMITED\"}}]}", true),
        ("400 linear\n\n{\"errors\":[{\"extensions\":{\"code\":\"GRAPHQL_VALIDATION_FAILED\"}}]}", false),
        ("400 aws-bedrock\nx-amzn-errortype: ThrottlingException:http://x", true),
        ("400 aws-bedrock\nx-amzn-errortype: ValidationException", false),
        ("400 aws-bedrock\nx-amzn-errortype: ProvisionedThroughputExceededException", true),
        ("418 binance\nretry-after: 120", true),
        ("418 binance\n\n{\"code\":-1003,\"msg\":\"IP banned until 1704067260000.\"}", true),
        ("418 standard\nretry-after: 120", false),
        (
            "403 azure-apim\n\n{\"message\":\"Out of call volume quota. Quota will be replenished in 00:30:02.\"}",
            true,
        ),
        ("403 azure-apim\n\n{\"message\":\"Access denied due to invalid subscription key.\"}", false),
        ("403 gemini\n\n{\"error\":{\"errors\":[{\"reason\":\"userRateLimitExceeded\"}]}}", true),
        ("403 gemini\n\n{\"error\":{\"errors\":[{\"reason\":\"forbidden\"}]}}", false),
        ("404 standard\nretry-after: 60", false),
        ("500 standard\nretry-after: 60", false),
    ] {
        let reading = read(text);
        assert_eq!(reading.is_throttled(), throttled, "{text}");
        assert!(throttled || (reading.hint().is_none() && reading.terminal().is_none()), "{text}");
    }
    assert_eq!(
        read("403 github\nretry-after:\n\n{\"message\":\"secondary rate limit\"}").backoff_floor(),
        Some(Duration::from_secs(60))
    );
    assert_eq!(read("403 github\nretry-after: 5").backoff_floor(), None);
    assert_eq!(read("429 airtable").backoff_floor(), Some(Duration::from_secs(30)));
}

#[test]
fn discords_old_milliseconds_need_proof() {
    let spent = "x-ratelimit-remaining: 0\nx-ratelimit-reset";
    check(&format!("429 discord\nretry-after: 6457\n{spent}: 1704067207"), "6457 retry-after requests");
    check(&format!("429 discord\nretry-after: 65\n{spent}: 1704067264.57"), "65000 retry-after requests");
    check(&format!("429 discord\nretry-after: 1\n{spent}-after: 0.5"), "1000 retry-after requests");
    check(
        "429 discord\nretry-after: 1337\nx-ratelimit-scope: shared\nx-ratelimit-remaining: 9\nx-ratelimit-reset-after: 6.5",
        "1337000 retry-after",
    );
    check(&format!("429 standard\nretry-after: 6457\n{spent}: 1704067207"), "6457000 retry-after requests");
}

#[test]
fn what_is_kept_is_short_and_printable() {
    assert_eq!(read("200 x\ncf-ray: a\nx-request-id: b").request_id(), Some("b"));
    assert_eq!(read("200 x\ncf-ray: a\nx-request-id: é").request_id(), Some("a"));
    assert_eq!(read(&format!("200 x\nx-request-id: {}", "a".repeat(129))).request_id(), None);
    let reading = read("200 x\nx-ms-spillover-from-deployment: ptu-1\nx-ms-is-spilled-over: True");
    let marks = reading.native_spill_over().unwrap();
    assert_eq!((marks.from_deployment.as_deref(), marks.spilled_over), (Some("ptu-1"), true));
    assert_eq!(read("200 x\nx-ms-is-spilled-over: false").native_spill_over(), None);
    let secret = "429 x\nauthorization: Bearer sk-1\nset-cookie: sk-1\nwww-authenticate: sk-1\n\n{\"error\":{\"message\":\"key sk-1\"}}";
    assert!(!format!("{:?}", read(secret)).contains("sk-1"));
}
