//! Records that ask for more than a decision about one call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use reqwest_admission::decision::{Call, Decision, Outcome, decide};
use reqwest_admission::jitter::Draw;
use reqwest_admission::observe::DecisionEvent;
use reqwest_admission::policy::RetryBudgetPolicy;
use reqwest_admission::{Admission, AdmissionPolicy, CallReport, Reading, Reason, SpillOver};
use tokio::time::Instant;

use super::capture::Capture;
use super::rulings::{always, answer, url};
use super::support::{Answer, Origin, ms};
use super::{Incident, Ruling, incident};

pub(super) async fn hold(record: &Incident) {
    assert!(matches!(&record.decision, Ruling::Invariant { check } if !check.is_empty()));
    match record.id.as_str() {
        "B015" => jitter_never_shortens_advice(record).await,
        "B027" => nothing_is_sent_after_cancellation(record).await,
        "B034" => a_date_that_is_none_is_as_if_absent(record).await,
        "B058" => a_huge_sentence_is_harmless(record).await,
        "B060" => backoff_is_finite_for_any_attempt(record),
        "B062" => zeros_wait_a_doubling_floor(record).await,
        "B064" => every_send_is_counted(record).await,
        "B066" => every_answer_is_looked_at_again(record).await,
        "B098" => the_signal_counts_the_sends(record).await,
        "B108" => a_refusal_of_access_without_headers_closes_nothing(record).await,
        "B109" => a_call_that_waits_holds_up_no_other().await,
        "B110" => waits_pass_in_parallel().await,
        "B131" => keys_are_equal_over_attempts_and_differ_between_calls(record).await,
        "B133" => an_outage_is_answered_with_a_share_of_resends(record).await,
        "B134" => resends_are_charged_when_they_are_decided(record).await,
        "B146" => no_text_has_the_key_of_the_query(record).await,
        "B148" => no_event_has_text_of_the_body(record).await,
        _ => super::gate::hold(record).await,
    }
}

async fn jitter_never_shortens_advice(record: &Incident) {
    for _ in 0..50 {
        let origin = Origin::in_order([answer(record)]);
        let client = origin.behind(Admission::default());
        let start = Instant::now();
        client.get(url(record)).send().await.unwrap();
        assert!(origin.times(start)[1] >= ms(1000));
    }
}

async fn nothing_is_sent_after_cancellation(record: &Incident) {
    let origin = always(record);
    let client = origin.behind(Admission::default());
    let aborted = tokio::time::timeout(ms(500), client.get(url(record)).send()).await;
    assert!(aborted.is_err());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(origin.count(), 1);
}

async fn a_date_that_is_none_is_as_if_absent(record: &Incident) {
    for draw in [0.0, 0.5, 0.99] {
        let mut gaps = Vec::new();
        for first in [answer(record), Answer::status(429)] {
            let origin = Origin::in_order([first]);
            let client = origin.behind(Admission::builder().draws(move || draw).build().unwrap());
            let start = Instant::now();
            client.get(url(record)).send().await.unwrap();
            gaps.push(origin.times(start)[1]);
        }
        assert_eq!(gaps[0], gaps[1]);
        assert!(gaps[0] >= AdmissionPolicy::default().backoff().floor);
    }
}

async fn a_huge_sentence_is_harmless(record: &Incident) {
    let padding = "9".repeat(1 << 20);
    let huge = record.body.clone().unwrap().replace("99999999999999999999", &padding);
    for body in [record.body.clone().unwrap(), huge] {
        let origin = Origin::always(move || Answer::status(429).body(body.clone()));
        let outcome = origin.behind(Admission::default()).get(url(record)).send().await;
        // Own backoff until the attempts are over, or too long a wait: no other end.
        let spill = SpillOver::of(&outcome).unwrap();
        match spill.reason() {
            Reason::AttemptsExhausted => assert_eq!((spill.advised_wait(), origin.count()), (None, 6)),
            Reason::BudgetExceeded => assert_eq!(origin.count(), 1),
            other => panic!("{other:?}"),
        }
    }
}

fn backoff_is_finite_for_any_attempt(record: &Incident) {
    let policy = AdmissionPolicy::builder().max_attempts(100).build().unwrap();
    let backoff = policy.backoff();
    let status = StatusCode::from_u16(record.status.unwrap()).unwrap();
    let reading = Reading::from_parts(status, &HeaderMap::new(), None, std::time::SystemTime::now());
    let now = std::time::Instant::now();
    for attempt in (0..200).chain([1 << 16, i32::MAX.unsigned_abs(), u32::MAX - 1, u32::MAX]) {
        for draw in [0.0, 0.5, 1.0].map(Draw::new) {
            let call = Call::new(now + Duration::from_secs(3600)).attempts(attempt);
            match decide(&policy, Outcome::Response(&reading), &call, now, draw) {
                Decision::Wait { until, wait, .. } => {
                    assert!(attempt < 100 && until <= now + backoff.cap && wait >= backoff.floor);
                }
                decision => assert_eq!(decision, Decision::SpillOver(Reason::AttemptsExhausted)),
            }
        }
    }
}

async fn zeros_wait_a_doubling_floor(record: &Incident) {
    let origin = Origin::in_order((0..3).map(|_| answer(record)));
    let client = origin.behind(Admission::default());
    let start = Instant::now();
    client.get(url(record)).send().await.unwrap();
    assert!(start.elapsed() >= AdmissionPolicy::default().backoff().floor * (1 + 2 + 4));
    assert_eq!(origin.count(), 4);
}

async fn every_send_is_counted(record: &Incident) {
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let observer = move |event: &DecisionEvent<'_>| {
        assert_eq!(count.fetch_add(1, Ordering::Relaxed) + 1, event.attempt as usize);
    };
    let origin = always(record);
    let client = origin.behind(Admission::builder().observer(observer).build().unwrap());
    let report = CallReport::new();
    let outcome = client.get(url(record)).with_extension(report.clone()).send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    let sends = origin.count();
    assert_eq!(sends, 6);
    assert_eq!([spill.attempts() as usize, report.attempts() as usize, report.details().len()], [sends; 3]);
    assert_eq!(told.load(Ordering::Relaxed), sends);
}

async fn every_answer_is_looked_at_again(record: &Incident) {
    let steps = record.steps.clone().unwrap();
    let count = steps.len();
    let origin = Origin::in_order(steps.into_iter().map(|step| {
        let answer = Answer::status(step.status);
        step.headers.iter().fold(answer, |answer, (name, value)| answer.header(name, value))
    }));
    let response = origin.behind(Admission::default()).get(url(record)).send().await.unwrap();
    assert_eq!((response.status().as_u16(), origin.count()), (200, count));
}

async fn the_signal_counts_the_sends(record: &Incident) {
    let origin = always(record);
    let client = origin.behind(Admission::default());
    let start = Instant::now();
    let outcome = client.get(url(record)).send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!(spill.attempts() as usize, origin.count());
    assert_eq!(origin.count(), 6);
    assert_eq!(spill.reason(), Reason::AttemptsExhausted);
    assert!(spill.waited() >= ms(10_000));
    let latencies = start.elapsed() - spill.waited();
    assert!(latencies < ms(200), "{latencies:?}");
    let text = spill.to_string();
    assert!(
        text.contains("6 attempt") && text.contains("attempts are used") && text.contains("429"),
        "{text}"
    );
}

async fn a_refusal_of_access_without_headers_closes_nothing(record: &Incident) {
    let origin = always(record);
    let client = origin.behind(Admission::default());
    let start = Instant::now();
    for sends in 1..=20 {
        let response = client.get(url(record)).send().await.unwrap();
        assert_eq!((response.status().as_u16(), origin.count()), (403, sends));
    }
    assert!(start.elapsed() <= ms(20 * 20));
}

async fn a_call_that_waits_holds_up_no_other() {
    let origin = Origin::new(|_, request| match request.url().host_str() {
        Some("a.example") => Answer::status(429).header("retry-after", "5"),
        _ => Answer::ok(),
    });
    let client = origin.behind(Admission::default());
    let waiting = tokio::spawn(client.get("http://a.example/").send());
    tokio::time::sleep(ms(10)).await;
    assert_eq!(origin.count(), 1);
    let start = Instant::now();
    client.get("http://b.example/").send().await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    waiting.abort();
}

async fn waits_pass_in_parallel() {
    let mut refused = std::collections::HashSet::new();
    let origin = Origin::new(move |_, request| match refused.insert(request.url().to_string()) {
        true => Answer::status(429).header("retry-after", "1"),
        false => Answer::ok(),
    });
    let client = origin.behind(Admission::default());
    let start = Instant::now();
    let calls: Vec<_> =
        (0..50).map(|n| tokio::spawn(client.get(format!("http://host-{n}.example/")).send())).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    assert!(start.elapsed() <= ms(1101), "{:?}", start.elapsed());
    assert_eq!(origin.count(), 100);
}

async fn keys_are_equal_over_attempts_and_differ_between_calls(record: &Incident) {
    let policy = AdmissionPolicy::builder().mint_idempotency_key(true).build().unwrap();
    let admission = Admission::builder().policy(policy).build().unwrap();
    let mut keys = std::collections::HashSet::new();
    for _ in 0..20 {
        let record = record.clone();
        let origin = Origin::in_order((0..3).map(|_| answer(&record)));
        let client = origin.behind(admission.clone());
        client.post(url(&record)).body("the same bytes").send().await.unwrap();
        let seen = origin.seen();
        assert_eq!(seen.len(), 4);
        let key = seen[0].headers["idempotency-key"].clone();
        assert!(seen.iter().all(|seen| seen.headers["idempotency-key"] == key));
        assert!(keys.insert(key), "two calls share a key");
    }
}

/// A client that is told to re-send a tenth of its calls and one a second.
fn thrifty() -> (Admission, RetryBudgetPolicy) {
    let budget = RetryBudgetPolicy::new(0.1, 1, Duration::from_secs(10)).unwrap();
    let policy = AdmissionPolicy::builder().retry_budget(budget).build().unwrap();
    (Admission::builder().policy(policy).build().unwrap(), budget)
}

async fn an_outage_is_answered_with_a_share_of_resends(record: &Incident) {
    let origin = always(record);
    let (admission, budget) = thrifty();
    let client = origin.behind(admission);
    let start = Instant::now();
    let mut calls = Vec::new();
    while start.elapsed() < Duration::from_secs(60) {
        calls.push(tokio::spawn(client.get(url(record)).send()));
        tokio::time::sleep(ms(50)).await;
    }
    let count = calls.len();
    for call in calls {
        assert!(SpillOver::of(&call.await.unwrap()).is_some());
    }
    // The reserve of a window at the start, and one for each further window begun.
    let reserve = budget.minimum_per_second() as usize * 10 * (1 + 60_usize.div_ceil(9));
    assert!(origin.count() <= count + count / 10 + reserve, "{} sends for {count} calls", origin.count());
    assert!(origin.count() > count + count / 20, "the budget forbids all repeats");
}

async fn resends_are_charged_when_they_are_decided(record: &Incident) {
    let origin = always(record);
    let (admission, _) = thrifty();
    let client = origin.behind(admission);
    let calls: Vec<_> = (0..1000).map(|_| tokio::spawn(client.get(url(record)).send())).collect();
    let mut spent = 0;
    for call in calls {
        let outcome = call.await.unwrap();
        spent += usize::from(SpillOver::of(&outcome).unwrap().reason() == Reason::RetryBudgetSpent);
    }
    // 1000 calls within the first second of one window: a tenth of them, the reserve, and that of the next window.
    assert!(origin.count() <= 1000 + 100 + 20, "{}", origin.count());
    assert!(spent >= 880, "{spent}");
}

async fn no_text_has_the_key_of_the_query(record: &Incident) {
    assert!(url(record).contains("key=SECRET"));
    let (capture, _guard) = Capture::start();
    let origin = always(record);
    let report = CallReport::new();
    let client = origin.behind(Admission::default());
    let outcome = client.get(url(record)).with_extension(report.clone()).send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    let texts = [
        format!("{spill} {spill:?} {report:?} {:?} {}", outcome, outcome.as_ref().unwrap_err()),
        capture.text(),
    ];
    assert!(texts.iter().all(|text| !text.contains("SECRET")), "{texts:?}");
    assert_eq!(capture.events("admission decision").len(), 6);
}

async fn no_event_has_text_of_the_body(record: &Incident) {
    let body = record.body.clone().unwrap();
    assert!(body.contains("sk-XXXX"));
    for status in [record.status.unwrap(), 400, 429, 503] {
        let (capture, _guard) = Capture::start();
        let origin = Origin::always({
            let body = body.clone();
            move || Answer::status(status).body(body.clone())
        });
        let _ = origin.behind(Admission::default()).get(url(record)).send().await;
        let text = capture.text();
        assert!(!text.contains("sk-XXXX") && !text.contains("Incorrect"), "{text}");
        assert!(!capture.events("admission decision").is_empty());
    }
}

#[test]
fn a_record_is_found_by_its_id() {
    assert_eq!(incident("B001").kind, "wakes_too_early");
}
