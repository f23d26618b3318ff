//! What passes the check, and what does not.

use std::collections::HashSet;

use crate::cases;
use crate::model::Figures;
use crate::noise;
use crate::report::Row;
use crate::strategy::Strategy;
use crate::targets::{self, Verdict};

/// The rows of one case, as if its runs had come out so.
fn rows(title: &str, runs: &[(Strategy, Vec<Figures>)]) -> Vec<Row> {
    let case = cases::all(true).into_iter().find(|case| case.title() == title).expect("a case");
    runs.iter().map(|(strategy, runs)| Row::new(&case, *strategy, runs.clone())).collect()
}

fn verdict(rows: &[Row], what: &str) -> Verdict {
    let checks = targets::checks(rows, true);
    checks.iter().find(|check| check.what == what).expect("a check").verdict()
}

const CASE: &str = "ptu, 64 callers, 32000 tokens/s, 3x";

fn figures(goodput: f64, p99: f64) -> Vec<Figures> {
    vec![Figures { goodput, p99, ..Figures::default() }; 2]
}

#[test]
fn without_the_oracle_nothing_relative_is_compared_and_the_check_fails() {
    let rows = rows(CASE, &[(Strategy::Admission, figures(1.0, 1.0))]);
    assert_eq!(verdict(&rows, "p99 s"), Verdict::NotCompared);
    assert_eq!(verdict(&rows, "429s per success"), Verdict::Reached);
    let checks = targets::checks(&rows, true);
    assert!(targets::table(&checks).contains("| p99 s | 1.0000 | none |"));
    assert!(
        targets::complaints(&checks).iter().any(|complaint| complaint.ends_with("p99 s was not compared"))
    );
}

#[test]
fn nothing_at_all_does_not_pass() {
    let rows = rows(CASE, &[(Strategy::Oracle, figures(1.0, 1.0))]);
    assert_eq!(targets::complaints(&targets::checks(&rows, true)).len(), 1);
}

#[test]
fn a_miss_beyond_the_noise_fails() {
    let oracle = (Strategy::Oracle, figures(1.0, 3.0));
    let ours = |goodput, p99| rows(CASE, &[(Strategy::Admission, figures(goodput, p99)), oracle.clone()]);
    let tolerance = noise::tolerance(CASE, "p99 s", 2).expect("measured");
    for (p99, expected) in [
        (3.7, Verdict::Reached),
        (3.7 + 0.9 * tolerance, Verdict::WithinNoise),
        (3.7 + 1.1 * tolerance, Verdict::Missed),
    ] {
        assert_eq!(verdict(&ours(1.0, p99), "p99 s"), expected, "{p99}");
    }
    assert_eq!(verdict(&ours(0.9, 3.0), "goodput"), Verdict::Missed);
    assert_eq!(targets::complaints(&targets::checks(&ours(0.9, 3.0), true)).len(), 1);
}

#[test]
fn a_scenario_that_is_not_there_is_an_error() {
    assert_eq!(cases::known("batch".into()).as_deref(), Ok("batch"));
    assert!(cases::known("bath".into()).is_err_and(|problem| problem.contains("batch, costly-rejections")));
}

#[test]
fn every_target_of_a_quick_run_has_its_measured_noise_and_an_oracle() {
    let mut titles = HashSet::new();
    for case in cases::all(true) {
        assert!(titles.insert(case.title()), "{} is there twice", case.title());
        assert!(case.strategies().any(|strategy| strategy == Strategy::Oracle), "{}", case.title());
        let row = Row::new(&case, Strategy::Admission, vec![Figures::default()]);
        for check in targets::checks(&[row], true) {
            assert!(noise::tolerance(&check.case, check.what, 1).is_some(), "{}: {}", check.case, check.what);
        }
    }
}
