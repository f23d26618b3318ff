//! A replay of recorded waits: a lone caller whose every call is refused once, with a wait that a provisioned
//! deployment has really advised, and is taken from then on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_admission::LatencyBudget;
use reqwest_middleware::{Middleware, Next, Result};
use tokio::time::{Instant, sleep};

use crate::model::{Call, Figures};
use crate::origin::{refused, taken};
use crate::strategy::{Setting, Strategy};

const DATA: &str = include_str!("../../../tests/data/ptu_retry_after_ms.csv");
/// On the network, one way.
const ONE_WAY: Duration = Duration::from_millis(25);
/// The time between calls.
const PAUSE: Duration = Duration::from_secs(3);
const BUDGET: Duration = Duration::from_secs(60);

/// What came out for one strategy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replay {
    pub(crate) figures: Figures,
    /// Sends before the advised moment, counted from the receipt of the advice.
    pub(crate) early: u64,
    /// Advised waits and the waits that followed, in seconds, of the calls that were served.
    pub(crate) waits: Vec<(f64, f64)>,
}

impl Replay {
    /// By how much the median call waited longer than advised, as a share of the advice.
    pub(crate) fn over_advice(&self) -> f64 {
        let mut over: Vec<f64> = self.waits.iter().map(|(advised, waited)| waited / advised - 1.0).collect();
        quantile(&mut over, 0.5)
    }
}

#[derive(Debug, Default)]
struct State {
    advice: Duration,
    refusals: u64,
    early: u64,
    /// When the first refusal was received, and when the server takes the call.
    received: Option<Instant>,
    opens: Option<Instant>,
    sent: Option<Instant>,
}

/// The server of one call at a time.
#[derive(Clone, Debug, Default)]
struct Origin(Arc<Mutex<State>>);

impl Origin {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The wait of a refusal, or that the call is taken.
    fn arrive(&self) -> Option<Duration> {
        let now = Instant::now();
        let mut state = self.state();
        let opens = match state.opens {
            Some(opens) => opens,
            None => {
                state.received = Some(now + ONE_WAY);
                let opens = now + state.advice;
                *state.opens.insert(opens)
            }
        };
        let wait = opens.saturating_duration_since(now);
        if !wait.is_zero() {
            state.refusals += 1;
            // Whole milliseconds, and never too few.
            let rounded = Duration::from_millis(wait.as_millis() as u64);
            return Some(if rounded < wait { rounded + Duration::from_millis(1) } else { rounded });
        }
        None
    }
}

#[async_trait]
impl Middleware for Origin {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        {
            let mut state = self.state();
            let sent = Instant::now();
            state.sent = Some(sent);
            let floor = state.received.map(|received| received + state.advice);
            state.early += u64::from(floor.is_some_and(|floor| sent < floor));
        }
        sleep(ONE_WAY).await;
        let wait = self.arrive();
        sleep(ONE_WAY).await;
        match wait {
            Some(_) => refused(wait),
            None => taken(None, 1.0, Duration::ZERO),
        }
    }
}

/// Replays all recorded waits, with a new client for each recorded run.
pub(crate) fn replay(strategy: Strategy, seed: u64) -> Replay {
    let rows: Vec<(&str, u64)> = DATA
        .lines()
        .filter_map(|line| line.split_once(','))
        .filter_map(|(run, wait)| Some((run, wait.parse().ok()?)))
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let Ok(runtime) = runtime else { return Replay::default() };
    let (mut replay, mut added, mut failed, mut refusals) = (Replay::default(), Vec::new(), 0.0, 0.0);
    runtime.block_on(async {
        for run in rows.chunk_by(|one, other| one.0 == other.0) {
            let origin = Origin::default();
            let client = strategy.client(&Setting::new(seed, 0, Instant::now()), origin.clone());
            for (_, advice) in run {
                sleep(PAUSE).await;
                *origin.state() = State { advice: Duration::from_millis(*advice), ..State::default() };
                let start = Instant::now();
                let call = Call { size: 1.0, estimate: 1.0, start, deadline: start + BUDGET };
                let request = client
                    .post("http://model.test/v1/responses")
                    .body("{}")
                    .with_extension(call)
                    .with_extension(LatencyBudget::new(BUDGET));
                let served = request.send().await.is_ok_and(|response| response.status().is_success());
                let state = origin.state();
                replay.early += state.early;
                refusals += state.refusals as f64;
                match (served, state.sent, state.received) {
                    (true, Some(sent), Some(received)) => {
                        added.push((sent - start).as_secs_f64());
                        let waited = sent.saturating_duration_since(received).as_secs_f64();
                        replay.waits.push((state.advice.as_secs_f64(), waited));
                    }
                    _ => {
                        failed += 1.0;
                        replay.figures.refusal += start.elapsed().as_secs_f64();
                    }
                }
            }
        }
    });
    let served = added.len() as f64;
    replay.figures = Figures {
        goodput: served / (served + failed),
        rejections_per_success: refusals / served.max(1.0),
        p50: quantile(&mut added, 0.5),
        p99: quantile(&mut added, 0.99),
        failed: failed / (served + failed),
        peak: 1.0,
        refusal: replay.figures.refusal / f64::max(failed, 1.0),
        makespan: 0.0,
    };
    replay
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = ((values.len() as f64 * share).ceil() as usize).max(1) - 1;
    values.get(place).copied().unwrap_or_default()
}
