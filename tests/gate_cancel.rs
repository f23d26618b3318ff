//! Calls that are cancelled at any moment leave nothing behind.

#[path = "support/gate.rs"]
mod gate;

use std::time::Duration;

use gate::{Random, granted};
use reqwest_admission::gate::{Gate, Priority, ScopeKey};
use reqwest_admission::pace::{Cost, Limits, TokenEstimate, TokenUsage};
use reqwest_admission::units::{QuotaUnit, QuotaUnits};
use tokio::time::{Instant, sleep, timeout};

const CALLERS: u64 = 500;
const CALLS: u64 = 200;

/// One call that passes through all stations; cancelled wherever it is.
async fn call(gate: Gate, scope: ScopeKey, mut random: Random) {
    let now = || Instant::now().into_std();
    let priority = match random.next() % 3 {
        0 => Priority::High,
        1 => Priority::Normal,
        _ => Priority::Batch,
    };
    let cost = Cost::from(TokenEstimate::new(random.next() % 100, random.next() % 50));
    let deadline = now().checked_add(Duration::from_millis(random.next() % 3_000));
    let mut reserve = gate.reserve(&scope, cost, priority, deadline, now());
    loop {
        let Ok(mut permit) = granted(reserve).await else { return };
        sleep(Duration::from_millis(random.next() % 5)).await;
        permit.sent(now());
        sleep(Duration::from_millis(random.next() % 50)).await;
        if random.next().is_multiple_of(20) {
            let advice = Duration::from_millis(random.next() % 20);
            let place = permit.refused(Some(advice), QuotaUnits::EMPTY, advice, now());
            sleep(Duration::from_millis(random.next() % 2)).await;
            reserve = gate.reserve_again(place, cost, priority, deadline, now());
            continue;
        }
        permit.observe(&[], now());
        sleep(Duration::from_millis(random.next() % 50)).await;
        permit.settle(TokenUsage::new(random.next() % 100, random.next() % 50), now());
        return permit.finish();
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_cancelled_calls_leave_nothing_behind() {
    let limits = Limits::new().requests_per_minute(60_000).tokens_per_minute(4_000_000).concurrency(64);
    let gate = Gate::builder().limits(limits).seed(7).build().expect("valid limits");
    let scope = ScopeKey::new("cancelled");
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let (gate, scope) = (gate.clone(), scope.clone());
        callers.spawn(async move {
            let mut random = Random::new(11, caller);
            for number in 0..CALLS {
                let patience = Duration::from_millis(random.next() % 120);
                let one = call(gate.clone(), scope.clone(), Random::new(caller, number));
                let _ = timeout(patience, one).await;
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.expect("no call panics");
    }

    let now = || Instant::now().into_std();
    let state = gate.snapshot(now()).scopes.remove(0);
    assert_eq!(state.in_flight, 0);
    assert_eq!((state.waiting.high, state.waiting.normal, state.waiting.batch), (0, 0, 0));
    sleep(Duration::from_secs(120)).await;
    let state = gate.snapshot(now()).scopes.remove(0);
    for unit in state.units.iter().filter(|unit| unit.capacity.is_some()) {
        assert!((unit.level.expect("a level") - unit.capacity.expect("a capacity")).abs() < 1e-3, "{unit:?}");
    }
    // And the gate still works, at once and for as many as it should.
    let mut held = Vec::new();
    for _ in 0..64 {
        let reserve = gate.reserve(&scope, Cost::request(), Priority::Normal, Some(now()), now());
        held.push(granted(reserve).await.expect("a free slot"));
    }
    assert!(
        granted(gate.reserve(&scope, Cost::request(), Priority::Normal, Some(now()), now())).await.is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn calls_cancelled_before_they_are_sent_cost_nothing() {
    let gate = Gate::builder().limits(Limits::new().requests_per_minute(50)).build().expect("valid limits");
    let scope = ScopeKey::new("unsent");
    let mut random = Random::new(3, 5);
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..10_000 {
        let (gate, scope) = (gate.clone(), scope.clone());
        let (patience, hold) = (random.next() % 3, random.next() % 3);
        callers.spawn(async move {
            let now = Instant::now().into_std();
            let reserve = gate.reserve(&scope, Cost::request(), Priority::Normal, None, now);
            let _ = timeout(Duration::from_millis(patience), async {
                let permit = granted(reserve).await;
                sleep(Duration::from_millis(hold)).await;
                drop(permit);
            })
            .await;
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.expect("no call panics");
    }
    let state = gate.snapshot(Instant::now().into_std()).scopes.remove(0);
    let requests = state.units.iter().find(|unit| unit.unit == QuotaUnit::Requests).expect("requests");
    assert!((requests.level.expect("a level") - 50.0).abs() < 1e-6, "{requests:?}");
    assert_eq!((state.in_flight, state.waiting.normal), (0, 0));
}

/// Real threads and the real clock: whatever the interleaving, the limit holds and nobody is forgotten.
#[test]
fn two_threads_neither_hang_nor_exceed_the_limit() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let gate = Gate::builder().limits(Limits::new().concurrency(3)).build().expect("valid limits");
        let scope = ScopeKey::new("threads");
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..64 {
            let (gate, scope) = (gate.clone(), scope.clone());
            callers.spawn(async move {
                let mut random = Random::new(5, caller);
                for _ in 0..300 {
                    let now = Instant::now().into_std();
                    let reserve = gate.reserve(&scope, Cost::request(), Priority::Normal, None, now);
                    if random.next().is_multiple_of(4) {
                        let _ = timeout(Duration::from_micros(random.next() % 1_500), granted(reserve)).await;
                        continue;
                    }
                    let mut permit = granted(reserve).await.expect("no deadline");
                    permit.sent(Instant::now().into_std());
                    tokio::task::yield_now().await;
                    let state = gate.snapshot(Instant::now().into_std()).scopes.remove(0);
                    assert!(state.in_flight <= 3, "{} in flight", state.in_flight);
                    permit.finish();
                }
            });
        }
        let all = async {
            while let Some(caller) = callers.join_next().await {
                caller.expect("no call panics");
            }
        };
        timeout(Duration::from_secs(60), all).await.expect("nobody is forgotten");
        let state = gate.snapshot(Instant::now().into_std()).scopes.remove(0);
        assert_eq!((state.in_flight, state.waiting.normal), (0, 0));
    });
}
