//! The figures that the middleware has to reach.

use std::fmt::Write as _;

use crate::cases::RECORDED;
use crate::model::{Figures, Scenario};
use crate::noise;
use crate::report::Row;
use crate::strategy::Strategy;

/// One figure against its target.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) case: String,
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    /// None where the target is relative to a row that was not played.
    pub(crate) target: Option<f64>,
    at_least: bool,
    /// For each seed, by how much the target is reached; negative where it is missed.
    pub(crate) margins: Vec<f64>,
    /// What two standard errors are, where that was measured.
    measured: Option<f64>,
    /// What is never taken for chance, however much a figure varies.
    most_noise: f64,
}

/// The largest shares of a target of the zoo that may be missed by chance, where it is one to reach and one to keep below.
const MOST_NOISE_OF_LEAST: f64 = 0.02;
const MOST_NOISE_OF_MOST: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    Reached,
    /// Chance alone may be the reason.
    WithinNoise,
    Missed,
    NotCompared,
}

impl Check {
    /// A figure that has one value for each seed, and must be at least or at most its target.
    pub(crate) fn of_seeds(
        case: &str,
        what: &'static str,
        values: &[f64],
        (at_least, target): (bool, f64),
        is_quick: bool,
    ) -> Self {
        let margin = |value: &f64| if at_least { value - target } else { target - value };
        Self {
            case: case.to_owned(),
            what,
            value: values.iter().sum::<f64>() / values.len() as f64,
            target: Some(target),
            at_least,
            margins: values.iter().map(margin).collect(),
            measured: is_quick.then(|| noise::tolerance(case, what, values.len())).flatten(),
            // The lowest of many cells varies so much that anything could be within its noise.
            most_noise: target * if at_least { MOST_NOISE_OF_LEAST } else { MOST_NOISE_OF_MOST },
        }
    }

    /// What may be missing by chance: two standard errors, from many seeds where that was measured, else from those at hand.
    pub(crate) fn tolerance(&self) -> f64 {
        self.measured
            .unwrap_or_else(|| 2.0 * noise::spread(&self.margins) / (self.margins.len() as f64).sqrt())
            .min(self.most_noise)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let Some(target) = self.target else { return Verdict::NotCompared };
        let short_of = if self.at_least { target - self.value } else { self.value - target };
        if short_of <= 0.0 {
            Verdict::Reached
        } else if short_of <= self.tolerance() {
            Verdict::WithinNoise
        } else {
            Verdict::Missed
        }
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

/// What a figure must not be beyond.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Fixed(f64),
    /// Relative to the oracle's figure.
    Times(f64, f64),
}

use Bound::{Fixed, Times};

impl Bound {
    fn of(self, figure: Figure, oracle: Option<&Figures>) -> Option<f64> {
        match self {
            Fixed(bound) => Some(bound),
            Times(factor, more) => Some(factor * figure(oracle?) + more),
        }
    }
}

/// All targets of `rows`. In a quick run the noise is what was measured of quick runs.
pub(crate) fn checks(rows: &[Row], is_quick: bool) -> Vec<Check> {
    let ours = rows.iter().filter(|row| row.strategy == Strategy::Admission);
    ours.flat_map(|row| {
        let is_its = |other: &&Row| other.strategy == Strategy::Oracle && other.title == row.title;
        checks_of(row, rows.iter().find(is_its), is_quick)
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

fn checks_of(row: &Row, oracle: Option<&Row>, is_quick: bool) -> Vec<Check> {
    let Scenario { callers, processes, .. } = row.scenario;
    let check = |what, figure: Figure, at_least, bound: Bound| {
        let margin = |(number, run): (usize, &Figures)| {
            let oracle = oracle.and_then(|oracle| oracle.runs.get(number));
            let over = figure(run) - bound.of(figure, oracle)?;
            Some(if at_least { over } else { -over })
        };
        Check {
            case: row.title.clone(),
            what,
            value: figure(&row.figures),
            target: bound.of(figure, oracle.map(|oracle| &oracle.figures)),
            at_least,
            margins: row.runs.iter().enumerate().filter_map(margin).collect(),
            measured: is_quick.then(|| noise::tolerance(&row.title, what, row.runs.len())).flatten(),
            most_noise: f64::INFINITY,
        }
    };
    let goodput = |bound| check("goodput", GOODPUT, true, bound);
    let most = |what, figure, bound| check(what, figure, false, bound);
    let rejections = |bound| most("429s per success", REJECTIONS, Fixed(bound));
    let p99 = |bound| most("p99 s", P99, bound);
    let failed = |bound| most("failed", FAILED, bound);
    match row.scenario_name {
        // Each of one caller learns nothing by itself; together they must not wake as a herd.
        "ptu" if processes == callers => {
            vec![goodput(Fixed(0.985)), failed(Fixed(0.005)), rejections(0.5)]
        }
        // The other targets are for one and for eight; more are shown as they are.
        "ptu" if processes > 8 => Vec::new(),
        "ptu" if processes > 1 => vec![rejections(0.02), p99(Fixed(12.0)), failed(Fixed(0.0))],
        "ptu" => vec![
            goodput(Times(0.985, 0.0)),
            p99(Times(1.10, 0.4)),
            failed(Times(1.0, 0.005)),
            rejections(allowed(row, 0.03, 0.01, 0.003)),
            most("peak 429s in a second", PEAK, Fixed(5.0)),
        ],
        "batch" => vec![
            most("makespan s", MAKESPAN, Times(1.01, 0.0)),
            failed(Fixed(0.0)),
            // Hundreds at once into a small bucket: the opening burst cannot be helped.
            rejections(if row.small_quota { 0.2 } else { allowed(row, 0.08, 0.02, 0.01) }),
        ],
        "costly-rejections" => {
            vec![goodput(Fixed(if row.scenario.rejection_cost < 0.5 { 0.98 } else { 0.97 }))]
        }
        "coarse-advice" | "missing-advice" => vec![goodput(Fixed(0.96)), rejections(0.03)],
        "capacity-step" if callers >= 64 => vec![goodput(Fixed(0.96))],
        "capacity-step" => vec![goodput(Fixed(if row.scenario.step < 1.0 { 0.95 } else { 0.90 }))],
        "header-server" if processes > 1 => vec![rejections(0.02), p99(Fixed(12.0))],
        "header-server" => vec![rejections(0.003), p99(Times(1.10, 0.4))],
        "short-budget" if row.scenario.budget <= 0.5 => vec![most("s until refused", REFUSAL, Fixed(0.020))],
        RECORDED => {
            let (early, over) = row.replay.unwrap_or_default();
            let check = |what, value, target| Check {
                case: row.title.clone(),
                what,
                value,
                target: Some(target),
                at_least: false,
                margins: vec![target - value],
                measured: None,
                most_noise: 0.0,
            };
            vec![check("sent early", early as f64, 0.0), check("median wait over advice", over, 0.10)]
        }
        _ => Vec::new(),
    }
}

/// The checks as a table.
pub(crate) fn table(checks: &[Check]) -> String {
    let mut text = String::from(
        "\n#### Targets\n\n| case | figure | measured | target | noise | |\n|---|---|---|---|---|---|\n",
    );
    for check in checks {
        let Check { case, what, value, at_least, .. } = check;
        let sign = if *at_least { "≥" } else { "≤" };
        let target = check.target.map_or_else(|| "none".into(), |target| format!("{sign} {target:.4}"));
        let verdict = match check.verdict() {
            Verdict::Reached => "reached",
            Verdict::WithinNoise => "missed within the noise",
            Verdict::Missed => "MISSED",
            Verdict::NotCompared => "not compared",
        };
        let _ = writeln!(
            text,
            "| {case} | {what} | {value:.4} | {target} | ± {:.4} | {verdict} |",
            check.tolerance()
        );
    }
    let _ = writeln!(text, "\n{}", summary(checks));
    text
}

/// How many targets are reached, and what becomes of the others.
pub(crate) fn summary(checks: &[Check]) -> String {
    let count = |is: fn(Verdict) -> bool| checks.iter().filter(|check| is(check.verdict())).count();
    let mut text = format!("{} of {} targets reached", count(|is| is == Verdict::Reached), checks.len());
    for (number, what) in [
        (count(|is| is == Verdict::WithinNoise), "missed within the noise"),
        (count(|is| is == Verdict::Missed), "MISSED"),
        (count(|is| is == Verdict::NotCompared), "not compared"),
    ] {
        if number > 0 {
            let _ = write!(text, ", {number} {what}");
        }
    }
    text + "."
}

/// What there is to say against these checks; nothing that was not compared passes.
pub(crate) fn complaints(checks: &[Check]) -> Vec<String> {
    if checks.is_empty() {
        return vec!["nothing was compared with a target".into()];
    }
    let complaint = |check: &Check| {
        let Check { case, what, value, target, .. } = check;
        match (check.verdict(), target) {
            (Verdict::Missed, Some(target)) => {
                Some(format!("{case}: {what} {value:.4}, target {target:.4} (± {:.4})", check.tolerance()))
            }
            (Verdict::NotCompared, _) => Some(format!("{case}: {what} was not compared")),
            _ => None,
        }
    };
    checks.iter().filter_map(complaint).collect()
}
