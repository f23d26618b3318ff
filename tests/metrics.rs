//! Counters and histograms of the feature `metrics`.
#![cfg(test)]

#[path = "support/failures.rs"]
mod failures;
mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use reqwest_admission::{Admission, CallReport, LatencyBudget};
use reqwest_middleware::ClientBuilder;
use support::{Answer, Origin};

/// What was recorded while `test` ran on a paused clock: `name{label=value,..}` and the value.
fn recorded(test: impl Future<Output = ()>) -> BTreeMap<String, DebugValue> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(test));
    let mut found = BTreeMap::new();
    for (key, unit, description, value) in snapshotter.snapshot().into_vec() {
        assert!(unit.is_none() && description.is_none());
        let (kind, key) = key.into_parts();
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        assert_eq!(kind == MetricKind::Histogram, name.contains("_seconds"), "{name}");
        found.insert(name, value);
    }
    found
}

fn count(found: &BTreeMap<String, DebugValue>, name: &str) -> u64 {
    match found.get(name) {
        Some(DebugValue::Counter(value)) => *value,
        None => 0,
        Some(other) => panic!("{other:?}"),
    }
}

fn values(found: &BTreeMap<String, DebugValue>, name: &str) -> Vec<f64> {
    match found.get(name) {
        Some(DebugValue::Histogram(values)) => values.iter().map(|value| value.into_inner()).collect(),
        None => Vec::new(),
        Some(other) => panic!("{other:?}"),
    }
}

#[test]
fn decisions_responses_and_waits_are_counted() {
    let found = recorded(async {
        let refused = || Answer::status(429).header("retry-after", "2");
        let origin = Origin::in_order([refused(), Answer::status(503), Answer::ok(), refused()]);
        let client = origin.behind(Admission::builder().draws(|| 0.5).build().unwrap());
        client.get("http://api.example/a?key=SECRET").send().await.unwrap();
        let call =
            client.get("http://api.example/b").with_extension(LatencyBudget::new(Duration::from_secs(1)));
        call.send().await.unwrap_err();
    });
    let decisions = |labels| count(&found, &format!("reqwest_admission_decisions_total{{{labels}}}"));
    assert_eq!(decisions("decision=wait,reason="), 2, "{found:?}");
    assert_eq!(decisions("decision=admit,reason="), 1);
    assert_eq!(decisions("decision=spill_over,reason=budget_exceeded"), 1);
    for (status, times) in [("429", 2), ("503", 1), ("200", 1)] {
        assert_eq!(count(&found, &format!("reqwest_admission_responses_total{{status={status}}}")), times);
    }
    // As long as they really were. Half of the jitter: 5 % of the wait. The backoff after the 503 is not advice.
    assert_eq!(values(&found, "reqwest_admission_wait_seconds{}"), [2.1, 0.5]);
    assert_eq!(values(&found, "reqwest_admission_advised_wait_seconds{}"), [2.0, 2.0]);
    assert!(!format!("{found:?}").contains("SECRET"));
}

#[test]
fn conflicts_are_counted_by_kind() {
    let found = recorded(async {
        let origin = Origin::always(|| Answer::ok().header("x-envoy-attempt-count", "2"));
        let stack = || ClientBuilder::new(reqwest::Client::new()).with(Admission::default());
        let report = CallReport::new();
        let client = stack().with(origin.clone()).build();
        let call = client.get("http://api.example/").header("x-stainless-retry-count", "2");
        call.with_extension(report.clone()).send().await.unwrap();
        assert_eq!(report.conflicts().len(), 2);
        let nested = stack().with(Admission::default()).with(origin).build();
        nested.get("http://api.example/").send().await.unwrap_err();
    });
    for kind in ["announced_repeat", "proxy_repeat", "nested_admission"] {
        let name = format!("reqwest_admission_retry_conflicts_total{{kind={kind}}}");
        assert_eq!(count(&found, &name), 1, "{found:?}");
    }
}

/// What is told before a wait is a plan; the histogram has what came of it.
#[test]
fn the_histogram_of_waits_has_what_was_really_waited() {
    let reports: Vec<CallReport> = (0..8).map(|_| CallReport::new()).collect();
    let found = recorded(async {
        let refused = || Answer::status(429).header("retry-after", "1").after(Duration::from_millis(50));
        let origin = Origin::new(move |n, _| if n < 8 { refused() } else { Answer::ok() });
        let client = origin.behind(Admission::builder().seed(3).build().unwrap());
        let call = |report: &CallReport| {
            tokio::spawn(client.get("http://api.example/").with_extension(report.clone()).send())
        };
        for call in reports.iter().map(call).collect::<Vec<_>>() {
            call.await.unwrap().unwrap();
        }
    });
    let mut waits = values(&found, "reqwest_admission_wait_seconds{}");
    let mut real: Vec<_> = reports.iter().map(|report| report.waited().as_secs_f64()).collect();
    waits.sort_by(f64::total_cmp);
    real.sort_by(f64::total_cmp);
    assert_eq!(waits, real);
    let planned = reports.iter().filter_map(|report| report.details()[0].wait()).max().unwrap();
    assert!(waits[7] > planned.as_secs_f64(), "{waits:?}");
}

/// One decision each, however the call comes to its end.
#[test]
fn a_call_that_ends_is_counted_once() {
    let found = recorded(async {
        let down = || Answer::error(failures::no_connection().into());
        let answer = move |_, request: &reqwest::Request| match request.url().host_str() {
            Some("primary.example") => Answer::status(429).header("retry-after", "99"),
            _ => down(),
        };
        let standby = reqwest_admission::Deployment::new("standby", "https://standby.example").api_key("a");
        let admission = Admission::builder().primary("https://primary.example").spill_to(standby);
        let client = Origin::new(answer).behind(admission.build().unwrap());
        client.get("https://primary.example/").send().await.unwrap_err();
        let slow =
            Origin::always(|| Answer::ok().after(Duration::from_secs(99))).behind(Admission::default());
        slow.get("https://slow.example/").send().await.unwrap_err();
    });
    let decisions = |reason| {
        count(&found, &format!("reqwest_admission_decisions_total{{decision=spill_over,reason={reason}}}"))
    };
    assert_eq!((decisions("budget_exceeded"), decisions("unreachable"), decisions("no_response")), (1, 1, 1));
}
