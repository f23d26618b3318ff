//! Refusals that do not depend on the rate of calls: a load balancer with one full backend, a key that others share.
//!
//! Every k-th request is answered with a 429 that advises 2 s, any other with a 200 after 50 ms, and nothing that the gate
//! does makes the refusals rarer. The best that a client can do which keeps to the advice: k − 1 successes, as fast as its
//! callers make calls, then 2 s of silence. Half of that has to be reached.
#![cfg(test)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest_admission::gate::Gate;
use reqwest_admission::{Admission, LatencyBudget};
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const SECONDS: f64 = 300.0;
const ADVICE: Duration = ms(2000);
const LATENCY: Duration = ms(50);

/// Successes in 300 s, and requests that were sent during a cool-down.
async fn play(
    callers: usize,
    seed: u64,
    mut refuses: impl FnMut(usize) -> bool + Send + 'static,
) -> (usize, usize) {
    let violations = Arc::new(AtomicUsize::new(0));
    let closed = Mutex::new(None::<Instant>);
    let count = Arc::clone(&violations);
    let origin = Origin::new(move |n, _| {
        let (now, mut closed) = (Instant::now(), closed.lock().unwrap());
        // A refusal is known to the gate at once; what leaves in the same moment may have been let go before.
        if closed.is_some_and(|since| now > since + ms(1) && now < since + ADVICE) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if refuses(n) {
            *closed = Some(now);
            Answer::status(429).header("retry-after-ms", "2000")
        } else {
            Answer::ok().after(LATENCY)
        }
    });
    let gate = Gate::builder().seed(seed).build().unwrap();
    let budget = LatencyBudget::new(Duration::from_secs(60));
    let client = origin.behind(Admission::builder().gate(gate).build().unwrap());
    let successes = Arc::new(AtomicUsize::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..callers {
        let (client, successes) = (client.clone(), Arc::clone(&successes));
        workers.spawn(async move {
            loop {
                if client
                    .get("https://api.example/v1/items")
                    .with_extension(budget)
                    .send()
                    .await
                    .is_ok_and(|it| it.status() == 200)
                {
                    successes.fetch_add(1, Ordering::Relaxed);
                } else {
                    tokio::time::sleep(ms(10)).await;
                }
            }
        });
    }
    tokio::time::sleep(Duration::from_secs_f64(SECONDS)).await;
    workers.shutdown().await;
    (successes.load(Ordering::Relaxed), violations.load(Ordering::Relaxed))
}

fn bound(callers: usize, one_in: usize) -> f64 {
    let passed = (one_in - 1) as f64;
    SECONDS * passed / (ADVICE.as_secs_f64() + passed * LATENCY.as_secs_f64() / callers as f64)
}

async fn check(callers: usize, one_in: usize) {
    for seed in 1..=3 {
        let (successes, violations) = play(callers, seed, move |n| n % one_in == one_in - 1).await;
        let bound = bound(callers, one_in);
        println!("1 in {one_in}, {callers} callers, seed {seed}: {successes} of {bound:.0}");
        assert_eq!(violations, 0, "sent during a cool-down");
        assert!(successes as f64 >= 0.5 * bound, "1 in {one_in}, {callers} callers: {successes} of {bound}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_in_three_for_one_caller() {
    check(1, 3).await;
}

#[tokio::test(start_paused = true)]
async fn one_in_three_for_twenty_callers() {
    check(20, 3).await;
}

#[tokio::test(start_paused = true)]
async fn one_in_ten_for_one_caller() {
    check(1, 10).await;
}

#[tokio::test(start_paused = true)]
async fn one_in_ten_for_twenty_callers() {
    check(20, 10).await;
}

#[tokio::test(start_paused = true)]
async fn one_in_fifty_for_one_caller() {
    check(1, 50).await;
}

#[tokio::test(start_paused = true)]
async fn one_in_fifty_for_twenty_callers() {
    check(20, 50).await;
}

/// The same by chance, as a balancer that picks its backend at random refuses. Gaps between refusals are then of all
/// lengths, and in an unlucky run it takes minutes to tell them from a limit: what is asserted is the mean.
#[tokio::test(start_paused = true)]
async fn refusals_by_chance_do_not_stop_the_calls_either() {
    for (callers, one_in) in [(1, 10), (20, 10), (20, 50)] {
        let mut all = 0;
        for seed in 1..=3_u64 {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let refuses = move |_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11).is_multiple_of(one_in as u64)
            };
            let (successes, violations) = play(callers, seed, refuses).await;
            println!("by chance 1 in {one_in}, {callers} callers, seed {seed}: {successes}");
            assert_eq!(violations, 0, "sent during a cool-down");
            all += successes;
        }
        let (mean, bound) = (all as f64 / 3.0, bound(callers, one_in));
        assert!(mean >= bound / 3.0, "{callers} callers, 1 in {one_in}: {mean} of {bound}");
    }
}
