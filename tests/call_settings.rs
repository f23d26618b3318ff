//! What a single call sets for itself, and that it comes back with a ticket. Paused clock, fake origins.
#![cfg(test)]

mod support;

use std::time::Duration;

use http::Extensions;
use reqwest_admission::gate::{Gate, Priority, ScopeKey};
use reqwest_admission::pace::{Limits, TokenEstimate};
use reqwest_admission::spill::Deferred;
use reqwest_admission::{
    Admission, AdmissionRequestExt as _, CallReport, Credential, Deployment, Reason, SpillOver,
};
use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
use support::{Answer, Origin, ms};

const URL: &str = "https://api.example/v1/items";

fn refused(milliseconds: u64) -> Answer {
    Answer::status(429).header("retry-after-ms", &milliseconds.to_string())
}

async fn spilled(call: RequestBuilder) -> SpillOver {
    SpillOver::of(&call.send().await).unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_call_has_its_own_budget_and_writes_into_the_caller_s_report() {
    let origin = Origin::always(|| refused(1000));
    let client = origin.behind(Admission::default());
    let report = CallReport::new();
    let spill = spilled(client.get(URL).latency_budget(ms(900)).report(&report)).await;
    assert_eq!((spill.reason(), spill.waited()), (Reason::BudgetExceeded, Duration::ZERO));
    assert_eq!((report.attempts(), report.spill_over().is_some()), (1, true));
}

#[tokio::test(start_paused = true)]
async fn a_call_has_its_own_attempts_more_or_fewer_than_the_policy() {
    for (own, sends) in [(1, 1), (4, 4), (0, 1)] {
        let origin = Origin::always(|| refused(10));
        let client = origin.behind(Admission::builder().max_attempts(2).build().unwrap());
        let spill = spilled(client.get(URL).max_attempts(own)).await;
        assert_eq!(
            (spill.reason(), spill.attempts(), origin.count()),
            (Reason::AttemptsExhausted, sends, sends as usize)
        );
    }
    let origin = Origin::always(|| refused(1));
    let client = origin.behind(Admission::default());
    assert_eq!(
        spilled(client.get(URL).max_attempts(u32::MAX).latency_budget(ms(3_600_000))).await.attempts(),
        100
    );
}

/// On another deployment, too, which has attempts of its own.
#[tokio::test(start_paused = true)]
async fn the_attempts_of_a_call_hold_on_each_deployment() {
    let (primary, standby) = (Origin::always(|| refused(10)), Origin::always(|| refused(10)));
    let deployment = Deployment::new("standby", "https://standby.example").client(standby.client());
    let admission = Admission::builder().primary("https://api.example").spill_to(deployment).build().unwrap();
    let client = primary.behind(admission);
    spilled(client.get(URL).max_attempts(1)).await;
    assert_eq!((primary.count(), standby.count()), (1, 1));
}

/// The last attempt needs no copy of the body, whoever says which one is the last.
#[tokio::test(start_paused = true)]
async fn a_stream_that_may_be_sent_once_ends_with_the_reason_of_the_last_attempt() {
    let origin = Origin::always(|| refused(10));
    let client = origin.behind(Admission::default());
    let stream = || {
        let mut body = reqwest::Body::from("once");
        body = reqwest::Body::wrap(body);
        client.post(URL).body(body)
    };
    assert_eq!(spilled(stream()).await.reason(), Reason::BodyNotReplayable);
    assert_eq!(spilled(stream().max_attempts(1)).await.reason(), Reason::AttemptsExhausted);
}

#[tokio::test(start_paused = true)]
async fn a_repeatable_call_is_repeated_after_a_failure_that_leaves_its_outcome_open() {
    let flaky = || Origin::in_order([Answer::status(500), Answer::status(502)]);
    let send = |origin: &Origin| origin.behind(Admission::default()).post(URL).body("search");
    let origin = flaky();
    assert_eq!((send(&origin).send().await.unwrap().status().as_u16(), origin.count()), (500, 1));
    let origin = flaky();
    let response = send(&origin).repeatable().send().await.unwrap();
    assert_eq!((response.status().as_u16(), origin.count()), (200, 3));
    assert!(!origin.seen()[0].headers.contains_key("idempotency-key"));
}

#[tokio::test(start_paused = true)]
async fn a_call_names_its_scope_and_the_tokens_that_it_takes() {
    let origin = Origin::always(Answer::ok);
    let gate = Gate::builder().limits(Limits::new().tokens_per_minute(1000)).build().unwrap();
    let client = origin.behind(Admission::builder().gate(gate).build().unwrap());
    let call = |scope: &str| {
        let estimate = TokenEstimate::new(500, 400);
        client.get(URL).scope(ScopeKey::new(scope)).token_estimate(estimate).latency_budget(ms(1000))
    };
    assert_eq!(call("a").send().await.unwrap().status(), 200);
    assert_eq!(spilled(call("a")).await.attempts(), 0);
    assert_eq!(call("b").send().await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_call_has_its_class_in_the_queue() {
    let origin = Origin::always(Answer::ok);
    let gate = Gate::builder().limits(Limits::new().requests_per_minute(60)).build().unwrap();
    let client = origin.behind(Admission::builder().gate(gate).build().unwrap());
    // Uses up the minute's worth, so that the next calls queue.
    for _ in 0..60 {
        client.get(URL).send().await.unwrap();
    }
    let timed = |priority: Priority| {
        let call = client.get(URL).priority(priority);
        tokio::spawn(async move {
            call.send().await.unwrap();
            tokio::time::Instant::now()
        })
    };
    let (batch, normal) = (timed(Priority::Batch), timed(Priority::Normal));
    tokio::task::yield_now().await;
    let high = timed(Priority::High);
    let (batch, normal, high) = (batch.await.unwrap(), normal.await.unwrap(), high.await.unwrap());
    assert!(high < normal && normal < batch, "{high:?} {normal:?} {batch:?}");
}

/// For clients of others that end in `execute_with_extensions`.
#[tokio::test(start_paused = true)]
async fn extensions_take_the_same_settings() {
    let origin = Origin::always(|| refused(1000));
    let client = origin.behind(Admission::default());
    let request = client.get(URL).build().unwrap();
    let mut extensions = Extensions::new().latency_budget(ms(900)).priority(Priority::Batch).max_attempts(3);
    let outcome = client.execute_with_extensions(request, &mut extensions).await;
    assert_eq!(SpillOver::of(&outcome).unwrap().reason(), Reason::BudgetExceeded);
}

fn with_everything(client: &ClientWithMiddleware) -> RequestBuilder {
    client
        .post(URL)
        .latency_budget(ms(1500))
        .priority(Priority::High)
        .token_estimate(TokenEstimate::new(1200, 400).cached(200))
        .max_attempts(2)
        .repeatable()
        .body("text")
}

#[tokio::test(start_paused = true)]
async fn a_ticket_comes_back_with_what_the_call_set_for_itself() {
    let origin = Origin::in_order([refused(60_000), Answer::status(500), refused(10), Answer::ok()]);
    let client = origin.behind(Admission::builder().without_gate().build().unwrap());
    let job =
        serde_json::to_string(&spilled(with_everything(&client)).await.into_deferred().unwrap()).unwrap();
    let settings = &serde_json::from_str::<serde_json::Value>(&job).unwrap()["settings"];
    let expected = serde_json::json!({
        "latency_budget": "1s 500ms",
        "priority": "high",
        "token_estimate": { "prompt": 1200, "cached": 200, "max_output": 400 },
        "max_attempts": 2,
        "repeatable": true,
    });
    assert_eq!(*settings, expected);

    let ticket: Deferred = serde_json::from_str(&job).unwrap();
    let mut call = ticket.into_call(&client, &Credential::bearer("fresh")).unwrap();
    assert_eq!(call.extensions().get::<Priority>(), Some(&Priority::High));
    assert_eq!(call.extensions().get::<TokenEstimate>(), Some(&TokenEstimate::new(1200, 400).cached(200)));
    // It is repeated after the 500, and has two attempts.
    let spill = spilled(call).await;
    assert_eq!((spill.reason(), spill.attempts()), (Reason::AttemptsExhausted, 2));
    assert_eq!(origin.seen()[1].headers["authorization"], "Bearer fresh");
    // The budget of 1.5 s is there again, and still too short for a minute.
    let origin = Origin::always(|| refused(1600));
    let client = origin.behind(Admission::builder().without_gate().build().unwrap());
    let ticket: Deferred = serde_json::from_str(&job).unwrap();
    let spill = spilled(ticket.into_call(&client, &Credential::none()).unwrap()).await;
    assert_eq!((spill.reason(), spill.attempts()), (Reason::BudgetExceeded, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_never_sent_has_a_ticket_with_its_settings_as_well() {
    let origin = Origin::in_order([refused(60_000)]);
    let client = origin.behind(Admission::default());
    spilled(client.get(URL)).await;
    let spill = spilled(with_everything(&client)).await;
    assert_eq!(spill.attempts(), 0);
    let mut call = spill.into_deferred().unwrap().into_call(&client, &Credential::none()).unwrap();
    assert_eq!(call.extensions().get::<Priority>(), Some(&Priority::High));
}

#[tokio::test(start_paused = true)]
async fn a_ticket_names_its_format_and_one_of_a_later_format_is_refused_in_words() {
    let origin = Origin::always(|| refused(60_000));
    let client = origin.behind(Admission::default());
    let ticket = spilled(client.get(URL)).await.into_deferred().unwrap();
    let text = serde_json::to_string(&ticket).unwrap();
    assert!(text.starts_with(r#"{"version":1,"#) && !text.contains("settings"), "{text}");
    let without = text.replacen(r#""version":1,"#, "", 1);
    assert_eq!(serde_json::from_str::<Deferred>(&without).unwrap(), ticket);
    for later in ["2", "0", "4294967295"] {
        let text = text.replacen(r#""version":1"#, &format!(r#""version":{later}"#), 1);
        let error = serde_json::from_str::<Deferred>(&text).unwrap_err().to_string();
        assert!(
            error.contains(&format!("format version {later}")) && error.contains("update the worker"),
            "{error}"
        );
    }
}
