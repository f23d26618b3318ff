//! One run: callers at a server, in virtual time, and the book that is kept of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Body, Request, Response};
use reqwest_admission::LatencyBudget;
use reqwest_admission::gate::Priority;
use reqwest_admission::pace::TokenEstimate;
use reqwest_middleware::{ClientWithMiddleware, Error, Middleware, Next, Result};
use tokio::time::{Instant, sleep, sleep_until};

use super::cell::Cell;
use super::server::{Answer, EPOCH, Server};
use crate::model::{Call, Random};
use crate::origin::TooLate;
use crate::strategy::{Setting, Strategy};

/// How long a server takes to refuse, in seconds.
const REFUSAL: f64 = 0.001;
/// What a caller waits after a call that failed, in seconds.
const PAUSE: f64 = 0.5;
/// Tokens of a call of mean cost, where costs differ.
pub(super) const TOKENS: f64 = 1000.0;

/// What came out of a run, after its warm-up if not said otherwise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// The cost of all calls that were answered in time.
    pub(crate) done: f64,
    pub(crate) successes: u64,
    pub(crate) refused: u64,
    /// Successes of callers of the lowest priority.
    pub(crate) batch: u64,
    /// Calls that were given up by callers who are not always refused.
    pub(crate) given_up: u64,
    /// The same call was sent again before the moment that its refusal had named, in the whole run.
    pub(crate) early: u64,
    /// What each process got done.
    pub(crate) of_process: Vec<f64>,
    /// What was done, and how many refusals came, in each second of the whole run.
    pub(crate) by_second: Vec<f64>,
    pub(crate) refused_by_second: Vec<u32>,
}

/// A server and its callers' book.
#[derive(Debug)]
pub(crate) struct World {
    cell: Cell,
    one_way: f64,
    start: Instant,
    server: Mutex<Server>,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    outcome: Outcome,
    /// Until when the current call of each caller is to wait.
    advised: Vec<Option<Instant>>,
}

/// Whose call a request is.
#[derive(Clone, Copy, Debug)]
struct By {
    caller: usize,
    cost: f64,
}

/// Plays a cell in virtual time.
#[expect(clippy::expect_used, reason = "a runtime without drivers")]
pub(crate) fn play(cell: &Cell, round_trip: f64, strategy: Strategy, seed: u64) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let world = Arc::new(World::new(cell.clone(), round_trip, seed));
        let clients: Vec<ClientWithMiddleware> = (0..cell.processes)
            .map(|process| {
                let setting = Setting {
                    attempts: cell.attempts,
                    is_told_of_fleet: cell.is_told,
                    ..Setting::new(seed, process, world.start)
                };
                strategy.client(&setting, Origin(Arc::clone(&world)))
            })
            .collect();
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..cell.callers {
            let client = clients[caller % cell.processes].clone();
            callers.spawn(Arc::clone(&world).call(client, caller, Random::new(seed, caller as u64)));
        }
        sleep_until(world.start + Duration::from_secs_f64(cell.warm_up + cell.seconds)).await;
        callers.shutdown().await;
        std::mem::take(&mut world.book().outcome)
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    fn new(cell: Cell, round_trip: f64, seed: u64) -> Self {
        let seconds = (cell.warm_up + cell.seconds).ceil() as usize + 1;
        let outcome = Outcome {
            of_process: vec![0.0; cell.processes],
            by_second: vec![0.0; seconds],
            refused_by_second: vec![0; seconds],
            ..Outcome::default()
        };
        let book = Book { outcome, advised: vec![None; cell.callers] };
        Self {
            one_way: round_trip / 2.0,
            start: Instant::now(),
            server: Mutex::new(Server::new(cell.spec.clone(), seed, EPOCH)),
            book: Mutex::new(book),
            cell,
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }

    fn at(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// A caller that calls, and thinks, and calls again.
    async fn call(self: Arc<Self>, client: ClientWithMiddleware, caller: usize, mut random: Random) {
        let cell = &self.cell;
        let think = cell.think(2.0 * self.one_way);
        let is_banned = cell.spec.banned.is_some_and(|banned| caller < banned.callers);
        let (path, budget) = if is_banned {
            (cell.banned_path, cell.banned_budget)
        } else {
            ("chat/completions", cell.budget)
        };
        let url = |number: usize| match cell.scopes {
            1 => format!("http://zoo.test/v1/{path}"),
            scopes => format!("http://zoo{}.test/v1/{path}", number % scopes),
        };
        // Callers that call many hosts do so from different ends.
        let mut number = caller * 7919;
        let body = if is_banned { r#"{"model":"forbidden"}"# } else { r#"{"model":"allowed"}"# };
        let first = if think > 0.0 { random.exponential(think) } else { 0.01 * random.uniform() };
        sleep(Duration::from_secs_f64(first)).await;
        loop {
            let cost = cell.cost(&mut random);
            let service = cell.service_time(&mut random);
            let start = Instant::now();
            let deadline = start + Duration::from_secs_f64(budget);
            self.book().advised[caller] = None;
            number += 1;
            // What may have been processed, as a 503 without advice may, is repeated for safe methods alone.
            let request = if cell.spec.voice.status == 429 {
                client.post(url(number)).body(body)
            } else {
                client.get(url(number))
            };
            let mut request = request
                .with_extension(By { caller, cost })
                .with_extension(Call { size: service, estimate: cost, start, deadline })
                .with_extension(LatencyBudget::new(deadline - start));
            if caller < cell.batch {
                request = request.with_extension(Priority::Batch);
            }
            if cell.sigma > 0.0 {
                request = request.with_extension(TokenEstimate::new((TOKENS * cost) as u64, 0));
            }
            let is_done = match request.send().await {
                Ok(response) => response.status().is_success() && response.bytes().await.is_ok(),
                Err(_) => false,
            };
            let pause = if is_done && think > 0.0 { random.exponential(think) } else { 0.0 };
            if is_done {
                sleep(Duration::from_secs_f64(pause)).await;
            } else {
                if !is_banned && self.at() >= cell.warm_up {
                    self.book().outcome.given_up += 1;
                }
                sleep(Duration::from_secs_f64(PAUSE)).await;
            }
        }
    }

    /// One request over the network and back.
    async fn send(self: &Arc<Self>, by: By, service: f64) -> Answer {
        let is_early = self.book().advised[by.caller].is_some_and(|until| Instant::now() < until);
        if is_early {
            self.book().outcome.early += 1;
        }
        let seconds = Duration::from_secs_f64;
        sleep(seconds(self.one_way)).await;
        let answer = lock(&self.server).arrive(self.at(), by.caller, by.cost);
        if answer.is_success() {
            // Its place is taken until the answer has come, or the caller has hung up.
            let _place = Place(Arc::clone(self));
            sleep(seconds(service + answer.delay + self.one_way)).await;
        } else {
            sleep(seconds(REFUSAL + self.one_way)).await;
        }
        self.note(by, &answer);
        answer
    }

    fn note(&self, by: By, answer: &Answer) {
        let at = self.at();
        let is_measured = at >= self.cell.warm_up;
        let is_banned = self.cell.spec.banned.is_some_and(|banned| by.caller < banned.callers);
        let mut book = self.book();
        if let Some(advised) = answer.advised {
            // Timers go by whole milliseconds.
            let until = Instant::now() + Duration::from_secs_f64((advised - 0.001).max(0.0));
            book.advised[by.caller] = Some(until);
        }
        let outcome = &mut book.outcome;
        if answer.is_success() {
            if let Some(second) = outcome.by_second.get_mut(at as usize) {
                *second += by.cost;
            }
            if is_measured {
                outcome.done += by.cost;
                outcome.successes += 1;
                outcome.batch += u64::from(by.caller < self.cell.batch);
                outcome.of_process[by.caller % self.cell.processes] += by.cost;
            }
        } else if !is_banned {
            if let Some(second) = outcome.refused_by_second.get_mut(at as usize) {
                *second += 1;
            }
            outcome.refused += u64::from(is_measured);
        }
    }
}

/// A place in the server that is given back.
struct Place(Arc<World>);

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.0.server).leave(self.0.at());
    }
}

/// The end of a stack: the server, without a socket.
#[derive(Debug)]
struct Origin(Arc<World>);

#[async_trait]
impl Middleware for Origin {
    async fn handle(&self, _: Request, extensions: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let of = extensions.get::<By>().copied().zip(extensions.get::<Call>().copied());
        let (by, call) = of.ok_or_else(|| Error::middleware(TooLate))?;
        // For strategies that know nothing of a deadline: their callers have hung up.
        if Instant::now() > call.deadline {
            return Err(Error::middleware(TooLate));
        }
        let answer = self.0.send(by, call.size).await;
        let mut head = http::Response::builder().status(answer.status);
        for (name, value) in &answer.headers {
            head = head.header(*name, value);
        }
        let body = if answer.is_success() { used(by.cost) } else { answer.body };
        Ok(head.body(Body::from(body)).map_err(Error::middleware)?.into())
    }
}

/// The body of a success.
fn used(cost: f64) -> String {
    let tokens = (TOKENS * cost) as u64;
    format!(r#"{{"usage":{{"prompt_tokens":{tokens},"completion_tokens":0,"total_tokens":{tokens}}}}}"#)
}
