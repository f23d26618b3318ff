//! Cool-downs: what closes a scope, and the waiting calls that this puts out of reach.

use std::time::{Duration, Instant};

use super::baton::wait_of;
use super::cell::{Outcome, Wakers};
use super::queue::{Number, Priority};
use super::state::State;
use super::{Refusal, RefusalReason};
use crate::pace::{Amounts, Lesson, RefusedCall, Sent, Wait, add};
use crate::reading::ServiceLimit;

impl State {
    /// Closes the scope for `wait`, and refuses at once whom that puts out of reach.
    pub(crate) fn close(&mut self, wait: Duration, now: Instant, wakers: &mut Wakers) {
        if self.pace.close(wait, now) {
            self.sweep(now, wakers);
        }
        self.pump(now, wakers);
    }

    /// The server refused a call, and stated `limits`.
    pub(crate) fn refused(
        &mut self,
        sent: &Sent,
        refusal: RefusedCall,
        limits: &[ServiceLimit],
        now: Instant,
        wakers: &mut Wakers,
    ) -> Lesson {
        let is_alone = self.queue.is_empty() && self.asleep == 0 && self.pace.in_flight().count() <= 1;
        let refusal = RefusedCall { is_alone, draw: self.draws.draw(), ..refusal };
        let lesson = self.pace.refused(sent, &refusal, limits, now);
        self.pace.ended();
        if lesson.is_later {
            self.sweep(now, wakers);
        }
        self.pump(now, wakers);
        lesson
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
            let wait = wait_of(pace, &ahead, &waiter.demand, class, waiter.since, now);
            match refuse(&wait, waiter.deadline, None, now) {
                Some(refusal) => lost.push((class, number, refusal)),
                None => add(&mut ahead, &amounts),
            }
        }
        for (class, number, refusal) in lost {
            if let Some(waiter) = self.queue.remove(class, number) {
                self.outcomes.insert(number, Outcome::Refused(refusal));
                wakers.call(waiter.waker);
            }
        }
    }
}

/// Whether the wait ends after the deadline or after the patience of the gate; at them is in time.
pub(super) fn refuse(
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
