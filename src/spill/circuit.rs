//! When calls stay away from a primary that fails: [`FailOver`], and the circuit that opens.

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
const LONGEST: Duration = Duration::from_secs(30);

/// Whether the primary is asked at all.
#[derive(Debug, Default)]
pub(crate) struct Circuit {
    /// Whether there were failures, so that a call of an untroubled client reads one flag.
    troubled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    /// When the next call may try the primary.
    until: Instant,
    pause: Duration,
    probing: bool,
}

/// What a call is to do about the primary.
#[derive(Debug)]
pub(crate) enum Entrance<'a> {
    Closed,
    Trial(Trial<'a>),
    Open,
}

/// The one call that tries the primary while the circuit is open. Dropped, it leaves that to the next.
#[derive(Debug)]
pub(crate) struct Trial<'a>(&'a Circuit);

impl Circuit {
    pub(crate) fn is_untroubled(&self) -> bool {
        !self.troubled.load(Ordering::Relaxed)
    }

    /// A new call comes to the primary.
    pub(crate) fn enter(&self, now: Instant) -> Entrance<'_> {
        if self.is_untroubled() {
            return Entrance::Closed;
        }
        match &mut self.lock().open {
            None => Entrance::Closed,
            Some(open) if open.probing || now < open.until => Entrance::Open,
            Some(open) => {
                open.probing = true;
                Entrance::Trial(Trial(self))
            }
        }
    }

    /// A call failed at the primary; `unreachable` if there was no connection, `trial` if it was sent to find out.
    pub(crate) fn failed(&self, unreachable: bool, trial: bool, now: Instant) {
        let mut state = self.lock();
        self.troubled.store(true, Ordering::Relaxed);
        state.failures = state.failures.saturating_add(1);
        let is_enough = unreachable || state.failures >= FAILURES;
        let pause = match &state.open {
            None if is_enough => SHORTEST,
            Some(open) if trial => open.pause.saturating_mul(2).min(LONGEST),
            // A call that was on its way when the circuit opened says nothing new.
            None | Some(_) => return,
        };
        let until = now.checked_add(pause).unwrap_or(now);
        state.open = Some(Open { until, pause, probing: false });
    }

    /// The primary answered, if only with a refusal.
    pub(crate) fn answered(&self) {
        if !self.is_untroubled() {
            *self.lock() = State::default();
            self.troubled.store(false, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if let Some(open) = &mut self.0.lock().open {
            open.probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enters(circuit: &Circuit, at: Instant) -> bool {
        !matches!(circuit.enter(at), Entrance::Open)
    }

    #[test]
    fn one_lost_connection_or_three_failures_in_a_row_open_it() {
        let start = Instant::now();
        let circuit = Circuit::default();
        circuit.failed(true, false, start);
        assert!(!enters(&circuit, start + SHORTEST - Duration::from_nanos(1)));
        circuit.answered();
        for _ in 1..FAILURES {
            circuit.failed(false, false, start);
            assert!(matches!(circuit.enter(start), Entrance::Closed));
        }
        circuit.failed(false, false, start);
        assert!(!enters(&circuit, start));
        // Late failures of calls that were under way prolong nothing.
        circuit.failed(true, false, start + SHORTEST / 2);
        assert!(enters(&circuit, start + SHORTEST));
    }

    #[test]
    fn one_trial_at_a_time_and_each_failure_doubles_the_pause() {
        let mut now = Instant::now();
        let circuit = Circuit::default();
        circuit.failed(true, false, now);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            let pause = Duration::from_secs(seconds);
            assert!(!enters(&circuit, now + pause - Duration::from_millis(1)), "{seconds}");
            now += pause;
            let Entrance::Trial(dropped) = circuit.enter(now) else { panic!("{seconds}") };
            assert!(!enters(&circuit, now));
            drop(dropped);
            let Entrance::Trial(trial) = circuit.enter(now) else { panic!("{seconds}") };
            circuit.failed(false, true, now);
            drop(trial);
        }
        circuit.answered();
        assert!(circuit.is_untroubled() && matches!(circuit.enter(now), Entrance::Closed));
    }
}
