//! What the processes of a fleet share of a scope: the store behind the gate.
//!
//! A [`Gate`](super::Gate) decides for its own process. With a [`Store`] it asks for the fleet as well: a call that has its
//! local permit is booked in the store before it is sent, and given back where the store says that the fleet has no
//! room in time. Cool-downs go to the store when they are seen, and come back with the next answer. Where the store does not
//! answer in [time](STORE_TIMEOUT), the local decision stands: the store makes a fleet exact, it is never a single point
//! of failure.
//!
//! [`MemoryStore`] is the store of one process: the reference for others, and what lets several gates of a test or of one
//! process be a fleet.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::ScopeKey;
use crate::pace::Limits;

mod memory;

pub use memory::MemoryStore;

/// How long the gate waits for a store before it decides by itself.
pub const STORE_TIMEOUT: Duration = Duration::from_millis(50);

/// The shared account of each scope's limits.
///
/// # Contract
///
/// One [`apply`](Self::apply) is one atomic step, by the store's own clock:
///
/// 1. **Refill.** The level of each limited unit (requests, tokens) rises by its limit per minute, up to one minute's
///    worth. A scope that is not known is full and open. A clock that steps back refills nothing.
/// 2. **Cool-down.** `close` closes the scope until now + `close`, by maximum: a cool-down is never shortened.
/// 3. **Weighing.** The wait is the longest of the time until each level covers its amount, and of the cool-down. An amount
///    larger than the bucket waits for a full one. An amount of zero or less waits for nothing.
/// 4. **Booking.** A wait of at most `max_wait` is granted, and the amounts are taken from the levels at once, also below zero:
///    the debt is the reservation, and puts the fleet's callers into the order of their asking. Negative amounts give
///    back, and never lift a level above its bucket. What is not granted changes no level.
///
/// Every account expires by itself once it is full and open. `tests/store_contract.rs` holds a store to all of this.
///
/// # Cancel safety
///
/// A future of `apply` that is dropped may have booked or not. What it booked comes back with the refill.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync {
    /// Books a request in a scope; see the [contract](Self#contract).
    ///
    /// # Errors
    ///
    /// [`StoreUnavailable`] where the store cannot be asked. The gate then decides alone.
    async fn apply(&self, scope: &ScopeKey, request: StoreRequest) -> Result<StoreAnswer, StoreUnavailable>;
}

/// What is asked of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreRequest {
    /// The limits of the scope that the whole fleet shares; a unit without a limit is not counted.
    pub limits: Limits,
    /// How many requests to take; negative to give back.
    pub requests: i64,
    /// How many tokens to take; negative to give back.
    pub tokens: i64,
    /// The longest acceptable wait.
    pub max_wait: Duration,
    /// A cool-down to publish.
    pub close: Option<Duration>,
}

impl StoreRequest {
    /// Takes `requests` and `tokens`, if that needs a wait of at most `max_wait`.
    #[must_use]
    pub const fn take(limits: Limits, requests: i64, tokens: i64, max_wait: Duration) -> Self {
        Self { limits, requests, tokens, max_wait, close: None }
    }

    /// Gives `requests` and `tokens` back.
    #[must_use]
    pub const fn give_back(limits: Limits, requests: i64, tokens: i64) -> Self {
        Self::take(limits, requests.saturating_neg(), tokens.saturating_neg(), Duration::ZERO)
    }

    /// Publishes a cool-down of `wait` from now as well.
    #[must_use]
    pub const fn closing(mut self, wait: Duration) -> Self {
        self.close = Some(wait);
        self
    }
}

/// What a store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreAnswer {
    /// Whether the amounts are booked.
    pub granted: bool,
    /// The time until the booked call may be sent, or, where it is not granted, until it could be. Never too short.
    pub wait: Duration,
    /// What is left of the cool-down.
    pub closed_for: Duration,
}

impl StoreAnswer {
    /// An answer; for stores.
    #[must_use]
    pub const fn new(granted: bool, wait: Duration, closed_for: Duration) -> Self {
        Self { granted, wait, closed_for }
    }
}

/// A store cannot be asked now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, thiserror::Error)]
#[error("the shared store is not available")]
#[non_exhaustive]
pub struct StoreUnavailable;

impl StoreUnavailable {
    /// The error; for stores.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}
