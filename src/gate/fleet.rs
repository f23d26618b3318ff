//! The gate's dealings with the store of its fleet.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::permit::Permit;
use super::refusal::{Refusal, RefusalReason};
use super::store::{STORE_TIMEOUT, Store, StoreAnswer, StoreRequest};
use super::{Gate, ScopeKey};
use crate::clock;
use crate::pace::{Wait, WaitCause};

/// A store, and whether it is worth asking.
pub(super) struct Fleet {
    store: Arc<dyn Store>,
    breaker: Mutex<Breaker>,
}

/// Failures in a row before the store is left alone, and for how long; doubled while it goes on.
const FAILURES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Leaves a store alone that does not answer: each call would pay the time-out for nothing.
#[derive(Debug, Default)]
struct Breaker {
    failures: u32,
    pause: Duration,
    until: Option<Instant>,
}

impl Breaker {
    fn is_open(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    fn note(&mut self, answered: bool, now: Instant) {
        if answered {
            *self = Self::default();
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES {
            self.pause = self.pause.saturating_mul(2).clamp(PAUSE, LONGEST_PAUSE);
            self.until = now.checked_add(self.pause);
        }
    }
}

impl Fleet {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, breaker: Mutex::default() }
    }

    /// The store's answer, or `None` if it does not come by `deadline` and within the time-out.
    async fn ask(
        &self,
        scope: &ScopeKey,
        request: StoreRequest,
        deadline: Option<Instant>,
    ) -> Option<StoreAnswer> {
        let now = clock::now();
        if self.breaker.lock().unwrap_or_else(PoisonError::into_inner).is_open(now) {
            return None;
        }
        let end = now.checked_add(STORE_TIMEOUT).unwrap_or(now);
        // A call with no time at all is sent without a wait, but not without asking.
        let end = deadline.filter(|deadline| *deadline > now).map_or(end, |deadline| end.min(deadline));
        let answer = clock::until(end, self.store.apply(scope, request)).await.and_then(Result::ok);
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner).note(answer.is_some(), clock::now());
        answer
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Gate {
    /// Whether a store is behind this gate.
    pub(crate) fn has_store(&self) -> bool {
        self.0.fleet.is_some()
    }

    /// Books a call, whose local permit is at hand, in the store of the fleet, and waits until the fleet lets it go.
    ///
    /// Without a store, or without its answer, the local decision stands.
    pub(crate) async fn book(
        &self,
        scope: &ScopeKey,
        permit: &Permit,
        deadline: Instant,
    ) -> Result<(), Refusal> {
        let Some(fleet) = &self.0.fleet else { return Ok(()) };
        let now = clock::now();
        let (limits, tokens, owed) = permit.share();
        let max_wait = deadline.saturating_duration_since(now);
        let ask = StoreRequest::take(limits, 1, tokens.saturating_add(owed), max_wait);
        let Some(answer) = fleet.ask(scope, ask, Some(deadline)).await else {
            permit.owe(owed);
            return Ok(());
        };
        if !answer.closed_for.is_zero() {
            self.close(scope, answer.closed_for, now);
        }
        // A store that grants a wait the call has no time for breaks its contract. The call leaves at once all the same.
        if !answer.granted || answer.wait > max_wait {
            permit.owe(owed);
            let wait = Wait { time: answer.wait, cause: WaitCause::Fleet };
            return Err(Refusal::new(&wait, RefusalReason::BeyondDeadline));
        }
        if let Some(at) = now.checked_add(answer.wait).filter(|at| *at > clock::now()) {
            clock::sleep_until(at).await;
        }
        Ok(())
    }

    /// Tells the fleet of a refusal: closes the scope for `wait`, and gives back what the call had booked.
    pub(crate) async fn publish(&self, scope: &ScopeKey, booked: StoreRequest, wait: Duration) {
        if let Some(fleet) = &self.0.fleet {
            let _ = fleet.ask(scope, booked.closing(wait), None).await;
        }
    }

    /// What is to be given back to the fleet if the call of `permit` is refused.
    pub(crate) fn booking(&self, permit: &Permit) -> Option<StoreRequest> {
        self.0.fleet.as_ref()?;
        let (limits, tokens, owed) = permit.share();
        permit.owe(owed);
        Some(StoreRequest::give_back(limits, 1, tokens))
    }
}
