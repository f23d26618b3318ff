//! Leaky and token buckets, GCRA and spacing: what is not used is saved, or nothing is.

use super::{Sizes, USUAL, WITH_ONE, bucket, plain, sized};
use crate::zoo::cell::{Cell, Goal, Kind};
use crate::zoo::dialect::{Advice, Dialect, Voice};
use crate::zoo::limit::Limit;
use crate::zoo::server::Spec;

pub(super) fn add(cells: &mut Vec<Cell>) {
    buckets(cells);
    nginx(cells);
    costs(cells);
    loads(cells);
    batch(cells);
}

fn buckets(cells: &mut Vec<Cell>) {
    let plain = |cells: &mut Vec<Cell>, name: &str, limit, advice, sizes| {
        let goal = if advice == Advice::Nothing { Goal::UNADVISED } else { Goal::ADVISED };
        plain(cells, "buckets", name, limit, advice, goal, sizes);
    };
    plain(cells, "leaky 20/s of 40, exact advice", bucket(20.0, 40.0), Advice::Milliseconds, WITH_ONE);
    plain(cells, "leaky 20/s of 40, advice in whole seconds", bucket(20.0, 40.0), Advice::Up, WITH_ONE);
    plain(cells, "leaky 20/s of 40, advice rounded down", bucket(20.0, 40.0), Advice::Down, USUAL);
    plain(cells, "leaky 20/s of 40, no advice", bucket(20.0, 40.0), Advice::Nothing, WITH_ONE);
    let many: Sizes = &[(40, 0.02), (40, 0.2), (512, 0.2), (512, 2.0)];
    plain(cells, "leaky 200/s of 400, exact advice", bucket(200.0, 400.0), Advice::Milliseconds, many);
    plain(cells, "leaky 200/s of 400, no advice", bucket(200.0, 400.0), Advice::Nothing, many);
    let slow: Sizes = &[(40, 2.0), (64, 2.0)];
    plain(cells, "leaky 5/s of 10, exact advice", bucket(5.0, 10.0), Advice::Milliseconds, slow);
    plain(cells, "leaky 5/s of 10, no advice", bucket(5.0, 10.0), Advice::Nothing, slow);
    for (rate, burst, sizes) in [(20.0, 20.0, USUAL), (1.0, 5.0, &[(8, 0.02), (20, 0.02)])] {
        let spec = Spec::new(bucket(rate, burst), Voice::new(Dialect::Governor, Advice::Down));
        let name = format!("tower_governor {rate}/s of {burst}, retry-after 0");
        sized(cells, &Cell::new("buckets", name, spec, Goal::UNADVISED), sizes);
    }
    let spec = Spec::new(bucket(20.0, 40.0), Voice::new(Dialect::Fastify, Advice::Up));
    sized(
        cells,
        &Cell::new("buckets", "token bucket 20/s of 40, stated until full", spec, Goal::ADVISED),
        USUAL,
    );
}

fn nginx(cells: &mut Vec<Cell>) {
    let mut add = |name: &str, rate, burst, delays, goal, sizes: Sizes| {
        let limit = Limit::Bucket { rate, burst: burst + 1.0, delays };
        plain(cells, "nginx limit_req", name, limit, Advice::Nothing, goal, sizes);
    };
    add("nginx 20/s, no burst", 20.0, 0.0, false, Goal::NO_BURST, WITH_ONE);
    add("nginx 200/s, no burst", 200.0, 0.0, false, Goal::NO_BURST, &[(40, 0.02), (40, 0.15)]);
    add("nginx 20/s, burst 20 nodelay", 20.0, 20.0, false, Goal::UNADVISED, USUAL);
    add("nginx 20/s, burst 20", 20.0, 20.0, true, Goal::UNADVISED, USUAL);
    add("nginx 200/s, burst 20 nodelay", 200.0, 20.0, false, Goal::UNADVISED, &[(40, 0.02), (40, 0.15)]);
    add("nginx 500/s, burst 100 nodelay", 500.0, 100.0, false, Goal::UNADVISED, &[(40, 0.02), (40, 0.04)]);
    let status =
        Spec::new(bucket(20.0, 1.0), Voice { status: 503, ..Voice::new(Dialect::Silent, Advice::Nothing) });
    sized(
        cells,
        &Cell::new("nginx limit_req", "nginx 20/s, no burst, 503", status, Goal::NO_BURST),
        &[(8, 0.2), (40, 0.2)],
    );
    let advised = Spec::new(bucket(20.0, 1.0), Voice::new(Dialect::Silent, Advice::Up));
    sized(
        cells,
        &Cell::new("nginx limit_req", "20/s, no burst, says 1 s", advised, Goal::NO_BURST),
        &[(8, 0.2), (40, 0.2)],
    );
}

/// Tokens of calls that differ.
fn costs(cells: &mut Vec<Cell>) {
    for (name, rate, advice, goal) in [
        ("tokens 20/s of 40, exact advice", 20.0, Advice::Milliseconds, Goal::ADVISED),
        ("tokens 20/s of 40, no advice", 20.0, Advice::Nothing, Goal::UNADVISED),
        ("tokens 200/s of 400, exact advice", 200.0, Advice::Milliseconds, Goal::ADVISED),
    ] {
        let spec = Spec::new(bucket(rate, 2.0 * rate), Voice::new(Dialect::Silent, advice));
        let cell = Cell {
            sigma: 0.8,
            service: 0.3,
            varies: true,
            warm_up: 60.0,
            seconds: 260.0,
            ..Cell::new("costs that differ", name, spec, goal)
        };
        for load in [0.8, 1.2, 3.0] {
            for callers in [8, 64, 512] {
                let cell = Cell { callers, load, ..cell.clone() };
                // Fewer callers cannot offer so much.
                if callers as f64 / (load * rate) > cell.service + 0.1 {
                    cells.push(cell);
                }
            }
        }
    }
}

/// Callers that pause between calls, from four fifths to ten times of the limit.
fn loads(cells: &mut Vec<Cell>) {
    for (name, limit, advice, goal) in [
        ("leaky 20/s of 40, exact advice", bucket(20.0, 40.0), Advice::Milliseconds, Goal::ADVISED),
        ("leaky 20/s of 40, no advice", bucket(20.0, 40.0), Advice::Nothing, Goal::UNADVISED),
        ("nginx 20/s, no burst", bucket(20.0, 1.0), Advice::Nothing, Goal::NO_BURST),
    ] {
        let spec = Spec::new(limit, Voice::new(Dialect::Silent, advice));
        for load in [0.8, 1.2, 3.0, 10.0] {
            let cell =
                Cell { load, callers: 64, budget: 60.0, ..Cell::new("loads", name, spec.clone(), goal) };
            cells.push(Cell { warm_up: 60.0, seconds: 200.0, ..cell });
        }
    }
}

/// One caller of the lowest priority beside others that take all there is, or nearly.
fn batch(cells: &mut Vec<Cell>) {
    for (name, limit, advice) in [
        ("batch beside normal calls, leaky 20/s of 40", bucket(20.0, 40.0), Advice::Milliseconds),
        ("batch beside normal calls, nginx 20/s, no burst", bucket(20.0, 1.0), Advice::Nothing),
    ] {
        let spec = Spec::new(limit, Voice::new(Dialect::Silent, advice));
        let goal = if advice == Advice::Nothing { Goal::NO_BURST } else { Goal::ADVISED };
        for load in [0.95, 3.0] {
            let cell = Cell {
                load,
                callers: 41,
                batch: 1,
                budget: 600.0,
                ..Cell::new("batch", name, spec.clone(), goal)
            };
            cells.push(Cell { kind: Kind::Batch, seconds: 600.0, ..cell });
        }
    }
}
