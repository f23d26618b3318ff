//! The state of one scope behind its lock: who is let go is decided here and nowhere else.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::baton::{earliest, wait_of};
use super::cell::{Answer, Outcome, Request, Wakers};
use super::cool_down::refuse;
use super::queue::{Number, Priority, Queue, STEP, Waiter};
use super::{Refusal, RefusalReason};
use crate::clock::Draws;
use crate::pace::{Amounts, Cost, Demand, Limits, Pace, Rules, Sent, TokenUsage, Wait, WaitCause, whole};

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
    /// Refused calls that wait by themselves before they come back.
    pub(super) asleep: u32,
    bounds: Bounds,
}

/// The bounds of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) most_waiting: usize,
    pub(crate) longest_wait: Option<Duration>,
}

impl State {
    pub(crate) fn new(
        limits: Limits,
        rules: Rules,
        draws: Draws,
        bounds: Bounds,
        has_store: bool,
        now: Instant,
    ) -> Self {
        Self {
            pace: Pace::with_rules(limits, rules, now),
            queue: Queue::default(),
            last_used: now,
            owed: has_store.then_some(0),
            outcomes: BTreeMap::new(),
            next: 0,
            baton: None,
            draws,
            asleep: 0,
            bounds,
        }
    }

    /// Whether nothing would be lost by forgetting the scope: neither anybody's place nor what would hold a call back.
    pub(crate) fn is_idle(&mut self, now: Instant) -> bool {
        self.queue.is_empty()
            && self.outcomes.is_empty()
            && self.pace.in_flight().count() == 0
            && self.pace.wait(Cost::request(), false, now).cause == WaitCause::Nothing
    }

    #[cfg(test)]
    pub(super) fn has_no_outcomes(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// Answers a reservation.
    #[inline]
    pub(crate) fn reserve(&mut self, request: &Request, now: Instant, wakers: &mut Wakers) -> Answer {
        match self.line_up(request, now) {
            Answer::Queued(number, wait) => self.settle_in(number, wait, now, wakers),
            answer => answer,
        }
    }

    /// How long a call that comes back will wait, at least until `not_before`; or why it cannot.
    pub(crate) fn foresee(
        &mut self,
        request: &Request,
        not_before: Instant,
        now: Instant,
    ) -> Result<Wait, Refusal> {
        let demand = self.demand(request);
        let ahead = self.ahead_of(request);
        let wait = wait_of(&mut self.pace, &ahead, &demand, request.class, request.since(now), now);
        let own = Wait { time: not_before.saturating_duration_since(now), cause: WaitCause::CoolDown };
        let wait = if own.time >= wait.time { own } else { wait };
        match refuse(&wait, request.deadline, self.patience(now), now) {
            Some(refusal) => Err(refusal),
            None => Ok(wait),
        }
    }

    fn demand(&self, request: &Request) -> Demand {
        let mut demand = self.pace.demand(request.cost);
        demand.again = request.place.map(|(number, _)| number.call());
        demand
    }

    fn ahead_of(&self, request: &Request) -> Amounts {
        match request.place {
            _ if self.queue.is_empty() => Amounts::default(),
            None => self.queue.ahead(request.class),
            Some((number, _)) => self.queue.ahead_of(request.class, number),
        }
    }

    /// When a call that comes now has waited for as long as any may.
    fn patience(&self, now: Instant) -> Option<Instant> {
        self.bounds.longest_wait.and_then(|longest| now.checked_add(longest))
    }

    /// Where the call is queued, it may be its turn already.
    #[inline]
    fn line_up(&mut self, request: &Request, now: Instant) -> Answer {
        self.last_used = now;
        let demand = self.demand(request);
        let ahead = self.ahead_of(request);
        let wait = wait_of(&mut self.pace, &ahead, &demand, request.class, request.since(now), now);
        if self.queue.is_empty() && wait.cause == WaitCause::Nothing {
            return Answer::Granted(self.take_number(request), self.pace.send_demand(&demand, now));
        }
        let patience = self.patience(now);
        if let Some(refusal) = refuse(&wait, request.deadline, patience, now) {
            return Answer::Refused(refusal);
        }
        // A call that comes back had its place already.
        if request.place.is_none() && self.queue.len() >= self.bounds.most_waiting {
            return Answer::Refused(Refusal::new(&wait, RefusalReason::QueueFull));
        }
        let since = request.since(now);
        let number = self.take_number(request);
        let deadline = earliest(request.deadline, patience);
        self.queue.insert(request.class, number, Waiter { demand, since, deadline, waker: None });
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

    /// A refused call waits by itself, and no longer.
    pub(super) const fn doze(&mut self) {
        self.asleep = self.asleep.saturating_add(1);
    }

    pub(super) const fn awake(&mut self) {
        self.asleep = self.asleep.saturating_sub(1);
    }

    /// The number of a call; a new arrival counts, and a refused one leaves no trace.
    const fn take_number(&mut self, request: &Request) -> Number {
        match request.place {
            Some((number, _)) => number,
            None => self.number_of_arrival(),
        }
    }

    pub(super) const fn number_of_arrival(&mut self) -> Number {
        let number = Number::arrived(self.next);
        self.next = self.next.wrapping_add(STEP);
        number
    }

    /// A call that was sent without asking.
    pub(super) fn send_unasked(&mut self, cost: Cost, now: Instant) -> (Number, Sent) {
        self.last_used = now;
        let request = Request { cost, class: Priority::Normal, deadline: None, place: None, kind: 0 };
        (self.take_number(&request), self.pace.send(cost, now))
    }

    /// The number of a call after one more refusal: never behind those that have yet to come.
    /// One that `is_suspect` goes behind all.
    pub(crate) const fn number_after_refusal(&mut self, number: Number, is_suspect: bool) -> Number {
        let later = number.after_refusal();
        if !is_suspect && later.is_before(self.next) {
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
                wait_of(&mut self.pace, &ahead, &waiter.demand, class, waiter.since, now)
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
        wait_of(&mut self.pace, &ahead, &demand, class, now, now)
    }
}
