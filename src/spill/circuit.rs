//! When calls stay away from a primary that fails or refuses: [`FailOver`], and the circuits that open.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Which failures of a deployment send a call on to the next one.
///
/// A failure after which the server may have processed the request is one only for calls that are harmless to repeat: an
/// idempotent method, or an `Idempotency-Key`. Refusals (429 and the like) spill over in any case.
///
/// If the primary fails so, its circuit opens: at once if it cannot be reached, otherwise after three failures in a row.
/// Calls then go to the next deployment directly, if one can take them in time. After a second one call tries the primary
/// again; each failure of such a call doubles that time, up to 30 s, and any other answer closes the circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FailOver {
    /// None: the primary's failures are retried there, or are the caller's.
    Never,
    /// If nothing was sent: the connection was refused, or the name does not resolve.
    #[default]
    Unsent,
    /// Also, for calls that are harmless to repeat, a 408 or a 5xx that says nothing of capacity, a lost connection, or no
    /// answer in time. An attempt then ends when the time that is kept for the next deployment begins, unless attempts are
    /// [unclamped](crate::policy::AttemptTimeout::Unclamped).
    Safe,
}

/// Failures in a row, each after the request was sent, that open the circuit.
const FAILURES: u32 = 3;
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest pause of a primary that fails.
pub(super) const LONGEST: Duration = Duration::from_secs(30);

/// As many circuits as are remembered; beyond, the one that opened first is forgotten, and its calls go on as before.
const MOST: usize = 1024;

/// The circuits that calls go through by `K`, for example the scope: closed, but for those that are remembered.
#[derive(Debug)]
pub(crate) struct Circuits<K> {
    /// The longest pause between two trials.
    longest: Duration,
    /// Whether any is remembered, so that a call of an untroubled client reads one flag.
    any: AtomicBool,
    states: Mutex<HashMap<K, State>>,
}

#[derive(Debug)]
struct State {
    since: Instant,
    failures: u32,
    /// When the next call may try, and how long it had to wait for that; `None` while the circuit is still closed.
    open: Option<(Instant, Duration)>,
    is_tried: bool,
}

/// What a call is to do.
#[derive(Debug)]
pub(crate) enum Entrance<'a, K: Eq + Hash> {
    /// Go.
    Closed,
    /// Go, and find out for all.
    Trial(Trial<'a, K>),
    /// Stay away: another call finds out, or it is too early.
    Open,
}

/// The one call that goes through an open circuit. Dropped, it leaves that to the next.
#[derive(Debug)]
pub(crate) struct Trial<'a, K: Eq + Hash> {
    circuits: &'a Circuits<K>,
    key: K,
}

impl<K: Eq + Hash + Clone> Circuits<K> {
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, any: AtomicBool::default(), states: Mutex::default() }
    }

    /// Whether all are closed and nothing has failed.
    pub(crate) fn are_untroubled(&self) -> bool {
        !self.any.load(Ordering::Relaxed)
    }

    /// A new call comes.
    pub(crate) fn enter(&self, key: &K, now: Instant) -> Entrance<'_, K> {
        if self.are_untroubled() {
            return Entrance::Closed;
        }
        match self.lock().get_mut(key) {
            Some(State { open: Some((until, _)), is_tried, .. }) if *is_tried || now < *until => {
                Entrance::Open
            }
            Some(State { open: Some(_), is_tried, .. }) => {
                *is_tried = true;
                Entrance::Trial(Trial { circuits: self, key: key.clone() })
            }
            _ => Entrance::Closed,
        }
    }

    /// Opens a circuit; the next call may try at once.
    pub(crate) fn open(&self, key: &K, now: Instant) {
        self.change(key, now, |state| {
            state.since = now;
            state.open = state.open.or(Some((now, Duration::ZERO)));
        });
    }

    /// A call failed; `at_once` if a single failure opens the circuit, `is_trial` if it was sent to find out.
    pub(crate) fn failed(&self, key: &K, at_once: bool, is_trial: bool, now: Instant) {
        self.change(key, now, |state| {
            state.failures = state.failures.saturating_add(1);
            let pause = match state.open {
                None if at_once || state.failures >= FAILURES => SHORTEST,
                Some((_, pause)) if is_trial => pause.saturating_mul(2).min(self.longest),
                // A call that was on its way when the circuit opened says nothing new.
                None | Some(_) => return,
            };
            (state.since, state.is_tried) = (now, false);
            state.open = Some((now.checked_add(pause).unwrap_or(now), pause));
        });
    }

    /// The circuit closes.
    pub(crate) fn close(&self, key: &K) {
        if !self.are_untroubled() {
            let mut states = self.lock();
            states.remove(key);
            self.any.store(!states.is_empty(), Ordering::Relaxed);
        }
    }

    fn change(&self, key: &K, now: Instant, change: impl FnOnce(&mut State)) {
        let mut states = self.lock();
        if states.len() >= MOST && !states.contains_key(key) {
            let oldest = states.iter().min_by_key(|(_, state)| state.since).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| states.remove(&oldest));
        }
        let new = || State { since: now, failures: 0, open: None, is_tried: false };
        change(states.entry(key.clone()).or_insert_with(new));
        self.any.store(true, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Clone> Trial<'_, K> {
    /// The call was taken: all go through again.
    pub(crate) fn succeeded(self) {
        self.circuits.close(&self.key);
    }
}

impl<K: Eq + Hash> Drop for Trial<'_, K> {
    fn drop(&mut self) {
        let mut states = self.circuits.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = states.get_mut(&self.key) {
            state.is_tried = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_trial_at_a_time_and_its_success_brings_all_back() {
        let (circuits, now) = (Circuits::new(LONGEST), Instant::now());
        assert!(matches!(circuits.enter(&"a", now), Entrance::Closed));
        circuits.open(&"a", now);
        assert!(matches!(circuits.enter(&"b", now), Entrance::Closed));
        let Entrance::Trial(trial) = circuits.enter(&"a", now) else { panic!() };
        assert!(matches!(circuits.enter(&"a", now), Entrance::Open));
        drop(trial);
        let Entrance::Trial(trial) = circuits.enter(&"a", now) else { panic!() };
        trial.succeeded();
        assert!(circuits.are_untroubled() && matches!(circuits.enter(&"a", now), Entrance::Closed));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let circuits = Circuits::new(LONGEST);
        for n in 0..2 * MOST {
            circuits.open(&n, Instant::now());
        }
        assert_eq!(circuits.lock().len(), MOST);
    }

    fn enters(circuit: &Circuits<()>, at: Instant) -> bool {
        !matches!(circuit.enter(&(), at), Entrance::Open)
    }

    #[test]
    fn one_lost_connection_or_three_failures_in_a_row_open_it() {
        let start = Instant::now();
        let circuit = Circuits::new(LONGEST);
        circuit.failed(&(), true, false, start);
        assert!(!enters(&circuit, start + SHORTEST - Duration::from_nanos(1)));
        circuit.close(&());
        for _ in 1..FAILURES {
            circuit.failed(&(), false, false, start);
            assert!(matches!(circuit.enter(&(), start), Entrance::Closed));
        }
        circuit.failed(&(), false, false, start);
        assert!(!enters(&circuit, start));
        // Late failures of calls that were under way prolong nothing.
        circuit.failed(&(), true, false, start + SHORTEST / 2);
        assert!(enters(&circuit, start + SHORTEST));
    }

    #[test]
    fn one_trial_at_a_time_and_each_failure_doubles_the_pause() {
        let mut now = Instant::now();
        let circuit = Circuits::new(LONGEST);
        circuit.failed(&(), true, false, now);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            let pause = Duration::from_secs(seconds);
            assert!(!enters(&circuit, now + pause - Duration::from_millis(1)), "{seconds}");
            now += pause;
            let Entrance::Trial(dropped) = circuit.enter(&(), now) else { panic!("{seconds}") };
            assert!(!enters(&circuit, now));
            drop(dropped);
            let Entrance::Trial(trial) = circuit.enter(&(), now) else { panic!("{seconds}") };
            circuit.failed(&(), false, true, now);
            drop(trial);
        }
        circuit.close(&());
        assert!(circuit.are_untroubled() && matches!(circuit.enter(&(), now), Entrance::Closed));
    }
}
