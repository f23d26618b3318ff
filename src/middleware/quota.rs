//! What an exhausted quota holds back: all calls of the account, but for one at a time that asks whether it still is.

use std::time::{Duration, Instant};

use super::call::LogicalCall;
use super::entry::Entry;
use crate::clock;
use crate::decision::{Decision, Reason};
use crate::spill::Entrance;

/// The longest time between two calls that ask.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

impl LogicalCall<'_> {
    /// Whether the call may ask the account that it is counted in.
    pub(super) fn may_ask_account(&mut self) -> bool {
        self.quota_trial = None;
        let Some(scope) = self.entry.as_ref().map(Entry::scope) else { return true };
        match self.shared.quotas.enter(scope, clock::now()) {
            Entrance::Closed => true,
            Entrance::Trial(trial) => {
                self.quota_trial = Some(trial);
                true
            }
            Entrance::Open => false,
        }
    }

    /// An attempt was decided about.
    pub(super) fn learn_quota(&self, decision: &Decision, at: Instant) {
        if let (Decision::SpillOver(Reason::QuotaExhausted), Some(entry)) = (decision, &self.entry)
            && self.shared.policy.hold_exhausted_quota()
        {
            self.shared.quotas.failed(entry.scope(), true, self.quota_trial.is_some(), at);
        }
    }

    /// An attempt succeeded.
    pub(super) fn has_quota(&mut self) {
        if let Some(entry) = &self.entry {
            self.shared.quotas.close(entry.scope());
        }
    }
}
