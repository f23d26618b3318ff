//! Fixed and sliding windows, two at once, and counters that count refusals.

use super::{Sizes, TWO, USUAL, WITH_ONE, plain, sized};
use crate::zoo::cell::{Cell, Goal};
use crate::zoo::dialect::{Advice, Dialect, Voice};
use crate::zoo::limit::{Limit, Start};
use crate::zoo::server::{Rule, Spec};

pub(super) fn add(cells: &mut Vec<Cell>) {
    fixed(cells);
    of_servers(cells);
    sliding(cells);
    two(cells);
    counts_refused(cells);
}

const fn window(most: f64, seconds: f64, start: Start) -> Limit {
    Limit::Window { most, seconds, start }
}

const fn goal(advice: Advice) -> Goal {
    match advice {
        Advice::Nothing => Goal::UNADVISED,
        _ => Goal::ADVISED,
    }
}

/// A window of five minutes' measure where it lasts a minute.
fn timed(cell: Cell, seconds: f64) -> Cell {
    if seconds >= 60.0 { cell.for_minutes() } else { cell }
}

fn fixed(cells: &mut Vec<Cell>) {
    for (most, seconds, phase, advice, sizes) in [
        (100.0, 5.0, 1.3, Advice::Up, WITH_ONE),
        (100.0, 5.0, 1.3, Advice::Down, USUAL),
        (100.0, 5.0, 1.3, Advice::Nothing, USUAL),
        (20.0, 1.0, 0.3, Advice::Up, USUAL),
        (20.0, 1.0, 0.3, Advice::Fraction, USUAL),
        (20.0, 1.0, 0.3, Advice::Nothing, USUAL),
        (400.0, 20.0, 7.7, Advice::Up, TWO),
        (400.0, 20.0, 7.7, Advice::Nothing, TWO),
        (300.0, 60.0, 13.0, Advice::Milliseconds, USUAL),
        (300.0, 60.0, 13.0, Advice::Up, TWO),
        (300.0, 60.0, 13.0, Advice::Nothing, USUAL),
    ] {
        let said = match advice {
            Advice::Up => "whole seconds",
            Advice::Down => "rounded down",
            Advice::Nothing => "no advice",
            _ => "exact advice",
        };
        let name = format!("window {most} in {seconds} s, {said}");
        let spec =
            Spec::new(window(most, seconds, Start::Aligned(phase)), Voice::new(Dialect::Silent, advice));
        let cell = timed(Cell::new("fixed windows", name, spec, goal(advice)), seconds);
        // Advice of a whole second costs up to a window of one.
        sized(cells, &Cell { is_out_of_reach: seconds <= 1.0 && advice == Advice::Up, ..cell }, sizes);
    }
}

/// Windows that begin with a call, with the headers of those who have them.
fn of_servers(cells: &mut Vec<Cell>) {
    let five = window(100.0, 5.0, Start::FirstCall);
    let one = window(20.0, 1.0, Start::FirstCall);
    let minute = window(300.0, 60.0, Start::FirstCall);
    for (name, limit, dialect, advice) in [
        ("express-rate-limit 100 in 5 s, no headers", &five, Dialect::Silent, Advice::Nothing),
        ("express-rate-limit 100 in 5 s, legacy", &five, Dialect::ExpressLegacy, Advice::Up),
        ("express-rate-limit 100 in 5 s, draft-6", &five, Dialect::Draft6, Advice::Up),
        ("express-rate-limit 100 in 5 s, draft-7", &five, Dialect::Draft7, Advice::Up),
        ("express-rate-limit 100 in 5 s, draft-8", &five, Dialect::Draft8, Advice::Up),
        ("express-rate-limit 300 in 60 s, legacy", &minute, Dialect::ExpressLegacy, Advice::Up),
        ("express-rate-limit 300 in 60 s, draft-6", &minute, Dialect::Draft6, Advice::Up),
        ("express-rate-limit 300 in 60 s, draft-8", &minute, Dialect::Draft8, Advice::Up),
        (
            "rate-limiter-flexible 20 in 1 s, Date",
            &one,
            Dialect::Flexible { as_date: true },
            Advice::Fraction,
        ),
        (
            "rate-limiter-flexible 20 in 1 s, epoch",
            &one,
            Dialect::Flexible { as_date: false },
            Advice::Fraction,
        ),
        ("fastify 100 in 5 s", &five, Dialect::Fastify, Advice::Up),
        ("fastify 20 in 1 s", &one, Dialect::Fastify, Advice::Up),
        ("koa-ratelimit 100 in 5 s", &five, Dialect::Koa, Advice::ToStatedReset),
        ("fastapi-limiter 100 in 5 s", &five, Dialect::Silent, Advice::Up),
    ] {
        let spec = Spec::new(limit.clone(), Voice::new(dialect, advice));
        let seconds = if *limit == minute { 60.0 } else { 5.0 };
        let cell = timed(Cell::new("windows of servers", name, spec, goal(advice)), seconds);
        sized(cells, &Cell { is_out_of_reach: *limit == one && advice == Advice::Up, ..cell }, TWO);
    }
}

fn sliding(cells: &mut Vec<Cell>) {
    let limit = |most, seconds| Limit::Sliding { most, seconds, counts_refused: false };
    let family = "sliding windows";
    for (advice, said) in [
        (Advice::Milliseconds, "exact advice"),
        (Advice::Up, "whole seconds"),
        (Advice::Nothing, "no advice"),
    ] {
        plain(
            cells,
            family,
            &format!("sliding 100 in 5 s, {said}"),
            limit(100, 5.0),
            advice,
            goal(advice),
            USUAL,
        );
    }
    for (most, seconds) in [(20, 1.0), (100, 5.0)] {
        let spec = Spec::new(limit(most, seconds), Voice::new(Dialect::Drf, Advice::Up));
        sized(cells, &Cell::new(family, format!("DRF {most} in {seconds} s"), spec, Goal::ADVISED), TWO);
    }
    let always = |dialect| Voice { always_advises: true, ..Voice::new(dialect, Advice::ToStatedReset) };
    for (name, limit, dialect) in [
        ("slowapi 100 in 5 s", limit(100, 5.0), Dialect::SlowApi),
        ("slowapi 20 in 1 s", limit(20, 1.0), Dialect::SlowApi),
        ("flask-limiter 100 in 5 s", limit(100, 5.0), Dialect::Flask),
    ] {
        sized(cells, &Cell::new(family, name, Spec::new(limit, always(dialect)), Goal::ADVISED), TWO);
    }
    // A token bucket with a burst of its rate, and a constant in the headers.
    let voice = Voice { always_advises: true, ..Voice::new(Dialect::Silent, Advice::Seconds(5)) };
    let cell = Cell::new(
        family,
        "Varnish vsthrottle 100 in 5 s",
        Spec::new(super::bucket(20.0, 100.0), voice),
        Goal::ADVISED,
    );
    sized(cells, &cell, TWO);
}

fn two(cells: &mut Vec<Cell>) {
    let aligned = |most, seconds| Rule::always(window(most, seconds, Start::Aligned(1.3)));
    let spec = Spec {
        rules: vec![aligned(100.0, 5.0), aligned(1000.0, 60.0)],
        voice: Voice::new(Dialect::Silent, Advice::Up),
        banned: None,
    };
    let cell =
        Cell::new("two windows", "windows 100 in 5 s and 1000 in 60 s, whole seconds", spec, Goal::ADVISED);
    sized(cells, &Cell { warm_up: 61.3, seconds: 180.0, budget: 90.0, ..cell }, TWO);
    let sliding = |most, seconds| Rule::always(Limit::Sliding { most, seconds, counts_refused: false });
    let voice = Voice { always_advises: true, ..Voice::new(Dialect::SlowApi, Advice::ToStatedReset) };
    let spec = Spec { rules: vec![sliding(30, 1.0), sliding(100, 5.0)], voice, banned: None };
    sized(cells, &Cell::new("two windows", "slowapi 30 in 1 s and 100 in 5 s", spec, Goal::ADVISED), TWO);
}

fn counts_refused(cells: &mut Vec<Cell>) {
    let family = "counters that count refusals";
    let sliding = Limit::Sliding { most: 100, seconds: 5.0, counts_refused: true };
    plain(
        cells,
        family,
        "sliding 100 in 5 s, refusals counted",
        sliding,
        Advice::Nothing,
        Goal::COUNTS_REFUSED,
        USUAL,
    );
    let sizes: Sizes = &[(8, 0.02), (40, 0.2)];
    for (name, counts_refused, goal) in [
        ("haproxy request rate, 100 in 5 s", true, Goal::COUNTS_REFUSED),
        ("haproxy counter, 100 in 5 s", false, Goal::UNADVISED),
    ] {
        let limit = Limit::Counter { most: 100.0, seconds: 5.0, counts_refused };
        let voice = Voice { dates: false, ..Voice::new(Dialect::Silent, Advice::Nothing) };
        sized(cells, &Cell::new(family, name, Spec::new(limit, voice), goal), sizes);
    }
}
