//! What can be seen only from inside: locks that a panic has poisoned.

use std::panic::{AssertUnwindSafe, catch_unwind};

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
