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
//! A re-send is charged when it is decided. A call that is dropped in its wait before one (the future is cancelled, or
//! a timeout around it ends) does not give the charge back, which counts until the window of the budget has passed. So if
//! many calls are cancelled in their waits, later ones may find the budget spent, although little was sent again.
//!
//! Both are pure: the current moment is an argument.

use std::time::{Duration, Instant};

use crate::policy::RetryBudgetPolicy;

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

/// The share of re-sends over a client's life: calls deposit, re-sends withdraw.
///
/// See the [module documentation](self) for why.
#[derive(Debug, Clone)]
pub struct RetryBudget {
    policy: RetryBudgetPolicy,
    start: Instant,
    /// What each part of the window brought in, in thousandths of a re-send; negative where more was taken.
    slots: [i64; SLOTS],
    /// The part of the window that `slots` was last brought up to, counted from `start`.
    newest: u64,
    /// When that part ends.
    until: Instant,
    /// What a call brings in, once that is worked out.
    deposit: Option<i64>,
}

const SLOTS: usize = 10;
const RESEND: i64 = 1000;

impl RetryBudget {
    /// A budget by `policy`, starting with its reserve.
    #[must_use]
    pub const fn new(policy: RetryBudgetPolicy, now: Instant) -> Self {
        Self { policy, start: now, slots: [0; SLOTS], newest: 0, until: now, deposit: None }
    }

    /// Counts a new call.
    pub fn deposit(&mut self, now: Instant) {
        let amount = *self.deposit.get_or_insert_with(|| self.policy.deposit_thousandths());
        self.book(now, amount);
    }

    /// Whether another re-send fits.
    #[must_use]
    pub fn allows(&mut self, now: Instant) -> bool {
        self.advance(now);
        let booked = self.slots.iter().fold(0_i64, |sum, slot| sum.saturating_add(*slot));
        self.policy.reserve_thousandths().saturating_add(booked) >= RESEND
    }

    /// Takes one re-send out if it fits; says whether it did.
    ///
    /// Charge a re-send when it is decided, not when it is sent: calls that are still waiting have already
    /// claimed their share. There is no giving back: a call that is dropped in its wait keeps what it took until the
    /// window has passed.
    #[must_use]
    pub fn withdraw(&mut self, now: Instant) -> bool {
        let allowed = self.allows(now);
        if allowed {
            self.book(now, -RESEND);
        }
        allowed
    }

    fn book(&mut self, now: Instant, amount: i64) {
        self.advance(now);
        if let Some(slot) = self.slot(self.newest) {
            *slot = slot.saturating_add(amount);
        }
    }

    /// Forgets the slots that have left the window.
    fn advance(&mut self, now: Instant) {
        if now < self.until {
            return;
        }
        let elapsed = now.saturating_duration_since(self.start);
        let length = self.policy.time_window().as_nanos() / 10;
        let current = elapsed
            .as_nanos()
            .checked_div(length)
            .and_then(|index| u64::try_from(index).ok())
            .unwrap_or(self.newest);
        let passed = current.saturating_sub(self.newest);
        for index in (1..=passed).take(SLOTS) {
            if let Some(slot) = self.slot(self.newest.saturating_add(index)) {
                *slot = 0;
            }
        }
        self.newest = self.newest.max(current);
        let until = length.saturating_mul(u128::from(self.newest).saturating_add(1));
        let until =
            u64::try_from(until).ok().and_then(|nanos| self.start.checked_add(Duration::from_nanos(nanos)));
        self.until = until.unwrap_or(self.start);
    }

    fn slot(&mut self, index: u64) -> Option<&mut i64> {
        let index = index.checked_rem(10).and_then(|index| usize::try_from(index).ok())?;
        self.slots.get_mut(index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(share: f64, per_second: u32) -> RetryBudgetPolicy {
        RetryBudgetPolicy::new(share, per_second, Duration::from_secs(10)).unwrap()
    }

    fn withdrawals(budget: &mut RetryBudget, now: Instant) -> usize {
        (0..100_000).take_while(|_| budget.withdraw(now)).count()
    }

    #[test]
    fn a_fresh_client_has_its_reserve_and_gets_it_back_after_the_window() {
        let start = Instant::now();
        let mut budget = RetryBudget::new(policy(0.2, 3), start);
        assert_eq!(withdrawals(&mut budget, start), 30);
        assert_eq!(withdrawals(&mut budget, start + Duration::from_secs(9)), 0);
        assert_eq!(withdrawals(&mut budget, start + Duration::from_secs(11)), 30);
    }

    #[test]
    fn calls_earn_their_share_of_resends_for_one_window() {
        let start = Instant::now();
        let mut budget = RetryBudget::new(policy(0.2, 0), start);
        assert!(!budget.allows(start));
        (0..100).for_each(|_| budget.deposit(start));
        assert_eq!(withdrawals(&mut budget.clone(), start + Duration::from_secs(9)), 20);
        assert_eq!(withdrawals(&mut budget, start + Duration::from_secs(10)), 0);
    }

    #[test]
    fn a_clock_that_steps_back_changes_nothing() {
        let start = Instant::now();
        let later = start + Duration::from_secs(5);
        let mut budget = RetryBudget::new(policy(0.2, 1), later);
        assert_eq!(withdrawals(&mut budget, later), 10);
        assert_eq!(withdrawals(&mut budget, start), 0);
    }

    #[test]
    fn a_budget_beyond_the_clock_still_has_a_deadline() {
        let start = Instant::now();
        assert!(LatencyBudget::new(Duration::MAX).deadline(start) > start + Duration::from_secs(86_400));
        assert_eq!(LatencyBudget::new(Duration::ZERO).deadline(start), start);
    }

    proptest! {
        #[test]
        fn resends_never_pass_share_and_reserve(
            steps in proptest::collection::vec((0_u64..2_000, any::<bool>()), 1..400),
        ) {
            let mut now = Instant::now();
            let mut budget = RetryBudget::new(policy(0.2, 1), now);
            let (mut calls, mut resends, mut elapsed) = (0.0, 0.0, 0.0);
            for (wait, is_call) in steps {
                now += Duration::from_millis(wait);
                elapsed += f64::from(u32::try_from(wait).unwrap()) / 1000.0;
                if is_call {
                    budget.deposit(now);
                    calls += 1.0;
                } else if budget.withdraw(now) {
                    resends += 1.0;
                }
                // The reserve of one window at the start, and one more for each window begun since; the
                // slots' granularity lets a window be a tenth shorter.
                let reserve = 10.0 * (1.0 + (elapsed / 9.0_f64).ceil());
                prop_assert!(resends <= 0.2 * calls + reserve + 1e-6);
            }
        }
    }
}
