//! Which routes of an account have a scope of their own.
//!
//! Where nobody says what a server counts by, what a success states ("3 left, reset in 30 s") holds for calls of the same
//! route only. The account's scope stays with the route that stated limits first. From then on each other route has its own
//! scope, which is closed whenever the account's is: a refusal is for all.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::{Gate, Priority, ScopeKey};
use crate::pace::Cost;

/// As many accounts as are remembered; one more, and the memory begins anew.
const MOST_ACCOUNTS: usize = 1024;

/// As many routes of an account as are told apart. Beyond, they share a scope in which successes teach nothing.
const MOST_ROUTES: usize = 64;

/// The accounts whose successes have stated limits.
#[derive(Default)]
pub(super) struct ByRoute {
    /// Whether there is one, so that calls of most clients read one flag.
    any: AtomicBool,
    accounts: Mutex<HashMap<ScopeKey, Account>>,
}

struct Account {
    /// The route that the account's own scope learns from.
    first: u64,
    others: HashMap<u64, ScopeKey>,
    rest: ScopeKey,
    /// The route of the latest call that was admitted, and when it was sent.
    admitted: Option<(u64, Instant)>,
}

/// The scope of a route apart from its account's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteScope {
    pub(crate) scope: ScopeKey,
    /// Whether it learns from what successes state.
    pub(crate) learns: bool,
}

impl Account {
    /// Whether a call of another route that was sent later has gone through.
    fn is_witnessed(&self, route: u64, sent_at: Instant) -> bool {
        self.admitted.is_some_and(|(other, later)| other != route && later > sent_at)
    }

    fn scope_of(&mut self, account: &ScopeKey, route: u64) -> Option<RouteScope> {
        if route == self.first {
            return None;
        }
        let is_known = self.others.contains_key(&route);
        if !is_known && self.others.len() >= MOST_ROUTES {
            return Some(RouteScope { scope: self.rest.clone(), learns: false });
        }
        let scope = self.others.entry(route).or_insert_with(|| account.of_client(route)).clone();
        Some(RouteScope { scope, learns: true })
    }
}

impl ByRoute {
    fn lock(&self) -> MutexGuard<'_, HashMap<ScopeKey, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    /// The scope of a call of `route` if that is not its account's; closed for as long as the account's is.
    pub(crate) fn scope_of_route(&self, account: &ScopeKey, route: u64, now: Instant) -> Option<RouteScope> {
        if !self.0.by_route.any.load(Ordering::Relaxed) {
            return None;
        }
        let own = self.0.by_route.lock().get_mut(account)?.scope_of(account, route)?;
        let account = self.look(account, Cost::default(), Priority::Normal, now);
        if let Some(wait) = account.closed_for {
            self.close(&own.scope, wait, now);
        }
        // Since the routes were told apart, the user may have set a limit, which counts them all.
        Some(own).filter(|_| !account.is_configured)
    }

    /// A success of `route` has stated limits in the account's scope. Whether that scope learns from them: it does from those
    /// of one route, unless its limits are configured, which then count all routes together.
    pub(crate) fn learns_from(&self, account: &ScopeKey, route: u64, now: Instant) -> bool {
        if self.look(account, Cost::default(), Priority::Normal, now).is_configured {
            return true;
        }
        let mut accounts = self.0.by_route.lock();
        if accounts.len() >= MOST_ACCOUNTS && !accounts.contains_key(account) {
            accounts.clear();
        }
        let known = accounts.entry(account.clone()).or_insert_with(|| Account {
            first: route,
            others: HashMap::new(),
            rest: account.of_client(u64::MAX),
            admitted: None,
        });
        self.0.by_route.any.store(true, Ordering::Relaxed);
        known.first == route
    }

    /// A call of `route` that was sent at `sent_at` was not refused.
    pub(crate) fn admitted(&self, account: &ScopeKey, route: u64, sent_at: Instant) {
        if self.0.by_route.any.load(Ordering::Relaxed)
            && let Some(known) = self.0.by_route.lock().get_mut(account)
            && known.admitted.is_none_or(|(_, latest)| latest < sent_at)
        {
            known.admitted = Some((route, sent_at));
        }
    }

    /// A call of `route` that was sent at `sent_at` was refused in `scope`: the account's other scopes are closed for as long
    /// as that one is, unless a later call of another route has gone through, by which the server shows that the refusal is
    /// not for all.
    pub(crate) fn close_account(
        &self,
        account: &ScopeKey,
        scope: &ScopeKey,
        route: u64,
        sent_at: Instant,
        now: Instant,
    ) {
        if !self.0.by_route.any.load(Ordering::Relaxed) {
            return;
        }
        let closed_for = self.look(scope, Cost::default(), Priority::Normal, now).closed_for;
        let always = self.0.settings.lock().unwrap_or_else(PoisonError::into_inner).rules.always_for_all;
        let scopes: Vec<ScopeKey> = match (closed_for, self.0.by_route.lock().get(account)) {
            (Some(_), Some(known)) if always || !known.is_witnessed(route, sent_at) => {
                known.others.values().chain([account, &known.rest]).cloned().collect()
            }
            _ => return,
        };
        for other in scopes.iter().filter(|other| *other != scope) {
            self.close(other, closed_for.unwrap_or_default(), now);
        }
    }
}

impl Gate {
    /// The scopes of an account's routes beside its own.
    pub(super) fn scopes_of_routes(&self, account: &ScopeKey) -> Vec<ScopeKey> {
        let accounts = self.0.by_route.lock();
        let known = accounts.get(account);
        known.map_or_else(Vec::new, |known| known.others.values().chain([&known.rest]).cloned().collect())
    }
}

impl fmt::Debug for ByRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByRoute").finish_non_exhaustive()
    }
}
