//! Random callers, and how a run is played.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt as _;
use reqwest::Response;
use reqwest_admission::gate::{Gate, Priority};
use reqwest_admission::pace::{Limits, TokenEstimate};
use reqwest_admission::{Admission, LatencyBudget, SpillOver};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tokio::time::{Instant, sleep, timeout};

use super::dice::Dice;
use super::log::{End, Line, Ms, What};
use super::origin::{CALL, Origin};
use super::server::{HOUR, MINUTE, SECOND};
use super::world::{Rule, Scope, World};

/// What a run leaves behind.
pub(crate) struct Played {
    pub(crate) log: Vec<Line>,
    pub(crate) rules: Vec<Rule>,
    /// Permits and places in queues that the gate still knows of when all is over.
    pub(crate) held: usize,
}

/// Lets `callers` live in `world` for `length`, in virtual time.
pub(crate) fn play(seed: u64, callers: u64, length: Ms, stalls_refusals: bool) -> Played {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = Arc::new(World::new(seed, length, stalls_refusals));
        let gate = Gate::builder().seed(seed).build().unwrap();
        let client = client(&world, &gate);
        let tasks: Vec<_> = (0..callers)
            .map(|number| {
                let dice = Dice::new(seed, 2_000 + number);
                let caller = Caller { world: Arc::clone(&world), client: client.clone(), dice };
                tokio::spawn(caller.live(length))
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        full_houses(&world, &client).await;
        let scopes = gate.snapshot(Instant::now().into_std()).scopes;
        let waiting = |of: &reqwest_admission::gate::Waiting| of.high + of.normal + of.batch;
        let held = scopes.iter().map(|scope| scope.in_flight as usize + waiting(&scope.waiting)).sum();
        Played { log: world.log.take(), rules: world.rules(), held }
    })
}

fn client(world: &Arc<World>, gate: &Gate) -> ClientWithMiddleware {
    for scope in &world.scopes {
        if let (Some(key), Rule::Limited(most)) = (&scope.key, scope.rule) {
            let limits = Limits::new().concurrency(u32::try_from(most).unwrap());
            gate.set_limits(key, limits, Instant::now().into_std()).unwrap();
        }
    }
    let admission = Admission::builder().gate(gate.clone()).seed(world.seed).build().unwrap();
    ClientBuilder::new(reqwest::Client::new()).with(admission).with(Origin(Arc::clone(world))).build()
}

/// At the end each limited scope takes as many calls at once as its limit says: no permit was lost.
async fn full_houses(world: &Arc<World>, client: &ClientWithMiddleware) {
    let mut tasks = Vec::new();
    for (scope, known) in world.scopes.iter().enumerate() {
        let Rule::Limited(most) = known.rule else { continue };
        for number in 0..most {
            let dice = Dice::new(world.seed, 3_000 + number as u64);
            let mut caller = Caller { world: Arc::clone(world), client: client.clone(), dice };
            tasks.push(tokio::spawn(async move { caller.call(scope, Manner::plain()).await }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
}

struct Caller {
    world: Arc<World>,
    client: ClientWithMiddleware,
    dice: Dice,
}

/// How a call is made.
struct Manner {
    budget: Option<Ms>,
    priority: Priority,
    tokens: Option<u64>,
    method: Method,
    has_key: bool,
    cancelled: Option<When>,
}

/// When a call is cancelled.
#[derive(Debug, Clone, Copy)]
enum When {
    After(Ms),
    /// When the server is done with another call of the scope: just when the gate lets the next one go.
    Next,
}

/// The budget of the default policy.
const USUAL_BUDGET: Ms = 30 * SECOND;

impl Manner {
    fn plain() -> Self {
        Self {
            budget: None,
            priority: Priority::Normal,
            tokens: None,
            method: Method::GET,
            has_key: false,
            cancelled: None,
        }
    }

    fn random(dice: &mut Dice) -> Self {
        let budget = match dice.index(20) {
            0 => Some(0),
            1..8 => None,
            8..19 => Some(dice.spread(50, 2 * MINUTE)),
            _ => Some(dice.spread(2 * MINUTE, 8 * HOUR)),
        };
        Self {
            budget,
            priority: dice.one_of(&[Priority::Normal, Priority::Normal, Priority::High, Priority::Batch]),
            tokens: dice.chance(0.3).then(|| dice.spread(100, 10_000)),
            method: dice.one_of(&[Method::GET, Method::POST].each_ref()).clone(),
            has_key: dice.chance(0.3),
            cancelled: match dice.index(20) {
                0 | 1 => Some(When::After(dice.spread(1, MINUTE))),
                2 => Some(When::Next),
                _ => None,
            },
        }
    }
}

impl Caller {
    async fn live(mut self, length: Ms) {
        let think = self.dice.spread(SECOND, 30 * SECOND);
        loop {
            let pause = match self.dice.chance(0.1) {
                // With others, at the full minute.
                true => MINUTE - self.world.log.now() % MINUTE,
                false => self.dice.exponential(think),
            };
            sleep(Duration::from_millis(pause)).await;
            if self.world.log.now() >= length {
                return;
            }
            let scope = match self.dice.chance(0.5) {
                true => self.world.favourite(),
                false => self.dice.index(self.world.scopes.len()),
            };
            let manner = Manner::random(&mut self.dice);
            self.call(scope, manner).await;
        }
    }

    async fn call(&mut self, scope: usize, manner: Manner) {
        let world = Arc::clone(&self.world);
        let known = &world.scopes[scope];
        let call = world.begin(scope, manner.tokens.map_or(1.0, |tokens| tokens as f64 / 1e3));
        let mut request = self
            .client
            .request(manner.method, &known.url)
            .header("authorization", &known.credential)
            .header(CALL, call)
            .with_extension(manner.priority);
        if let Some(budget) = manner.budget {
            request = request.with_extension(LatencyBudget::new(Duration::from_millis(budget)));
        }
        if let Some(tokens) = manner.tokens {
            request = request.with_extension(TokenEstimate::new(tokens, 0));
        }
        if manner.has_key {
            request = request.header("idempotency-key", call);
        }
        if let Some(key) = &known.key {
            request = request.with_extension(key.clone());
        }
        let batch = manner.priority == Priority::Batch;
        world.log.note(scope, call, What::Began { budget: manner.budget.unwrap_or(USUAL_BUDGET), batch });
        // Cancelled first, so that a call may be let go and dropped in the same moment.
        let outcome = tokio::select! {
            biased;
            () = cancelled(known, manner.cancelled) => None,
            outcome = request.send() => Some(outcome),
        };
        world.log.note(scope, call, What::Ended(outcome.as_ref().map_or(End::Cancelled, end)));
        if let Some(Ok(response)) = outcome {
            self.read(response).await;
        }
    }

    /// Reads a body at once or slowly, or drops it: before, half way, or when too much time has passed.
    async fn read(&mut self, response: Response) {
        let mut response = http::Response::<reqwest::Body>::from(response).into_body();
        let patience = Duration::from_millis(self.dice.spread(10, 5 * MINUTE));
        let (slowly, most) = match self.dice.index(6) {
            0 => return,
            1 => return sleep(patience / 10).await,
            2 => (None, 1),
            3 => (Some(self.dice.spread(10, 20 * SECOND)), usize::MAX),
            _ => (None, usize::MAX),
        };
        let reading = async {
            for _ in 0..most {
                if !matches!(response.frame().await, Some(Ok(_))) {
                    return;
                }
                if let Some(pause) = slowly {
                    sleep(Duration::from_millis(pause)).await;
                }
            }
        };
        let _ = timeout(patience, reading).await;
    }
}

async fn cancelled(scope: &Scope, when: Option<When>) {
    match when {
        Some(When::After(after)) => sleep(Duration::from_millis(after)).await,
        Some(When::Next) => scope.done.notified().await,
        None => std::future::pending().await,
    }
}

fn end(outcome: &reqwest_middleware::Result<Response>) -> End {
    match outcome {
        _ if SpillOver::of(outcome).is_some() => End::SpilledOver,
        Ok(_) => End::Answered,
        Err(_) => End::Failed,
    }
}
