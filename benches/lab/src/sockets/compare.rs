//! Real figures beside virtual ones, and how far they may differ.

use std::fmt::Write as _;

use serde_json::json;

use super::callers::Protocol;
use super::{CALLERS, Real};
use crate::model::{Figures, Scenario};
use crate::strategy::Strategy;

/// One strategy's runs in virtual time: the same calls, in a different disorder each time.
#[derive(Clone, Debug)]
pub(crate) struct Virtual {
    pub(crate) scenario: Scenario,
    pub(crate) strategy: Strategy,
    pub(crate) runs: Vec<Figures>,
}

/// A figure, and what real time may do to it beyond the difference between one virtual run and another.
#[derive(Clone, Copy, Debug)]
struct Figure {
    name: &'static str,
    of: fn(&Figures) -> f64,
    /// As a share of the virtual figure, and in its own unit.
    share: f64,
    unit: f64,
    /// What others than ours may differ by in addition.
    others: f64,
}

/// Timers are up to 2 ms late, a request takes up to a millisecond and a first one a connection more, and a busy machine
/// takes hundreds of milliseconds away at a time, which the slowest calls show most. Of others, microseconds decide who
/// of a herd is served first, and who leaves refusals unread may lose an HTTP/2 connection with all calls on it.
/// `benches/RESULTS.md` has what was measured.
const FIGURES: [Figure; 6] = [
    Figure { name: "goodput", of: |figures| figures.goodput, share: 0.0, unit: 0.015, others: 0.0 },
    Figure {
        name: "429s per success",
        of: |figures| figures.rejections_per_success,
        share: 0.1,
        unit: 0.005,
        others: 0.0,
    },
    Figure { name: "p50 s", of: |figures| figures.p50, share: 0.02, unit: 0.1, others: 1.0 },
    Figure { name: "p99 s", of: |figures| figures.p99, share: 0.02, unit: 0.25, others: 1.0 },
    Figure { name: "failed", of: |figures| figures.failed, share: 0.0, unit: 0.001, others: 0.03 },
    Figure { name: "peak 429s in a second", of: |figures| figures.peak, share: 0.1, unit: 2.0, others: 0.0 },
];

impl Virtual {
    fn mean(&self, figure: &Figure) -> f64 {
        self.runs.iter().map(figure.of).sum::<f64>() / self.runs.len() as f64
    }

    /// The standard deviation between one run and another.
    fn deviation(&self, figure: &Figure) -> f64 {
        let mean = self.mean(figure);
        let squares: f64 = self.runs.iter().map(|run| ((figure.of)(run) - mean).powi(2)).sum();
        (squares / (self.runs.len() as f64 - 1.0).max(1.0)).sqrt()
    }

    /// By how much one real minute may differ from the virtual mean: four standard deviations, which chance
    /// hardly ever exceeds, and what real time does.
    fn allowed(&self, figure: &Figure) -> f64 {
        let chance = self.deviation(figure) * (1.0 + 1.0 / self.runs.len() as f64).sqrt();
        let others = if self.strategy.is_peer() { figure.others } else { 0.0 };
        4.0 * chance + figure.share * self.mean(figure) + figure.unit + others
    }

    fn is_of(&self, real: &Real) -> bool {
        self.strategy == real.strategy && self.scenario.load == real.scenario.load
    }
}

/// A real run and its virtual counterpart.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    real: Real,
    counterpart: Virtual,
}

impl Beside {
    /// # Panics
    ///
    /// Where `virtual_runs` has none of the strategy and load.
    #[expect(clippy::expect_used, reason = "every strategy that runs has its counterpart")]
    pub(crate) fn new(real: Real, virtual_runs: &[Virtual]) -> Self {
        let counterpart = virtual_runs.iter().find(|run| run.is_of(&real)).expect("a counterpart").clone();
        Self { real, counterpart }
    }

    /// What the real run shows that the virtual ones, or the promises of the middleware, rule out.
    pub(crate) fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        for figure in &FIGURES {
            let (real, expected) = ((figure.of)(&self.real.figures), self.counterpart.mean(figure));
            let allowed = self.counterpart.allowed(figure);
            if (real - expected).abs() > allowed {
                found.push(format!("{}: {real:.4}, virtually {expected:.4} ± {allowed:.4}", figure.name));
            }
        }
        let Real { protocol, strategy, seen, in_use, .. } = self.real;
        let by_http2 = if protocol == Protocol::Http2 { seen.requests } else { 0 };
        if seen.by_http2 != by_http2 || seen.requests == 0 {
            found.push(format!("{} of {} requests by HTTP/2", seen.by_http2, seen.requests));
        }
        if strategy == Strategy::Admission {
            let connections = if protocol == Protocol::Http2 { 1 } else { CALLERS };
            if seen.connections > connections {
                found.push(format!("{} connections, {connections} are enough", seen.connections));
            }
            if seen.early > 0 {
                found.push(format!("{} requests before the advised moment", seen.early));
            }
            if in_use > 0 || seen.open == 0 {
                found
                    .push(format!("{} calls cut off, {in_use} permits and places not given back", seen.open));
            }
        }
        let title = title(protocol, &self.real.scenario);
        found.into_iter().map(|what| format!("{title}, {strategy}: {what}")).collect()
    }
}

fn title(protocol: Protocol, scenario: &Scenario) -> String {
    let Scenario { callers, capacity, load, .. } = scenario;
    format!("{}, {callers} callers, {capacity} tokens/s, {load}x", protocol.name())
}

/// The real runs under their titles, each below its virtual counterpart, as Markdown.
pub(crate) fn tables(beside: &[Beside], virtual_runs: &[Virtual]) -> String {
    let mut text = String::new();
    for case in beside.chunk_by(|one, other| {
        one.real.protocol == other.real.protocol && one.real.scenario.load == other.real.scenario.load
    }) {
        let Some(Beside { real: Real { protocol, scenario, .. }, .. }) = case.first() else { continue };
        let _ = writeln!(text, "\n### {}\n", title(*protocol, scenario));
        let _ = writeln!(
            text,
            "| strategy | clock | goodput % | 429/success | p50 s | p99 s | failed % | peak 429/s | sent early | connections |"
        );
        let _ = writeln!(text, "|---|---|---|---|---|---|---|---|---|---|");
        let is_oracle =
            |run: &&Virtual| run.strategy == Strategy::Oracle && run.scenario.load == scenario.load;
        for oracle in virtual_runs.iter().filter(is_oracle) {
            let _ = writeln!(
                text,
                "| {} | virtual | {} | | |",
                oracle.strategy,
                cells(&mean_and_deviation(oracle))
            );
        }
        for Beside { real, counterpart } in case {
            let _ = writeln!(
                text,
                "| {} | virtual | {} | | |",
                counterpart.strategy,
                cells(&mean_and_deviation(counterpart))
            );
            let figures = FIGURES.each_ref().map(|figure| ((figure.of)(&real.figures), None));
            let Real { seen, .. } = real;
            let _ =
                writeln!(text, "| | real | {} | {} | {} |", cells(&figures), seen.early, seen.connections);
        }
        for Beside { real: Real { strategy, seen, in_use, .. }, .. } in case {
            if *strategy == Strategy::Admission {
                let _ = writeln!(
                    text,
                    "\n{} calls were cut off at the end; permits and places in the queue not given back: {in_use}.",
                    seen.open
                );
            }
        }
    }
    text
}

fn mean_and_deviation(run: &Virtual) -> [(f64, Option<f64>); 6] {
    FIGURES.each_ref().map(|figure| (run.mean(figure), Some(run.deviation(figure))))
}

/// The figures of a row; shares in percent.
fn cells(figures: &[(f64, Option<f64>); 6]) -> String {
    let formats: [(f64, usize); 6] = [(100.0, 1), (1.0, 4), (1.0, 3), (1.0, 3), (100.0, 1), (1.0, 0)];
    let cell = |((value, deviation), (factor, digits)): (&(f64, Option<f64>), (f64, usize))| {
        let value = factor * value;
        deviation.map_or_else(
            || format!("{value:.digits$}"),
            |deviation| format!("{value:.digits$} ± {:.digits$}", factor * deviation),
        )
    };
    figures.iter().zip(formats).map(cell).collect::<Vec<_>>().join(" | ")
}

/// One object for each real run, with its counterpart's means and what they may differ by.
pub(crate) fn json(beside: &[Beside], virtual_runs: &[Virtual]) -> String {
    let mut text = String::new();
    for oracle in virtual_runs.iter().filter(|run| run.strategy == Strategy::Oracle) {
        let means: Vec<_> = FIGURES.iter().map(|figure| json!([figure.name, oracle.mean(figure)])).collect();
        let _ = writeln!(
            text,
            "{}",
            json!({"strategy": "oracle", "load": oracle.scenario.load, "virtual": means})
        );
    }
    for Beside { real, counterpart } in beside {
        let Real { protocol, scenario, strategy, seen, in_use, .. } = real;
        let figures: Vec<_> = FIGURES
            .iter()
            .map(|figure| {
                json!({
                    "figure": figure.name,
                    "real": (figure.of)(&real.figures),
                    "virtual": counterpart.mean(figure),
                    "deviation": counterpart.deviation(figure),
                    "allowed": counterpart.allowed(figure),
                })
            })
            .collect();
        let _ = writeln!(
            text,
            "{}",
            json!({
                "scenario": "sockets",
                "protocol": protocol.name(),
                "strategy": strategy.name(),
                "callers": scenario.callers,
                "load": scenario.load,
                "seed": scenario.seed,
                "figures": figures,
                "requests": seen.requests,
                "early": seen.early,
                "connections": seen.connections,
                "cut_off": seen.open,
                "in_use": in_use,
            })
        );
    }
    text
}
