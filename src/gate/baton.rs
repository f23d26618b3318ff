//! The release timer, which one waiter holds for all: who is let go when it fires, and who has it next.

use std::task::Waker;
use std::time::{Duration, Instant};

use super::cell::{Outcome, Wakers};
use super::queue::{AGEING, Heads, Number, Priority, next_ageing};
use super::state::State;
use crate::pace::{Amounts, Demand, Pace, Wait, WaitCause};

/// How long after a release that the holder of the timer has missed somebody else looks: the holder's future may be kept
/// and not polled, as behind a `select!` or in a buffer of futures.
const MISSED: Duration = Duration::from_millis(500);

impl State {
    /// The moment at which a polled waiter has to look again; `None` where only others can move it.
    pub(super) fn park(
        &mut self,
        class: Priority,
        number: Number,
        waker: &mut Option<Waker>,
        now: Instant,
    ) -> Option<Instant> {
        let deadline = self.queue.park(class, number, waker)?.deadline;
        let heads = self.queue.heads(now);
        if self.queue.baton(&heads).is_none_or(|(_, holder)| holder != number) {
            let release = self.baton.and_then(|(_, set)| set);
            let missed = release.and_then(|release| release.max(now).checked_add(MISSED));
            return earliest(missed, deadline);
        }
        let release = next_release(&mut self.pace, &heads, now).err().flatten();
        self.baton = Some((number, release));
        earliest(release, deadline)
    }

    /// Whether there is nobody to let go, nor to hold the timer.
    #[inline]
    pub(super) const fn has_nobody_waiting(&mut self) -> bool {
        let nobody = self.queue.is_empty();
        if nobody {
            self.baton = None;
        }
        nobody
    }

    /// Lets go everybody who may, and sees to it that somebody holds the timer for the next.
    #[inline]
    pub(crate) fn pump(&mut self, now: Instant, wakers: &mut Wakers) {
        if !self.has_nobody_waiting() {
            self.let_go(now, wakers);
        }
    }

    /// The same where somebody waits.
    #[inline(never)]
    fn let_go(&mut self, now: Instant, wakers: &mut Wakers) {
        let (release, holder) = loop {
            let heads = self.queue.heads(now);
            let first = match next_release(&mut self.pace, &heads, now) {
                Ok(first) => first,
                Err(release) => break (release, self.queue.baton(&heads)),
            };
            drop(heads);
            let (class, number) = first;
            let Some(waiter) = self.queue.remove(class, number) else { break (None, None) };
            let sent = self.pace.send_demand(&waiter.demand, now);
            self.outcomes.insert(number, Outcome::Granted(sent));
            wakers.call(waiter.waker);
        };
        let Some((class, number)) = holder else {
            self.baton = None;
            return;
        };
        let is_set = self.baton.is_some_and(|(holder, set)| {
            holder == number
                && (release.is_none() || set.is_some_and(|set| release.is_some_and(|at| set <= at)))
        });
        if !is_set {
            self.baton = Some((number, release));
            wakers.call(self.queue.take_waker(class, number));
        }
    }
}

/// Who may go now, or else when somebody may.
pub(super) fn next_release(
    pace: &mut Pace,
    heads: &Heads<'_>,
    now: Instant,
) -> Result<(Priority, Number), Option<Instant>> {
    let mut release: Option<Instant> = None;
    for (class, number, waiter) in heads {
        let wait = wait_of(pace, &Amounts::default(), &waiter.demand, *class, waiter.since, now);
        if wait.cause == WaitCause::Nothing {
            return Ok((*class, *number));
        }
        if wait.cause != WaitCause::Concurrency {
            let at = now.checked_add(wait.time);
            release = earliest(release, at);
        }
        // A batch call that only leaves the reserve alone does not stand in the way of the others.
        let leaves_reserve = matches!(wait.cause, WaitCause::Limit | WaitCause::Concurrency);
        if !(*class == Priority::Batch && leaves_reserve) {
            break;
        }
    }
    // Nothing else happens when a call has waited so long that it goes before another one.
    Err(earliest(release, next_ageing(heads, now)).filter(|_| release.is_some()))
}

/// How long a call waits that came at `since`, when calls of the cost `ahead` go first. A batch call leaves a reserve to the
/// others until it has come of age.
pub(super) fn wait_of(
    pace: &mut Pace,
    ahead: &Amounts,
    demand: &Demand,
    class: Priority,
    since: Instant,
    now: Instant,
) -> Wait {
    let of_age = since.checked_add(AGEING).unwrap_or(now).saturating_duration_since(now);
    let is_young = class == Priority::Batch && !of_age.is_zero();
    let wait = pace.wait_behind(ahead, demand, is_young, now);
    let is_held = wait.time > of_age || wait.cause == WaitCause::Concurrency;
    if !is_young || !is_held {
        return wait;
    }
    let without = pace.wait_behind(ahead, demand, false, now);
    match without.cause {
        WaitCause::Concurrency => without,
        _ if without.time >= of_age => without,
        _ => Wait { time: of_age, cause: WaitCause::Limit },
    }
}

pub(super) fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
