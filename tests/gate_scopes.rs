//! The map of scopes: bounded whatever callers or attackers make up, and never at the cost of what is in use.
#![cfg(test)]

#[path = "support/frames.rs"]
mod frames;
mod support;

use std::time::Duration;

use frames::{Frames, Piece, data};
use reqwest_admission::gate::{Gate, GateBuilder, Priority, Reserve, ScopeKey};
use reqwest_admission::pace::{Cost, Limits};
use reqwest_admission::{Admission, LatencyBudget, Reason, SpillOver};
use reqwest_middleware::ClientWithMiddleware;
use support::{Answer, Origin, ms};
use tokio::time::Instant;

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// A client whose scopes are the hosts.
fn by_host(gate: &GateBuilder, origin: &Origin) -> (Gate, ClientWithMiddleware) {
    let gate = gate.clone().build().unwrap();
    let admission = Admission::builder().gate(gate.clone()).draws(|| 0.0);
    let admission = admission.scope_by(|request| scope(request.url().host_str().unwrap()));
    let client = origin.behind(admission.build().unwrap());
    (gate, client)
}

fn scope(host: &str) -> ScopeKey {
    ScopeKey::new(host)
}

fn known(gate: &Gate, host: &str) -> bool {
    gate.advice(&scope(host), now()).is_some()
}

async fn call(client: &ClientWithMiddleware, host: &str) -> reqwest_middleware::Result<reqwest::Response> {
    client.get(format!("http://{host}/")).with_extension(LatencyBudget::new(ms(10_000))).send().await
}

async fn ok(client: &ClientWithMiddleware, host: &str) {
    assert_eq!(call(client, host).await.unwrap().status(), 200, "{host}");
}

#[tokio::test(start_paused = true)]
async fn the_scope_that_was_used_longest_ago_makes_room() {
    let origin = Origin::always(Answer::ok);
    let (gate, client) = by_host(&Gate::builder().max_scopes(3), &origin);
    for host in ["a", "b", "c", "a", "d"] {
        tokio::time::sleep(ms(10)).await;
        ok(&client, host).await;
    }
    assert_eq!(["a", "b", "c", "d"].map(|host| known(&gate, host)), [true, false, true, true]);
    tokio::time::sleep(ms(10)).await;
    ok(&client, "b").await;
    assert_eq!(["a", "b", "c", "d"].map(|host| known(&gate, host)), [true, true, false, true]);
    assert_eq!(gate.scopes(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_is_closed_or_occupied_or_waited_for_is_never_forgotten() {
    let origin = Origin::new(|_, request| match request.url().host_str().unwrap() {
        "closed" => Answer::status(429).header("retry-after", "60"),
        "streaming" => Answer::ok().body(Frames::body([data("x"), Piece::Hang])),
        "slow" => Answer::ok().after(Duration::from_secs(1_000)),
        _ => Answer::ok(),
    });
    let (gate, client) = by_host(&Gate::builder().max_scopes(4), &origin);
    let closed = call(&client, "closed").await;
    assert_eq!(SpillOver::of(&closed).unwrap().reason(), Reason::BudgetExceeded);
    let stream = call(&client, "streaming").await.unwrap();
    let slow = tokio::spawn(client.get("http://slow/").send());
    gate.set_limits(&scope("waiting"), Limits::new().requests_per_minute(1), now()).unwrap();
    ok(&client, "waiting").await;
    let waiting = client.get("http://waiting/").with_extension(LatencyBudget::new(ms(90_000)));
    let waiting = tokio::spawn(waiting.send());
    tokio::time::sleep(ms(1)).await;
    for n in 0..200 {
        ok(&client, &format!("host-{n}")).await;
    }
    assert_eq!(gate.scopes(), 4);
    for host in ["closed", "streaming", "slow", "waiting"] {
        assert!(known(&gate, host), "{host}");
    }
    let count = origin.count();
    assert!(SpillOver::of(&call(&client, "closed").await).is_some());
    assert_eq!(origin.count(), count, "still closed");
    // Once they are left, they make room.
    drop(stream);
    slow.abort();
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
    tokio::time::sleep(ms(60_000)).await;
    for n in 0..4 {
        ok(&client, &format!("other-{n}")).await;
    }
    for host in ["closed", "streaming", "slow", "waiting"] {
        assert!(!known(&gate, host), "{host}");
    }
}

/// What holds calls back is no cool-down here: a window that is spent, a configured limit that is used up, a learned pace.
#[tokio::test(start_paused = true)]
async fn what_holds_calls_back_outlives_that_others_need_room() {
    let origin = Origin::new(|_, request| match request.url().host_str().unwrap() {
        "window" => Answer::ok()
            .header("ratelimit-limit", "1")
            .header("ratelimit-remaining", "0")
            .header("ratelimit-reset", "600"),
        _ => Answer::ok(),
    });
    let (gate, client) = by_host(&Gate::builder().max_scopes(3), &origin);
    ok(&client, "window").await;
    gate.set_limits(&scope("configured"), Limits::new().requests_per_minute(1), now()).unwrap();
    ok(&client, "configured").await;
    for n in 0..50 {
        ok(&client, &format!("host-{n}")).await;
    }
    for host in ["window", "configured"] {
        assert!(known(&gate, host), "{host}");
        let wait = gate.advice(&scope(host), now()).unwrap().wait_seconds;
        assert!(wait > 5.0, "{host}: {wait}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_bound_go_by_their_own_advice() {
    let origin = Origin::new(|n, request| match (n, request.url().host_str().unwrap()) {
        (0, _) => Answer::status(429).header("retry-after", "3600"),
        (1, _) => Answer::status(429).header("retry-after", "2"),
        (2, "late") => Answer::status(429).header("retry-after", "60"),
        _ => Answer::ok(),
    });
    let (gate, client) = by_host(&Gate::builder().max_scopes(1), &origin);
    assert!(SpillOver::of(&call(&client, "closed").await).is_some());
    let start = Instant::now();
    // Refused with advice: waits for it by itself, within its budget, and is sent again.
    let waiting = tokio::spawn(client.get("http://other/").send());
    tokio::time::sleep(ms(1)).await;
    // Advice beyond the budget: given back at once.
    let spill = call(&client, "late").await;
    assert_eq!(SpillOver::of(&spill).unwrap().advised_wait(), Some(ms(60_000)));
    assert_eq!(start.elapsed(), ms(1));
    for n in 0..100 {
        ok(&client, &format!("host-{n}")).await;
    }
    assert_eq!(start.elapsed(), ms(1), "nobody waits for a scope that is not there");
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
    assert!(start.elapsed() >= ms(2_000) && start.elapsed() <= ms(2_010), "{:?}", start.elapsed());
    assert_eq!((gate.scopes(), known(&gate, "closed")), (1, true));
}

#[test]
fn law_11_a_hundred_thousand_made_up_scopes_take_the_room_of_a_thousand() {
    let gate = Gate::default();
    let start = std::time::Instant::now();
    for n in 0..100_000_u64 {
        let at = start + Duration::from_micros(n);
        let scope = ScopeKey::new("https://api.example.com").credential(&n.to_le_bytes()).label("any");
        match gate.reserve(&scope, Cost::request(), Priority::Normal, Some(at), at) {
            Reserve::Granted(mut permit) => permit.sent(at),
            other => panic!("{other:?}"),
        }
        if n.is_multiple_of(10_000) {
            assert!(gate.scopes() <= 1_024);
        }
    }
    // The default; a sixteenth of it leaves at once, so that each new scope costs a bounded time.
    assert!(gate.scopes() >= 960 && gate.scopes() <= 1_024, "{}", gate.scopes());
    assert_eq!(gate.snapshot(start).scopes.len(), gate.scopes());
}

#[test]
fn law_11_a_hundred_thousand_scopes_that_nobody_leaves_are_let_go_without_a_place() {
    let gate = Gate::builder().max_scopes(16).build().unwrap();
    let now = std::time::Instant::now();
    let mut held = Vec::new();
    let mut beyond = 0_u32;
    for n in 0..100_000_u64 {
        let scope = ScopeKey::new("https://api.example.com").credential(&n.to_le_bytes());
        match gate.reserve(&scope, Cost::request(), Priority::Normal, Some(now), now) {
            Reserve::Granted(permit) => held.push(permit),
            Reserve::Refused(refusal) => {
                assert_eq!(refusal.reason, reqwest_admission::gate::RefusalReason::TooManyScopes);
                assert!(refusal.wait.is_zero());
                beyond += 1;
            }
            Reserve::Queued(ticket) => panic!("{ticket:?}"),
        }
    }
    assert_eq!((held.len(), beyond, gate.scopes()), (16, 99_984, 16));
}

/// Real threads: whatever is evicted when, no scope is made twice while somebody is in it.
#[test]
fn threads_that_make_and_forget_scopes_share_each_one() {
    let gate = Gate::builder().limits(Limits::new().concurrency(1)).max_scopes(8).build().unwrap();
    std::thread::scope(|threads| {
        for thread in 0..4_u64 {
            let gate = &gate;
            threads.spawn(move || {
                for n in 0..3_000_u64 {
                    let now = std::time::Instant::now();
                    let key = |number: u64| ScopeKey::new("x").credential(&number.to_le_bytes());
                    let shared = gate.reserve(&key(n % 5), Cost::request(), Priority::Normal, Some(now), now);
                    if let Reserve::Granted(permit) = shared {
                        let again =
                            gate.reserve(&key(n % 5), Cost::request(), Priority::Normal, Some(now), now);
                        // A ticket only: its slot may be free by then, but never while this permit is held.
                        assert!(!matches!(again, Reserve::Granted(_)), "one scope is two");
                        drop((again, permit));
                    }
                    drop(gate.reserve(
                        &key(100 + thread * 10_000 + n),
                        Cost::request(),
                        Priority::Normal,
                        Some(now),
                        now,
                    ));
                    assert!(gate.scopes() <= 8);
                }
            });
        }
    });
    let left = gate.snapshot(std::time::Instant::now()).scopes;
    assert!(left.iter().all(|scope| scope.in_flight == 0 && scope.waiting.normal == 0), "{left:?}");
}
