//! The adaptive retry mode of the AWS SDKs: a rate limiter of the client's own that every throttling slows down and
//! every success speeds up along a cubic curve, three attempts, and a quota of repeats.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};
use tokio::time::{Instant, sleep, sleep_until};

use crate::model::{Call, Random};
use crate::origin::TooLate;

const ATTEMPTS: i32 = 3;
const FIRST_COST: f64 = 1.0;
const REPEAT_COST: f64 = 5.0;
const QUOTA: f64 = 500.0;
const LONGEST: f64 = 20.0;
const LEAST_RATE: f64 = 0.5;
const SMOOTH: f64 = 0.8;
const BETA: f64 = 0.7;
const SCALE: f64 = 0.4;

#[derive(Debug)]
pub(crate) struct Adaptive(Mutex<State>);

#[derive(Debug)]
struct State {
    start: Instant,
    random: Random,
    quota: f64,
    enabled: bool,
    rate: f64,
    capacity: f64,
    level: f64,
    last: f64,
    measured: f64,
    bucket: f64,
    count: f64,
    highest: f64,
    throttled: f64,
}

impl Adaptive {
    pub(crate) fn new(seed: u64, process: usize, start: Instant) -> Self {
        Self(Mutex::new(State {
            start,
            random: Random::new(seed, 1_000_000 + process as u64),
            quota: QUOTA,
            enabled: false,
            rate: LEAST_RATE,
            capacity: f64::MAX,
            level: 0.0,
            last: 0.0,
            measured: LEAST_RATE,
            bucket: 0.0,
            count: 0.0,
            highest: 0.0,
            throttled: 0.0,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for tokens, as often as it takes; how long, or nothing where that is too long.
    async fn acquire(&self, cost: f64, deadline: Instant) -> Option<Duration> {
        let start = Instant::now();
        loop {
            let Some(wait) = self.state().acquire(cost) else { return Some(start.elapsed()) };
            let until = Instant::now() + Duration::from_secs_f64(wait.max(0.001));
            if until > deadline {
                return None;
            }
            sleep_until(until).await;
        }
    }
}

impl State {
    fn refill(&mut self) -> f64 {
        let now = self.start.elapsed().as_secs_f64();
        self.level = (self.level + (now - self.last) * self.rate).min(self.capacity);
        self.last = now;
        now
    }

    /// Takes tokens, or tells in how many seconds they are there.
    fn acquire(&mut self, cost: f64) -> Option<f64> {
        if !self.enabled {
            return None;
        }
        self.refill();
        // A repeat costs more than the bucket of a slow client holds.
        let cost = cost.min(self.capacity);
        if cost > self.level {
            return Some((cost - self.level) / self.rate);
        }
        self.level -= cost;
        None
    }

    fn update(&mut self, throttled: bool) {
        let now = self.refill();
        self.count += 1.0;
        let bucket = (now * 2.0).floor() / 2.0;
        if bucket > self.bucket {
            self.measured = self.count / (bucket - self.bucket) * SMOOTH + self.measured * (1.0 - SMOOTH);
            (self.count, self.bucket) = (0.0, bucket);
        }
        let rate = if throttled {
            self.highest = if self.enabled { self.measured.min(self.rate) } else { self.measured };
            self.throttled = now;
            self.enabled = true;
            self.highest * BETA
        } else {
            let window = (self.highest * (1.0 - BETA) / SCALE).cbrt();
            SCALE * (now - self.throttled - window).powi(3) + self.highest
        };
        let rate = rate.min(2.0 * self.measured);
        self.rate = rate.max(LEAST_RATE);
        self.capacity = rate.max(1.0);
        self.level = self.level.min(self.capacity);
    }
}

#[async_trait]
impl Middleware for Adaptive {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let deadline = extensions.get::<Call>().ok_or_else(|| Error::middleware(TooLate))?.deadline;
        if self.acquire(FIRST_COST, deadline).await.is_none() {
            return Err(Error::middleware(TooLate));
        }
        let mut held = 0.0;
        for attempt in 0.. {
            let Some(copy) = request.try_clone() else { break };
            let response = next.clone().run(copy, extensions).await?;
            let throttled = response.status() == StatusCode::TOO_MANY_REQUESTS;
            let backoff = {
                let mut state = self.state();
                state.update(throttled);
                if !throttled {
                    // What the last repeat took is given back, or a little of what others have lost.
                    state.quota = (state.quota + if held > 0.0 { held } else { FIRST_COST }).min(QUOTA);
                    return Ok(response);
                }
                if attempt + 1 >= ATTEMPTS || state.quota < REPEAT_COST {
                    return Ok(response);
                }
                state.quota -= REPEAT_COST;
                held = REPEAT_COST;
                Duration::from_secs_f64((state.random.uniform() * f64::from(attempt).exp2()).min(LONGEST))
            };
            // The limiter's wait goes before backoff.
            match self.acquire(REPEAT_COST, deadline).await {
                Some(wait) if wait.is_zero() && Instant::now() + backoff <= deadline => sleep(backoff).await,
                Some(wait) if !wait.is_zero() => {}
                _ => return Ok(response),
            }
        }
        next.run(request, extensions).await
    }
}
