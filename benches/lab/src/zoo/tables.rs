//! The zoo as tables.

use std::fmt::Write as _;

use super::changes::PlayedChange;
use super::fleets::jain;
use super::runs::Played;
use crate::strategy::Strategy;

/// A table for each round trip, a line for each cell.
pub(crate) fn cells(played: &[Played], strategies: &[Strategy]) -> String {
    let mut text = String::new();
    for at in played.chunk_by(|one, other| one.round_trip.to_bits() == other.round_trip.to_bits()) {
        let Some(first) = at.first() else { continue };
        let names: String = strategies.iter().map(|strategy| format!(" {strategy} |")).collect();
        let _ = write!(
            text,
            "\n#### The zoo at a round trip of {} ms\n\nGoodput as a share of what is allowed / 429s per success; \
             `!` where the goal is missed, `x` where no gate is known that meets it.\n\n\
             | cell | goal |{names}\n|---|---|{}\n",
            (1000.0 * first.round_trip).round(),
            "---|".repeat(strategies.len())
        );
        for cell in at.chunk_by(|one, other| one.cell.title() == other.cell.title()) {
            let Some(first) = cell.first() else { continue };
            let goal = first.cell.goal;
            let refused = if goal.refused.is_finite() { format!("{}", goal.refused) } else { "any".into() };
            let _ = write!(text, "| {} | {} / {refused} |", first.cell.title(), goal.goodput);
            for played in cell {
                let _ = write!(text, " {} |", figures(played));
            }
            text.push('\n');
        }
    }
    text
}

pub(crate) fn figures(played: &Played) -> String {
    let mut text = format!("{:.2} / {}", played.goodput(), crate::report::per_success(played.refused()));
    if played.given_up() > 0.0 {
        let _ = write!(text, ", {:.1} % given up", 100.0 * played.given_up());
    }
    if !played.is_met() {
        text.push_str(if played.cell.is_out_of_reach { " x" } else { " !" });
    }
    text
}

/// How many cells each strategy meets, family by family.
pub(crate) fn families(played: &[Played], strategies: &[Strategy]) -> String {
    let names: String = strategies.iter().map(|strategy| format!(" {strategy} |")).collect();
    let mut text = format!(
        "\n#### Cells met\n\n| family | cells |{names}\n|---|---|{}\n",
        "---|".repeat(strategies.len())
    );
    let mut families: Vec<&str> = played.iter().map(|it| it.cell.family).collect();
    families.dedup();
    families.sort_unstable();
    families.dedup();
    for family in families.into_iter().map(Some).chain([None]) {
        let of = |strategy: Strategy| {
            played.iter().filter(move |it| {
                it.strategy == strategy && family.is_none_or(|family| it.cell.family == family)
            })
        };
        let cells = strategies.first().map_or(0, |strategy| of(*strategy).count());
        let _ = write!(text, "| {} | {cells} |", family.unwrap_or("all"));
        for strategy in strategies {
            let met = of(*strategy).filter(|it| it.is_met()).count();
            let lowest = of(*strategy).map(Played::goodput).fold(f64::INFINITY, f64::min);
            let _ = write!(text, " {met}, lowest {lowest:.2} |");
        }
        text.push('\n');
    }
    text
}

/// How long until nine tenths of what is allowed get done again, and what was refused meanwhile.
pub(crate) fn changes(changes: &[PlayedChange], ramps: &[Played]) -> String {
    if changes.is_empty() && ramps.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n#### Changes\n\n| change | strategy | s until back | to reach | 429s per success meanwhile |\n|---|---|---|---|---|\n",
    );
    for (change, played) in changes {
        let seeds = played.runs.len();
        let mean = |of: &dyn Fn(usize) -> f64| (0..seeds).map(of).sum::<f64>() / seeds as f64;
        let back = mean(&|seed| change.back_after(played, seed));
        let refused = mean(&|seed| change.refused_meanwhile(played, seed));
        let _ = writeln!(
            text,
            "| {} | {} | {back:.0} | {} | {refused:.3} |",
            change.cell.name, played.strategy, change.within
        );
    }
    for ramp in ramps {
        let _ = writeln!(
            text,
            "| {} | {} | goodput {:.2} | .9 | {:.3} |",
            ramp.cell.name,
            ramp.strategy,
            ramp.goodput(),
            ramp.refused()
        );
    }
    text
}

pub(crate) fn fleets(promised: &[Played], measured: &[Played]) -> String {
    if promised.is_empty() && measured.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n#### Fleets without a store\n\n| fleet | strategy | goodput | 429s per success | Jain index |\n|---|---|---|---|---|\n",
    );
    for played in promised.iter().chain(measured) {
        let jain =
            (0..played.runs.len()).map(|seed| jain(played, seed)).sum::<f64>() / played.runs.len() as f64;
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {:.3} | {jain:.2} |",
            played.cell.title(),
            played.strategy,
            played.goodput(),
            played.refused()
        );
    }
    text
}

/// The rows that the README shows, and what stands there for each.
pub(crate) const SHOWN: [(&str, &str); 4] = [
    ("nginx 20/s, no burst: 40 callers, 0.2 s a call", "nginx `limit_req` 20/s, no burst"),
    ("nginx 20/s, burst 20 nodelay: 40 callers, 0.2 s a call", "the same with a burst of 20"),
    (
        "window 100 in 5 s, whole seconds: 40 callers, 0.02 s a call",
        "a window of 100 in 5 s, `Retry-After` in seconds",
    ),
    ("chance 0.05, advice .3 s: 30 callers, 1 s a call", "5 % refused by chance, each advising .3 s"),
];

/// The README's table: some servers, at the shorter round trip.
pub(crate) fn readme(played: &[Played]) -> String {
    let mut text = String::from(
        "| 30 or 40 callers that never pause | this crate | reqwest-retry | this crate without its gate |\n|---|---|---|---|\n",
    );
    for (title, name) in SHOWN {
        let figure = |strategy: Strategy| {
            let is_it =
                |it: &&Played| it.cell.title() == title && it.strategy == strategy && it.round_trip < 0.05;
            played.iter().find(is_it).map_or("not run".to_owned(), |it| {
                format!("{:.0} % / {}", 100.0 * it.goodput(), crate::report::per_success(it.refused()))
            })
        };
        let [ours, retry, none] = [Strategy::Admission, Strategy::ReqwestRetry, Strategy::NoGate].map(figure);
        let _ = writeln!(text, "| {name} | {ours} | {retry} | {none} |");
    }
    text
}
