//! The plots, in one HTML page that needs nothing else.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use plotters::prelude::*;

use crate::in_parallel;
use crate::model::Scenario;
use crate::recorded::replay;
use crate::strategy::Strategy;

type Outcome<T> = Result<T, Box<dyn Error>>;

const SIZE: (u32, u32) = (720, 440);
/// Readable on white and on black.
const INK: RGBColor = RGBColor(128, 128, 128);
const COLOURS: [RGBColor; 6] = [
    RGBColor(46, 160, 67),
    RGBColor(220, 80, 60),
    RGBColor(70, 130, 220),
    RGBColor(210, 150, 30),
    RGBColor(160, 100, 200),
    RGBColor(20, 160, 170),
];
const SHOWN: [Strategy; 6] = [
    Strategy::Admission,
    Strategy::ReqwestRetry,
    Strategy::HeaderExact,
    Strategy::OpenAi,
    Strategy::Aws,
    Strategy::Fixed,
];

struct Series {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

/// What a chart says beside its lines.
struct Labels<'a> {
    title: &'a str,
    x: &'a str,
    y: &'a str,
    /// Whether an axis holds decimal logarithms.
    log: (bool, bool),
    dots: bool,
}

/// Writes the page and tells where.
pub(crate) fn write(seed: u64) -> Outcome<PathBuf> {
    let charts = [rejections(seed)?, latency(seed)?, costly(seed)?, reset(seed)?, recorded(seed)?];
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>The lab</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <style>:root{color-scheme:light dark}body{font:16px/1.5 sans-serif;max-width:48rem;margin:auto;padding:1rem}\
         svg{width:100%;height:auto}</style><h1>The lab</h1>\
         <p>The middleware (admission) beside what others do, against a model of a rate-limited service, in virtual time.</p>",
    );
    for (text, svg) in charts {
        let _ = write!(page, "<p>{text}</p>{svg}");
    }
    let folder = Path::new("target/lab");
    std::fs::create_dir_all(folder)?;
    let path = folder.join("report.html");
    std::fs::write(&path, page)?;
    Ok(path)
}

fn base(seed: u64) -> Scenario {
    Scenario { warm_up: 60.0, seconds: 200.0, ..Scenario::ptu(64, 32_000.0, 3.0, seed) }
}

/// One line per strategy: a figure over some values of `x`.
fn lines(values: &[f64], point: impl Fn(Strategy, f64) -> f64 + Sync, x: impl Fn(f64) -> f64) -> Vec<Series> {
    let jobs: Vec<(Strategy, f64)> =
        SHOWN.iter().flat_map(|strategy| values.iter().map(|value| (*strategy, *value))).collect();
    let results = in_parallel(&jobs, |(strategy, value)| (*strategy, *value, point(*strategy, *value)));
    SHOWN
        .iter()
        .map(|strategy| Series {
            name: strategy.name(),
            points: results
                .iter()
                .filter(|(of, ..)| of == strategy)
                .map(|(_, value, y)| (x(*value), *y))
                .collect(),
        })
        .collect()
}

fn rejections(seed: u64) -> Outcome<(&'static str, String)> {
    let figure = |strategy: Strategy, load| {
        let figures = strategy.play(Scenario { load, ..base(seed) }).figures();
        figures.rejections_per_success.max(1e-4).log10()
    };
    let series = lines(&[0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0], figure, |load| load);
    let labels = Labels {
        title: "429s per success",
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
        .zip(worlds)
        .map(|(strategy, latencies)| {
            let count = latencies.len() as f64;
            let step = (latencies.len() / 200).max(1);
            let point =
                |(place, latency): (usize, &f64)| (latency.min(30.0), 100.0 * (place as f64 + 1.0) / count);
            Series {
                name: strategy.name(),
                points: latencies.iter().enumerate().step_by(step).map(point).collect(),
            }
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
    let series = lines(&[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0], figure, f64::log10);
    let labels = Labels {
        title: "Goodput where a refused request is charged",
        x: "charge as a share of the request",
        y: "% of capacity",
        log: (true, false),
        dots: false,
    };
    Ok(("64 callers at three times the capacity.", chart(&labels, &series)?))
}

fn reset(seed: u64) -> Outcome<(&'static str, String)> {
    let mut series = Vec::new();
    for (strategy, sent, refused) in [
        (Strategy::HeaderExact, "header-exact: sent", "header-exact: 429s"),
        (Strategy::Admission, "admission: sent", "admission: 429s"),
    ] {
        let arrivals = strategy.play(Scenario { traced: true, ..base(seed) }).arrivals();
        let from = arrivals.iter().find(|(_, taken)| !taken).map_or(0.0, |(at, _)| at - 2.0);
        let count = |taken: bool| {
            let bin = |number: usize| {
                let start = from + 0.1 * number as f64;
                let here = arrivals
                    .iter()
                    .filter(|(at, was)| (start..start + 0.1).contains(at) && (taken || !was))
                    .count();
                (0.1 * number as f64 - 2.0, here as f64)
            };
            (0..100).map(bin).collect()
        };
        series.push(Series { name: sent, points: count(true) });
        series.push(Series { name: refused, points: count(false) });
    }
    let labels = Labels {
        title: "Around the first refusal: herd against drip",
        x: "seconds since the first 429",
        y: "requests in 100 ms",
        log: (false, false),
        dots: false,
    };
    Ok(("64 callers at three times the capacity.", chart(&labels, &series)?))
}

fn recorded(seed: u64) -> Outcome<(&'static str, String)> {
    let series: Vec<Series> = [Strategy::Admission, Strategy::ReqwestRetry, Strategy::Fixed]
        .into_iter()
        .map(|strategy| Series {
            name: strategy.name(),
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

/// A value as its axis shows it.
fn label(value: f64, is_log: bool) -> String {
    if is_log { format!("{}", (10.0_f64.powf(value) * 1e5).round() / 1e5) } else { format!("{value:.1}") }
}

fn chart(labels: &Labels<'_>, series: &[Series]) -> Outcome<String> {
    let all = || series.iter().flat_map(|series| series.points.iter());
    let range = |pick: fn(&(f64, f64)) -> f64| {
        let least = all().map(pick).fold(f64::INFINITY, f64::min);
        let most = all().map(pick).fold(f64::NEG_INFINITY, f64::max);
        least..most + 0.02 * (most - least).max(1e-9)
    };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let text = ("sans-serif", 15).into_font().color(&INK);
        let mut chart = ChartBuilder::on(&area)
            .caption(labels.title, ("sans-serif", 20).into_font().color(&INK))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(range(|point| point.0), range(|point| point.1))?;
        chart
            .configure_mesh()
            .axis_style(INK)
            .bold_line_style(INK.mix(0.3))
            .light_line_style(TRANSPARENT)
            .label_style(text.clone())
            .axis_desc_style(text.clone())
            .x_desc(labels.x)
            .y_desc(labels.y)
            .x_label_formatter(&|value| label(*value, labels.log.0))
            .y_label_formatter(&|value| label(*value, labels.log.1))
            .draw()?;
        for (series, colour) in series.iter().zip(COLOURS) {
            let points = series.points.iter().copied();
            let drawn = if labels.dots {
                chart.draw_series(points.map(|point| Circle::new(point, 3, colour.mix(0.7).filled())))?
            } else {
                chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            };
            drawn
                .label(series.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)));
        }
        chart.configure_series_labels().border_style(TRANSPARENT).label_font(text).draw()?;
        area.present()?;
    }
    Ok(svg)
}
