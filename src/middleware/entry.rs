//! What a call has to do with the gate: it reserves before each attempt, and tells it what came of the attempt.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Extensions;
use reqwest::Request;

use super::Shared;
use crate::body::Held;
use crate::decision::Reason;
use crate::gate::{
    Gate, Ledger, Look, Permit, Place, Priority, Refusal, RefusalReason, Reserve, RouteScope, ScopeKey,
    StoreRequest,
};
use crate::pace::{Cost, TokenEstimate};
use crate::reading::{CountedBy, Hint, HintKind, Profile, Reading, ServiceLimit, Terminal};
use crate::unharmed::unharmed;
use crate::usage::UsageScanner;

/// A call's standing at the gate.
pub(super) struct Entry<'a> {
    gate: &'a Gate,
    scope: ScopeKey,
    /// The route, unless somebody has said that the scope counts all routes together.
    route: Option<u64>,
    /// The route's own scope, if it has one.
    own: Option<RouteScope>,
    sent_at: Option<Instant>,
    cost: Cost,
    priority: Priority,
    /// The route; what is in the body is not looked at.
    kind: u64,
}

impl<'a> Entry<'a> {
    /// The standing of `request`, if there is a gate.
    pub(super) fn new(shared: &'a Shared, request: &Request, extensions: &Extensions) -> Option<Self> {
        let gate = shared.gate.as_ref()?;
        let named = || shared.scope_by.as_ref().and_then(|scope_by| unharmed(|| scope_by(request)));
        let named = extensions.get::<ScopeKey>().cloned().or_else(named);
        let is_named = named.is_some();
        let scope = named.unwrap_or_else(|| {
            let profile = shared.profile_of(request.url().host_str().unwrap_or_default());
            shared.recent_scopes.scope_of(request, &profile)
        });
        let kind = kind_of(request);
        let route = route_of(kind, &scope, is_named);
        let estimate = extensions.get::<TokenEstimate>().copied();
        #[cfg(feature = "estimate")]
        let estimate = estimate.or_else(|| {
            let body = request.body()?.as_bytes()?;
            let estimator = shared.estimator.as_ref()?;
            unharmed(|| estimator.estimate(body)).flatten()
        });
        let cost = Cost::from(estimate);
        let priority = extensions.get::<Priority>().copied().unwrap_or_default();
        Some(Self { gate, scope, route, own: None, sent_at: None, cost, priority, kind })
    }

    /// Asks at `now` for the permit to send, to be had by `deadline`.
    pub(super) fn reserve(&mut self, place: Option<Place>, deadline: Instant, now: Instant) -> Reserve {
        let deadline = Some(deadline);
        let own = self.scope_of_route(now);
        let is_moved = own != self.own;
        self.own = own;
        let place = match place {
            Some(place) if is_moved => self.gate.move_place(place, self.current(), now),
            place => place,
        };
        match place {
            Some(place) => self.gate.reserve_again(place, self.cost, self.priority, deadline, now),
            None => {
                self.gate.reserve_kind(self.current(), self.cost, self.priority, self.kind, deadline, now)
            }
        }
    }

    fn scope_of_route(&self, now: Instant) -> Option<RouteScope> {
        self.route.and_then(|route| self.gate.scope_of_route(&self.scope, route, now))
    }

    /// Whether another call was refused since the call was granted, so that it has to wait on.
    pub(super) fn is_overtaken(&self, permit: &Permit, now: Instant) -> bool {
        self.scope_of_route(now);
        permit.is_overtaken(now)
    }

    /// The scope that the call is counted in.
    fn current(&self) -> &ScopeKey {
        self.own.as_ref().map_or(&self.scope, |own| &own.scope)
    }

    /// The call is sent at `now`.
    pub(super) fn sent(&mut self, permit: &mut Permit, now: Instant) {
        self.sent_at = Some(now);
        permit.sent(now);
    }
}

impl Entry<'_> {
    pub(super) const fn scope(&self) -> &ScopeKey {
        &self.scope
    }

    pub(super) const fn estimate(&self) -> Option<TokenEstimate> {
        self.cost.estimate()
    }

    /// The same call's standing in another scope, which the user has named or not.
    pub(super) fn moved_to(self, scope: ScopeKey, is_named: bool, request: &Request) -> Self {
        let kind = kind_of(request);
        Self { route: route_of(kind, &scope, is_named), scope, kind, own: None, ..self }
    }

    /// What a scope is like for this call.
    pub(super) fn peek(&self, scope: &ScopeKey, now: Instant) -> Look {
        self.gate.look(scope, self.cost, self.priority, now)
    }

    /// Whether a store is to be asked as well.
    pub(super) fn is_of_a_fleet(&self) -> bool {
        self.gate.has_store()
    }

    /// Reserves for the call in the store of its fleet.
    pub(super) async fn reserve_in_store(&self, permit: &Permit, deadline: Instant) -> Result<(), Refusal> {
        self.gate.book(self.current(), permit, deadline).await
    }

    pub(super) fn booking(&self, permit: &Permit) -> Option<StoreRequest> {
        self.gate.booking(permit)
    }

    pub(super) async fn publish(&self, booked: StoreRequest, wait: Duration) {
        self.gate.publish(self.current(), booked, wait).await;
    }

    /// Closes the scope for `wait` from `at`, by maximum.
    pub(super) fn close(&self, wait: Duration, at: Instant) {
        self.gate.close(self.current(), wait, at);
        self.close_account(at);
    }

    fn close_account(&self, at: Instant) {
        if let (Some(route), Some(sent_at)) = (self.route, self.sent_at) {
            self.gate.close_account(&self.scope, self.current(), route, sent_at, at);
        }
    }

    /// Teaches the gate a response that is no refusal, from a server with this profile.
    pub(super) fn taken(
        &self,
        permit: &mut Permit,
        reading: Option<&Reading>,
        profile: impl FnOnce() -> Profile,
        at: Instant,
    ) {
        if let (Some(route), Some(sent_at)) = (self.route, self.sent_at) {
            self.gate.admitted(&self.scope, route, sent_at);
        }
        let Some(reading) = reading else { return };
        let limits = own_limits(reading);
        let learns = limits.is_empty() || self.learns(profile, at);
        permit.observe(if learns { limits } else { &[] }, at);
    }

    /// Whether the scope that the call was counted in learns what a success of its route states.
    fn learns(&self, profile: impl FnOnce() -> Profile, now: Instant) -> bool {
        match (&self.own, self.route) {
            (Some(own), _) => own.learns,
            (None, Some(route)) if *profile().counted_by() == CountedBy::Account => {
                self.gate.learns_from(&self.scope, route, now)
            }
            (None, _) => true,
        }
    }

    /// Teaches the gate a refusal for want of capacity, of a call that plans to wait for so long. Returns the right to return to the front of the queue.
    pub(super) fn refused(
        &self,
        permit: Permit,
        reading: &Reading,
        planned: Duration,
        at: Instant,
    ) -> Option<Place> {
        let place = refused(permit, reading, planned, at)?;
        self.close_account(at);
        Some(place)
    }
}

/// Teaches the gate a refusal for want of capacity.
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

/// The limits of a response, but of a service that spilled the call over by itself: those are of another deployment.
pub(super) fn own_limits(reading: &Reading) -> &[ServiceLimit] {
    let elsewhere = reading.native_spill_over().is_some_and(|native| native.spilled_over);
    if elsewhere { &[] } else { reading.limits() }
}

/// The route of a request as a number.
fn kind_of(request: &Request) -> u64 {
    let mut hasher = DefaultHasher::new();
    (request.method(), request.url().path()).hash(&mut hasher);
    hasher.finish()
}

/// The route, unless the user named its scope or the scope's label says what is counted.
fn route_of(kind: u64, scope: &ScopeKey, is_named: bool) -> Option<u64> {
    (!is_named && scope.label_str().is_none()).then_some(kind)
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
