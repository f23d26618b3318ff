//! What the zoo has to show, as checks of the lab.

use super::cell::{Cell, Kind};
use super::limit::Limit;
use super::runs::{Extent, Played};
use crate::strategy::Strategy;
use crate::targets::Check;

/// A call that would have to wait for longer than this share of its budget, were everything known, may be given up.
const SPARE: f64 = 0.5;
/// What an untrue statement may cost beside none at all: chance, for a cell is played with few seeds.
const LOST_TO_UNTRUTH: f64 = 0.03;
const REFUSED_BY_UNTRUTH: f64 = 0.02;

/// Batch calls that are served in ten minutes: a waiter counts as one of the next class after ten seconds, and then takes
/// his turn.
const BATCH: f64 = 20.0;
/// The safety net: what is reached of what the same callers reach with a shared cool-down alone.
const NET: f64 = 0.5;

/// All checks of what was played; for those kept aside only the share that is met.
pub(crate) fn checks(played: &[Played], extent: Extent) -> Vec<Check> {
    let ours: Vec<&Played> = played.iter().filter(|it| it.strategy == Strategy::Admission).collect();
    let seeds = ours.first().map_or(0, |it| it.runs.len());
    let checks = Checks { ours, seeds, is_quick: extent == Extent::Quick };
    if extent == Extent::KeptAside {
        return checks.cells_met("zoo, kept aside", 0.8, |_| true).into_iter().collect();
    }
    let mut all = Vec::new();
    all.extend(checks.cells_met("zoo, round trip 2 ms", 0.95, |it| it.round_trip < 0.05));
    all.extend(checks.cells_met("zoo, round trip 100 ms", 0.85, |it| it.round_trip > 0.05));
    let reachable = |it: &Played| !it.cell.is_out_of_reach;
    all.extend(checks.lowest("zoo", "lowest goodput", 0.6, reachable, Played::goodput_of));
    let chance = |it: &Played| it.cell.kind == Kind::Chance;
    all.extend(checks.lowest("zoo, chance", "lowest goodput", 0.8, chance, Played::goodput_of));
    all.extend(checks.middle("zoo, chance", "middle goodput", 0.95, chance));
    let is_true = |it: &Played| it.cell.kind == Kind::TrueWindow;
    all.extend(checks.lowest(
        "zoo, windows truly stated",
        "lowest goodput",
        0.98,
        is_true,
        Played::goodput_of,
    ));
    all.extend(checks.highest(
        "zoo, windows truly stated",
        "429s per success",
        0.01,
        is_true,
        Played::refused_of,
    ));
    all.extend(checks.untruths());
    let banned = |it: &Played| it.cell.kind == Kind::Banned;
    let beside = "zoo, beside callers always refused";
    all.extend(checks.lowest(beside, "lowest goodput", 0.95, banned, Played::goodput_of));
    let batch = |it: &Played| it.cell.kind == Kind::Batch;
    let served = |it: &Played, seed: usize| it.runs[seed].batch as f64;
    all.extend(checks.lowest("zoo, batch beside normal calls", "batch calls served", BATCH, batch, served));
    all.extend(checks.beside_a_cool_down(played));
    all.extend(checks.highest(
        "zoo",
        "calls sent again early",
        0.0,
        |_| true,
        |it, seed| it.runs[seed].early as f64,
    ));
    all.extend(checks.highest("zoo", "given up in time", 0.0, has_time, Played::given_up_of));
    all
}

/// Whether nobody has to give a call up.
fn has_time(played: &Played) -> bool {
    let Played { cell, allowed, .. } = played;
    let by_chance =
        |cell: &Cell| cell.spec.rules.iter().any(|rule| matches!(rule.limit, Limit::Chance { .. }));
    let wait = cell.callers as f64 / allowed.first().copied().unwrap_or(1.0);
    wait <= SPARE * cell.budget && !by_chance(cell) && !cell.is_out_of_reach
}

struct Checks<'a> {
    ours: Vec<&'a Played>,
    seeds: usize,
    is_quick: bool,
}

impl Checks<'_> {
    fn of(&self, which: impl Fn(&Played) -> bool) -> Vec<&Played> {
        self.ours.iter().copied().filter(|it| which(it)).collect()
    }

    /// A check of one value for each seed; none where nothing of its kind was played.
    fn check(
        &self,
        (case, what): (&str, &'static str),
        (at_least, target): (bool, f64),
        cells: &[&Played],
        of_seed: impl Fn(usize) -> f64,
    ) -> Option<Check> {
        let values: Vec<f64> = (0..self.seeds).map(of_seed).collect();
        (!cells.is_empty()).then(|| Check::of_seeds(case, what, &values, (at_least, target), self.is_quick))
    }

    fn cells_met(&self, case: &str, target: f64, which: impl Fn(&Played) -> bool) -> Option<Check> {
        let cells = self.of(which);
        let share = |seed| cells.iter().filter(|it| it.meets(seed)).count() as f64 / cells.len() as f64;
        self.check((case, "share of cells met"), (true, target), &cells, share)
    }

    /// Of the cell that is worst by the mean over seeds; the noise is that of the worst of each seed.
    fn lowest(
        &self,
        case: &str,
        what: &'static str,
        target: f64,
        which: impl Fn(&Played) -> bool,
        of: fn(&Played, usize) -> f64,
    ) -> Option<Check> {
        let cells = self.of(which);
        let lowest = |seed| cells.iter().map(|it| of(it, seed)).fold(f64::INFINITY, f64::min);
        let mut check = self.check((case, what), (true, target), &cells, lowest)?;
        check.value = cells.iter().map(|it| it.mean(of)).fold(f64::INFINITY, f64::min);
        Some(check)
    }

    fn highest(
        &self,
        case: &str,
        what: &'static str,
        target: f64,
        which: impl Fn(&Played) -> bool,
        of: fn(&Played, usize) -> f64,
    ) -> Option<Check> {
        let cells = self.of(which);
        let highest = |seed| cells.iter().map(|it| of(it, seed)).fold(0.0, f64::max);
        let mut check = self.check((case, what), (false, target), &cells, highest)?;
        check.value = cells.iter().map(|it| it.mean(of)).fold(0.0, f64::max);
        Some(check)
    }

    fn middle(
        &self,
        case: &str,
        what: &'static str,
        target: f64,
        which: impl Fn(&Played) -> bool,
    ) -> Option<Check> {
        let cells = self.of(which);
        let middle = |seed| {
            let mut goodputs: Vec<f64> = cells.iter().map(|it| it.goodput_of(seed)).collect();
            goodputs.sort_by(f64::total_cmp);
            goodputs.get(goodputs.len() / 2).copied().unwrap_or(0.0)
        };
        self.check((case, what), (true, target), &cells, middle)
    }

    /// The safety net. The cool-down is played with one seed.
    fn beside_a_cool_down(&self, played: &[Played]) -> Option<Check> {
        let share = |it: &Played, seed: usize| {
            let is_its = |other: &&Played| {
                other.strategy == Strategy::CoolDown
                    && other.round_trip.to_bits() == it.round_trip.to_bits()
                    && other.cell.title() == it.cell.title()
            };
            let other = played.iter().find(is_its).map(Played::goodput);
            other.filter(|other| *other > 0.0).map(|other| it.goodput_of(seed) / other)
        };
        let cells = self.of(|it| it.runs.len() == self.seeds && share(it, 0).is_some());
        let lowest = |seed| cells.iter().filter_map(|it| share(it, seed)).fold(f64::INFINITY, f64::min);
        self.check(("zoo", "lowest goodput to a cool-down alone"), (true, NET), &cells, lowest)
    }

    /// What is stated wrongly, beside the same server that states nothing.
    fn untruths(&self) -> Vec<Check> {
        let twin = |it: &Played| {
            let Kind::Untrue { twin } = &it.cell.kind else { return None };
            let is_it = |other: &&&Played| {
                other.cell.title() == *twin && other.round_trip.to_bits() == it.round_trip.to_bits()
            };
            self.ours.iter().find(is_it).copied()
        };
        let pairs: Vec<(&Played, &Played)> =
            self.ours.iter().filter_map(|it| Some((*it, twin(it)?))).collect();
        let cells: Vec<&Played> = pairs.iter().map(|(it, _)| *it).collect();
        let most = |of: fn(&Played, usize) -> f64, sign: f64| {
            let pairs = &pairs;
            move |seed| {
                pairs.iter().map(|(it, twin)| sign * (of(it, seed) - of(twin, seed))).fold(0.0, f64::max)
            }
        };
        let case = "zoo, untrue statements beside none";
        let lost = most(Played::goodput_of, -1.0);
        let refused = most(Played::refused_of, 1.0);
        let lost = self.check((case, "goodput lost"), (false, LOST_TO_UNTRUTH), &cells, lost);
        lost.into_iter()
            .chain(self.check((case, "429s per success more"), (false, REFUSED_BY_UNTRUTH), &cells, refused))
            .collect()
    }
}
