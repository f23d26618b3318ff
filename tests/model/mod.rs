//! A model of a rate-limited service and of callers in a closed loop, in virtual time.
//!
//! The server is a leaky bucket: its level drains at `capacity` tokens a second and holds `depth` seconds' worth. A call
//! that finds it full is refused with the time to the line; any other call adds its cost. Callers think, call, and
//! repeat; everything runs under tokio's paused clock, so a model hour takes seconds.

#![allow(dead_code, reason = "every test uses a part of it")]
#![allow(
    clippy::as_conversions,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "a model with numbers of its own; where it is wrong the test shall fail"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest_admission::gate::{Gate, Permit, Priority, Refusal, Reserve, ScopeKey};
use reqwest_admission::pace::{Cost, TokenEstimate, TokenUsage};
use reqwest_admission::reading::ServiceLimit;
use reqwest_admission::units::QuotaUnits;
use tokio::time::{Instant, sleep, sleep_until};

/// One-way delay of the network.
const ONE_WAY: Duration = Duration::from_millis(25);

/// What a scenario is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) callers: usize,
    pub(crate) processes: usize,
    /// Tokens a second.
    pub(crate) capacity: f64,
    /// Offered load as a multiple of the capacity; 0 for a batch of `seconds` of work.
    pub(crate) load: f64,
    /// The latency budget of a call in seconds.
    pub(crate) budget: f64,
    pub(crate) warm_up: f64,
    pub(crate) seconds: f64,
    /// The share of its cost that a refused call is charged.
    pub(crate) rejection_cost: f64,
    pub(crate) advice: Advice,
    /// The factor on the capacity during the middle third.
    pub(crate) step: f64,
    pub(crate) server: ServerKind,
    pub(crate) seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Advice {
    Exact,
    WholeSeconds,
    Missing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ServerKind {
    /// A provisioned deployment: nothing but refusals.
    Leaky,
    /// A token bucket of a minute's worth that states its limit in headers.
    Headers,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Strategy {
    Admission,
    Oracle,
}

impl Scenario {
    pub(crate) fn ptu(callers: usize, capacity: f64, load: f64, seed: u64) -> Self {
        Self {
            callers,
            processes: 1,
            capacity,
            load,
            budget: 60.0,
            warm_up: 300.0,
            seconds: 1800.0,
            rejection_cost: 0.0,
            advice: Advice::Exact,
            step: 1.0,
            server: ServerKind::Leaky,
            seed,
        }
    }
}

/// What came out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) goodput: f64,
    pub(crate) rejections_per_success: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Share of calls.
    pub(crate) failed: f64,
    pub(crate) peak: f64,
    /// Mean seconds until a call that failed was told so.
    pub(crate) refusal: f64,
    /// The moment of the last admission.
    pub(crate) makespan: f64,
}

/// `SplitMix64`, one stream per purpose.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random =
            Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (one, other) = (self.uniform(), self.uniform());
        (-2.0 * (1.0 - one).ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    fn size(&mut self) -> f64 {
        (2000.0_f64.ln() - 0.32 + 0.8 * self.normal()).exp().clamp(50.0, 20_000.0).round()
    }
}

#[derive(Debug)]
struct Server {
    scenario: Scenario,
    start: Instant,
    level: f64,
    last: f64,
    /// The oracle's place in the future: level and moment after everything that it has let go.
    planned: (f64, f64),
    admitted: f64,
    successes: u64,
    rejections: u64,
    per_second: Vec<u32>,
    last_admission: f64,
}

enum Answer {
    Taken(Option<ServiceLimit>),
    Refused(Option<Duration>),
}

impl Server {
    fn capacity(&self, at: f64) -> f64 {
        let Scenario { warm_up, seconds, .. } = self.scenario;
        let middle = (at - warm_up) / seconds;
        let factor = if (1.0 / 3.0..2.0 / 3.0).contains(&middle) { self.scenario.step } else { 1.0 };
        self.scenario.capacity * factor
    }

    fn depth(&self) -> f64 {
        match self.scenario.server {
            ServerKind::Leaky => 5.0,
            ServerKind::Headers => 60.0,
        }
    }

    fn measures(&self, at: f64) -> bool {
        at >= self.scenario.warm_up && at < self.scenario.warm_up + self.scenario.seconds
    }

    fn arrive(&mut self, cost: f64) -> Answer {
        let at = self.start.elapsed().as_secs_f64();
        let capacity = self.capacity(at);
        let bucket = self.depth() * self.scenario.capacity;
        self.level = (self.level - capacity * (at - self.last)).max(0.0);
        self.last = at;
        let over = match self.scenario.server {
            ServerKind::Leaky => self.level - bucket,
            // A token bucket admits a call when all of its cost is there; `level` is what has been taken.
            ServerKind::Headers => self.level + cost - bucket,
        };
        let refused = match self.scenario.server {
            ServerKind::Leaky => over >= 0.0,
            ServerKind::Headers => over > 0.0,
        };
        if refused {
            if self.measures(at) {
                self.rejections += 1;
            }
            let second = at as usize;
            if self.per_second.len() <= second {
                self.per_second.resize(second + 1, 0);
            }
            self.per_second[second] += 1;
            self.level += self.scenario.rejection_cost * cost;
            let exact = Duration::from_millis((1000.0 * over / capacity).floor() as u64 + 1);
            return Answer::Refused(match self.scenario.advice {
                Advice::Exact => Some(exact),
                Advice::WholeSeconds => Some(Duration::from_secs(exact.as_secs_f64().ceil() as u64)),
                Advice::Missing => None,
            });
        }
        self.level += cost;
        self.last_admission = at;
        if self.measures(at) {
            self.admitted += cost;
            self.successes += 1;
        }
        Answer::Taken((self.scenario.server == ServerKind::Headers).then(|| {
            let mut limit = stated_limit();
            limit.limit = Some(bucket as u64);
            limit.remaining = Some((bucket - self.level).max(0.0) as u64);
            limit.reset = Some(Duration::from_secs_f64(self.level / capacity));
            limit
        }))
    }

    /// When the oracle lets a call go that comes now.
    fn plan(&mut self, cost: f64, deadline: f64) -> Option<f64> {
        let bucket = self.depth() * self.scenario.capacity;
        let now = self.start.elapsed().as_secs_f64();
        let (level, last) = self.planned;
        let mut at = now.max(last);
        let mut level = (level - self.capacity(at) * (at - last)).max(0.0);
        let line = if self.scenario.server == ServerKind::Headers { bucket - cost } else { bucket - 1e-6 };
        if level > line {
            let wait = (level - line) / self.capacity(at);
            at += wait;
            level = line;
        }
        if at > deadline {
            return None;
        }
        self.planned = (level + cost, at);
        Some(at)
    }
}

/// An empty limit of tokens; the type is open for more fields, so it is cut out of a reading.
fn stated_limit() -> ServiceLimit {
    ServiceLimit::new(reqwest_admission::units::QuotaUnit::Tokens)
}

#[derive(Default, Debug)]
struct Tally {
    latencies: Vec<f64>,
    failed: u64,
    refusal: f64,
}

#[derive(Clone)]
struct World {
    scenario: Scenario,
    strategy: Strategy,
    server: Arc<Mutex<Server>>,
    tally: Arc<Mutex<Tally>>,
    start: Instant,
}

pub(crate) fn run(scenario: Scenario, strategy: Strategy) -> Figures {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(model(scenario, strategy))
}

/// The mean over seeds.
pub(crate) fn average(
    scenario: Scenario,
    strategy: Strategy,
    seeds: std::ops::RangeInclusive<u64>,
) -> Figures {
    let runs: Vec<Figures> = seeds.map(|seed| run(Scenario { seed, ..scenario }, strategy)).collect();
    let mean = |field: fn(&Figures) -> f64| runs.iter().map(field).sum::<f64>() / runs.len() as f64;
    Figures {
        goodput: mean(|run| run.goodput),
        rejections_per_success: mean(|run| run.rejections_per_success),
        p50: mean(|run| run.p50),
        p99: mean(|run| run.p99),
        failed: mean(|run| run.failed),
        peak: runs.iter().map(|run| run.peak).fold(0.0, f64::max),
        refusal: mean(|run| run.refusal),
        makespan: mean(|run| run.makespan),
    }
}

async fn model(scenario: Scenario, strategy: Strategy) -> Figures {
    let start = Instant::now();
    let server = Arc::new(Mutex::new(Server {
        scenario,
        start,
        level: 0.0,
        last: 0.0,
        planned: (0.0, 0.0),
        admitted: 0.0,
        successes: 0,
        rejections: 0,
        per_second: Vec::new(),
        last_admission: 0.0,
    }));
    let tally = Arc::new(Mutex::new(Tally::default()));
    let world = World { scenario, strategy, server: Arc::clone(&server), tally: Arc::clone(&tally), start };
    let gates: Vec<Gate> = (0..scenario.processes)
        .map(|process| {
            Gate::builder().seed(scenario.seed * 1000 + process as u64).build().expect("valid settings")
        })
        .collect();

    let batch = scenario.load <= 0.0;
    let jobs = Arc::new(Mutex::new(Vec::new()));
    if batch {
        let mut sizes = Random::new(scenario.seed, 77);
        let mut left = scenario.seconds * scenario.capacity;
        while left > 0.0 {
            let size = sizes.size();
            left -= size;
            jobs.lock().expect("jobs").push(size);
        }
    }
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..scenario.callers {
        let (world, gate) = (world.clone(), gates[worker % scenario.processes].clone());
        let jobs = batch.then(|| Arc::clone(&jobs));
        workers.spawn(async move {
            match jobs {
                Some(jobs) => loop {
                    let Some(size) = jobs.lock().expect("jobs").pop() else { return };
                    world.call(&gate, size, size).await;
                },
                None => world.work(&gate, worker as u64).await,
            }
        });
    }
    if batch {
        while workers.join_next().await.is_some() {}
    } else {
        sleep_until(start + Duration::from_secs_f64(scenario.warm_up + scenario.seconds)).await;
        workers.shutdown().await;
    }

    let server = server.lock().expect("server");
    let mut tally = tally.lock().expect("tally");
    tally.latencies.sort_by(f64::total_cmp);
    let served = tally.latencies.len();
    let quantile = |share: f64| {
        let place = ((served as f64 * share).ceil() as usize).clamp(1, served.max(1)) - 1;
        tally.latencies.get(place).copied().unwrap_or(0.0)
    };
    Figures {
        goodput: server.admitted / (scenario.capacity * scenario.seconds),
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

impl World {
    async fn work(&self, gate: &Gate, worker: u64) {
        let Scenario { callers, capacity, load, seed, server, .. } = self.scenario;
        let mut random = Random::new(seed, worker);
        let think = callers as f64 * 2000.0 / (load * capacity) - (0.05 + 0.7);
        sleep(Duration::from_secs_f64(random.uniform() * (think + 0.75))).await;
        loop {
            sleep(Duration::from_secs_f64(random.exponential(think))).await;
            let size = random.size();
            // Where tokens are estimated by the caller, the estimate errs.
            let estimate = match server {
                ServerKind::Leaky => size,
                ServerKind::Headers => (size * (1.0 + 0.2 * random.normal()).clamp(0.2, 3.0)).round(),
            };
            self.call(gate, size, estimate).await;
        }
    }

    async fn call(&self, gate: &Gate, size: f64, estimate: f64) {
        let start = Instant::now();
        let deadline = start + Duration::from_secs_f64(self.scenario.budget);
        match self.strategy {
            Strategy::Admission => self.admission(gate, size, estimate, start, deadline).await,
            Strategy::Oracle => {
                let limit = (deadline - self.start).as_secs_f64();
                let at = self.server.lock().expect("server").plan(size, limit);
                match at {
                    None => self.failed(start),
                    Some(at) => {
                        sleep_until(self.start + Duration::from_secs_f64(at)).await;
                        self.send(size, start).await.0.ok();
                    }
                }
            }
        }
    }

    async fn admission(&self, gate: &Gate, size: f64, estimate: f64, start: Instant, deadline: Instant) {
        let scope = ScopeKey::new("model");
        let cost = Cost::from(TokenEstimate::new(estimate as u64, 0));
        let deadline = Some(deadline.into_std());
        let now = || Instant::now().into_std();
        let mut reserve = gate.reserve(&scope, cost, Priority::Normal, deadline, now());
        loop {
            let mut permit = match granted(reserve).await {
                Ok(permit) => permit,
                Err(_) => return self.failed(start),
            };
            permit.sent(now());
            match self.send(size, start).await {
                (Ok(limit), rest) => {
                    let limits: Vec<ServiceLimit> = limit.into_iter().collect();
                    permit.observe(&limits, now());
                    sleep(rest).await;
                    permit.settle(TokenUsage::new(size as u64, 0), now());
                    return permit.finish();
                }
                (Err(advice), _) => {
                    let place = permit.refused(
                        advice,
                        QuotaUnits::EMPTY,
                        advice.unwrap_or_default().mul_f64(1.05),
                        now(),
                    );
                    reserve = gate.reserve_again(place, cost, Priority::Normal, deadline, now());
                }
            }
        }
    }

    /// One call over the network, until the head of its response; and how long the body will take.
    async fn send(
        &self,
        size: f64,
        start: Instant,
    ) -> (Result<Option<ServiceLimit>, Option<Duration>>, Duration) {
        let sent = Instant::now();
        sleep(ONE_WAY).await;
        let answer = self.server.lock().expect("server").arrive(size);
        match answer {
            Answer::Refused(advice) => {
                sleep(ONE_WAY).await;
                (Err(advice), Duration::ZERO)
            }
            Answer::Taken(limit) => {
                if self.measures() {
                    let added = (sent - start).as_secs_f64();
                    self.tally.lock().expect("tally").latencies.push(added);
                }
                sleep(Duration::from_millis(300) + ONE_WAY).await;
                let body = Duration::from_secs_f64(size / 5000.0);
                if self.strategy == Strategy::Oracle {
                    sleep(body).await;
                }
                (Ok(limit), body)
            }
        }
    }

    fn measures(&self) -> bool {
        self.scenario.load <= 0.0 || self.start.elapsed().as_secs_f64() >= self.scenario.warm_up
    }

    fn failed(&self, start: Instant) {
        if self.measures() {
            let mut tally = self.tally.lock().expect("tally");
            tally.failed += 1;
            tally.refusal += start.elapsed().as_secs_f64();
        }
    }
}

/// The permit of a reservation, however long it takes.
pub(crate) async fn granted(reserve: Reserve) -> Result<Permit, Refusal> {
    match reserve {
        Reserve::Granted(permit) => Ok(permit),
        Reserve::Queued(ticket) => ticket.await,
        Reserve::Refused(refusal) => Err(refusal),
    }
}
