//! Real servers that limit, over loopback and in real time: nginx and haproxy as Debian has them, and a window in Node.
//!
//! What is not on this machine is said and left out. Each line of the table is a server, and each run on it has a limit of
//! its own; the runs of one server go at the same time.

#![allow(clippy::indexing_slicing, reason = "numbers of its own; if they are wrong the run is to fail")]

mod app;
mod programs;

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_admission::LatencyBudget;
use reqwest_middleware::{ClientWithMiddleware, Error as MiddlewareError, Middleware, Next};
use tokio::time::{Instant, sleep, sleep_until};

use crate::args::Args;
use crate::model::Call;
use crate::output::{print, say};
use crate::strategy::{Setting, Strategy};
use app::App;
use programs::Program;

const SECONDS: f64 = 30.0;
const CALLERS: [usize; 2] = [8, 40];
const STRATEGIES: [Strategy; 3] = [Strategy::Admission, Strategy::ReqwestRetry, Strategy::NoGate];
const BUDGET: Duration = Duration::from_secs(30);
/// What a caller waits after a call that failed.
const PAUSE: Duration = Duration::from_millis(500);
/// In which each run is told from the others.
const RUN: &str = "x-run";

/// What a server allows.
#[derive(Clone, Copy, Debug)]
enum Allows {
    PerSecond(f64),
    /// Calls at the same time, each of so many seconds.
    AtOnce(f64, f64),
}

impl Allows {
    /// Calls a second that `callers` get done at best, if a call takes `service` seconds.
    fn of(self, callers: usize, service: f64) -> f64 {
        let demand = callers as f64 / service.max(1e-4);
        match self {
            Self::PerSecond(rate) => rate.min(demand),
            Self::AtOnce(most, seconds) => most / seconds,
        }
    }
}

/// One server of the table.
#[derive(Clone, Debug)]
struct Real {
    name: &'static str,
    url: String,
    allows: Allows,
    service: f64,
}

/// What one run came to.
#[derive(Clone, Copy, Debug)]
struct Came {
    successes: u64,
    refused: u64,
    given_up: u64,
}

/// Counts what comes over the wire.
#[derive(Debug, Default)]
struct Counts {
    refused: AtomicU64,
    given_up: AtomicU64,
    successes: AtomicU64,
}

/// Plays what is there and prints the table; false where nothing is there.
///
/// # Errors
///
/// If the application behind the servers cannot be started, or the table cannot be written.
pub(crate) fn run(args: &Args) -> Result<bool, Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("lab-servers-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let outcome = play_all(args, &folder);
    std::fs::remove_dir_all(&folder).ok();
    outcome
}

fn play_all(args: &Args, folder: &Path) -> Result<bool, Box<dyn Error>> {
    let app = App::start()?;
    // They run for as long as these are held.
    let mut programs: Vec<Program> = Vec::new();
    let mut reals = Vec::new();
    let mut add = |started: Result<Program, Box<dyn Error>>, of: fn(&[u16]) -> Vec<Real>| match started {
        Ok(program) => {
            reals.extend(of(&program.ports));
            programs.push(program);
        }
        Err(problem) => say(format_args!("LEFT OUT: {problem}")),
    };
    add(programs::nginx(folder, app.port), nginx);
    add(programs::haproxy(folder, app.port), haproxy);
    add(programs::node(folder), node);
    if reals.is_empty() {
        say("no server is on this machine, so there is nothing to measure");
        return Ok(false);
    }
    let strategies: Vec<Strategy> = STRATEGIES.into_iter().filter(|strategy| args.wants(*strategy)).collect();
    let seconds = args.seconds.unwrap_or(SECONDS);
    let names: String = strategies.iter().map(|strategy| format!(" {strategy} |")).collect();
    print(format_args!(
        "\nGoodput in % of what the server allows / 429s (or 503s) per success, over {seconds} s.\n\n\
         | server | callers |{names}\n|---|---|{}\n",
        "---|".repeat(strategies.len())
    ))?;
    for real in &reals {
        print(lines(real, &strategies, seconds, args.seed)?)?;
    }
    Ok(true)
}

/// The lines of one server, all of whose runs go at the same time.
fn lines(real: &Real, strategies: &[Strategy], seconds: f64, seed: u64) -> Result<String, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let runs: Vec<Vec<Came>> = runtime.block_on(async {
        let mut runs = Vec::new();
        for callers in CALLERS {
            let of =
                |strategy: &Strategy| tokio::spawn(play(real.clone(), *strategy, callers, seconds, seed));
            runs.push(strategies.iter().map(of).collect::<Vec<_>>());
        }
        let mut came = Vec::new();
        for run in runs {
            let mut of_callers = Vec::new();
            for run in run {
                of_callers.push(run.await.map_err(|problem| problem.to_string())??);
            }
            came.push(of_callers);
        }
        Ok::<_, String>(came)
    })?;
    let mut text = String::new();
    for (callers, came) in CALLERS.into_iter().zip(runs) {
        let _ = write!(text, "| {} | {callers} |", real.name);
        for Came { successes, refused, given_up } in came {
            let share = 100.0 * successes as f64 / seconds / real.allows.of(callers, real.service);
            let per_success = crate::report::per_success(refused as f64 / (successes as f64).max(1.0));
            let given_up = if given_up > 0 { format!(", {given_up} given up") } else { String::new() };
            let _ = write!(text, " {share:.0} / {per_success}{given_up} |");
        }
        text.push('\n');
    }
    Ok(text)
}

async fn play(
    real: Real,
    strategy: Strategy,
    callers: usize,
    seconds: f64,
    seed: u64,
) -> Result<Came, String> {
    let counts = Arc::new(Counts::default());
    let client = reqwest::Client::builder().no_proxy().build().map_err(|problem| problem.to_string())?;
    let setting = Setting::new(seed, 0, Instant::now());
    let client = strategy.client(&setting, Wire { client, counts: Arc::clone(&counts) });
    let run = format!("{}-{callers}-{seed}", strategy.name());
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..callers {
        workers.spawn(call(client.clone(), real.url.clone(), run.clone(), Arc::clone(&counts)));
    }
    sleep_until(Instant::now() + Duration::from_secs_f64(seconds)).await;
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let came = Came {
        successes: of(&counts.successes),
        refused: of(&counts.refused),
        given_up: of(&counts.given_up),
    };
    workers.shutdown().await;
    Ok(came)
}

/// A caller that never pauses.
async fn call(client: ClientWithMiddleware, url: String, run: String, counts: Arc<Counts>) {
    loop {
        let start = Instant::now();
        let request = client
            .get(&url)
            .header(RUN, &run)
            .with_extension(LatencyBudget::new(BUDGET))
            .with_extension(Call { size: 0.0, estimate: 0.0, start, deadline: start + BUDGET });
        let is_done = match request.send().await {
            Ok(response) => response.status().is_success() && response.bytes().await.is_ok(),
            Err(_) => false,
        };
        if is_done {
            counts.successes.fetch_add(1, Ordering::Relaxed);
        } else {
            counts.given_up.fetch_add(1, Ordering::Relaxed);
            sleep(PAUSE).await;
        }
    }
}

/// The end of a stack: sends, and counts refusals.
struct Wire {
    client: reqwest::Client,
    counts: Arc<Counts>,
}

#[async_trait]
impl Middleware for Wire {
    async fn handle(
        &self,
        request: Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let response = self.client.execute(request).await.map_err(MiddlewareError::Reqwest)?;
        if matches!(response.status().as_u16(), 429 | 503) {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
        Ok(response)
    }
}

fn nginx(ports: &[u16]) -> Vec<Real> {
    let of = |(name, path, allows, service): (&'static str, &str, Allows, f64)| Real {
        name,
        url: format!("http://127.0.0.1:{}/{path}", ports[0]),
        allows,
        service,
    };
    [
        ("nginx 20 r/s, no burst", "spacing", Allows::PerSecond(20.0), 0.0),
        ("nginx 20 r/s, burst 20 nodelay", "nodelay", Allows::PerSecond(20.0), 0.0),
        ("nginx 20 r/s, burst 20", "delay", Allows::PerSecond(20.0), 0.0),
        ("nginx 200 r/s, burst 20 nodelay, 150 ms a call", "many", Allows::PerSecond(200.0), 0.15),
        ("nginx 500 r/s, burst 100 nodelay", "most", Allows::PerSecond(500.0), 0.0),
        ("nginx limit_conn 5, 150 ms a call", "conn", Allows::AtOnce(5.0, 0.15), 0.15),
        ("nginx limit_conn 5, 503, 150 ms a call", "busy", Allows::AtOnce(5.0, 0.15), 0.15),
    ]
    .map(of)
    .into()
}

fn haproxy(ports: &[u16]) -> Vec<Real> {
    let names = ["haproxy request rate 100 in 5 s, refusals counted", "haproxy counter 100 in 5 s"];
    let of = |(name, port): (&'static str, &u16)| Real {
        name,
        url: format!("http://127.0.0.1:{port}/0"),
        allows: Allows::PerSecond(20.0),
        service: 0.0,
    };
    names.into_iter().zip(ports).map(of).collect()
}

fn node(ports: &[u16]) -> Vec<Real> {
    let of = |(name, style): (&'static str, &str)| Real {
        name,
        url: format!("http://127.0.0.1:{}/{style}", ports[0]),
        allows: Allows::PerSecond(20.0),
        service: 0.0,
    };
    [
        ("Node window 100 in 5 s, no headers", "none"),
        ("Node window 100 in 5 s, legacy headers", "legacy"),
        ("Node window 100 in 5 s, draft-6", "draft-6"),
        ("Node window 100 in 5 s, draft-7", "draft-7"),
        ("Node window 100 in 5 s, draft-8", "draft-8"),
    ]
    .map(of)
    .into()
}
