//! Faults of the pace, the scopes by route and what is reported. Paused clock, fake origin.
#![cfg(test)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use reqwest_admission::gate::{Gate, GateBuilder, ScopeKey};
use reqwest_admission::reading::HintSource;
use reqwest_admission::{Admission, AdmissionPolicy, LatencyBudget, Reading, SpillOver};
use reqwest_middleware::ClientWithMiddleware;
use support::{Answer, Origin, ms};
use tokio::time::Instant;

const HOST: &str = "https://api.example";

fn client(origin: &Origin, builder: GateBuilder, budget: u64) -> (Gate, ClientWithMiddleware) {
    let gate = builder.seed(1).build().unwrap();
    let policy = AdmissionPolicy::builder()
        .latency_budget(Duration::from_secs(budget))
        .max_attempts(100)
        .build()
        .unwrap();
    let admission = Admission::builder().policy(policy).gate(gate.clone()).seed(1).build().unwrap();
    (gate, origin.behind(admission))
}

fn refused(seconds: u64) -> Answer {
    Answer::status(429).header("retry-after", &seconds.to_string())
}

fn stating(answer: Answer) -> Answer {
    answer
        .header("x-ratelimit-limit", "1000")
        .header("x-ratelimit-remaining", "900")
        .header("x-ratelimit-reset", "30")
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

async fn call(client: &ClientWithMiddleware, path: &str, seconds: u64) -> Result<Duration, SpillOver> {
    let start = Instant::now();
    let budget = LatencyBudget::new(Duration::from_secs(seconds));
    let outcome = client.get(format!("{HOST}{path}")).with_extension(budget).send().await;
    match SpillOver::of(&outcome) {
        Some(spill) => Err(spill.clone()),
        None => {
            outcome.unwrap();
            Ok(start.elapsed())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_reported_refusal_closes_the_scope_however_many_calls_go_through_between() {
    let origin = Origin::always(|| Answer::ok());
    let (gate, client) = client(&origin, Gate::builder(), 30);
    let account = ScopeKey::new(HOST);
    let refusal = Reading::from_parts(StatusCode::OK, &HeaderMap::new(), None, SystemTime::UNIX_EPOCH)
        .refused(true)
        .with_wait(Duration::from_secs(5), HintSource::Body("x".into()));
    for n in 0..10 {
        for _ in 0..40 {
            call(&client, "/a", 60).await.unwrap();
        }
        gate.report(&account, &refusal, now());
        let closed = gate.snapshot(now()).scopes.remove(0).closed_for_seconds;
        assert_eq!(closed, 5.0, "report {n}");
        tokio::time::sleep(ms(6_000)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn reopening_an_account_reopens_its_routes() {
    let origin = Origin::new(|n, _| match n {
        2 => refused(60),
        _ => stating(Answer::ok()),
    });
    let (gate, client) = client(&origin, Gate::builder(), 5);
    call(&client, "/a", 5).await.unwrap();
    call(&client, "/b", 5).await.unwrap();
    call(&client, "/b", 5).await.unwrap_err();
    tokio::time::sleep(ms(5_000)).await;
    gate.reopen(&ScopeKey::new(HOST), now());
    for path in ["/a", "/b", "/c"] {
        let waited = call(&client, path, 5).await;
        assert!(waited.is_ok(), "{path}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_route_gets_its_own_scope_still_waits_its_own_advice() {
    // The second refusal of /b is for itself alone; meanwhile a success of /a states limits.
    let b = Arc::new(Mutex::new(0));
    let count = Arc::clone(&b);
    let origin = Origin::new(move |_, request| {
        if request.url().path() == "/b" {
            let mut n = count.lock().unwrap();
            *n += 1;
            return match *n {
                1 => refused(1).after(ms(100)),
                3 => refused(20).after(ms(100)),
                _ => Answer::ok(),
            };
        }
        if request.url().path() == "/stating" {
            stating(Answer::ok()).after(ms(20))
        } else {
            Answer::ok().after(ms(200))
        }
    });
    let (_, client) = client(&origin, Gate::builder(), 60);
    let (one, others) = (client.clone(), client.clone());
    let first = tokio::spawn(async move { call(&one, "/b", 60).await });
    tokio::time::sleep(ms(10)).await;
    let others: Vec<_> = (0..8)
        .map(|_| {
            let client = others.clone();
            tokio::spawn(async move { call(&client, "/a", 60).await })
        })
        .collect();
    first.await.unwrap().unwrap();
    for other in others {
        other.await.unwrap().unwrap();
    }
    tokio::time::sleep(ms(5_000)).await;
    let start = Instant::now();
    let one = client.clone();
    let second = tokio::spawn(async move { call(&one, "/b", 60).await });
    tokio::time::sleep(ms(10)).await;
    call(&client, "/stating", 60).await.unwrap();
    second.await.unwrap().unwrap();
    assert!(start.elapsed() >= ms(20_000), "{:?} {:?}", start.elapsed(), origin.times(start));
}

#[tokio::test(start_paused = true)]
async fn a_call_keeps_its_advice_beyond_the_longest_cool_down_if_its_route_gets_its_own_scope() {
    let b = Arc::new(Mutex::new(0));
    let count = Arc::clone(&b);
    let origin = Origin::new(move |_, request| {
        if request.url().path() == "/b" {
            let mut n = count.lock().unwrap();
            *n += 1;
            return if *n == 1 { refused(20).after(ms(100)) } else { Answer::ok() };
        }
        stating(Answer::ok()).after(ms(20))
    });
    let (_, client) = client(&origin, Gate::builder().max_cool_down(ms(5_000)), 60);
    let start = Instant::now();
    let one = client.clone();
    let first = tokio::spawn(async move { call(&one, "/b", 60).await });
    tokio::time::sleep(ms(10)).await;
    call(&client, "/a", 60).await.unwrap();
    first.await.unwrap().unwrap();
    assert!(start.elapsed() >= ms(20_000), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn advice_for_all_closes_all_routes_whatever_went_through() {
    let origin = Origin::new(|n, request| match request.url().path() {
        "/b" if n == 2 => refused(20).after(ms(100)),
        _ => stating(Answer::ok()),
    });
    let (_, client) = client(&origin, Gate::builder().advice_for_all(true), 60);
    call(&client, "/a", 5).await.unwrap();
    call(&client, "/b", 5).await.unwrap();
    let one = client.clone();
    let refused = tokio::spawn(async move { call(&one, "/b", 60).await });
    tokio::time::sleep(ms(10)).await;
    call(&client, "/a", 5).await.unwrap();
    tokio::time::sleep(ms(190)).await;
    for path in ["/a", "/c"] {
        assert!(call(&client, path, 5).await.is_err(), "{path} was sent within the advice");
    }
    refused.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn many_routes_reopen_without_a_herd() {
    let origin = Origin::new(|n, _| if n == 64 { refused(2) } else { stating(Answer::ok()) });
    let (_, client) = client(&origin, Gate::builder(), 60);
    for n in 0..64 {
        call(&client, &format!("/users/{n}"), 60).await.unwrap();
    }
    let start = Instant::now();
    let calls: Vec<_> = (0..120)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move {
                tokio::time::sleep(ms(if n == 0 { 0 } else { 10 })).await;
                call(&client, &format!("/users/{}", n % 60), 60).await
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let times = origin.times(start);
    let first = times.iter().find(|at| **at > ms(1_000) && **at < ms(60_000)).copied().unwrap();
    let burst = times.iter().filter(|at| **at >= first && **at < first + ms(50)).count();
    assert!(burst <= 20, "{burst} calls within 50 ms");
}

#[tokio::test(start_paused = true)]
async fn closed_routes_of_other_accounts_do_not_take_the_room_that_a_cool_down_needs() {
    let origin =
        Origin::new(
            |_, request| {
                if request.url().path() == "/last" { refused(60) } else { stating(Answer::ok()) }
            },
        );
    let (_, client) = client(&origin, Gate::builder(), 5);
    let send = |token: u32, path: String| {
        let call = client.get(format!("{HOST}{path}")).bearer_auth(format!("token-{token}"));
        async move { SpillOver::of(&call.send().await).is_some() }
    };
    for token in 0..20 {
        for route in 0..63 {
            send(token, format!("/users/{route}")).await;
        }
        send(token, "/last".into()).await;
    }
    let before = origin.count();
    for token in 0..20 {
        send(token, "/last".into()).await;
        send(token, "/users/1".into()).await;
    }
    assert_eq!(origin.count(), before, "sent within the advice");
}

#[tokio::test(start_paused = true)]
async fn max_cool_down_bounds_what_a_refusal_with_limits_does() {
    for state in [false, true] {
        let origin = Origin::new(move |n, _| match (n, state) {
            (0, false) => refused(3600),
            (0, true) => refused(3600)
                .header("x-ratelimit-limit", "100")
                .header("x-ratelimit-remaining", "0")
                .header("x-ratelimit-reset", "3600"),
            _ => Answer::ok(),
        });
        let (_, client) = client(&origin, Gate::builder().max_cool_down(ms(5_000)), 30);
        call(&client, "/a", 2).await.unwrap_err();
        let waited = call(&client, "/a", 8).await;
        assert!(waited.is_ok(), "limits stated: {state}, {waited:?}");
    }
}

/// The admitted and refused calls of 40 callers who never pause, on so many routes, in two minutes at an account's token bucket
/// of 50 a second, which states plenty of something else on each success.
async fn bucket(routes: usize) -> (f64, f64) {
    let counts = Arc::new(Mutex::new((0.0, 0.0)));
    let seen = Arc::clone(&counts);
    let (mut level, mut last) = (20.0_f64, Instant::now());
    let origin = Origin::new(move |_, _| {
        let at = Instant::now();
        level = (level + 50.0 * (at - last).as_secs_f64()).min(20.0);
        last = at;
        let mut counts = seen.lock().unwrap();
        if level < 1.0 {
            counts.1 += 1.0;
            let wait = ((1.0 - level) * 20.0).ceil();
            return Answer::status(429).header("retry-after-ms", &wait.to_string()).after(ms(2));
        }
        level -= 1.0;
        counts.0 += 1.0;
        let answer = Answer::ok().after(ms(50)).header("x-ratelimit-limit-requests", "100000");
        answer.header("x-ratelimit-remaining-requests", "90000").header("x-ratelimit-reset-requests", "6s")
    });
    let (_, client) = client(&origin, Gate::builder(), 60);
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..40_usize {
        let client = client.clone();
        workers.spawn(async move {
            for n in 0.. {
                let route = (worker * 7_919 + n * 104_729) % routes;
                let _ = client.get(format!("{HOST}/users/{route}")).send().await;
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    workers.shutdown().await;
    let counts = counts.lock().unwrap();
    *counts
}

#[tokio::test(start_paused = true)]
async fn many_routes_of_one_account_are_paced_together() {
    let mut results = Vec::new();
    for routes in [1, 10, 60, 10_000] {
        let (admitted, refused) = bucket(routes).await;
        results.push((routes, admitted / 6_000.0, refused / admitted));
    }
    assert!(results.iter().all(|(_, goodput, refused)| *goodput >= 0.9 && *refused <= 0.06), "{results:?}");
}

#[tokio::test(start_paused = true)]
async fn one_refusal_of_a_rare_caller_turns_no_later_burst_away() {
    let mut lost = Vec::new();
    for (name, answer) in [("429", (|| Answer::status(429)) as fn() -> Answer), ("1 s", || refused(1))] {
        for (pause, later) in [(5, 0), (20, 0), (20, 3), (20, 30), (25, 10), (60, 0)] {
            let origin = Origin::new(move |n, _| if n == 5 { answer() } else { Answer::ok().after(ms(50)) });
            let (_, client) = client(&origin, Gate::builder(), 30);
            for n in 0..6 + later {
                if n > 0 {
                    tokio::time::sleep(Duration::from_secs(pause)).await;
                }
                call(&client, "/a", 30).await.unwrap();
            }
            let calls: Vec<_> = (0..20)
                .map(|_| {
                    let client = client.clone();
                    tokio::spawn(async move { call(&client, "/a", 10).await })
                })
                .collect();
            let mut turned_away = 0;
            for call in calls {
                turned_away += usize::from(call.await.unwrap().is_err());
            }
            lost.push((name, pause, later, turned_away));
        }
    }
    assert!(
        lost.iter().all(|(.., turned_away)| *turned_away <= 10),
        "advice, pause, calls after it, of 20: {lost:?}"
    );
}

/// One caller who pauses for so long, 5 s of a fine server, an outage, and a fine server again. How long 4 calls a second take
/// in the half minute that begins 30 s later.
async fn after_outage(seconds: u64, pause: Duration, outage: fn() -> Answer) -> (usize, Duration) {
    let begin = Instant::now() + Duration::from_secs(5);
    let end = begin + Duration::from_secs(seconds);
    let origin = Origin::new(move |_, _| match Instant::now() {
        at if at < begin || at >= end => Answer::ok().after(ms(50)),
        _ => outage().after(ms(5)),
    });
    let (_, client) = client(&origin, Gate::builder(), 30);
    while Instant::now() < end {
        let _ = call(&client, "/a", 30).await;
        tokio::time::sleep(pause).await;
    }
    let start = Instant::now();
    let (mut calls, mut slowest) = (0, Duration::ZERO);
    while start.elapsed() < ms(60_000) {
        let at = Instant::now();
        let _ = call(&client, "/a", 30).await;
        if start.elapsed() > ms(30_000) {
            calls += 1;
            slowest = slowest.max(at.elapsed());
        }
        tokio::time::sleep(ms(200)).await;
    }
    (calls, slowest)
}

#[tokio::test(start_paused = true)]
async fn a_caller_of_one_call_a_minute_is_at_full_speed_30_s_after_an_outage() {
    for (name, outage) in [("429", (|| Answer::status(429)) as fn() -> Answer), ("1 s", || refused(1))] {
        let (calls, slowest) = after_outage(3_600, ms(60_000), outage).await;
        assert!(calls >= 100, "{name}: {calls} of 120 calls, slowest {slowest:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lone_caller_is_at_full_speed_30_s_after_an_outage_of_a_minute() {
    for (name, outage) in [("429", (|| Answer::status(429)) as fn() -> Answer), ("1 s", || refused(1))] {
        let (calls, slowest) = after_outage(60, ms(0), outage).await;
        assert!(calls >= 100, "{name}: {calls} of 120 calls, slowest {slowest:?}");
    }
}
