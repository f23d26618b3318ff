//! A scope behind its lock, and what goes in and out of it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use super::Refusal;
use super::queue::{Number, Priority};
use super::state::State;
use crate::pace::{Cost, Sent, Wait};

/// A scope, shared by its permits, tickets and the map.
#[derive(Debug)]
pub(crate) struct Cell(Mutex<State>);

impl Cell {
    pub(crate) const fn new(state: State) -> Self {
        Self(Mutex::new(state))
    }

    /// The state is consistent between any two statements that can panic, so a poisoned lock is still good.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn is_locked(&self) -> bool {
        self.0.try_lock().is_err()
    }

    /// Answers a reservation.
    #[inline]
    pub(super) fn reserve(&self, request: &Request, now: Instant) -> Answer {
        self.visit(|state, wakers| state.reserve(request, now, wakers))
    }

    /// Answers a reservation that was put off until now.
    pub(super) fn wake(&self, request: &Request, now: Instant) -> Answer {
        self.visit(|state, wakers| {
            state.awake();
            state.reserve(request, now, wakers)
        })
    }

    /// Changes the state, and wakes without the lock whom that lets go.
    #[inline]
    pub(super) fn visit<T>(&self, change: impl FnOnce(&mut State, &mut Wakers) -> T) -> T {
        visit(self.lock(), change)
    }

    /// Changes the state, then lets go whoever may go by that, and wakes them without the lock.
    #[inline]
    pub(super) fn change<T>(&self, now: Instant, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let value = change(&mut state);
        if state.has_nobody_waiting() {
            drop(state);
        } else {
            pump(state, now);
        }
        value
    }
}

#[inline(never)]
fn pump(state: MutexGuard<'_, State>, now: Instant) {
    visit(state, |state, wakers| state.pump(now, wakers));
}

#[inline]
fn visit<T>(state: MutexGuard<'_, State>, change: impl FnOnce(&mut State, &mut Wakers) -> T) -> T {
    let mut wakers = Wakers::default();
    // Let go before the wakers are, however this ends.
    let mut state = state;
    let value = change(&mut state, &mut wakers);
    drop(state);
    wakers.wake();
    value
}

/// Wakers that leave the lock before anything is done to them. To call, to clone and to drop one may run code of somebody
/// else's, which may come back to this very scope.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    /// To be called.
    due: Vec<Waker>,
    /// Only to be dropped.
    spent: Option<Waker>,
}

impl Wakers {
    pub(super) fn call(&mut self, waker: Option<Waker>) {
        self.due.extend(waker);
    }

    /// Takes a waker out that is needed no more. Of a second one in one visit the first is called, which does no harm.
    pub(super) fn retire(&mut self, waker: Option<Waker>) {
        if waker.is_some() {
            let earlier = std::mem::replace(&mut self.spent, waker);
            self.call(earlier);
        }
    }

    /// To be called once the lock is released.
    #[inline]
    pub(crate) fn wake(self) {
        let Self { due, spent } = self;
        if !due.is_empty() {
            wake_all(due);
        }
        drop(spent);
    }
}

#[cold]
fn wake_all(due: Vec<Waker>) {
    due.into_iter().for_each(Waker::wake);
}

/// What became of a waiter, until its ticket is polled again.
#[derive(Debug)]
pub(crate) enum Outcome {
    Granted(Sent),
    Refused(Refusal),
}

/// What became of a reservation at once.
#[derive(Debug)]
pub(crate) enum Answer {
    Granted(Number, Sent),
    Queued(Number, Wait),
    Refused(Refusal),
}

/// One reservation as the state sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) cost: Cost,
    pub(crate) class: Priority,
    pub(crate) deadline: Option<Instant>,
    /// The number and the age of a call that comes back after a refusal.
    pub(crate) place: Option<(Number, Instant)>,
    /// Calls of one kind (route and model) may be refused together.
    pub(crate) kind: u64,
}

impl Request {
    /// When the call came for the first time.
    pub(super) fn since(&self, now: Instant) -> Instant {
        self.place.map_or(now, |(_, since)| since)
    }
}
