//! Refusals that do not depend on the rate of calls: a load balancer with one full backend, a key that others share.
//!
//! Some requests are answered with a refusal that advises a wait, any other with a 200 after 50 ms, and nothing that the gate
//! does makes the refusals rarer. The best that a client can do which keeps to the advice: successes as fast as its
//! callers make calls, then silence for as long as advised. Half of that is to be reached.
#![cfg(test)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest_admission::gate::Gate;
use reqwest_admission::{Admission, AdmissionPolicy, LatencyBudget};
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const SECONDS: f64 = 300.0;
const LATENCY: Duration = ms(50);
/// What a caller that is refused without advice may be expected to wait by itself, in seconds.
const BACKOFF: f64 = 0.5;

/// Who calls, and how a refusal looks.
#[derive(Clone, Copy)]
struct Shape {
    callers: usize,
    status: u16,
    advice: Option<Duration>,
    /// How long a refusal takes to be known.
    delay: Duration,
    seconds: f64,
    /// Whether advice holds for all calls; otherwise only for the refused one where the server shows that it is not for all.
    for_all: bool,
}

impl Shape {
    const fn new(callers: usize, advice: Option<u64>) -> Self {
        let advice = match advice {
            Some(seconds) => Some(Duration::from_secs(seconds)),
            None => None,
        };
        Self { callers, status: 429, advice, delay: Duration::ZERO, seconds: SECONDS, for_all: true }
    }

    /// The successes of callers that keep to the advice, all of them, and else call as fast as they can; a share `refused`
    /// of the calls is refused, and known to be at once. Without advice each caller waits by itself.
    fn bound(&self, refused: f64) -> f64 {
        let passed = (1.0 - refused) / refused;
        let (callers, latency) = (self.callers as f64, LATENCY.as_secs_f64());
        match self.advice {
            Some(advice) => self.seconds * passed / (advice.as_secs_f64() + passed * latency / callers),
            None => self.seconds * callers / (latency + BACKOFF / passed),
        }
    }

    /// Successes, and requests that were sent during a cool-down. `refuses` is asked with the number of the request and
    /// the seconds since the start.
    async fn play(
        self,
        seed: u64,
        mut refuses: impl FnMut(usize, f64) -> bool + Send + 'static,
    ) -> (usize, usize) {
        let violations = Arc::new(AtomicUsize::new(0));
        let closed = Mutex::new(None::<Instant>);
        let (count, start) = (Arc::clone(&violations), Instant::now());
        let advice = self.advice.unwrap_or_default();
        let origin = Origin::new(move |n, _| {
            let (now, mut closed) = (Instant::now(), closed.lock().unwrap());
            // A refusal is known to the gate at once; what leaves in the same moment may have been let go before.
            if closed.is_some_and(|since| now > since + ms(1) && now < since + advice) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            if !refuses(n, (now - start).as_secs_f64()) {
                return Answer::ok().after(LATENCY);
            }
            *closed = Some(now + self.delay);
            let refusal = Answer::status(self.status).after(self.delay);
            match self.advice {
                Some(advice) => refusal.header("retry-after-ms", &advice.as_millis().to_string()),
                None => refusal,
            }
        });
        let gate = Gate::builder().seed(seed).advice_for_all(self.for_all).build().unwrap();
        let budget = LatencyBudget::new(Duration::from_secs(600));
        let policy = AdmissionPolicy::builder().latency_budget(Duration::from_secs(600)).build().unwrap();
        let client =
            origin.behind(Admission::builder().policy(policy).gate(gate).seed(seed).build().unwrap());
        let successes = Arc::new(AtomicUsize::new(0));
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..self.callers {
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
        tokio::time::sleep(Duration::from_secs_f64(self.seconds)).await;
        workers.shutdown().await;
        (successes.load(Ordering::Relaxed), violations.load(Ordering::Relaxed))
    }

    /// The successes of runs of many seeds, as shares of the bound, in ascending order; `refused` is the share of calls
    /// that is refused, by chance.
    async fn by_chance(self, refused: f64, seeds: u64) -> Vec<f64> {
        let mut shares = Vec::new();
        for seed in 1..=seeds {
            let mut chance = chance(seed);
            let (successes, violations) = self.play(seed, move |_, _| chance() < refused).await;
            assert!(!self.for_all || violations == 0, "sent during a cool-down");
            shares.push(successes as f64 / self.bound(refused));
        }
        shares.sort_by(f64::total_cmp);
        shares
    }
}

/// Numbers from [0, 1) of a known seed.
fn chance(seed: u64) -> impl FnMut() -> f64 + Send {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    }
}

async fn check(callers: usize, one_in: usize) {
    for seed in 1..=3 {
        let shape = Shape::new(callers, Some(2));
        let (successes, violations) = shape.play(seed, move |n, _| n % one_in == one_in - 1).await;
        let bound = shape.bound(1.0 / one_in as f64);
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

#[tokio::test]
#[ignore = "twenty seeds of many shapes; run it in release"]
async fn table() {
    tokio::time::pause();
    let show = |name: &str, shares: &[f64]| {
        let (worst, median) = (shares.first().unwrap(), shares.get(shares.len() / 2).unwrap());
        println!("{name:44} worst {worst:.2}, median {median:.2} of the bound");
    };
    for callers in [4, 20, 200] {
        for advice in [Some(1), Some(5), Some(60), None] {
            for refused in [0.01, 0.05, 0.1, 0.3] {
                let mut shape = Shape::new(callers, advice);
                shape.seconds = if advice == Some(60) { 1800.0 } else { SECONDS };
                let name = format!("{callers} callers, {refused} refused, advice {advice:?} s");
                show(&name, &shape.by_chance(refused, 20).await);
            }
        }
    }
    for (status, advice) in [(503, Some(2)), (529, Some(2)), (529, None)] {
        let shape = Shape { status, ..Shape::new(20, advice) };
        show(&format!("{status}, advice {advice:?}"), &shape.by_chance(0.1, 20).await);
    }
}

/// As a balancer that picks its backend at random refuses. Gaps between refusals are then of all lengths.
#[tokio::test(start_paused = true)]
async fn refusals_by_chance_do_not_stop_the_calls_either() {
    for (callers, refused, for_all) in [(1, 0.1, true), (20, 0.1, true), (1, 0.1, false), (20, 0.1, false)] {
        let shape = Shape { for_all, ..Shape::new(callers, Some(2)) };
        let shares = shape.by_chance(refused, 20).await;
        println!("{callers} callers, {refused} refused, for all {for_all}: {shares:.2?}");
        let (worst, mean) = (shares[0], shares.iter().sum::<f64>() / shares.len() as f64);
        assert!(worst >= 0.5 && mean >= 0.85, "{callers} callers, {refused} refused: {shares:.2?}");
    }
}

/// Where nothing is advised the gate's own backoff is a call's time, and there is nothing to keep to.
#[tokio::test(start_paused = true)]
async fn refusals_without_advice_do_not_stop_the_calls() {
    let shares = Shape { seconds: 120.0, ..Shape::new(4, None) }.by_chance(0.1, 5).await;
    assert!(*shares.first().unwrap() >= 0.5, "{shares:.2?}");
}

/// One of four backends is full for a minute, then all of them work.
#[tokio::test(start_paused = true)]
async fn calls_are_back_soon_after_a_backend_is() {
    for seed in 1..=3 {
        let mut chance = chance(seed);
        // The advice of one backend is not for all: the others' calls go on.
        let shape = Shape { seconds: 240.0, for_all: false, ..Shape::new(4, Some(5)) };
        let refuses = move |_, at: f64| (30.0..90.0).contains(&at) && chance() < 0.25;
        let (successes, _) = shape.play(seed, refuses).await;
        // Half a minute before and two and a half after at 80 a second, of which one is spent on coming back.
        assert!(successes as f64 >= 80.0 * 120.0, "seed {seed}: {successes}");
    }
}

/// A scope that is new has sent little: its first refusal shows no limit yet.
#[tokio::test(start_paused = true)]
async fn a_refusal_at_the_start_does_not_hold_a_new_scope_down() {
    for callers in [1, 3, 20] {
        for refused in [1, callers] {
            let shape = Shape { delay: LATENCY, seconds: 20.0, ..Shape::new(callers, Some(1)) };
            let (successes, violations) = shape.play(1, move |n, _| n < refused).await;
            assert_eq!(violations, 0, "sent during a cool-down");
            let possible = callers as f64 / LATENCY.as_secs_f64() * (shape.seconds - 1.0);
            let share = successes as f64 / possible;
            println!("{callers} callers, the first {refused} refused: {share:.2}");
            assert!(share >= 0.5, "{callers} callers, the first {refused} refused: {share}");
        }
    }
}
