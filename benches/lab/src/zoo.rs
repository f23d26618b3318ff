//! The zoo: servers that limit in as many ways as real ones do, and what the middleware makes of each.
//!
//! The real middleware, in virtual time. A cell is a server with so many callers; what they get done is held against what
//! perfect knowledge would, and against what the same callers get done in other ways.

#![allow(clippy::indexing_slicing, reason = "numbers of its own; if they are wrong the run is to fail")]

pub(crate) mod cell;
pub(crate) mod cells;
pub(crate) mod changes;
mod checks;
pub(crate) mod dialect;
pub(crate) mod fleets;
pub(crate) mod limit;
mod pages;
pub(crate) mod runs;
pub(crate) mod scale;
pub(crate) mod server;
mod sweep;
pub(crate) mod tables;
pub(crate) mod world;
mod written;

use std::error::Error;
use std::path::Path;

use crate::args::Args;
use crate::output::{print, say};
use crate::results;
use crate::strategy::Strategy;
use crate::targets::{self, Check};
use cell::Cell;
use changes::PlayedChange;
use runs::{Extent, Played};

/// Seeds of a whole run, and of a quick one.
const SEEDS: u64 = 3;
const QUICK_SEEDS: u64 = 2;
/// The names by which `--scenario` asks for a part.
pub(crate) const PARTS: [&str; 3] = ["zoo", "changes", "fleets"];

/// Everything of the zoo that was played.
struct Zoo {
    extent: Extent,
    strategies: Vec<Strategy>,
    cells: Vec<Played>,
    changes: Vec<PlayedChange>,
    ramps: Vec<Played>,
    promised: Vec<Played>,
    measured: Vec<Played>,
}

impl Zoo {
    fn play(args: &Args, extent: Extent, strategies: &[Strategy]) -> Self {
        let seeds = match extent {
            _ if args.noise => 8,
            Extent::Quick => QUICK_SEEDS,
            Extent::Whole | Extent::KeptAside => SEEDS,
        };
        let filter = args.cells.as_deref();
        let is_asked =
            |cell: &Cell| filter.is_none_or(|part| cell.title().contains(part) || cell.family.contains(part));
        let wants = |part| args.wants_scenario(part) && extent != Extent::KeptAside;
        let at_two = |cells: Vec<Cell>| -> Vec<(Cell, f64)> {
            cells.into_iter().filter(is_asked).map(|cell| (cell, runs::ROUND_TRIPS[0])).collect()
        };
        let play =
            |cells: &[(Cell, f64)], strategies: &[Strategy]| runs::measure(args, cells, strategies, seeds);

        let cells = if args.wants_scenario("zoo") { runs::chosen(extent, is_asked) } else { Vec::new() };
        let all = if wants("changes") { changes::all() } else { Vec::new() };
        let all: Vec<_> = all.into_iter().filter(|change| is_asked(&change.cell)).collect();
        let ramps = if wants("changes") { changes::ramps() } else { Vec::new() };
        let changes = play(&at_two(all.iter().map(|change| change.cell.clone()).collect()), strategies);
        let with_cool_down = if strategies.contains(&Strategy::Admission) {
            &[Strategy::Admission, Strategy::CoolDown][..]
        } else {
            strategies
        };
        let (promised, measured) =
            if wants("fleets") { (fleets::promised(), fleets::measured()) } else { (Vec::new(), Vec::new()) };
        Self {
            extent,
            strategies: strategies.to_vec(),
            cells: play(&cells, strategies),
            changes: all
                .iter()
                .flat_map(|change| std::iter::repeat_n(change.clone(), strategies.len()))
                .zip(changes)
                .collect(),
            ramps: play(&at_two(ramps), strategies),
            promised: play(&at_two(promised), strategies),
            measured: play(&at_two(measured), with_cool_down),
        }
    }

    fn checks(&self) -> Vec<Check> {
        let is_quick = self.extent == Extent::Quick;
        let is_ours = |played: &&Played| played.strategy == Strategy::Admission;
        let ours = |played: &[Played]| played.iter().filter(is_ours).cloned().collect::<Vec<_>>();
        let changes: Vec<PlayedChange> =
            self.changes.iter().filter(|(_, played)| is_ours(&played)).cloned().collect();
        let mut checks = checks::checks(&self.cells, self.extent);
        checks.extend(changes::checks(&changes, &ours(&self.ramps), is_quick));
        checks.extend(fleets::checks(&ours(&self.promised), &self.measured, is_quick));
        checks
    }

    /// Writes what is shorter than all cells into the files that show it.
    fn write(&self, checks: &[Check]) -> Result<(), Box<dyn Error>> {
        let text = tables::families(&self.cells, &self.strategies)
            + &tables::changes(&self.changes, &self.ramps)
            + &tables::fleets(&self.promised, &self.measured)
            + &targets::table(checks);
        results::replace(Path::new(results::RESULTS), "zoo", &text)?;
        results::replace(Path::new(results::README), "zoo", &tables::readme(&self.cells))?;
        Ok(())
    }

    fn print(&self) -> Result<(), Box<dyn Error>> {
        print(tables::cells(&self.cells, &self.strategies))?;
        print(tables::families(&self.cells, &self.strategies))?;
        print(tables::changes(&self.changes, &self.ramps))?;
        print(tables::fleets(&self.promised, &self.measured))?;
        Ok(())
    }
}

/// Plays the zoo as it is asked for and prints it; false where a check fails.
pub(crate) fn run(args: &Args) -> Result<bool, Box<dyn Error>> {
    if let Some(name) = &args.sweep {
        print(sweep::constant(args, name)?)?;
        return Ok(true);
    }
    if !args.without.is_empty() {
        print(sweep::rules(args, &args.without)?)?;
        return Ok(true);
    }
    if args.scale {
        return scale::run();
    }
    let extent = match (args.hold_out, args.is_quick_asked) {
        (true, _) => Extent::KeptAside,
        (false, true) => Extent::Quick,
        (false, false) => Extent::Whole,
    };
    let strategies: Vec<Strategy> =
        Strategy::ZOO.into_iter().filter(|strategy| args.wants(*strategy)).collect();
    let zoo = Zoo::play(args, extent, &strategies);
    if args.json {
        let changes = zoo.changes.iter().map(|(_, played)| played);
        for played in
            zoo.cells.iter().chain(changes).chain(&zoo.ramps).chain(&zoo.promised).chain(&zoo.measured)
        {
            print(format_args!("{}\n", played.json()))?;
        }
    } else if !args.report {
        zoo.print()?;
    }
    if args.report {
        let folder = Path::new("target/lab/zoo");
        let path = pages::write(&zoo.cells, &zoo.changes, &zoo.strategies, folder)?;
        print(format_args!("{}\n", path.display()))?;
        return Ok(true);
    }
    let checks = zoo.checks();
    if args.results {
        zoo.write(&checks)?;
    }
    if !args.json {
        print(format_args!("{}\n", targets::table(&checks)))?;
    }
    let complaints = targets::complaints(&checks);
    if args.check {
        complaints.iter().for_each(|complaint| say(format_args!("MISSED {complaint}")));
        say(targets::summary(&checks));
    }
    Ok(!args.check || complaints.is_empty())
}

/// The checks of a run of everything: quick, or with all cells but those kept aside.
pub(crate) fn checks(args: &Args) -> Vec<Check> {
    if !args.wants(Strategy::Admission) {
        return Vec::new();
    }
    let extent = if args.quick { Extent::Quick } else { Extent::Whole };
    Zoo::play(args, extent, &[Strategy::Admission, Strategy::CoolDown]).checks()
}
