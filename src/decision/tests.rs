use std::time::SystemTime;

use http::{HeaderMap, StatusCode};
use proptest::prelude::*;

use super::*;
use crate::budget::LatencyBudget;
use crate::jitter::UpwardJitter;
use crate::policy::RetryBudgetPolicy;
use crate::policy::RetryCharge;
use crate::reading::HintKind;
use crate::reading::HintSource;

const MS: Duration = Duration::from_millis(1);

fn reading(status: u16, wait: Option<Duration>) -> Reading {
    let status = StatusCode::from_u16(status).unwrap();
    let mut reading = Reading::from_parts(status, &HeaderMap::new(), None, SystemTime::UNIX_EPOCH);
    reading.hint = wait.map(|wait| hint(wait, HintKind::RetryAfter));
    reading
}

fn hint(wait: Duration, kind: HintKind) -> Hint {
    Hint { wait, at: None, kind, source: HintSource::Header(http::header::RETRY_AFTER) }
}

fn call(at: Instant, budget: Duration) -> Call {
    Call::new(LatencyBudget::new(budget).deadline(at))
}

fn with(reading: &Reading, call: &Call, at: Instant, draw: f64) -> Decision {
    decide(&AdmissionPolicy::default(), Outcome::Response(reading), call, at, Draw::new(draw))
}

fn until(decision: &Decision, at: Instant) -> Duration {
    match decision {
        Decision::Wait { until, .. } => until.duration_since(at),
        other => panic!("{other:?}"),
    }
}

#[test]
fn law_1_jitter_only_adds_to_advice() {
    let at = Instant::now();
    let reading = reading(429, Some(3000 * MS));
    let call = call(at, 30_000 * MS);
    assert_eq!(until(&with(&reading, &call, at, 0.0), at), 3000 * MS);
    assert_eq!(until(&with(&reading, &call, at, 0.5), at), 3150 * MS);
    assert!(until(&with(&reading, &call, at, 1.0), at) <= 3300 * MS);
}

#[test]
fn law_2_the_whole_raw_wait_is_tested_inclusively_and_jitter_never_turns_the_decision() {
    let at = Instant::now();
    for (budget, fits) in [(60_000, true), (59_999, false), (60_001, true)] {
        for draw in [0.0, 0.5, 1.0] {
            let decision = with(&reading(429, Some(60_000 * MS)), &call(at, budget * MS), at, draw);
            if fits {
                let until = until(&decision, at);
                assert!(until >= 60_000 * MS && until <= budget * MS, "{decision:?}");
            } else {
                assert_eq!(decision, Decision::SpillOver(Reason::BudgetExceeded));
            }
        }
    }
}

#[test]
fn law_2_a_margin_for_window_resets_adds_what_still_fits() {
    let at = Instant::now();
    let mut reading = reading(429, None);
    reading.hint = Some(hint(1000 * MS, HintKind::WindowReset));
    assert_eq!(until(&with(&reading, &call(at, 5000 * MS), at, 0.0), at), 1250 * MS);
    assert_eq!(until(&with(&reading, &call(at, 1100 * MS), at, 0.0), at), 1050 * MS);
    assert_eq!(until(&with(&reading, &call(at, 1000 * MS), at, 0.0), at), 1000 * MS);
}

#[test]
fn law_2_a_deadline_that_has_passed_ends_the_call() {
    let at = Instant::now();
    for wait in [None, Some(Duration::ZERO), Some(MS)] {
        let decision = with(&reading(503, wait), &Call::new(at), at + 5 * MS, 0.0);
        assert_eq!(decision, Decision::SpillOver(Reason::BudgetExceeded));
    }
}

#[test]
fn law_3_missing_advice_backs_off_with_full_jitter_above_a_floor() {
    let at = Instant::now();
    let call = call(at, 30_000 * MS);
    let reading = reading(429, None);
    let waits = |draw| [1, 2, 3, 5].map(|n| until(&with(&reading, &call.attempts(n), at, draw), at));
    assert_eq!(waits(0.5), [250 * MS, 500 * MS, 1000 * MS, 4000 * MS]);
    assert_eq!(waits(0.0), [100 * MS; 4]);
}

#[test]
fn law_3_missing_advice_is_drawn_from_what_is_left_of_the_budget() {
    let at = Instant::now();
    for draw in [0.0, 0.5, 1.0] {
        assert!(until(&with(&reading(429, None), &call(at, 40 * MS), at, draw), at) <= 20 * MS);
    }
}

#[test]
fn law_3_advice_of_zero_is_raised_to_a_floor_that_doubles() {
    let at = Instant::now();
    let call = call(at, 30_000 * MS);
    let reading = reading(429, Some(Duration::ZERO));
    let waits = [1, 2, 3, 4].map(|n| until(&with(&reading, &call.attempts(n), at, 0.0), at));
    assert_eq!(waits, [100 * MS, 200 * MS, 400 * MS, 800 * MS]);
}

#[test]
fn law_3_a_documented_floor_stands_in_for_missing_advice_and_grows() {
    let at = Instant::now();
    let mut reading = reading(429, None);
    reading.backoff_floor = Some(60_000 * MS);
    assert_eq!(with(&reading, &call(at, 30_000 * MS), at, 0.5), Decision::SpillOver(Reason::BudgetExceeded));
    assert_eq!(until(&with(&reading, &call(at, 300_000 * MS), at, 0.0), at), 60_000 * MS);
    assert_eq!(until(&with(&reading, &call(at, 300_000 * MS).attempts(2), at, 0.0), at), 120_000 * MS);
}

#[test]
fn law_5_replay_follows_what_the_server_may_have_done() {
    let at = Instant::now();
    let base = call(at, 30_000 * MS);
    let post = base.idempotent(false);
    let waits = |decision: Decision| matches!(decision, Decision::Wait { .. });
    for (status, wait, get_repeats, post_repeats) in [
        (429, None, true, true),
        (429, Some(MS), true, true),
        (529, None, true, true),
        (503, Some(MS), true, true),
        (503, None, true, false),
        (500, None, true, false),
        (502, None, true, false),
        (504, None, true, false),
        (408, None, true, false),
        (501, None, false, false),
        (505, None, false, false),
        (400, None, false, false),
        (404, None, false, false),
        (200, None, false, false),
    ] {
        let reading = reading(status, wait);
        assert_eq!(waits(with(&reading, &base, at, 0.5)), get_repeats, "GET {status}");
        assert_eq!(waits(with(&reading, &post, at, 0.5)), post_repeats, "POST {status}");
    }
    let policy = AdmissionPolicy::default();
    for (failure, get_repeats, post_repeats) in
        [(Failure::Connect, true, true), (Failure::Unknown, true, false), (Failure::Permanent, false, false)]
    {
        let decide = |call| decide(&policy, Outcome::Failure(failure), call, at, Draw::ZERO);
        assert_eq!(waits(decide(&base)), get_repeats, "GET {failure:?}");
        assert_eq!(waits(decide(&post)), post_repeats, "POST {failure:?}");
    }
}

#[test]
fn law_5_a_body_that_cannot_be_sent_again_spills_a_refusal_and_hands_a_failure_on() {
    let at = Instant::now();
    let stream = call(at, 30_000 * MS).replayable(false);
    let spilled = Decision::SpillOver(Reason::BodyNotReplayable);
    assert_eq!(with(&reading(429, Some(MS)), &stream, at, 0.0), spilled);
    assert_eq!(with(&reading(500, None), &stream, at, 0.0), Decision::Admit);
}

#[test]
fn law_6_terminal_is_terminal() {
    let at = Instant::now();
    for (terminal, reason) in [
        (Terminal::QuotaExhausted, Reason::QuotaExhausted),
        (Terminal::ServerDirective, Reason::ServerDirective),
        (Terminal::RequestTooLarge, Reason::RequestTooLarge),
    ] {
        let mut reading = reading(429, Some(MS));
        reading.terminal = Some(terminal);
        assert_eq!(with(&reading, &call(at, 30_000 * MS), at, 0.0), Decision::SpillOver(reason));
        // Not a refusal for want of capacity: the response is the caller's.
        reading.throttled = false;
        assert_eq!(with(&reading, &call(at, 30_000 * MS), at, 0.0), Decision::Admit);
    }
}

#[test]
fn reasons_are_told_apart_and_failures_that_are_not_about_capacity_are_handed_on() {
    let at = Instant::now();
    let call = call(at, 30_000 * MS);
    let spent = call.retry_budget_open(false);
    let refused = reading(429, None);
    let failed = reading(500, None);
    let spill = Decision::SpillOver;
    assert_eq!(with(&refused, &call.attempts(6), at, 0.0), spill(Reason::AttemptsExhausted));
    assert_eq!(with(&refused, &spent, at, 0.0), spill(Reason::RetryBudgetSpent));
    assert_eq!(with(&failed, &call.attempts(6), at, 0.0), Decision::Admit);
    assert_eq!(with(&failed, &spent, at, 0.0), Decision::Admit);
    assert!(with(&failed, &call.attempts(5), at, 0.0) != Decision::Admit);
}

#[test]
fn an_invited_resend_is_charged_only_where_the_policy_says_so() {
    let at = Instant::now();
    let call = call(at, 30_000 * MS);
    let charged = |policy: &AdmissionPolicy, reading: &Reading| {
        matches!(
            decide(policy, Outcome::Response(reading), &call, at, Draw::ZERO),
            Decision::Wait { charged: true, .. }
        )
    };
    let default = AdmissionPolicy::default();
    let budget = RetryBudgetPolicy::default().charge(RetryCharge::All);
    let all = AdmissionPolicy::builder().retry_budget(budget).build().unwrap();
    assert!(!charged(&default, &reading(429, Some(MS))));
    assert!(charged(&default, &reading(429, Some(Duration::ZERO))));
    assert!(charged(&default, &reading(429, None)));
    assert!(charged(&all, &reading(429, Some(MS))));
}

proptest! {
    #[test]
    fn never_before_advice_and_never_past_the_deadline(
        status in prop_oneof![Just(429_u16), Just(503), Just(529), Just(500), Just(403)],
        wait in proptest::option::of(0_u64..10_000_000_000),
        budget in 0_u64..100_000,
        elapsed in 0_u64..100_000,
        attempts in any::<u32>(),
        draw in any::<f64>(),
        jitter in 0_u64..3_600_000,
        window in any::<bool>(),
    ) {
        let start = Instant::now();
        let at = start + Duration::from_millis(elapsed);
        let deadline = start + Duration::from_millis(budget);
        let policy = AdmissionPolicy::builder()
            .jitter(UpwardJitter::Uniform { up_to: Duration::from_millis(jitter) }).build().unwrap();
        let kind = if window { HintKind::WindowReset } else { HintKind::RetryAfter };
        let wait = wait.map(Duration::from_micros);
        let mut reading = reading(status, None);
        reading.hint = wait.filter(|_| reading.throttled).map(|wait| hint(wait, kind));
        let call = Call::new(deadline).attempts(attempts);
        let outcome = Outcome::Response(&reading);
        let decision = decide(&policy, outcome, &call, at, Draw::new(draw));
        if let Decision::Wait { until, hint, .. } = &decision {
            prop_assert!(*until <= deadline);
            prop_assert!(attempts < policy.max_attempts());
            if let Some(hint) = hint {
                prop_assert!(*until >= at + hint.wait());
            }
            prop_assert!(*until > at);
        }
        // No draw turns the decision.
        let other = decide(&policy, outcome, &call, at, Draw::ZERO);
        prop_assert_eq!(std::mem::discriminant(&decision), std::mem::discriminant(&other));
    }
}
