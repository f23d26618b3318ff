//! The scopes of one process: a bounded map.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use super::cell::Cell;
use super::scope::{Prehashed, ScopeKey};
use super::state::State;

/// The part of a full map that makes room at once: finding the oldest means looking at all, so it is done for many new
/// scopes together.
const LEAVING: usize = 16;

type Scopes = HashMap<ScopeKey, Arc<Cell>, BuildHasherDefault<Prehashed>>;

#[derive(Debug)]
pub(crate) struct Memory {
    scopes: RwLock<Scopes>,
    most: usize,
}

impl Memory {
    pub(crate) fn new(most: usize) -> Self {
        Self { scopes: RwLock::default(), most }
    }

    #[inline]
    pub(crate) fn get(&self, key: &ScopeKey) -> Option<Arc<Cell>> {
        self.scopes.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// The scope, made if it is new; `None` where the map is full of scopes that are closed or occupied.
    #[inline]
    pub(crate) fn get_or_insert(
        &self,
        key: &ScopeKey,
        now: Instant,
        make: impl FnOnce() -> State,
    ) -> Option<Arc<Cell>> {
        self.get(key).or_else(|| self.insert(key, now, make))
    }

    #[cold]
    fn insert(&self, key: &ScopeKey, now: Instant, make: impl FnOnce() -> State) -> Option<Arc<Cell>> {
        let mut scopes = self.scopes.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = scopes.get(key) {
            return Some(Arc::clone(cell));
        }
        if scopes.len() >= self.most {
            self.make_room(&mut scopes, now);
            if scopes.len() >= self.most {
                return None;
            }
        }
        let cell = Arc::new(Cell::new(make()));
        scopes.insert(key.clone(), Arc::clone(&cell));
        Some(cell)
    }

    /// Forgets those of the idle scopes that were used longest ago.
    fn make_room(&self, scopes: &mut Scopes, now: Instant) {
        // New references are made under this lock only, so a count of one means that nobody else has any.
        let mut idle: Vec<(Instant, ScopeKey)> = scopes
            .iter()
            .filter(|(_, cell)| Arc::strong_count(cell) == 1)
            .filter_map(|(key, cell)| {
                let mut state = cell.lock();
                state.is_idle(now).then(|| (state.last_used, key.clone()))
            })
            .collect();
        let leaving = self.most.div_ceil(LEAVING).min(idle.len());
        if leaving < idle.len() {
            let _ = idle.select_nth_unstable_by_key(leaving, |(used, _)| *used);
        }
        for (_, key) in idle.iter().take(leaving) {
            scopes.remove(key);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.scopes.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    #[cfg(test)]
    pub(super) fn poison(&self) {
        let _scopes = self.scopes.write();
        panic!("with the map locked");
    }

    /// All scopes as they are now.
    pub(crate) fn all(&self) -> Vec<(ScopeKey, Arc<Cell>)> {
        let scopes = self.scopes.read().unwrap_or_else(PoisonError::into_inner);
        scopes.iter().map(|(key, cell)| (key.clone(), Arc::clone(cell))).collect()
    }
}
