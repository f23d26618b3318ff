//! Every setting in the form that it is built and written in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::range::{HOUR, MILLISECOND, MINUTE, YEAR, share_within, within};
use super::{
    AdmissionPolicy, AttemptTimeout, Backoff, OnSpill, PolicyError, RetryBudgetPolicy, RetryOwnership,
};
use crate::jitter::UpwardJitter;

/// Builds an [`AdmissionPolicy`]; [`build`](Self::build) checks every value.
///
/// This is also the form that serde reads and writes: a map of the same names, all optional, unknown ones refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdmissionPolicyBuilder {
    #[serde(with = "super::duration::latency_budget")]
    pub(super) latency_budget: Duration,
    pub(super) max_attempts: u32,
    pub(super) backoff: Backoff,
    pub(super) jitter: UpwardJitter,
    #[serde(with = "super::duration::reset_margin")]
    pub(super) reset_margin: Duration,
    pub(super) retry_budget: RetryBudgetPolicy,
    pub(super) mint_idempotency_key: bool,
    pub(super) hold_exhausted_quota: bool,
    pub(super) attempt_timeout: AttemptTimeout,
    pub(super) on_spill: OnSpill,
    pub(super) retry_ownership: RetryOwnership,
    #[serde(with = "super::duration::body_read_timeout")]
    pub(super) body_read_timeout: Duration,
}

impl Default for AdmissionPolicyBuilder {
    fn default() -> Self {
        Self {
            latency_budget: Duration::from_secs(30),
            max_attempts: 6,
            backoff: Backoff::default(),
            jitter: UpwardJitter::default(),
            reset_margin: Duration::from_millis(250),
            retry_budget: RetryBudgetPolicy::default(),
            mint_idempotency_key: false,
            hold_exhausted_quota: true,
            attempt_timeout: AttemptTimeout::default(),
            on_spill: OnSpill::default(),
            retry_ownership: RetryOwnership::default(),
            body_read_timeout: Duration::from_secs(2),
        }
    }
}

impl AdmissionPolicyBuilder {
    /// Sets [`AdmissionPolicy::latency_budget`]: 0 to 366 days; 0 means send once, never wait.
    #[must_use]
    pub const fn latency_budget(mut self, budget: Duration) -> Self {
        self.latency_budget = budget;
        self
    }

    /// Sets [`AdmissionPolicy::max_attempts`]: 1 to 100.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Sets [`AdmissionPolicy::backoff`].
    #[must_use]
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets [`AdmissionPolicy::jitter`]: a share of 0 to 1, a spread of 0 to 1 hour.
    #[must_use]
    pub const fn jitter(mut self, jitter: UpwardJitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets [`AdmissionPolicy::reset_margin`]: 0 to 1 minute.
    #[must_use]
    pub const fn reset_margin(mut self, margin: Duration) -> Self {
        self.reset_margin = margin;
        self
    }

    /// Sets [`AdmissionPolicy::retry_budget`].
    #[must_use]
    pub const fn retry_budget(mut self, budget: RetryBudgetPolicy) -> Self {
        self.retry_budget = budget;
        self
    }

    /// Sets [`AdmissionPolicy::mint_idempotency_key`].
    #[must_use]
    pub const fn mint_idempotency_key(mut self, mint: bool) -> Self {
        self.mint_idempotency_key = mint;
        self
    }

    /// Sets [`AdmissionPolicy::hold_exhausted_quota`].
    #[must_use]
    pub const fn hold_exhausted_quota(mut self, hold: bool) -> Self {
        self.hold_exhausted_quota = hold;
        self
    }

    /// Sets [`AdmissionPolicy::attempt_timeout`].
    #[must_use]
    pub const fn attempt_timeout(mut self, timeout: AttemptTimeout) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// Sets [`AdmissionPolicy::on_spill`].
    #[must_use]
    pub const fn on_spill(mut self, on_spill: OnSpill) -> Self {
        self.on_spill = on_spill;
        self
    }

    /// Sets [`AdmissionPolicy::retry_ownership`].
    #[must_use]
    pub const fn retry_ownership(mut self, ownership: RetryOwnership) -> Self {
        self.retry_ownership = ownership;
        self
    }

    /// Sets [`AdmissionPolicy::body_read_timeout`]: 1 ms to 1 minute.
    #[must_use]
    pub const fn body_read_timeout(mut self, timeout: Duration) -> Self {
        self.body_read_timeout = timeout;
        self
    }

    /// Checks every value.
    ///
    /// # Errors
    ///
    /// A [`PolicyError`] that names the first field out of its range, its value and the range.
    pub fn build(self) -> Result<AdmissionPolicy, PolicyError> {
        within("latency_budget", self.latency_budget, Duration::ZERO, YEAR)?;
        if !(1..=100).contains(&self.max_attempts) {
            return Err(PolicyError::new("max_attempts", self.max_attempts, "1 to 100"));
        }
        self.backoff.check()?;
        match self.jitter {
            UpwardJitter::Proportional { share, at_least } => {
                share_within("jitter.proportional.share", share, 1.0)?;
                within("jitter.proportional.at_least", at_least, Duration::ZERO, HOUR)?;
            }
            UpwardJitter::Uniform { up_to } => within("jitter.uniform.up_to", up_to, Duration::ZERO, HOUR)?,
            UpwardJitter::None => {}
        }
        within("reset_margin", self.reset_margin, Duration::ZERO, MINUTE)?;
        self.retry_budget.check()?;
        within("body_read_timeout", self.body_read_timeout, MILLISECOND, MINUTE)?;
        Ok(AdmissionPolicy(self))
    }
}
