//! Dropping the future of a call ends it, wherever it stands; observers that panic hurt no call.
#![cfg(test)]

mod support;

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Extensions;
use http_body::Frame;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::Body;
use reqwest_admission::observe::{DecisionEvent, Observer};
use reqwest_admission::policy::{OnSpill, RetryBudgetPolicy};
use reqwest_admission::{
    Admission, AdmissionPolicy, CallReport, LatencyBudget, Reason, RetryConflict, SpillOver,
};
use reqwest_middleware::ClientWithMiddleware;
use support::{Answer, Origin, ms};
use tokio::time::{Instant, timeout};

const URL: &str = "http://api.example/v1/items";

/// A body that gives one frame and then nothing, for ever; counts how many of its kind are alive.
struct Endless {
    begun: bool,
    alive: Arc<AtomicUsize>,
}

impl Endless {
    fn body(alive: &Arc<AtomicUsize>) -> Body {
        alive.fetch_add(1, Ordering::Relaxed);
        Body::wrap(Self { begun: false, alive: Arc::clone(alive) })
    }
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match std::mem::replace(&mut self.begun, true) {
            false => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"{"))))),
            true => Poll::Pending,
        }
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

fn request(client: &ClientWithMiddleware) -> reqwest::Request {
    client.get(URL).build().unwrap()
}

/// Runs a call with `extensions` and drops it after `life`, unless it is done.
async fn cut(client: &ClientWithMiddleware, extensions: &mut Extensions, life: Duration) -> bool {
    timeout(life, client.execute_with_extensions(request(client), extensions)).await.is_err()
}

/// No send comes after the drop, no task is left, and the very same extensions serve another call.
async fn is_over(origin: &Origin, client: &ClientWithMiddleware, mut extensions: Extensions, sends: usize) {
    assert_eq!(tasks(), 0);
    let outcome = client.execute_with_extensions(request(client), &mut extensions).await;
    assert!(RetryConflict::of(&outcome).is_none(), "{outcome:?}");
    assert_eq!(outcome.unwrap().status(), 200);
    assert_eq!(origin.count(), sends + 1);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!((origin.count(), tasks()), (sends + 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_before_it_is_polled_sends_nothing() {
    let origin = Origin::always(Answer::ok);
    let client = origin.behind(Admission::default());
    let mut extensions = Extensions::new();
    drop(client.execute_with_extensions(request(&client), &mut extensions));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(origin.count(), 0);
    is_over(&origin, &client, extensions, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_during_a_send_sends_nothing_more() {
    let origin = Origin::in_order([Answer::status(429).after(ms(100))]);
    let client = origin.behind(Admission::default());
    let mut extensions = Extensions::new();
    assert!(cut(&client, &mut extensions, ms(50)).await);
    is_over(&origin, &client, extensions, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_a_refusals_body_is_read_lets_the_body_go() {
    let alive = Arc::new(AtomicUsize::new(0));
    let origin = Origin::in_order([Answer::status(429).body(Endless::body(&alive))]);
    let client = origin.behind(Admission::default());
    let mut extensions = Extensions::new();
    assert!(cut(&client, &mut extensions, ms(50)).await);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
    is_over(&origin, &client, extensions, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_during_a_wait_sends_nothing_more() {
    for life in [1, 50, 4999] {
        let origin = Origin::in_order([Answer::status(429).header("retry-after", "5")]);
        let client = origin.behind(Admission::default());
        let mut extensions = Extensions::new();
        assert!(cut(&client, &mut extensions, ms(life)).await);
        is_over(&origin, &client, extensions, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_whose_body_is_dropped_half_read_leaves_nothing() {
    let alive = Arc::new(AtomicUsize::new(0));
    for status in [200, 404] {
        let origin = Origin::in_order([Answer::status(status).body(Endless::body(&alive))]);
        let client = origin.behind(Admission::default());
        let mut response = client.get(URL).send().await.unwrap();
        assert_eq!(response.chunk().await.unwrap().unwrap(), "{");
        assert!(timeout(ms(50), response.chunk()).await.is_err());
        assert_eq!(alive.load(Ordering::Relaxed), 1);
        drop(response);
        assert_eq!((alive.load(Ordering::Relaxed), tasks()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_let_go_before_the_wait() {
    let alive = Arc::new(AtomicUsize::new(0));
    let origin =
        Origin::in_order([Answer::status(429).header("retry-after", "9").body(Endless::body(&alive))]);
    let client = origin.behind(Admission::default());
    let mut call = Box::pin(client.get(URL).send());
    // Two seconds for the body, then the wait.
    assert!(timeout(ms(2001), &mut call).await.is_err());
    assert_eq!((alive.load(Ordering::Relaxed), origin.count()), (0, 1));
    let start = Instant::now();
    assert_eq!(call.await.unwrap().status(), 200);
    // The advice counts from the receipt of the head, not from the end of the body.
    assert!(start.elapsed() >= ms(6999) && start.elapsed() <= ms(7899), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_takes_what_is_left_of_the_budget_leaves_no_time_for_another_send() {
    for (budget, sends) in [(1999, 1), (2000, 1), (2001, 2)] {
        let alive = Arc::new(AtomicUsize::new(0));
        let refusal = Answer::status(429).header("retry-after-ms", "100").body(Endless::body(&alive));
        let origin = Origin::in_order([refusal]);
        let call =
            origin.behind(Admission::default()).get(URL).with_extension(LatencyBudget::new(ms(budget)));
        let outcome = call.send().await;
        assert_eq!((origin.count(), outcome.is_ok()), (sends, sends == 2), "{budget}");
        if let Some(spill) = SpillOver::of(&outcome) {
            assert_eq!((spill.reason(), spill.status().unwrap().as_u16()), (Reason::BudgetExceeded, 429));
            assert_eq!((spill.body(), spill.possibly_processed()), (&b"{"[..], false));
        }
    }
}

/// Something of everything that may come back.
fn any_answer(random: &mut StdRng, alive: &Arc<AtomicUsize>) -> Answer {
    let answer = match random.random_range(0..8_u8) {
        0 => Answer::ok(),
        1 => Answer::status(500),
        2 => Answer::status(503),
        3 => Answer::status(429),
        4 => Answer::status(429).body(Endless::body(alive)),
        5 => Answer::status(503).header("retry-after", "1").body("{}"),
        _ => {
            let wait = random.random_range(0..1500_u32);
            Answer::status(429).header("retry-after-ms", &wait.to_string())
        }
    };
    answer.after(ms(random.random_range(0..300)))
}

#[tokio::test(start_paused = true)]
async fn of_ten_thousand_calls_dropped_at_random_none_sends_after_its_drop() {
    const CALLS: usize = 10_000;
    let mut random = StdRng::seed_from_u64(7);
    let alive = Arc::new(AtomicUsize::new(0));
    let origin = Origin::new({
        let (mut random, alive) = (StdRng::seed_from_u64(8), Arc::clone(&alive));
        move |_, _| any_answer(&mut random, &alive)
    });
    // Enough for all of them, so that waits of every kind are cut.
    let budget = RetryBudgetPolicy::new(10.0, 1_000_000, Duration::from_secs(10)).unwrap();
    let policy = AdmissionPolicy::builder().retry_budget(budget).build().unwrap();
    let client = origin.behind(Admission::builder().policy(policy).seed(9).build().unwrap());
    let calls: Vec<_> = (0..CALLS)
        .map(|id| {
            let (begin, life) = (ms(random.random_range(0..5000)), ms(random.random_range(0..4000)));
            let client = client.clone();
            tokio::spawn(async move {
                tokio::time::sleep(begin).await;
                let mut request = request(&client);
                request.headers_mut().insert("x-call", id.into());
                let mut extensions = Extensions::new();
                let call = client.execute_with_extensions(request, &mut extensions);
                let dropped = timeout(life, call).await.is_err();
                (dropped, Instant::now(), extensions)
            })
        })
        .collect();
    let mut ends = Vec::new();
    let mut extensions = Vec::new();
    for call in calls {
        let (dropped, at, map) = call.await.unwrap();
        ends.push((dropped, at));
        if dropped {
            extensions.push(map);
        }
    }
    assert!(extensions.len() > CALLS / 10, "{} dropped", extensions.len());
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!((tasks(), alive.load(Ordering::Relaxed)), (0, 0));
    for seen in origin.seen() {
        let id: usize = seen.headers["x-call"].to_str().unwrap().parse().unwrap();
        assert!(seen.at <= ends[id].1, "call {id} sent after its end");
    }
    // What the dropped calls leave behind stands in the way of no other.
    for mut extensions in extensions.into_iter().take(200) {
        let outcome = client.execute_with_extensions(request(&client), &mut extensions).await;
        assert!(RetryConflict::of(&outcome).is_none(), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn resends_claimed_by_dropped_calls_come_back_with_the_window() {
    let origin = Origin::always(|| Answer::status(503));
    let budget = RetryBudgetPolicy::new(0.0, 1, Duration::from_secs(10)).unwrap();
    let policy = AdmissionPolicy::builder().retry_budget(budget).build().unwrap();
    let client = origin.behind(Admission::builder().policy(policy).build().unwrap());
    for _ in 0..100 {
        let _ = timeout(ms(1), client.get(URL).send()).await;
    }
    let before = origin.count();
    assert!(SpillOver::of(&client.get(URL).send().await).is_some());
    assert_eq!(origin.count(), before + 1);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(SpillOver::of(&client.get(URL).send().await).is_some());
    assert_eq!(origin.count(), before + 1 + 6);
}

/// Panics whenever it is told anything, having noted it.
#[derive(Clone, Default)]
struct Faulty {
    decisions: Arc<Mutex<Vec<String>>>,
    conflicts: Arc<AtomicUsize>,
}

impl Observer for Faulty {
    fn decided(&self, event: &DecisionEvent<'_>) {
        self.decisions.lock().unwrap().push(format!("{} {}", event.attempt, event.decision));
        panic!("on purpose");
    }

    fn conflicted(&self, _: &RetryConflict) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
        panic!("on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_hurts_no_call_and_is_told_each_decision_once() {
    for on_spill in [OnSpill::Error, OnSpill::Response] {
        let faulty = Faulty::default();
        let policy = AdmissionPolicy::builder().on_spill(on_spill).build().unwrap();
        let admission = Admission::builder().policy(policy).observer(faulty.clone()).build().unwrap();

        let origin = Origin::in_order([Answer::status(429).header("retry-after", "1"), Answer::status(500)]);
        let report = CallReport::new();
        let call = origin.behind(admission.clone()).get(URL).header("x-stainless-retry-count", "2");
        assert_eq!(call.with_extension(report.clone()).send().await.unwrap().status(), 200);
        let told = std::mem::take(&mut *faulty.decisions.lock().unwrap());
        assert_eq!(told, ["1 wait", "2 wait", "3 admit"]);
        assert_eq!(report.details().len(), told.len());
        assert_eq!((faulty.conflicts.load(Ordering::Relaxed), report.conflicts().len()), (1, 1));

        let origin = Origin::always(|| Answer::status(429).header("retry-after", "99").body("busy"));
        let report = CallReport::new();
        let client = origin.behind(admission);
        // Another host, whose scope nothing has refused yet.
        let outcome = client.get("https://other.example/").with_extension(report.clone()).send().await;
        let spill = SpillOver::of(&outcome).unwrap();
        assert_eq!((spill.body(), spill.advised_wait()), (&b"busy"[..], Some(ms(99_000))));
        assert_eq!(outcome.is_ok(), on_spill == OnSpill::Response);
        let told = std::mem::take(&mut *faulty.decisions.lock().unwrap());
        assert_eq!(told, ["1 spill_over"]);
        assert_eq!(report.details().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_call_tells_its_observer_once_per_attempt() {
    for (status, attempts) in [(500, 6), (404, 1), (503, 6)] {
        let count = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&count);
        let observer = move |_: &DecisionEvent<'_>| {
            told.fetch_add(1, Ordering::Relaxed);
        };
        let origin = Origin::always(move || Answer::status(status));
        let client = origin.behind(Admission::builder().observer(observer).build().unwrap());
        let _ = client.get(URL).send().await;
        assert_eq!((count.load(Ordering::Relaxed), origin.count()), (attempts, attempts), "{status}");
    }
}
