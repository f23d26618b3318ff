//! The gate learns a refusal from its head: neither a body that stalls nor a call that is dropped keeps the advice from
//! the others. Paused clock, fake origin.
#![cfg(test)]

#[path = "support/frames.rs"]
mod frames;
mod support;

use std::sync::Arc;
use std::time::Duration;

use frames::{Frames, Piece, data};
use reqwest::Body;
use reqwest_admission::gate::{Gate, MemoryStore};
use reqwest_admission::pace::Limits;
use reqwest_admission::policy::OnSpill;
use reqwest_admission::reading::Profile;
use reqwest_admission::{
    Admission, AdmissionBuilder, AdmissionPolicy, Deployment, LatencyBudget, Reason, SpillOver,
};
use reqwest_middleware::ClientWithMiddleware;
use support::{Answer, Origin, ms};
use tokio::time::{Instant, timeout};

const URL: &str = "http://api.example/v1/items";

fn exact() -> AdmissionBuilder {
    Admission::builder().draws(|| 0.0)
}

fn stalling(first: &'static str) -> Body {
    Frames::body([data(first), Piece::Hang])
}

/// Refusals whose advice is 5 s, wherever it stands in the head.
fn advising_heads() -> Vec<Answer> {
    let spent = |status| {
        Answer::status(status)
            .header("x-ratelimit-limit-requests", "100")
            .header("x-ratelimit-remaining-requests", "0")
            .header("x-ratelimit-reset-requests", "5s")
    };
    vec![
        Answer::status(429).header("retry-after", "5"),
        Answer::status(429).header("retry-after-ms", "5000"),
        Answer::status(503).header("retry-after", "5"),
        Answer::status(529).header("retry-after", "5"),
        spent(429),
    ]
}

fn spill(client: &ClientWithMiddleware, budget: Duration) -> impl Future<Output = (SpillOver, Duration)> {
    let call = client.get(URL).with_extension(LatencyBudget::new(budget)).send();
    async move {
        let start = Instant::now();
        let outcome = call.await;
        (SpillOver::of(&outcome).expect("a spill-over").clone(), start.elapsed())
    }
}

#[tokio::test(start_paused = true)]
async fn no_call_is_sent_into_the_advised_window_while_the_refusals_body_stalls() {
    for which in 0..advising_heads().len() {
        for first in ["", "{\"error\":{"] {
            let origin = Origin::in_order([head_again(which).body(stalling(first))]);
            let client = origin.behind(exact().build().unwrap());
            let start = Instant::now();
            let refused = tokio::spawn(client.get(URL).send());
            let mut others = Vec::new();
            for _ in 0..4 {
                tokio::time::sleep(ms(450)).await;
                others.push(tokio::spawn(client.get(URL).send()));
            }
            for call in others.into_iter().chain([refused]) {
                assert_eq!(call.await.unwrap().unwrap().status(), 200);
            }
            let times = origin.times(start);
            assert_eq!(times.len(), 6);
            assert!(times[1..].iter().all(|sent| *sent >= ms(5000)), "head {which}: {times:?}");
        }
    }
}

fn head_again(which: usize) -> Answer {
    advising_heads().remove(which)
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_the_refusals_body_stalls_leaves_its_advice_to_all() {
    for which in 0..advising_heads().len() {
        for life in [0, 1, 50, 1999] {
            let origin = Origin::in_order([head_again(which).body(stalling("{"))]);
            let client = origin.behind(exact().build().unwrap());
            let start = Instant::now();
            assert!(timeout(ms(life), client.get(URL).send()).await.is_err());
            assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
            let times = origin.times(start);
            assert!(times[1] >= ms(5000), "head {which}, dropped after {life} ms: {times:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_arrived_of_a_body_counts_for_a_call_that_is_dropped_in_the_rest() {
    let advice = r#"{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"5s"}]}}"#;
    // All that matters comes after a moment, and then the end of the body does not.
    for pieces in [
        vec![data(advice), Piece::Hang],
        vec![Piece::Pause(ms(30)), data(advice), Piece::Hang],
        vec![data(&advice[..40]), Piece::Pause(ms(30)), data(&advice[40..]), Piece::Hang],
    ] {
        let origin = Origin::in_order([Answer::status(429).body(Frames::body(pieces))]);
        let client = origin.behind(exact().profile(Profile::named("gemini")).build().unwrap());
        let start = Instant::now();
        assert!(timeout(ms(100), client.get(URL).send()).await.is_err());
        assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
        assert!(origin.times(start)[1] >= ms(5000), "{:?}", origin.times(start));
    }
}

#[tokio::test(start_paused = true)]
async fn a_spill_over_that_the_head_decides_waits_for_no_body() {
    let heads: [(fn() -> Answer, Reason); 3] = [
        (|| Answer::status(429).header("retry-after", "60"), Reason::BudgetExceeded),
        (|| Answer::status(503).header("retry-after", "60"), Reason::BudgetExceeded),
        (
            || Answer::status(429).header("retry-after", "1").header("x-should-retry", "false"),
            Reason::ServerDirective,
        ),
    ];
    for (head, reason) in heads {
        for (pieces, arrived) in [
            (vec![Piece::Hang], &b""[..]),
            (vec![data("why"), Piece::Hang], b"why"),
            (vec![data("why"), data(" not"), Piece::Pause(ms(100)), data(" now")], b"why not"),
        ] {
            let origin = Origin::in_order([head().body(Frames::body(pieces))]);
            let admission = exact().profile(Profile::named("openai")).build().unwrap();
            let (spill, took) = spill(&origin.behind(admission), ms(30_000)).await;
            assert_eq!((spill.reason(), took), (reason, ms(0)));
            assert_eq!((spill.body(), spill.attempts()), (arrived, 1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_marked_response_that_the_head_decided_still_has_its_whole_body() {
    let policy = AdmissionPolicy::builder().on_spill(OnSpill::Response).build().unwrap();
    let pieces = [data("one "), Piece::Pause(ms(700)), data("two")];
    let origin =
        Origin::in_order([Answer::status(429).header("retry-after", "60").body(Frames::body(pieces))]);
    let client = origin.behind(exact().policy(policy).build().unwrap());
    let start = Instant::now();
    let outcome = client.get(URL).send().await;
    assert_eq!((start.elapsed(), SpillOver::of(&outcome).unwrap().body()), (ms(0), &b"one "[..]));
    assert_eq!(outcome.unwrap().text().await.unwrap(), "one two");
    assert_eq!(start.elapsed(), ms(700));
}

/// A window's reset is when all of it is back; a delay in the body is when there is room again, and goes before it.
#[tokio::test(start_paused = true)]
async fn a_reset_in_the_head_decides_nothing_that_the_body_may_say_better() {
    let body =
        r#"{"error":{"code":"rate_limit_exceeded","message":"Please try again in 1s.","retry_after":1}}"#;
    for pause in [0, 300] {
        let pieces = [Piece::Pause(ms(pause)), data(body)];
        let refused = Answer::status(429)
            .header("x-ratelimit-limit-requests", "100")
            .header("x-ratelimit-remaining-requests", "0")
            .header("x-ratelimit-reset-requests", "6m0s")
            .body(Frames::body(pieces));
        let origin = Origin::in_order([refused]);
        let client = origin.behind(exact().build().unwrap());
        let start = Instant::now();
        let outcome = client.get(URL).send().await;
        assert_eq!(outcome.unwrap().status(), 200, "{pause}");
        assert!(start.elapsed() <= ms(2500), "{pause}: {:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_later_only_adds_to_the_advice_of_the_head() {
    // What closes the scope is asked here, not what an exhausted quota holds back by itself.
    let exact = || {
        let policy = AdmissionPolicy::builder().hold_exhausted_quota(false).build().unwrap();
        exact().policy(policy)
    };
    let terminal = r#"{"error":{"code":"insufficient_quota","type":"insufficient_quota"}}"#;
    let pieces = [Piece::Pause(ms(200)), data(terminal)];
    let refused = Answer::status(429).header("retry-after", "5").body(Frames::body(pieces));
    let origin = Origin::in_order([refused]);
    let client = origin.behind(exact().profile(Profile::named("openai")).build().unwrap());
    let start = Instant::now();
    let (spill, took) = spill(&client, ms(30_000)).await;
    assert_eq!((spill.reason(), took), (Reason::QuotaExhausted, ms(200)));
    // The head's advice was heard by then, and holds.
    assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
    assert!(origin.times(start)[1] >= ms(5000));

    // Without any advice in the head nothing was promised, and an empty account closes no scope.
    let pieces = [Piece::Pause(ms(200)), data(terminal)];
    let origin = Origin::in_order([Answer::status(429).body(Frames::body(pieces))]);
    let client = origin.behind(exact().profile(Profile::named("openai")).build().unwrap());
    let start = Instant::now();
    let outcome = client.get(URL).send().await;
    assert_eq!(SpillOver::of(&outcome).unwrap().reason(), Reason::QuotaExhausted);
    assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
    assert_eq!(start.elapsed(), ms(200));
}

#[tokio::test(start_paused = true)]
async fn a_call_with_another_deployment_goes_there_while_the_refusals_body_stalls() {
    let origin = Origin::new(|_, request| match request.url().host_str() {
        Some("api.example") => Answer::status(429).header("retry-after", "60").body(stalling("{")),
        _ => Answer::ok(),
    });
    let standby =
        Deployment::new("standby", "http://standby.example").api_key("theirs").client(origin.client());
    let admission = exact().primary("http://api.example").spill_to(standby).build().unwrap();
    let client = origin.behind(admission);
    let start = Instant::now();
    let response = client.post(URL).body("x").with_extension(LatencyBudget::new(ms(2000))).send().await;
    assert_eq!(response.unwrap().url().host_str(), Some("standby.example"));
    assert_eq!(start.elapsed(), ms(0));
}

/// With a fleet as well: the store hears of the refusal before the body is waited for.
#[tokio::test(start_paused = true)]
async fn a_fleet_learns_of_a_refusal_whose_body_stalls() {
    let store = Arc::new(MemoryStore::new());
    let gated = || {
        let limits = Limits::new().requests_per_minute(600);
        let gate = Gate::builder().limits(limits).store(Arc::<MemoryStore>::clone(&store)).build().unwrap();
        exact().gate(gate).build().unwrap()
    };
    let origin = Origin::in_order([Answer::status(429).header("retry-after", "5").body(stalling("{"))]);
    let (here, there) = (origin.behind(gated()), origin.behind(gated()));
    let start = Instant::now();
    assert!(timeout(ms(100), here.get(URL).send()).await.is_err());
    assert_eq!(there.get(URL).send().await.unwrap().status(), 200);
    assert!(origin.times(start)[1] >= ms(5000), "{:?}", origin.times(start));
}

/// A directive is about the one request, the moment beside it everybody's, however the body comes.
#[tokio::test(start_paused = true)]
async fn a_directive_not_to_repeat_keeps_its_moment_for_all() {
    for pieces in [vec![], vec![data("{}")], vec![Piece::Pause(ms(200)), data("{}")], vec![Piece::Hang]] {
        let head = Answer::status(429).header("retry-after", "5").header("x-should-retry", "false");
        let origin = Origin::in_order([head.body(Frames::body(pieces))]);
        let client = origin.behind(exact().build().unwrap());
        let start = Instant::now();
        let (spill, took) = spill(&client, ms(30_000)).await;
        assert_eq!(
            (spill.reason(), took, spill.advised_wait()),
            (Reason::ServerDirective, ms(0), Some(ms(5000)))
        );
        assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
        assert!(origin.times(start)[1] >= ms(5000), "{:?}", origin.times(start));
    }
    // Without a moment it says nothing to others.
    let origin = Origin::in_order([Answer::status(429).header("x-should-retry", "false")]);
    let client = origin.behind(exact().build().unwrap());
    let start = Instant::now();
    spill(&client, ms(30_000)).await;
    assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
    assert_eq!(start.elapsed(), ms(0));
}
