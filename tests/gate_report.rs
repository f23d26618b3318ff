//! What a caller has learned elsewhere does to a scope what it would do in a response. Paused clock, fake origin.
#![cfg(test)]

mod support;

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest_admission::gate::{Gate, ScopeKey, ScopeSnapshot};
use reqwest_admission::reading::{HintSource, Terminal};
use reqwest_admission::units::QuotaUnit;
use reqwest_admission::{Admission, LatencyBudget, Reading, Reason, SpillOver};
use reqwest_middleware::ClientWithMiddleware;
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const URL: &str = "https://api.example/v1/items";

fn scope() -> ScopeKey {
    ScopeKey::new("scope")
}

fn client(origin: &Origin) -> (Gate, ClientWithMiddleware) {
    let gate = Gate::builder().seed(1).build().unwrap();
    let admission = Admission::builder().gate(gate.clone()).draws(|| 0.0).scope_by(|_| scope());
    (gate, origin.behind(admission.build().unwrap()))
}

fn read(status: u16, fields: &[(&str, &str)], body: Option<&str>) -> Reading {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let status = StatusCode::from_u16(status).unwrap();
    Reading::from_parts(status, &headers, body.map(str::as_bytes), SystemTime::UNIX_EPOCH)
}

/// A refusal that somebody else has understood.
fn waits(wait: Duration) -> Reading {
    read(200, &[], None).refused(true).with_wait(wait, HintSource::Body("status.retry_in".into()))
}

fn report(gate: &Gate, reading: &Reading) {
    gate.report(&scope(), reading, Instant::now().into_std());
}

fn state(gate: &Gate) -> ScopeSnapshot {
    gate.snapshot(Instant::now().into_std()).scopes.remove(0)
}

fn closed_for(gate: &Gate) -> f64 {
    state(gate).closed_for_seconds
}

/// How long a call takes.
async fn call(client: &ClientWithMiddleware) -> Duration {
    let start = Instant::now();
    let call = client.get(URL).with_extension(LatencyBudget::new(ms(600_000)));
    assert_eq!(call.send().await.unwrap().status(), 200);
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_report_closes_the_scope_for_other_calls() {
    let origin = Origin::always(Answer::ok);
    let (gate, client) = client(&origin);
    let event = r#"{"error":{"code":"rate_limit_exceeded","message":"Please try again in 20s."}}"#;
    report(&gate, &read(429, &[], Some(event)));
    assert_eq!(closed_for(&gate), 20.0);
    let hasty = client.get(URL).with_extension(LatencyBudget::new(ms(5_000))).send().await;
    let spill = SpillOver::of(&hasty).unwrap();
    assert_eq!((spill.reason(), spill.attempts()), (Reason::BudgetExceeded, 0));
    assert!(call(&client).await >= ms(20_000));
    assert_eq!(origin.count(), 1, "nothing was sent before");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_already_waits_for_a_later_report_too() {
    let origin = Origin::always(Answer::ok);
    let (gate, client) = client(&origin);
    report(&gate, &waits(ms(2_000)));
    let waiting = tokio::spawn(async move { call(&client).await });
    tokio::time::sleep(ms(1_000)).await;
    report(&gate, &waits(ms(9_000)));
    assert!(waiting.await.unwrap() >= ms(10_000));
}

#[tokio::test(start_paused = true)]
async fn a_shorter_report_never_opens_a_scope() {
    let origin = Origin::in_order([Answer::status(429).header("retry-after", "60")]);
    let (gate, client) = client(&origin);
    let first = client.get(URL).with_extension(LatencyBudget::new(ms(1_000))).send().await;
    assert!(SpillOver::of(&first).is_some());
    tokio::time::sleep(ms(10_000)).await;
    report(&gate, &waits(ms(5_000)));
    report(&gate, &read(200, &[("x-ratelimit-remaining", "99"), ("x-ratelimit-limit", "100")], None));
    report(&gate, &read(429, &[("retry-after", "0")], None));
    assert!(closed_for(&gate) >= 50.0);
    assert!(call(&client).await >= ms(50_000));
}

#[tokio::test(start_paused = true)]
async fn a_report_of_a_success_teaches_limits_as_a_response_does() {
    let fields = [
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "30"),
        ("x-ratelimit-reset-requests", "30s"),
        ("x-ratelimit-limit-tokens", "150000"),
        ("x-ratelimit-remaining-tokens", "75000"),
        ("x-ratelimit-reset-tokens", "30s"),
    ];
    let answer = move || fields.iter().fold(Answer::ok(), |answer, (name, value)| answer.header(name, value));
    let (heard, client) = client(&Origin::always(answer));
    call(&client).await;
    let told = Gate::builder().seed(1).build().unwrap();
    report(&told, &read(200, &fields, None));
    let taught = |gate: &Gate| {
        let units = state(gate).units.into_iter().filter(|unit| unit.capacity.is_some());
        units.map(|unit| (unit.unit, unit.capacity, unit.rate, unit.level, unit.origin)).collect::<Vec<_>>()
    };
    assert_eq!(taught(&told), taught(&heard));
    assert_eq!(taught(&told).len(), 2);
    assert_eq!((state(&told).in_flight, closed_for(&told)), (0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_reported_window_that_is_used_up_holds_calls_back() {
    let origin = Origin::always(Answer::ok);
    let (gate, client) = client(&origin);
    let fields = [("x-ratelimit-limit", "10"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "30")];
    report(&gate, &read(200, &fields, None));
    assert!(call(&client).await >= ms(30_000));
}

#[tokio::test(start_paused = true)]
async fn what_says_nothing_of_the_scope_changes_nothing() {
    let origin = Origin::always(Answer::ok);
    let (gate, client) = client(&origin);
    call(&client).await;
    let before = state(&gate);
    for reading in [
        read(500, &[("retry-after", "60")], None),
        read(503, &[], None),
        read(404, &[], None),
        read(402, &[], Some(r#"{"error":{"code":"insufficient_quota"}}"#)),
        read(429, &[("retry-after", "60")], None).with_terminal(Some(Terminal::QuotaExhausted)),
        read(429, &[("retry-after", "60")], None).refused(false),
    ] {
        report(&gate, &reading);
        assert_eq!(closed_for(&gate), 0.0, "{reading:?}");
        assert_eq!(state(&gate).in_flight, before.in_flight, "{reading:?}");
    }
    assert_eq!(call(&client).await, Duration::ZERO);
    // A directive is about one call; the moment beside it is everybody's.
    report(&gate, &read(429, &[("retry-after", "60"), ("x-should-retry", "false")], None));
    assert_eq!(closed_for(&gate), 60.0);
}

#[tokio::test(start_paused = true)]
async fn too_many_at_once_lowers_the_concurrency_limit() {
    let (gate, _) = client(&Origin::always(Answer::ok));
    report(&gate, &waits(ms(500)).with_exhausted(QuotaUnit::Concurrency));
    assert!(closed_for(&gate) > 0.0);
    assert!(state(&gate).concurrency_learned.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_hostile_report_is_bounded() {
    let origin = Origin::always(Answer::ok);
    let (gate, client) = client(&origin);
    let huge = u64::MAX.to_string();
    for _ in 0..1_000 {
        report(&gate, &read(200, &[("x-ratelimit-limit", &huge), ("x-ratelimit-remaining", &huge)], None));
        report(&gate, &read(200, &[("x-ratelimit-limit", "0"), ("x-ratelimit-remaining", "-9")], None));
    }
    assert_eq!((state(&gate).in_flight, closed_for(&gate)), (0, 0.0));
    report(&gate, &waits(Duration::MAX));
    report(&gate, &read(429, &[("retry-after", &huge)], None));
    let spill = client.get(URL).send().await;
    assert_eq!(SpillOver::of(&spill).unwrap().reason(), Reason::BudgetExceeded);
    assert!(closed_for(&gate).is_finite() && origin.count() == 0);
    // Scopes are bounded, too.
    let small = Gate::builder().max_scopes(2).build().unwrap();
    for name in 0..100 {
        small.report(&ScopeKey::new(&format!("scope-{name}")), &waits(ms(60_000)), Instant::now().into_std());
    }
    assert_eq!(small.scopes(), 2);
}
