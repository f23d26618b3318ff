//! The two budgets: the latency budget of one call, and the retry budget of a client.
//!
//! # Why a retry budget
//!
//! A cap on attempts bounds one call, not a client: when every call fails and each is tried six times, an outage is
//! answered with six times the traffic. Backoff only delays that wave. A budget bounds the *ratio*: in any
//! window, re-sends are at most a share of calls plus a small reserve for clients that send little, so a
//! recovering server sees hardly more than its ordinary load. (The idea is Finagle's; tower's `retry::budget`
//! describes the same one.)
//!
//! A re-send that the server itself invited with a positive wait is no storm and is not charged by default.
//!
//! A re-send is charged when it is decided: calls that are still waiting have claimed their share. One that then goes to
//! another deployment, or is turned away at the gate, gives the charge back. A call that is dropped in its wait (the future is
//! cancelled, or a timeout around it ends) does not: its charge counts until the window of the budget has passed. So if many
//! calls are cancelled in their waits, later ones may find the budget spent, although little was sent again.
//!
//! The settings are [`RetryBudgetPolicy`](crate::policy::RetryBudgetPolicy).

use std::time::{Duration, Instant};

/// The time that one logical call may take over queueing, sends and waits.
///
/// The policy holds the default; a call sets its own with `RequestBuilder::with_extension(LatencyBudget::new(..))`.
/// It is a deadline for the *response head*: reading a response body, for example a stream, may go on after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LatencyBudget(Duration);

impl LatencyBudget {
    /// A budget of `duration`. Zero means: send once, never wait.
    #[must_use]
    pub const fn new(duration: Duration) -> Self {
        Self(duration)
    }

    /// The length of the budget.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// The one deadline of a call that starts at `start`.
    ///
    /// A budget too long for the clock to express ends a year after `start`.
    #[must_use]
    pub fn deadline(self, start: Instant) -> Instant {
        const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);
        start.checked_add(self.0).or_else(|| start.checked_add(YEAR)).unwrap_or(start)
    }
}

impl From<Duration> for LatencyBudget {
    fn from(duration: Duration) -> Self {
        Self::new(duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_beyond_the_clock_still_has_a_deadline() {
        let start = Instant::now();
        assert!(LatencyBudget::new(Duration::MAX).deadline(start) > start + Duration::from_secs(86_400));
        assert_eq!(LatencyBudget::new(Duration::ZERO).deadline(start), start);
    }
}
