//! The figures that the middleware has to reach.

use crate::model::{Figures, Scenario};
use crate::report::Row;
use crate::strategy::Strategy;

/// One figure against its target.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) case: String,
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) target: f64,
    at_least: bool,
    noise: f64,
}

impl Check {
    pub(crate) fn is_met(&self) -> bool {
        if self.at_least { self.value >= self.target } else { self.value <= self.target }
    }

    /// Whether chance alone hardly explains the miss: two standard errors.
    pub(crate) fn is_missed(&self) -> bool {
        !self.is_met() && (self.value - self.target).abs() > 2.0 * self.noise
    }
}

type Figure = fn(&Figures) -> f64;
const GOODPUT: Figure = |figures| figures.goodput;
const REJECTIONS: Figure = |figures| figures.rejections_per_success;
const P99: Figure = |figures| figures.p99;
const FAILED: Figure = |figures| figures.failed;
const PEAK: Figure = |figures| figures.peak;
const REFUSAL: Figure = |figures| figures.refusal;
const MAKESPAN: Figure = |figures| figures.makespan;

/// All targets that `rows` can be held against.
pub(crate) fn checks(rows: &[Row]) -> Vec<Check> {
    let ours = rows.iter().filter(|row| row.strategy == Strategy::Admission);
    ours.flat_map(|row| {
        let oracle = rows
            .iter()
            .find(|other| other.strategy == Strategy::Oracle && other.title() == row.title())
            .map(|oracle| oracle.figures);
        checks_of(row, oracle)
    })
    .collect()
}

/// The 429s per success that a bucket of this size allows.
fn allowed(row: &Row, eight: f64, many: f64, hundreds: f64) -> f64 {
    match row.scenario.callers {
        _ if row.small_quota => 0.02,
        0..=8 => eight,
        9..=64 => many,
        _ => hundreds,
    }
}

fn checks_of(row: &Row, oracle: Option<Figures>) -> Vec<Check> {
    let Scenario { callers, processes, .. } = row.scenario;
    let check = |what, figure: Figure, at_least, target| Check {
        case: row.title(),
        what,
        value: figure(&row.figures),
        target,
        at_least,
        noise: row.noise(figure),
    };
    let least = |what, figure, target| check(what, figure, true, target);
    let most = |what, figure, target| check(what, figure, false, target);
    let goodput = |target| least("goodput", GOODPUT, target);
    let rejections = |target| most("429s per success", REJECTIONS, target);
    // Without the bound there is nothing to be held against.
    let bound = |bound: fn(Figures) -> f64, otherwise| oracle.map_or(otherwise, bound);
    let p99 = || bound(|oracle| 1.10 * oracle.p99 + 0.4, f64::MAX);
    let none_failed = || most("failed", FAILED, 0.0);
    match row.scenario_name {
        "ptu" if processes > 1 => {
            vec![rejections(0.02), most("p99 s", P99, 12.0), none_failed()]
        }
        "ptu" => vec![
            goodput(bound(|oracle| 0.985 * oracle.goodput, 0.0)),
            most("p99 s", P99, p99()),
            most("failed", FAILED, bound(|oracle| oracle.failed + 0.005, 1.0)),
            rejections(allowed(row, 0.03, 0.01, 0.003)),
            most("peak 429s in a second", PEAK, 5.0),
        ],
        "batch" => vec![
            most("makespan s", MAKESPAN, bound(|oracle| 1.01 * oracle.makespan, f64::MAX)),
            none_failed(),
            // Hundreds at once into a small bucket: the opening burst cannot be helped.
            rejections(if row.small_quota { 0.2 } else { allowed(row, 0.08, 0.02, 0.01) }),
        ],
        "costly-rejections" => vec![goodput(if row.scenario.rejection_cost < 0.5 { 0.98 } else { 0.97 })],
        "coarse-advice" | "missing-advice" => vec![goodput(0.96), rejections(0.03)],
        "capacity-step" if callers >= 64 => vec![goodput(0.96)],
        "capacity-step" => vec![goodput(if row.scenario.step < 1.0 { 0.95 } else { 0.90 })],
        "header-server" if processes > 1 => vec![rejections(0.02), most("p99 s", P99, 12.0)],
        "header-server" => vec![rejections(0.003), most("p99 s", P99, p99())],
        "short-budget" if row.scenario.budget <= 0.5 => vec![most("s until refused", REFUSAL, 0.020)],
        "recorded" => {
            let (early, over) = row.replay.unwrap_or_default();
            let check = |what, value, target| Check {
                case: row.title(),
                what,
                value,
                target,
                at_least: false,
                noise: 0.0,
            };
            vec![check("sent early", early as f64, 0.0), check("median wait over advice", over, 0.10)]
        }
        _ => Vec::new(),
    }
}

/// The checks as a table; returns how many are missed by more than chance.
pub(crate) fn print(checks: &[Check]) -> usize {
    println!("\n### Targets\n\n| case | figure | measured | target | |\n|---|---|---|---|---|");
    for check in checks {
        let Check { case, what, value, target, at_least, .. } = check;
        let sign = if *at_least { "≥" } else { "≤" };
        let verdict = match (check.is_met(), check.is_missed()) {
            (true, _) => "reached",
            (false, false) => "missed within the noise",
            (false, true) => "MISSED",
        };
        println!("| {case} | {what} | {value:.4} | {sign} {target:.4} | {verdict} |");
    }
    let reached = checks.iter().filter(|check| check.is_met()).count();
    println!("\n{reached} of {} targets reached.", checks.len());
    checks.iter().filter(|check| check.is_missed()).count()
}
