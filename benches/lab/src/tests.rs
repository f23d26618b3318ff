//! Tests of the lab itself (that it repeats, that it compares before it passes, that its journal goes on, what it takes
//! and prints), and figures of the middleware that are too many or too slow for `--check`.

mod args;
mod by_hand;
mod chance_at_limit;
mod checks;
mod gate_figures;
mod journal;
mod output;
mod server;
mod zoo;
mod zoo_recorded;
mod zoo_runs;

use crate::cases::{self, Case};
use crate::model::{Scenario, ServerKind};
use crate::report::Row;
use crate::strategy::Strategy;

/// A minute of eight callers at three times the capacity.
fn short(seed: u64) -> Case {
    let mut cases = cases::all(true).into_iter();
    let case = cases.find(|case| case.scenario.callers == 8).expect("a small case");
    let scenario = Scenario { warm_up: 10.0, seconds: 60.0, seed, load: 3.0, ..case.scenario };
    Case { scenario, ..case }
}

fn row(strategy: Strategy, seed: u64) -> String {
    row_of(short(seed), strategy)
}

fn row_of(case: Case, strategy: Strategy) -> String {
    Row::new(&case, strategy, vec![strategy.play(case.scenario).figures()]).json().to_string()
}

#[test]
fn the_same_seed_gives_the_same_rows_and_another_seed_others() {
    for strategy in Strategy::ALL.into_iter().filter(|strategy| !strategy.varies()) {
        assert_eq!(row(strategy, 1), row(strategy, 1), "{strategy}");
        assert_ne!(row(strategy, 1), row(strategy, 2), "{strategy}");
        // Several processes, headers and a tenant draw more.
        let of = |seed| {
            let case = short(seed);
            let scenario =
                Scenario { processes: 4, server: ServerKind::Headers, tenant: 0.3, ..case.scenario };
            row_of(Case { scenario, ..case }, strategy)
        };
        assert_eq!(of(1), of(1), "{strategy}");
        assert_ne!(of(1), of(2), "{strategy}");
    }
}

#[test]
fn one_strategy_alone_varies_and_says_so() {
    let varying: Vec<_> = Strategy::ALL.into_iter().filter(|strategy| strategy.varies()).collect();
    assert_eq!(varying, [Strategy::ReqwestRetry]);
    assert!(row(Strategy::ReqwestRetry, 1).contains(r#""varies":true"#));
    assert_ne!(row(Strategy::ReqwestRetry, 1), row(Strategy::ReqwestRetry, 1), "then it need not be marked");
}

#[test]
fn the_recorded_waits_repeat() {
    for strategy in [Strategy::Oracle, Strategy::Admission, Strategy::Fixed, Strategy::Aws] {
        let row = |seed| Row::replayed(strategy, &crate::recorded::replay(strategy, seed)).json();
        assert_eq!(row(1), row(1), "{strategy}");
    }
}
