//! The plots: in one HTML page that needs nothing else, and two of them as files for the README.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::chart::{INK, Labels, Outcome, Panel, Series, chart, panels};
use crate::in_parallel;
use crate::model::Scenario;
use crate::output::about;
use crate::recorded::replay;
use crate::strategy::Strategy;

const SHOWN: [Strategy; 6] = [
    Strategy::Admission,
    Strategy::ReqwestRetry,
    Strategy::HeaderExact,
    Strategy::OpenAi,
    Strategy::Aws,
    Strategy::Fixed,
];
/// The same strategy has the same colour everywhere.
fn colour(strategy: Strategy) -> usize {
    SHOWN.iter().position(|shown| *shown == strategy).unwrap_or(SHOWN.len())
}

/// Those that draw the same for the same seed.
const REPEATABLE: [Strategy; 5] =
    [Strategy::Admission, Strategy::Fixed, Strategy::HeaderExact, Strategy::OpenAi, Strategy::Aws];
const HEAD: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>The lab</title>\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
    <style>:root{color-scheme:light dark}body{font:16px/1.5 sans-serif;max-width:36rem;margin:auto;padding:.75rem}\
    svg{display:block;width:100%;height:auto}code{overflow-wrap:anywhere}</style><h1>The lab</h1>\
    <p>The middleware (admission) beside what others do, against a model of a rate-limited service, in virtual time.</p>";

/// Writes the page and tells where.
pub(crate) fn report(seed: u64, folder: &Path) -> Outcome<PathBuf> {
    let charts = [rejections(seed, &SHOWN)?, latency(seed)?, costly(seed)?, reset(seed)?, recorded(seed)?];
    let mut page = String::from(HEAD);
    // A page knows its colour of text, in the light and in the dark.
    let ink = format!("#{:02X}{:02X}{:02X}", INK.0, INK.1, INK.2);
    for (text, svg) in charts {
        let _ = write!(page, "<figure style=\"margin:2rem 0\">{}", svg.replace(&ink, "currentColor"));
        let _ = write!(page, "<figcaption>{text}</figcaption></figure>");
    }
    let _ =
        write!(page, "<p>Drawn by <code>cargo run --release -p lab -- --report --seed {seed}</code>.</p>");
    std::fs::create_dir_all(folder).map_err(about(folder))?;
    let path = folder.join("report.html");
    std::fs::write(&path, page).map_err(about(&path))?;
    Ok(path)
}

/// Writes the two plots of the README and tells where. The same seed makes the same bytes.
pub(crate) fn for_readme(seed: u64, folder: &Path) -> Outcome<[PathBuf; 2]> {
    std::fs::create_dir_all(folder).map_err(about(folder))?;
    let paths = [folder.join("429s-per-success.svg"), folder.join("herd-and-drip.svg")];
    let plots = [rejections(seed, &REPEATABLE)?, reset(seed)?];
    for (path, (_, svg)) in paths.iter().zip(plots) {
        std::fs::write(path, svg).map_err(about(path))?;
    }
    Ok(paths)
}

fn base(seed: u64) -> Scenario {
    Scenario { warm_up: 60.0, seconds: 200.0, ..Scenario::ptu(64, 32_000.0, 3.0, seed) }
}

/// One line per strategy: a figure over some values of `x`.
fn lines(
    strategies: &[Strategy],
    values: &[f64],
    point: impl Fn(Strategy, f64) -> f64 + Sync,
    x: impl Fn(f64) -> f64,
) -> Vec<Series> {
    let jobs: Vec<(Strategy, f64)> =
        strategies.iter().flat_map(|strategy| values.iter().map(|value| (*strategy, *value))).collect();
    let results = in_parallel(&jobs, |(strategy, value)| (*strategy, *value, point(*strategy, *value)));
    let line = |strategy: &Strategy| Series {
        name: strategy.name(),
        colour: colour(*strategy),
        points: results
            .iter()
            .filter(|(of, ..)| of == strategy)
            .map(|(_, value, y)| (x(*value), *y))
            .collect(),
    };
    strategies.iter().map(line).collect()
}

fn rejections(seed: u64, strategies: &[Strategy]) -> Outcome<(&'static str, String)> {
    let figure = |strategy: Strategy, load| {
        let figures = strategy.play(Scenario { load, ..base(seed) }).figures();
        figures.rejections_per_success.max(1e-4).log10()
    };
    let series = lines(strategies, &[0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0], figure, |load| load);
    let labels = Labels {
        title: "429s per successful call",
        x: "offered load / capacity",
        y: "",
        log: (false, true),
        dots: false,
    };
    Ok(("64 callers. What is below 0.0001 is drawn there.", chart(&labels, &series)?))
}

fn latency(seed: u64) -> Outcome<(&'static str, String)> {
    let worlds = in_parallel(&SHOWN, |strategy| strategy.play(base(seed)).latencies());
    let series: Vec<Series> = SHOWN
        .iter()
        .zip(&worlds)
        .map(|(strategy, latencies)| {
            let count = latencies.len() as f64;
            let step = (latencies.len() / 200).max(1);
            let point =
                |(place, latency): (usize, &f64)| (latency.min(30.0), 100.0 * (place as f64 + 1.0) / count);
            let points = latencies.iter().enumerate().step_by(step).map(point).collect();
            Series { name: strategy.name(), colour: colour(*strategy), points }
        })
        .collect();
    let labels = Labels {
        title: "Added latency of the calls that were served",
        x: "seconds",
        y: "% of calls",
        log: (false, false),
        dots: false,
    };
    Ok((
        "64 callers at three times the capacity. Who is quicker than admission has given calls up or has let others wait.",
        chart(&labels, &series)?,
    ))
}

fn costly(seed: u64) -> Outcome<(&'static str, String)> {
    let figure = |strategy: Strategy, rejection_cost| {
        100.0 * strategy.play(Scenario { rejection_cost, ..base(seed) }).figures().goodput
    };
    let series = lines(&SHOWN, &[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0], figure, f64::log10);
    let labels = Labels {
        title: "Goodput where a refused request is charged",
        x: "charge as a share of the request",
        y: "% of capacity",
        log: (true, false),
        dots: false,
    };
    Ok(("64 callers at three times the capacity.", chart(&labels, &series)?))
}

/// The seconds before and after the first refusal, in tenths.
const BEFORE: f64 = 1.0;
const BINS: usize = 80;
const BIN: f64 = 0.1;

fn reset(seed: u64) -> Outcome<(&'static str, String)> {
    let shown =
        [(Strategy::HeaderExact, "each waits exactly as advised"), (Strategy::Admission, "this crate")];
    let panel = |(strategy, name): (Strategy, &str)| {
        let arrivals = strategy.play(Scenario { traced: true, ..base(seed) }).arrivals();
        let from = arrivals.iter().find(|(_, taken)| !taken).map_or(0.0, |(at, _)| at - BEFORE);
        let mut bars = vec![(0, 0); BINS];
        for (at, is_taken) in arrivals {
            let bin = ((at - from) / BIN).floor();
            let Some(bar) = (bin >= 0.0).then(|| bars.get_mut(bin as usize)).flatten() else { continue };
            let (taken, refused) = bar;
            *(if is_taken { taken } else { refused }) += 1;
        }
        Panel { name: name.to_owned(), bars }
    };
    let drawn = panels(
        "Requests per 100 ms around the first 429",
        "seconds since the first 429",
        -BEFORE,
        BIN,
        &shown.map(panel),
    )?;
    Ok(("64 callers at three times the capacity: a herd at every reset, and a drip.", drawn))
}

fn recorded(seed: u64) -> Outcome<(&'static str, String)> {
    let series: Vec<Series> = [Strategy::Admission, Strategy::ReqwestRetry, Strategy::Fixed]
        .into_iter()
        .map(|strategy| Series {
            name: strategy.name(),
            colour: colour(strategy),
            points: replay(strategy, seed)
                .waits
                .iter()
                .map(|(advised, waited)| (advised.log10(), waited.max(1e-3).log10()))
                .collect(),
        })
        .collect();
    let labels = Labels {
        title: "Wait against advice",
        x: "advised seconds",
        y: "seconds waited",
        log: (true, true),
        dots: true,
    };
    Ok(("193 waits that a provisioned deployment has advised, a lone caller.", chart(&labels, &series)?))
}
