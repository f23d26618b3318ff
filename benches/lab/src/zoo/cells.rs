//! All cells of the zoo.

mod chance;
mod in_flight;
mod refused;
mod spacing;
mod stated;
mod windows;

use super::cell::{Cell, Goal};
use super::dialect::{Advice, Dialect, Voice};
use super::limit::Limit;
use super::server::Spec;

/// Callers and the seconds of a call, by which a cell is repeated.
type Sizes = &'static [(usize, f64)];

/// The usual sizes.
const USUAL: Sizes = &[(8, 0.02), (8, 0.2), (40, 0.02), (40, 0.2)];
const WITH_ONE: Sizes = &[(1, 0.02), (8, 0.02), (8, 0.2), (40, 0.02), (40, 0.2)];
const TWO: Sizes = &[(8, 0.02), (40, 0.2)];

/// Every cell, the quick ones marked.
pub(crate) fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    spacing::add(&mut cells);
    windows::add(&mut cells);
    in_flight::add(&mut cells);
    chance::add(&mut cells);
    refused::add(&mut cells);
    stated::add(&mut cells);
    // One of each kind of server, and not the one of a single size.
    let mut last = None;
    let mut place = 0_usize;
    for cell in &mut cells {
        let kind = (cell.family, cell.name.clone());
        place = if last.as_ref() == Some(&kind) { place + 1 } else { 0 };
        cell.is_quick = place == 1 && is_of_quick(cell);
        last = Some(kind);
    }
    cells
}

/// A quick run has what takes little time.
fn is_of_quick(cell: &Cell) -> bool {
    cell.demand(0.002) <= 250.0
}

/// A server without headers, at all sizes.
fn plain(
    cells: &mut Vec<Cell>,
    family: &'static str,
    name: &str,
    limit: Limit,
    advice: Advice,
    goal: Goal,
    sizes: Sizes,
) {
    let voice = Voice::new(Dialect::Silent, advice);
    sized(cells, &Cell::new(family, name, Spec::new(limit, voice), goal), sizes);
}

fn sized(cells: &mut Vec<Cell>, cell: &Cell, sizes: Sizes) {
    cells.extend(sizes.iter().map(|&(callers, service)| Cell { callers, service, ..cell.clone() }));
}

const fn bucket(rate: f64, burst: f64) -> Limit {
    Limit::Bucket { rate, burst, delays: false }
}
