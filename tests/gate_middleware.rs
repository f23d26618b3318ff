//! The middleware at its gate: shared cool-downs, permits in bodies, refusals before sending. Paused clock, fake origin.
#![cfg(test)]

mod support;

use std::time::Duration;

use reqwest_admission::gate::{Gate, Priority, ScopeKey};
use reqwest_admission::pace::{Limits, TokenEstimate};
use reqwest_admission::{Admission, CallReport, LatencyBudget, Reason, SpillOver};
use reqwest_middleware::ClientWithMiddleware;
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const URL: &str = "https://api.example/v1/items";

fn refused(milliseconds: u64) -> Answer {
    Answer::status(429).header("retry-after-ms", &milliseconds.to_string())
}

fn limited(limits: Limits) -> (Gate, Admission) {
    let gate = Gate::builder().limits(limits).build().unwrap();
    (gate.clone(), Admission::builder().gate(gate).draws(|| 0.0).build().unwrap())
}

fn in_flight(gate: &Gate) -> (u32, usize) {
    let snapshot = gate.snapshot(Instant::now().into_std());
    snapshot.scopes.iter().fold((0, 0), |(flying, waiting), scope| {
        let queue = scope.waiting.high + scope.waiting.normal + scope.waiting.batch;
        (flying + scope.in_flight, waiting + queue)
    })
}

async fn spilled(client: &ClientWithMiddleware, url: &str) -> Option<SpillOver> {
    SpillOver::of(&client.get(url).send().await).cloned()
}

#[tokio::test(start_paused = true)]
async fn law_7_a_closed_scope_refuses_later_calls_without_touching_the_server() {
    let origin = Origin::in_order([refused(60_000)]);
    let client = origin.behind(Admission::default());
    assert_eq!(spilled(&client, URL).await.unwrap().reason(), Reason::BudgetExceeded);
    for _ in 0..20 {
        tokio::time::sleep(ms(1000)).await;
        let spill = spilled(&client, URL).await.unwrap();
        assert_eq!((spill.reason(), spill.attempts(), spill.status()), (Reason::BudgetExceeded, 0, None));
        assert!(!spill.possibly_processed());
        assert!(spill.advised_wait().unwrap() >= ms(40_000));
        assert!(spill.retry_at().is_some());
        // The request was never sent, so it is given back.
        assert_eq!(spill.take_request().unwrap().url().as_str(), URL);
        assert!(spill.take_request().is_none());
    }
    assert_eq!(origin.count(), 1);
    tokio::time::sleep(ms(20_000)).await;
    let start = Instant::now();
    assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
    assert_eq!(start.elapsed() + ms(40_000), ms(60_000));
}

#[tokio::test(start_paused = true)]
async fn law_7_nobody_sends_to_a_scope_during_its_cool_down_and_it_reopens_without_a_herd() {
    let origin = Origin::new(|n, _| if n == 0 { refused(2000) } else { Answer::ok().after(ms(300)) });
    let client = origin.behind(Admission::default());
    let start = Instant::now();
    let first = tokio::spawn(client.get(URL).send());
    tokio::time::sleep(ms(100)).await;
    let others: Vec<_> = (0..10).map(|_| tokio::spawn(client.get(URL).send())).collect();
    for call in others.into_iter().chain([first]) {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    let times = origin.times(start);
    assert_eq!(times.len(), 12);
    assert!(times[1..].iter().all(|sent| *sent >= ms(2000)), "{times:?}");
    let at_once = times[1..].iter().filter(|sent| **sent < ms(2100)).count();
    assert!(at_once < 5, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn law_7_models_and_credentials_do_not_share_a_cool_down() {
    let closed = |request: &reqwest::Request| {
        request.url().path().contains("/deployments/a/") && request.headers()["api-key"] == "one"
    };
    let origin = Origin::new(move |_, request| if closed(request) { refused(60_000) } else { Answer::ok() });
    let client = origin.behind(Admission::default());
    let call = |deployment: &str, key: &str| {
        let url = format!("https://api.example/openai/deployments/{deployment}/chat");
        client.get(url).header("api-key", key).send()
    };
    assert!(SpillOver::of(&call("a", "one").await).is_some());
    assert_eq!(call("b", "one").await.unwrap().status(), 200);
    assert_eq!(call("a", "two").await.unwrap().status(), 200);
    let count = origin.count();
    assert!(SpillOver::of(&call("a", "one").await).is_some());
    assert_eq!(origin.count(), count);
}

#[tokio::test(start_paused = true)]
async fn a_scope_of_the_callers_own_goes_before_the_usual_one() {
    let origin = Origin::in_order([refused(60_000)]);
    let by_path =
        Admission::builder().scope_by(|request| ScopeKey::new(request.url().path())).build().unwrap();
    for (admission, scoped) in [(Admission::default(), true), (by_path, false)] {
        let origin = Origin::in_order([refused(60_000)]);
        let client = origin.behind(admission);
        let call = |url: &str, scope: &str| {
            let call = client.get(url.to_owned());
            if scoped { call.with_extension(ScopeKey::new(scope)).send() } else { call.send() }
        };
        assert!(SpillOver::of(&call("https://api.example/a", "a").await).is_some());
        assert!(call("https://api.example/b", "b").await.is_ok());
        assert!(SpillOver::of(&call("https://api.example/a", "a").await).is_some());
        assert_eq!(origin.count(), 2);
    }
    drop(origin);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_sees_a_longer_cool_down_at_once() {
    let origin = Origin::in_order([refused(10_000), refused(50_000)]);
    let (gate, admission) = limited(Limits::new());
    let client = origin.behind(admission);
    let budget = |seconds| LatencyBudget::new(Duration::from_secs(seconds));
    let first = tokio::spawn(client.get(URL).with_extension(budget(100)).send());
    tokio::time::sleep(ms(1)).await;
    let start = Instant::now();
    let second = tokio::spawn(client.get(URL).with_extension(budget(20)).send());
    tokio::time::sleep(ms(500)).await;
    gate.close(&ScopeKey::new("https://api.example"), Duration::from_secs(30), Instant::now().into_std());
    let outcome = second.await.unwrap();
    assert_eq!(SpillOver::of(&outcome).unwrap().reason(), Reason::BudgetExceeded);
    assert_eq!(start.elapsed(), ms(500));
    assert!(first.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn law_8_a_permit_lives_in_the_body_to_its_end_or_drop() {
    let origin = Origin::always(|| Answer::ok().body("x".repeat(1000)));
    let (gate, admission) = limited(Limits::new().concurrency(1));
    let client = origin.behind(admission);
    let budget = LatencyBudget::new(ms(1000));
    for read in [true, false] {
        let held = client.get(URL).send().await.unwrap();
        assert_eq!(held.content_length(), Some(1000));
        assert_eq!(held.url().as_str(), URL);
        assert!(held.extensions().get::<CallReport>().is_some());
        assert_eq!(in_flight(&gate), (1, 0));
        let second = client.get(URL).with_extension(budget).send().await;
        assert!(SpillOver::of(&second).is_some(), "{read}");
        let waiting = tokio::spawn(client.get(URL).send());
        tokio::time::sleep(ms(10)).await;
        assert_eq!(in_flight(&gate), (1, 1));
        if read {
            assert_eq!(held.text().await.unwrap().len(), 1000);
        } else {
            drop(held);
        }
        assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
        assert_eq!(in_flight(&gate), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn law_8_a_response_without_a_body_releases_at_once_and_a_wait_holds_nothing() {
    let (gate, admission) = limited(Limits::new().concurrency(1));
    let client = Origin::always(|| Answer::status(204)).behind(admission);
    let held = client.get(URL).send().await.unwrap();
    assert_eq!(in_flight(&gate), (0, 0));
    drop(held);

    let (gate, admission) = limited(Limits::new().concurrency(1));
    let origin = Origin::in_order([Answer::status(503)]);
    let client = origin.behind(admission);
    let waiting = tokio::spawn(client.get(URL).send());
    tokio::time::sleep(ms(10)).await;
    assert_eq!((origin.count(), in_flight(&gate)), (1, (0, 0)));
    assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(in_flight(&gate), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_configured_limit_is_kept_before_the_server_is_asked() {
    let origin = Origin::always(Answer::ok);
    let (_, admission) = limited(Limits::new().requests_per_minute(2));
    let client = origin.behind(admission);
    let start = Instant::now();
    for _ in 0..3 {
        client.get(URL).send().await.unwrap();
    }
    assert_eq!(origin.times(start), [0, 0, 30_000].map(ms));
    let spill = spilled(&client, URL).await;
    assert!(spill.is_none(), "{spill:?}");
    let outcome = client.get(URL).with_extension(LatencyBudget::new(ms(5000))).send().await;
    let wait = SpillOver::of(&outcome).unwrap().advised_wait().unwrap();
    assert!(wait > ms(29_000) && wait <= ms(30_001), "{wait:?}");
}

#[tokio::test(start_paused = true)]
async fn an_estimate_of_tokens_is_what_a_call_costs() {
    let origin = Origin::always(Answer::ok);
    let (_, admission) = limited(Limits::new().tokens_per_minute(6000));
    let client = origin.behind(admission);
    let start = Instant::now();
    for _ in 0..3 {
        client.get(URL).with_extension(TokenEstimate::new(2500, 1000).cached(500)).send().await.unwrap();
    }
    assert_eq!(origin.times(start), [0, 0, 30_000].map(ms));
    // Larger than the bucket: alone when it is full, never stuck.
    let outcome = client
        .get(URL)
        .with_extension(TokenEstimate::new(9000, 0))
        .with_extension(LatencyBudget::new(ms(120_000)))
        .send()
        .await;
    assert_eq!(outcome.unwrap().status(), 200);
    assert_eq!(origin.times(start)[3], ms(90_000));
}

#[tokio::test(start_paused = true)]
async fn law_6_an_exhausted_account_closes_no_scope() {
    let body = r#"{"error":{"code":"insufficient_quota"}}"#;
    let origin = Origin::new(move |n, _| if n == 0 { Answer::status(429).body(body) } else { Answer::ok() });
    let client = origin.behind(Admission::default());
    assert_eq!(spilled(&client, URL).await.unwrap().reason(), Reason::QuotaExhausted);
    // One call at a time asks whether it still is, the first after a second.
    tokio::time::sleep(ms(1_000)).await;
    assert!(spilled(&client, URL).await.is_none());
    assert!(spilled(&client, URL).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_spent_limit_on_a_success_holds_the_next_call_and_leaves_the_success_alone() {
    let spent = || {
        Answer::ok()
            .header("x-ratelimit-limit-requests", "100")
            .header("x-ratelimit-remaining-requests", "0")
            .header("x-ratelimit-reset-requests", "5s")
    };
    let origin = Origin::in_order([spent()]);
    let client = origin.behind(Admission::default());
    let start = Instant::now();
    assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
    assert_eq!(start.elapsed(), ms(0));
    client.get(URL).send().await.unwrap();
    assert!(origin.times(start)[1] > ms(0), "{:?}", origin.times(start));
}

#[tokio::test(start_paused = true)]
async fn priorities_go_in_their_order() {
    let origin = Origin::in_order([refused(1000)]);
    let client = origin.behind(Admission::default());
    let calls = [("batch", Priority::Batch), ("normal", Priority::Normal), ("high", Priority::High)];
    let first = tokio::spawn(client.get(URL).with_extension(Priority::High).send());
    tokio::time::sleep(ms(10)).await;
    let mut tasks = Vec::new();
    for (name, priority) in calls {
        tasks.push(tokio::spawn(client.get(URL).header("x-name", name).with_extension(priority).send()));
        tokio::time::sleep(ms(10)).await;
    }
    for task in tasks.into_iter().chain([first]) {
        assert_eq!(task.await.unwrap().unwrap().status(), 200);
    }
    let order: Vec<_> =
        origin.seen()[2..].iter().map(|seen| seen.headers["x-name"].to_str().unwrap().to_owned()).collect();
    assert_eq!(order, ["high", "normal", "batch"]);
}

#[tokio::test(start_paused = true)]
async fn dropped_calls_leave_nothing_at_the_gate() {
    let origin = Origin::always(|| Answer::ok().after(ms(500)));
    let (gate, admission) = limited(Limits::new().concurrency(2));
    let client = origin.behind(admission);
    let calls: Vec<_> = (0..100).map(|_| tokio::spawn(client.get(URL).send())).collect();
    for (n, call) in calls.iter().enumerate() {
        tokio::time::sleep(ms(u64::try_from(n % 7).unwrap())).await;
        call.abort();
    }
    tokio::task::yield_now().await;
    tokio::time::sleep(ms(1)).await;
    assert_eq!(in_flight(&gate), (0, 0));
    assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_kept_and_not_polled_does_not_hold_up_the_scope() {
    let origin = Origin::new(|n, _| if n == 0 { refused(1000) } else { Answer::ok() });
    let client = origin.behind(Admission::default());
    let none = LatencyBudget::new(Duration::ZERO);
    assert!(client.get(URL).with_extension(none).send().await.is_err());
    // As behind a `select!` whose other arm sends a call of its own.
    let mut kept = [(); 3].map(|()| Box::pin(client.get(URL).send()));
    for kept in &mut kept {
        let waker = std::task::Waker::noop();
        assert!(kept.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    }
    let start = Instant::now();
    assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
    assert!(start.elapsed() >= ms(1000) && start.elapsed() < ms(5000), "{:?}", start.elapsed());
    for kept in kept {
        assert_eq!(kept.await.unwrap().status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_turned_away_after_a_refusal_names_the_moment_that_the_gate_knows() {
    // The second call's refusal advises a second; the first call's, which comes later, a hundred.
    let origin = Origin::new(|n, _| if n == 0 { refused(100_000).after(ms(500)) } else { refused(1000) });
    let client = origin.behind(Admission::default());
    let first = tokio::spawn(client.get(URL).send());
    tokio::time::sleep(ms(10)).await;
    let second = tokio::spawn(client.get(URL).send());
    assert!(first.await.unwrap().is_err());
    let outcome = second.await.unwrap();
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!((spill.attempts(), spill.advised_wait()), (1, Some(ms(1000))));
    let ahead = spill.retry_at().unwrap().duration_since(std::time::SystemTime::now()).unwrap();
    assert!(ahead > ms(90_000), "{ahead:?}");
}

#[tokio::test(start_paused = true)]
async fn law_1_a_call_that_was_let_go_and_has_not_gone_yet_keeps_to_a_refusal_that_came_meanwhile() {
    let origin = Origin::in_order([Answer::ok().after(ms(100)), refused(5000).after(ms(150))]);
    let (_, admission) = limited(Limits::new().concurrency(2));
    let client = origin.behind(admission);
    let start = Instant::now();
    let first = tokio::spawn(client.get(URL).send());
    tokio::task::yield_now().await;
    let second = tokio::spawn(client.get(URL).with_extension(LatencyBudget::new(Duration::ZERO)).send());
    tokio::task::yield_now().await;
    let mut kept = Box::pin(client.get(URL).send());
    let waker = std::task::Waker::noop();
    assert!(kept.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    // The end of the first call lets the kept one go, of which nobody takes notice before the second is refused.
    drop(first.await.unwrap().unwrap());
    assert!(second.await.unwrap().is_err());
    assert_eq!(start.elapsed(), ms(150));
    assert_eq!(kept.await.unwrap().status(), 200);
    let times = origin.times(start);
    assert!(times[2] >= ms(5150), "{times:?}");
}
