//! Calls whose verdict is still open, in the order of sending, and how long refusals take.
//!
//! A refusal comes within milliseconds, the answer to an admitted call only after its service time. A call that has not
//! been refused after [`PATIENCE`] times as long as refusals take therefore counts as admitted: verdicts then come in the
//! order of sending, and late answers change nothing. Calls sent within a small part of that time share a slot, so the
//! room this takes is bounded whatever the number of calls in flight.

use std::collections::VecDeque;

use super::number::{ROUNDING, float};

/// A call is taken for admitted after this many times the time that refusals take.
const PATIENCE: f64 = 3.0;
/// The longest time that a refusal took is forgotten by this factor at each refusal.
const FADE: f64 = 0.95;
/// A refusal that takes longer, in seconds, tells nothing of the others.
const LONGEST: f64 = 2.0;
/// What a refusal is taken to need before there was one, in seconds.
const FIRST_GUESS: f64 = 0.01;
/// A slot spans this part of the patience.
const SPAN: f64 = 0.1;
/// The most slots.
const SLOTS: usize = 16;

/// Calls sent at nearly the same time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    /// When the first and the last of them were sent.
    pub(super) first: f64,
    pub(super) last: f64,
    /// The number of the first of them, counted over all calls of the scope.
    pub(super) order: u64,
    /// How many have no verdict yet, and how many of these the pace held back.
    pub(super) open: u32,
    pub(super) held_back: u32,
}

impl Slot {
    /// A single call.
    pub(super) fn of(order: u64, at: f64, is_held_back: bool) -> Self {
        Self { first: at, last: at, order, open: 1, held_back: u32::from(is_held_back) }
    }
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub(super) struct Pending {
    slots: VecDeque<Slot>,
    /// The number of the latest call.
    latest: u64,
    /// The next call begins a slot of its own.
    split: bool,
    refusal_takes: f64,
}

impl Default for Pending {
    fn default() -> Self {
        Self { slots: VecDeque::new(), latest: 0, split: false, refusal_takes: FIRST_GUESS }
    }
}

impl Pending {
    /// How long a call is waited for, in seconds.
    pub(super) fn patience(&self) -> f64 {
        PATIENCE * self.refusal_takes
    }

    /// The number of the latest call.
    pub(super) const fn latest(&self) -> u64 {
        self.latest
    }

    pub(super) const fn refusal_takes(&self) -> f64 {
        self.refusal_takes
    }

    pub(super) fn refused_after(&mut self, seconds: f64) {
        self.refusal_takes = (FADE * self.refusal_takes).max(seconds.min(LONGEST));
    }

    /// Keeps calls sent from here on apart from those before.
    pub(super) const fn split(&mut self) {
        self.split = true;
    }

    /// A call is sent; returns its number.
    pub(super) fn push(&mut self, now: f64, held_back: bool) -> u64 {
        self.latest = self.latest.saturating_add(1);
        let span = SPAN * self.patience();
        let is_near = !self.split && self.slots.back().is_some_and(|slot| now < slot.first + span);
        if !is_near && self.slots.len() < SLOTS {
            self.split = false;
            self.slots.push_back(Slot { first: now, order: self.latest, ..Slot::default() });
        }
        if let Some(slot) = self.slots.back_mut() {
            slot.last = now;
            slot.open = slot.open.saturating_add(1);
            slot.held_back = slot.held_back.saturating_add(u32::from(held_back));
        }
        self.latest
    }

    /// The verdict of call `order` has come by itself; whether it was still open.
    pub(super) fn remove(&mut self, order: u64, held_back: bool) -> bool {
        let Some(slot) = self.place(order).and_then(|place| self.slots.get_mut(place)) else { return false };
        if slot.open == 0 {
            return false;
        }
        slot.open = slot.open.saturating_sub(1);
        slot.held_back = slot.held_back.saturating_sub(u32::from(held_back)).min(slot.open);
        true
    }

    /// The slot that call `order` is in, unless it has its verdict long since.
    fn place(&self, order: u64) -> Option<usize> {
        self.slots.partition_point(|slot| slot.order <= order).checked_sub(1)
    }

    /// About how many calls without a verdict were sent before call `order`.
    pub(super) fn open_before(&self, order: u64) -> f64 {
        let Some(place) = self.place(order) else { return 0.0 };
        let earlier: f64 = self.slots.iter().take(place).map(|slot| f64::from(slot.open)).sum();
        let own =
            self.slots.get(place).map_or(0, |slot| order.saturating_sub(slot.order).min(slot.open.into()));
        earlier + float(own)
    }

    /// Takes out the oldest calls if they have been waited for long enough.
    pub(super) fn pop_due(&mut self, now: f64) -> Option<Slot> {
        while let Some(slot) = self.slots.front() {
            if slot.open > 0 && slot.last + self.patience() > now + ROUNDING.as_secs_f64() {
                return None;
            }
            if let Some(slot) = self.slots.pop_front().filter(|slot| slot.open > 0) {
                return Some(slot);
            }
        }
        None
    }

    /// Whether a call has no verdict yet that was sent between two moments.
    pub(super) fn any_open(&self, from: f64, until: f64) -> bool {
        self.slots.iter().any(|slot| slot.open > 0 && slot.first >= from && slot.first <= until)
    }

    /// When the first call without a verdict that was sent since `from` will have been waited for long enough.
    pub(super) fn due_since(&self, from: f64) -> Option<f64> {
        let first = self.slots.iter().find(|slot| slot.open > 0 && slot.first >= from)?;
        Some(first.last + self.patience())
    }

    /// When the latest call without a verdict will have been waited for long enough.
    pub(super) fn all_due(&self) -> Option<f64> {
        let last = self.slots.iter().rev().find(|slot| slot.open > 0)?;
        Some(last.last + self.patience())
    }

    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}
