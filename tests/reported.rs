//! What went wrong in other clients and gateways, by public reports that `tests/data/incidents.jsonl` does not have; each
//! test names its report.
#![cfg(test)]

#[path = "support/frames.rs"]
mod frames;
mod support;

use std::time::Duration;

use frames::{Frames, Piece, data};
use reqwest_admission::decision::Reason;
use reqwest_admission::gate::{Gate, ScopeKey};
use reqwest_admission::pace::{Limits, TokenEstimate};
use reqwest_admission::reading::Profile;
use reqwest_admission::{Admission, AdmissionBuilder, LatencyBudget, SpillOver};
use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
use support::{Answer, Origin, ms};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A gate, and a layer that has everything in one scope of it.
fn gated(limits: Limits) -> (Gate, AdmissionBuilder) {
    let gate = Gate::builder().limits(limits).seed(1).build().unwrap();
    (gate.clone(), Admission::builder().gate(gate).draws(|| 0.5).scope_by(|_| ScopeKey::new("scope")))
}

fn call(client: &ClientWithMiddleware, budget: u64) -> RequestBuilder {
    client.get("http://api.example/").with_extension(LatencyBudget::new(ms(budget)))
}

/// How many calls are in flight and how many wait.
fn occupied(gate: &Gate) -> (u32, usize) {
    let state = gate.snapshot(Instant::now().into_std()).scopes.remove(0);
    (state.in_flight, state.waiting.high + state.waiting.normal + state.waiting.batch)
}

/// Lets everything happen that is due now.
async fn settle() {
    tokio::time::sleep(ms(1)).await;
}

/// The seconds from `start` until each call was served.
async fn served(
    start: Instant,
    calls: Vec<JoinHandle<(reqwest_middleware::Result<reqwest::Response>, Instant)>>,
) -> Vec<u64> {
    let mut seconds = Vec::new();
    for call in calls {
        let (outcome, at) = call.await.unwrap();
        assert_eq!(outcome.unwrap().status(), 200);
        seconds.push((at - start + ms(100)).as_secs());
    }
    seconds
}

fn spawn(request: RequestBuilder) -> JoinHandle<(reqwest_middleware::Result<reqwest::Response>, Instant)> {
    tokio::spawn(async move { (request.send().await, Instant::now()) })
}

/// <https://github.com/dotnet/runtime/issues/77180>: a cancelled request for many permits at the head of the queue kept
/// the small ones behind it waiting until the next event.
#[tokio::test(start_paused = true)]
async fn a_cancelled_large_call_at_the_head_frees_the_small_one_behind_it() {
    let (gate, admission) = gated(Limits::new().tokens_per_minute(60_000));
    let origin = Origin::always(Answer::ok);
    let client = origin.behind(admission.build().unwrap());
    let sized = |tokens| call(&client, 120_000).with_extension(TokenEstimate::new(tokens, 0));
    sized(59_000).send().await.unwrap();
    let large = tokio::spawn(sized(50_000).send());
    settle().await;
    let small = spawn(sized(500));
    settle().await;
    assert_eq!(occupied(&gate), (0, 2), "the large call gathers its tokens, and the small one is behind it");
    let start = Instant::now();
    large.abort();
    assert_eq!(served(start, vec![small]).await, [0]);
}

/// <https://github.com/thomhurst/Kevlar/issues/15>: cancelled waiters went on to use up their reservations, so that
/// the others waited for calls that never came.
#[tokio::test(start_paused = true)]
async fn a_cancelled_waiter_anywhere_in_the_queue_leaves_no_debt() {
    for cancelled in 0..3 {
        let (gate, admission) = gated(Limits::new().requests_per_minute(60));
        let origin = Origin::always(Answer::ok);
        let client = origin.behind(admission.build().unwrap());
        for _ in 0..60 {
            call(&client, 0).send().await.unwrap();
        }
        let start = Instant::now();
        let mut waiters = Vec::new();
        for _ in 0..3 {
            waiters.push(spawn(call(&client, 60_000)));
            settle().await;
        }
        assert_eq!(occupied(&gate), (0, 3));
        waiters.remove(cancelled).abort();
        settle().await;
        waiters.push(spawn(call(&client, 60_000)));
        // One a second, as if the cancelled one had never been there.
        assert_eq!(served(start, waiters).await, [1, 2, 3], "cancelled number {cancelled}");
    }
}

/// Gateways that apply no quota send a limit of 0 or -1 with 0 remaining on every success, such as
/// <https://tyk.io>'s: nothing is spent, and the next call goes at once.
#[tokio::test(start_paused = true)]
async fn a_gateway_without_a_quota_holds_up_no_call() {
    for (limit, reset) in [("0", "0"), ("-1", "0"), ("-1", "1763715554")] {
        let (_, admission) = gated(Limits::new());
        let origin = Origin::always(move || {
            Answer::ok()
                .header("x-ratelimit-limit", limit)
                .header("x-ratelimit-remaining", "0")
                .header("x-ratelimit-reset", reset)
        });
        let client = origin.behind(admission.build().unwrap());
        let start = Instant::now();
        for _ in 0..20 {
            call(&client, 0).send().await.unwrap();
        }
        assert_eq!(start.elapsed(), Duration::ZERO, "limit {limit}");
    }
}

/// Pages, trials and sessions are counted down in headers too: on the last page `X-Items-Remaining` is 0, and that is no
/// limit.
#[tokio::test(start_paused = true)]
async fn the_last_page_of_a_list_holds_up_no_call() {
    for name in ["x-items-remaining", "x-results-remaining", "x-remaining-pages", "x-trial-days-remaining"] {
        let (_, admission) = gated(Limits::new());
        let origin = Origin::always(move || Answer::ok().header(name, "0"));
        let client = origin.behind(admission.build().unwrap());
        let start = Instant::now();
        for _ in 0..5 {
            call(&client, 0).send().await.unwrap();
        }
        assert_eq!(start.elapsed(), Duration::ZERO, "{name}");
    }
}

/// <https://github.com/continuedev/continue/issues/10602>, <https://github.com/Aider-AI/aider/issues/1880>: a request
/// that is larger than the limit per minute is refused as 429 with the code of a throttle, and was repeated in vain.
#[tokio::test(start_paused = true)]
async fn a_request_above_the_whole_limit_is_sent_once_and_closes_nothing() {
    let large = r#"{"error":{"message":"Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 61337. The input or output tokens must be reduced in order to run successfully.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#;
    let (_, admission) = gated(Limits::new());
    let origin = Origin::in_order([Answer::status(429).body(large)]);
    let client = origin.behind(admission.profile(Profile::named("openai")).build().unwrap());
    let start = Instant::now();
    let outcome = call(&client, 30_000).send().await;
    let spill = SpillOver::of(&outcome).expect("a spill-over");
    assert_eq!((spill.reason(), spill.attempts()), (Reason::RequestTooLarge, 1));
    call(&client, 0).send().await.unwrap();
    assert_eq!((origin.count(), start.elapsed()), (2, Duration::ZERO));
}

/// <https://github.com/majiayu000/harness/pull/863>: clients that left while they waited took their places with them, and
/// the server took no more calls. Here they leave during the wait that a refusal asked for.
#[tokio::test(start_paused = true)]
async fn calls_dropped_while_they_wait_out_a_refusal_leave_the_scope_usable() {
    let (gate, admission) = gated(Limits::new().concurrency(2));
    let start = Instant::now();
    let refused = move || start.elapsed() < ms(5_000);
    let origin = Origin::new(move |_, _| match refused() {
        true => Answer::status(429).header("retry-after", "5").after(ms(50)),
        false => Answer::ok(),
    });
    let client = origin.behind(admission.build().unwrap());
    for _ in 0..20 {
        let waiting: Vec<_> = (0..4).map(|_| tokio::spawn(call(&client, 60_000).send())).collect();
        tokio::time::sleep(ms(100)).await;
        waiting.iter().for_each(JoinHandle::abort);
        settle().await;
        assert_eq!(occupied(&gate), (0, 0));
    }
    let before = origin.count();
    assert_eq!(before, 2, "the first two were refused, and nobody else was sent into the closed scope");
    let outcome = call(&client, 60_000).send().await.unwrap();
    assert_eq!((outcome.status().as_u16(), origin.count()), (200, before + 1));
    assert!(start.elapsed() >= ms(5_050), "{:?}", start.elapsed());
}

/// The body of a refusal that never ends, as behind a proxy that lost its upstream, holds no place: the permit is back
/// after the time that the policy gives to reading it, and the call goes on by the advice of the head.
#[tokio::test(start_paused = true)]
async fn a_refusal_whose_body_never_ends_holds_no_place() {
    let (gate, admission) = gated(Limits::new().concurrency(1));
    let hanging = Frames::body([data("{\"error\":"), Piece::Hang]);
    let origin = Origin::in_order([Answer::status(429).header("retry-after", "3").body(hanging)]);
    let client = origin.behind(admission.build().unwrap());
    let start = Instant::now();
    let outcome = call(&client, 30_000).send().await.unwrap();
    assert_eq!(outcome.status(), 200);
    let took = start.elapsed();
    assert!(
        took >= ms(3_000) && took <= ms(3_600),
        "{took:?}: the wait counts from the head of the response"
    );
    drop(outcome);
    assert_eq!(occupied(&gate), (0, 0));
}

/// <https://github.com/lidge-jun/opencodex/issues/532>: a success that was under way before the refusal re-opened what
/// the refusal had closed.
#[tokio::test(start_paused = true)]
async fn a_success_sent_before_a_refusal_opens_nothing() {
    let (_, admission) = gated(Limits::new());
    let origin =
        Origin::in_order([Answer::ok().after(ms(1_000)), Answer::status(429).header("retry-after", "10")]);
    let client = origin.behind(admission.build().unwrap());
    let start = Instant::now();
    let slow = spawn(call(&client, 30_000));
    settle().await;
    let refused = spawn(call(&client, 30_000));
    assert_eq!(slow.await.unwrap().0.unwrap().status(), 200);
    let late = spawn(call(&client, 30_000));
    for waiting in [refused, late] {
        assert_eq!(waiting.await.unwrap().0.unwrap().status(), 200);
    }
    let sent = origin.times(start);
    assert!(sent[2..].iter().all(|at| *at >= ms(10_000)), "{sent:?}");
}
