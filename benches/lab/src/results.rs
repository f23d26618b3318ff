//! Writes the tables into the files that show them, between two marks, and the plots beside them.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::cases::RECORDED;
use crate::chart::Outcome;
use crate::model::Figures;
use crate::output::about;
use crate::plots;
use crate::report::{self, Row, per_success};
use crate::strategy::Strategy;
use crate::targets::{self, Check};

pub(crate) const RESULTS: &str = "benches/RESULTS.md";
pub(crate) const README: &str = "README.md";
const PLOTS: &str = "benches/plots";
const COMPARED: [Strategy; 6] = [
    Strategy::Admission,
    Strategy::ReqwestRetry,
    Strategy::Fixed,
    Strategy::HeaderExact,
    Strategy::OpenAi,
    Strategy::Aws,
];
/// What other code found for the same model before the middleware was there: 429s per success at 3x with 8, 64 and 512
/// callers, and failed calls.
const SIMULATED: [(Strategy, [&str; 3]); 8] = [
    (Strategy::Oracle, ["0", "0", "0"]),
    (Strategy::Admission, ["0.012", "0.0042", "0.0009"]),
    (Strategy::ReqwestRetry, ["4.5, 45 %", "4.5, 45 %", "4.5, 45 %"]),
    (Strategy::Fixed, ["2.55", "2.52", "2.53"]),
    (Strategy::HeaderExact, ["5.3", "25", "46"]),
    (Strategy::HeaderJittered, ["4.95", "24", "45"]),
    (Strategy::OpenAi, ["5.05, 57 %", "9.6, 76 %", "11, 78 %"]),
    (Strategy::Aws, ["0.35, 2.6 %", "0.036", "0.019"]),
];

/// Brings the files up to date.
///
/// # Errors
///
/// Where a file or its marks are missing, or a plot cannot be drawn.
pub(crate) fn write(rows: &[Row], checks: &[Check], seed: u64) -> Outcome<()> {
    let tables = format!("{}\n{}", report::tables(rows), targets::table(checks));
    let notes: String = report::notes(rows).iter().map(|note| format!("{note}\n\n")).collect();
    replace(Path::new(RESULTS), "tables", &format!("{notes}{tables}"))?;
    replace(Path::new(RESULTS), "simulation", &beside_the_simulation(rows))?;
    replace(Path::new(README), "comparison", &comparison(rows))?;
    plots::for_readme(seed, Path::new(PLOTS)).map(drop)
}

/// Puts `text` between the marks of this name.
pub(crate) fn replace(path: &Path, name: &str, text: &str) -> io::Result<()> {
    let before = std::fs::read_to_string(path).map_err(about(path))?;
    let (begin, end) = (format!("<!-- lab: {name} -->\n"), format!("<!-- lab: end of {name} -->"));
    let parts = before.split_once(&begin).and_then(|(head, rest)| {
        rest.split_once(&end).map(|(_, tail)| format!("{head}{begin}\n{}\n\n{end}{tail}", text.trim()))
    });
    let Some(after) = parts else {
        return Err(io::Error::other(format!("{} has no marks for {name}", path.display())));
    };
    std::fs::write(path, after).map_err(about(path))
}

fn figures(rows: &[Row], strategy: Strategy, callers: usize) -> Option<Figures> {
    let is_it = |row: &&Row| {
        let scenario = row.scenario;
        row.scenario_name == "ptu"
            && row.strategy == strategy
            && (scenario.callers, scenario.processes, scenario.load.to_bits())
                == (callers, 1, 3.0_f64.to_bits())
            && !row.small_quota
    };
    rows.iter().find(is_it).map(|row| row.figures)
}

/// The README's table.
fn comparison(rows: &[Row]) -> String {
    let mut text = String::from(
        "| | 429s per success | failed calls | p99 added wait | sent early | median wait over advice |\n|---|---|---|---|---|---|\n",
    );
    for strategy in COMPARED {
        let replay = rows.iter().find(|row| row.scenario_name == RECORDED && row.strategy == strategy);
        let (Some(figures), Some((early, over))) =
            (figures(rows, strategy, 64), replay.and_then(|row| row.replay))
        else {
            continue;
        };
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} % | {:.2} s | {early} | {:.1} % |",
            described(strategy),
            per_success(figures.rejections_per_success),
            100.0 * figures.failed,
            figures.p99,
            100.0 * over,
        );
    }
    text
}

const fn described(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Oracle => "perfect knowledge",
        Strategy::Admission => "**this crate**",
        Strategy::ReqwestRetry => "reqwest-retry, 3 retries",
        Strategy::Fixed => "a fixed wait of 1 s",
        Strategy::HeaderExact => "exactly what the header says",
        Strategy::HeaderJittered => "the header and up to 25 % more",
        Strategy::OpenAi => "the OpenAI SDK's rule",
        Strategy::Aws => "the AWS SDK's adaptive mode",
        Strategy::NoGate => "this crate without its gate",
        Strategy::CoolDown => "a shared cool-down alone",
    }
}

fn beside_the_simulation(rows: &[Row]) -> String {
    let mut text = String::from(
        "| strategy | 8 callers | 64 callers | 512 callers | before: 8 | 64 | 512 |\n|---|---|---|---|---|---|---|\n",
    );
    for (strategy, before) in SIMULATED {
        let cell = |callers| {
            let Some(Figures { rejections_per_success, failed, .. }) = figures(rows, strategy, callers)
            else {
                return "not run".into();
            };
            let failed = if failed < 0.005 { String::new() } else { format!(", {:.0} %", 100.0 * failed) };
            format!("{}{failed}", per_success(rejections_per_success))
        };
        let cells: Vec<String> =
            [8, 64, 512].map(cell).into_iter().chain(before.map(str::to_owned)).collect();
        let _ = writeln!(text, "| {} | {} |", strategy.name(), cells.join(" | "));
    }
    text
}
