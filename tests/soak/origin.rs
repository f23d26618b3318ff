//! The fake origin: all servers of the world, at the inner end of the stack.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, HeaderMap, StatusCode};
use reqwest::{Response, ResponseBuilderExt as _};
use reqwest_middleware::{Middleware, Next, Result};

use super::body::{Piece, Streamed};
use super::dice::Dice;
use super::log::{Answer, Ms, What};
use super::server::{MINUTE, Request, SECOND, Server, Verdict};
use super::world::World;

/// The header that tells the origin which call a request is of.
pub(crate) const CALL: &str = "x-call";

#[derive(Clone)]
pub(crate) struct Origin(pub(crate) Arc<World>);

/// What will come of a request, decided when it arrives.
struct Plan {
    admitted: bool,
    trip: Ms,
    answer: Answer,
    /// Whether no connection comes about at all.
    unreachable: bool,
    status: StatusCode,
    headers: HeaderMap,
    pieces: Vec<Piece>,
}

#[async_trait]
impl Middleware for Origin {
    async fn handle(&self, request: reqwest::Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let call = request.headers()[CALL].to_str().unwrap().parse().unwrap();
        let (scope, cost) = self.0.call(call);
        let plan = self.0.plan(scope, cost);
        self.0.log.note(scope, call, What::Sent { admitted: plan.admitted });
        let mut attempt = Attempt {
            world: Arc::clone(&self.0),
            scope,
            call,
            admitted: plan.admitted,
            at_its_end: What::Abandoned,
        };
        if plan.trip > 0 {
            tokio::time::sleep(Duration::from_millis(plan.trip)).await;
        }
        attempt.heard(plan.answer);
        if plan.answer == Answer::Lost {
            return Err(self.0.failures.next(plan.unreachable).into());
        }
        let response = http::Response::builder().url(request.url().clone()).status(plan.status);
        let mut response = response.body(Streamed::body(plan.pieces, attempt)).unwrap();
        *response.headers_mut() = plan.headers;
        Ok(response.into())
    }
}

/// An attempt for as long as the server has to do with it, its body included.
struct Attempt {
    world: Arc<World>,
    scope: usize,
    call: usize,
    admitted: bool,
    at_its_end: What,
}

impl Attempt {
    fn heard(&mut self, answer: Answer) {
        self.world.log.note(self.scope, self.call, What::Heard(answer));
        self.at_its_end = What::BodyOver;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.admitted {
            self.world.server(self.scope).open -= 1;
        }
        self.world.log.note(self.scope, self.call, self.at_its_end);
        self.world.scopes[self.scope].done.notify_waiters();
    }
}

impl World {
    pub(crate) fn server(&self, scope: usize) -> MutexGuard<'_, Server> {
        self.scopes[scope].server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a server decide, and counts what it admits as open.
    fn plan(&self, scope: usize, cost: f64) -> Plan {
        let now = self.log.now();
        let server = &mut *self.server(scope);
        let trip = if server.dice.chance(0.05) { 0 } else { server.dice.spread(2, 100) };
        match server.decide(Request { now, cost }, trip) {
            Verdict::Refused { wait } => self.refuse(server, wait, trip, now),
            Verdict::Admitted => {
                server.open += 1;
                let plan = admit(server, now);
                let restart = self.next_restart(scope, now);
                interrupted(plan, restart.saturating_sub(now))
            }
        }
    }

    fn refuse(&self, server: &mut Server, wait: Option<Ms>, trip: Ms, now: Ms) -> Plan {
        let (status, headers) = server.style.refusal(wait, now + trip, server.window(now + trip));
        let dice = &mut server.dice;
        let (pieces, body) = if self.stalls_refusals && dice.chance(0.1) {
            let pause = dice.spread(50, 5 * SECOND);
            let last = dice.one_of(&[Piece::Data, Piece::Fail, Piece::Hang]);
            let body = if last == Piece::Hang { BODY_READ_TIMEOUT } else { pause.min(BODY_READ_TIMEOUT) };
            (vec![Piece::Data, Piece::Pause(pause), last], body)
        } else if dice.chance(0.5) {
            (vec![Piece::Data], 0)
        } else {
            (Vec::new(), 0)
        };
        let answer = Answer::Refused { wait, body };
        Plan { admitted: false, trip, answer, unreachable: false, status, headers, pieces }
    }
}

/// The default of the policy.
const BODY_READ_TIMEOUT: Ms = 2 * SECOND;

/// What becomes of a request that is admitted.
fn admit(server: &mut Server, now: Ms) -> Plan {
    let dice = &mut server.dice;
    let work = if dice.chance(0.05) { 0 } else { dice.spread(5, 5 * SECOND) };
    let mut plan = Plan {
        admitted: true,
        trip: work,
        answer: Answer::Taken,
        unreachable: false,
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        pieces: stream(dice),
    };
    if dice.chance(server.faults) {
        match dice.index(6) {
            0 => plan.answer = Answer::Lost,
            1 => (plan.answer, plan.unreachable, plan.trip) = (Answer::Lost, true, dice.spread(1, 200)),
            // No answer for as long as anybody waits.
            2 => (plan.answer, plan.trip) = (Answer::Lost, 10 * MINUTE),
            3 => plan.status = StatusCode::from_u16(dice.one_of(&[500, 502, 504, 408])).unwrap(),
            4 => plan.pieces.push(Piece::Hang),
            _ => plan.pieces.push(Piece::Fail),
        }
    }
    plan.headers = server.style.success(now + plan.trip, server.window(now + plan.trip));
    plan
}

/// A body in one piece, in several over a while, or without any.
fn stream(dice: &mut Dice) -> Vec<Piece> {
    match dice.index(4) {
        0 => Vec::new(),
        1 => vec![Piece::Data],
        2 => vec![Piece::Pause(dice.spread(1, SECOND)), Piece::Data],
        _ => {
            let pause = |dice: &mut Dice| [Piece::Data, Piece::Pause(dice.spread(1, 10 * SECOND))];
            let mut pieces: Vec<_> = (0..=dice.index(5)).flat_map(|_| pause(dice)).collect();
            if dice.chance(0.5) {
                pieces.push(Piece::Data);
            }
            pieces
        }
    }
}

/// What a restart in `left` leaves of a plan.
fn interrupted(mut plan: Plan, left: Ms) -> Plan {
    if left <= plan.trip {
        return Plan { trip: left, answer: Answer::Lost, unreachable: false, ..plan };
    }
    let mut at = plan.trip;
    for index in 0..plan.pieces.len() {
        let lasts = match plan.pieces[index] {
            Piece::Pause(pause) => pause,
            Piece::Hang => Ms::MAX,
            Piece::Data | Piece::Fail => 0,
        };
        if at.saturating_add(lasts) >= left {
            plan.pieces.truncate(index);
            plan.pieces.extend([Piece::Pause(left - at), Piece::Fail]);
            return plan;
        }
        at += lasts;
    }
    plan
}
