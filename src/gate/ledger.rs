//! One call's account with its scope, shared by the response body and the call's report.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::cell::{Cell, Wakers};
use super::permit::Permit;
use crate::clock;
use crate::pace::{Sent, TokenUsage};

/// The account of one call: its permit while the body lasts, and what it takes to settle it afterwards.
pub(crate) struct Ledger(Mutex<Entry>);

enum Entry {
    Open(Permit),
    /// The scope is not held on to: a report that somebody keeps must not keep the scope.
    Ended {
        cell: Weak<Cell>,
        call: Sent,
    },
}

impl Ledger {
    pub(crate) const fn new(permit: Permit) -> Self {
        Self(Mutex::new(Entry::Open(permit)))
    }

    /// Gives the permit back: `cleanly` at the end of a body, else for one that failed or was dropped. Replaces the estimate
    /// by `usage`, where it is known.
    pub(crate) fn end(&self, cleanly: bool, usage: Option<TokenUsage>) {
        let now = clock::now();
        let mut wakers = Wakers::default();
        let mut entry = self.lock();
        let Entry::Open(permit) = &mut *entry else { return };
        permit.end_and(cleanly, usage, now, &mut wakers);
        *entry = Entry::Ended { cell: Arc::downgrade(permit.cell()), call: permit.call() };
        // A waker may run code that settles this very call.
        drop(entry);
        wakers.wake();
    }

    /// Replaces the estimate by `usage`; says whether there still was a scope to tell.
    pub(crate) fn settle(&self, usage: TokenUsage) -> bool {
        let now = clock::now();
        let mut wakers = Wakers::default();
        let mut entry = self.lock();
        match &mut *entry {
            Entry::Open(permit) => permit.settle_and(usage, now, &mut wakers),
            Entry::Ended { cell, call } => {
                let Some(cell) = cell.upgrade() else { return false };
                let mut state = cell.lock();
                state.settle(call, usage, now);
                state.pump(now, &mut wakers);
            }
        }
        // A waker may run code that ends this very call.
        drop(entry);
        wakers.wake();
        true
    }

    fn lock(&self) -> MutexGuard<'_, Entry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}
