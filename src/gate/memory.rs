//! The scopes of one process: a bounded map.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use super::cell::Cell;
use super::scope::{Prehashed, ScopeKey};
use super::state::State;

#[derive(Debug)]
pub(crate) struct Memory {
    scopes: RwLock<HashMap<ScopeKey, Arc<Cell>, BuildHasherDefault<Prehashed>>>,
    most: usize,
}

impl Memory {
    pub(crate) fn new(most: usize) -> Self {
        Self { scopes: RwLock::default(), most: most.max(1) }
    }

    pub(crate) fn get(&self, key: &ScopeKey) -> Option<Arc<Cell>> {
        self.scopes.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// The scope, made if it is new; `None` where the map is full of scopes that are closed or occupied.
    pub(crate) fn get_or_insert(
        &self,
        key: &ScopeKey,
        now: Instant,
        make: impl FnOnce() -> State,
    ) -> Option<Arc<Cell>> {
        if let Some(cell) = self.get(key) {
            return Some(cell);
        }
        let mut scopes = self.scopes.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = scopes.get(key) {
            return Some(Arc::clone(cell));
        }
        if scopes.len() >= self.most {
            // New references are made under this lock only, so a count of one means that nobody else has any.
            let oldest = scopes
                .iter()
                .filter(|(_, cell)| Arc::strong_count(cell) == 1)
                .filter_map(|(key, cell)| {
                    let state = cell.lock();
                    state.is_idle(now).then_some((state.last_used, key))
                })
                .min_by_key(|(used, _)| *used)
                .map(|(_, key)| key.clone())?;
            scopes.remove(&oldest);
        }
        let cell = Arc::new(Cell::new(make()));
        scopes.insert(key.clone(), Arc::clone(&cell));
        Some(cell)
    }

    pub(crate) fn len(&self) -> usize {
        self.scopes.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// All scopes as they are now.
    pub(crate) fn all(&self) -> Vec<(ScopeKey, Arc<Cell>)> {
        let scopes = self.scopes.read().unwrap_or_else(PoisonError::into_inner);
        scopes.iter().map(|(key, cell)| (key.clone(), Arc::clone(cell))).collect()
    }
}
