//! The rows of the report, as a table and as JSON.

use serde_json::{Value, json};

use crate::cases::Case;
use crate::model::{Figures, Scenario};
use crate::strategy::Strategy;

/// One strategy in one case: the mean over seeds, and what it varies by.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) scenario_name: &'static str,
    pub(crate) variant: String,
    pub(crate) small_quota: bool,
    pub(crate) scenario: Scenario,
    pub(crate) strategy: Strategy,
    pub(crate) figures: Figures,
    pub(crate) runs: Vec<Figures>,
    /// Of a replay: sends before the advised moment, and the share of the median wait that was not advised.
    pub(crate) replay: Option<(u64, f64)>,
}

impl Row {
    pub(crate) fn new(case: &Case, strategy: Strategy, runs: Vec<Figures>) -> Self {
        Self {
            scenario_name: case.name,
            variant: case.variant.clone(),
            small_quota: case.is_small_quota(),
            scenario: case.scenario,
            strategy,
            figures: Figures::mean(&runs),
            runs,
            replay: None,
        }
    }

    /// The standard error of a figure's mean; none of a single run.
    pub(crate) fn noise(&self, figure: fn(&Figures) -> f64) -> f64 {
        let count = self.runs.len() as f64;
        if count < 2.0 {
            return 0.0;
        }
        let mean = figure(&self.figures);
        let squares: f64 = self.runs.iter().map(|run| (figure(run) - mean).powi(2)).sum();
        (squares / (count - 1.0) / count).sqrt()
    }

    /// What stands over the rows of one case.
    pub(crate) fn title(&self) -> String {
        let Scenario { callers, processes, capacity, load, .. } = self.scenario;
        let mut title = self.scenario_name.to_owned();
        if !self.variant.is_empty() {
            title = format!("{title} ({})", self.variant);
        }
        if self.replay.is_some() {
            return format!("{title}, a lone caller");
        }
        title = format!("{title}, {callers} callers, {} tokens/s", capacity);
        if load > 0.0 {
            title = format!("{title}, {load}x");
        }
        if processes > 1 {
            title = format!("{title}, {processes} processes");
        }
        title
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

/// The rows under their titles, as Markdown.
pub(crate) fn print(rows: &[Row]) {
    for case in rows.chunk_by(|one, other| one.title() == other.title()) {
        let Some(first) = case.first() else { continue };
        let replay = first.replay.is_some();
        println!("\n### {}\n", first.title());
        let last = if replay { " sent early | over advice |" } else { "" };
        println!(
            "| strategy | goodput % | 429/success | p50 s | p99 s | failed % | peak 429/s | refused after s |{last}"
        );
        println!("|---|---|---|---|---|---|---|---|{}", if replay { "---|---|" } else { "" });
        for row in case {
            let Figures { goodput, rejections_per_success, p50, p99, failed, peak, refusal, .. } =
                row.figures;
            let per_success = if rejections_per_success < 0.1 {
                format!("{rejections_per_success:.4}")
            } else {
                format!("{rejections_per_success:.2}")
            };
            let (goodput, failed) = (100.0 * goodput, 100.0 * failed);
            let last = row
                .replay
                .map(|(early, over)| format!(" {early} | {:.1} % |", 100.0 * over))
                .unwrap_or_default();
            println!(
                "| {} | {goodput:.1} | {per_success} | {p50:.2} | {p99:.2} | {failed:.1} | {peak} | {refusal:.3} |{last}",
                row.strategy
            );
        }
    }
}
