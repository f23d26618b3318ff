//! The state of one scope behind its lock: who is let go is decided here and nowhere else.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::cell::{Answer, Outcome, Request, Wakers};
use super::queue::{Number, Priority, Queue, STEP, Waiter, after_refusal};
use super::{Refusal, RefusalReason};
use crate::clock::Draws;
use crate::pace::{Amounts, Demand, Limits, Pace, Planned, Sent, TokenUsage, Wait, WaitCause, add, whole};
use crate::units::QuotaUnits;

/// How long after a release that the holder of the timer has missed somebody else looks: the holder's future may be kept
/// and not polled, as behind a `select!` or in a buffer of futures.
const MISSED: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) pace: Pace,
    pub(crate) queue: Queue,
    pub(crate) last_used: Instant,
    /// Tokens that settled calls took beyond (or, negative, below) their estimates, of which a fleet's store does not know.
    pub(crate) owed: i64,
    outcomes: BTreeMap<Number, Outcome>,
    next: Number,
    /// Who holds the release timer, and for when it is set; `None` where only a slot can release.
    baton: Option<(Number, Option<Instant>)>,
    draws: Draws,
    most_waiting: usize,
    longest_wait: Option<Duration>,
}

impl State {
    pub(crate) fn new(
        limits: Limits,
        draws: Draws,
        most_waiting: usize,
        longest_wait: Option<Duration>,
        now: Instant,
    ) -> Self {
        Self {
            pace: Pace::new(limits, now),
            queue: Queue::default(),
            last_used: now,
            owed: 0,
            outcomes: BTreeMap::new(),
            next: 0,
            baton: None,
            draws,
            most_waiting,
            longest_wait,
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

    pub(crate) fn reserve(&mut self, request: &Request, now: Instant, wakers: &mut Wakers) -> Answer {
        self.last_used = now;
        self.pace.arrived(now);
        let demand = self.pace.demand(request.cost);
        let (number, since) = request.place.unwrap_or((self.next, now));
        let batch = request.class == Priority::Batch;
        let nobody = self.queue.is_empty();
        let ahead = match request.place {
            _ if nobody => Amounts::default(),
            None => self.queue.ahead(request.class),
            Some((number, _)) => self.queue.ahead_of(request.class, number),
        };
        let wait = self.pace.wait_behind(&ahead, &demand.amounts, batch, now);
        if nobody && wait.cause == WaitCause::Nothing {
            self.take_number(request);
            return Answer::Granted(number, self.pace.send_demand(demand, now));
        }
        let patience = self.longest_wait.and_then(|longest| now.checked_add(longest));
        if let Some(refusal) = refuse(&wait, request.deadline, patience, now) {
            return Answer::Refused(refusal);
        }
        // A call that comes back had its place already.
        if request.place.is_none() && self.queue.len() >= self.most_waiting {
            return Answer::Refused(Refusal::new(&wait, RefusalReason::QueueFull));
        }
        self.take_number(request);
        let deadline = earliest(request.deadline, patience);
        self.queue.insert(request.class, number, Waiter { demand, since, deadline, waker: None });
        self.pump(now, wakers);
        match self.outcomes.remove(&number) {
            Some(Outcome::Granted(sent)) => Answer::Granted(number, sent),
            Some(Outcome::Refused(refusal)) => Answer::Refused(refusal),
            None => Answer::Queued(number, wait),
        }
    }

    /// Counts a new arrival; a refused one leaves no trace.
    const fn take_number(&mut self, request: &Request) {
        if request.place.is_none() {
            self.next = self.next.wrapping_add(STEP);
        }
    }

    /// A ticket is polled: what became of it, or when it has to look again.
    pub(crate) fn look(
        &mut self,
        class: Priority,
        number: Number,
        waker: &Waker,
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
            None => match self.park(class, number, waker, now) {
                // A call that is let go exactly at its deadline is in time, and it was not.
                Some(at) if self.is_due(class, number, now) && at <= now => {
                    Ok(Outcome::Refused(self.expire(class, number, now, wakers)))
                }
                at => Err(at),
            },
        }
    }

    /// The moment at which a polled waiter has to look again; `None` where only others can move it.
    fn park(&mut self, class: Priority, number: Number, waker: &Waker, now: Instant) -> Option<Instant> {
        let deadline = self.queue.park(class, number, waker)?.deadline;
        if self.queue.baton(now).is_none_or(|(_, holder)| holder != number) {
            let release = self.baton.and_then(|(_, set)| set);
            let missed = release.and_then(|release| release.max(now).checked_add(MISSED));
            return earliest(missed, deadline);
        }
        let release = self.next_release(now).err().flatten();
        self.baton = Some((number, release));
        earliest(release, deadline)
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
                self.pace.wait_behind(&ahead, &waiter.demand.amounts, class == Priority::Batch, now)
            }
            None => Wait { time: Duration::ZERO, cause: WaitCause::Nothing },
        };
        self.pump(now, wakers);
        Refusal::new(&wait, RefusalReason::BeyondDeadline)
    }

    /// A ticket was dropped: leaves the queue, or gives an assigned grant back.
    pub(crate) fn abandon(&mut self, class: Priority, number: Number, now: Instant, wakers: &mut Wakers) {
        match self.outcomes.remove(&number) {
            Some(Outcome::Granted(sent)) => {
                self.pace.give_back(&sent, now);
                self.pace.ended();
            }
            Some(Outcome::Refused(_)) => {}
            None => {
                let in_the_way = self.queue.is_first(class, number)
                    || self.baton.is_some_and(|(holder, _)| holder == number);
                drop(self.queue.remove(class, number));
                if !in_the_way {
                    return;
                }
            }
        }
        self.pump(now, wakers);
    }

    /// A call that was let go has ended: its slot comes back, with its cost where it was never sent, and with credit where
    /// it ended `cleanly`.
    pub(crate) fn end(
        &mut self,
        call: &Sent,
        is_sent: bool,
        cleanly: bool,
        now: Instant,
        wakers: &mut Wakers,
    ) {
        if cleanly {
            self.pace.succeeded(call, now);
        }
        if !is_sent {
            self.pace.give_back(call, now);
        }
        self.pace.ended();
        self.pump(now, wakers);
    }

    /// Closes the scope for `wait`, and refuses at once whom that puts out of reach.
    pub(crate) fn close(&mut self, wait: Duration, now: Instant, wakers: &mut Wakers) {
        if self.pace.close(wait, now) {
            self.sweep(now, wakers);
        }
        self.pump(now, wakers);
    }

    /// Lets go everybody who may, and sees to it that somebody holds the timer for the next.
    pub(crate) fn pump(&mut self, now: Instant, wakers: &mut Wakers) {
        if self.queue.is_empty() {
            self.baton = None;
            return;
        }
        let release = loop {
            match self.next_release(now) {
                Ok((class, number)) => {
                    let Some(waiter) = self.queue.remove(class, number) else { break None };
                    let sent = self.pace.send_demand(waiter.demand, now);
                    self.outcomes.insert(number, Outcome::Granted(sent));
                    wakers.0.extend(waiter.waker);
                }
                Err(release) => break release,
            }
        };
        let Some((class, number)) = self.queue.baton(now) else {
            self.baton = None;
            return;
        };
        let is_set = self.baton.is_some_and(|(holder, set)| {
            holder == number
                && (release.is_none() || set.is_some_and(|set| release.is_some_and(|at| set <= at)))
        });
        if !is_set {
            self.baton = Some((number, release));
            wakers.0.extend(self.queue.get(class, number).and_then(|waiter| waiter.waker.clone()));
        }
    }

    /// Who may go now, or else when somebody may.
    fn next_release(&mut self, now: Instant) -> Result<(Priority, Number), Option<Instant>> {
        let Self { pace, queue, .. } = self;
        let mut release: Option<Instant> = None;
        for (class, number, waiter) in queue.heads(now) {
            let batch = class == Priority::Batch;
            let wait = pace.wait_behind(&Amounts::default(), &waiter.demand.amounts, batch, now);
            if wait.cause == WaitCause::Nothing {
                return Ok((class, number));
            }
            if wait.cause != WaitCause::Concurrency {
                let at = now.checked_add(wait.time);
                release = earliest(release, at);
            }
            // A batch call that only leaves the reserve alone does not stand in the way of the others.
            if !(batch && wait.cause == WaitCause::Limit) {
                break;
            }
        }
        // Nothing else happens when a call has waited so long that it goes before another one.
        match (release, queue.next_ageing(now)) {
            (Some(one), Some(other)) => Err(Some(one.min(other))),
            (release, _) => Err(release),
        }
    }

    /// A call has really taken `usage`.
    pub(crate) fn settle(&mut self, call: &mut Sent, usage: TokenUsage, now: Instant) {
        let estimate = call.tokens();
        self.pace.settle(call, usage, now);
        let beyond = call.tokens() - estimate;
        let size = i64::try_from(whole(beyond.abs())).unwrap_or(i64::MAX);
        self.owed = self.owed.saturating_add(if beyond < 0.0 { size.saturating_neg() } else { size });
    }

    /// The server refused a call.
    pub(crate) fn refused(
        &mut self,
        sent: &Sent,
        advice: Option<Duration>,
        exhausted: QuotaUnits,
        planned: Planned,
        now: Instant,
        wakers: &mut Wakers,
    ) {
        let alone = (self.queue.is_empty() && self.pace.slots().in_flight() <= 1).then_some(planned);
        let draw = self.draws.draw();
        let later = self.pace.refused(sent, advice, exhausted, alone, draw, now);
        self.pace.ended();
        if later {
            self.sweep(now, wakers);
        }
        self.pump(now, wakers);
    }

    /// The number of a call after one more refusal: never behind those that have yet to come.
    pub(crate) const fn number_after_refusal(&mut self, number: Number) -> Number {
        let later = after_refusal(number);
        if later < self.next {
            return later;
        }
        let last = self.next.saturating_add(later % STEP);
        self.next = self.next.wrapping_add(STEP);
        last
    }

    /// Refuses at once every waiter whose deadline has come out of reach.
    pub(crate) fn sweep(&mut self, now: Instant, wakers: &mut Wakers) {
        if self.queue.is_empty() {
            return;
        }
        let Self { pace, queue, .. } = self;
        let mut ahead = Amounts::default();
        let mut lost: Vec<(Priority, Number, Refusal)> = Vec::new();
        for (class, number, waiter) in queue.iter() {
            let amounts = waiter.demand.amounts;
            let wait = pace.wait_behind(&ahead, &amounts, class == Priority::Batch, now);
            match refuse(&wait, waiter.deadline, None, now) {
                Some(refusal) => lost.push((class, number, refusal)),
                None => add(&mut ahead, &amounts),
            }
        }
        for (class, number, refusal) in lost {
            if let Some(waiter) = self.queue.remove(class, number) {
                self.outcomes.insert(number, Outcome::Refused(refusal));
                wakers.0.extend(waiter.waker);
            }
        }
    }

    /// Whether `demand` would be let go now, and if not when; for display only.
    pub(crate) fn peek(&mut self, demand: Demand, class: Priority, now: Instant) -> Wait {
        let ahead = self.queue.ahead(class);
        self.pace.wait_behind(&ahead, &demand.amounts, class == Priority::Batch, now)
    }
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Whether the wait ends after the deadline or after the patience of the gate; at them is in time.
fn refuse(
    wait: &Wait,
    deadline: Option<Instant>,
    patience: Option<Instant>,
    now: Instant,
) -> Option<Refusal> {
    let until = now.checked_add(wait.time);
    let beyond = |limit: Instant| until.is_none_or(|until| until > limit);
    if deadline.is_some_and(beyond) {
        Some(Refusal::new(wait, RefusalReason::BeyondDeadline))
    } else if patience.is_some_and(beyond) {
        Some(Refusal::new(wait, RefusalReason::BeyondQueueWait))
    } else {
        None
    }
}
