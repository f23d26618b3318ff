//! Code of the caller's that panics while a call is on its way takes that call with it and nothing else.
#![cfg(test)]

#[path = "support/frames.rs"]
mod frames;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use frames::{Frames, Piece, data};
use reqwest_admission::gate::{Gate, ScopeKey};
use reqwest_admission::observe::DecisionEvent;
use reqwest_admission::pace::{Limits, TokenEstimate};
use reqwest_admission::{Admission, AdmissionBuilder};
use reqwest_middleware::ClientWithMiddleware;
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const URL: &str = "https://api.example/v1/items";

/// One slot: a permit that is lost would end everything.
fn gated() -> (Gate, AdmissionBuilder) {
    let gate =
        Gate::builder().limits(Limits::new().concurrency(1).requests_per_minute(60_000)).build().unwrap();
    (gate.clone(), Admission::builder().gate(gate).draws(|| 0.0))
}

fn assert_empty(gate: &Gate, what: &str) {
    for scope in gate.snapshot(Instant::now().into_std()).scopes {
        let waiting = scope.waiting.high + scope.waiting.normal + scope.waiting.batch;
        assert_eq!((scope.in_flight, waiting), (0, 0), "{what}");
    }
}

/// Makes a call that ends in a panic.
async fn panics(client: &ClientWithMiddleware, what: &str) {
    let call = client.post(URL).body("{}").send();
    let task = tokio::spawn(async move { call.await.unwrap().text().await.unwrap() });
    assert!(task.await.unwrap_err().is_panic(), "{what}");
}

async fn works(client: &ClientWithMiddleware, what: &str) {
    for _ in 0..3 {
        let response = client.post(URL).body("{}").with_extension(TokenEstimate::new(1, 1)).send().await;
        assert_eq!(response.unwrap().text().await.unwrap(), "", "{what}");
    }
}

/// Panics as long as it is told to.
#[derive(Debug, Clone, Default)]
struct Fuse(Arc<AtomicBool>);

impl Fuse {
    fn lit() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    fn out(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    fn burn(&self) {
        assert!(!self.0.load(Ordering::SeqCst), "as told");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_at_any_event_does_not_even_end_its_call() {
    // A refusal, a wait, a success, and beside it a call that waits for the slot: every kind of event.
    for nth in 0..6 {
        let (gate, admission) = gated();
        let left = Arc::new(AtomicI64::new(nth));
        let admission = admission.observer({
            let left = Arc::clone(&left);
            move |_: &DecisionEvent<'_>| assert_ne!(left.fetch_sub(1, Ordering::SeqCst), 0, "as told")
        });
        let origin = Origin::in_order([
            Answer::status(429).header("retry-after-ms", "100").after(ms(50)),
            Answer::ok().after(ms(50)),
        ]);
        let client = origin.behind(admission.build().unwrap());
        let calls: Vec<_> = (0..3).map(|_| tokio::spawn(client.post(URL).send())).collect();
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap().status(), 200, "event {nth}");
        }
        assert!(left.load(Ordering::SeqCst) < 0, "event {nth} did not come");
        assert_empty(&gate, "observer");
        left.store(-1, Ordering::SeqCst);
        works(&client, "observer").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_scope_function_that_panics_does_not_even_end_its_call() {
    let (gate, admission) = gated();
    let fuse = Fuse::lit();
    let burning = fuse.clone();
    let admission = admission.scope_by(move |_| {
        burning.burn();
        ScopeKey::new("scope")
    });
    let client = Origin::always(Answer::ok).behind(admission.build().unwrap());
    works(&client, "scope_by").await;
    assert_empty(&gate, "scope_by");
    fuse.out();
    works(&client, "scope_by").await;
}

#[tokio::test(start_paused = true)]
async fn a_draw_that_panics_is_0_and_harms_no_call() {
    let (gate, _) = gated();
    let fuse = Fuse::lit();
    let admission = Admission::builder().gate(gate.clone()).draws(move || {
        fuse.burn();
        0.5
    });
    let refused = || Answer::status(429).header("retry-after-ms", "10");
    let origin = Origin::in_order([refused(), refused(), refused()]);
    let client = origin.behind(admission.build().unwrap());
    works(&client, "draws").await;
    assert_eq!(origin.count(), 6, "and refusals are waited out");
    assert_empty(&gate, "draws");
}

#[cfg(feature = "estimate")]
#[tokio::test(start_paused = true)]
async fn an_estimator_that_panics_does_not_even_end_its_call() {
    use reqwest_admission::estimate::BodyEstimator;

    let (gate, admission) = gated();
    let fuse = Fuse::lit();
    let burning = fuse.clone();
    let counter = move |_: &str| {
        burning.burn();
        1
    };
    let admission = admission.estimator(BodyEstimator::default().counter(counter));
    let client = Origin::always(Answer::ok).behind(admission.build().unwrap());
    let chat = r#"{"messages":[{"role":"user","content":"one"}]}"#;
    for _ in 0..3 {
        assert_eq!(client.post(URL).body(chat).send().await.unwrap().status(), 200);
        assert_empty(&gate, "estimator");
    }
    fuse.out();
    assert_eq!(client.post(URL).body(chat).send().await.unwrap().status(), 200);
    works(&client, "estimator").await;
}

#[tokio::test(start_paused = true)]
async fn law_8_an_inner_layer_that_panics_frees_the_permit() {
    let (gate, admission) = gated();
    let mut first = true;
    let origin = Origin::new(move |_, request| {
        if std::mem::take(&mut first) {
            assert_eq!(request.method(), http::Method::GET, "as told");
        }
        Answer::ok()
    });
    // The script of the fake origin is behind a lock of its own, so another origin goes on.
    let sound = Origin::always(Answer::ok);
    let admission = admission.build().unwrap();
    panics(&origin.behind(admission.clone()), "origin").await;
    assert_empty(&gate, "origin");
    works(&sound.behind(admission), "origin").await;
}

#[tokio::test(start_paused = true)]
async fn law_8_a_body_that_panics_frees_the_permit() {
    for status in [200, 429] {
        let (gate, admission) = gated();
        let bad = Answer::status(status).header("retry-after-ms", "10");
        let origin = Origin::in_order([bad.body(Frames::body([data("half"), Piece::Panic]))]);
        let client = origin.behind(admission.settle_from_usage(true).build().unwrap());
        panics(&client, "body").await;
        assert_empty(&gate, "body");
        works(&client, "body").await;
    }
}

#[tokio::test(start_paused = true)]
async fn law_8_a_caller_that_panics_with_the_response_in_hand_frees_the_permit() {
    let (gate, admission) = gated();
    let origin = Origin::in_order([Answer::ok().body(Frames::body([data("half"), Piece::Hang]))]);
    let client = origin.behind(admission.build().unwrap());
    let call = client.post(URL).send();
    let task = tokio::spawn(async move {
        let mut response = call.await.unwrap();
        assert_eq!(response.chunk().await.unwrap().unwrap(), "something else");
    });
    let waiting = tokio::spawn(client.post(URL).send());
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
    assert_empty(&gate, "caller");
    works(&client, "caller").await;
}
