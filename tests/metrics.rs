//! Counters and histograms of the feature `metrics`.
#![cfg(test)]

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
    // Half of the jitter: 5 % of the wait. The backoff after the 503 is not advice.
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
