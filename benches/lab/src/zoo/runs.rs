//! Plays cells, on all cores, and what came out of them.

use serde_json::{Value, json};

use super::cell::{Cell, Kind};
use super::cells;
use super::changes::RAMP_ALLOWS;
use super::world::{Outcome, play};
use crate::args::Args;
use crate::in_parallel;
use crate::strategy::Strategy;

/// Seconds to the server and back.
pub(crate) const ROUND_TRIPS: [f64; 2] = [0.002, 0.1];
/// Fewer successes than this may be refused six times in all, whatever their share.
const FEW: u64 = 100;
const REFUSED_OF_FEW: u64 = 6;

/// One cell as one strategy came out of it, seed by seed.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    pub(crate) cell: Cell,
    pub(crate) round_trip: f64,
    pub(crate) strategy: Strategy,
    pub(crate) runs: Vec<Outcome>,
    /// The work of a second that is allowed, for each seed.
    pub(crate) allowed: Vec<f64>,
}

impl Played {
    /// Share of what is allowed, with one seed.
    pub(crate) fn goodput_of(&self, seed: usize) -> f64 {
        self.runs[seed].done / self.cell.seconds / self.allowed[seed]
    }

    pub(crate) fn refused_of(&self, seed: usize) -> f64 {
        let Outcome { refused, successes, .. } = self.runs[seed];
        refused as f64 / (successes as f64).max(1.0)
    }

    /// Share of the calls of those who are not always refused that were given up.
    pub(crate) fn given_up_of(&self, seed: usize) -> f64 {
        let Outcome { given_up, successes, .. } = self.runs[seed];
        given_up as f64 / (given_up as f64 + successes as f64).max(1.0)
    }

    pub(crate) fn mean(&self, of: fn(&Self, usize) -> f64) -> f64 {
        (0..self.runs.len()).map(|seed| of(self, seed)).sum::<f64>() / self.runs.len() as f64
    }

    pub(crate) fn goodput(&self) -> f64 {
        self.mean(Self::goodput_of)
    }

    pub(crate) fn refused(&self) -> f64 {
        self.mean(Self::refused_of)
    }

    pub(crate) fn given_up(&self) -> f64 {
        self.mean(Self::given_up_of)
    }

    /// Whether the goal is met with one seed. Half a percent is chance.
    pub(crate) fn meets(&self, seed: usize) -> bool {
        let Outcome { refused, successes, .. } = self.runs[seed];
        let is_few = successes < FEW && refused <= REFUSED_OF_FEW;
        self.goodput_of(seed) >= self.cell.goal.goodput - 0.005
            && (is_few || self.refused_of(seed) <= self.cell.goal.refused + 0.0005)
    }

    /// Whether the goal is met by most seeds.
    pub(crate) fn is_met(&self) -> bool {
        2 * (0..self.runs.len()).filter(|seed| self.meets(*seed)).count() > self.runs.len()
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "family": self.cell.family,
            "cell": self.cell.title(),
            "round_trip_s": self.round_trip,
            "strategy": self.strategy.name(),
            "goodput": self.goodput(),
            "rejections_per_success": self.refused(),
            "given_up": self.given_up(),
            "allowed_per_s": self.allowed.iter().sum::<f64>() / self.allowed.len() as f64,
            "met": self.is_met(),
            "kept_aside": self.cell.is_kept_aside(),
            "seeds": self.runs.len(),
            "varies": self.strategy.varies(),
        })
    }
}

/// Which cells of the zoo are played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Few of each kind.
    Quick,
    /// All but those kept aside.
    Whole,
    /// Those kept aside alone.
    KeptAside,
}

/// The cells that are asked for, at both round trips.
pub(crate) fn chosen(extent: Extent, is_asked: impl Fn(&Cell) -> bool) -> Vec<(Cell, f64)> {
    let is_in = |cell: &Cell| {
        let is_in = match extent {
            Extent::Quick => cell.is_quick && !cell.is_kept_aside(),
            Extent::Whole => !cell.is_kept_aside(),
            Extent::KeptAside => cell.is_kept_aside(),
        };
        is_in && is_asked(cell)
    };
    let cells: Vec<Cell> = cells::all().into_iter().filter(is_in).collect();
    let at = |round_trip: f64| {
        let cells = cells.iter().filter(move |cell| cell.is_worth_playing(round_trip));
        cells.map(move |cell| (cell.clone(), round_trip))
    };
    ROUND_TRIPS.into_iter().flat_map(at).collect()
}

/// Plays every cell with every strategy that is asked for.
pub(crate) fn measure(
    args: &Args,
    cells: &[(Cell, f64)],
    strategies: &[Strategy],
    seeds: u64,
) -> Vec<Played> {
    // Chance has no bound but what is reached without any gate.
    let bound = |cell: &Cell, strategy: Strategy| cell.kind == Kind::Chance && strategy == Strategy::NoGate;
    let jobs: Vec<(usize, Strategy, u64)> = cells
        .iter()
        .enumerate()
        .flat_map(|(number, (cell, _))| {
            let plays = |strategy: &Strategy| strategies.contains(strategy) || bound(cell, *strategy);
            let strategies = Strategy::ZOO.into_iter().filter(plays).collect::<Vec<_>>();
            strategies.into_iter().flat_map(move |strategy| {
                let seeds = if strategies_of_one_seed(strategy) { 1 } else { seeds };
                (args.seed..args.seed + seeds).map(move |seed| (number, strategy, seed))
            })
        })
        .collect();
    let outcomes = in_parallel(&jobs, |(number, strategy, seed)| {
        let (cell, round_trip) = &cells[*number];
        play(cell, *round_trip, *strategy, *seed)
    });
    let runs_of = |number: usize, strategy: Strategy| -> Vec<Outcome> {
        let is_it = |job: &(usize, Strategy, u64)| (job.0, job.1) == (number, strategy);
        jobs.iter().zip(&outcomes).filter(|(job, _)| is_it(job)).map(|(_, outcome)| outcome.clone()).collect()
    };
    let mut played = Vec::new();
    for (number, (cell, round_trip)) in cells.iter().enumerate() {
        for strategy in strategies {
            let runs = runs_of(number, *strategy);
            let allowed = if cell.name.starts_with("ramp") {
                vec![RAMP_ALLOWS; runs.len()]
            } else if cell.kind == Kind::Chance {
                let bounds: Vec<f64> =
                    runs_of(number, Strategy::NoGate).iter().map(|run| run.done / cell.seconds).collect();
                (0..runs.len()).map(|seed| bounds[seed % bounds.len()]).collect()
            } else {
                vec![cell.allowed(*round_trip); runs.len()]
            };
            played.push(Played {
                cell: cell.clone(),
                round_trip: *round_trip,
                strategy: *strategy,
                runs,
                allowed,
            });
        }
    }
    played
}

/// Those beside ours show what they show with one seed, and take long.
const fn strategies_of_one_seed(strategy: Strategy) -> bool {
    matches!(strategy, Strategy::ReqwestRetry | Strategy::CoolDown)
}
