//! The contract of `gate::Store`, as a suite that any store can be put through, and gates that share one.
//!
//! A store with a clock of its own (a server's) is given a `sleep` that really waits.
#![cfg(test)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use reqwest_admission::gate::{
    Gate, MemoryStore, STORE_TIMEOUT, ScopeKey, Store, StoreAnswer, StoreRequest, StoreUnavailable,
};
use reqwest_admission::pace::{Limits, TokenEstimate, TokenUsage};
use reqwest_admission::{Admission, CallReport, LatencyBudget, SpillOver};
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const URL: &str = "https://api.example/v1/items";

fn limits() -> Limits {
    Limits::new().requests_per_minute(60).tokens_per_minute(6000)
}

fn take(requests: i64, tokens: i64, max_wait: u64) -> StoreRequest {
    StoreRequest::take(limits(), requests, tokens, ms(max_wait))
}

/// Everything that the contract says, clause by clause.
async fn keeps_its_contract(store: &dyn Store) {
    let apply = async |scope: &str, request| store.apply(&ScopeKey::new(scope), request).await.unwrap();
    let sleep = tokio::time::sleep;

    // 1. Unknown is full and open; a level rises by its limit per minute, up to one minute's worth.
    assert_eq!(apply("refill", take(60, 0, 0)).await, StoreAnswer::new(true, ms(0), ms(0)));
    assert_eq!(apply("refill", take(1, 0, 0)).await, StoreAnswer::new(false, ms(1000), ms(0)));
    sleep(ms(1000)).await;
    assert!(apply("refill", take(1, 0, 0)).await.granted);
    sleep(ms(600_000)).await;
    assert!(apply("refill", take(60, 0, 0)).await.granted);
    assert!(!apply("refill", take(1, 0, 0)).await.granted);

    // 2. A cool-down goes by maximum, whatever the order.
    for (scope, waits) in [("up", [1000, 5000]), ("down", [5000, 1000])] {
        for wait in waits {
            apply(scope, StoreRequest::give_back(limits(), 0, 0).closing(ms(wait))).await;
        }
        assert_eq!(apply(scope, take(1, 0, 4999)).await, StoreAnswer::new(false, ms(5000), ms(5000)));
        assert_eq!(apply(scope, take(1, 0, 5000)).await, StoreAnswer::new(true, ms(5000), ms(5000)));
    }

    // 3. The longest wait counts; an amount larger than the bucket waits for a full one.
    apply("longest", take(60, 6000, 0)).await;
    assert_eq!(apply("longest", take(1, 500, 0)).await.wait, ms(5000));
    assert_eq!(apply("longest", take(1, 9000, 0)).await.wait, ms(60_000));
    assert!(apply("oversized", take(1, 9000, 0)).await.granted);
    assert_eq!(apply("oversized", take(1, 100, 0)).await.wait, ms(31_000));
    assert_eq!(apply("uncounted", StoreRequest::take(Limits::new(), 1, 1, ms(0))).await.wait, ms(0));

    // 4. What is granted with a wait is booked at once, so that those who ask later wait behind.
    apply("order", take(60, 0, 0)).await;
    for n in 1..=5 {
        assert_eq!(apply("order", take(1, 0, 60_000)).await, StoreAnswer::new(true, ms(1000 * n), ms(0)));
    }
    // What is not granted changes nothing, however often.
    for _ in 0..1000 {
        assert_eq!(apply("order", take(1, 0, 1000)).await, StoreAnswer::new(false, ms(6000), ms(0)));
    }
    // What is given back lifts a level, but never above its bucket.
    apply("order", StoreRequest::give_back(limits(), 5, 0)).await;
    assert_eq!(apply("order", take(1, 0, 0)).await.wait, ms(1000));
    apply("order", StoreRequest::give_back(limits(), 1000, 0)).await;
    assert!(apply("order", take(60, 0, 0)).await.granted);
    assert!(!apply("order", take(1, 0, 0)).await.granted);

    // Scopes do not know of each other, and hostile amounts end nowhere.
    assert!(apply("other", take(60, 6000, 0)).await.granted);
    for amount in [i64::MAX, i64::MIN] {
        apply("hostile", take(amount, amount, 0)).await;
        apply("hostile", take(amount, amount, 0).closing(Duration::MAX)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_store_in_memory_keeps_the_contract() {
    keeps_its_contract(&MemoryStore::new()).await;
}

#[tokio::test(start_paused = true)]
async fn accounts_that_say_nothing_are_let_go() {
    let store = MemoryStore::new();
    for n in 0..10_000 {
        store.apply(&ScopeKey::new(&format!("scope {n}")), take(1, 0, 0)).await.unwrap();
        tokio::time::sleep(ms(1)).await;
    }
    assert!(store.len() < 5000, "{}", store.len());
    let closed = ScopeKey::new("closed");
    store.apply(&closed, take(0, 0, 0).closing(ms(3_600_000))).await.unwrap();
    for n in 0..10_000 {
        store.apply(&ScopeKey::new(&format!("later {n}")), take(1, 0, 0)).await.unwrap();
    }
    assert!(store.apply(&closed, take(1, 0, 0)).await.unwrap().closed_for > ms(3_000_000));
}

/// Admission layers as of several processes, each with a gate of its own, sharing `store`.
fn fleet(store: &Arc<dyn Store>, size: usize) -> Vec<Admission> {
    let gate = || Gate::builder().limits(limits()).store(Arc::clone(store)).build().unwrap();
    (0..size).map(|_| Admission::builder().gate(gate()).draws(|| 0.0).build().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_fleet_keeps_one_limit_together() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let origin = Origin::always(Answer::ok);
    let clients: Vec<_> = fleet(&store, 4).into_iter().map(|layer| origin.behind(layer)).collect();
    let start = Instant::now();
    let calls: Vec<_> = (0..80).map(|n| tokio::spawn(clients[n % 4].get(URL).send())).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    // A minute's worth at once, then one a second, for all of them together.
    assert_eq!(start.elapsed().as_secs(), 20);
    let outcome = clients[0].get(URL).with_extension(LatencyBudget::new(ms(500))).send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!((spill.attempts(), origin.count()), (0, 80));
    assert!(spill.take_request().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_cool_down_that_one_process_saw_holds_all() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let origin = Origin::in_order([Answer::status(429).header("retry-after", "60")]);
    let clients: Vec<_> = fleet(&store, 2).into_iter().map(|layer| origin.behind(layer)).collect();
    for client in [&clients[0], &clients[1], &clients[1]] {
        assert!(SpillOver::of(&client.get(URL).send().await).is_some());
    }
    assert_eq!(origin.count(), 1);
    tokio::time::sleep(ms(60_000)).await;
    assert_eq!(clients[1].get(URL).send().await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn what_a_call_took_beyond_its_estimate_is_told_with_the_next() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let client = Origin::always(Answer::ok).behind(fleet(&store, 1).remove(0));
    let call = async |prompt, report: &CallReport| {
        let estimate = TokenEstimate::new(prompt, 0);
        client.get(URL).with_extension(estimate).with_extension(report.clone()).send().await.unwrap()
    };
    let report = CallReport::new();
    drop(call(1000, &report).await);
    assert!(report.settle(TokenUsage::new(4000, 0)));
    drop(call(1000, &CallReport::new()).await);
    // 4000 and 1000 of 6000 are taken, so 2000 more have to wait for 1000.
    let scope = ScopeKey::new("https://api.example");
    let answer = store.apply(&scope, take(0, 2000, 0)).await.unwrap();
    assert_eq!((answer.granted, answer.wait), (false, ms(10_000)));
}

/// A store that is never there.
#[derive(Debug, Default)]
struct Gone {
    asked: AtomicUsize,
    hangs: bool,
}

#[async_trait]
impl Store for Gone {
    async fn apply(&self, _: &ScopeKey, _: StoreRequest) -> Result<StoreAnswer, StoreUnavailable> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Err(StoreUnavailable::new())
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_the_local_decision_stands_and_the_store_is_left_alone_for_a_while() {
    for hangs in [false, true] {
        let gone = Arc::new(Gone { hangs, ..Gone::default() });
        let store: Arc<dyn Store> = Arc::<Gone>::clone(&gone);
        let client = Origin::always(Answer::ok).behind(fleet(&store, 1).remove(0));
        let start = Instant::now();
        for _ in 0..60 {
            assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
        }
        assert_eq!(gone.asked.load(Ordering::Relaxed), 3);
        assert!(start.elapsed() <= STORE_TIMEOUT * 4, "{:?}", start.elapsed());
        // The local limit applies all the same.
        assert!(
            SpillOver::of(&client.get(URL).with_extension(LatencyBudget::new(ms(100))).send().await)
                .is_some()
        );
        tokio::time::sleep(ms(1100)).await;
        assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
        assert_eq!(gone.asked.load(Ordering::Relaxed), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn law_7_a_call_that_waits_for_the_fleet_minds_a_refusal_that_comes_meanwhile() {
    let store = Arc::new(MemoryStore::new());
    let gate = || {
        let limits = Limits::new().requests_per_minute(60);
        let gate = Gate::builder().limits(limits).store(Arc::<MemoryStore>::clone(&store)).build().unwrap();
        Admission::builder().gate(gate).build().unwrap()
    };
    // Another process uses up the fleet's limit, so that each of our calls waits for its turn in the store.
    let other = Origin::always(Answer::ok).behind(gate());
    for _ in 0..60 {
        assert_eq!(other.get(URL).send().await.unwrap().status(), 200);
    }
    let refused = || Answer::status(429).header("retry-after", "15");
    let origin = Origin::new(move |n, _| if n == 0 { refused() } else { Answer::ok() });
    let client = origin.behind(gate());
    let start = Instant::now();
    let calls: Vec<_> = (0..6).map(|_| tokio::spawn(client.get(URL).send())).collect();
    for call in calls {
        let _ = call.await.unwrap();
    }
    let times = origin.times(start);
    assert!(times.len() > 2, "{times:?}");
    assert!(times[1..].iter().all(|sent| *sent >= times[0] + ms(15_000)), "{times:?}");
}

/// A store that answers whatever it likes.
#[derive(Debug)]
struct Lawless(StoreAnswer);

#[async_trait]
impl Store for Lawless {
    async fn apply(&self, _: &ScopeKey, _: StoreRequest) -> Result<StoreAnswer, StoreUnavailable> {
        Ok(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_breaks_its_contract_makes_no_call_sleep_beyond_its_deadline() {
    let waits = [ms(0), ms(1), ms(2000), ms(2001), ms(3_600_000), Duration::MAX];
    for granted in [true, false] {
        for (wait, closed_for) in
            waits.iter().flat_map(|wait| waits.iter().map(move |closed| (*wait, *closed)))
        {
            for budget in [0, 2000] {
                let store: Arc<dyn Store> = Arc::new(Lawless(StoreAnswer::new(granted, wait, closed_for)));
                let client = Origin::always(Answer::ok).behind(fleet(&store, 1).remove(0));
                let start = Instant::now();
                let outcome = client.get(URL).with_extension(LatencyBudget::new(ms(budget))).send().await;
                let took = start.elapsed();
                let line =
                    format!("{granted} {wait:?} {closed_for:?}, budget {budget}: {outcome:?} after {took:?}");
                assert!(took <= ms(budget), "{line}");
                // What is not in time is known at once.
                let fits = granted && wait <= ms(budget);
                assert!(fits || took == ms(0) && SpillOver::of(&outcome).is_some(), "{line}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_keeps_no_call_beyond_its_deadline() {
    let store: Arc<dyn Store> = Arc::new(Gone { hangs: true, ..Gone::default() });
    let client = Origin::always(|| Answer::ok().after(ms(60_000))).behind(fleet(&store, 1).remove(0));
    let start = Instant::now();
    let outcome = client.get(URL).with_extension(LatencyBudget::new(ms(20))).send().await;
    assert!(SpillOver::of(&outcome).is_some());
    assert_eq!(start.elapsed(), ms(20));
}
