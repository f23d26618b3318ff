//! Events and spans: names, fields, levels and order, exactly as `observe` documents them.
#![cfg(test)]

#[path = "support/capture.rs"]
mod capture;
#[path = "support/failures.rs"]
mod failures;
mod support;

use std::collections::BTreeSet;

use capture::{Capture, Told};
use reqwest_admission::gate::ScopeKey;
use reqwest_admission::observe::TARGET;
use reqwest_admission::{Admission, AdmissionBuilder, LatencyBudget};
use serde_json::{Value, json};
use support::{Answer, Origin, ms};
use tracing::Level;

const URL: &str = "http://api.example/v1/items?key=SECRET";

/// Half of the jitter, always.
fn half() -> AdmissionBuilder {
    Admission::builder().draws(|| 0.5)
}

fn fields(told: &Told) -> Value {
    told.fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The fields that the documentation lists for an event or span.
fn documented(name: &str) -> BTreeSet<String> {
    let lines = include_str!("../src/observe.rs").lines();
    let row =
        lines.filter(|line| line.starts_with("//! |")).find(|line| line.contains(&format!("| `{name}` |")));
    let list = row.unwrap().trim_end_matches(['|', ' ']).rsplit('|').next().unwrap();
    list.split(',').map(|field| field.trim().trim_matches('`').to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn one_event_per_decision_with_both_waits_source_attempt_status_request_id_and_reason() {
    let (capture, _guard) = Capture::start();
    let origin = Origin::in_order([
        Answer::status(429).header("retry-after-ms", "1000").header("x-request-id", "req_1"),
        Answer::status(503),
        Answer::status(429).header("retry-after", "60").header("x-request-id", "req_3").body("{}"),
    ]);
    let client = origin.behind(half().build().unwrap());
    let _ = client.get(URL).send().await;
    let events = capture.events("admission decision");
    assert_eq!(
        events.iter().map(fields).collect::<Vec<_>>(),
        [
            json!({
                "decision": "wait", "attempt": 1, "status": 429, "raw_wait_ms": 1000.0, "wait_ms": 1050.0,
                "source": "retry-after-ms", "request_id": "req_1",
            }),
            // No advice: full jitter on the second step is the wait, raw and planned.
            json!({ "decision": "wait", "attempt": 2, "status": 503, "raw_wait_ms": 500.0, "wait_ms": 500.0 }),
            json!({
                "decision": "spill_over", "reason": "budget_exceeded", "attempt": 3, "status": 429,
                "raw_wait_ms": 60000.0, "source": "retry-after", "request_id": "req_3",
            }),
        ]
    );
    assert_eq!(
        events.iter().map(|event| event.level).collect::<Vec<_>>(),
        [Level::INFO, Level::INFO, Level::WARN]
    );
    assert!(events.iter().all(|event| event.target == TARGET && event.parent == Some("admission call")));
}

#[tokio::test(start_paused = true)]
async fn an_admission_is_a_debug_event() {
    let (capture, _guard) = Capture::start();
    let origin = Origin::in_order([Answer::ok(), Answer::status(404).header("x-request-id", "req_9")]);
    let client = origin.behind(Admission::default());
    for _ in 0..2 {
        client.get(URL).send().await.unwrap();
    }
    let events = capture.events("admission decision");
    assert!(events.iter().all(|event| event.level == Level::DEBUG));
    assert_eq!(
        events.iter().map(fields).collect::<Vec<_>>(),
        [
            json!({ "decision": "admit", "attempt": 1, "status": 200 }),
            json!({ "decision": "admit", "attempt": 1, "status": 404, "request_id": "req_9" }),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_without_a_response_is_named() {
    let (capture, _guard) = Capture::start();
    let origin = Origin::new(|number, _| match number {
        0 => Answer::error(failures::no_connection().into()),
        1 => Answer::error(failures::lost_connection().into()),
        _ => Answer::error(failures::bad_request().into()),
    });
    let _ = origin.behind(half().build().unwrap()).get(URL).send().await;
    let events = capture.events("admission decision");
    assert_eq!(
        events.iter().map(fields).collect::<Vec<_>>(),
        [
            json!({
                "decision": "wait", "attempt": 1, "failure": "connect", "raw_wait_ms": 250.0, "wait_ms": 250.0,
            }),
            json!({
                "decision": "wait", "attempt": 2, "failure": "unknown", "raw_wait_ms": 500.0, "wait_ms": 500.0,
            }),
            json!({ "decision": "admit", "attempt": 3, "failure": "permanent" }),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_cut_off_is_an_unknown_failure_and_a_spill_over() {
    let (capture, _guard) = Capture::start();
    let origin = Origin::always(|| Answer::ok().after(ms(60_000)));
    let _ = origin.behind(Admission::default()).get(URL).send().await;
    let events = capture.events("admission decision");
    assert_eq!(
        events.iter().map(fields).collect::<Vec<_>>(),
        [json!({ "decision": "spill_over", "reason": "no_response", "attempt": 1, "failure": "unknown" })]
    );
    assert_eq!(events[0].level, Level::WARN);
}

#[tokio::test(start_paused = true)]
async fn one_span_per_logical_call_with_method_host_attempts_and_decision() {
    let (capture, _guard) = Capture::start();
    let origin = Origin::in_order([Answer::status(429), Answer::ok(), Answer::status(429)]);
    let client = origin.behind(Admission::default());
    client.get(URL).send().await.unwrap();
    // In a scope of its own: the first is paced by now, and would turn a call without any time away.
    let call = client.post(URL).with_extension(ScopeKey::new("other"));
    let _ = call.with_extension(LatencyBudget::new(ms(0))).send().await;
    let spans = capture.spans();
    assert_eq!(
        spans.iter().map(fields).collect::<Vec<_>>(),
        [
            json!({ "method": "GET", "host": "api.example", "attempts": 2, "decision": "admit" }),
            json!({
                "method": "POST", "host": "api.example", "attempts": 1, "decision": "spill_over",
                "reason": "budget_exceeded",
            }),
        ]
    );
    for span in spans {
        assert_eq!(
            (span.name.as_str(), span.target.as_str(), span.level),
            ("admission call", TARGET, Level::INFO)
        );
        assert!(span.closed);
    }
}

#[tokio::test(start_paused = true)]
async fn the_span_of_a_call_that_is_dropped_is_closed() {
    let (capture, _guard) = Capture::start();
    let origin = Origin::always(|| Answer::status(429).header("retry-after", "9"));
    let client = origin.behind(Admission::default());
    assert!(tokio::time::timeout(ms(100), client.get(URL).send()).await.is_err());
    let spans = capture.spans();
    assert_eq!(spans.len(), 1);
    assert!(spans[0].closed && spans[0].get("decision").is_none());
}

#[tokio::test(start_paused = true)]
async fn what_the_inner_layers_tell_is_told_within_the_span_and_the_wait_is_not() {
    let (capture, _guard) = Capture::start();
    let origin = Origin::new(|number, _| {
        tracing::info!("inner");
        if number == 0 { Answer::status(429).header("retry-after", "1") } else { Answer::ok() }
    });
    let client = origin.behind(Admission::default());
    let other = async {
        tokio::time::sleep(ms(500)).await;
        tracing::info!("other");
    };
    let _ = tokio::join!(client.get(URL).send(), other);
    assert!(capture.events("inner").iter().all(|event| event.parent == Some("admission call")));
    assert_eq!(capture.events("inner").len(), 2);
    assert_eq!(capture.events("other")[0].parent, None);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_a_warning_of_its_own() {
    let (capture, _guard) = Capture::start();
    let origin = Origin::in_order([Answer::ok().header("x-envoy-attempt-count", "3")]);
    let client = origin.behind(Admission::default());
    client.get(URL).header("x-stainless-retry-count", "1").send().await.unwrap();
    let events = capture.events("retry conflict");
    assert_eq!(
        events.iter().map(fields).collect::<Vec<_>>(),
        [json!({ "kind": "announced_repeat", "count": 2 }), json!({ "kind": "proxy_repeat", "count": 3 })]
    );
    assert!(events.iter().all(|event| event.level == Level::WARN && event.target == TARGET));

    let (capture, _guard) = Capture::start();
    let nested = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
        .with(Admission::default())
        .with(Admission::default())
        .with(Origin::always(Answer::ok))
        .build();
    assert!(nested.get(URL).send().await.is_err());
    assert_eq!(
        capture.events("retry conflict").iter().map(fields).collect::<Vec<_>>(),
        [json!({
            "kind": "nested_admission",
        })]
    );
}

#[tokio::test(start_paused = true)]
async fn exactly_the_documented_fields_are_told() {
    let (capture, _guard) = Capture::start();
    let origin = Origin::new(|number, _| match number {
        0 => Answer::error(failures::no_connection().into()),
        1 => Answer::status(429).header("retry-after", "1").header("x-request-id", "r"),
        _ => Answer::status(429).header("retry-after", "99").header("x-envoy-attempt-count", "3"),
    });
    let _ = origin.behind(Admission::default()).get(URL).send().await;
    for told in capture.all() {
        let known = documented(&told.name);
        assert!(told.fields.keys().all(|field| known.contains(*field)), "{told:?}");
    }
    let all = |told: Vec<Told>| -> BTreeSet<String> {
        told.iter().flat_map(|told| told.fields.keys().map(|field| (*field).to_owned())).collect()
    };
    assert_eq!(all(capture.events("admission decision")), documented("admission decision"));
    assert_eq!(all(capture.spans()), documented("admission call"));
}

/// Takes part in nothing of this crate's, and fails if it is told of it all the same.
struct Uninterested;

impl tracing::Subscriber for Uninterested {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        !metadata.target().starts_with(TARGET)
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        assert!(!span.metadata().target().starts_with(TARGET));
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        panic!("{values:?}");
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        assert!(!event.metadata().target().starts_with(TARGET));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_to_a_subscriber_that_does_not_want_it() {
    capture::prepare();
    let _guard = tracing::subscriber::set_default(Uninterested);
    let origin = Origin::in_order([
        Answer::status(429).header("retry-after", "1").header("x-envoy-attempt-count", "3"),
        Answer::ok(),
        Answer::status(429).header("retry-after", "99"),
    ]);
    let client = origin.behind(Admission::default());
    assert!(client.get(URL).send().await.is_ok());
    assert!(client.get(URL).send().await.is_err());
}
