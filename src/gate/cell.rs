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
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakers to call once the lock is released: a waker may run code of its own.
#[derive(Debug, Default)]
pub(crate) struct Wakers(pub(super) Vec<Waker>);

impl Wakers {
    pub(crate) fn wake(self) {
        if !self.0.is_empty() {
            self.0.into_iter().for_each(Waker::wake);
        }
    }
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
}
