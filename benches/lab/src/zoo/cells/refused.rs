//! One or three callers that are always refused, beside others that are not.

use super::bucket;
use crate::zoo::cell::{Cell, Goal, Kind};
use crate::zoo::dialect::{Advice, Dialect, Voice};
use crate::zoo::server::{Banned, Rule, Spec};

const FAMILY: &str = "callers that are always refused";

pub(super) fn add(cells: &mut Vec<Cell>) {
    for advice in [None, Some(1), Some(60)] {
        let said = advice.map_or("no advice".into(), |seconds| format!("{seconds} s"));
        for is_limited in [false, true] {
            for (banned_path, path) in [("chat/completions", "same path"), ("embeddings", "other path")] {
                for is_fresh in [true, false] {
                    // On another path it makes no difference to others how the refused one goes on.
                    if path == "other path" && !is_fresh {
                        continue;
                    }
                    let call = if is_fresh { "a fresh call" } else { "the same call" };
                    let server = if is_limited { ", leaky 20/s of 40" } else { "" };
                    let name = format!("refused with {said}, {call}, {path}{server}");
                    let of = |banned: usize| {
                        let spec = Spec {
                            rules: if is_limited {
                                vec![Rule::always(bucket(20.0, 40.0))]
                            } else {
                                Vec::new()
                            },
                            voice: Voice::new(Dialect::Silent, Advice::Nothing),
                            banned: Some(Banned { callers: banned, advice }),
                        };
                        let cell = Cell::new(FAMILY, name.clone(), spec, Goal::UNADVISED);
                        Cell { kind: Kind::Banned, banned_path, ..timed(cell, advice, is_fresh) }
                    };
                    cells.push(Cell { callers: 9, ..of(1) });
                    cells.push(Cell { callers: 41, ..of(1) });
                    if path == "same path" && !is_limited {
                        cells.push(Cell { callers: 41, service: 2.0, ..of(1) });
                        cells.push(Cell { callers: 43, ..of(3) });
                    }
                }
            }
        }
    }
}

/// The others have time to sit a closing out; what two of those take is allowed for.
fn timed(cell: Cell, advice: Option<u32>, is_fresh: bool) -> Cell {
    let is_long = advice.is_some_and(|seconds| seconds > 10);
    Cell {
        warm_up: if is_long { 0.0 } else { 20.0 },
        seconds: if is_long { 400.0 } else { 180.0 },
        budget: 300.0,
        banned_budget: if is_fresh { 5.0 } else { 300.0 },
        // As many as the policy can take: it is the same call that comes again.
        attempts: (!is_fresh).then_some(100),
        ..cell
    }
}
