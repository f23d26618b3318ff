//! What an owner remembers of a call over re-runs in the same extensions, on a paused clock with a fake origin.
#![cfg(test)]

#[path = "stacking/layers.rs"]
#[allow(dead_code, reason = "one of these layers is enough here")]
mod layers;
mod support;

use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, Method};
use layers::{AlwaysTwice, TimeLimit};
use reqwest::{Request, Response};
use reqwest_admission::policy::{AttemptTimeout, RetryOwnership};
use reqwest_admission::{
    Admission, AdmissionClient, AdmissionPolicy, CallReport, ConflictKind, LatencyBudget, RetryConflict,
    SpillOver,
};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error, Middleware, Next};
use support::{Answer, Origin, ms};
use tokio::time::Instant;

async fn post(client: &ClientWithMiddleware, extensions: &mut Extensions) -> Result<Response, Error> {
    let request = client.post("http://api.example/").body("job").build().unwrap();
    client.execute_with_extensions(request, extensions).await
}

fn kind(outcome: &Result<Response, Error>) -> Option<ConflictKind> {
    RetryConflict::of(outcome).map(RetryConflict::kind)
}

#[tokio::test(start_paused = true)]
async fn one_deadline_holds_over_reruns_after_a_failure() {
    let origin = Origin::in_order([Answer::status(500), Answer::ok().after(ms(60_000))]);
    let client = origin.behind(Admission::default());
    let mut extensions = Extensions::new();
    extensions.insert(LatencyBudget::new(ms(5000)));
    let start = Instant::now();
    // A POST may have been processed, so its 500 is handed on; a layer outside then runs the call again.
    assert_eq!(post(&client, &mut extensions).await.unwrap().status(), 500);
    tokio::time::sleep(ms(2000)).await;
    let outcome = post(&client, &mut extensions).await;
    assert!(SpillOver::of(&outcome).is_some(), "{outcome:?}");
    assert_eq!(start.elapsed(), ms(5000));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_was_handed_on_does_not_haunt_calls_after_its_deadline() {
    let origin = Origin::in_order([Answer::status(500), Answer::ok().after(ms(20_000))]);
    let client = origin.behind(Admission::default());
    let mut extensions = Extensions::new();
    assert_eq!(post(&client, &mut extensions).await.unwrap().status(), 500);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(post(&client, &mut extensions).await.unwrap().status(), 200);
}

/// A failure that was handed on is no refusal of ours: a layer outside may fall back on it, whatever it has sent before. Our
/// own attempts are not made again.
#[tokio::test(start_paused = true)]
async fn reruns_after_failures_are_one_send_each_and_never_lose_the_response() {
    let origin = Origin::always(|| Answer::status(500));
    let client = origin.behind(Admission::builder().max_attempts(3).build().unwrap());
    for (method, first) in [(Method::POST, 1), (Method::GET, 3)] {
        let before = origin.count();
        let mut extensions = Extensions::new();
        for run in 0..8 {
            let request = client.request(method.clone(), "http://api.example/").build().unwrap();
            let outcome = client.execute_with_extensions(request, &mut extensions).await;
            assert_eq!(outcome.unwrap().status(), 500);
            assert_eq!(origin.count() - before, first + run);
        }
    }
}

/// Refusals and dropped tries count against the attempts of the call, also when a failure was handed on between them.
#[tokio::test(start_paused = true)]
async fn reruns_after_refusals_and_drops_stay_within_the_attempts_of_one_call() {
    let origin = Origin::always(|| Answer::ok().after(ms(10_000)));
    let client = origin.behind(Admission::builder().max_attempts(3).build().unwrap());
    let mut extensions = Extensions::new();
    for _ in 0..3 {
        let dropped = tokio::time::timeout(ms(1000), post(&client, &mut extensions)).await;
        assert!(dropped.is_err());
    }
    let outcome = post(&client, &mut extensions).await;
    assert_eq!((kind(&outcome), origin.count()), (Some(ConflictKind::Reentry), 3));
}

fn never() -> Origin {
    Origin::always(|| Answer::ok().after(Duration::from_secs(100_000)))
}

async fn stopped_by(layer: impl Middleware, policy: AdmissionPolicy) -> (usize, Option<ConflictKind>) {
    let origin = never();
    let admission = Admission::builder().policy(policy).build().unwrap();
    let client = ClientBuilder::new(reqwest::Client::new()).with(layer).with(admission);
    let outcome = client.with(origin.clone()).build().get("http://api.example/").send().await;
    (origin.count(), kind(&outcome))
}

/// A call that is dropped and made again is still one call, with one deadline and one number of attempts.
#[tokio::test(start_paused = true)]
async fn a_time_limit_for_each_try_outside_never_sends_more_than_our_attempts_or_past_the_deadline() {
    for attempt_timeout in [AttemptTimeout::ClampToBudget, AttemptTimeout::Unclamped] {
        let policy = AdmissionPolicy::builder().attempt_timeout(attempt_timeout).build().unwrap();
        for limit in [1, 3, 4, 5, 6, 7, 10, 12, 15, 29, 30, 31, 45] {
            let each = Duration::from_secs(limit);
            let layer = TimeLimit { each, copies: false, anew: false };
            let (sends, kind) = stopped_by(layer, policy.clone()).await;
            // The tries that begin before the deadline.
            let most = usize::try_from(30_u64.div_ceil(limit)).unwrap().min(6);
            assert!(sends <= most, "{limit} s: {sends} sends, not {most}");
            assert_eq!(kind, Some(ConflictKind::Reentry), "{limit} s");
        }
    }
}

/// A caller who keeps the extensions of a call that was dropped long ago has a new call.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_dropped_does_not_haunt_calls_long_after_its_deadline() {
    let origin = Origin::in_order([Answer::ok().after(ms(60_000)), Answer::ok().after(ms(20_000))]);
    let client = origin.behind(Admission::default());
    let mut extensions = Extensions::new();
    assert!(tokio::time::timeout(ms(1000), post(&client, &mut extensions)).await.is_err());
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(kind(&post(&client, &mut extensions).await), Some(ConflictKind::Reentry));
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(post(&client, &mut extensions).await.unwrap().status(), 200);
}

/// The table of the page "Who retries?" of a server that does not answer.
#[tokio::test(start_paused = true)]
async fn what_a_time_limit_for_each_try_sends_is_what_the_page_says() {
    let layer = |copies, anew| TimeLimit { each: Duration::from_secs(7), copies, anew };
    let bare = || ClientBuilder::new(reqwest::Client::new());
    let inside = |layer| bare().with(Admission::default()).with(layer);
    let outside = |layer| bare().with(layer).with(Admission::default());
    let never_answered = |stack: ClientBuilder| async {
        let origin = never();
        let client = stack.with(origin.clone()).build();
        let outcome = client.get("http://api.example/").send().await;
        (origin.count(), outcome)
    };
    let rows = [
        ("the layer inside", never_answered(inside(layer(false, false))).await),
        ("the layer inside, builds requests anew", never_answered(inside(layer(false, true))).await),
        ("the layer outside", never_answered(outside(layer(false, false))).await),
        (
            "the layer outside, a copy of the extensions for each try",
            never_answered(outside(layer(true, false))).await,
        ),
    ];
    let page = include_str!("../src/who_retries.rs");
    for (name, (sends, outcome)) in rows {
        let seen = match (kind(&outcome), SpillOver::of(&outcome)) {
            (Some(kind), _) => format!("`RetryConflict`: `{kind:?}`"),
            (None, Some(_)) => "`SpillOver`".to_owned(),
            (None, None) => "the layer's error".to_owned(),
        };
        let line = format!("//! | {name} | {sends} | {seen} |");
        assert!(page.contains(&line), "not on the page: {line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_given_up_stays_given_up_and_is_refused_at_once() {
    let origin = Origin::always(|| Answer::status(429).header("retry-after", "3600"));
    let client = origin.behind(Admission::default());
    let mut extensions = Extensions::new();
    let start = Instant::now();
    assert!(SpillOver::of(&post(&client, &mut extensions).await).is_some());
    assert_eq!(kind(&post(&client, &mut extensions).await), Some(ConflictKind::Reentry));
    assert_eq!(start.elapsed(), Duration::ZERO);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(kind(&post(&client, &mut extensions).await), Some(ConflictKind::Reentry));
    assert_eq!(origin.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn ordinary_errors_are_no_attempts_that_count() {
    let origin = Origin::always(|| Answer::status(401));
    let client = origin.behind(Admission::builder().max_attempts(2).build().unwrap());
    let mut extensions = Extensions::new();
    for _ in 0..20 {
        assert_eq!(post(&client, &mut extensions).await.unwrap().status(), 401);
    }
}

/// Hands on a copy of the extensions.
struct Copies;

#[async_trait]
impl Middleware for Copies {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response, Error> {
        next.run(request, &mut extensions.clone()).await
    }
}

#[tokio::test(start_paused = true)]
async fn the_report_that_an_error_leaves_behind_knows_of_a_second_owner_in_copied_extensions() {
    let origin = Origin::always(Answer::ok);
    let stack = ClientBuilder::new(reqwest::Client::new()).with(Admission::default());
    let client = stack.with(Copies).with(Admission::default()).with(origin.clone()).build();
    let mut extensions = Extensions::new();
    let outcome = post(&client, &mut extensions).await;
    assert_eq!((kind(&outcome), origin.count()), (Some(ConflictKind::NestedAdmission), 0));
    let report = extensions.get::<CallReport>().unwrap();
    let conflicts: Vec<_> = report.conflicts().iter().map(RetryConflict::kind).collect();
    assert_eq!((conflicts, report.attempts()), (vec![ConflictKind::NestedAdmission], 1));
}

/// Sends everything on with a client of its own.
struct Forwards(ClientWithMiddleware);

#[async_trait]
impl Middleware for Forwards {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        _: Next<'_>,
    ) -> Result<Response, Error> {
        self.0.execute_with_extensions(request, extensions).await
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_guard_sees_inside_of_a_second_owner_is_in_the_report_of_the_call() {
    let policy = || {
        let policy = AdmissionPolicy::builder().retry_ownership(RetryOwnership::Report);
        policy.max_attempts(1).build().unwrap()
    };
    let inner = AdmissionClient::builder(reqwest::Client::builder()).policy(policy());
    let inner = inner.with(AlwaysTwice).build().unwrap();
    let outer = Admission::builder().policy(policy()).build().unwrap();
    let client = ClientBuilder::new(reqwest::Client::new()).with(outer).with(Forwards(inner)).build();
    let mut extensions = Extensions::new();
    // Nobody can be reached there.
    let request = client.get("http://127.0.0.1:0/").build().unwrap();
    assert!(client.execute_with_extensions(request, &mut extensions).await.is_err());
    let report = extensions.get::<CallReport>().unwrap();
    let conflicts: Vec<_> = report.conflicts().iter().map(RetryConflict::kind).collect();
    assert_eq!(conflicts, vec![ConflictKind::NestedAdmission, ConflictKind::RepeatedAttempt]);
}
