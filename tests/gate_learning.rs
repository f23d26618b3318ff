//! What successes teach the gate: vendors' headers over the wire, and the pace that follows from them on a paused clock.
#![cfg(test)]

mod support;

use std::time::Duration;

use reqwest_admission::gate::{Advice, Gate, ScopeKey};
use reqwest_admission::pace::{LimitOrigin, Limits, TokenEstimate, TokenUsage, UnitState, WaitCause};
use reqwest_admission::reading::Profile;
use reqwest_admission::units::QuotaUnit;
use reqwest_admission::{Admission, CallReport, LatencyBudget, Reading, SpillOver};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use support::{Answer, Origin, ms};
use tokio::time::Instant;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

const URL: &str = "https://api.example/v1/items";

fn scope() -> ScopeKey {
    ScopeKey::new("scope")
}

fn gate(limits: Limits) -> Gate {
    Gate::builder().limits(limits).seed(1).build().unwrap()
}

fn admission(gate: &Gate, vendor: &str) -> Admission {
    let builder = Admission::builder().gate(gate.clone()).draws(|| 0.5).scope_by(|_| scope());
    builder.profile(Profile::named(vendor)).build().unwrap()
}

fn units(gate: &Gate) -> Vec<UnitState> {
    gate.snapshot(Instant::now().into_std()).scopes.remove(0).units
}

fn unit(gate: &Gate, unit: QuotaUnit) -> UnitState {
    units(gate).into_iter().find(|state| state.unit == unit).unwrap()
}

fn advice(gate: &Gate) -> Advice {
    gate.advice(&scope(), Instant::now().into_std()).unwrap()
}

async fn ok(client: &ClientWithMiddleware) {
    assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
}

/// What one unit is to be after one response.
struct Taught {
    unit: QuotaUnit,
    capacity: f64,
    /// Units per second.
    rate: f64,
    remaining: f64,
    /// Whether nothing comes back before the reset.
    window: bool,
}

const fn taught(unit: QuotaUnit, capacity: f64, rate: f64, remaining: f64) -> Taught {
    Taught { unit, capacity, rate, remaining, window: false }
}

/// One success with these headers over the wire, and what the snapshot says then.
async fn teaches(vendor: &str, headers: &[(&str, &str)], expected: &[Taught]) {
    let server = MockServer::start().await;
    let answer = headers
        .iter()
        .fold(ResponseTemplate::new(200), |answer, (name, value)| answer.insert_header(*name, *value));
    Mock::given(any()).respond_with(answer.set_body_string("{}")).mount(&server).await;
    let gate = gate(Limits::new());
    let client = ClientBuilder::new(reqwest::Client::builder().no_proxy().build().unwrap())
        .with(admission(&gate, vendor))
        .build();
    let call = client.post(server.uri()).with_extension(TokenEstimate::new(10, 5));
    assert_eq!(call.send().await.unwrap().text().await.unwrap(), "{}");

    let known: Vec<_> = units(&gate).into_iter().filter(|state| state.capacity.is_some()).collect();
    assert_eq!(known.len(), expected.len(), "{vendor}: {known:?}");
    for (state, taught) in known.iter().zip(expected) {
        assert_eq!(state.unit, taught.unit, "{vendor}");
        assert_eq!(state.origin, Some(LimitOrigin::Headers), "{vendor}");
        assert_eq!(state.capacity, Some(taught.capacity), "{vendor}: {state:?}");
        assert!((state.rate.unwrap() / taught.rate - 1.0).abs() < 1e-9, "{vendor}: {state:?}");
        // It refills while the test runs, however slowly that is.
        let level = state.level.unwrap();
        assert!(level >= taught.remaining - 1e-6 && level <= taught.capacity, "{vendor}: {state:?}");
        if taught.window {
            assert!(state.window_left.is_none_or(|left| left <= taught.remaining), "{vendor}: {state:?}");
        } else {
            assert_eq!(state.window_left, None, "{vendor}");
        }
    }
}

#[tokio::test]
async fn openai_headers_teach_requests_and_tokens() {
    // https://platform.openai.com/docs/guides/rate-limits: the reset is the time to a full bucket.
    let headers = [
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "59"),
        ("x-ratelimit-reset-requests", "1s"),
        ("x-ratelimit-limit-tokens", "150000"),
        ("x-ratelimit-remaining-tokens", "75000"),
        ("x-ratelimit-reset-tokens", "0m30s"),
    ];
    let expected = [
        taught(QuotaUnit::Requests, 60.0, 1.0, 59.0),
        taught(QuotaUnit::Tokens, 150_000.0, 2_500.0, 75_000.0),
    ];
    teaches("openai", &headers, &expected).await;
}

#[tokio::test]
async fn anthropic_headers_teach_requests_input_and_output() {
    // https://docs.anthropic.com/en/api/rate-limits: resets are instants.
    let headers = [
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "49"),
        ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:01Z"),
        ("anthropic-ratelimit-input-tokens-limit", "30000"),
        ("anthropic-ratelimit-input-tokens-remaining", "29000"),
        ("anthropic-ratelimit-input-tokens-reset", "2026-01-01T00:00:02Z"),
        ("anthropic-ratelimit-output-tokens-limit", "6000"),
        ("anthropic-ratelimit-output-tokens-remaining", "5900"),
        ("anthropic-ratelimit-output-tokens-reset", "2026-01-01T00:00:01Z"),
        ("anthropic-ratelimit-tokens-limit", "36000"),
        ("anthropic-ratelimit-tokens-remaining", "34900"),
        ("date", "Thu, 01 Jan 2026 00:00:00 GMT"),
    ];
    let expected = [
        taught(QuotaUnit::Requests, 50.0, 50.0 / 60.0, 49.0),
        taught(QuotaUnit::Tokens, 36_000.0, 600.0, 34_900.0),
        taught(QuotaUnit::InputTokens, 30_000.0, 500.0, 29_000.0),
        taught(QuotaUnit::OutputTokens, 6_000.0, 100.0, 5_900.0),
    ];
    teaches("anthropic", &headers, &expected).await;
}

#[tokio::test]
async fn azure_headers_teach_requests_and_tokens_with_their_renewal_period() {
    let headers = [
        ("x-ratelimit-limit-requests", "10"),
        ("x-ratelimit-remaining-requests", "9"),
        ("x-ratelimit-renewalperiod-requests", "10"),
        ("x-ratelimit-limit-tokens", "50000"),
        ("x-ratelimit-remaining-tokens", "49000"),
        ("x-ratelimit-renewalperiod-tokens", "60"),
    ];
    let expected = [
        taught(QuotaUnit::Requests, 10.0, 1.0, 9.0),
        taught(QuotaUnit::Tokens, 50_000.0, 50_000.0 / 60.0, 49_000.0),
    ];
    teaches("azure-openai", &headers, &expected).await;
}

#[tokio::test]
async fn ietf_headers_teach_a_window() {
    let window = Taught { window: true, ..taught(QuotaUnit::Requests, 100.0, 10.0, 50.0) };
    let headers = [("ratelimit-policy", "\"default\";q=100;w=10"), ("ratelimit", "\"default\";r=50;t=5")];
    teaches("standard", &headers, &[window]).await;
    let window = Taught { window: true, ..taught(QuotaUnit::Requests, 100.0, 10.0, 50.0) };
    let headers =
        [("ratelimit-limit", "100, 100;w=10"), ("ratelimit-remaining", "50"), ("ratelimit-reset", "5")];
    teaches("standard", &headers, &[window]).await;
}

#[test]
fn fields_that_name_no_unit_tell_of_a_window_and_others_of_a_bucket() {
    for (name, value, at_once) in [
        ("x-ratelimit-remaining", "3", true),
        ("ratelimit-remaining", "3", true),
        ("ratelimit", "\"default\";r=3;t=5", true),
        ("x-ratelimit-remaining-requests", "3", false),
        ("x-ratelimit-remaining-tokens", "3", false),
        ("anthropic-ratelimit-input-tokens-remaining", "3", false),
    ] {
        let mut headers = http::HeaderMap::new();
        headers.insert(name, http::HeaderValue::from_static(value));
        let received = std::time::UNIX_EPOCH;
        let reading = Reading::from_parts(http::StatusCode::OK, &headers, None, received);
        assert_eq!(reading.limits().len(), 1, "{name}");
        assert_eq!(
            (reading.limits()[0].remaining, reading.limits()[0].resets_at_once),
            (Some(3), at_once),
            "{name}"
        );
    }
}

/// A token bucket as OpenAI describes its own, with its headers.
struct Bucket {
    capacity: f64,
    /// Requests a second.
    rate: f64,
    level: f64,
    seen: Instant,
}

impl Bucket {
    fn answer(&mut self) -> Answer {
        let now = Instant::now();
        self.level =
            (self.level + now.duration_since(self.seen).as_secs_f64() * self.rate).min(self.capacity);
        self.seen = now;
        let taken = self.level >= 1.0;
        if taken {
            self.level -= 1.0;
        }
        let full = (self.capacity - self.level) / self.rate;
        let answer = if taken {
            Answer::ok()
        } else {
            let wait = ((1.0 - self.level) / self.rate * 1000.0).ceil();
            Answer::status(429).header("retry-after-ms", &wait.to_string())
        };
        answer
            .header("x-ratelimit-limit-requests", &self.capacity.to_string())
            .header("x-ratelimit-remaining-requests", &self.level.floor().to_string())
            .header("x-ratelimit-reset-requests", &format!("{full:.3}s"))
            .after(ms(40))
    }
}

#[tokio::test(start_paused = true)]
async fn the_pace_slows_before_the_first_refusal_and_rises_again() {
    let mut bucket = Bucket { capacity: 40.0, rate: 2.0, level: 40.0, seen: Instant::now() };
    let origin = Origin::new(move |_, _| bucket.answer());
    let gate = gate(Limits::new());
    let client = origin.behind(admission(&gate, "openai"));
    let start = Instant::now();
    // Eight callers that would send 200 calls a second.
    let mut callers = Vec::new();
    for _ in 0..8 {
        let client = client.clone();
        callers.push(tokio::spawn(async move {
            let mut refused = 0;
            while start.elapsed() < Duration::from_secs(60) {
                let report = CallReport::new();
                let call = client.get(URL).with_extension(report.clone());
                refused += u32::from(call.send().await.is_err()) + report.attempts().saturating_sub(1);
            }
            refused
        }));
    }
    tokio::time::sleep(ms(5_000)).await;
    let low = unit(&gate, QuotaUnit::Requests);
    assert!(low.level.unwrap() < 5.0, "{low:?}");
    assert!(advice(&gate).batch_size.unwrap() < 5);
    let mut refused = 0;
    for caller in callers {
        refused += caller.await.unwrap();
    }
    assert_eq!(refused, 0, "paced before it refuses");
    let count = origin.count();
    assert!((140..=166).contains(&count), "{count} of the 160 that the server takes");

    // After a pause the bucket is full again, and what it holds may go at once.
    tokio::time::sleep(ms(30_000)).await;
    ok(&client).await;
    let high = unit(&gate, QuotaUnit::Requests);
    assert!(!high.is_pacing && high.level.unwrap() > 25.0, "{high:?}");
    let start = Instant::now();
    for _ in 0..20 {
        ok(&client).await;
    }
    assert_eq!(start.elapsed(), ms(20 * 40), "nothing but the server's own time");
}

/// A fixed window: so many calls, then none until it begins anew.
#[tokio::test(start_paused = true)]
async fn a_fixed_window_is_used_up_and_never_exceeded() {
    const WINDOW: Duration = Duration::from_secs(10);
    let begin = Instant::now();
    let mut used = (0, 0_u32);
    let origin = Origin::new(move |_, _| {
        let elapsed = begin.elapsed();
        let window = elapsed.as_secs() / WINDOW.as_secs();
        if used.0 != window {
            used = (window, 0);
        }
        used.1 += 1;
        let left = 10_u32.saturating_sub(used.1);
        let reset = (WINDOW.as_millis() as u64 - elapsed.as_millis() as u64 % 10_000).div_ceil(1_000);
        Answer::status(if used.1 > 10 { 429 } else { 200 })
            .header("ratelimit-limit", "10")
            .header("ratelimit-remaining", &left.to_string())
            .header("ratelimit-reset", &reset.to_string())
            .after(ms(20))
    });
    let gate = gate(Limits::new());
    let client = origin.behind(admission(&gate, "standard"));
    ok(&client).await;
    let calls: Vec<_> = (0..39)
        .map(|_| tokio::spawn(client.get(URL).with_extension(LatencyBudget::new(ms(120_000))).send()))
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    assert_eq!(origin.count(), 40, "no refusal");
    assert!(begin.elapsed() < WINDOW * 6, "{:?} for four windows' worth", begin.elapsed());
}

fn stated(answer: Answer, limit: &str, remaining: &str, reset: &str) -> Answer {
    answer
        .header("x-ratelimit-limit-requests", limit)
        .header("x-ratelimit-remaining-requests", remaining)
        .header("x-ratelimit-reset-requests", reset)
}

#[tokio::test(start_paused = true)]
async fn limits_of_a_response_that_was_spilled_over_by_the_service_are_not_learned() {
    let spilled = || {
        stated(Answer::ok(), "10", "0", "60s")
            .header("x-ms-is-spilled-over", "true")
            .header("x-ms-spillover-from-deployment", "provisioned")
    };
    let origin = Origin::in_order([spilled(), spilled(), stated(Answer::ok(), "60", "59", "1s")]);
    let gate = gate(Limits::new());
    let client = origin.behind(admission(&gate, "azure-openai"));
    let start = Instant::now();
    for _ in 0..2 {
        ok(&client).await;
        assert_eq!(unit(&gate, QuotaUnit::Requests).capacity, None);
    }
    ok(&client).await;
    assert_eq!(unit(&gate, QuotaUnit::Requests).capacity, Some(60.0));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_configured_limit_caps_a_learned_one_and_the_lower_holds() {
    for (stated_limit, capacity, rate, origin_of) in
        [("600", 60.0, 1.0, LimitOrigin::Configured), ("30", 30.0, 0.5, LimitOrigin::Headers)]
    {
        let remaining = (stated_limit.parse::<u32>().unwrap() - 1).to_string();
        let origin = Origin::always(move || stated(Answer::ok(), stated_limit, &remaining, "1s"));
        let gate = gate(Limits::new().requests_per_minute(60));
        let client = origin.behind(admission(&gate, "openai"));
        let start = Instant::now();
        ok(&client).await;
        let state = unit(&gate, QuotaUnit::Requests);
        assert_eq!((state.capacity, state.rate), (Some(capacity), Some(rate)));
        assert_eq!(state.origin, Some(origin_of));
        if origin_of == LimitOrigin::Headers {
            continue;
        }
        // A burst of the configured capacity, then its rate, however much the server has left.
        for _ in 0..100 {
            let budget = LatencyBudget::new(ms(120_000));
            client.get(URL).with_extension(budget).send().await.unwrap();
        }
        let took = start.elapsed();
        assert!(took >= ms(41_000) && took <= ms(45_000), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_caller_s_own_making_teach_and_failures_of_the_server_do_not() {
    for (status, learned) in [(404, true), (401, true), (500, false), (502, false)] {
        let origin = Origin::always(move || stated(Answer::status(status), "60", "59", "1s"));
        let gate = gate(Limits::new());
        let client = origin.behind(admission(&gate, "openai"));
        let response = client.post(URL).send().await.unwrap();
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(unit(&gate, QuotaUnit::Requests).capacity.is_some(), learned, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn advice_says_how_large_calls_had_best_be() {
    let origin = Origin::always(|| Answer::ok().after(ms(2_000)));
    let gate = gate(Limits::new().tokens_per_minute(60_000).requests_per_minute(600).concurrency(8));
    assert!(gate.advice(&scope(), Instant::now().into_std()).is_none(), "nobody was here yet");
    let client = origin.behind(admission(&gate, "openai"));
    let report = CallReport::new();
    let call = client.get(URL).with_extension(TokenEstimate::new(8_000, 4_000));
    call.with_extension(report.clone()).send().await.unwrap();
    let first = advice(&gate);
    assert_eq!((first.wait_seconds, first.cause), (0.0, WaitCause::Nothing));
    // 48,000 tokens and what two seconds bring: four calls of that size; one more could write what is left.
    assert_eq!(first.batch_size, Some(4));
    assert_eq!(first.max_output, Some(60_000 - 12_000 + 2_000 - 8_000));
    // Little's law: 1,000 tokens a second, 12,000 a call, two seconds each.
    assert_eq!(first.concurrency, Some(1));
    // It was a small one after all.
    assert!(report.settle(TokenUsage::new(1_000, 1_000)));
    assert!(advice(&gate).max_output > first.max_output);

    gate.close(&scope(), ms(7_000), Instant::now().into_std());
    let closed = advice(&gate);
    assert_eq!((closed.wait_seconds, closed.cause), (7.0, WaitCause::CoolDown));
    assert_eq!(closed.batch_size, Some(0));
    // Printing is what it is for.
    assert!(serde_json::to_string(&closed).unwrap().contains("cool-down"));
}

#[tokio::test(start_paused = true)]
async fn what_is_learned_of_one_model_does_not_hold_another() {
    let origin = Origin::new(|_, request| match request.url().path().contains("small") {
        true => stated(Answer::ok(), "5", "0", "60s"),
        false => Answer::ok(),
    });
    let client = origin.behind(Admission::default());
    let call = |model: &str| {
        let url = format!("https://api.example/v1beta/models/{model}:generateContent");
        client.post(url).with_extension(LatencyBudget::new(ms(1_000))).send()
    };
    assert_eq!(call("small").await.unwrap().status(), 200);
    assert!(SpillOver::of(&call("small").await).is_some());
    for _ in 0..50 {
        let start = Instant::now();
        assert_eq!(call("large").await.unwrap().status(), 200);
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
