//! Calls that go on to another deployment, each with a leaky bucket of its own. Paused clock, fake origins.
#![cfg(test)]

mod support;

use std::collections::HashMap;
use std::time::Duration;

use reqwest_admission::{
    Admission, AdmissionBuilder, AdmissionPolicy, CallReport, Deployment, LatencyBudget, Reason, SpillOver,
};
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const URL: &str = "https://primary.example/v1/chat";

fn refused(milliseconds: u64) -> Answer {
    Answer::status(429).header("retry-after-ms", &milliseconds.to_string())
}

fn standby(origin: &Origin) -> Deployment {
    Deployment::new("standby", "https://standby.example").api_key("standby-key").client(origin.client())
}

fn third(origin: &Origin, path: &str) -> Deployment {
    Deployment::new("third", &format!("https://third.example{path}")).client(origin.client())
}

fn to_primary() -> AdmissionBuilder {
    Admission::builder().primary("https://primary.example").draws(|| 0.0)
}

fn routed(origin: &Origin) -> AdmissionBuilder {
    to_primary().spill_to(standby(origin))
}

fn budget(milliseconds: u64) -> LatencyBudget {
    LatencyBudget::new(ms(milliseconds))
}

/// An origin that answers by host: with the next answer in its list, else 200.
fn hosts(answers: impl IntoIterator<Item = (&'static str, Vec<Answer>)>) -> Origin {
    let mut answers: HashMap<_, std::collections::VecDeque<_>> =
        answers.into_iter().map(|(host, answers)| (host, answers.into())).collect();
    Origin::new(move |_, request| {
        let list = answers.get_mut(request.url().host_str().unwrap());
        list.and_then(|list| list.pop_front()).unwrap_or_else(Answer::ok)
    })
}

fn went(origin: &Origin) -> Vec<String> {
    origin.seen().iter().map(|seen| seen.url.host_str().unwrap().replace(".example", "")).collect()
}

#[tokio::test(start_paused = true)]
async fn advice_beyond_the_budget_goes_to_the_standby_at_once_and_the_report_says_so() {
    let origin = hosts([("primary.example", vec![refused(60_000).header("set-cookie", "a=b").body("no")])]);
    let client = origin.behind(routed(&origin).build().unwrap());
    let start = Instant::now();
    let response = client.post(URL).body("prompt").with_extension(budget(2000)).send().await.unwrap();
    assert_eq!((response.status().as_u16(), start.elapsed()), (200, ms(0)));
    // An ordinary answer, of which nothing belongs to the abandoned leg.
    assert_eq!(response.url().as_str(), "https://standby.example/v1/chat");
    assert!(response.headers().is_empty() && response.extensions().get::<SpillOver>().is_none());
    let legs = response.extensions().get::<CallReport>().unwrap().legs();
    assert_eq!(legs.len(), 2);
    assert_eq!((legs[0].deployment(), legs[0].reason()), ("primary", Some(Reason::BudgetExceeded)));
    assert_eq!((legs[0].attempts(), legs[0].waited(), legs[0].took()), (1, ms(0), ms(0)));
    assert_eq!((legs[0].status().unwrap().as_u16(), legs[0].advised_wait()), (429, Some(ms(60_000))));
    assert_eq!((legs[1].deployment(), legs[1].reason(), legs[1].attempts()), ("standby", None, 1));
    assert_eq!(went(&origin), ["primary", "standby"]);
    assert_eq!(origin.seen()[1].body.as_deref(), None::<&[u8]>, "sealed like every attempt");
    assert_eq!(origin.seen()[1].headers["api-key"], "standby-key");

    // The gate knows by now, so the next call does not ask the primary at all.
    let response = client.get(URL).with_extension(budget(2000)).send().await.unwrap();
    let legs = response.extensions().get::<CallReport>().unwrap().legs();
    assert_eq!((legs[0].attempts(), legs[0].reason()), (0, Some(Reason::BudgetExceeded)));
    assert!(legs[0].advised_wait().unwrap() > ms(50_000));
    assert_eq!(went(&origin), ["primary", "standby", "standby"]);
}

#[tokio::test(start_paused = true)]
async fn a_short_wait_is_honoured_on_the_primary() {
    let origin = hosts([("primary.example", vec![refused(43)])]);
    let client = origin.behind(routed(&origin).build().unwrap());
    let start = Instant::now();
    let response = client.get(URL).with_extension(budget(2000)).send().await.unwrap();
    assert!(response.extensions().get::<CallReport>().unwrap().legs().is_empty());
    assert_eq!((went(&origin), start.elapsed()), (vec!["primary".to_owned(); 2], ms(43)));
}

#[tokio::test(start_paused = true)]
async fn honoured_waits_in_vain_lead_to_the_standby() {
    for (waits, sends) in [(0, 1), (1, 2), (2, 3)] {
        let origin = hosts([("primary.example", (0..9).map(|_| refused(100)).collect())]);
        let client = origin.behind(routed(&origin).spill_after_failed_waits(waits).build().unwrap());
        let response = client.get(URL).with_extension(budget(20_000)).send().await.unwrap();
        let legs = response.extensions().get::<CallReport>().unwrap().legs();
        assert_eq!((legs[0].attempts(), legs[0].reason()), (sends, Some(Reason::WaitsFailed)));
        assert_eq!(u32::try_from(went(&origin).iter().filter(|host| *host == "primary").count()), Ok(sends));
        assert!(legs[0].waited() >= ms(100) * waits && legs[0].took() == legs[0].waited());
    }
}

#[tokio::test(start_paused = true)]
async fn no_leg_begins_with_less_than_half_of_the_reserve_and_the_primary_is_not_waited_for_beyond_it() {
    // The primary takes its time to say no.
    for (latency, spills) in [(1750, true), (1751, false)] {
        let origin = hosts([("primary.example", vec![refused(60_000).after(ms(latency))])]);
        let client = origin.behind(routed(&origin).spill_reserve(ms(500)).build().unwrap());
        let outcome = client.get(URL).with_extension(budget(2000)).send().await;
        assert_eq!(outcome.is_ok(), spills, "{latency}");
        if let Some(spill) = SpillOver::of(&outcome) {
            assert_eq!((spill.reason(), spill.legs().len()), (Reason::BudgetExceeded, 1));
        }
    }
    for (advice, at) in [(1500, "primary"), (1501, "standby")] {
        let origin = hosts([("primary.example", vec![refused(advice)])]);
        let client = origin.behind(routed(&origin).spill_reserve(ms(500)).build().unwrap());
        client.get(URL).with_extension(budget(2000)).send().await.unwrap();
        assert_eq!(went(&origin)[1], at, "{advice}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_target_is_tried_once_and_the_last_refusal_is_the_signal_with_all_legs() {
    let no = || (0..9).map(|n| refused(60_000 - n)).collect::<Vec<_>>();
    let origin = hosts([
        ("primary.example", no()),
        ("standby.example", no()),
        ("third.example", vec![refused(9000).header("x-ms-request-id", "last").body("third says no")]),
    ]);
    let third = third(&origin, "/other?v=2");
    let client = origin.behind(routed(&origin).spill_to(third).build().unwrap());
    let call = || client.post(URL).header("authorization", "mine").body("x").with_extension(budget(2000));
    let outcome = call().send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!(went(&origin), ["primary", "standby", "third"]);
    assert_eq!(origin.seen()[2].url.as_str(), "https://third.example/other?v=2");
    let legs: Vec<_> = spill.legs().iter().map(|leg| (leg.deployment(), leg.reason().unwrap())).collect();
    let over = Reason::BudgetExceeded;
    assert_eq!(legs, [("primary", over), ("standby", over), ("third", over)]);
    assert_eq!(
        (spill.attempts(), spill.body(), spill.request_id()),
        (3, &b"third says no"[..], Some("last"))
    );
    assert_eq!(spill.legs()[1].advised_wait(), Some(ms(60_000)));

    // Now the gates of all three say no, and the request comes back as it was.
    let outcome = call().send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!((spill.attempts(), spill.legs().len(), origin.count()), (0, 3, 3));
    let request = spill.take_request().unwrap();
    assert_eq!(
        (request.url().as_str(), &request.headers()["authorization"]),
        (URL, &"mine".parse().unwrap())
    );
}

#[tokio::test(start_paused = true)]
async fn only_what_may_be_repeated_goes_on() {
    // A failure that may have been processed stays with the primary, as does one after which the budget is gone.
    for status in [500, 502, 400, 401] {
        let origin = hosts([("primary.example", vec![Answer::status(status)])]);
        let client = origin.behind(routed(&origin).max_attempts(1).build().unwrap());
        assert_eq!(client.post(URL).body("x").send().await.unwrap().status().as_u16(), status);
        assert_eq!(went(&origin), ["primary"]);
    }
    let origin = hosts([("primary.example", vec![Answer::ok().after(ms(9000))])]);
    let client = origin.behind(routed(&origin).build().unwrap());
    let outcome = client.post(URL).body("x").with_extension(budget(2000)).send().await;
    assert!(SpillOver::of(&outcome).unwrap().possibly_processed());
    assert_eq!(went(&origin), ["primary"]);

    // A body that cannot be copied goes on only where it was never sent.
    let stream = || reqwest::Body::wrap(http_body_util::Full::new(bytes::Bytes::from_static(b"once")));
    let origin = hosts([("primary.example", vec![refused(60_000)])]);
    let client = origin.behind(routed(&origin).build().unwrap());
    let outcome = client.post(URL).body(stream()).with_extension(budget(2000)).send().await;
    assert_eq!(SpillOver::of(&outcome).unwrap().reason(), Reason::BudgetExceeded);
    let response = client.post(URL).body(stream()).with_extension(budget(2000)).send().await.unwrap();
    assert_eq!(response.url().host_str(), Some("standby.example"));
    assert_eq!(went(&origin), ["primary", "standby"]);
}

#[tokio::test(start_paused = true)]
async fn the_idempotency_key_stays_the_same_over_all_legs() {
    let origin = hosts([
        ("primary.example", vec![refused(10), refused(60_000)]),
        ("standby.example", vec![Answer::status(503), refused(20)]),
    ]);
    let policy = AdmissionPolicy::builder().mint_idempotency_key(true).build().unwrap();
    let client = origin.behind(routed(&origin).policy(policy).build().unwrap());
    assert_eq!(client.post(URL).body("x").send().await.unwrap().status(), 200);
    assert_eq!(went(&origin), ["primary", "primary", "standby", "standby", "standby"]);
    let keys: Vec<_> = origin.seen().iter().map(|seen| seen.headers["idempotency-key"].clone()).collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deployment_has_a_policy_and_a_share_of_the_budget_of_its_own() {
    let origin = hosts([
        ("primary.example", vec![refused(60_000)]),
        ("standby.example", (0..9).map(|_| refused(10)).collect()),
    ]);
    let own = AdmissionPolicy::builder().max_attempts(2).build().unwrap();
    let admission = to_primary().spill_to(standby(&origin).policy(own)).build().unwrap();
    let outcome = origin.behind(admission).get(URL).with_extension(budget(2000)).send().await;
    assert_eq!(SpillOver::of(&outcome).unwrap().reason(), Reason::AttemptsExhausted);
    assert_eq!(went(&origin), ["primary", "standby", "standby"]);

    for (advice, served) in [(1000, true), (1001, false)] {
        let origin =
            hosts([("primary.example", vec![refused(60_000)]), ("standby.example", vec![refused(advice)])]);
        let admission = to_primary().spill_to(standby(&origin).budget_share(0.5)).build();
        let outcome = origin.behind(admission.unwrap()).get(URL).with_extension(budget(2000)).send().await;
        assert_eq!(outcome.is_ok(), served, "{advice}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_cannot_be_reached_is_no_error_of_the_callers() {
    let down = || Answer::error(support_failures::no_connection().into());
    let origin = hosts([("primary.example", vec![refused(60_000)]), ("standby.example", vec![down()])]);
    let client = origin.behind(routed(&origin).build().unwrap());
    let outcome = client.get(URL).with_extension(budget(2000)).send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!((spill.reason(), spill.status().unwrap().as_u16()), (Reason::Unreachable, 429));
    assert_eq!(spill.legs()[1].reason(), Some(Reason::Unreachable));

    let origin = hosts([("primary.example", vec![refused(60_000)]), ("standby.example", vec![down()])]);
    let client = origin.behind(routed(&origin).spill_to(third(&origin, "")).build().unwrap());
    let response = client.get(URL).with_extension(budget(2000)).send().await.unwrap();
    assert_eq!((response.status().as_u16(), went(&origin)[2].as_str()), (200, "third"));
}

/// A deployment that serves `rate` calls a second with a burst of `burst`, and says exactly when it takes the next.
struct Bucket {
    level: f64,
    rate: f64,
    burst: f64,
    at: Instant,
}

impl Bucket {
    fn new(rate: f64, burst: f64) -> Self {
        Self { level: burst, rate, burst, at: Instant::now() }
    }

    fn answer(&mut self) -> Answer {
        let now = Instant::now();
        self.level = self.burst.min(self.level + self.rate * (now - self.at).as_secs_f64());
        self.at = now;
        if self.level >= 1.0 {
            self.level -= 1.0;
            return Answer::ok().after(ms(20));
        }
        let wait = Duration::from_secs_f64((1.0 - self.level) / self.rate);
        refused(u64::try_from(wait.as_micros().div_ceil(1000)).unwrap() + 1).after(ms(5))
    }
}

#[tokio::test(start_paused = true)]
async fn two_leaky_buckets_serve_together_what_one_cannot() {
    let (mut primary, mut standby_bucket) = (Bucket::new(2.0, 2.0), Bucket::new(20.0, 20.0));
    let origin = Origin::new(move |_, request| match request.url().host_str() {
        Some("primary.example") => primary.answer(),
        _ => standby_bucket.answer(),
    });
    let client = origin.behind(routed(&origin).build().unwrap());
    let mut calls = Vec::new();
    for _ in 0..200 {
        let call = client.post(URL).body("x").with_extension(budget(2000)).send();
        calls.push(tokio::spawn(async move {
            let start = Instant::now();
            (call.await, start.elapsed())
        }));
        tokio::time::sleep(ms(100)).await;
    }
    let mut primary_served = 0;
    for call in calls {
        let (outcome, took) = call.await.unwrap();
        let response = outcome.unwrap();
        assert_eq!(response.status(), 200);
        assert!(took <= ms(2050), "{took:?}");
        primary_served += usize::from(response.url().host_str() == Some("primary.example"));
    }
    // 20 s at 2 a second: the primary is used for nearly all that it has.
    assert!((34..=46).contains(&primary_served), "{primary_served}");
}

#[path = "support/failures.rs"]
mod support_failures;
