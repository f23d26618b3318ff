//! What a call has to do with the gate: it enters before each attempt, and tells it what came of the attempt.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Extensions;
use reqwest::Request;

use super::Shared;
use crate::body::Held;
use crate::decision::{Decision, Reason};
use crate::gate::{
    Gate, Ledger, Look, Permit, Place, Priority, Refusal, RefusalReason, Reserve, ScopeKey, StoreRequest,
};
use crate::pace::{Cost, TokenEstimate};
use crate::reading::{Hint, Reading};
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

/// What an attempt leaves behind at the gate.
#[derive(Default)]
pub(super) struct Left {
    /// To be held until the end of the response's body.
    pub(super) permit: Option<Permit>,
    /// The right to return to the front.
    pub(super) place: Option<Place>,
}

impl<'a> Entry<'a> {
    /// The standing of `request`, where there is a gate.
    pub(super) fn new(shared: &'a Shared, request: &Request, extensions: &Extensions) -> Option<Self> {
        let gate = shared.gate.as_ref()?;
        let scope = match (extensions.get::<ScopeKey>(), &shared.scope_by) {
            (Some(scope), _) => scope.clone(),
            (None, Some(scope_by)) => scope_by(request),
            (None, None) => {
                let profile = || shared.profile_of(request.url().host_str().unwrap_or_default());
                shared.recent_scopes.scope_of(request, profile)
            }
        };
        let estimate = extensions.get::<TokenEstimate>().copied();
        #[cfg(feature = "estimate")]
        let estimate = estimate.or_else(|| {
            let body = request.body()?.as_bytes()?;
            shared.estimator.as_ref()?.estimate(body)
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

/// Tells the gate of a refusal for want of capacity.
pub(super) fn refused(permit: Permit, reading: &Reading, decision: &Decision, at: Instant) -> Left {
    if reading.terminal().is_some() {
        // An empty account says nothing of the others' pace, nor does a request that is too large.
        return Left::default();
    }
    let planned = match decision {
        Decision::Wait { until, .. } => until.saturating_duration_since(at),
        Decision::Admit | Decision::SpillOver(_) => Duration::ZERO,
    };
    let advice = reading.hint().map(Hint::wait);
    let place = permit.refused_with(advice, reading.exhausted(), planned, reading.limits(), at);
    Left { permit: None, place: Some(place) }
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
