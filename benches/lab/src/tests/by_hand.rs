//! The model against cases that were reckoned by hand. The bucket drains 1000 tokens a second and holds 5000.

use std::time::Duration;

use tokio::time::{Instant, advance};

use crate::model::{Advice, Answer, Scenario, Server, ServerKind, Stated};
use crate::strategy::Strategy;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn base() -> Scenario {
    Scenario { warm_up: 0.0, seconds: 1e6, ..Scenario::ptu(1, 1000.0, 1.0, 1) }
}

fn server(scenario: Scenario) -> Server {
    Server::new(scenario, Instant::now())
}

const TAKEN: Answer = Answer::Taken(None);

fn refused(millis: u64) -> Answer {
    Answer::Refused(Some(ms(millis)))
}

#[tokio::test(start_paused = true)]
async fn a_call_is_taken_below_the_line_and_told_the_time_to_it_above() {
    let mut server = server(base());
    assert_eq!(server.arrive(3000.0), TAKEN);
    assert_eq!(server.arrive(2500.0), TAKEN, "3000 is below 5000, whatever is added");
    assert_eq!(server.arrive(100.0), refused(501), "500 above the line are half a second");
    advance(ms(500)).await;
    assert_eq!(server.arrive(100.0), refused(1), "on the line is not below it");
    advance(ms(1)).await;
    assert_eq!(server.arrive(100.0), TAKEN);
    assert_eq!(server.arrive(100.0), refused(100), "4999 and 100 are 99 above");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_charged_moves_the_line_away() {
    let mut server = server(Scenario { rejection_cost: 0.1, ..base() });
    assert_eq!(server.arrive(5500.0), TAKEN);
    assert_eq!(server.arrive(1000.0), refused(501));
    assert_eq!(server.arrive(1000.0), refused(601));
}

#[tokio::test(start_paused = true)]
async fn advice_is_rounded_up_to_seconds_or_missing() {
    for (advice, expected) in
        [(Advice::WholeSeconds, refused(1000)), (Advice::Missing, Answer::Refused(None))]
    {
        let mut server = server(Scenario { advice, ..base() });
        assert_eq!(server.arrive(5500.0), TAKEN);
        assert_eq!(server.arrive(1.0), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_capacity_that_is_halved_drains_half_as_fast() {
    let mut server = server(Scenario { step: 0.5, seconds: 3.0, ..base() });
    assert_eq!(server.arrive(7000.0), TAKEN);
    advance(ms(2000)).await;
    assert_eq!(
        server.arrive(1.0),
        refused(501),
        "1000 in the first second, 500 in the second; again 1000 a second"
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_set_aside_too_much_comes_back_at_the_end() {
    let mut server = server(Scenario { reserve: 1.5, ..base() });
    assert_eq!(server.arrive(4000.0), TAKEN);
    assert_eq!(server.arrive(1.0), refused(1001), "6000 are set aside");
    advance(ms(1100)).await;
    assert_eq!(server.arrive(2000.0), TAKEN, "2000 came back after 0.3 s and 4000 / 5000 s");
    assert_eq!(server.arrive(1.0), refused(901), "6000 - 1100 - 2000 + 3000");
    advance(ms(700)).await;
    assert_eq!(server.arrive(1.0), TAKEN, "700 less, and 1000 came back");
}

#[tokio::test(start_paused = true)]
async fn a_token_bucket_wants_the_whole_cost_and_states_what_is_left() {
    let mut server = server(Scenario { server: ServerKind::Headers, ..base() });
    let stated =
        |remaining, reset| Answer::Taken(Some(Stated { limit: 60_000, remaining, reset: ms(reset) }));
    assert_eq!(server.arrive(45_000.0), stated(15_000, 45_000));
    assert_eq!(server.arrive(20_000.0), refused(5001));
    assert_eq!(server.arrive(15_000.0), stated(0, 60_000));
}

#[tokio::test(start_paused = true)]
async fn the_oracle_sends_at_the_first_millisecond_that_will_do() {
    let mut server = server(base());
    let is = |planned: Option<f64>, expected: f64| planned.is_some_and(|at| (at - expected).abs() < 1e-9);
    assert!(is(server.plan(3000.0, 60.0), 0.0));
    assert!(is(server.plan(2500.0, 60.0), 0.001), "no two in one millisecond");
    assert_eq!(server.plan(100.0, 0.4), None, "5499 have to drain below 5000");
    assert!(is(server.plan(100.0, 60.0), 0.501));
}

#[test]
fn a_fixed_wait_is_refused_as_often_as_theory_says() {
    let scenario = Scenario::ptu(8, 4_000.0, 3.0, 1);
    let theory = 8.0 * (1.0 - 1.0 / 3.0) / ((1.0 + 0.05) * 2.0);
    let figures = Strategy::Fixed.play(scenario).figures();
    assert!((figures.rejections_per_success / theory - 1.0).abs() < 0.03, "{theory}: {figures:?}");
}

#[test]
fn the_oracle_is_never_refused_and_waits_as_long_as_theory_says() {
    let base = Scenario { warm_up: 100.0, seconds: 300.0, ..Scenario::ptu(64, 32_000.0, 3.0, 1) };
    for scenario in [base, Scenario { tenant: 0.3, ..base }, Scenario { reserve: 1.5, ..base }] {
        assert_eq!(Strategy::Oracle.play(scenario).figures().rejections_per_success, 0.0, "{scenario:?}");
    }
    let latencies = Strategy::Oracle.play(base).latencies();
    let mean = latencies.iter().sum::<f64>() / latencies.len() as f64;
    let theory = 64.0 * 2000.0 / 32_000.0 * (1.0 - 1.0 / 3.0);
    assert!((mean / theory - 1.0).abs() < 0.03, "{mean} s, {theory} s");
}
