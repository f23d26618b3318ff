//! A laboratory of rate limits: the middleware beside what others do, against a model of a service, in virtual time.
//!
//! ```text
//! cargo run --release --example lab -- --quick
//! ```
//!
//! `--quick` (the default) takes less than two minutes, `--full` measures longer and over five seeds. `--strategy
//! NAME` and `--scenario NAME` (both may be repeated) leave the others out, `--seed N` starts from another seed, and
//! `--json` prints one object per scenario and strategy instead of the tables. `--check` fails where a target is missed
//! by more than the noise that was measured. `--report` draws the plots instead, into `target/lab/report.html`.
//! `--sockets` plays a part of it in real time over loopback instead, beside the same minute in virtual time, which takes
//! a few minutes (`--seconds N` makes the minute shorter); there `--check` fails where the two contradict each other.
//!
//! The server is a leaky bucket that refuses with the time to the line; callers think, call, and repeat. All calls go
//! through the real middleware stack of reqwest-middleware, whose innermost layer is the model. Tokio's clock is paused,
//! so that half an hour takes seconds and the same seed gives the same figures (except for reqwest-retry, which draws
//! its own jitter).

mod args;
mod aws;
mod cases;
#[path = "../../tests/model/mod.rs"]
mod model;
mod origin;
mod peers;
mod plots;
mod recorded;
mod report;
mod sockets;
mod strategy;
mod targets;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use args::Args;
use cases::Case;
use model::{Figures, Scenario};
use recorded::{Replay, replay};
use report::Row;
use strategy::Strategy;

fn main() -> ExitCode {
    let args = match Args::read(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    if args.report {
        return match plots::write(args.seed) {
            Ok(path) => {
                println!("{}", path.display());
                ExitCode::SUCCESS
            }
            Err(problem) => {
                eprintln!("{problem}");
                ExitCode::FAILURE
            }
        };
    }
    if args.sockets {
        return sockets::run(&args);
    }
    let rows = measure(&args);
    let checks = targets::checks(&rows);
    if args.json {
        for row in &rows {
            println!("{}", row.json());
        }
    } else {
        report::print(&rows);
    }
    let missed = if args.json {
        checks.iter().filter(|check| check.is_missed()).count()
    } else {
        targets::print(&checks)
    };
    if args.check && missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Plays everything that is asked for, on all cores.
fn measure(args: &Args) -> Vec<Row> {
    let pairs: Vec<(Case, Strategy)> = cases::all(args.quick)
        .into_iter()
        .filter(|case| args.wants_scenario(case.name))
        .flat_map(|case| case.strategies().map(|strategy| (case.clone(), strategy)).collect::<Vec<_>>())
        .filter(|(_, strategy)| args.wants(*strategy))
        .collect();
    let jobs: Vec<(usize, Scenario, Strategy)> = pairs
        .iter()
        .enumerate()
        .flat_map(|(pair, (case, strategy))| {
            args.seeds(*strategy).map(move |seed| (pair, Scenario { seed, ..case.scenario }, *strategy))
        })
        .collect();
    let results =
        in_parallel(&jobs, |(pair, scenario, strategy)| (*pair, strategy.play(*scenario).figures()));
    let mut rows: Vec<Row> = pairs
        .iter()
        .enumerate()
        .map(|(pair, (case, strategy))| {
            let runs: Vec<Figures> =
                results.iter().filter(|(of, _)| *of == pair).map(|(_, figures)| *figures).collect();
            Row::new(case, *strategy, runs)
        })
        .collect();
    if args.wants_scenario("recorded") {
        rows.extend(
            Strategy::ALL
                .into_iter()
                .filter(|strategy| *strategy != Strategy::Oracle && args.wants(*strategy))
                .map(|strategy| recorded_row(strategy, &replay(strategy, args.seed))),
        );
    }
    rows
}

fn recorded_row(strategy: Strategy, replay: &Replay) -> Row {
    Row {
        scenario_name: "recorded",
        variant: String::new(),
        small_quota: false,
        scenario: Scenario { callers: 1, ..Scenario::ptu(1, 0.0, 0.0, 0) },
        strategy,
        figures: replay.figures,
        runs: vec![replay.figures],
        replay: Some((replay.early, replay.over_advice())),
    }
}

/// Does all jobs, as many at a time as there are cores, and keeps their order.
fn in_parallel<T: Sync, R: Send>(jobs: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(number) else { return };
                    let result = work(job);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}
