//! What many callers and many scopes cost, in real time and in memory.
//!
//! There is no limit, so that nothing waits: what is measured is the middleware, beside the same without its gate.

use std::error::Error;
use std::fmt::Write as _;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::cell::{Cell, Goal};
use super::dialect::{Advice, Dialect, Voice};
use super::limit::Limit;
use super::server::Spec;
use super::world::play;
use crate::output::print;
use crate::strategy::Strategy;

/// The best of so many runs: a machine is never quicker than it is.
const RUNS: u64 = 3;
/// Calls of a run, about.
const CALLS: f64 = 30_000.0;
const SERVICE: f64 = 0.1;
const ROUND_TRIP: f64 = 0.002;
/// How many times the cost of the gate may grow from ten callers, or one scope, to the most. Of 10,000 scopes 1,024 are kept, so
/// that nearly every call makes one.
const MOST_GROWTH: f64 = 5.0;
/// What the gate costs a call at least, in microseconds, for a ratio of small numbers is chance.
const LEAST: f64 = 2.0;

/// One size and what it came to.
struct Size {
    callers: usize,
    scopes: usize,
    limit: Option<f64>,
    /// Microseconds for a call: with the gate, and without.
    gate: f64,
    without: f64,
    /// Bytes that the process grew by.
    grown: u64,
}

/// Measures and prints; false where the gate's cost is not flat.
///
/// # Errors
///
/// If the output cannot be written.
pub(crate) fn run() -> Result<bool, Box<dyn Error>> {
    let sizes = [
        (10, 1, None),
        (100, 1, None),
        (1000, 1, None),
        (1000, 1, Some(500.0)),
        (100, 100, None),
        (100, 10_000, None),
        (1000, 10_000, None),
    ];
    let sizes = sizes.map(|(callers, scopes, limit)| measure(callers, scopes, limit));
    let mut text = String::from(
        "\n#### Scale\n\nMicroseconds of processor time for a call, with what virtual time itself takes.\n\n\
         | callers | scopes | limit | with the gate | without | the gate | MB more |\n|---|---|---|---|---|---|---|\n",
    );
    for Size { callers, scopes, limit, gate, without, grown } in &sizes {
        let limit = limit.map_or("none".into(), |rate| format!("{rate}/s"));
        let _ = writeln!(
            text,
            "| {callers} | {scopes} | {limit} | {gate:.1} | {without:.1} | {:.1} | {:.1} |",
            gate - without,
            *grown as f64 / 1e6
        );
    }
    let cost = |size: &Size| (size.gate - size.without).max(LEAST);
    let first = sizes.first().map_or(LEAST, cost);
    let worst = sizes.iter().filter(|size| size.limit.is_none()).map(cost).fold(0.0, f64::max) / first;
    let _ = writeln!(text, "\nThe gate's cost grows {worst:.1}-fold at most; {MOST_GROWTH} is allowed.");
    print(text)?;
    Ok(worst <= MOST_GROWTH)
}

fn measure(callers: usize, scopes: usize, limit: Option<f64>) -> Size {
    let rate = limit.unwrap_or(callers as f64 / (SERVICE + ROUND_TRIP));
    let rules =
        limit.map_or(Limit::Chance { share: 0.0 }, |rate| Limit::Bucket { rate, burst: rate, delays: false });
    let spec = Spec::new(rules, Voice::new(Dialect::Silent, Advice::Milliseconds));
    let cell = Cell {
        callers,
        scopes,
        service: SERVICE,
        warm_up: 0.0,
        seconds: CALLS / rate,
        ..Cell::new("scale", "scale", spec, Goal::ADVISED)
    };
    let before = resident();
    let best = |strategy: Strategy| {
        (1..=RUNS).map(|seed| microseconds(&cell, strategy, seed)).fold(f64::INFINITY, f64::min)
    };
    let gate = best(Strategy::Admission);
    let grown = resident().saturating_sub(before);
    Size { callers, scopes, limit, gate, without: best(Strategy::NoGate), grown }
}

pub(crate) fn microseconds(cell: &Cell, strategy: Strategy, seed: u64) -> f64 {
    let start = on_processor();
    let outcome = play(cell, ROUND_TRIP, strategy, seed);
    let took = on_processor().saturating_sub(start);
    1e6 * took.as_secs_f64() / (outcome.successes + outcome.refused).max(1) as f64
}

/// The time that this thread has had a processor; by the clock where the system does not tell.
fn on_processor() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let told = schedule.split(' ').next().and_then(|nanos| nanos.parse().ok()).map(Duration::from_nanos);
    told.unwrap_or_else(|| START.get_or_init(Instant::now).elapsed())
}

/// Bytes of memory that this process has; 0 where that is not known.
fn resident() -> u64 {
    const PAGE: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).map_or(0, |pages: u64| PAGE * pages)
}
