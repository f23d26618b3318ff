//! Limits that headers state: as they are, not at all, and wrongly.

use super::{TWO, bucket, sized};
use crate::zoo::cell::{Cell, Goal, Kind};
use crate::zoo::dialect::{Advice, Dialect, Untruth, Voice};
use crate::zoo::limit::{Limit, Start};
use crate::zoo::server::Spec;

/// What a server states.
#[derive(Clone, Copy)]
enum Statement {
    Nothing,
    True,
    Untrue(Untruth),
}

pub(super) fn add(cells: &mut Vec<Cell>) {
    let window = |most, seconds, phase| Limit::Window { most, seconds, start: Start::Aligned(phase) };
    let sliding = Limit::Sliding { most: 100, seconds: 5.0, counts_refused: false };
    for (name, limit, advice) in [
        ("window 100 in 5 s, whole seconds", window(100.0, 5.0, 1.3), Advice::Up),
        ("window 100 in 5 s, no advice", window(100.0, 5.0, 1.3), Advice::Nothing),
        ("window 300 in 60 s, whole seconds", window(300.0, 60.0, 13.0), Advice::Up),
        ("window 300 in 60 s, no advice", window(300.0, 60.0, 13.0), Advice::Nothing),
        ("sliding 100 in 5 s, whole seconds", sliding, Advice::Up),
        ("bucket 20/s of 40, no advice", bucket(20.0, 40.0), Advice::Nothing),
    ] {
        let statements = [Statement::Nothing, Statement::True];
        for statement in statements.into_iter().chain(Untruth::ALL.map(Statement::Untrue)) {
            cells.extend(of(name, &limit, advice, statement));
        }
    }
}

fn of(name: &str, limit: &Limit, advice: Advice, statement: Statement) -> Vec<Cell> {
    let (said, dialect, untruth) = match statement {
        Statement::Nothing => ("nothing", Dialect::Silent, None),
        Statement::True => ("true", Dialect::Draft6, None),
        Statement::Untrue(untruth) => (untruth.name(), Dialect::Draft6, Some(untruth)),
    };
    let goal = if advice == Advice::Nothing { Goal::UNADVISED } else { Goal::ADVISED };
    let spec = Spec::new(limit.clone(), Voice { untruth, ..Voice::new(dialect, advice) });
    let is_minute = name.contains("60 s");
    let cell = Cell::new("stated windows", format!("{name} [{said}]"), spec, goal);
    let cell = if is_minute { cell.for_minutes() } else { Cell { warm_up: 21.3, budget: 90.0, ..cell } };
    let mut cells = Vec::new();
    sized(&mut cells, &cell, TWO);
    for cell in &mut cells {
        cell.kind = match statement {
            Statement::True if matches!(limit, Limit::Window { .. }) => Kind::TrueWindow,
            Statement::Untrue(_) => {
                Kind::Untrue { twin: cell.title().replace(&format!("[{said}]"), "[nothing]") }
            }
            _ => Kind::Limit,
        };
    }
    cells
}
