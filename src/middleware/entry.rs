//! What a call has to do with the gate: it reserves before each attempt, and tells it what came of the attempt.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Extensions;
use reqwest::Request;

use super::Shared;
use crate::body::Held;
use crate::decision::Reason;
use crate::gate::{
    Gate, Ledger, Look, Permit, Place, Priority, Refusal, RefusalReason, Reserve, ScopeKey, StoreRequest,
};
use crate::pace::{Cost, TokenEstimate};
use crate::reading::{Hint, HintKind, Reading, Terminal};
use crate::unharmed::unharmed;
use crate::usage::UsageScanner;

/// A call's standing at the gate.
pub(super) struct Entry<'a> {
    gate: &'a Gate,
    scope: ScopeKey,
    cost: Cost,
    priority: Priority,
    /// The route; what is in the body is not looked at.
    kind: u64,
}

impl<'a> Entry<'a> {
    /// The standing of `request`, where there is a gate.
    pub(super) fn new(shared: &'a Shared, request: &Request, extensions: &Extensions) -> Option<Self> {
        let gate = shared.gate.as_ref()?;
        let named = || shared.scope_by.as_ref().and_then(|scope_by| unharmed(|| scope_by(request)));
        let scope = extensions.get::<ScopeKey>().cloned().or_else(named).unwrap_or_else(|| {
            let profile = || shared.profile_of(request.url().host_str().unwrap_or_default());
            shared.recent_scopes.scope_of(request, profile)
        });
        let estimate = extensions.get::<TokenEstimate>().copied();
        #[cfg(feature = "estimate")]
        let estimate = estimate.or_else(|| {
            let body = request.body()?.as_bytes()?;
            let estimator = shared.estimator.as_ref()?;
            unharmed(|| estimator.estimate(body)).flatten()
        });
        let cost = Cost::from(estimate);
        let priority = extensions.get::<Priority>().copied().unwrap_or_default();
        let kind = kind_of(request);
        Some(Self { gate, scope, cost, priority, kind })
    }

    /// Asks at `now` for the permit to send, to be had by `deadline`.
    pub(super) fn reserve(&self, place: Option<Place>, deadline: Instant, now: Instant) -> Reserve {
        let deadline = Some(deadline);
        match place {
            Some(place) => self.gate.reserve_again(place, self.cost, self.priority, deadline, now),
            None => self.gate.reserve_kind(&self.scope, self.cost, self.priority, self.kind, deadline, now),
        }
    }
}

impl Entry<'_> {
    pub(super) const fn scope(&self) -> &ScopeKey {
        &self.scope
    }

    pub(super) const fn estimate(&self) -> Option<TokenEstimate> {
        self.cost.estimate()
    }

    /// The same call's standing in another scope.
    pub(super) fn moved_to(self, scope: ScopeKey) -> Self {
        Self { scope, ..self }
    }

    /// What a scope is like for this call.
    pub(super) fn look(&self, scope: &ScopeKey, now: Instant) -> Look {
        self.gate.look(scope, self.cost, self.priority, now)
    }

    /// Whether a store is to be asked as well.
    pub(super) fn is_of_a_fleet(&self) -> bool {
        self.gate.has_store()
    }

    /// Books the call in the store of its fleet.
    pub(super) async fn book(&self, permit: &Permit, deadline: Instant) -> Result<(), Refusal> {
        self.gate.book(&self.scope, permit, deadline).await
    }

    pub(super) fn booking(&self, permit: &Permit) -> Option<StoreRequest> {
        self.gate.booking(permit)
    }

    pub(super) async fn publish(&self, booked: StoreRequest, wait: Duration) {
        self.gate.publish(&self.scope, booked, wait).await;
    }

    /// Closes the scope for `wait` from `at`, by maximum.
    pub(super) fn close(&self, wait: Duration, at: Instant) {
        self.gate.close(&self.scope, wait, at);
    }
}

/// The route of a request, as a number.
fn kind_of(request: &Request) -> u64 {
    let mut hasher = DefaultHasher::new();
    (request.method(), request.url().path()).hash(&mut hasher);
    hasher.finish()
}

/// Tells the gate of a response that is no refusal.
pub(super) fn taken(permit: &mut Permit, reading: Option<&Reading>, at: Instant) {
    if let Some(reading) = reading {
        // A service that spilled the call over by itself states the limits of another deployment.
        let elsewhere = reading.native_spill_over().is_some_and(|native| native.spilled_over);
        permit.observe(if elsewhere { &[] } else { reading.limits() }, at);
    }
}

/// Tells the gate of a refusal for want of capacity, of a call that plans to wait for so long and at most until its deadline.
/// Returns the right to return to the front of the queue.
pub(super) fn refused(permit: Permit, reading: &Reading, planned: Duration, at: Instant) -> Option<Place> {
    let explicit = reading.hint().is_some_and(|hint| hint.kind() == HintKind::RetryAfter);
    match reading.terminal() {
        // A directive is about the one request; the moment beside it is everybody's.
        Some(Terminal::ServerDirective) if explicit => {}
        // An empty account says nothing of the others' pace, nor does a request that is too large.
        Some(_) => return None,
        None => {}
    }
    let advice = reading.hint().map(Hint::wait);
    Some(permit.refused_with(advice, reading.exhausted(), planned, reading.limits(), at))
}

/// Why a call that the gate turns away is spilled over.
pub(super) const fn reason(refusal: &Refusal) -> Reason {
    match refusal.reason {
        RefusalReason::QueueFull => Reason::QueueFull,
        RefusalReason::BeyondQueueWait => Reason::QueueWaitExceeded,
        RefusalReason::BeyondDeadline | RefusalReason::TooManyScopes => Reason::BudgetExceeded,
    }
}

/// A call's permit in its response's body.
pub(super) struct InBody {
    /// Until the body ends.
    ledger: Option<Arc<Ledger>>,
    scanner: Option<Box<UsageScanner>>,
}

impl InBody {
    pub(super) const fn new(ledger: Arc<Ledger>, scanner: Option<Box<UsageScanner>>) -> Self {
        Self { ledger: Some(ledger), scanner }
    }
}

impl Held for InBody {
    fn data(&mut self, data: &[u8]) {
        if let Some(scanner) = &mut self.scanner {
            scanner.feed(data);
        }
    }

    fn end(&mut self, cleanly: bool) {
        let Some(ledger) = self.ledger.take() else { return };
        // A stream that was cut off understates what it took; the estimate is nearer.
        let scanner = self.scanner.take().filter(|_| cleanly);
        ledger.end(cleanly, scanner.and_then(|scanner| scanner.finish()));
    }
}

impl Drop for InBody {
    fn drop(&mut self) {
        self.end(false);
    }
}
