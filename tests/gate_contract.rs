//! What the gate promises, under a paused clock.
#![cfg(test)]

#[path = "support/gate.rs"]
mod permits;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use permits::granted;
use reqwest_admission::gate::{Gate, Permit, Priority, Refusal, RefusalReason, Reserve, ScopeKey, Ticket};
use reqwest_admission::pace::{Cost, Limits, TokenEstimate, TokenUsage, WaitCause};
use reqwest_admission::reading::ServiceLimit;
use reqwest_admission::units::{QuotaUnit, QuotaUnits};
use tokio::time::{Instant, advance, sleep};

type Now = std::time::Instant;

const NO_UNIT: QuotaUnits = QuotaUnits::EMPTY;

fn now() -> Now {
    Instant::now().into_std()
}

fn after(seconds: f64) -> Option<Now> {
    now().checked_add(Duration::from_secs_f64(seconds))
}

fn gate(limits: Limits) -> (Gate, ScopeKey) {
    let gate = Gate::builder().limits(limits).seed(1).build().expect("valid limits");
    (gate, ScopeKey::new("https://api.example.com"))
}

fn tokens(tokens: u64) -> Cost {
    Cost::from(TokenEstimate::new(tokens, 0))
}

fn ask(gate: &Gate, scope: &ScopeKey, deadline: Option<Now>) -> Reserve {
    gate.reserve(scope, Cost::request(), Priority::Normal, deadline, now())
}

fn permit(reserve: Reserve) -> Permit {
    match reserve {
        Reserve::Granted(mut permit) => {
            permit.sent(now());
            permit
        }
        other => panic!("expected a permit, got {other:?}"),
    }
}

fn ticket(reserve: Reserve) -> Ticket {
    match reserve {
        Reserve::Queued(ticket) => ticket,
        other => panic!("expected a ticket, got {other:?}"),
    }
}

fn refusal(reserve: Reserve) -> Refusal {
    match reserve {
        Reserve::Refused(refusal) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn level(gate: &Gate, unit: QuotaUnit) -> f64 {
    let scope = gate.snapshot(now()).scopes.remove(0);
    scope.units.iter().find(|state| state.unit == unit).and_then(|state| state.level).expect("a level")
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// Awaits the grant in a task of its own and notes the name when it comes.
fn watch(
    ticket: Ticket,
    name: &'static str,
    log: &Arc<Mutex<Vec<&'static str>>>,
) -> tokio::task::JoinHandle<()> {
    let log = Arc::clone(log);
    tokio::spawn(async move {
        if let Ok(mut permit) = ticket.await {
            permit.sent(now());
            log.lock().expect("log").push(name);
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_are_granted_at_the_predicted_instants_first_come_first_served() {
    let (gate, scope) = gate(Limits::new().requests_per_minute(60));
    for _ in 0..60 {
        let _ = permit(ask(&gate, &scope, None));
    }
    let start = Instant::now();
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = tokio::task::JoinSet::new();
    for place in 0..1000_u32 {
        let ticket = ticket(ask(&gate, &scope, None));
        let predicted = ticket.predicted().time;
        assert!(predicted.as_secs_f64() - f64::from(place + 1) < 1e-6, "the {place}th is told {predicted:?}");
        let log = Arc::clone(&log);
        waiters.spawn(async move {
            ticket.await.expect("no deadline").sent(now());
            let error = start.elapsed().saturating_sub(predicted);
            assert!(start.elapsed() >= predicted, "granted early");
            assert!(error <= Duration::from_millis(1), "granted {error:?} late");
            log.lock().expect("log").push(place);
        });
    }
    while let Some(waiter) = waiters.join_next().await {
        waiter.expect("a waiter");
    }
    assert!(log.lock().expect("log").is_sorted());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_synchronous_exact_and_consumes_nothing() {
    let (gate, scope) = gate(Limits::new().tokens_per_minute(6_000));
    let _ = permit(gate.reserve(&scope, tokens(6_000), Priority::Normal, None, now()));
    for _ in 0..1_000 {
        let refused = refusal(gate.reserve(&scope, tokens(1_000), Priority::Normal, after(9.999_999), now()));
        assert_eq!(refused.reason, RefusalReason::BeyondDeadline);
        assert_eq!(refused.cause, WaitCause::Limit);
        assert!((refused.wait.as_secs_f64() - 10.0).abs() < 1e-6, "{:?}", refused.wait);
    }
    assert!(level(&gate, QuotaUnit::Tokens).abs() < 1e-6);
    // Equal is in time.
    let wait = ticket(gate.reserve(&scope, tokens(1_000), Priority::Normal, after(10.000_001), now()));
    let start = Instant::now();
    let _ = wait.await.expect("in time");
    assert!(seconds(start) >= 10.0 && seconds(start) <= 10.001);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_ticket_leaves_the_queue_and_the_next_moves_up() {
    let (gate, scope) = gate(Limits::new().requests_per_minute(60));
    for _ in 0..60 {
        let _ = permit(ask(&gate, &scope, None));
    }
    let first = tokio::spawn(ticket(ask(&gate, &scope, None)));
    let second = tokio::spawn(ticket(ask(&gate, &scope, None)));
    sleep(Duration::from_millis(500)).await;
    first.abort();
    let start = Instant::now();
    let _ = second.await.expect("a task").expect("a permit");
    assert!(seconds(start) <= 0.502, "the aborted head passes the timer on: {}", seconds(start));
    assert_eq!(gate.snapshot(now()).scopes[0].waiting.normal, 0);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_never_picked_up_goes_back() {
    let (gate, scope) = gate(Limits::new().concurrency(1));
    let held = permit(ask(&gate, &scope, None));
    let first = ticket(ask(&gate, &scope, None));
    let second = ticket(ask(&gate, &scope, None));
    drop(held);
    // The slot is assigned to the first, which nobody polls; dropping it hands the slot on.
    assert_eq!(gate.snapshot(now()).scopes[0].in_flight, 1);
    drop(first);
    let permit = second.await.expect("the slot");
    assert_eq!(gate.snapshot(now()).scopes[0].in_flight, 1);
    drop(permit);
    assert_eq!(gate.snapshot(now()).scopes[0].in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn classes_are_strict_and_a_call_that_waited_ten_seconds_counts_one_higher() {
    let (gate, scope) = gate(Limits::new().requests_per_minute(60));
    for _ in 0..60 {
        let _ = permit(ask(&gate, &scope, None));
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    let enter = |priority, name| {
        let ticket = ticket(gate.reserve(&scope, Cost::request(), priority, None, now()));
        watch(ticket, name, &log)
    };
    let waiters = [
        enter(Priority::Normal, "normal"),
        enter(Priority::High, "high"),
        enter(Priority::Normal, "normal, later"),
    ];
    for waiter in waiters {
        waiter.await.expect("a task");
    }
    assert_eq!(*log.lock().expect("log"), ["high", "normal", "normal, later"]);

    log.lock().expect("log").clear();
    let early = enter(Priority::Normal, "aged");
    let mut waiters = Vec::new();
    for _ in 0..12 {
        waiters.push(enter(Priority::High, "high"));
    }
    sleep(Duration::from_millis(10_100)).await;
    waiters.push(enter(Priority::High, "high, younger"));
    early.await.expect("a task");
    for waiter in waiters {
        waiter.await.expect("a task");
    }
    let log = log.lock().expect("log");
    assert_eq!(log[9], "aged", "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_of_age_goes_before_a_large_one_that_gathers_its_tokens() {
    let (gate, scope) = gate(Limits::new().tokens_per_minute(600));
    let _ = permit(gate.reserve(&scope, tokens(600), Priority::Normal, None, now()));
    let start = Instant::now();
    let small = ticket(gate.reserve(&scope, tokens(20), Priority::Normal, None, now()));
    let small = tokio::spawn(small);
    sleep(Duration::from_millis(1)).await;
    // Ahead by its class, and a minute away.
    let large = tokio::spawn(ticket(gate.reserve(&scope, tokens(600), Priority::High, None, now())));
    small.await.expect("a task").expect("a permit").sent(now());
    assert!(seconds(start) >= 10.0 && seconds(start) < 10.01, "{}", seconds(start));
    large.await.expect("a task").expect("a permit").sent(now());
    assert!(seconds(start) >= 62.0 && seconds(start) < 62.01, "{}", seconds(start));
}

#[tokio::test(start_paused = true)]
async fn batch_calls_leave_a_tenth_of_the_limit_and_do_not_stand_in_the_way() {
    let (gate, scope) = gate(Limits::new().requests_per_minute(60));
    let mut granted = 0;
    let waiting = loop {
        match gate.reserve(&scope, Cost::request(), Priority::Batch, None, now()) {
            Reserve::Granted(mut permit) => {
                permit.sent(now());
                granted += 1;
            }
            Reserve::Queued(ticket) => break ticket,
            Reserve::Refused(refusal) => panic!("{refusal}"),
        }
    };
    assert_eq!(granted, 54);
    let _ = permit(ask(&gate, &scope, None));
    let _ = permit(ask(&gate, &scope, None));
    drop(waiting);
}

#[tokio::test(start_paused = true)]
async fn limits_change_while_calls_wait() {
    let (gate, scope) = gate(Limits::new().requests_per_minute(60));
    for _ in 0..60 {
        let _ = permit(ask(&gate, &scope, None));
    }
    let first = tokio::spawn(ticket(ask(&gate, &scope, after(2.0))));
    let second = tokio::spawn(ticket(ask(&gate, &scope, after(2.0))));
    tokio::task::yield_now().await;
    // Half the rate: the first is still in time, the second no longer and is told so at once.
    gate.set_limits(&scope, Limits::new().requests_per_minute(30), now()).expect("valid");
    let start = Instant::now();
    let refused = second.await.expect("a task").expect_err("out of reach");
    assert_eq!((start.elapsed(), refused.reason), (Duration::ZERO, RefusalReason::BeyondDeadline));
    first.await.expect("a task").expect("in time").sent(now());
    assert!(seconds(start) >= 2.0 && seconds(start) < 2.002);

    let third = tokio::spawn(ticket(ask(&gate, &scope, None)));
    tokio::task::yield_now().await;
    gate.set_limits(&scope, Limits::new(), now()).expect("valid");
    let start = Instant::now();
    let _ = third.await.expect("a task").expect("no limit any more");
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(gate.set_limits(&scope, Limits::new().concurrency(0), now()).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_steps_back_refills_nothing() {
    let (gate, scope) = gate(Limits::new().requests_per_minute(60));
    let earlier = now();
    advance(Duration::from_secs(100)).await;
    for _ in 0..60 {
        let _ = permit(ask(&gate, &scope, None));
    }
    for _ in 0..100 {
        let refused =
            refusal(gate.reserve(&scope, Cost::request(), Priority::Normal, Some(earlier), earlier));
        assert!((refused.wait.as_secs_f64() - 1.0).abs() < 1e-6, "{:?}", refused.wait);
    }
    let _ = refusal(ask(&gate, &scope, after(0.5)));
}

#[tokio::test(start_paused = true)]
async fn a_call_larger_than_the_bucket_is_let_go_alone_when_it_is_full() {
    let (gate, scope) = gate(Limits::new().tokens_per_minute(600));
    let _ = permit(gate.reserve(&scope, tokens(100), Priority::Normal, None, now()));
    let start = Instant::now();
    let large = ticket(gate.reserve(&scope, tokens(6_000), Priority::Normal, None, now()));
    let _ = {
        let mut permit = large.await.expect("a permit");
        permit.sent(now());
        permit
    };
    assert!(seconds(start) >= 10.0 && seconds(start) < 10.002, "when it is full: {}", seconds(start));
    let next = refusal(gate.reserve(&scope, tokens(100), Priority::Normal, after(1.0), now()));
    assert!((next.wait.as_secs_f64() - 550.0).abs() < 0.1, "the debt is paid first: {:?}", next.wait);
}

#[tokio::test(start_paused = true)]
async fn settling_gives_back_what_was_not_used_and_wakes_the_next() {
    let (gate, scope) = gate(Limits::new().tokens_per_minute(600));
    let mut large = permit(gate.reserve(&scope, tokens(600), Priority::Normal, None, now()));
    let waiting = tokio::spawn(ticket(gate.reserve(&scope, tokens(300), Priority::Normal, None, now())));
    sleep(Duration::from_secs(1)).await;
    large.settle(TokenUsage::new(200, 50), now());
    let start = Instant::now();
    let _ = waiting.await.expect("a task").expect("a permit");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn cool_downs_merge_by_maximum_and_hold_every_call() {
    let (gate, scope) = gate(Limits::new());
    let (long, short) = (permit(ask(&gate, &scope, None)), permit(ask(&gate, &scope, None)));
    sleep(Duration::from_millis(100)).await;
    let _ = long.refused(Some(Duration::from_secs(10)), NO_UNIT, Duration::ZERO, now());
    let _ = short.refused(Some(Duration::from_secs(2)), NO_UNIT, Duration::ZERO, now());
    let start = Instant::now();
    let refused = refusal(ask(&gate, &scope, after(9.9)));
    assert!(refused.wait >= Duration::from_secs(10));
    let _ = granted(ask(&gate, &scope, None)).await.expect("after the cool-down");
    assert!(start.elapsed() >= Duration::from_secs(10), "advice is a floor");
    assert!(seconds(start) < 14.0);
    let other = ScopeKey::new("https://api.example.com").label("another model");
    let _ = permit(ask(&gate, &other, None));
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_learn_of_a_longer_cool_down_at_once() {
    let (gate, scope) = gate(Limits::new());
    let (first, second) = (permit(ask(&gate, &scope, None)), permit(ask(&gate, &scope, None)));
    let _ = first.refused(Some(Duration::from_secs(2)), NO_UNIT, Duration::ZERO, now());
    let impatient = tokio::spawn(ticket(ask(&gate, &scope, after(5.0))));
    let patient = tokio::spawn(ticket(ask(&gate, &scope, after(60.0))));
    sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    let _ = second.refused(Some(Duration::from_secs(20)), NO_UNIT, Duration::ZERO, now());
    let refused = impatient.await.expect("a task").expect_err("out of reach");
    assert_eq!(start.elapsed(), Duration::ZERO, "at once");
    assert!(refused.wait >= Duration::from_secs(20));
    assert_eq!(refused.reason, RefusalReason::BeyondDeadline);
    let _ = patient.await.expect("a task").expect("in time");
    assert!(start.elapsed() >= Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_returns_to_the_front() {
    let (gate, scope) = gate(Limits::new());
    let call = permit(ask(&gate, &scope, None));
    let log = Arc::new(Mutex::new(Vec::new()));
    // After a longer closing two would go at one moment, and their tasks run in any order.
    let advice = Some(Duration::from_millis(900));
    let _ = permit(ask(&gate, &scope, None)).refused(advice, NO_UNIT, Duration::ZERO, now());
    let later = watch(ticket(ask(&gate, &scope, None)), "later", &log);
    let place = call.refused(advice, NO_UNIT, Duration::ZERO, now());
    let again = gate.reserve_again(place, Cost::request(), Priority::Normal, None, now());
    let again = watch(ticket(again), "again", &log);
    later.await.expect("a task");
    again.await.expect("a task");
    assert_eq!(*log.lock().expect("log"), ["again", "later"]);
}

/// One that is set back goes behind the last arrival where so many have not come as are to go first, another behind one of
/// those: both wait in places of their own.
#[tokio::test(start_paused = true)]
async fn calls_that_are_set_back_by_many_refusals_never_meet_in_one_place() {
    let (gate, scope) = gate(Limits::new());
    let mut calls: Vec<Option<Permit>> = (0..200).map(|_| Some(permit(ask(&gate, &scope, None)))).collect();
    // In any order, the newest among the first.
    let order = (0..200_usize).map(|n| (199 + n * 167) % 200);
    let advice = Some(Duration::from_millis(100));
    for _ in 0..6 {
        let places: Vec<_> = order
            .clone()
            .map(|n| {
                let call = calls[n].take().expect("back from the last round");
                (n, call.refused(advice, NO_UNIT, Duration::ZERO, now()))
            })
            .collect();
        let tickets: Vec<_> = places
            .into_iter()
            .map(|(n, place)| {
                (n, ticket(gate.reserve_again(place, Cost::request(), Priority::Normal, None, now())))
            })
            .collect();
        assert_eq!(gate.snapshot(now()).scopes[0].waiting.normal, tickets.len(), "all have a place");
        let waits: Vec<_> = tickets.into_iter().map(|(n, ticket)| (n, tokio::spawn(ticket))).collect();
        for (n, wait) in waits {
            let again = tokio::time::timeout(Duration::from_secs(10_000), wait).await.expect("let go");
            let mut again = again.expect("a task").expect("no deadline");
            again.sent(now());
            calls[n] = Some(again);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lone_call_pays_the_advice_and_hardly_more() {
    for (seed, advice) in (0..50).zip([0.057, 0.4, 3.0, 20.0].into_iter().cycle()) {
        let gate = Gate::builder().seed(seed).build().expect("valid");
        let scope = ScopeKey::new("lone");
        let call = permit(ask(&gate, &scope, None));
        sleep(Duration::from_millis(50)).await;
        let start = Instant::now();
        let place = call.refused(Some(Duration::from_secs_f64(advice)), NO_UNIT, Duration::ZERO, now());
        let again = gate.reserve_again(place, Cost::request(), Priority::Normal, None, now());
        let _ = granted(again).await.expect("a permit");
        assert!(seconds(start) >= advice, "advice is a floor");
        assert!(seconds(start) <= advice * 1.1 + 0.002, "{advice}: {}", seconds(start));
    }
}

#[tokio::test(start_paused = true)]
async fn missing_advice_and_advice_of_zero_are_not_zero() {
    for advice in [None, Some(Duration::ZERO)] {
        let (gate, scope) = gate(Limits::new());
        let mut waits = Vec::new();
        for _ in 0..8 {
            let call = granted(ask(&gate, &scope, None)).await.expect("a permit");
            let _ = call.refused(advice, NO_UNIT, Duration::ZERO, now());
            waits.push(refusal(ask(&gate, &scope, Some(now()))).wait.as_secs_f64());
            sleep(Duration::from_millis(1)).await;
        }
        assert!(waits[0] >= 0.5, "{waits:?}");
        assert!(waits[7] >= 2.0 * waits[1] || waits[7] >= 8.0, "{waits:?}");
        assert!(waits.iter().all(|wait| *wait < 20.0), "{waits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn slots_are_held_until_the_permit_is_dropped() {
    let (gate, scope) = gate(Limits::new().concurrency(2));
    let (first, second) = (permit(ask(&gate, &scope, None)), permit(ask(&gate, &scope, None)));
    let third = tokio::spawn(ticket(ask(&gate, &scope, after(30.0))));
    let fourth = tokio::spawn(ticket(ask(&gate, &scope, after(10.0))));
    let start = Instant::now();
    sleep(Duration::from_secs(5)).await;
    first.finish();
    let third = third.await.expect("a task").expect("the slot of the first");
    assert!(seconds(start) < 5.002);
    let refused = fourth.await.expect("a task").expect_err("no slot in time");
    assert_eq!(refused.cause, WaitCause::Concurrency);
    assert!(seconds(start) >= 10.0 && seconds(start) < 10.002);
    drop((second, third));
    assert_eq!(gate.snapshot(now()).scopes[0].in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn too_many_at_once_lowers_the_learned_concurrency() {
    let (gate, scope) = gate(Limits::new());
    let mut calls: Vec<Permit> = (0..20).map(|_| permit(ask(&gate, &scope, None))).collect();
    let refused = calls.pop().expect("a call");
    let _ = refused.refused(None, NO_UNIT.with(QuotaUnit::Concurrency), Duration::ZERO, now());
    let state = gate.snapshot(now()).scopes.remove(0);
    assert_eq!((state.in_flight, state.concurrency_learned), (19, Some(18)));
    assert!(state.closed_for_seconds > 0.0 && state.closed_for_seconds <= 1.5);
    assert!(state.units.iter().all(|unit| !unit.is_pacing), "it says nothing of rates");
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_in_length_and_in_time() {
    let gate = Gate::builder()
        .limits(Limits::new().requests_per_minute(60))
        .max_queue(3)
        .max_queue_wait(Duration::from_secs(2))
        .build()
        .expect("valid");
    let scope = ScopeKey::new("bounded");
    for _ in 0..60 {
        let _ = permit(ask(&gate, &scope, None));
    }
    let waiting = [ticket(ask(&gate, &scope, None)), ticket(ask(&gate, &scope, None))];
    assert_eq!(refusal(ask(&gate, &scope, after(60.0))).reason, RefusalReason::BeyondQueueWait);
    gate.set_limits(&scope, Limits::new().concurrency(1), now()).expect("valid");
    let held = [granted(ask(&gate, &scope, None))];
    drop((waiting, held));

    let (gate, scope) = (
        Gate::builder().limits(Limits::new().concurrency(1)).max_queue(3).build().expect("valid"),
        ScopeKey::new("bounded"),
    );
    let _held = permit(ask(&gate, &scope, None));
    let _waiting: Vec<Ticket> = (0..3).map(|_| ticket(ask(&gate, &scope, None))).collect();
    assert_eq!(refusal(ask(&gate, &scope, None)).reason, RefusalReason::QueueFull);
}

#[tokio::test(start_paused = true)]
async fn scopes_are_bounded_and_a_closed_or_occupied_one_is_kept() {
    let gate = Gate::builder().max_scopes(2).build().expect("valid");
    let scope = |name: &str| ScopeKey::new(name);
    let held = permit(ask(&gate, &scope("occupied"), None));
    gate.close(&scope("closed"), Duration::from_secs(10), now());
    let refused = refusal(ask(&gate, &scope("third"), None));
    assert_eq!(refused.reason, RefusalReason::TooManyScopes);
    sleep(Duration::from_secs(11)).await;
    drop(permit(ask(&gate, &scope("third"), None)));
    drop(held);
    for number in 0..1_000_000_u32 {
        drop(permit(ask(&gate, &scope(&number.to_string()), None)));
        if number > 2_000 {
            break;
        }
    }
    assert_eq!(gate.scopes(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_was_never_sent_costs_nothing() {
    let (gate, scope) = gate(Limits::new().requests_per_minute(10));
    for _ in 0..1_000 {
        match ask(&gate, &scope, None) {
            Reserve::Granted(permit) => drop(permit),
            other => panic!("{other:?}"),
        }
    }
    assert!((level(&gate, QuotaUnit::Requests) - 10.0).abs() < 1e-9);
}

fn stated(limit: u64, remaining: u64, reset: f64) -> [ServiceLimit; 1] {
    let mut stated = ServiceLimit::new(QuotaUnit::Requests);
    stated.limit = Some(limit);
    stated.remaining = Some(remaining);
    stated.reset = Some(Duration::from_secs_f64(reset));
    [stated]
}

#[tokio::test(start_paused = true)]
async fn remaining_is_not_counted_twice_and_old_news_is_ignored() {
    let (gate, scope) = gate(Limits::new());
    let mut calls: Vec<Permit> = Vec::new();
    for _ in 0..10 {
        calls.push(permit(ask(&gate, &scope, None)));
        advance(Duration::from_millis(1)).await;
    }
    // The server saw the first call only; the other nine are on their way.
    calls[0].observe(&stated(100, 99, 0.6), now());
    let first = level(&gate, QuotaUnit::Requests);
    assert!(first > 89.0 && first < 91.5, "99 less the nine in flight: {first}");
    // The last one, overtaken by others of another process.
    calls[9].observe(&stated(100, 40, 36.0), now());
    let state = gate.snapshot(now()).scopes.remove(0).units[0];
    assert!(state.level.expect("a level") < 41.0, "down at once: {state:?}");
    assert!((state.rate.expect("a rate") - 100.0 / 60.0).abs() < 0.01, "{state:?}");
    calls[5].observe(&stated(100, 95, 3.0), now());
    assert!(level(&gate, QuotaUnit::Requests) < 41.0, "a response to an older call changes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_nearly_empty_server_is_not_asked_before_it_refills_and_a_configured_limit_caps_a_stated_one() {
    let (gate, scope) = gate(Limits::new().requests_per_minute(30));
    let mut call = permit(ask(&gate, &scope, None));
    call.observe(&stated(100, 2, 58.8), now());
    let state = gate.snapshot(now()).scopes.remove(0).units[0];
    assert_eq!((state.capacity, state.rate), (Some(30.0), Some(0.5)));
    // Two calls are left, and two are kept free for others who see the same.
    let refused = refusal(ask(&gate, &scope, Some(now())));
    assert!(
        refused.wait > Duration::from_millis(500) && refused.wait < Duration::from_secs(3),
        "{refused:?}"
    );
    advance(Duration::from_secs(20)).await;
    let mut call = granted(ask(&gate, &scope, None)).await.expect("a permit");
    call.sent(now());
    call.observe(&stated(100, 90, 6.0), now());
    let _ = permit(ask(&gate, &scope, Some(now())));
}

#[tokio::test(start_paused = true)]
async fn advice_follows_what_is_left_and_the_snapshot_can_be_printed() {
    let (gate, scope) = gate(Limits::new().tokens_per_minute(6_000).concurrency(8));
    assert!(gate.advice(&scope, now()).is_none());
    let mut call = permit(gate.reserve(&scope, tokens(1_000), Priority::Normal, None, now()));
    call.observe(&[], now());
    let advice = gate.advice(&scope, now()).expect("a scope");
    assert_eq!((advice.batch_size, advice.max_output), (Some(5), Some(4_000)));
    assert_eq!(advice.wait_seconds, 0.0);
    let snapshot = serde_json::to_value(gate.snapshot(now())).expect("a value");
    assert_eq!(snapshot["scopes"][0]["in_flight"], 1);
    assert_eq!(snapshot["scopes"][0]["units"][1]["origin"], "configured");
}

#[test]
fn handles_can_live_in_a_response_body() {
    fn lives<T: Send + 'static>() {}
    lives::<Permit>();
    lives::<Ticket>();
    lives::<Gate>();
}

#[tokio::test(start_paused = true)]
async fn batch_calls_leave_a_tenth_of_the_calls_in_flight_to_the_others() {
    for (cap, batch) in [(1, 1), (4, 3), (10, 9), (25, 22)] {
        let (gate, scope) = gate(Limits::new().concurrency(cap));
        let mut held = Vec::new();
        while let Reserve::Granted(permit) =
            gate.reserve(&scope, Cost::request(), Priority::Batch, Some(now()), now())
        {
            held.push(permit);
        }
        assert_eq!(held.len(), batch, "of {cap}");
        for _ in batch..cap as usize {
            held.push(permit(ask(&gate, &scope, Some(now()))));
        }
        drop(ticket(ask(&gate, &scope, None)));
    }
}

/// Normal calls that come as fast as the limit allows keep the level below what batch leaves to them.
#[tokio::test(start_paused = true)]
async fn a_batch_call_that_has_come_of_age_is_served_beside_steady_normal_load() {
    for limits in [Limits::new().requests_per_minute(60), Limits::new().concurrency(2)] {
        let (gate, scope) = gate(limits);
        let steady = tokio::spawn({
            let (gate, scope) = (gate.clone(), scope.clone());
            async move {
                let mut callers = tokio::task::JoinSet::new();
                for _ in 0..4 {
                    let (gate, scope) = (gate.clone(), scope.clone());
                    callers.spawn(async move {
                        loop {
                            let Ok(mut permit) = granted(ask(&gate, &scope, None)).await else { return };
                            permit.sent(now());
                            sleep(Duration::from_millis(100)).await;
                            permit.finish();
                        }
                    });
                }
                while callers.join_next().await.is_some() {}
            }
        });
        sleep(Duration::from_secs(120)).await;
        let start = Instant::now();
        let batch = ticket(gate.reserve(&scope, Cost::request(), Priority::Batch, after(600.0), now()));
        let _ = batch.await.expect("served");
        assert!(seconds(start) < 12.0, "after {} s", seconds(start));
        steady.abort();
    }
}

#[test]
fn a_more_urgent_priority_is_the_greater() {
    assert!(Priority::High > Priority::Normal && Priority::Normal > Priority::Batch);
}

/// Calls that are given back unsent neither earn nor cost the others anything.
#[tokio::test(start_paused = true)]
async fn a_permit_given_back_unsent_earns_no_pace() {
    let mut gaps = Vec::new();
    for unsent in [0, 1, 20] {
        let (gate, scope) = gate(Limits::new());
        let calls: Vec<Permit> = (0..20).map(|_| permit(ask(&gate, &scope, None))).collect();
        sleep(Duration::from_millis(200)).await;
        for mut call in calls.into_iter().rev().take(2) {
            call.sent(now());
            let _ = call.refused(Some(Duration::from_millis(10)), NO_UNIT, Duration::ZERO, now());
        }
        for _ in 0..unsent {
            drop(granted(ask(&gate, &scope, None)).await.expect("a permit"));
        }
        let mut first = granted(ask(&gate, &scope, None)).await.expect("a permit");
        first.sent(now());
        let start = Instant::now();
        let mut second = granted(ask(&gate, &scope, None)).await.expect("a permit");
        second.sent(now());
        gaps.push(seconds(start));
    }
    assert!(gaps[0] > 0.002, "{gaps:?}");
    assert!(gaps.iter().all(|gap| (gap / gaps[0] - 1.0).abs() < 0.1), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_is_reopened_by_hand_lets_go_who_waits() {
    let (gate, scope) = gate(Limits::new());
    let _ = permit(ask(&gate, &scope, None)).refused(
        Some(Duration::from_secs(3_600)),
        NO_UNIT,
        Duration::ZERO,
        now(),
    );
    let waiting = tokio::spawn(ticket(ask(&gate, &scope, None)));
    sleep(Duration::from_secs(1)).await;
    assert!(refusal(ask(&gate, &scope, after(10.0))).wait > Duration::from_secs(3_500));
    let start = Instant::now();
    gate.reopen(&scope, now());
    let _ = waiting.await.expect("a task").expect("a permit");
    assert!(seconds(start) < 1.0, "{}", seconds(start));
    assert_eq!(gate.snapshot(now()).scopes[0].closed_for_seconds, 0.0);
    gate.reopen(&ScopeKey::new("unknown"), now());
    assert_eq!(gate.scopes(), 1);
}

/// A server that says "come back in a year" closes the scope for as long as the gate allows, then one call at a time asks.
#[tokio::test(start_paused = true)]
async fn no_answer_closes_a_scope_for_longer_than_the_gate_allows() {
    let scope = ScopeKey::new("patient");
    for (gate, longest) in [
        (Gate::default(), 24 * 3_600),
        (Gate::builder().max_cool_down(Duration::from_secs(60)).build().expect("valid"), 60),
    ] {
        let longest = Duration::from_secs(longest);
        let year = Some(Duration::from_secs(366 * 24 * 3_600));
        let _ = permit(ask(&gate, &scope, None)).refused(year, NO_UNIT, Duration::ZERO, now());
        let start = Instant::now();
        let mut first = granted(ask(&gate, &scope, None)).await.expect("asks again");
        first.sent(now());
        assert!(start.elapsed() >= longest && start.elapsed() <= longest + Duration::from_secs(1));
        let second = refusal(ask(&gate, &scope, Some(now())));
        assert!(second.wait > Duration::ZERO, "one at a time");
        let _ = first.refused(year, NO_UNIT, Duration::ZERO, now());
        assert!(refusal(ask(&gate, &scope, after(10.0))).wait >= longest - Duration::from_secs(1));
    }
}
