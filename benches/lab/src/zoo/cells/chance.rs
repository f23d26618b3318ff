//! Refusals that do not depend on the rate of calls, alone and on top of a limit.

use super::bucket;
use crate::zoo::cell::{Cell, Goal, Kind};
use crate::zoo::dialect::{Advice, Dialect, Voice};
use crate::zoo::limit::Limit;
use crate::zoo::server::{Rule, Spec};

/// Calls that are measured, for fewer leave the share that is refused to chance; and seconds, at least and at most.
const CALLS: f64 = 4000.0;
const SECONDS: (f64, f64) = (60.0, 1200.0);

pub(super) fn add(cells: &mut Vec<Cell>) {
    grid(cells);
    on_top(cells);
}

/// The grid of `INDEPENDENT.md`.
fn grid(cells: &mut Vec<Cell>) {
    for share in [0.02, 0.05, 0.1, 0.3] {
        for (advice, said) in [
            (Advice::Nothing, "none"),
            (Advice::Fixed(10), "10 ms"),
            (Advice::Fixed(43), "43 ms"),
            (Advice::Fixed(300), ".3 s"),
            (Advice::Seconds(2), "2 s"),
        ] {
            let spec = Spec::new(Limit::Chance { share }, Voice::new(Dialect::Silent, advice));
            let family = match share {
                0.02 => "chance 2 %",
                0.05 => "chance 5 %",
                0.1 => "chance 10 %",
                _ => "chance 30 %",
            };
            let name = format!("chance {share}, advice {said}");
            let cell = Cell { kind: Kind::Chance, ..Cell::new(family, name, spec, Goal::CHANCE) };
            for callers in [8, 1, 30] {
                for service in [0.05, 1.0] {
                    let rate = callers as f64 / service;
                    let seconds = (CALLS / rate).round().clamp(SECONDS.0, SECONDS.1);
                    cells.push(Cell { callers, service, seconds, ..cell.clone() });
                }
            }
        }
    }
}

fn on_top(cells: &mut Vec<Cell>) {
    let leaky = |advice| Rule::always(bucket(20.0, 40.0)).advising(advice);
    let chance = |advice| Rule::always(Limit::Chance { share: 0.05 }).advising(advice);
    for (name, limit, chance, is_out_of_reach) in [
        (
            "leaky 20/s of 40, exact advice, and chance .05",
            leaky(Advice::Milliseconds),
            chance(Advice::Nothing),
            false,
        ),
        (
            "leaky 20/s of 40, no advice, and chance .05",
            leaky(Advice::Nothing),
            chance(Advice::Nothing),
            false,
        ),
        (
            "leaky 20/s of 40, exact advice, and chance .05 of .5 s",
            leaky(Advice::Milliseconds),
            chance(Advice::Fixed(500)),
            true,
        ),
        (
            "16 at once, and chance .05 of 20 ms",
            Rule::always(Limit::InFlight { most: 16 }),
            chance(Advice::Fixed(20)),
            false,
        ),
    ] {
        let goal = Goal { goodput: 0.9, refused: f64::INFINITY };
        let spec = Spec {
            rules: vec![limit, chance],
            voice: Voice::new(Dialect::Silent, Advice::Nothing),
            banned: None,
        };
        let cell = Cell { is_out_of_reach, ..Cell::new("limit and chance", name, spec, goal) };
        let (few, many) =
            if name.starts_with("16") { ((24, 0.2), (50, 0.2)) } else { ((8, 0.02), (40, 0.2)) };
        cells.push(Cell { callers: few.0, service: few.1, ..cell.clone() });
        cells.push(Cell { callers: many.0, service: many.1, ..cell });
    }
}
