//! Several processes with one limit and no store between them.

use super::cell::{Cell, Goal};
use super::dialect::{Advice, Dialect, Voice};
use super::limit::{Limit, Start};
use super::runs::Played;
use super::server::Spec;
use crate::strategy::Strategy;
use crate::targets::Check;

/// How much worse than a shared cool-down a fleet may be that nothing is promised for: chance.
const CHANCE: f64 = 0.02;

/// Processes and callers in all.
const SIZES: [(usize, usize); 3] = [(3, 24), (8, 64), (16, 64)];

/// Buckets and windows, for which there are targets; the processes are told of each other, or not.
pub(crate) fn promised() -> Vec<Cell> {
    let bucket = || Limit::Bucket { rate: 20.0, burst: 40.0, delays: false };
    let window = || Limit::Window { most: 100.0, seconds: 5.0, start: Start::Aligned(1.3) };
    let mut cells = Vec::new();
    for is_told in [true, false] {
        for (name, limit, advice) in [
            ("leaky 20/s of 40, exact advice", bucket(), Advice::Milliseconds),
            ("leaky 20/s of 40, no advice", bucket(), Advice::Nothing),
            ("window 100 in 5 s, whole seconds", window(), Advice::Up),
            ("window 100 in 5 s, no advice", window(), Advice::Nothing),
        ] {
            for (processes, callers) in SIZES {
                cells.push(Cell { is_told, processes, callers, ..of(name, limit.clone(), advice, is_told) });
            }
        }
    }
    cells
}

/// Those that are measured and told, and must not be worse than a shared cool-down alone.
pub(crate) fn measured() -> Vec<Cell> {
    let bucket = |burst| Limit::Bucket { rate: 20.0, burst, delays: false };
    let mut cells = Vec::new();
    for is_told in [true, false] {
        for (name, limit, advice, processes) in [
            ("leaky 20/s of 40, exact advice", bucket(40.0), Advice::Milliseconds, 64),
            ("leaky 20/s of 40, no advice", bucket(40.0), Advice::Nothing, 64),
            ("nginx 20/s, no burst", bucket(1.0), Advice::Nothing, 8),
            ("nginx 20/s, no burst", bucket(1.0), Advice::Nothing, 64),
            ("16 at once", Limit::InFlight { most: 16 }, Advice::Nothing, 8),
            ("16 at once", Limit::InFlight { most: 16 }, Advice::Nothing, 64),
        ] {
            cells.push(Cell { is_told, processes, callers: 64, ..of(name, limit, advice, is_told) });
        }
    }
    cells
}

fn of(name: &str, limit: Limit, advice: Advice, is_told: bool) -> Cell {
    let spec = Spec::new(limit, Voice::new(Dialect::Silent, advice));
    let name = format!("{name}{}", if is_told { ", told of each other" } else { "" });
    Cell { warm_up: 120.0, budget: 60.0, ..Cell::new("fleets without a store", name, spec, Goal::ADVISED) }
}

/// Jain's index of what the processes got done: 1 for equal shares, 1 / n where one has it all.
pub(crate) fn jain(played: &Played, seed: usize) -> f64 {
    let shares = &played.runs[seed].of_process;
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares > 0.0 { sum * sum / squares / shares.len() as f64 } else { 0.0 }
}

/// The targets of those for which there are any, and the others beside a cool-down.
pub(crate) fn checks(promised: &[Played], measured: &[Played], is_quick: bool) -> Vec<Check> {
    let Some(seeds) = promised.first().map(|it| it.runs.len()) else { return Vec::new() };
    let lowest = |is_told: bool, of: fn(&Played, usize) -> f64| {
        let cells = || promised.iter().filter(move |it| it.cell.is_told == is_told);
        (0..seeds)
            .map(|seed| cells().map(|it| of(it, seed)).fold(f64::INFINITY, f64::min))
            .collect::<Vec<f64>>()
    };
    let highest = |is_told: bool| {
        let cells = || promised.iter().filter(move |it| it.cell.is_told == is_told);
        (0..seeds).map(|seed| cells().map(|it| it.refused_of(seed)).fold(0.0, f64::max)).collect::<Vec<f64>>()
    };
    let check =
        |case: &str, what, values: &[f64], target| Check::of_seeds(case, what, values, target, is_quick);
    let (told, untold) = ("fleet told of itself", "fleet not told of itself");
    let mut checks = vec![
        check(told, "lowest goodput", &lowest(true, Played::goodput_of), (true, 0.95)),
        check(told, "429s per success", &highest(true), (false, 0.05)),
        check(told, "lowest Jain index", &lowest(true, jain), (true, 0.8)),
        check(untold, "lowest goodput", &lowest(false, Played::goodput_of), (true, 0.9)),
        check(untold, "429s per success", &highest(false), (false, 0.2)),
    ];
    let beside = |of: fn(&Played) -> f64, sign: f64| {
        let ours = measured.iter().filter(|it| it.strategy == Strategy::Admission);
        let worse = |it: &Played| {
            let is_its = |other: &&Played| {
                other.strategy == Strategy::CoolDown && other.cell.title() == it.cell.title()
            };
            measured.iter().find(is_its).map(|other| sign * (of(it) - of(other)))
        };
        ours.filter_map(worse).fold(0.0, f64::max)
    };
    let case = "fleets beside a cool-down alone";
    checks.push(check(case, "goodput lost", &[beside(Played::goodput, -1.0)], (false, CHANCE)));
    checks.push(check(case, "429s per success more", &[beside(Played::refused, 1.0)], (false, CHANCE)));
    checks
}
