//! The state of one scope behind its lock: who is let go is decided here and nowhere else.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::baton::earliest;
use super::cell::{Answer, Outcome, Request, Wakers};
use super::cool_down::refuse;
use super::queue::{Number, Priority, Queue, STEP, Waiter};
use super::{Refusal, RefusalReason};
use crate::clock::Draws;
use crate::pace::{Amounts, Cost, Demand, Limits, Pace, Sent, TokenUsage, Wait, WaitCause, whole};

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) pace: Pace,
    pub(crate) queue: Queue,
    pub(crate) last_used: Instant,
    /// Tokens that settled calls took beyond (or, negative, below) their estimates, of which the fleet's store does not know;
    /// not counted where there is no store.
    pub(super) owed: Option<i64>,
    pub(super) outcomes: BTreeMap<Number, Outcome>,
    /// How far the order of arrival has come.
    next: u64,
    /// Who holds the release timer, and for when it is set; `None` where only a slot can release.
    pub(super) baton: Option<(Number, Option<Instant>)>,
    pub(super) draws: Draws,
    bounds: Bounds,
}

/// The bounds of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) most_waiting: usize,
    pub(crate) longest_wait: Option<Duration>,
}

impl State {
    pub(crate) fn new(limits: Limits, draws: Draws, bounds: Bounds, has_store: bool, now: Instant) -> Self {
        Self {
            pace: Pace::new(limits, now),
            queue: Queue::default(),
            last_used: now,
            owed: has_store.then_some(0),
            outcomes: BTreeMap::new(),
            next: 0,
            baton: None,
            draws,
            bounds,
        }
    }

    /// Whether nothing would be lost by forgetting the scope: neither a cool-down nor anybody's place.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        !self.pace.is_closed(now)
            && self.queue.is_empty()
            && self.outcomes.is_empty()
            && self.pace.slots().in_flight() == 0
    }

    #[cfg(test)]
    pub(super) fn has_no_outcomes(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// Lets a call go for which it can be seen at a glance that nobody and nothing holds it back.
    #[inline]
    pub(crate) fn grant_at_once(
        &mut self,
        request: &Request,
        demand: &Demand,
        now: Instant,
    ) -> Option<(Number, Sent)> {
        if !self.queue.is_empty() {
            return None;
        }
        let sent = self.pace.send_at_once(demand, request.class == Priority::Batch, now)?;
        self.last_used = now;
        Some((self.take_number(request), sent))
    }

    /// Answers a reservation that something may hold back.
    #[inline]
    pub(crate) fn reserve(
        &mut self,
        request: &Request,
        demand: &Demand,
        now: Instant,
        wakers: &mut Wakers,
    ) -> Answer {
        match self.line_up(request, demand, now) {
            Answer::Queued(number, wait) => self.settle_in(number, wait, now, wakers),
            answer => answer,
        }
    }

    /// Both ways of answering a reservation, one after the other.
    #[cfg(test)]
    pub(super) fn answer(&mut self, request: &Request, now: Instant, wakers: &mut Wakers) -> Answer {
        let demand = self.pace.demand(request.cost);
        match self.grant_at_once(request, &demand, now) {
            Some((number, call)) => Answer::Granted(number, call),
            None => self.reserve(request, &demand, now, wakers),
        }
    }

    /// Where the call is queued, it may be its turn already.
    #[inline]
    fn line_up(&mut self, request: &Request, demand: &Demand, now: Instant) -> Answer {
        self.last_used = now;
        self.pace.arrived(now);
        let batch = request.class == Priority::Batch;
        let nobody = self.queue.is_empty();
        let ahead = match request.place {
            _ if nobody => Amounts::default(),
            None => self.queue.ahead(request.class),
            Some((number, _)) => self.queue.ahead_of(request.class, number),
        };
        let wait = self.pace.wait_behind(&ahead, &demand.amounts, batch, now);
        if nobody && wait.cause == WaitCause::Nothing {
            return Answer::Granted(self.take_number(request), self.pace.send_demand(demand, now));
        }
        let patience = self.bounds.longest_wait.and_then(|longest| now.checked_add(longest));
        if let Some(refusal) = refuse(&wait, request.deadline, patience, now) {
            return Answer::Refused(refusal);
        }
        // A call that comes back had its place already.
        if request.place.is_none() && self.queue.len() >= self.bounds.most_waiting {
            return Answer::Refused(Refusal::new(&wait, RefusalReason::QueueFull));
        }
        let since = request.place.map_or(now, |(_, since)| since);
        let number = self.take_number(request);
        let deadline = earliest(request.deadline, patience);
        self.queue.insert(request.class, number, Waiter { demand: *demand, since, deadline, waker: None });
        Answer::Queued(number, wait)
    }

    /// The end of a reservation that has just been queued.
    fn settle_in(&mut self, number: Number, wait: Wait, now: Instant, wakers: &mut Wakers) -> Answer {
        self.pump(now, wakers);
        match self.outcomes.remove(&number) {
            Some(Outcome::Granted(sent)) => Answer::Granted(number, sent),
            Some(Outcome::Refused(refusal)) => Answer::Refused(refusal),
            None => Answer::Queued(number, wait),
        }
    }

    /// The number of a call; a new arrival counts, and a refused one leaves no trace.
    const fn take_number(&mut self, request: &Request) -> Number {
        match request.place {
            Some((number, _)) => number,
            None => {
                let number = Number::arrived(self.next);
                self.next = self.next.wrapping_add(STEP);
                number
            }
        }
    }

    /// A call that was sent without asking.
    pub(super) fn send_unasked(&mut self, cost: Cost, now: Instant) -> (Number, Sent) {
        self.last_used = now;
        let request = Request { cost, class: Priority::Normal, deadline: None, place: None };
        (self.take_number(&request), self.pace.send(cost, now))
    }

    /// The number of a call after one more refusal: never behind those that have yet to come.
    pub(crate) const fn number_after_refusal(&mut self, number: Number) -> Number {
        let later = number.after_refusal();
        if later.is_before(self.next) {
            return later;
        }
        let last = later.put_last(self.next);
        self.next = self.next.wrapping_add(STEP);
        last
    }

    /// A ticket is polled: what became of it, or when it has to look again. What is left of `waker` is to be dropped without
    /// the lock.
    pub(crate) fn look(
        &mut self,
        class: Priority,
        number: Number,
        waker: &mut Option<Waker>,
        now: Instant,
        wakers: &mut Wakers,
    ) -> Result<Outcome, Option<Instant>> {
        let mut outcome = self.outcomes.remove(&number);
        if outcome.is_none() {
            self.pump(now, wakers);
            outcome = self.outcomes.remove(&number);
        }
        match outcome {
            Some(outcome) => Ok(outcome),
            // A call that is let go exactly at its deadline is in time, and it was not.
            None if self.is_due(class, number, now) => {
                Ok(Outcome::Refused(self.expire(class, number, now, wakers)))
            }
            None => Err(self.park(class, number, waker, now)),
        }
    }

    /// Whether a waiter's deadline has come.
    fn is_due(&self, class: Priority, number: Number, now: Instant) -> bool {
        self.queue
            .get(class, number)
            .is_some_and(|waiter| waiter.deadline.is_some_and(|deadline| deadline <= now))
    }

    /// Takes a waiter out whose time is up.
    fn expire(&mut self, class: Priority, number: Number, now: Instant, wakers: &mut Wakers) -> Refusal {
        let ahead = self.queue.ahead_of(class, number);
        let wait = match self.queue.remove(class, number) {
            Some(waiter) => {
                wakers.retire(waiter.waker);
                self.pace.wait_behind(&ahead, &waiter.demand.amounts, class == Priority::Batch, now)
            }
            None => Wait { time: Duration::ZERO, cause: WaitCause::Nothing },
        };
        self.pump(now, wakers);
        Refusal::new(&wait, RefusalReason::BeyondDeadline)
    }

    /// A ticket was dropped: leaves the queue, or gives an assigned grant back. Asks for the time only where something
    /// follows from it: to read a clock takes longer than all the rest.
    pub(crate) fn abandon(
        &mut self,
        class: Priority,
        number: Number,
        now: impl FnOnce() -> Instant,
        wakers: &mut Wakers,
    ) {
        match self.outcomes.remove(&number) {
            Some(Outcome::Granted(sent)) => {
                let now = now();
                self.pace.give_back(&sent, now);
                self.pace.ended();
                self.pump(now, wakers);
            }
            Some(Outcome::Refused(_)) => self.pump(now(), wakers),
            None => {
                let in_the_way = self.queue.is_first(class, number)
                    || self.baton.is_some_and(|(holder, _)| holder == number);
                wakers.retire(self.queue.remove(class, number).and_then(|waiter| waiter.waker));
                if !self.has_nobody_waiting() && in_the_way {
                    self.pump(now(), wakers);
                }
            }
        }
    }

    /// A call that was let go has ended: its slot comes back, with its cost where it was never sent, and with credit where
    /// it ended `cleanly`.
    #[inline]
    pub(crate) fn end(&mut self, call: &Sent, is_sent: bool, cleanly: bool, now: Instant) {
        if cleanly {
            self.pace.succeeded(call, now);
        }
        if !is_sent {
            self.pace.give_back(call, now);
        }
        self.pace.ended();
    }

    /// A call has really taken `usage`.
    #[inline]
    pub(crate) fn settle(&mut self, call: &mut Sent, usage: TokenUsage, now: Instant) {
        let estimate = call.tokens();
        self.pace.settle(call, usage, now);
        if let Some(owed) = &mut self.owed {
            let beyond = call.tokens() - estimate;
            let size = i64::try_from(whole(beyond.abs())).unwrap_or(i64::MAX);
            *owed = owed.saturating_add(if beyond < 0.0 { size.saturating_neg() } else { size });
        }
    }

    /// Whether `demand` would be let go now, and if not when; for display only.
    pub(crate) fn peek(&mut self, demand: Demand, class: Priority, now: Instant) -> Wait {
        let ahead = self.queue.ahead(class);
        self.pace.wait_behind(&ahead, &demand.amounts, class == Priority::Batch, now)
    }
}
