//! Records that need the gate: shared cool-downs, permits, queues, reservations, learning from successes.

use std::time::Duration;

use reqwest_admission::gate::{Gate, Priority, ScopeKey, ScopeSnapshot};
use reqwest_admission::pace::{Limits, TokenEstimate, TokenUsage};
use reqwest_admission::reading::Profile;
use reqwest_admission::units::QuotaUnit;
use reqwest_admission::{Admission, AdmissionBuilder, CallReport, LatencyBudget, Reason, SpillOver};
use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Incident;
use super::failures;
use super::frames::{Frames, Open, Piece, data};
use super::rulings::{always, answer, url};
use super::support::{Answer, Origin, ms};

pub(super) async fn hold(record: &Incident) {
    match record.id.as_str() {
        "B023" => learning_never_leads_to_absurd_waits(record).await,
        "B025" => a_dropped_call_holds_nothing(record).await,
        "B081" => nobody_sends_in_the_window(record, Some("github"), ms(60_000)).await,
        "B082" => {
            a_scope_reopens_one_call_at_a_time(record).await;
            a_scope_that_is_refused_again_closes_again(record).await;
        }
        "B084" => nobody_sends_in_the_window(record, None, ms(30_000)).await,
        "B085" => a_longer_cool_down_extends_a_shorter_one(record).await,
        "B086" => the_longer_of_two_cool_downs_holds_in_either_order(record).await,
        "B087" | "B088" => a_refused_model_leaves_its_siblings_open(record).await,
        "B089" => a_refusal_seen_by_one_client_holds_for_all_at_once(record).await,
        "B093" => any_outcome_of_the_first_call_after_a_cool_down_lets_the_next_go(record).await,
        "B103" => a_permit_is_held_to_the_end_of_a_body_or_its_drop(record).await,
        "B104" => open_streams_never_exceed_the_limit(record).await,
        "B105" => dropped_waiters_delay_nobody(record).await,
        "B106" => a_storm_of_cancelled_waiters_takes_no_tokens(record).await,
        "B107" => a_level_refills_after_contention(record).await,
        "B113" => calls_that_back_off_hold_no_permit(record).await,
        "B115" => a_call_above_a_second_s_worth_goes_at_once(record).await,
        "B117" => a_refused_reservation_takes_nothing(record).await,
        "B118" => a_call_that_cannot_be_estimated_blocks_nobody(record).await,
        "B120" => usage_is_settled_in_both_directions(record).await,
        "B138" => a_spent_window_without_a_limit_holds_the_next_call(record).await,
        "B139" => a_refusal_inside_of_a_stream_can_be_told_to_the_gate(record).await,
        "B140" => only_a_clean_end_gives_credit(record).await,
        "B141" => a_spent_window_holds_the_next_call_and_leaves_the_success_alone(record).await,
        "B142" => no_more_is_sent_than_remains(record).await,
        "B144" => a_spent_window_without_a_reset_holds_the_next_call_shortly(record).await,
        "B145" => a_reset_counts_more_than_a_limit(record).await,
        other => panic!("nobody knows how to run {other}"),
    }
}

/// A gate, and a client's layer that has everything in one scope of it.
fn gated(limits: Limits) -> (Gate, AdmissionBuilder) {
    let gate = Gate::builder().limits(limits).seed(1).build().unwrap();
    (gate.clone(), Admission::builder().gate(gate).draws(|| 0.5).scope_by(|_| scope()))
}

fn scope() -> ScopeKey {
    ScopeKey::new("scope")
}

fn state(gate: &Gate) -> ScopeSnapshot {
    gate.snapshot(Instant::now().into_std()).scopes.remove(0)
}

/// How many calls are in flight and how many wait.
fn occupied(gate: &Gate) -> (u32, usize) {
    let state = state(gate);
    (state.in_flight, state.waiting.high + state.waiting.normal + state.waiting.batch)
}

fn level(gate: &Gate, unit: QuotaUnit) -> f64 {
    state(gate).units.iter().find(|state| state.unit == unit).unwrap().level.unwrap()
}

fn budget(milliseconds: u64) -> LatencyBudget {
    LatencyBudget::new(ms(milliseconds))
}

fn get(client: &ClientWithMiddleware, record: &Incident) -> RequestBuilder {
    client.get(url(record))
}

async fn ok(call: RequestBuilder) {
    assert_eq!(call.send().await.unwrap().status(), 200);
}

async fn all(calls: Vec<JoinHandle<reqwest_middleware::Result<reqwest::Response>>>) {
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
}

/// Where a round trip is longer than the step between two calls, a few are under way before the first is answered.
async fn a_scope_that_is_refused_again_closes_again(record: &Incident) {
    const TRIP: u64 = 300;
    let (_, admission) = gated(Limits::new());
    let incident = record.clone();
    let start = Instant::now();
    // The server takes nothing in the two seconds after it has said so itself.
    let refuses = move || start.elapsed() < ms(3_000);
    let origin =
        Origin::new(move |_, _| (if refuses() { answer(&incident) } else { Answer::ok() }).after(ms(TRIP)));
    let client = origin.behind(admission.build().unwrap());
    all((0..10).map(|_| tokio::spawn(get(&client, record).send())).collect()).await;
    let sent = origin.times(start);
    let opened = sent[10];
    assert!(opened >= ms(2_000 + TRIP), "{sent:?}");
    let under_way = sent[10..].iter().filter(|sent| **sent <= opened + ms(TRIP)).count();
    // Advice counts from the sending, the hold from the receipt: at the implied rate of ten a second two trips' worth.
    assert!(under_way <= 6, "{under_way} of 10: {sent:?}");
    let closed = opened + ms(TRIP)..opened + ms(TRIP + 2_000);
    assert!(!sent.iter().any(|sent| *sent > closed.start && *sent < closed.end), "{sent:?}");
}

/// Lets everything happen that is due now.
async fn settle() {
    tokio::time::sleep(ms(1)).await;
}

async fn learning_never_leads_to_absurd_waits(record: &Incident) {
    let (gate, admission) = gated(Limits::new());
    let origin = always(record);
    let client = origin.behind(admission.build().unwrap());
    let large = || get(&client, record).with_extension(TokenEstimate::new(200_000, 0));
    while origin.count() < 20 {
        assert!(SpillOver::of(&large().send().await).is_some());
    }
    for left in [100, 5_000, 30_000] {
        let start = Instant::now();
        let _ = large().with_extension(budget(left)).send().await;
        assert!(start.elapsed() <= ms(left), "{:?} of {left} ms", start.elapsed());
    }
    let wait = gate.advice(&scope(), Instant::now().into_std()).unwrap().wait_seconds;
    assert!(wait <= 60.0, "{wait} s");

    // A success that states an absurd limit: turned away at once or within the budget, and heard anew within a minute.
    let (_, admission) = gated(Limits::new());
    let origin = Origin::always(|| {
        let limit = |answer: Answer, part, value| answer.header(&format!("x-ratelimit-{part}-tokens"), value);
        [("limit", "1"), ("remaining", "0"), ("reset", "24h")]
            .into_iter()
            .fold(Answer::ok(), |answer, (part, value)| limit(answer, part, value))
    });
    let client = origin.behind(admission.build().unwrap());
    let large = || get(&client, record).with_extension(TokenEstimate::new(200_000, 0));
    ok(large()).await;
    let start = Instant::now();
    assert!(SpillOver::of(&large().send().await).is_some());
    assert_eq!(start.elapsed(), Duration::ZERO);
    ok(large().with_extension(budget(61_000))).await;
}

async fn a_dropped_call_holds_nothing(record: &Incident) {
    let (gate, admission) = gated(Limits::new().concurrency(1));
    let origin = Origin::in_order([answer(record)]);
    let client = origin.behind(admission.build().unwrap());
    let start = Instant::now();
    let dropped = tokio::time::timeout(ms(20), get(&client, record).send()).await;
    assert!(dropped.is_err());
    assert_eq!((start.elapsed(), occupied(&gate)), (ms(20), (0, 0)));
    // The cool-down is the scope's and stays; nothing else does.
    ok(get(&client, record)).await;
    let sent = origin.times(start);
    assert!(sent.len() == 2 && sent[1] >= ms(500) && sent[1] <= ms(600), "{sent:?}");
    assert_eq!(occupied(&gate), (0, 0));
}

async fn nobody_sends_in_the_window(record: &Incident, vendor: Option<&str>, window: Duration) {
    let (_, admission) = gated(Limits::new());
    let admission = match vendor {
        Some(vendor) => admission.profile(Profile::named(vendor)),
        None => admission,
    };
    let origin = Origin::in_order([answer(record)]);
    let client = origin.behind(admission.build().unwrap());
    let start = Instant::now();
    let mut calls = vec![tokio::spawn(get(&client, record).with_extension(budget(90_000)).send())];
    settle().await;
    // Queued neighbours of the refused call, impatient and patient, and new ones all the time.
    let mut turned_away = 0;
    while start.elapsed() + ms(5) < window {
        let call = tokio::spawn(get(&client, record).with_extension(budget(90_000)).send());
        calls.push(call);
        let hasty = get(&client, record).with_extension(budget(1)).send().await;
        turned_away += usize::from(SpillOver::of(&hasty).is_some());
        tokio::time::sleep(window / 12).await;
    }
    assert!(turned_away >= 11, "{turned_away}");
    all(calls).await;
    let sent = origin.times(start);
    assert!(sent[1..].iter().all(|sent| *sent >= window), "{sent:?}");
}

async fn a_scope_reopens_one_call_at_a_time(record: &Incident) {
    const TRIP: u64 = 50;
    for probe_fails in [false, true] {
        let (_, admission) = gated(Limits::new());
        let incident = record.clone();
        let refused = if probe_fails { 11 } else { 10 };
        let origin = Origin::new(move |n, _| {
            (if n < refused { answer(&incident) } else { Answer::ok() }).after(ms(TRIP))
        });
        let client = origin.behind(admission.build().unwrap());
        let start = Instant::now();
        all((0..10).map(|_| tokio::spawn(get(&client, record).send())).collect()).await;
        let sent = origin.times(start);
        let opened = sent[10];
        assert!(opened >= ms(2_000 + TRIP), "{sent:?}");
        // Nobody follows before the answer of the first is there.
        assert!(sent[11] > opened + ms(TRIP), "{sent:?}");
        assert!(sent[10..].windows(2).all(|pair| pair[1] > pair[0] + ms(TRIP)), "{sent:?}");
        if probe_fails {
            assert!(sent[11] >= opened + ms(2_000 + TRIP), "{sent:?}");
        }
        assert_eq!(
            sent.len(),
            20 + usize::from(probe_fails),
            "one attempt more for each call that was refused"
        );
    }
}

async fn a_longer_cool_down_extends_a_shorter_one(record: &Incident) {
    let steps = record.steps.clone().unwrap();
    assert_eq!((steps[1].t_ms, &*steps[0].headers[0].1), (10, "1"));
    let (_, admission) = gated(Limits::new());
    let origin = Origin::in_order([
        Answer::status(steps[0].status).header("retry-after", "1").after(ms(20)),
        Answer::status(steps[1].status).header("retry-after", "60").after(ms(20 + steps[1].t_ms)),
    ]);
    let client = origin.behind(admission.build().unwrap());
    let start = Instant::now();
    let calls: Vec<_> =
        (0..2).map(|_| tokio::spawn(get(&client, record).with_extension(budget(90_000)).send())).collect();
    for at in [40, 700, 1_100, 30_000, 59_900] {
        tokio::time::sleep_until(start + ms(at)).await;
        let outcome = get(&client, record).with_extension(budget(50)).send().await;
        let advised = SpillOver::of(&outcome).unwrap().advised_wait().unwrap();
        assert!(ms(at) + advised >= ms(60_030), "after {at} ms: {advised:?}");
    }
    all(calls).await;
    assert!(origin.times(start)[2..].iter().all(|sent| *sent >= ms(60_030)), "{:?}", origin.times(start));
}

async fn the_longer_of_two_cool_downs_holds_in_either_order(record: &Incident) {
    let long = ms(90 * 60 * 1000);
    for order in [["5400", "60"], ["60", "5400"]] {
        for apart in [0, 1, 10] {
            let (_, admission) = gated(Limits::new());
            let mut delay = 20;
            let origin = Origin::in_order(order.map(|seconds| {
                delay += apart;
                Answer::status(record.status.unwrap()).header("retry-after", seconds).after(ms(delay))
            }));
            let client = origin.behind(admission.build().unwrap());
            let start = Instant::now();
            let calls: Vec<_> = (0..2).map(|_| tokio::spawn(get(&client, record).send())).collect();
            for call in calls {
                assert!(SpillOver::of(&call.await.unwrap()).is_some());
            }
            let outcome = get(&client, record).send().await;
            let advised = SpillOver::of(&outcome).unwrap().advised_wait().unwrap();
            let end = start.elapsed() + advised;
            assert!(end >= long && end <= long + ms(5_000), "{end:?}");
            assert_eq!(origin.count(), 2);
        }
    }
}

async fn a_refused_model_leaves_its_siblings_open(record: &Incident) {
    let incident = record.clone();
    let origin =
        Origin::new(
            move |_, request| {
                if request.headers()["x-model"] == "a" { answer(&incident) } else { Answer::ok() }
            },
        );
    let client = origin.behind(Admission::default());
    let call = |model: &str, left| {
        let call = client.post("https://api.openai.com/v1/chat/completions").bearer_auth("SECRET");
        // The scope goes by the body; the header is for the origin.
        let call = call.header("x-model", model);
        call.body(format!(r#"{{"model":"{model}"}}"#)).with_extension(budget(left)).send()
    };
    for _ in 0..20 {
        assert!(SpillOver::of(&call("a", 5).await).is_some());
        let start = Instant::now();
        assert_eq!(call("b", 30_000).await.unwrap().status(), 200);
        assert_eq!(start.elapsed(), Duration::ZERO, "the sibling waited");
    }
}

async fn a_refusal_seen_by_one_client_holds_for_all_at_once(record: &Incident) {
    let origin = Origin::in_order([answer(record)]);
    let (gate, admission) = gated(Limits::new());
    let one = origin.behind(admission.build().unwrap());
    let other = Admission::builder().gate(gate).scope_by(|_| scope()).build().unwrap();
    let other = origin.behind(other);
    let start = Instant::now();
    assert!(SpillOver::of(&get(&one, record).with_extension(budget(1_000)).send().await).is_some());
    while start.elapsed() < ms(14_900) {
        for client in [&one, &other] {
            let outcome = get(client, record).with_extension(budget(10)).send().await;
            assert_eq!(SpillOver::of(&outcome).unwrap().reason(), Reason::BudgetExceeded);
        }
        tokio::time::sleep(ms(100)).await;
    }
    ok(get(&other, record)).await;
    assert!(origin.count() == 2 && origin.times(start)[1] >= ms(15_000), "{:?}", origin.times(start));
}

async fn any_outcome_of_the_first_call_after_a_cool_down_lets_the_next_go(record: &Incident) {
    for neutral in ["refused", "client error", "server error", "lost", "cancelled", "body dropped"] {
        let (gate, admission) = gated(Limits::new());
        let incident = record.clone();
        let origin = Origin::new(move |n, _| match (n, neutral) {
            (0, _) | (1, "refused") => answer(&incident),
            (1, "client error") => Answer::status(404),
            (1, "server error") => Answer::status(500),
            (1, "lost") => Answer::error(failures::lost_connection().into()),
            (1, "cancelled") => Answer::ok().after(ms(60_000)),
            (1, "body dropped") => Answer::ok().body(Frames::body([data("half"), Piece::Hang])),
            _ => Answer::ok(),
        });
        let client = origin.behind(admission.build().unwrap());
        let start = Instant::now();
        // A POST, so that nothing is repeated but refusals.
        let probe = client.post(url(record)).with_extension(budget(8_000)).send();
        let _ = tokio::time::timeout(ms(9_000), probe).await;
        assert_eq!(origin.count(), 2, "{neutral}");
        assert_eq!(occupied(&gate), (0, 0), "{neutral}");
        let probed = origin.times(start)[1];
        ok(get(&client, record)).await;
        let sent = origin.times(start)[2];
        let closed = if neutral == "refused" { ms(5_000) } else { Duration::ZERO };
        assert!(sent >= probed + closed && sent <= probed + closed + ms(6_000), "{neutral}: {sent:?}");
    }
}

fn stream(record: &Incident, pieces: impl IntoIterator<Item = Piece>, open: &Open) -> Answer {
    answer(record).body(Frames::counted(pieces, open))
}

async fn a_permit_is_held_to_the_end_of_a_body_or_its_drop(record: &Incident) {
    for how in ["read to its end", "dropped", "failed"] {
        let (gate, admission) = gated(Limits::new().concurrency(1));
        let record = record.clone();
        let origin = Origin::new({
            let record = record.clone();
            move |_, _| {
                let last = if how == "failed" { Piece::Fail } else { data("other half") };
                stream(&record, [data("half"), last], &Open::default())
            }
        });
        let client = origin.behind(admission.build().unwrap());
        let mut held = get(&client, &record).send().await.unwrap();
        assert_eq!(held.chunk().await.unwrap().unwrap(), "half");
        assert_eq!(occupied(&gate), (1, 0), "{how}: half read");
        let second = get(&client, &record).with_extension(budget(1_000)).send().await;
        assert_eq!(SpillOver::of(&second).unwrap().reason(), Reason::BudgetExceeded, "{how}");
        assert_eq!(origin.count(), 1, "{how}");
        match how {
            "read to its end" => assert_eq!(held.text().await.unwrap(), "other half"),
            "failed" => assert!(held.chunk().await.is_err()),
            _ => drop(held),
        }
        assert_eq!(occupied(&gate), (0, 0), "{how}");
    }
}

async fn open_streams_never_exceed_the_limit(record: &Incident) {
    let (gate, admission) = gated(Limits::new().concurrency(3));
    let open = Open::default();
    let origin = Origin::always({
        let (record, open) = (record.clone(), open.clone());
        move || {
            let text = record.body.clone().unwrap();
            stream(&record, [data(text.clone()), Piece::Pause(ms(1_000)), data(text)], &open)
        }
    });
    let client = origin.behind(admission.build().unwrap());
    let calls: Vec<_> = (0..12)
        .map(|_| {
            let call = get(&client, record).send();
            tokio::spawn(async move { call.await.unwrap().text().await.unwrap().len() })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), 16);
    }
    assert_eq!((open.most(), open.now(), occupied(&gate)), (3, 0, (0, 0)));
}

async fn dropped_waiters_delay_nobody(record: &Incident) {
    let (gate, admission) = gated(Limits::new().concurrency(1));
    let origin = Origin::in_order([Answer::ok().body(Frames::body([data("x"), Piece::Hang]))]);
    let client = origin.behind(admission.build().unwrap());
    let held = get(&client, record).send().await.unwrap();
    let waiters: Vec<_> = (0..6).map(|_| tokio::spawn(get(&client, record).send())).collect();
    settle().await;
    let live = tokio::spawn(get(&client, record).send());
    settle().await;
    assert_eq!(occupied(&gate), (1, 7));
    waiters.iter().for_each(JoinHandle::abort);
    settle().await;
    assert_eq!(occupied(&gate), (1, 1));
    let start = Instant::now();
    drop(held);
    assert_eq!(live.await.unwrap().unwrap().status(), 200);
    assert_eq!((start.elapsed(), origin.count()), (Duration::ZERO, 2));
}

async fn a_storm_of_cancelled_waiters_takes_no_tokens(record: &Incident) {
    let (gate, admission) = gated(Limits::new().requests_per_minute(6_000).concurrency(4));
    let origin = Origin::always(|| Answer::ok().after(ms(7)));
    let client = origin.behind(admission.build().unwrap());
    let mut calls = Vec::new();
    for n in 0..3_000_u64 {
        let call = get(&client, record).send();
        // Cancelled while queued, at the very moment of a grant, in flight, or not at all.
        calls.push(tokio::spawn(tokio::time::timeout(ms(n % 23), call)));
        if n % 16 == 0 {
            settle().await;
        }
    }
    for call in calls {
        let _ = call.await.unwrap();
    }
    assert_eq!(occupied(&gate), (0, 0));
    // What is gone from the level was sent; the rest of the bucket is there, whatever came back meanwhile.
    let spent = 6_000.0 - level(&gate, QuotaUnit::Requests);
    let sent = u32::try_from(origin.count()).unwrap();
    assert!(sent > 100 && spent <= f64::from(sent) + 1e-6, "{spent} of {sent}");
    tokio::time::sleep(ms(60_000)).await;
    assert!((level(&gate, QuotaUnit::Requests) - 6_000.0).abs() < 1e-6);
}

async fn a_level_refills_after_contention(record: &Incident) {
    let (gate, admission) = gated(Limits::new().requests_per_minute(60));
    let origin = Origin::always(Answer::ok);
    let client = origin.behind(admission.build().unwrap());
    let calls: Vec<_> =
        (0..500).map(|_| tokio::spawn(get(&client, record).with_extension(budget(2_500)).send())).collect();
    for call in calls {
        let _ = call.await.unwrap();
    }
    assert_eq!(origin.count(), 62, "the bucket, and one for each second of the budget");
    tokio::time::sleep(ms(10_000)).await;
    assert!(level(&gate, QuotaUnit::Requests) >= 10.0);
    let start = Instant::now();
    for _ in 0..10 {
        ok(get(&client, record).with_extension(budget(0))).await;
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

async fn calls_that_back_off_hold_no_permit(record: &Incident) {
    let (gate, _) = gated(Limits::new().concurrency(128));
    let admission = Admission::builder().gate(gate.clone()).draws(|| 0.999).scope_by(|_| scope());
    let incident = record.clone();
    let origin = Origin::new(move |_, request| match request.method().as_str() {
        "GET" => answer(&incident),
        _ => Answer::ok(),
    });
    let client = origin.behind(admission.build().unwrap());
    let calls: Vec<_> = (0..128).map(|_| tokio::spawn(get(&client, record).send())).collect();
    settle().await;
    assert_eq!((origin.count(), occupied(&gate)), (128, (0, 0)));
    for _ in 0..128 {
        let start = Instant::now();
        ok(client.post(url(record)).with_extension(budget(0))).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
    calls.iter().for_each(JoinHandle::abort);
}

async fn a_call_above_a_second_s_worth_goes_at_once(record: &Incident) {
    let (_, admission) = gated(Limits::new().tokens_per_minute(40_000));
    let origin = Origin::always(Answer::ok);
    let client = origin.behind(admission.build().unwrap());
    let start = Instant::now();
    for tokens in [800, 20_000, 19_200] {
        ok(get(&client, record).with_extension(TokenEstimate::new(tokens, 0))).await;
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    // What is larger than the whole bucket goes alone, when it is full.
    let huge = get(&client, record).with_extension(TokenEstimate::new(100_000, 0));
    ok(huge.with_extension(budget(61_000))).await;
    assert_eq!(start.elapsed(), ms(60_000));
}

async fn a_refused_reservation_takes_nothing(record: &Incident) {
    let (gate, admission) = gated(Limits::new().tokens_per_minute(1_000).requests_per_minute(1_000));
    let origin = Origin::always(Answer::ok);
    let client = origin.behind(admission.build().unwrap());
    ok(get(&client, record).with_extension(TokenEstimate::new(900, 0))).await;
    let levels = || (level(&gate, QuotaUnit::Tokens), level(&gate, QuotaUnit::Requests), occupied(&gate));
    let before = levels();
    for _ in 0..1_000 {
        let call = get(&client, record).with_extension(TokenEstimate::new(200, 0));
        let outcome = call.with_extension(budget(10)).send().await;
        assert_eq!(SpillOver::of(&outcome).unwrap().reason(), Reason::BudgetExceeded);
    }
    assert_eq!((levels(), origin.count()), (before, 1));
}

async fn a_call_that_cannot_be_estimated_blocks_nobody(record: &Incident) {
    let (gate, admission) = gated(Limits::new().tokens_per_minute(6_000));
    #[cfg(feature = "estimate")]
    let admission = admission.estimator(reqwest_admission::estimate::BodyEstimator::default());
    let origin = Origin::always(Answer::ok);
    let client = origin.behind(admission.build().unwrap());
    let start = Instant::now();
    // First nothing is known of any call, then an odd one counts as an average one.
    for average in [0.0, 500.0] {
        let before = if average > 0.0 {
            ok(get(&client, record).with_extension(TokenEstimate::new(500, 0))).await;
            level(&gate, QuotaUnit::Tokens)
        } else {
            6_000.0
        };
        ok(client.post(url(record)).body("{\"messages\": [[[ odd \u{1}")).await;
        assert!((before - level(&gate, QuotaUnit::Tokens) - average).abs() < 1e-6);
        ok(get(&client, record).with_extension(TokenEstimate::new(500, 0))).await;
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

async fn usage_is_settled_in_both_directions(record: &Incident) {
    assert!(record.body.as_deref().unwrap().contains("900"));
    for (actual, difference) in [(900, -400.0), (100, 400.0)] {
        for during in [true, false] {
            let (gate, admission) = gated(Limits::new().tokens_per_minute(6_000));
            let origin = always(record);
            let client = origin.behind(admission.build().unwrap());
            let report = CallReport::new();
            assert!(!report.settle(TokenUsage::new(1, 1)), "nobody to tell yet");
            let call = get(&client, record).with_extension(TokenEstimate::new(300, 200));
            let mut response = Some(call.with_extension(report.clone()).send().await.unwrap());
            let before = level(&gate, QuotaUnit::Tokens);
            if !during {
                response.take().unwrap().bytes().await.unwrap();
                assert_eq!(occupied(&gate), (0, 0));
            }
            let start = Instant::now();
            assert!(report.settle(TokenUsage::new(actual - 50, 50)));
            assert_eq!(start.elapsed(), Duration::ZERO);
            let after = level(&gate, QuotaUnit::Tokens);
            assert!((after - before - difference).abs() < 0.01 || after >= 5_999.0, "{before} {after}");
            assert_eq!(difference < 0.0, after < before, "{before} {after}");
        }
    }
}

/// The times at which ten patient calls are sent after one that gets the record's answer.
async fn times_after(record: &Incident) -> Vec<Duration> {
    let (_, admission) = gated(Limits::new());
    let origin = Origin::in_order([answer(record)]);
    let client = origin.behind(admission.build().unwrap());
    let start = Instant::now();
    let response = get(&client, record).send().await.unwrap();
    assert_eq!((response.status(), start.elapsed()), (http::StatusCode::OK, Duration::ZERO));
    assert_eq!(response.text().await.unwrap(), record.body.clone().unwrap_or_default());
    let calls = (0..10)
        .map(|n| {
            let method = if n % 2 == 0 { http::Method::POST } else { http::Method::GET };
            let call = client.request(method, url(record));
            tokio::spawn(call.with_extension(budget(300_000)).send())
        })
        .collect();
    all(calls).await;
    origin.times(start).split_off(1)
}

/// A call that has less time than the hold is given back at once, unsent.
async fn spills_at_once(record: &Incident, hold: Duration) {
    let (_, admission) = gated(Limits::new());
    let origin = Origin::in_order([answer(record)]);
    let client = origin.behind(admission.build().unwrap());
    ok(get(&client, record)).await;
    let start = Instant::now();
    let outcome = get(&client, record).with_extension(LatencyBudget::new(hold - ms(100))).send().await;
    let spill = SpillOver::of(&outcome).unwrap();
    assert_eq!((start.elapsed(), origin.count()), (Duration::ZERO, 1));
    assert_eq!((spill.reason(), spill.attempts()), (Reason::BudgetExceeded, 0));
    let advised = spill.advised_wait().unwrap();
    assert!(advised + ms(1) >= hold && advised <= hold + ms(2_000), "{advised:?}");
    assert_eq!(spill.take_request().unwrap().url().as_str(), url(record));
}

async fn a_spent_window_without_a_limit_holds_the_next_call(record: &Incident) {
    let sent = times_after(record).await;
    assert!(sent.iter().all(|sent| *sent >= ms(40_000) && *sent <= ms(45_000)), "{sent:?}");
    spills_at_once(record, ms(40_000)).await;
}

async fn a_spent_window_holds_the_next_call_and_leaves_the_success_alone(record: &Incident) {
    let sent = times_after(record).await;
    assert!(sent.iter().all(|sent| *sent >= ms(5_000) && *sent <= ms(10_000)), "{sent:?}");
    spills_at_once(record, ms(5_000)).await;
}

async fn no_more_is_sent_than_remains(record: &Incident) {
    // As recorded no reset is stated: the hold is the short default.
    let sent = times_after(record).await;
    assert!(sent.iter().filter(|sent| **sent < ms(1_000)).count() <= 3, "{sent:?}");
    // With a reset: three, and then none before it; afterwards the server says more and more is sent.
    let mut stated = record.clone();
    stated.headers.push(("x-ratelimit-reset".into(), "30".into()));
    let sent = times_after(&stated).await;
    assert_eq!(sent.iter().filter(|sent| **sent < ms(30_000)).count(), 3, "{sent:?}");
    assert!(sent.iter().all(|sent| *sent <= ms(60_000)), "{sent:?}");
}

async fn a_spent_window_without_a_reset_holds_the_next_call_shortly(record: &Incident) {
    let sent = times_after(record).await;
    assert!(sent.iter().all(|sent| *sent >= ms(1_000) && *sent <= ms(2_000)), "{sent:?}");
    spills_at_once(record, ms(1_000)).await;
}

async fn a_reset_counts_more_than_a_limit(record: &Incident) {
    let sent = times_after(record).await;
    assert!(sent.iter().all(|sent| *sent >= ms(60_000)), "{sent:?}");
    spills_at_once(record, ms(60_000)).await;
}

async fn a_refusal_inside_of_a_stream_can_be_told_to_the_gate(record: &Incident) {
    let (gate, admission) = gated(Limits::new());
    let origin = always(record);
    let client = origin.behind(admission.build().unwrap());
    let start = Instant::now();
    let response = get(&client, record).send().await.unwrap();
    let text = response.text().await.unwrap();
    // The crate does not look into streams of successes, and repeats nothing behind the caller's back.
    assert!(text.contains("overloaded_error"));
    assert_eq!(origin.count(), 1);
    gate.close(&scope(), ms(5_000), Instant::now().into_std());
    let outcome = get(&client, record).with_extension(budget(1_000)).send().await;
    assert!(SpillOver::of(&outcome).unwrap().advised_wait().unwrap() > ms(4_900));
    ok(get(&client, record)).await;
    assert!(origin.times(start)[1] >= ms(5_000) && origin.count() == 2);
}

async fn only_a_clean_end_gives_credit(record: &Incident) {
    let limit = |gate: &Gate| state(gate).concurrency_learned.unwrap();
    for clean in [true, false] {
        let (gate, admission) = gated(Limits::new());
        let record = record.clone();
        let origin = Origin::new({
            let record = record.clone();
            move |n, _| {
                if n == 3 {
                    // "Too many at once", with four in flight.
                    let busy = Answer::status(429).header("retry-after-ms", "100");
                    return busy
                        .header("ratelimit-policy", "\"a\";q=4;qu=\"concurrent-requests\"")
                        .header("ratelimit", "\"a\";r=0");
                }
                let text = record.body.clone().unwrap();
                let last = if clean { data("\n\n") } else { Piece::Hang };
                answer(&record).body(Frames::body([data(text), last]))
            }
        });
        let client = origin.behind(admission.build().unwrap());
        let mut open = Vec::new();
        for _ in 0..3 {
            open.push(get(&client, &record).send().await.unwrap());
        }
        let _ = get(&client, &record).with_extension(budget(0)).send().await;
        let learned = limit(&gate);
        assert_eq!(learned, 3);
        open.clear();
        for _ in 0..10 {
            let mut streams = Vec::new();
            for _ in 0..3 {
                streams.push(get(&client, &record).send().await.unwrap());
            }
            for mut stream in streams {
                assert!(stream.chunk().await.unwrap().is_some());
                if clean {
                    while stream.chunk().await.unwrap().is_some() {}
                }
            }
        }
        let grown = state(&gate).concurrency_learned.is_none_or(|limit| limit > learned);
        assert_eq!(grown, clean, "{:?}", state(&gate));
    }
}

/// A server that takes ten calls a second, and five at once, and refuses the others with the exact wait.
pub(super) async fn a_herd_is_spread() {
    let mut line = Instant::now();
    let origin = Origin::new(move |_, _| {
        let now = Instant::now();
        line = line.max(now);
        let ahead = line - now;
        if ahead >= ms(500) {
            let wait = (ahead - ms(400)).as_millis().to_string();
            return Answer::status(429).header("retry-after-ms", &wait).after(ms(20));
        }
        line += ms(100);
        Answer::ok().after(ms(20))
    });
    let (_, admission) = gated(Limits::new());
    let client = origin.behind(admission.build().unwrap());
    let start = Instant::now();
    let callers: Vec<_> = (0..64)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..5 {
                    let call = client.get("http://api.example/").with_extension(budget(120_000));
                    assert_eq!(call.send().await.unwrap().status(), 200);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let refused = origin.count() - 320;
    // The first burst cannot be foreseen; of everything after it hardly anything is refused.
    assert!(refused <= 64 + 16, "{refused} refusals");
    assert!(start.elapsed() <= ms(36_000), "{:?} for 31.5 s of work", start.elapsed());
    let sent = origin.times(start);
    let later: Vec<_> = sent.iter().filter(|sent| **sent > ms(3_000)).collect();
    let busiest = later
        .iter()
        .map(|at| later.iter().filter(|sent| ***sent >= **at && ***sent < **at + ms(500)).count());
    assert!(busiest.max().unwrap() <= 10, "a herd");
}

/// Calls of a lower class get on under a steady load of the higher one.
pub(super) async fn nobody_starves() {
    let (_, admission) = gated(Limits::new().requests_per_minute(60));
    let origin = Origin::always(Answer::ok);
    let client = origin.behind(admission.build().unwrap());
    let call = |priority, left| {
        client.get("http://api.example/").with_extension(priority).with_extension(budget(left)).send()
    };
    for _ in 0..60 {
        call(Priority::High, 0).await.unwrap();
    }
    let start = Instant::now();
    let normal = tokio::spawn(call(Priority::Normal, 60_000));
    settle().await;
    // Two urgent calls a second for one that can be served.
    let urgent = async {
        for _ in 0..60 {
            drop(tokio::spawn(call(Priority::High, 20_000)));
            tokio::time::sleep(ms(500)).await;
        }
    };
    let served = async {
        assert_eq!(normal.await.unwrap().unwrap().status(), 200);
        start.elapsed()
    };
    let ((), served) = tokio::join!(urgent, served);
    assert!(served >= ms(10_000) && served <= ms(12_000), "{served:?}");
}
