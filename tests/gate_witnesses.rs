//! Law 7 and its exception: advice holds for all calls of a scope, unless the server itself shows that it does not; and a call
//! that is refused whenever it comes says nothing of the others.
#![cfg(test)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest_admission::gate::Gate;
use reqwest_admission::{Admission, AdmissionPolicy, LatencyBudget};
use reqwest_middleware::ClientWithMiddleware;
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const URL: &str = "https://api.example/v1/items";
const FORBIDDEN: &str = "https://api.example/v1/forbidden";

fn client(origin: &Origin, gate: Gate, budget: u64) -> ClientWithMiddleware {
    let policy = AdmissionPolicy::builder()
        .latency_budget(Duration::from_secs(budget))
        .max_attempts(100)
        .build()
        .unwrap();
    origin.behind(Admission::builder().policy(policy).gate(gate).seed(1).build().unwrap())
}

fn gate(advice_for_all: bool) -> Gate {
    Gate::builder().seed(1).advice_for_all(advice_for_all).build().unwrap()
}

/// Calls in a closed loop for so many seconds; returns the successes.
async fn play(client: &ClientWithMiddleware, callers: &[&'static str], seconds: u64) -> Vec<usize> {
    let counts: Vec<_> = callers.iter().map(|_| Arc::new(AtomicUsize::new(0))).collect();
    let mut workers = tokio::task::JoinSet::new();
    for (url, count) in callers.iter().zip(&counts) {
        let (client, count, url) = (client.clone(), Arc::clone(count), *url);
        workers.spawn(async move {
            loop {
                match client.get(url).send().await {
                    Ok(response) if response.status() == 200 => {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    _ => tokio::time::sleep(ms(500)).await,
                }
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    workers.shutdown().await;
    counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
}

/// One in ten calls meets a full backend, which says "two seconds"; the other nine do not know of it.
fn one_full_backend() -> Origin {
    let mut state = 7_u64;
    Origin::new(move |_, _| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if (state >> 33).is_multiple_of(10) {
            Answer::status(429).header("retry-after-ms", "2000").after(ms(3))
        } else {
            Answer::ok().after(ms(50))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn advice_that_is_not_for_all_binds_the_refused_call_alone() {
    let mut shares = Vec::new();
    for advice_for_all in [false, true] {
        let origin = one_full_backend();
        let client = client(&origin, gate(advice_for_all), 60);
        let sum: usize = play(&client, &[URL; 30], 100).await.iter().sum();
        // A caller that waits by itself makes nine calls of 50 ms, then waits for two seconds.
        shares.push(sum as f64 / (100.0 * 30.0 * 9.0 / (9.0 * 0.05 + 2.0)));
    }
    assert!(shares[0] >= 0.8, "{shares:?} of what is possible");
    assert!(shares[1] <= 0.5, "{shares:?}: with the switch the scope is closed for all");
}

/// At a limit that is for all, every witness is refused: nobody calls during a cool-down, but those who could not have heard.
#[tokio::test(start_paused = true)]
async fn law_7_at_a_limit_for_all_nobody_calls_during_a_cool_down() {
    let early = Arc::new(AtomicUsize::new(0));
    let (count, begin) = (Arc::clone(&early), Instant::now());
    let (mut level, mut last, mut closed) = (0.0_f64, 0.0_f64, None::<f64>);
    let origin = Origin::new(move |_, _| {
        let now = begin.elapsed().as_secs_f64();
        level = (level - 20.0 * (now - last)).max(0.0);
        last = now;
        if closed.is_some_and(|until| now < until && now > until - 1.4) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if level >= 40.0 {
            closed = Some(now + 1.5);
            return Answer::status(429).header("retry-after-ms", "1500").after(ms(3));
        }
        level += 1.0;
        Answer::ok().after(ms(100))
    });
    let client = client(&origin, gate(false), 60);
    play(&client, &[URL; 40], 100).await;
    assert_eq!(early.load(Ordering::Relaxed), 0);
    assert!(origin.count() > 1_500, "{}", origin.count());
}

/// One caller asks for what the account may not use, the others do not; by the same path and by another.
#[tokio::test(start_paused = true)]
async fn a_caller_that_is_always_refused_does_not_park_the_others() {
    for (url, budget) in [(FORBIDDEN, 5), (FORBIDDEN, 300), (URL, 300)] {
        for advice in [None, Some("1")] {
            let origin = Origin::new(move |_, request| {
                if request.headers().contains_key("x-forbidden") || request.url().path() == "/v1/forbidden" {
                    let refusal = Answer::status(429).after(ms(3));
                    return advice.map_or_else(
                        || Answer::status(429).after(ms(3)),
                        |seconds| refusal.header("retry-after", seconds),
                    );
                }
                Answer::ok().after(ms(200))
            });
            let client = client(&origin, gate(false), budget);
            let bad = tokio::spawn({
                let client = client.clone();
                async move {
                    loop {
                        let call = client.get(url).header("x-forbidden", "yes");
                        let call = call.with_extension(LatencyBudget::new(Duration::from_secs(budget)));
                        let _ = call.send().await;
                        tokio::time::sleep(ms(500)).await;
                    }
                }
            });
            play(&client, &[URL; 8], 20).await;
            let sum: usize = play(&client, &[URL; 8], 100).await.iter().sum();
            bad.abort();
            let share = sum as f64 / (8.0 * 100.0 / 0.2);
            assert!(share >= 0.9, "{url}, {advice:?}, budget {budget} s: {share}");
        }
    }
}
