//! An account whose quota is spent is asked by one call at a time. Paused clock, fake origins.
#![cfg(test)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest_admission::{Admission, AdmissionPolicy, Deployment, Reason, SpillOver};
use reqwest_middleware::ClientWithMiddleware;
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const URL: &str = "https://api.example/v1/chat";

fn exhausted() -> Answer {
    Answer::status(429).body(r#"{"error":{"code":"insufficient_quota"}}"#)
}

/// Whose quota is spent until it is told otherwise.
fn account(answer: fn() -> Answer) -> (Origin, Arc<AtomicBool>) {
    let paid = Arc::new(AtomicBool::new(false));
    let is_paid = Arc::clone(&paid);
    let origin = Origin::new(move |_, request| {
        if is_paid.load(Ordering::Relaxed) || request.headers().contains_key("x-paid") {
            return Answer::ok().after(ms(10));
        }
        answer()
    });
    (origin, paid)
}

async fn reason(client: &ClientWithMiddleware) -> Option<Reason> {
    SpillOver::of(&client.get(URL).send().await).map(SpillOver::reason)
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_account_is_asked_after_a_second_then_after_twice_as_long_up_to_a_minute() {
    let (origin, paid) = account(exhausted);
    let client = origin.behind(Admission::default());
    let start = Instant::now();
    while start.elapsed() < ms(300_000) {
        assert_eq!(reason(&client).await, Some(Reason::QuotaExhausted));
        tokio::time::sleep(ms(100)).await;
    }
    let times: Vec<_> = origin.times(start).iter().map(|time| time.as_millis() / 1000).collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
    paid.store(true, Ordering::Relaxed);
    tokio::time::sleep(ms(60_000)).await;
    for _ in 0..3 {
        assert_eq!(reason(&client).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_calls_one_finds_out_and_the_others_spill_at_once() {
    let (origin, paid) = account(|| exhausted().after(ms(200)));
    let client = origin.behind(Admission::default());
    assert_eq!(reason(&client).await, Some(Reason::QuotaExhausted));
    tokio::time::sleep(ms(1_000)).await;
    paid.store(true, Ordering::Relaxed);
    let start = Instant::now();
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { (reason(&client).await, Instant::now()) })
        })
        .collect();
    let mut taken = 0;
    for call in calls {
        let (reason, at) = call.await.unwrap();
        match reason {
            None => taken += 1,
            Some(reason) => assert_eq!((reason, at - start), (Reason::QuotaExhausted, ms(0))),
        }
    }
    assert_eq!((taken, origin.count()), (1, 2));
    assert_eq!(reason(&client).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_finds_out_and_is_dropped_leaves_that_to_the_next() {
    let (origin, paid) = account(|| exhausted().after(ms(200)));
    let client = origin.behind(Admission::default());
    assert_eq!(reason(&client).await, Some(Reason::QuotaExhausted));
    tokio::time::sleep(ms(1_000)).await;
    assert!(tokio::time::timeout(ms(10), reason(&client)).await.is_err());
    paid.store(true, Ordering::Relaxed);
    assert_eq!(reason(&client).await, None);
    assert_eq!(origin.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn other_accounts_and_routes_to_others_are_not_held_back() {
    let (origin, _) = account(exhausted);
    let standby =
        Deployment::new("standby", "https://standby.example").client(Origin::always(Answer::ok).client());
    let routed = Admission::builder().primary("https://api.example").spill_to(standby).build().unwrap();
    let client = origin.behind(routed);
    for _ in 0..5 {
        let response = client.get(URL).send().await.unwrap();
        assert_eq!(response.url().host_str(), Some("standby.example"));
    }
    assert_eq!(origin.count(), 1);
    let other = client.get(URL).header("x-paid", "yes").bearer_auth("another").send().await.unwrap();
    assert_eq!(other.url().host_str(), Some("api.example"));
}

#[tokio::test(start_paused = true)]
async fn with_the_switch_off_every_call_asks() {
    let (origin, _) = account(exhausted);
    let policy = AdmissionPolicy::builder().hold_exhausted_quota(false).build().unwrap();
    let client = origin.behind(Admission::builder().policy(policy).build().unwrap());
    for _ in 0..5 {
        assert_eq!(reason(&client).await, Some(Reason::QuotaExhausted));
    }
    assert_eq!(origin.count(), 5);
}
