//! Who waits, and who is next: three classes, first come first served within a class, ageing between them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};

use crate::pace::{Amounts, Demand, add, subtract};

/// A waiter older than this counts one class higher.
pub(super) const AGEING: Duration = Duration::from_secs(10);

/// How urgent a call is against the others of its scope; the more urgent is the greater.
///
/// Strict: a class is served only when nobody of a higher one waits, except that a call that has waited for 10 s
/// counts one class higher. Batch calls leave 10 % of every limit to the others. What is more urgent is greater:
/// `High > Normal > Batch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Priority {
    /// Whenever there is room.
    Batch,
    /// The usual.
    #[default]
    Normal,
    /// Somebody is looking at the screen.
    High,
}

impl Priority {
    /// The most urgent first.
    const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Batch];

    const fn raised(self) -> Self {
        match self {
            Self::High | Self::Normal => Self::High,
            Self::Batch => Self::Normal,
        }
    }
}

/// The order of service in a scope.
///
/// A call that was refused once or twice returns to the front. From then on it lets others go first: while the rate is still being
/// found many are refused that come too early, and were it always the same call, it would use up its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number {
    /// The order of arrival, in steps of [`STEP`], plus how often the call was refused.
    order: u64,
    /// Which call it is: those that let others go first may come together from several sides.
    call: u64,
}

/// From one arrival to the next.
pub(crate) const STEP: u64 = 256;
/// How many times a refused call returns to the front.
const RETURNS: u64 = 2;
/// How many others go before a call that was refused once more than that; twice as many with every further refusal.
const OTHERS: u64 = 32;
const MOST_DOUBLINGS: u64 = 4;

impl Number {
    /// That of a call that arrives when the order has come to `next`.
    pub(crate) const fn arrived(next: u64) -> Self {
        Self { order: next, call: next }
    }

    /// That of the call after one more refusal.
    pub(crate) const fn after_refusal(self) -> Self {
        let refusals = self.order % STEP;
        if refusals.saturating_add(1) == STEP {
            return self;
        }
        let others = match refusals.checked_sub(RETURNS) {
            None => 0,
            Some(more) if more < MOST_DOUBLINGS => OTHERS << more,
            Some(_) => OTHERS << MOST_DOUBLINGS,
        };
        let order = self.order.saturating_add(others.saturating_mul(STEP)).saturating_add(1);
        Self { order, ..self }
    }

    /// Which call it is.
    pub(crate) const fn call(self) -> u64 {
        self.call
    }

    /// How often it was refused, as far as that is counted.
    pub(crate) fn refusals(self) -> u32 {
        u32::try_from(self.order % STEP).unwrap_or(u32::MAX)
    }

    /// Whether it is before whoever arrives when the order has come to `next`.
    pub(crate) const fn is_before(self, next: u64) -> bool {
        self.order < next
    }

    /// That of the same call in the place of whoever would arrive at `next`.
    pub(crate) const fn put_last(self, next: u64) -> Self {
        Self { order: next.saturating_add(self.order % STEP), ..self }
    }
}

#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) demand: Demand,
    pub(crate) since: Instant,
    pub(crate) deadline: Option<Instant>,
    /// Set by [`Queue::park`] whenever the ticket is polled, until it is called.
    pub(crate) waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct Line {
    waiters: BTreeMap<Number, Waiter>,
    /// Those whose future has been polled: one of them can hold the timer.
    polled: BTreeSet<Number>,
    total: Amounts,
}

/// See [`Queue::heads`].
pub(crate) type Heads<'q> = ArrayVec<(Priority, Number, &'q Waiter), 3>;

/// When one of several heads next counts one class higher, which may change who is to be served.
pub(crate) fn next_ageing(heads: &Heads<'_>, now: Instant) -> Option<Instant> {
    if heads.len() < 2 {
        return None;
    }
    let ages = heads.iter().filter_map(|(.., waiter)| waiter.since.checked_add(AGEING));
    ages.filter(|at| *at > now).min()
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    high: Line,
    normal: Line,
    batch: Line,
    len: usize,
}

impl Queue {
    const fn line(&self, class: Priority) -> &Line {
        match class {
            Priority::High => &self.high,
            Priority::Normal => &self.normal,
            Priority::Batch => &self.batch,
        }
    }

    const fn line_mut(&mut self, class: Priority) -> &mut Line {
        match class {
            Priority::High => &mut self.high,
            Priority::Normal => &mut self.normal,
            Priority::Batch => &mut self.batch,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn waiting(&self, class: Priority) -> usize {
        self.line(class).waiters.len()
    }

    pub(crate) fn insert(&mut self, class: Priority, number: Number, waiter: Waiter) {
        let line = self.line_mut(class);
        add(&mut line.total, &waiter.demand.amounts);
        if line.waiters.insert(number, waiter).is_none() {
            self.len = self.len.saturating_add(1);
        }
    }

    pub(crate) fn remove(&mut self, class: Priority, number: Number) -> Option<Waiter> {
        let line = self.line_mut(class);
        let waiter = line.waiters.remove(&number)?;
        line.polled.remove(&number);
        if line.waiters.is_empty() {
            // Sums of floats drift; an empty line is exactly empty.
            line.total = Amounts::default();
        } else {
            subtract(&mut line.total, &waiter.demand.amounts);
        }
        self.len = self.len.saturating_sub(1);
        Some(waiter)
    }

    pub(crate) fn get(&self, class: Priority, number: Number) -> Option<&Waiter> {
        self.line(class).waiters.get(&number)
    }

    /// Whether a waiter is the first of its class.
    pub(crate) fn is_first(&self, class: Priority, number: Number) -> bool {
        self.line(class).waiters.first_key_value().is_some_and(|(first, _)| *first == number)
    }

    /// The future of a waiter has been polled, with `waker` in its context. What is left in there is not needed here.
    pub(crate) fn park(
        &mut self,
        class: Priority,
        number: Number,
        waker: &mut Option<Waker>,
    ) -> Option<&Waiter> {
        let Line { waiters, polled, .. } = self.line_mut(class);
        let waiter = waiters.get_mut(&number)?;
        let is_known =
            waiter.waker.as_ref().zip(waker.as_ref()).is_some_and(|(one, other)| one.will_wake(other));
        if !is_known {
            polled.insert(number);
            std::mem::swap(&mut waiter.waker, waker);
        }
        Some(waiter)
    }

    /// The waker of a waiter that is to look again; until it does there is no other, and none is needed.
    pub(crate) fn take_waker(&mut self, class: Priority, number: Number) -> Option<Waker> {
        self.line_mut(class).waiters.get_mut(&number)?.waker.take()
    }

    /// What goes before a call that arrives now: everything of its class and of the higher ones.
    pub(crate) fn ahead(&self, class: Priority) -> Amounts {
        let mut sum = Amounts::default();
        for higher in Priority::ALL.into_iter().filter(|other| *other >= class) {
            add(&mut sum, &self.line(higher).total);
        }
        sum
    }

    /// What goes before a call that takes its old place again.
    pub(crate) fn ahead_of(&self, class: Priority, number: Number) -> Amounts {
        let mut sum = Amounts::default();
        for higher in Priority::ALL.into_iter().filter(|other| *other > class) {
            add(&mut sum, &self.line(higher).total);
        }
        for (_, waiter) in self.line(class).waiters.range(..number) {
            add(&mut sum, &waiter.demand.amounts);
        }
        sum
    }

    /// The first of every class in the order in which they are to be served.
    #[inline]
    pub(crate) fn heads(&self, now: Instant) -> Heads<'_> {
        let mut heads = Heads::new();
        for class in Priority::ALL {
            let first = self.line(class).waiters.first_key_value();
            heads.extend(first.map(|(number, waiter)| (class, *number, waiter)));
        }
        // Most queues are of one class, and nobody's age matters in them.
        if heads.len() > 1 {
            heads.sort_by_key(|(class, number, waiter)| {
                let aged = now.saturating_duration_since(waiter.since) >= AGEING;
                (Reverse(if aged { class.raised() } else { *class }), *number)
            });
        }
        heads
    }

    /// The waiter that holds the release timer: the first whose future is being polled.
    pub(crate) fn baton(&self, heads: &Heads<'_>) -> Option<(Priority, Number)> {
        heads.iter().find_map(|(class, ..)| Some((*class, *self.line(*class).polled.first()?)))
    }

    /// Everybody, class by class in order of arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Priority, Number, &Waiter)> {
        Priority::ALL.into_iter().flat_map(|class| {
            self.line(class).waiters.iter().map(move |(number, waiter)| (class, *number, waiter))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_calls_keep_the_front_twice_and_then_let_others_go_first() {
        let arrived = |arrival: u64| Number::arrived(arrival * STEP);
        let once = arrived(7).after_refusal();
        let twice = once.after_refusal();
        assert!(arrived(7) < once && once < twice && twice < arrived(8), "back to the front");
        let thrice = twice.after_refusal();
        assert!(thrice > arrived(7 + 32) && thrice < arrived(7 + 33), "thirty-two others go first");
        assert!(thrice.after_refusal() > arrived(7 + 32 + 64));

        let often = (0..1000).fold(arrived(0), |number, _| number.after_refusal());
        assert_eq!(often, often.after_refusal(), "counted no further");
        assert_eq!(often.order % STEP, STEP - 1);
    }

    /// Whichever way they come to the same place in the order.
    #[test]
    fn no_two_calls_share_a_number() {
        let mut next = 40 * STEP;
        let mut numbers: Vec<_> = (0..40).map(|arrival| Number::arrived(arrival * STEP)).collect();
        for round in 0..200 {
            let at = (round * 27 + 39) % numbers.len();
            let later = numbers[at].after_refusal();
            numbers[at] = if later.is_before(next) {
                later
            } else {
                next += STEP;
                later.put_last(next - STEP)
            };
            assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len(), "round {round}");
            assert!(numbers.iter().all(|number| *number < Number::arrived(next)));
        }
    }
}
