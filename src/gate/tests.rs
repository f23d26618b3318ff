//! What can be seen only from inside: locks that a panic has poisoned, and what is done while one is held.

mod events;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::*;
use crate::pace::TokenEstimate;

fn poison(lock: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(lock)).is_err());
}

#[tokio::test(start_paused = true)]
async fn poisoned_locks_take_nobody_down() {
    let gate = Gate::builder().limits(Limits::new().requests_per_minute(60).concurrency(1)).build().unwrap();
    let scope = ScopeKey::new("scope");
    let ask = |scope: &ScopeKey| {
        let cost = Cost::from(TokenEstimate::new(1, 1));
        gate.reserve(scope, cost, Priority::Normal, None, crate::clock::now())
    };
    let Reserve::Granted(mut held) = ask(&scope) else { panic!("a free slot") };
    let Reserve::Queued(waiting) = ask(&scope) else { panic!("a place in the queue") };

    let cell = gate.cell(&scope, crate::clock::now()).unwrap();
    poison(|| {
        let _state = cell.lock();
        panic!("with the scope locked");
    });
    poison(|| {
        let _settings = gate.0.settings.lock();
        panic!("with the settings locked");
    });
    poison(|| gate.0.memory.poison());

    // Everybody goes on: who is in flight, who waits, who comes, and who looks on.
    held.sent(crate::clock::now());
    held.observe(&[], crate::clock::now());
    held.finish();
    drop(waiting.await.unwrap());
    let Reserve::Granted(permit) = ask(&scope) else { panic!("a free slot") };
    drop(permit);
    let Reserve::Granted(permit) = ask(&ScopeKey::new("another")) else { panic!("a new scope") };
    gate.close(&scope, Duration::from_secs(1), crate::clock::now());
    gate.set_limits(&scope, Limits::new(), crate::clock::now()).unwrap();
    assert!(gate.advice(&scope, crate::clock::now()).unwrap().wait_seconds > 0.9);
    let scopes = gate.snapshot(crate::clock::now()).scopes;
    assert_eq!((scopes.len(), gate.scopes()), (2, 2));
    assert_eq!(scopes.iter().map(|scope| scope.in_flight).sum::<u32>(), 1);
    drop(permit);
}

/// A waker of somebody else's, which comes back to its scope when it is called and when it goes.
struct Foreign {
    gate: Gate,
    scope: ScopeKey,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    called: AtomicU32,
    gone: AtomicU32,
    under_lock: AtomicU32,
}

impl Foreign {
    fn come_back(&self) {
        let now = crate::clock::now();
        if self.gate.0.memory.get(&self.scope).unwrap().is_locked() {
            self.seen.under_lock.fetch_add(1, Ordering::Relaxed);
        } else {
            self.gate.close(&self.scope, Duration::ZERO, now);
            assert_eq!(self.gate.snapshot(now).scopes.len(), 1);
        }
    }
}

impl Wake for Foreign {
    fn wake(self: Arc<Self>) {
        self.seen.called.fetch_add(1, Ordering::Relaxed);
        self.come_back();
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.seen.gone.fetch_add(1, Ordering::Relaxed);
        self.come_back();
    }
}

/// A scope of one slot, which is taken, and a call that waits for it and has been polled with a foreign waker. The queue has
/// the last of it, but for a timer of the call's.
fn waiting(deadline: Option<Instant>) -> (Permit, Ticket, Arc<Seen>) {
    let gate = Gate::builder().limits(Limits::new().concurrency(1)).build().unwrap();
    let (scope, now) = (ScopeKey::new("scope"), crate::clock::now());
    let ask = || gate.reserve(&scope, Cost::request(), Priority::Normal, deadline, now);
    let Reserve::Granted(held) = ask() else { panic!("a free slot") };
    let Reserve::Queued(mut ticket) = ask() else { panic!("a place in the queue") };
    let seen = Arc::new(Seen::default());
    let foreign = Foreign { gate: gate.clone(), scope, seen: Arc::clone(&seen) };
    assert!(poll(&mut ticket, &Waker::from(Arc::new(foreign))).is_pending());
    (held, ticket, seen)
}

fn poll(ticket: &mut Ticket, waker: &Waker) -> Poll<Result<Permit, Refusal>> {
    Pin::new(ticket).poll(&mut Context::from_waker(waker))
}

fn assert_gone(seen: &Seen, called: u32) {
    let counted = [&seen.called, &seen.gone, &seen.under_lock].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counted, [called, 1, 0], "called, gone, and of these under the lock");
}

#[tokio::test(start_paused = true)]
async fn a_waker_may_come_back_to_the_scope_it_goes_from() {
    // Its ticket is dropped.
    let (_held, ticket, seen) = waiting(None);
    drop(ticket);
    assert_gone(&seen, 0);

    // Its ticket moves to another task.
    let (_held, mut ticket, seen) = waiting(None);
    assert!(poll(&mut ticket, Waker::noop()).is_pending());
    assert_gone(&seen, 0);

    // Its call has waited for too long, which another task finds out.
    let deadline = crate::clock::now().checked_add(Duration::from_secs(1));
    let (_held, mut ticket, seen) = waiting(deadline);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(matches!(poll(&mut ticket, Waker::noop()), Poll::Ready(Err(_))));
    assert_gone(&seen, 1);

    // Its call is let go.
    let (held, mut ticket, seen) = waiting(None);
    drop(held);
    assert_gone(&seen, 1);
    assert!(matches!(poll(&mut ticket, Waker::noop()), Poll::Ready(Ok(_))));
}
