//! The share of re-sends over a client's life: calls deposit, re-sends withdraw. [`crate::budget`] says why.

use std::time::{Duration, Instant};

use crate::policy::RetryBudgetPolicy;

#[derive(Debug, Clone)]
pub(super) struct RetryBudget {
    start: Instant,
    /// A tenth of the window, in nanoseconds.
    length: u64,
    /// What a call deposits, and what a window always allows, in thousandths of a re-send.
    deposit: i64,
    reserve: i64,
    /// What each part of the window brought in, in thousandths of a re-send; negative if more was taken.
    slots: [i64; SLOTS],
    /// The part that the slots were last brought up to, counted from the start.
    newest: u64,
}

const SLOTS: usize = 10;
const RESEND: i64 = 1000;

impl RetryBudget {
    /// A budget by `policy`, starting with its reserve.
    pub(super) fn new(policy: RetryBudgetPolicy, now: Instant) -> Self {
        Self {
            start: now,
            length: (nanoseconds(policy.time_window()) / 10).max(1),
            deposit: policy.deposit_thousandths(),
            reserve: policy.reserve_thousandths(),
            slots: [0; SLOTS],
            newest: 0,
        }
    }

    /// Counts a new call.
    pub(super) fn deposit(&mut self, now: Instant) {
        self.advance(now);
        self.add(self.newest, self.deposit);
    }

    /// Whether another re-send fits.
    pub(super) fn allows(&mut self, now: Instant) -> bool {
        self.advance(now);
        let booked = self.slots.iter().fold(0_i64, |sum, slot| sum.saturating_add(*slot));
        self.reserve.saturating_add(booked) >= RESEND
    }

    /// Takes one re-send out if it fits; says whether it did.
    pub(super) fn withdraw(&mut self, now: Instant) -> bool {
        let allowed = self.allows(now);
        if allowed {
            self.add(self.newest, -RESEND);
        }
        allowed
    }

    /// Gives back what was taken at `charged`, unless the window has done so already.
    pub(super) fn give_back(&mut self, charged: Instant, now: Instant) {
        self.advance(now);
        let part = self.part(charged);
        if self.newest.saturating_sub(part) < 10 {
            self.add(part, RESEND);
        }
    }

    /// Forgets the parts that have left the window.
    fn advance(&mut self, now: Instant) {
        let current = self.part(now).max(self.newest);
        for passed in (self.newest.saturating_add(1)..=current).take(SLOTS) {
            if let Some(slot) = self.slot(passed) {
                *slot = 0;
            }
        }
        self.newest = current;
    }

    /// Which tenth of a window, counted from the start, a moment is in.
    fn part(&self, at: Instant) -> u64 {
        let elapsed = nanoseconds(at.saturating_duration_since(self.start));
        elapsed.checked_div(self.length).unwrap_or(self.newest)
    }

    fn add(&mut self, part: u64, amount: i64) {
        if let Some(slot) = self.slot(part) {
            *slot = slot.saturating_add(amount);
        }
    }

    fn slot(&mut self, part: u64) -> Option<&mut i64> {
        let index = part.checked_rem(10).and_then(|index| usize::try_from(index).ok())?;
        self.slots.get_mut(index)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into())
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
    fn a_charge_that_is_given_back_is_there_for_others_and_only_once() {
        let start = Instant::now();
        let mut budget = RetryBudget::new(policy(0.0, 1), start);
        assert_eq!(withdrawals(&mut budget, start), 10);
        let later = start + Duration::from_secs(5);
        budget.give_back(start, later);
        assert_eq!(withdrawals(&mut budget, later), 1);
        // The charge has left the window, which brought it back already.
        let much_later = start + Duration::from_secs(14);
        budget.give_back(start, much_later);
        assert_eq!(withdrawals(&mut budget, much_later), 9);
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
