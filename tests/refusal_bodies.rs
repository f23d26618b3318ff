//! Advice counts from the head of a refusal, whatever its body does (law 1).
#![cfg(test)]

#[path = "support/frames.rs"]
mod frames;
mod support;

use std::time::Duration;

use frames::{Frames, Piece, data};
use reqwest_admission::{Admission, LatencyBudget};
use support::{Answer, Origin, ms};
use tokio::time::{Instant, sleep, timeout};

const URL: &str = "https://api.example.com/v1/items";
const ADVICE: Duration = ms(5_000);

/// An origin that advises five seconds in a refusal of which the body never ends, and then answers.
fn refusing_slowly() -> Origin {
    let refusal = Answer::status(429).header("retry-after-ms", "5000");
    Origin::in_order([refusal.body(Frames::body([data("{"), Piece::Pause(ms(3_600_000))]))])
}

#[tokio::test(start_paused = true)]
async fn a_scope_is_closed_by_the_head_of_a_refusal_and_not_by_the_end_of_its_body() {
    let (start, origin) = (Instant::now(), refusing_slowly());
    let client = origin.behind(Admission::default());
    let refused = tokio::spawn(client.get(URL).with_extension(LatencyBudget::new(ms(60_000))).send());
    sleep(ms(100)).await;
    let other = client.get(URL).send().await;
    assert!(other.is_ok());
    assert!(refused.await.unwrap().is_ok());
    let times = origin.times(start);
    assert!(times[1] >= ADVICE, "another call of the scope was sent after {:?}", times[1]);
}

#[tokio::test(start_paused = true)]
async fn what_a_refusal_advised_is_kept_when_its_call_is_cancelled() {
    let (start, origin) = (Instant::now(), refusing_slowly());
    let client = origin.behind(Admission::default());
    let cancelled = timeout(ms(100), client.get(URL).send()).await;
    assert!(cancelled.is_err());
    assert!(client.get(URL).send().await.is_ok());
    let times = origin.times(start);
    assert!(times[1] >= ADVICE, "another call of the scope was sent after {:?}", times[1]);
}
