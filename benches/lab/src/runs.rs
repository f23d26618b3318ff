//! Plays what is asked for, on all cores, and keeps a journal of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::args::Args;
use crate::cases::{self, Case};
use crate::journal::{Journal, Played};
use crate::model::{Figures, Scenario};
use crate::output::say;
use crate::recorded::replay;
use crate::report::Row;
use crate::strategy::Strategy;

/// Plays everything that is asked for, and the oracle where it is needed for comparison.
///
/// # Errors
///
/// Where the journal can neither be read nor written.
pub(crate) fn measure(args: &Args) -> std::io::Result<Vec<Row>> {
    let journal = args.journal.as_deref().map(Journal::open).transpose()?;
    let pairs: Vec<(Case, Strategy)> = cases::all(args.quick)
        .into_iter()
        .filter(|case| args.wants_scenario(case.name))
        .flat_map(|case| case.strategies().map(|strategy| (case.clone(), strategy)).collect::<Vec<_>>())
        .filter(|(_, strategy)| args.plays(*strategy))
        .collect();
    let jobs: Vec<(usize, Case, Strategy)> = pairs
        .iter()
        .enumerate()
        .flat_map(|(pair, (case, strategy))| {
            let seeded = |seed| Case { scenario: Scenario { seed, ..case.scenario }, ..case.clone() };
            args.seeds(*strategy).map(move |seed| (pair, seeded(seed), *strategy))
        })
        .collect();
    let results = in_parallel(&jobs, |(pair, case, strategy)| (*pair, played(case, *strategy, &journal)));
    let mut rows: Vec<Row> = pairs
        .iter()
        .enumerate()
        .map(|(pair, (case, strategy))| {
            let runs: Vec<Figures> =
                results.iter().filter(|(of, _)| *of == pair).map(|(_, figures)| *figures).collect();
            Row::new(case, *strategy, runs)
        })
        .collect();
    if args.wants_scenario(cases::RECORDED) {
        let strategies = Strategy::ALL.into_iter().filter(|strategy| args.plays(*strategy));
        rows.extend(strategies.map(|strategy| Row::replayed(strategy, &replay(strategy, args.seed))));
    }
    for row in &mut rows {
        row.is_shown = args.wants(row.strategy);
    }
    Ok(rows)
}

/// The figures of one run, from the journal where it has them.
fn played(case: &Case, strategy: Strategy, journal: &Option<Journal>) -> Figures {
    let Some(journal) = journal else { return strategy.play(case.scenario).figures() };
    if let Some(figures) = journal.find(case, strategy) {
        return figures;
    }
    let start = Instant::now();
    let figures = strategy.play(case.scenario).figures();
    let played = Played { case, strategy, figures, took: start.elapsed() };
    if let Err(problem) = journal.add(&played) {
        say(format_args!("the journal cannot be written: {problem}"));
    }
    figures
}

/// Does all jobs, as many at a time as there are cores, and keeps their order.
pub(crate) fn in_parallel<T: Sync, R: Send>(jobs: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
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
