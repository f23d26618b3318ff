//! What happened to a call is written once: the outcome, the report, the events, the observer and the span agree. Paused
//! clock, fake origins.
#![cfg(test)]

#[path = "support/capture.rs"]
mod capture;
#[path = "support/failures.rs"]
mod failures;
mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use capture::Capture;
use reqwest_admission::decision::Decision;
use reqwest_admission::gate::{Gate, ScopeKey};
use reqwest_admission::observe::{DecisionEvent, Observer};
use reqwest_admission::{
    Admission, AdmissionBuilder, CallReport, Deployment, LatencyBudget, Reason, SpillOver,
};
use reqwest_middleware::{Error, Result};
use serde_json::json;
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const URL: &str = "https://primary.example/v1/items";

fn refused(milliseconds: u64) -> Answer {
    Answer::status(429).header("retry-after-ms", &milliseconds.to_string()).body("why")
}

fn lost() -> Answer {
    Answer::error(failures::lost_connection().into())
}

fn unreachable() -> Answer {
    Answer::error(failures::no_connection().into())
}

/// A decision by its name, and why.
type End = (&'static str, Option<Reason>);

/// What an observer was told: each decision and each real wait.
#[derive(Clone, Default)]
struct Heard {
    decisions: Arc<Mutex<Vec<End>>>,
    waits: Arc<Mutex<Vec<(Duration, Duration)>>>,
}

impl Observer for Heard {
    fn decided(&self, event: &DecisionEvent<'_>) {
        self.decisions.lock().unwrap().push((event.decision, event.reason));
    }

    fn waited(&self, _: u64, planned: Duration, waited: Duration) {
        self.waits.lock().unwrap().push((planned, waited));
    }
}

/// Everything that is known of one call at its end.
struct Known {
    outcome: Result<reqwest::Response>,
    report: CallReport,
    capture: Capture,
    heard: Heard,
}

impl Known {
    /// The call's end, as the outcome has it.
    fn end(&self) -> End {
        match SpillOver::of(&self.outcome) {
            Some(spill) => ("spill_over", Some(spill.reason())),
            None => ("admit", None),
        }
    }

    /// All views of the call's end say the same, and say it once.
    fn agrees(&self, line: &str) {
        let (decision, reason) = self.end();
        let of_report = match self.report.decision() {
            Some(Decision::SpillOver(reason)) => ("spill_over", Some(reason)),
            Some(Decision::Admit) => ("admit", None),
            other => panic!("{line}: the report says {other:?}"),
        };
        assert_eq!(of_report, (decision, reason), "{line}: report");
        assert_eq!(
            self.report.spill_over().map(|spill| spill.reason()),
            reason,
            "{line}: signal in the report"
        );
        let heard = self.heard.decisions.lock().unwrap();
        assert_eq!(heard.last(), Some(&(decision, reason)), "{line}: observer {heard:?}");
        let ends = heard.iter().filter(|(decision, _)| *decision != "wait").count();
        assert_eq!(ends, 1, "{line}: observer {heard:?}");
        let told: Vec<_> = self
            .capture
            .events("admission decision")
            .iter()
            .map(|event| (event.get("decision").cloned(), event.get("reason").cloned()))
            .collect();
        let expected: Vec<_> = heard
            .iter()
            .map(|(decision, reason)| (Some(json!(decision)), reason.map(|reason| json!(reason.as_str()))))
            .collect();
        assert_eq!(told, expected, "{line}: events");
        let spans = self.capture.spans();
        assert_eq!(spans[0].get("decision"), Some(&json!(decision)), "{line}: span");
        assert_eq!(
            spans[0].get("reason"),
            reason.map(|reason| json!(reason.as_str())).as_ref(),
            "{line}: span"
        );
        assert_eq!(spans[0].get("attempts"), Some(&json!(self.report.attempts())), "{line}: span");
    }
}

async fn known(origin: Origin, admission: AdmissionBuilder, budget: u64, method: http::Method) -> Known {
    let (capture, _guard) = Capture::start();
    let (heard, report) = (Heard::default(), CallReport::new());
    let client = origin.behind(admission.observer(heard.clone()).draws(|| 0.0).build().unwrap());
    let call = client.request(method, URL).body("x").with_extension(report.clone());
    let outcome = call.with_extension(LatencyBudget::new(ms(budget))).send().await;
    Known { outcome, report, capture, heard }
}

fn hosts(primary: Vec<Answer>, standby: Vec<Answer>) -> Origin {
    let mut answers = [std::collections::VecDeque::from(primary), std::collections::VecDeque::from(standby)];
    Origin::new(move |_, request| {
        let which = usize::from(request.url().host_str() != Some("primary.example"));
        answers[which].pop_front().unwrap_or_else(Answer::ok)
    })
}

fn standby(origin: &Origin) -> Deployment {
    Deployment::new("standby", "https://standby.example").api_key("theirs").client(origin.client())
}

fn routed(origin: &Origin) -> AdmissionBuilder {
    Admission::builder().primary("https://primary.example").spill_to(standby(origin))
}

async fn known_routed(primary: Vec<Answer>, standby: Vec<Answer>, method: http::Method) -> Known {
    let origin = hosts(primary, standby);
    let admission = routed(&origin);
    known(origin, admission, 2000, method).await
}

/// A gate that closes the scope for a minute after `after`.
fn closing(after: u64) -> AdmissionBuilder {
    let gate = Gate::default();
    let own = gate.clone();
    tokio::spawn(async move {
        tokio::time::sleep(ms(after)).await;
        own.close(&ScopeKey::new("one"), ms(60_000), Instant::now().into_std());
    });
    Admission::builder().gate(gate).scope_by(|_| ScopeKey::new("one"))
}

#[tokio::test(start_paused = true)]
async fn every_way_out_of_a_call_is_told_once_and_alike_everywhere() {
    let plain = Admission::builder;
    let get = || http::Method::GET;
    let cases: Vec<(&str, Known)> = vec![
        ("a success", known(Origin::always(Answer::ok), plain(), 2000, get()).await),
        ("a success after a wait", known(Origin::in_order([refused(100)]), plain(), 2000, get()).await),
        ("a refusal beyond the budget", known(Origin::in_order([refused(9000)]), plain(), 2000, get()).await),
        (
            "an error of the caller's",
            known(Origin::in_order([Answer::status(404)]), plain(), 2000, get()).await,
        ),
        (
            "no answer in time",
            known(Origin::in_order([Answer::ok().after(ms(9000))]), plain(), 2000, get()).await,
        ),
        ("a lost connection", known(Origin::in_order([lost()]), plain(), 2000, http::Method::POST).await),
        ("turned away unsent", {
            let admission = closing(0);
            tokio::time::sleep(ms(1)).await;
            known(Origin::always(Answer::ok), admission, 2000, get()).await
        }),
        (
            "turned away after a refusal",
            known(Origin::in_order([refused(1000)]), closing(500), 5000, get()).await,
        ),
        (
            "turned away after a lost connection",
            known(Origin::in_order([lost()]), closing(1), 2000, get()).await,
        ),
        (
            "turned away after a connection that never came about",
            known(Origin::in_order([unreachable()]), closing(1), 2000, get()).await,
        ),
        ("an unreachable last target", known_routed(vec![refused(9000)], vec![unreachable()], get()).await),
        (
            "a last target that refuses as well",
            known_routed(vec![refused(9000)], vec![refused(9000)], get()).await,
        ),
        ("a target's answer", known_routed(vec![refused(9000)], vec![], get()).await),
        (
            "a connection that a target lost",
            known_routed(vec![refused(9000)], vec![lost()], http::Method::POST).await,
        ),
    ];
    for (line, known) in &cases {
        // The spill-over from one deployment to the next is a decision too, about the leg and not about the call.
        if known.report.legs().len() > 1 {
            let heard = known.heard.decisions.lock().unwrap();
            let spills = heard.iter().filter(|(decision, _)| *decision == "spill_over").count();
            let legs = known.report.legs().iter().filter(|leg| leg.reason().is_some()).count();
            assert_eq!(spills, legs, "{line}: {heard:?}");
            continue;
        }
        known.agrees(line);
    }
    let last = |name: &str| &cases.iter().find(|(line, _)| *line == name).unwrap().1;
    assert!(matches!(last("turned away after a lost connection").outcome, Err(Error::Reqwest(_))));
    for name in ["an unreachable last target", "a last target that refuses as well"] {
        let known = last(name);
        let (decision, reason) = known.end();
        assert_eq!(decision, "spill_over", "{name}");
        assert_eq!(known.report.decision(), reason.map(Decision::SpillOver), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_response_and_the_legs_are_in_the_report_of_a_call_that_ends_in_an_error() {
    #[derive(Debug, thiserror::Error)]
    #[error("signing failed")]
    struct Signing;
    type Make = fn() -> Answer;
    let ends: [(Make, http::Method); 4] = [
        (|| Answer::error(Error::middleware(Signing)), http::Method::GET),
        (|| Answer::error(failures::bad_request().into()), http::Method::GET),
        (lost, http::Method::POST),
        (|| Answer::error(failures::timed_out().into()), http::Method::POST),
    ];
    for (end, method) in ends {
        // A later attempt on the same deployment.
        let origin = Origin::in_order([refused(100).header("x-request-id", "one"), end()]);
        let call = known(origin, Admission::builder(), 2000, method.clone()).await;
        assert!(SpillOver::of(&call.outcome).is_none() && call.outcome.is_err());
        let last = call.report.last_response().expect("the refusal");
        assert_eq!((last.status().as_u16(), last.body()), (429, &b"why"[..]));
        assert_eq!(
            (&last.headers()["retry-after-ms"], last.reading().request_id()),
            (&"100".parse().unwrap(), Some("one"))
        );
        assert!(call.report.legs().is_empty());

        // A later leg.
        let call = known_routed(vec![refused(9000)], vec![end()], method).await;
        assert!(SpillOver::of(&call.outcome).is_none() && call.outcome.is_err());
        assert_eq!(call.report.last_response().unwrap().status(), 429);
        let legs: Vec<_> = call
            .report
            .legs()
            .iter()
            .map(|leg| (leg.deployment().to_owned(), leg.reason(), leg.attempts()))
            .collect();
        let expected =
            [("primary".to_owned(), Some(Reason::BudgetExceeded), 1), ("standby".to_owned(), None, 1)];
        assert_eq!(legs, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_any_response_has_none_in_its_report_and_a_spilled_one_has_the_signals() {
    let call = known(Origin::in_order([lost()]), Admission::builder(), 2000, http::Method::POST).await;
    assert!(call.report.last_response().is_none());
    let call = known(Origin::in_order([refused(9000)]), Admission::builder(), 2000, http::Method::GET).await;
    let (last, spill) = (call.report.last_response().unwrap(), call.report.spill_over().unwrap());
    assert_eq!((last.status(), last.body()), (spill.status().unwrap(), spill.body()));
}

#[tokio::test(start_paused = true)]
async fn what_is_planned_and_what_was_really_waited_are_told_apart() {
    let (capture, _guard) = Capture::start();
    let heard = Heard::default();
    let origin = Origin::new(|n, _| if n < 8 { refused(1000).after(ms(50)) } else { Answer::ok() });
    let admission = Admission::builder().observer(heard.clone()).seed(3).build().unwrap();
    let client = origin.behind(admission);
    let start = Instant::now();
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let report = CallReport::new();
            let call = client.get(URL).with_extension(report.clone()).send();
            tokio::spawn(async move {
                assert_eq!(call.await.unwrap().status(), 200);
                (report, start.elapsed() - ms(50))
            })
        })
        .collect();
    let mut real = Vec::new();
    for call in calls {
        let (report, took) = call.await.unwrap();
        assert_eq!(report.waited(), took);
        let detail = report.details().remove(0);
        let (planned, waited) = (detail.wait().unwrap(), detail.waited().unwrap());
        assert_eq!(waited, took);
        assert!(planned >= ms(1000) && planned <= ms(1101), "{planned:?}");
        real.push(waited);
    }
    real.sort();
    assert!(real[7] > ms(1110), "the gate lets them go one after another: {real:?}");
    let mut of_observer: Vec<_> = heard.waits.lock().unwrap().iter().map(|(_, waited)| *waited).collect();
    of_observer.sort();
    assert_eq!(of_observer, real);
    let events = capture.events("admission wait");
    let mut told: Vec<_> =
        events.iter().map(|event| event.get("waited_ms").unwrap().as_f64().unwrap()).collect();
    told.sort_by(f64::total_cmp);
    let expected: Vec<_> = real.iter().map(|waited| waited.as_secs_f64() * 1000.0).collect();
    assert_eq!(told, expected);
    assert!(events.iter().all(|event| event.get("planned_wait_ms").unwrap().as_f64().unwrap() <= 1101.0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_in_time_is_told_apart_and_no_text_quotes_another_leg() {
    let slow = || Answer::ok().after(ms(60_000));
    let call = known(Origin::in_order([slow()]), Admission::builder(), 2000, http::Method::GET).await;
    let spill = SpillOver::of(&call.outcome).unwrap();
    assert_eq!((spill.reason(), spill.is_timeout(), spill.status()), (Reason::NoResponse, true, None));
    assert_eq!(spill.reason().as_str(), "no_response");
    assert!(spill.possibly_processed() && !spill.to_string().contains("the wait"), "{spill}");
    call.agrees("no answer");

    let call = known(Origin::in_order([refused(9000)]), Admission::builder(), 2000, http::Method::GET).await;
    assert!(!SpillOver::of(&call.outcome).unwrap().is_timeout());

    // The standby's silence is not the primary's refusal.
    for (end, reason) in [(slow as fn() -> Answer, Reason::NoResponse), (unreachable, Reason::Unreachable)] {
        let call = known_routed(vec![refused(9000)], vec![end()], http::Method::GET).await;
        let spill = SpillOver::of(&call.outcome).unwrap();
        assert_eq!(spill.reason(), reason);
        // Law 9: the last response is there all the same.
        assert_eq!((spill.status().unwrap().as_u16(), spill.body()), (429, &b"why"[..]));
        assert!(!spill.to_string().contains("429") && !spill.to_string().contains("retry-after"), "{spill}");
    }

    // Nor is the gate's no at the standby. What the standby itself says is quoted.
    for closed in [true, false] {
        let (gate, theirs) = (Gate::default(), ScopeKey::new("theirs"));
        if closed {
            gate.close(&theirs, ms(60_000), Instant::now().into_std());
        }
        let admission = Admission::builder().gate(gate).primary("https://primary.example");
        let origin = hosts(vec![refused(9000)], vec![refused(8000)]);
        let admission = admission.spill_to(standby(&origin).scope(theirs));
        let call = known(origin, admission, 2000, http::Method::GET).await;
        let spill = SpillOver::of(&call.outcome).unwrap();
        assert_eq!((spill.attempts(), spill.legs().len()), (if closed { 1 } else { 2 }, 2));
        for text in [format!("{spill}"), format!("{spill:?}")] {
            assert_eq!(text.contains("429"), !closed, "{text}");
        }
    }

    // A failed connection to a target, and the gate's no at the next: no error of the caller's.
    let (gate, theirs) = (Gate::default(), ScopeKey::new("theirs"));
    gate.close(&theirs, ms(60_000), Instant::now().into_std());
    let second = Deployment::new("second", "https://second.example").scope(theirs);
    let origin = hosts(vec![refused(9000)], vec![unreachable()]);
    let admission = routed(&origin).gate(gate).spill_to(second);
    let call = known(origin, admission, 2000, http::Method::GET).await;
    assert_eq!(SpillOver::of(&call.outcome).unwrap().legs().len(), 3);

    // Nor is a refusal that was waited out the silence after it.
    let call =
        known(Origin::in_order([refused(100), slow()]), Admission::builder(), 2000, http::Method::GET).await;
    let spill = SpillOver::of(&call.outcome).unwrap();
    assert_eq!((spill.reason(), spill.status().unwrap().as_u16()), (Reason::NoResponse, 429));
    assert!(!spill.to_string().contains("429"), "{spill}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_on_a_later_leg_leaves_the_earlier_ones_in_its_report() {
    let origin = hosts(vec![refused(9000)], vec![Answer::ok().after(ms(9000))]);
    let (report, client) = (CallReport::new(), origin.behind(routed(&origin).build().unwrap()));
    let call = client.get(URL).with_extension(report.clone()).with_extension(LatencyBudget::new(ms(2000)));
    assert!(tokio::time::timeout(ms(100), call.send()).await.is_err());
    let legs: Vec<_> = report.legs().iter().map(|leg| (leg.deployment().to_owned(), leg.reason())).collect();
    assert_eq!(legs, [("primary".to_owned(), Some(Reason::BudgetExceeded))]);
    assert_eq!(report.attempts(), 2);
    assert_eq!(report.last_response().unwrap().status(), 429);
    assert_eq!(report.decision(), Some(Decision::SpillOver(Reason::BudgetExceeded)));
}
