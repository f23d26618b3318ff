//! The store of one process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::{ScopeKey, Store, StoreAnswer, StoreRequest, StoreUnavailable};
use crate::clock;
use crate::pace::{LONGEST, float, wait_of};

/// A [`Store`] in memory: the reference for other stores, by tokio's clock.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Accounts>);

#[derive(Debug, Default)]
struct Accounts {
    by_scope: HashMap<ScopeKey, Account>,
    /// At this size the accounts that say nothing any more are let go.
    sweep_at: usize,
}

const MANY: usize = 1024;

#[derive(Debug, Clone, Copy)]
struct Account {
    levels: [Level; 2],
    at: Instant,
    closed_until: Instant,
}

/// The level of one unit; a unit without a limit is never short.
#[derive(Debug, Clone, Copy)]
struct Level {
    left: f64,
    per_minute: f64,
}

impl MemoryStore {
    /// A store without any account: all scopes are full and open.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of accounts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_scope.len()
    }

    /// Whether there is no account.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn apply(&self, scope: &ScopeKey, request: StoreRequest) -> Result<StoreAnswer, StoreUnavailable> {
        let now = clock::now();
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if accounts.by_scope.len() >= accounts.sweep_at.max(MANY) {
            accounts.by_scope.retain(|_, account| !account.is_expired(now));
            // What was just looked through is not looked through again before it has doubled.
            accounts.sweep_at = accounts.by_scope.len().saturating_mul(2);
        }
        let account = accounts.by_scope.entry(scope.clone()).or_insert_with(|| Account::new(now));
        Ok(account.apply(&request, now))
    }
}

impl Account {
    const fn new(now: Instant) -> Self {
        let full = Level { left: f64::INFINITY, per_minute: f64::INFINITY };
        Self { levels: [full; 2], at: now, closed_until: now }
    }

    fn apply(&mut self, request: &StoreRequest, now: Instant) -> StoreAnswer {
        let [requests_per_minute, tokens_per_minute, ..] = request.limits.per_minute();
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        if let Some(close) = request.close {
            let until = now.checked_add(close.min(LONGEST)).unwrap_or(self.closed_until);
            self.closed_until = self.closed_until.max(until);
        }
        let closed_for = self.closed_until.saturating_duration_since(now);
        let asks = [(requests_per_minute, request.requests), (tokens_per_minute, request.tokens)];
        let mut wait = 0.0_f64;
        for (level, (per_minute, ask)) in self.levels.iter_mut().zip(asks) {
            level.refill(elapsed, per_minute);
            wait = wait.max(level.wait(ask));
        }
        let takes = request.requests > 0 || request.tokens > 0;
        let wait = if takes { wait_of(wait).max(closed_for) } else { Duration::ZERO };
        let granted = wait <= request.max_wait;
        if granted {
            for (level, (_, ask)) in self.levels.iter_mut().zip(asks) {
                level.take(ask);
            }
        }
        StoreAnswer::new(granted, wait, closed_for)
    }

    fn is_expired(&self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.closed_until <= now && self.levels.iter().all(|level| level.is_full_after(elapsed))
    }
}

impl Level {
    fn refill(&mut self, elapsed: f64, per_minute: f64) {
        // What was short under the old limit is as short under the new one.
        let debt = if self.per_minute.is_finite() { self.per_minute - self.left } else { 0.0 };
        if per_minute.is_finite() {
            let refilled = if self.per_minute.is_finite() { elapsed * self.per_minute / 60.0 } else { 0.0 };
            self.left = per_minute - (debt - refilled).max(0.0);
        } else {
            self.left = f64::INFINITY;
        }
        self.per_minute = per_minute;
    }

    /// Seconds until `ask` is covered.
    fn wait(&self, ask: i64) -> f64 {
        let needed = signed(ask).min(self.per_minute);
        if ask <= 0 || self.left >= needed || !self.per_minute.is_finite() {
            return 0.0;
        }
        (needed - self.left) * 60.0 / self.per_minute
    }

    fn take(&mut self, ask: i64) {
        self.left = (self.left - signed(ask)).min(self.per_minute);
    }

    fn is_full_after(&self, elapsed: f64) -> bool {
        !self.per_minute.is_finite() || self.left + elapsed * self.per_minute / 60.0 >= self.per_minute
    }
}

fn signed(count: i64) -> f64 {
    let size = float(count.unsigned_abs());
    if count < 0 { -size } else { size }
}
