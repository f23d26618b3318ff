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
    let origin = Origin::always(Answer::ok);
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
async fn a_lone_caller_is_at_full_speed_30_s_after_an_outage_of_a_minute() {
    for (name, outage) in [("429", (|| Answer::status(429)) as fn() -> Answer), ("1 s", || refused(1))] {
        let (calls, slowest) = after_outage(60, ms(0), outage).await;
        assert!(calls >= 100, "{name}: {calls} of 120 calls, slowest {slowest:?}");
    }
}
