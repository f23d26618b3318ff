//! What others do about a 429, as small middlewares.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};
use tokio::time::{Instant, sleep_until};

use crate::model::{Call, Random};
use crate::origin::TooLate;

/// How long a refused call waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// One second, as often as it takes.
    Fixed,
    /// What the header says and up to a share of it more, as often as it takes.
    Header { jitter: f64 },
    /// As the OpenAI SDKs do: what the header says, or backoff without one; two repeats.
    OpenAi,
}

/// Repeats refused calls by a [`Rule`] until the deadline.
#[derive(Debug)]
pub(crate) struct Repeat {
    rule: Rule,
    random: Mutex<Random>,
}

impl Repeat {
    pub(crate) fn new(rule: Rule, seed: u64, process: usize) -> Self {
        Self { rule, random: Mutex::new(Random::new(seed, 1_000_000 + process as u64)) }
    }

    fn wait(&self, repeats: i32, advice: Option<Duration>) -> Option<Duration> {
        let draw = self.random.lock().unwrap_or_else(PoisonError::into_inner).uniform();
        let second = Duration::from_secs(1);
        match self.rule {
            Rule::Fixed => Some(second),
            Rule::Header { jitter } => Some(advice.unwrap_or(second).mul_f64(1.0 + jitter * draw)),
            Rule::OpenAi if repeats >= 2 => None,
            Rule::OpenAi => Some(advice.filter(|wait| wait.as_secs() <= 120).unwrap_or_else(|| {
                Duration::from_secs_f64((0.5 * f64::from(repeats).exp2()).min(8.0) * (1.0 - 0.25 * draw))
            })),
        }
    }
}

#[async_trait]
impl Middleware for Repeat {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let deadline = extensions.get::<Call>().map(|call| call.deadline);
        let mut repeats = 0;
        loop {
            let Some(copy) = request.try_clone() else { return next.run(request, extensions).await };
            let response = next.clone().run(copy, extensions).await?;
            if response.status() != StatusCode::TOO_MANY_REQUESTS {
                return Ok(response);
            }
            let Some(wait) = self.wait(repeats, advice(&response)) else { return Ok(response) };
            let until = Instant::now() + wait;
            if deadline.is_some_and(|deadline| until > deadline) {
                return Ok(response);
            }
            drop(response);
            sleep_until(until).await;
            repeats += 1;
        }
    }
}

/// Closes for all callers for as long as any refusal advised, and opens for all at once; without advice the refused call
/// waits by itself, twice as long each time.
#[derive(Debug)]
pub(crate) struct CoolDown {
    closed: Mutex<Option<Instant>>,
    random: Mutex<Random>,
}

impl CoolDown {
    pub(crate) fn new(seed: u64, process: usize) -> Self {
        let random = Random::new(seed, 1_000_000 + process as u64);
        Self { closed: Mutex::default(), random: Mutex::new(random) }
    }

    fn closed(&self) -> MutexGuard<'_, Option<Instant>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all is open; false where that is too late.
    async fn is_open_before(&self, deadline: Option<Instant>) -> bool {
        loop {
            let until = *self.closed();
            let Some(until) = until.filter(|until| *until > Instant::now()) else { return true };
            if deadline.is_some_and(|deadline| until > deadline) {
                return false;
            }
            sleep_until(until).await;
        }
    }

    /// When a call may come again that was refused just now.
    fn again(&self, repeats: i32, advice: Option<Duration>) -> Instant {
        let now = Instant::now();
        let Some(advice) = advice.filter(|advice| !advice.is_zero()) else {
            let draw = self.random.lock().unwrap_or_else(PoisonError::into_inner).uniform();
            let full = (0.5 * f64::from(repeats).exp2()).min(8.0);
            return now + Duration::from_secs_f64(full * (0.5 + 0.5 * draw));
        };
        let mut closed = self.closed();
        *closed = (*closed).max(Some(now + advice));
        now + advice
    }
}

#[async_trait]
impl Middleware for CoolDown {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let deadline = extensions.get::<Call>().map(|call| call.deadline);
        let mut repeats = 0;
        loop {
            if !self.is_open_before(deadline).await {
                return Err(Error::middleware(TooLate));
            }
            let Some(copy) = request.try_clone() else { return next.run(request, extensions).await };
            let response = next.clone().run(copy, extensions).await?;
            if response.status().is_success() {
                return Ok(response);
            }
            let until = self.again(repeats, advice(&response));
            if deadline.is_some_and(|deadline| until > deadline) {
                return Ok(response);
            }
            drop(response);
            sleep_until(until).await;
            repeats += 1;
        }
    }
}

/// The advised wait, read as simply as these clients do.
pub(crate) fn advice(response: &Response) -> Option<Duration> {
    let number = |name: &str| response.headers().get(name)?.to_str().ok()?.parse().ok();
    number("retry-after-ms")
        .map(Duration::from_millis)
        .or_else(|| number("retry-after").map(Duration::from_secs))
}
