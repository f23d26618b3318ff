//! The zoo as pages: one for each family, a heat map of goodput and refusals; step responses as time lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::changes::{AT, PlayedChange};
use super::runs::Played;
use crate::chart::{INK, Labels, Outcome, Series, chart};
use crate::output::about;
use crate::strategy::Strategy;

const STYLE: &str = "<meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
    <style>:root{color-scheme:light dark}body{font:15px/1.4 sans-serif;max-width:64rem;margin:auto;padding:.75rem}\
    table{border-collapse:collapse;display:block;overflow-x:auto}td,th{padding:.2rem .5rem;text-align:left;white-space:nowrap}\
    td.f{color:#111;text-align:right;border:1px solid #8884}svg{width:100%;max-width:26rem;height:auto}\
    .lines{display:flex;flex-wrap:wrap;gap:1rem}</style>";
/// 429s per success that are drawn as the worst.
const WORST: f64 = 10.0;
/// Goodput that is drawn as the worst.
const LOWEST: f64 = 0.5;
/// Seconds that a point of a time line stands for, and how long before the change it begins.
const SPAN: usize = 4;
const BEFORE: usize = 20;

/// Writes the pages and an index of them, and tells where.
pub(crate) fn write(
    cells: &[Played],
    changes: &[PlayedChange],
    strategies: &[Strategy],
    folder: &Path,
) -> Outcome<PathBuf> {
    std::fs::create_dir_all(folder).map_err(about(folder))?;
    let mut families: BTreeMap<&str, Vec<&Played>> = BTreeMap::new();
    for played in cells {
        families.entry(played.cell.family).or_default().push(played);
    }
    let mut index =
        format!("<!doctype html><html lang=\"en\"><title>The zoo</title>{STYLE}<h1>The zoo</h1><ul>");
    let mut add = |title: &str, body: String| {
        let name = format!("{}.html", title.replace([' ', '%', '_'], "-"));
        let _ = write!(index, "<li><a href=\"{name}\">{title}</a>");
        let page = format!(
            "<!doctype html><html lang=\"en\"><title>{title}</title>{STYLE}<h1>{title}</h1>{body}\
             <p><a href=\"index.html\">All families</a></p>"
        );
        let path = folder.join(&name);
        std::fs::write(&path, page).map_err(about(&path))
    };
    for (family, played) in &families {
        add(family, heat_map(played, strategies))?;
    }
    if !changes.is_empty() {
        add("changes", time_lines(changes)?)?;
    }
    let path = folder.join("index.html");
    std::fs::write(&path, index + "</ul>").map_err(about(&path))?;
    Ok(path)
}

/// A row for each cell; for each round trip and strategy two fields.
fn heat_map(played: &[&Played], strategies: &[Strategy]) -> String {
    let mut trips: Vec<f64> = played.iter().map(|it| it.round_trip).collect();
    trips.sort_by(f64::total_cmp);
    trips.dedup();
    let mut titles: Vec<String> = Vec::new();
    for it in played {
        if !titles.contains(&it.cell.title()) {
            titles.push(it.cell.title());
        }
    }
    let mut text = String::from(
        "<p>Goodput as a share of what is allowed, and 429s per success. Green is good; &#10003; where the goal is \
         met.</p><table><tr><th>",
    );
    for (trip, strategy) in
        trips.iter().flat_map(|trip| strategies.iter().map(move |strategy| (trip, strategy)))
    {
        let _ = write!(text, "<th colspan=\"2\">{strategy}<br>{:.0} ms", 1000.0 * trip);
    }
    for title in titles {
        let _ = write!(text, "<tr><td>{title}");
        for (trip, strategy) in
            trips.iter().flat_map(|trip| strategies.iter().map(move |strategy| (trip, strategy)))
        {
            let is_it = |it: &&&Played| {
                it.cell.title() == title
                    && it.strategy == *strategy
                    && it.round_trip.to_bits() == trip.to_bits()
            };
            let Some(it) = played.iter().find(is_it) else {
                text.push_str("<td colspan=\"2\">");
                continue;
            };
            let mark = if it.is_met() { "&#10003; " } else { "" };
            let good = ((it.goodput() - LOWEST) / (1.0 - LOWEST)).clamp(0.0, 1.0);
            let few = 1.0 - ((it.refused() + 0.01).log10() + 2.0).max(0.0) / ((WORST).log10() + 2.0);
            let _ = write!(
                text,
                "<td class=\"f\" style=\"background:{}\">{mark}{:.2}",
                colour(good),
                it.goodput()
            );
            let refused = crate::report::per_success(it.refused());
            let _ = write!(
                text,
                "<td class=\"f\" style=\"background:{}\">{refused}",
                colour(few.clamp(0.0, 1.0))
            );
        }
    }
    text + "</table>"
}

/// From red over yellow to green.
fn colour(share: f64) -> String {
    format!("hsl({:.0} 70% 70%)", 120.0 * share)
}

/// A chart for each change: what was done in a second, and what is allowed.
fn time_lines(changes: &[PlayedChange]) -> Outcome<String> {
    let ink = format!("#{:02X}{:02X}{:02X}", INK.0, INK.1, INK.2);
    let mut text =
        String::from("<p>Calls done in a second, from 20 s before the change.</p><div class=\"lines\">");
    for lines in changes.chunk_by(|(one, _), (other, _)| one.cell.name == other.cell.name) {
        let Some((change, first)) = lines.first() else { continue };
        let series: Vec<Series> = lines
            .iter()
            .enumerate()
            .map(|(colour, (_, played))| Series {
                name: played.strategy.name(),
                colour,
                points: points(&played.runs[0].by_second),
            })
            .chain([Series {
                name: "allowed then",
                colour: usize::MAX,
                points: [0.0, 1.0].map(|end| (end * first.cell.seconds, first.allowed[0])).into(),
            }])
            .collect();
        let title = change.cell.name.clone();
        let labels =
            Labels { title: &title, x: "seconds since the change", y: "", log: (false, false), dots: false };
        let _ = write!(text, "<div>{}</div>", chart(&labels, &series)?.replace(&ink, "currentColor"));
    }
    Ok(text + "</div>")
}

fn points(by_second: &[f64]) -> Vec<(f64, f64)> {
    let from = AT as usize - BEFORE;
    let of = |(number, span): (usize, &[f64])| {
        let at = (number * SPAN) as f64 - BEFORE as f64 + SPAN as f64 / 2.0;
        (at, span.iter().sum::<f64>() / span.len() as f64)
    };
    by_second.get(from..).unwrap_or_default().chunks_exact(SPAN).enumerate().map(of).collect()
}
