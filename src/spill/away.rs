//! Which scopes of the primary calls are away from, and the one probe that brings them back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::gate::ScopeKey;

/// As many scopes as are remembered; beyond, the oldest is forgotten, and its calls go to the primary unasked.
const MOST: usize = 1024;

/// The scopes of the primary that refused a call which then left.
#[derive(Debug, Default)]
pub(crate) struct Away {
    /// How many there are, so that a call of an untroubled client reads one number.
    count: AtomicUsize,
    scopes: Mutex<HashMap<ScopeKey, Scope>>,
}

#[derive(Debug)]
struct Scope {
    since: Instant,
    probing: bool,
}

/// What a call is to do about the primary.
pub(crate) enum Standing<'a> {
    /// Nothing is known against it.
    Open,
    /// Go, and find out for all.
    Probe(Probe<'a>),
    /// Another call is finding out.
    Probing,
}

impl Away {
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// A call left the primary after a refusal.
    pub(crate) fn left(&self, scope: &ScopeKey, now: Instant) {
        let mut scopes = self.lock();
        if scopes.len() >= MOST && !scopes.contains_key(scope) {
            let oldest = scopes.iter().min_by_key(|(_, scope)| scope.since).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                scopes.remove(&oldest);
            }
        }
        scopes.entry(scope.clone()).or_insert(Scope { since: now, probing: false }).since = now;
        self.count.store(scopes.len(), Ordering::Relaxed);
    }

    /// A new call comes to the primary.
    pub(crate) fn arrive(&self, scope: &ScopeKey) -> Standing<'_> {
        if self.is_empty() {
            return Standing::Open;
        }
        match self.lock().get_mut(scope) {
            None => Standing::Open,
            Some(Scope { probing: true, .. }) => Standing::Probing,
            Some(away) => {
                away.probing = true;
                Standing::Probe(Probe { away: self, scope: scope.clone() })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ScopeKey, Scope>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one call that finds out whether the primary takes calls again. Dropped without success it leaves that to the next.
pub(crate) struct Probe<'a> {
    away: &'a Away,
    scope: ScopeKey,
}

impl Probe<'_> {
    /// The primary has taken the call: all go back to it.
    pub(crate) fn succeeded(self) {
        let mut scopes = self.away.lock();
        scopes.remove(&self.scope);
        self.away.count.store(scopes.len(), Ordering::Relaxed);
    }
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        if let Some(scope) = self.away.lock().get_mut(&self.scope) {
            scope.probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_probe_at_a_time_and_its_success_brings_all_back() {
        let (away, scope) = (Away::default(), ScopeKey::new("a"));
        assert!(matches!(away.arrive(&scope), Standing::Open));
        away.left(&scope, Instant::now());
        assert!(matches!(away.arrive(&ScopeKey::new("b")), Standing::Open));
        let Standing::Probe(probe) = away.arrive(&scope) else { panic!() };
        assert!(matches!(away.arrive(&scope), Standing::Probing));
        drop(probe);
        let Standing::Probe(probe) = away.arrive(&scope) else { panic!() };
        probe.succeeded();
        assert!(away.is_empty() && matches!(away.arrive(&scope), Standing::Open));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let away = Away::default();
        for n in 0..2 * MOST {
            away.left(&ScopeKey::new(&n.to_string()), Instant::now());
        }
        assert_eq!(away.lock().len(), MOST);
    }
}
