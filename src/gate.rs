//! The gate: who may send, and when.
//!
//! A [`Gate`] holds one *scope* per [`ScopeKey`]: the calls that share a server's limits. Before a call is sent it
//! reserves its cost; after it, what the response says is given back to the scope, which learns from it.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use reqwest_admission::gate::{Gate, Reserve, ScopeKey};
//! use reqwest_admission::pace::{Cost, Limits, TokenEstimate};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let gate = Gate::builder().limits(Limits::new().requests_per_minute(1)).build()?;
//! let scope = ScopeKey::new("https://api.example.com").credential(b"secret").label("large-model");
//! let (cost, now) = (Cost::from(TokenEstimate::new(1_200, 400)), Instant::now());
//! let deadline = now.checked_add(Duration::from_secs(5));
//!
//! let first = gate.reserve(&scope, cost, Default::default(), deadline, now);
//! assert!(matches!(first, Reserve::Granted(_)));
//! match gate.reserve(&scope, cost, Default::default(), deadline, now) {
//!     Reserve::Granted(_permit) => unreachable!("one a minute"),
//!     Reserve::Queued(_ticket) => unreachable!("the wait of a minute is longer than five seconds"),
//!     Reserve::Refused(refusal) => assert_eq!(refusal.wait.as_secs(), 60),
//! }
//! # Ok(()) }
//! ```
//!
//! # How calls are let go
//!
//! Every decision is made under the lock of the scope, in the order of [`Priority`] and then of arrival. There is no
//! background task: the first in the queue keeps a timer for the next release and passes it on (as in the
//! leaky-bucket crate), everybody keeps a timer for the own deadline. A call is refused at once, with the exact
//! wait, when its deadline cannot be met; a refused call has consumed nothing (as in Go's `x/time/rate`).
//!
//! What is known of a scope comes from configured [`Limits`], from the limits that responses state, and from refusals.
//! After a refusal the scope is closed for as long as the server advises, if that is meant for all, and then re-opens *paced*:
//! calls go one after another, at a rate that falls with refusals and rises without. See [`pace`](crate::pace). Where a
//! response tells of a fixed window ("3 left, reset in 30 s"), no more than that is sent until it resets, as far as such
//! statements come true.
//!
//! Several processes that share one limit without a [`Store`] look like chance to one another: tell the gate with
//! [`shared_limit`](GateBuilder::shared_limit). It then holds buckets and windows for up to a dozen processes with nearly equal
//! shares. 64 processes of one caller each learn too little by themselves, and a limit without any burst cannot be shared this
//! way: those need a store.
//!
//! # How a client calls it
//!
//! 1. [`Gate::reserve`] with the call's one deadline. [`Reserve::Refused`]: spill over at once. [`Reserve::Queued`]:
//!    await the ticket; its error is the same refusal, and comes as soon as it is certain.
//! 2. [`Permit::sent`] right before the request leaves. A permit dropped before then costs nothing.
//! 3. A response that the server *took* (whatever its status, if it is not a refusal for want of capacity):
//!    [`Permit::observe`] with the stated limits, then move the permit into the body. At the clean end of the body
//!    [`Permit::settle`] with the usage, where it is known, and [`Permit::finish`]; otherwise drop it.
//! 4. A refusal for want of capacity: [`Permit::refused`] with the advised wait as it was read, without jitter, and the
//!    exhausted units. To try again call [`Gate::reserve_again`] with the place at once and do not sleep: the gate waits,
//!    and answers `Refused` where the advice goes beyond the deadline. For an overload that is not a quota's (529, or
//!    503 without limits) name [`Concurrency`](crate::units::QuotaUnit::Concurrency).
//! 5. A refusal that no wait will mend (billing, spend caps), a lost connection, a 5xx: drop the permit. The backoff of
//!    such a call is the client's own; it sleeps without a permit and then reserves anew.
//!
//! # A fleet
//!
//! A gate knows one process. What several processes share is in a [`Store`] behind it, not in its place: a call that has
//! its local permit asks the fleet, and gives the permit back where the fleet has no room; without the fleet's answer
//! the local decision stands.

mod baton;
mod builder;
mod by_route;
mod cell;
mod cool_down;
mod fleet;
#[cfg(test)]
mod interleavings;
mod ledger;
mod look;
mod memory;
mod permit;
mod queue;
mod refusal;
mod report;
mod scope;
mod snapshot;
mod state;
mod store;
mod ticket;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use builder::GateBuilder;
pub(crate) use by_route::RouteScope;
pub(crate) use ledger::Ledger;
pub(crate) use look::Look;
pub use permit::{Permit, Place};
pub use queue::Priority;
pub use refusal::{Refusal, RefusalReason};
pub use scope::ScopeKey;
pub use snapshot::{Advice, ScopeSnapshot, Snapshot, Waiting};
pub use store::{MemoryStore, STORE_TIMEOUT, Store, StoreAnswer, StoreRequest, StoreUnavailable};
pub use ticket::Ticket;

use crate::clock::Draws;
use crate::pace::{Cost, InvalidLimits, LONGEST, Limits, Rules, Wait, WaitCause};
use cell::{Answer, Cell, Request};
use fleet::Fleet;
use memory::Memory;
use state::{Bounds, State};

/// Who may send, and when. Cheap to clone; clones share their scopes.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    memory: Memory,
    settings: Mutex<Settings>,
    bounds: Bounds,
    fleet: Option<Fleet>,
    by_route: by_route::ByRoute,
    /// Whether an `AdmissionClient` uses the gate.
    has_client: AtomicBool,
}

/// What new scopes are made with.
#[derive(Debug)]
struct Settings {
    limits: Limits,
    rules: Rules,
    draws: Draws,
}

/// The answer to a reservation.
#[derive(Debug)]
#[must_use = "a permit or a ticket that is dropped is given back"]
#[expect(
    clippy::exhaustive_enums,
    reason = "these are the three things that can happen, and each must be handled"
)]
pub enum Reserve {
    /// The call may be sent now.
    Granted(Permit),
    /// The call will be let go within its deadline, as far as can be told; await the ticket.
    Queued(Ticket),
    /// The call would have to wait longer than it may; nothing was consumed.
    Refused(Refusal),
}

impl Default for Gate {
    /// A gate without configured limits.
    fn default() -> Self {
        GateBuilder::default().assemble()
    }
}

impl Gate {
    /// A gate with settings other than the usual ones.
    pub fn builder() -> GateBuilder {
        GateBuilder::default()
    }

    /// Whether the caller is the first `AdmissionClient` at this gate.
    pub(crate) fn is_first_client(&self) -> bool {
        !self.0.has_client.swap(true, Ordering::Relaxed)
    }

    fn cell(&self, scope: &ScopeKey, now: Instant) -> Option<Arc<Cell>> {
        self.0.memory.get_or_insert(scope, now, || {
            let mut settings = self.0.settings.lock().unwrap_or_else(PoisonError::into_inner);
            let draws = Draws::seeded(settings.draws.next());
            State::new(settings.limits, settings.rules, draws, self.0.bounds, self.has_store(), now)
        })
    }

    /// Reserves `cost` in a scope, to be sent no later than `deadline` where there is one.
    ///
    /// Never blocks and never waits: the answer says whether the call may go, has a place in the queue, or cannot be
    /// let go in time. A wait that ends exactly at the deadline is in time.
    pub fn reserve(
        &self,
        scope: &ScopeKey,
        cost: Cost,
        priority: Priority,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Reserve {
        self.reserve_kind(scope, cost, priority, 0, deadline, now)
    }

    /// The same for a call of a kind: those of one route and model may be refused together, while others are not.
    pub(crate) fn reserve_kind(
        &self,
        scope: &ScopeKey,
        cost: Cost,
        priority: Priority,
        kind: u64,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Reserve {
        match self.cell(scope, now) {
            Some(cell) => enter(cell, &Request { cost, class: priority, deadline, place: None, kind }, now),
            None => Reserve::Refused(Refusal::new(&Wait::nothing_known(), RefusalReason::TooManyScopes)),
        }
    }

    /// Reserves again for a call that the server has refused: it returns to the front of its class.
    ///
    /// To be called right after [`Permit::refused`], without a sleep between: the wait that the server advised is kept
    /// by the scope.
    pub fn reserve_again(
        &self,
        place: Place,
        cost: Cost,
        priority: Priority,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Reserve {
        let Place { cell, number, since, kind, not_before } = place;
        let request = Request { cost, class: priority, deadline, place: Some((number, since)), kind };
        match not_before {
            Some(until) if until > now => put_off(cell, request, until, now),
            _ => enter(cell, &request, now),
        }
    }

    /// The place of a refused call in another scope: it goes to the end there, and still waits its own advice.
    pub(crate) fn move_place(&self, place: Place, scope: &ScopeKey, now: Instant) -> Option<Place> {
        let cell = self.cell(scope, now)?;
        let number = cell.visit(|state, _| state.number_of_arrival());
        Some(Place { cell, number, ..place })
    }

    /// Closes a scope for `wait` from `now`, by maximum with what holds already. For advice that came some other way
    /// than with a refusal of a call that this gate let go, for example as an error event inside of a stream.
    /// [`report`](Self::report) takes what was read of such an event.
    ///
    /// Without effect where the gate can hold no more scopes.
    pub fn close(&self, scope: &ScopeKey, wait: Duration, now: Instant) {
        if let Some(cell) = self.cell(scope, now) {
            cell.visit(|state, wakers| state.close(wait.min(LONGEST), now, wakers));
        }
    }

    /// Ends the cool-down of a scope, and what else its refusals have set: for somebody who knows that the server is back.
    /// Calls are let go at the rate learned before; limits that are configured or stated are kept.
    ///
    /// Without effect where the scope is not known.
    pub fn reopen(&self, scope: &ScopeKey, now: Instant) {
        let routes = self.scopes_of_routes(scope);
        for cell in [scope].into_iter().chain(&routes).filter_map(|scope| self.0.memory.get(scope)) {
            cell.visit(|state, wakers| {
                state.pace.reopen(now);
                state.pump(now, wakers);
            });
        }
    }

    /// Changes the configured limits of one scope while it is in use. Waiting calls go by the new limits at once; what
    /// has been spent stays spent.
    ///
    /// They last as long as the scope is kept; an idle one that makes room for others comes back with the limits of the
    /// builder. See [`GateBuilder::max_scopes`].
    ///
    /// # Errors
    ///
    /// [`InvalidLimits`] where a limit is 0; nothing is changed then.
    pub fn set_limits(&self, scope: &ScopeKey, limits: Limits, now: Instant) -> Result<(), InvalidLimits> {
        limits.validate()?;
        if let Some(cell) = self.cell(scope, now) {
            cell.visit(|state, wakers| {
                state.pace.set_limits(limits, now);
                state.sweep(now, wakers);
                state.pump(now, wakers);
            });
        }
        Ok(())
    }

    /// The number of scopes that are kept.
    #[must_use]
    pub fn scopes(&self) -> usize {
        self.0.memory.len()
    }
}

/// Hands a request to its scope.
#[inline]
fn enter(cell: Arc<Cell>, request: &Request, now: Instant) -> Reserve {
    let since = request.since(now);
    match cell.reserve(request, now) {
        Answer::Granted(number, call) => {
            Reserve::Granted(Permit::new(cell, call, number, since, request.class, request.kind))
        }
        Answer::Queued(number, wait) => {
            Reserve::Queued(Ticket::new(cell, number, since, request.class, request.kind, wait))
        }
        Answer::Refused(refusal) => Reserve::Refused(refusal),
    }
}

/// Lets a refused call wait by itself before it comes back to its scope, if that is closed for a shorter time; refused at
/// once if it takes too long.
fn put_off(cell: Arc<Cell>, request: Request, until: Instant, now: Instant) -> Reserve {
    let mut state = cell.lock();
    if state.pace.is_closed(until) || state.pace.closed_until() == Some(until) {
        drop(state);
        return enter(cell, &request, now);
    }
    let foreseen = state.foresee(&request, until, now);
    drop(state);
    match (foreseen, request.place) {
        (Ok(wait), Some((number, since))) => {
            let ticket = Ticket::new(cell, number, since, request.class, request.kind, wait);
            Reserve::Queued(ticket.asleep(request, until))
        }
        (Ok(_), None) => enter(cell, &request, now),
        (Err(refusal), _) => Reserve::Refused(refusal),
    }
}

impl Wait {
    /// The wait of a call whose scope could not be made.
    const fn nothing_known() -> Self {
        Self { time: Duration::ZERO, cause: WaitCause::Nothing }
    }
}

#[cfg(test)]
mod tests;
