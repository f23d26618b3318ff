//! The rows of the report, as tables and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cases::{Case, RECORDED};
use crate::model::{Figures, Scenario};
use crate::recorded::Replay;
use crate::strategy::Strategy;

/// One strategy in one case: the mean over seeds, and what it varies by.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) scenario_name: &'static str,
    /// What stands over the rows of one case.
    pub(crate) title: String,
    pub(crate) variant: String,
    pub(crate) small_quota: bool,
    pub(crate) scenario: Scenario,
    pub(crate) strategy: Strategy,
    pub(crate) figures: Figures,
    /// One for each seed, in their order.
    pub(crate) runs: Vec<Figures>,
    /// Of a replay: sends before the advised moment, and the share of the median wait that was not advised.
    pub(crate) replay: Option<(u64, f64)>,
    /// Whether it was asked for, and not only needed for comparison.
    pub(crate) is_shown: bool,
    /// Who would have been too slow for this run.
    left_out: Vec<Strategy>,
}

impl Row {
    pub(crate) fn new(case: &Case, strategy: Strategy, runs: Vec<Figures>) -> Self {
        Self {
            scenario_name: case.name,
            title: case.title(),
            variant: case.variant.clone(),
            small_quota: case.is_small_quota(),
            scenario: case.scenario,
            strategy,
            figures: Figures::mean(&runs),
            runs,
            replay: None,
            is_shown: true,
            left_out: case.left_out(),
        }
    }

    pub(crate) fn replayed(strategy: Strategy, replay: &Replay) -> Self {
        Self {
            scenario_name: RECORDED,
            title: format!("{RECORDED}, a lone caller"),
            variant: String::new(),
            small_quota: false,
            scenario: Scenario::ptu(1, 0.0, 0.0, 0),
            strategy,
            figures: replay.figures,
            runs: vec![replay.figures],
            replay: Some((replay.early, replay.over_advice())),
            is_shown: true,
            left_out: Vec::new(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let Figures { goodput, rejections_per_success, p50, p99, failed, peak, refusal, makespan } =
            self.figures;
        let mut row = json!({
            "scenario": self.scenario_name,
            "strategy": self.strategy.name(),
            "callers": self.scenario.callers,
            "processes": self.scenario.processes,
            "load": self.scenario.load,
            "goodput": goodput,
            "rejections_per_success": rejections_per_success,
            "p50_s": p50,
            "p99_s": p99,
            "failed": failed,
            "peak_429_per_s": peak,
            "refusal_s": refusal,
            "variant": self.variant,
            "capacity": self.scenario.capacity,
            "seeds": self.runs.len(),
            "varies": self.strategy.varies(),
        });
        let mut add = |name: &str, value: Value| {
            if let Some(row) = row.as_object_mut() {
                row.insert(name.to_owned(), value);
            }
        };
        if self.scenario.is_batch() && self.replay.is_none() {
            add("makespan_s", makespan.into());
        }
        if let Some((early, over_advice)) = self.replay {
            add("early", early.into());
            add("over_advice_p50", over_advice.into());
        }
        row
    }
}

/// 429s per success, with more places where they are few.
pub(crate) fn per_success(figure: f64) -> String {
    if figure < 0.1 { format!("{figure:.4}") } else { format!("{figure:.2}") }
}

/// The rows under their titles, as Markdown.
pub(crate) fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let shown: Vec<&Row> = rows.iter().filter(|row| row.is_shown).collect();
    for case in shown.chunk_by(|one, other| one.title == other.title) {
        let Some(first) = case.first() else { continue };
        let last =
            if first.replay.is_some() { (" sent early | over advice |", "---|---|") } else { ("", "") };
        let _ = write!(
            text,
            "\n#### {}\n\n\
             | strategy | goodput % | 429/success | p50 s | p99 s | failed % | peak 429/s | refused after s |{}\n\
             |---|---|---|---|---|---|---|---|{}\n",
            first.title, last.0, last.1
        );
        for row in case {
            let Figures { goodput, rejections_per_success, p50, p99, failed, peak, refusal, .. } =
                row.figures;
            let per_success = per_success(rejections_per_success);
            let (goodput, failed) = (100.0 * goodput, 100.0 * failed);
            let last = row
                .replay
                .map(|(early, over)| format!(" {early} | {:.1} % |", 100.0 * over))
                .unwrap_or_default();
            let _ = writeln!(
                text,
                "| {} | {goodput:.1} | {per_success} | {p50:.2} | {p99:.2} | {failed:.1} | {peak} | {refusal:.3} |{last}",
                row.strategy.label()
            );
        }
        if !first.left_out.is_empty() {
            let _ =
                writeln!(text, "\nToo slow for a quick run, left to `--full`: {}.", names(&first.left_out));
        }
    }
    text
}

/// What a reader of the figures has to know, a sentence for each line.
pub(crate) fn notes(rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(row) = rows.iter().find(|row| row.is_shown && row.strategy.varies()) {
        notes.push(format!(
            "{} draws its jitter from the system, so its rows vary a little from run to run; all others repeat for the same seed.",
            row.strategy
        ));
    }
    let mut slow: Vec<&Row> = rows.iter().filter(|row| row.is_shown && !row.left_out.is_empty()).collect();
    slow.dedup_by(|one, other| one.title == other.title);
    for row in slow {
        notes.push(format!(
            "{}: too slow for a quick run, left to --full: {}.",
            row.title,
            names(&row.left_out)
        ));
    }
    notes
}

fn names(strategies: &[Strategy]) -> String {
    strategies.iter().map(|strategy| strategy.name()).collect::<Vec<_>>().join(", ")
}
