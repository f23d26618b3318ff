//! A place in the queue, as a future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::time::Sleep;

use super::Refusal;
use super::cell::{Answer, Cell, Outcome, Request};
use super::permit::Permit;
use super::queue::{Number, Priority};
use crate::clock;
use crate::pace::Wait;

/// A place in the queue of a scope: resolves to the permit, or to a refusal as soon as the deadline cannot be met.
///
/// # Fairness
///
/// Within a class first come, first served; see [`Priority`] for the classes.
///
/// # Cancel safety
///
/// Dropping a ticket leaves the queue at once, or gives back a permit that was assigned and not yet picked up. A ticket
/// that has been polled should go on being polled until it resolves or is dropped: the first in the queue keeps the
/// timer for all. Where it is not, the others notice half a second after the moment that it misses.
///
/// # Panics
///
/// Polling panics outside a tokio runtime with time enabled, as every tokio timer does.
#[must_use = "a ticket does nothing unless it is awaited"]
pub struct Ticket {
    cell: Arc<Cell>,
    number: Number,
    since: Instant,
    class: Priority,
    kind: u64,
    predicted: Wait,
    /// What the call asks for once its own wait is over, and when that is.
    asleep: Option<Asleep>,
    timer: Option<Pin<Box<Sleep>>>,
    is_resolved: bool,
}

impl Ticket {
    pub(crate) const fn new(
        cell: Arc<Cell>,
        number: Number,
        since: Instant,
        class: Priority,
        kind: u64,
        predicted: Wait,
    ) -> Self {
        Self { cell, number, since, class, kind, predicted, asleep: None, timer: None, is_resolved: false }
    }

    /// The ticket of a refused call that comes back to the queue at `until`.
    pub(super) fn asleep(mut self, request: Request, until: Instant) -> Self {
        self.cell.lock().doze();
        self.asleep = Some(Asleep { request, until });
        self
    }

    /// How long the call had to wait as it took its place, and for what. Exact while one limit binds and nobody of a
    /// higher class arrives.
    #[must_use]
    pub const fn predicted(&self) -> Wait {
        self.predicted
    }

    fn resolve(&mut self, outcome: Outcome) -> Result<Permit, Refusal> {
        self.is_resolved = true;
        self.timer = None;
        match outcome {
            Outcome::Granted(call) => {
                Ok(Permit::new(Arc::clone(&self.cell), call, self.number, self.since, self.class, self.kind))
            }
            Outcome::Refused(refusal) => Err(refusal),
        }
    }

    /// One look at the state: the outcome, or when to look again.
    fn look(&mut self, cx: &Context<'_>) -> Result<Outcome, Option<Instant>> {
        let now = clock::now();
        match self.asleep.take() {
            Some(asleep) if now < asleep.until => {
                let until = asleep.until;
                self.asleep = Some(asleep);
                return Err(Some(until));
            }
            Some(asleep) => match self.cell.wake(&asleep.request, now) {
                Answer::Granted(_, call) => return Ok(Outcome::Granted(call)),
                Answer::Refused(refusal) => return Ok(Outcome::Refused(refusal)),
                Answer::Queued(number, _) => self.number = number,
            },
            None => {}
        }
        let mut waker = Some(cx.waker().clone());
        self.cell.visit(|state, wakers| state.look(self.class, self.number, &mut waker, now, wakers))
    }
}

/// A refused call that waits by itself.
struct Asleep {
    request: Request,
    until: Instant,
}

impl Future for Ticket {
    type Output = Result<Permit, Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if self.is_resolved {
                // Polled again after completion, against the contract of futures: nothing more will come.
                return Poll::Pending;
            }
            match self.look(cx) {
                Ok(outcome) => return Poll::Ready(self.resolve(outcome)),
                Err(None) => {
                    self.timer = None;
                    return Poll::Pending;
                }
                Err(Some(at)) => {
                    let at_tokio = at.into();
                    let timer = match &mut self.timer {
                        Some(timer) => {
                            if timer.deadline() != at_tokio {
                                timer.as_mut().reset(at_tokio);
                            }
                            timer
                        }
                        empty => empty.insert(Box::pin(clock::sleep_until(at))),
                    };
                    if timer.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    // A timer that has fired is done; another look decides.
                    self.timer = None;
                }
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.is_resolved {
            return;
        }
        if self.asleep.is_some() {
            self.cell.lock().awake();
            return;
        }
        self.cell.visit(|state, wakers| state.abandon(self.class, self.number, clock::now, wakers));
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("class", &self.class)
            .field("predicted", &self.predicted)
            .field("is_resolved", &self.is_resolved)
            .finish_non_exhaustive()
    }
}
