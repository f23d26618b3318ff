//! What runs of the zoo repeat, count and conclude.

use crate::args::Args;
use crate::strategy::Strategy;
use crate::targets::{Check, Verdict};
use crate::zoo::cell::{Cell, Goal};
use crate::zoo::dialect::{Advice, Dialect, Voice};
use crate::zoo::limit::Limit;
use crate::zoo::runs::Played;
use crate::zoo::server::{Banned, Rule, Spec};
use crate::zoo::world::{Outcome, play};
use crate::zoo::{changes, fleets, scale};

fn cell(limit: Limit, advice: Advice) -> Cell {
    let spec = Spec::new(limit, Voice::new(Dialect::Silent, advice));
    Cell { warm_up: 5.0, seconds: 20.0, ..Cell::new("a family", "a cell", spec, Goal::ADVISED) }
}

fn played(cell: Cell, runs: Vec<Outcome>, allowed: f64) -> Played {
    let allowed = vec![allowed; runs.len()];
    Played { cell, round_trip: 0.002, strategy: Strategy::Admission, runs, allowed }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let cell = cell(Limit::Bucket { rate: 20.0, burst: 40.0, delays: false }, Advice::Milliseconds);
    let cell = Cell { varies: true, ..cell };
    for strategy in [Strategy::Admission, Strategy::NoGate, Strategy::CoolDown] {
        let run = |seed| play(&cell, 0.1, strategy, seed).by_second;
        assert_eq!(run(1), run(1), "{strategy}");
        assert_ne!(run(1), run(2), "{strategy}");
    }
}

#[test]
fn without_a_limit_everybody_gets_what_they_can_do() {
    let cell = cell(Limit::Chance { share: 0.0 }, Advice::Nothing);
    for strategy in Strategy::ZOO {
        for round_trip in [0.002, 0.1] {
            let Outcome { done, refused, given_up, early, .. } = play(&cell, round_trip, strategy, 1);
            let share = done / cell.seconds / cell.demand(round_trip);
            assert!((0.98..1.02).contains(&share), "{strategy}: {share}");
            assert_eq!((refused, given_up, early), (0, 0, 0), "{strategy}");
        }
    }
}

#[test]
fn who_comes_too_early_is_counted() {
    // It never reads what a refusal advises.
    let cell = cell(Limit::Closed, Advice::Seconds(30));
    let outcome = play(&Cell { callers: 1, ..cell.clone() }, 0.002, Strategy::ReqwestRetry, 1);
    assert!(outcome.early > 0 && outcome.successes == 0 && outcome.given_up > 0, "{outcome:?}");
    let outcome = play(&cell, 0.002, Strategy::Admission, 1);
    assert_eq!(outcome.early, 0);
}

#[test]
fn banned_callers_are_not_counted_among_those_who_are_held_back() {
    let mut cell = cell(Limit::Chance { share: 0.0 }, Advice::Nothing);
    cell.spec.banned = Some(Banned { callers: 1, advice: None });
    let outcome = play(&Cell { callers: 3, ..cell }, 0.002, Strategy::NoGate, 1);
    assert!(outcome.successes > 0 && (outcome.refused, outcome.given_up) == (0, 0), "{outcome:?}");
}

#[test]
fn a_refused_call_may_be_one_of_few() {
    let limit = Limit::Bucket { rate: 1.0, burst: 5.0, delays: false };
    let run =
        |successes, refused| Outcome { done: successes as f64, successes, refused, ..Outcome::default() };
    let runs = vec![run(99, 6), run(99, 7), run(200, 6), run(200, 12), run(90, 0)];
    let played = played(Cell { seconds: 100.0, ..cell(limit, Advice::Up) }, runs, 1.0);
    let met: Vec<bool> = (0..5).map(|seed| played.meets(seed)).collect();
    assert_eq!(met, [true, false, true, false, false], "six of few, .05 of many, nine tenths are not enough");
    assert!(!played.is_met());
}

#[test]
fn no_spread_makes_a_wide_miss_chance() {
    let verdict = |values: &[f64], target| Check::of_seeds("a", "b", values, target, false).verdict();
    assert_eq!(verdict(&[20.0, 140.0, 60.0], (false, 30.0)), Verdict::Missed);
    assert_eq!(verdict(&[30.0, 32.0, 33.0], (false, 30.0)), Verdict::WithinNoise);
    assert_eq!(verdict(&[0.5, 0.9, 1.0], (true, 0.95)), Verdict::Missed);
    assert_eq!(verdict(&[0.93, 0.95, 0.96], (true, 0.95)), Verdict::WithinNoise);
    assert_eq!(verdict(&[0.0, 0.0, 0.001], (false, 0.0)), Verdict::Missed, "nothing is nothing");
}

#[test]
fn a_change_is_over_when_nine_tenths_get_done_for_five_seconds() {
    let change = changes::all().into_iter().find(|change| change.name == "x 8").expect("a change");
    let mut by_second = vec![5.0; 241];
    by_second[112..].fill(37.0);
    let mut refused_by_second = vec![0; 241];
    refused_by_second[130] = 9;
    let run = Outcome { by_second, refused_by_second, ..Outcome::default() };
    let played = played(
        change.cell.clone(),
        vec![run, Outcome { by_second: vec![35.0; 241], ..Outcome::default() }],
        40.0,
    );
    assert_eq!(change.back_after(&played, 0), 12.0);
    assert_eq!(change.back_after(&played, 1), 140.0, "never");
    let done = 12.0 * 5.0 + 48.0 * 37.0;
    assert_eq!(change.refused_meanwhile(&played, 0), 9.0 / done);
}

#[test]
fn a_limit_that_is_changed_keeps_what_was_taken() {
    let bucket = |rate| Limit::Bucket { rate, burst: 10.0, delays: false };
    let taken = |rules: Vec<Rule>| {
        let spec = Spec { rules, voice: Voice::new(Dialect::Silent, Advice::Nothing), banned: None };
        let mut server = crate::zoo::server::Server::new(spec, 1, 0.0);
        let mut burst = |at: f64| (0..20).filter(|_| server.arrive(at, 0, 1.0).is_success()).count();
        (burst(0.9), burst(1.0))
    };
    let changed = Rule::between(1.0, 2.0, bucket(20.0));
    assert_eq!(taken(vec![Rule::between(0.0, 1.0, bucket(10.0)), changed.clone().then()]), (10, 2));
    assert_eq!(taken(vec![Rule::between(0.0, 1.0, bucket(10.0)), changed]), (10, 10));
}

#[test]
fn jains_index_is_one_for_equal_shares_and_a_share_of_one_for_him_who_has_it_all() {
    let cell = cell(Limit::Closed, Advice::Nothing);
    let runs = [vec![2.0; 4], vec![8.0, 0.0, 0.0, 0.0], vec![0.0; 4]]
        .map(|of_process| Outcome { of_process, ..Outcome::default() });
    let played = played(cell, runs.into(), 1.0);
    assert_eq!([0, 1, 2].map(|seed| fleets::jain(&played, seed)), [1.0, 0.25, 0.0]);
}

#[test]
fn many_scopes_are_many_hosts() {
    let cell = Cell { callers: 20, scopes: 300, ..cell(Limit::Chance { share: 0.0 }, Advice::Nothing) };
    let outcome = play(&cell, 0.002, Strategy::Admission, 1);
    assert!(outcome.successes > 1500 && outcome.given_up == 0, "{outcome:?}");
    let one = scale::microseconds(&cell, Strategy::NoGate, 1);
    assert!(one > 0.1, "{one} microseconds");
}

#[test]
fn the_command_line_takes_the_zoo() {
    let read = |line: &str| Args::read(line.split_whitespace().map(str::to_owned));
    let args = read("--zoo --quick --cells nginx --strategy no-gate --scenario changes").expect("the zoo");
    assert!(
        args.zoo && args.is_quick_asked && args.wants(Strategy::NoGate) && args.wants_scenario("changes")
    );
    assert!(!args.wants_scenario("zoo"));
    assert!(read("--hold-out").expect("the zoo").zoo);
    assert_eq!(read("--sweep BETA").expect("the zoo").sweep.as_deref(), Some("BETA"));
    assert_eq!(read("--without a --without b").expect("the zoo").without, ["a", "b"]);
    assert!(read("--servers --seconds 5").expect("servers").servers);
    assert!(read("--zoo --seconds 5").is_err());
    assert!(read("--sweep").is_err());
}
