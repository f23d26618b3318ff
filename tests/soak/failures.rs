//! Real errors of reqwest's. They are made on a thread of its own, where the clock is not paused.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use super::real_errors::{lost_connection, no_connection};

/// A supply of errors.
pub(crate) struct Failures {
    lost: Mutex<Receiver<reqwest::Error>>,
    unreachable: Mutex<Receiver<reqwest::Error>>,
}

const AT_HAND: usize = 64;

impl Failures {
    pub(crate) fn start() -> Self {
        Self { lost: supply(lost_connection), unreachable: supply(no_connection) }
    }

    pub(crate) fn next(&self, unreachable: bool) -> reqwest::Error {
        let supply = if unreachable { &self.unreachable } else { &self.lost };
        supply.lock().unwrap_or_else(PoisonError::into_inner).recv().unwrap()
    }
}

/// Makes errors until nobody takes them any more.
fn supply(make: fn() -> reqwest::Error) -> Mutex<Receiver<reqwest::Error>> {
    let (sender, receiver): (SyncSender<_>, _) = sync_channel(AT_HAND);
    std::thread::spawn(move || while sender.send(make()).is_ok() {});
    Mutex::new(receiver)
}
