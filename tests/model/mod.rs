//! A model of a rate-limited service and of callers in a closed loop, in virtual time.
//!
//! The server is a leaky bucket: its level drains at `capacity` tokens a second and holds `depth` seconds' worth. A call
//! that finds it full is refused with the time to the line; any other call adds its cost. Callers think, call, and
//! repeat; everything runs under tokio's paused clock, so a model hour takes seconds. How a call is made is a [`Way`].

#![allow(dead_code, unused_imports, reason = "every test uses a part of it")]
#![allow(
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "a model with numbers of its own; where it is wrong the test shall fail"
)]

mod bucket;
mod oracle;
mod random;
mod scenario;
mod server;
mod tenant;
mod ways;

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reqwest_admission::gate::Gate;
use tokio::time::{Instant, sleep, sleep_until};

pub(crate) use random::Random;
pub(crate) use scenario::{Advice, Figures, Scenario, ServerKind};
pub(crate) use server::{Answer, Server, Stated};
use tenant::{Tenant, Unseen};
pub(crate) use ways::{Oracle, granted};

/// One call of a caller's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) size: f64,
    /// What the caller takes the size for.
    pub(crate) estimate: f64,
    pub(crate) start: Instant,
    /// Nothing may be sent after this moment.
    pub(crate) deadline: Instant,
}

/// A way of calling: what one client process does about refusals.
pub(crate) trait Way: Send + Sync + 'static {
    /// Makes a call; false where it was given up.
    fn call(&self, world: &World, call: Call) -> impl Future<Output = bool> + Send;
}

impl<W: Way> Way for Arc<W> {
    async fn call(&self, world: &World, call: Call) -> bool {
        W::call(self, world, call).await
    }
}

#[derive(Default, Debug)]
struct Tally {
    latencies: Vec<f64>,
    failed: u64,
    refusal: f64,
    most_refusals: u32,
}

/// The server and the callers' book.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) start: Instant,
    server: Mutex<Server>,
    tally: Mutex<Tally>,
    wobble: Mutex<Random>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Strategy {
    Admission,
    Oracle,
}

/// Runs a scenario with the gate alone, or with perfect knowledge.
pub(crate) fn run(scenario: Scenario, strategy: Strategy) -> Figures {
    match strategy {
        Strategy::Oracle => play(scenario, |_, _| Oracle).figures(),
        Strategy::Admission => {
            let gate = |_: &Arc<World>, process: usize| {
                let others = scenario.processes > 1 || scenario.tenant > 0.0;
                let seed = scenario.seed * 1000 + process as u64;
                Gate::builder().seed(seed).shared_limit(others).build().expect("valid settings")
            };
            play(scenario, gate).figures()
        }
    }
}

/// The mean over seeds.
pub(crate) fn average(
    scenario: Scenario,
    strategy: Strategy,
    seeds: std::ops::RangeInclusive<u64>,
) -> Figures {
    let runs: Vec<Figures> = seeds.map(|seed| run(Scenario { seed, ..scenario }, strategy)).collect();
    Figures::mean(&runs)
}

/// Runs a scenario, in virtual time, in which every process calls in the way that `way` makes for it.
pub(crate) fn play<W: Way>(scenario: Scenario, way: impl Fn(&Arc<World>, usize) -> W) -> Arc<World> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let world = World::new(scenario);
        world.run(way).await;
        world
    })
}

/// The sizes of a batch.
fn jobs(scenario: &Scenario) -> Vec<f64> {
    let mut sizes = Random::new(scenario.seed, 77);
    let mut left = scenario.seconds * scenario.capacity;
    let mut jobs = Vec::new();
    while left > 0.0 {
        let size = sizes.size();
        left -= size;
        jobs.push(size);
    }
    jobs
}

impl World {
    /// A server that nobody has called yet, and whose time starts now.
    pub(crate) fn new(scenario: Scenario) -> Arc<Self> {
        let start = Instant::now();
        let server = Mutex::new(Server::new(scenario, start));
        let wobble = Mutex::new(Random::new(scenario.wobble.1, 8_000_000));
        Arc::new(Self { scenario, start, server, tally: Mutex::default(), wobble })
    }

    /// Lets the callers call until the time is over, by the clock of the runtime; calls that are still open then are
    /// dropped.
    pub(crate) async fn run<W: Way>(self: &Arc<Self>, way: impl Fn(&Arc<Self>, usize) -> W) {
        let Scenario { callers, processes, warm_up, seconds, tenant, .. } = self.scenario;
        let ways: Vec<Arc<W>> = (0..processes).map(|process| Arc::new(way(self, process))).collect();
        let mut workers = tokio::task::JoinSet::new();
        if self.scenario.is_batch() {
            let jobs = Arc::new(Mutex::new(jobs(&self.scenario)));
            for worker in 0..callers {
                workers.spawn(
                    Arc::clone(self).work_off(Arc::clone(&ways[worker % processes]), Arc::clone(&jobs)),
                );
            }
            while workers.join_next().await.is_some() {}
            return;
        }
        for worker in 0..callers {
            workers.spawn(Arc::clone(self).work(Arc::clone(&ways[worker % processes]), worker as u64));
        }
        if tenant > 0.0 {
            workers.spawn(Arc::clone(self).unseen());
        }
        sleep_until(self.start + Duration::from_secs_f64(warm_up + seconds)).await;
        workers.shutdown().await;
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().expect("server")
    }

    /// A caller that thinks, calls, and repeats.
    async fn work(self: Arc<Self>, way: Arc<impl Way>, worker: u64) {
        let Scenario { callers, capacity, load, seed, server, one_way, .. } = self.scenario;
        let mut random = Random::new(seed, worker);
        let think = callers as f64 * 2000.0 / (load * capacity) - (2.0 * one_way + 0.7);
        sleep(Duration::from_secs_f64(random.uniform() * (think + 0.75))).await;
        loop {
            sleep(Duration::from_secs_f64(random.exponential(think))).await;
            let size = random.size();
            // Where tokens are estimated by the caller, the estimate errs.
            let estimate = match server {
                ServerKind::Leaky => size,
                ServerKind::Headers => (size * (1.0 + 0.2 * random.normal()).clamp(0.2, 3.0)).round(),
            };
            self.call(&*way, size, estimate).await;
        }
    }

    /// A caller that works off a batch together with others.
    async fn work_off(self: Arc<Self>, way: Arc<impl Way>, jobs: Arc<Mutex<Vec<f64>>>) {
        loop {
            let Some(size) = jobs.lock().expect("jobs").pop() else { return };
            self.call(&*way, size, size).await;
        }
    }

    /// Somebody who takes a part of the capacity and is never seen.
    async fn unseen(self: Arc<Self>) {
        for Unseen { at, cost } in Tenant::new(&self.scenario) {
            sleep_until(self.start + Duration::from_secs_f64(at)).await;
            self.server().arrive_unseen(cost);
        }
    }

    async fn call(&self, way: &impl Way, size: f64, estimate: f64) {
        let start = Instant::now();
        let deadline = start + Duration::from_secs_f64(self.scenario.budget);
        if !way.call(self, Call { size, estimate, start, deadline }).await && self.measures() {
            let mut tally = self.tally.lock().expect("tally");
            tally.failed += 1;
            tally.refusal += start.elapsed().as_secs_f64();
        }
    }

    /// When the oracle sends `call`, in seconds from the start.
    fn plan(&self, call: &Call) -> Option<f64> {
        self.server().plan(call.size, (call.deadline - self.start).as_secs_f64())
    }

    /// One call over the network, until the head of its response; and how long the body will take.
    pub(crate) async fn send(&self, call: &Call) -> (Result<Option<Stated>, Option<Duration>>, Duration) {
        let sent = Instant::now();
        let one_way = Duration::from_secs_f64(self.scenario.one_way);
        sleep(one_way + self.wobble()).await;
        let answer = self.server().arrive(call.size);
        match answer {
            Answer::Refused(advice) => {
                sleep(one_way).await;
                (Err(advice), Duration::ZERO)
            }
            Answer::Taken(stated) => {
                if self.measures() {
                    let added = (sent - call.start).as_secs_f64();
                    self.tally.lock().expect("tally").latencies.push(added);
                }
                sleep(Duration::from_millis(300) + one_way).await;
                (Ok(stated), Duration::from_secs_f64(call.size / 5000.0))
            }
        }
    }

    fn wobble(&self) -> Duration {
        let most = self.scenario.wobble.0;
        let draw = if most > 0.0 { self.wobble.lock().expect("wobble").uniform() } else { 0.0 };
        Duration::from_secs_f64(most * draw)
    }

    fn measures(&self) -> bool {
        self.scenario.is_batch() || self.start.elapsed().as_secs_f64() >= self.scenario.warm_up
    }

    /// The added latencies of the calls that were served, in ascending order.
    pub(crate) fn latencies(&self) -> Vec<f64> {
        let mut latencies = self.tally.lock().expect("tally").latencies.clone();
        latencies.sort_by(f64::total_cmp);
        latencies
    }

    /// A call has come to its end after being refused so many times.
    pub(crate) fn was_refused(&self, times: u32) {
        let mut tally = self.tally.lock().expect("tally");
        tally.most_refusals = tally.most_refusals.max(times);
    }

    /// The most times that one call was refused.
    pub(crate) fn most_refusals(&self) -> u32 {
        self.tally.lock().expect("tally").most_refusals
    }

    /// When calls arrived at the server, and whether they were taken.
    pub(crate) fn arrivals(&self) -> Vec<(f64, bool)> {
        self.server().arrivals.clone()
    }

    pub(crate) fn figures(&self) -> Figures {
        let latencies = self.latencies();
        let server = self.server();
        let tally = self.tally.lock().expect("tally");
        let served = latencies.len();
        let quantile = |share: f64| {
            let place = ((served as f64 * share).ceil() as usize).clamp(1, served.max(1)) - 1;
            latencies.get(place).copied().unwrap_or(0.0)
        };
        let Scenario { capacity, seconds, tenant, step, .. } = self.scenario;
        // What there was to be had on average over the three thirds.
        let capacity = capacity * (1.0 - tenant) * (2.0 + step) / 3.0;
        let seconds = if self.scenario.is_batch() { server.last_admission } else { seconds };
        Figures {
            goodput: server.admitted / (capacity * seconds),
            rejections_per_success: server.rejections as f64 / (server.successes as f64).max(1.0),
            p50: quantile(0.5),
            p99: quantile(0.99),
            failed: tally.failed as f64 / (served as f64 + tally.failed as f64).max(1.0),
            peak: {
                let first = server.per_second.iter().position(|count| *count > 0).unwrap_or(0);
                server.per_second.iter().skip(first + 2).copied().max().unwrap_or(0).into()
            },
            refusal: tally.refusal / (tally.failed as f64).max(1.0),
            makespan: server.last_admission,
        }
    }
}
