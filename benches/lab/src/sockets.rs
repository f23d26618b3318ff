//! The check on real sockets: the same callers and the same server in real time, over loopback.
//!
//! Every strategy runs for a minute after its warm-up, by HTTP/1 and by HTTP/2; all runs of one protocol go at the
//! same time, each with a client and a server of its own. Beside them stands the same minute, with the same calls, in virtual time.

mod callers;
mod compare;
pub(crate) mod server;

use std::error::Error;
use std::sync::Arc;

use reqwest_admission::gate::{Gate, Snapshot};
use tokio::time::Instant;

use crate::args::Args;
use crate::model::{Figures, Scenario, World};
use crate::output::{print, say};
use crate::runs::in_parallel;
use crate::strategy::Strategy;
use callers::{Callers, Protocol};
use compare::{Beside, Virtual};
use server::{Seen, Server};

const CALLERS: usize = 64;
const CAPACITY: f64 = 32_000.0;
/// Loads, and the seconds in which they fill the bucket and the first turmoil is over.
const LOADS: [(f64, f64); 2] = [(1.2, 30.0), (3.0, 10.0)];
const SECONDS: f64 = 60.0;
/// Runs of the same calls in virtual time, for their mean and for what disorder alone does.
const RUNS: u64 = 20;
/// Sockets, timers and the scheduler take callers of one moment out of their order, for which virtual time needs
/// chance. With none, tokio's timers would wake a herd in the order of its refusals, and all would be served in turn.
const WOBBLE: f64 = 0.002;
const STRATEGIES: [Strategy; 3] = [Strategy::Admission, Strategy::ReqwestRetry, Strategy::HeaderExact];

/// One run in real time.
#[derive(Clone, Copy, Debug)]
struct Real {
    protocol: Protocol,
    scenario: Scenario,
    strategy: Strategy,
    figures: Figures,
    seen: Seen,
    /// Permits that are out and places in the queue when all callers have gone.
    in_use: usize,
}

/// Runs what is asked for and prints it; false where the two clocks were to agree and do not.
pub(crate) fn run(args: &Args) -> Result<bool, Box<dyn Error>> {
    let seconds = args.seconds.unwrap_or(SECONDS);
    let scenarios = LOADS.map(|(load, warm_up)| Scenario {
        warm_up,
        seconds,
        ..Scenario::ptu(CALLERS, CAPACITY, load, args.seed)
    });
    let strategies: Vec<Strategy> = STRATEGIES.into_iter().filter(|strategy| args.wants(*strategy)).collect();
    let virtual_runs = virtual_runs(&scenarios, &strategies);
    let mut beside = Vec::new();
    for protocol in Protocol::ALL {
        let reals = real_runs(protocol, &scenarios, &strategies)?;
        beside.extend(reals.into_iter().map(|real| Beside::new(real, &virtual_runs)));
    }
    if args.json {
        print(compare::json(&beside, &virtual_runs))?;
    } else {
        print(compare::tables(&beside, &virtual_runs))?;
    }
    let contradictions: Vec<String> = beside.iter().flat_map(Beside::contradictions).collect();
    for contradiction in &contradictions {
        say(format_args!("CONTRADICTION: {contradiction}"));
    }
    Ok(!args.check || contradictions.is_empty())
}

fn virtual_runs(scenarios: &[Scenario], strategies: &[Strategy]) -> Vec<Virtual> {
    let with_oracle = || [Strategy::Oracle].into_iter().chain(strategies.iter().copied());
    let pairs: Vec<(Scenario, Strategy)> =
        scenarios.iter().flat_map(|scenario| with_oracle().map(|strategy| (*scenario, strategy))).collect();
    let jobs: Vec<(Scenario, Strategy)> = pairs
        .iter()
        .flat_map(|(scenario, strategy)| {
            (0..RUNS).map(|seed| (Scenario { wobble: (WOBBLE, seed), ..*scenario }, *strategy))
        })
        .collect();
    let figures = in_parallel(&jobs, |(scenario, strategy)| strategy.play(*scenario).figures());
    pairs
        .into_iter()
        .zip(figures.chunks(RUNS as usize))
        .map(|((scenario, strategy), runs)| Virtual { scenario, strategy, runs: runs.to_vec() })
        .collect()
}

/// All runs of one protocol, at the same time.
fn real_runs(
    protocol: Protocol,
    scenarios: &[Scenario],
    strategies: &[Strategy],
) -> Result<Vec<Real>, String> {
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for scenario in scenarios {
            for strategy in strategies {
                let run = || real_run(protocol, *scenario, *strategy).map_err(|error| error.to_string());
                threads.push(scope.spawn(run));
            }
        }
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("a run has panicked".to_owned()))
        };
        threads.into_iter().map(join).collect()
    })
}

fn real_run(protocol: Protocol, scenario: Scenario, strategy: Strategy) -> Result<Real, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let gate = Gate::builder().build()?;
        let world = World::new(scenario);
        let server = Arc::new(Server::start(Arc::clone(&world))?);
        let callers = Arc::new(Callers::new(strategy, protocol, &world, &gate, &server)?);
        world.run(|_, _| Arc::clone(&callers)).await;
        // Before anything else goes, so that nothing but the dropped calls can have given back what they held.
        let in_use = in_use(&gate.snapshot(Instant::now().into_std()));
        Ok(Real { protocol, scenario, strategy, figures: world.figures(), seen: server.seen(), in_use })
    })
}

fn in_use(snapshot: &Snapshot) -> usize {
    let scopes = snapshot.scopes.iter();
    scopes
        .map(|scope| {
            let waiting = scope.waiting;
            waiting.high + waiting.normal + waiting.batch + scope.in_flight as usize
        })
        .sum()
}
