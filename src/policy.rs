//! What a client may do about a refusal: every setting, its default, its allowed range.
//!
//! A policy is made by [`AdmissionPolicy::builder`] or read from a configuration file by serde, with durations as a
//! person writes them (`"30s"`, `"43ms"`, `"1m 30s"`, or ISO 8601). Both ways check it: a [`PolicyError`] names
//! the field, the value and the allowed range. A policy that exists is valid.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::budget::LatencyBudget;
use crate::jitter::UpwardJitter;

mod builder;
pub(crate) mod duration;
mod parts;
mod range;

pub use builder::AdmissionPolicyBuilder;
pub use parts::{AttemptTimeout, Backoff, OnSpill, RetryBudgetPolicy, RetryCharge, RetryOwnership};
pub use range::PolicyError;
pub(crate) use range::written;

/// What a client may do about a refusal. See the [module documentation](self).
///
/// ```
/// use std::time::Duration;
/// use reqwest_admission::AdmissionPolicy;
///
/// let budget = Duration::from_secs(5);
/// let policy = AdmissionPolicy::builder().latency_budget(budget).max_attempts(3).build()?;
/// let same: AdmissionPolicy = toml::from_str("latency_budget = \"5s\"\nmax_attempts = 3")?;
/// assert_eq!(policy, same);
///
/// let error = AdmissionPolicy::builder().max_attempts(0).build().unwrap_err();
/// assert_eq!(error.to_string(), "max_attempts is 0, allowed is 1 to 100");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "AdmissionPolicyBuilder", into = "AdmissionPolicyBuilder")]
pub struct AdmissionPolicy(AdmissionPolicyBuilder);

impl AdmissionPolicy {
    /// A builder that starts from the defaults.
    #[must_use]
    pub fn builder() -> AdmissionPolicyBuilder {
        AdmissionPolicyBuilder::default()
    }

    /// A builder that starts from this policy.
    #[must_use]
    pub fn to_builder(&self) -> AdmissionPolicyBuilder {
        self.0.clone()
    }

    /// The latency budget of calls that bring none of their own. Default: 30 s.
    #[must_use]
    pub const fn latency_budget(&self) -> LatencyBudget {
        LatencyBudget::new(self.0.latency_budget)
    }

    /// The most sends of one logical call. Default: 6.
    #[must_use]
    pub const fn max_attempts(&self) -> u32 {
        self.0.max_attempts
    }

    /// The wait if the server advises none. Default: full jitter, base 500 ms, cap 20 s, floor 100 ms.
    #[must_use]
    pub const fn backoff(&self) -> Backoff {
        self.0.backoff
    }

    /// The random part on top of an advised wait. Default: up to 10 %, at least 4 ms.
    #[must_use]
    pub const fn jitter(&self) -> UpwardJitter {
        self.0.jitter
    }

    /// What is added to the reset of a time window, whose stated moment is often a little early. Default: 250 ms.
    #[must_use]
    pub const fn reset_margin(&self) -> Duration {
        self.0.reset_margin
    }

    /// The share of re-sends over the client's life. Default: 20 % of calls and 10 a second, over 10 s.
    #[must_use]
    pub const fn retry_budget(&self) -> RetryBudgetPolicy {
        self.0.retry_budget
    }

    /// Whether a call of a non-idempotent method without `Idempotency-Key` is given one, the same over all its
    /// attempts. Default: no, since only some servers honour it.
    #[must_use]
    pub const fn mint_idempotency_key(&self) -> bool {
        self.0.mint_idempotency_key
    }

    /// Whether calls spill over unsent while the quota of their account is exhausted, but for one at a time that asks
    /// whether it still is: after 1 s, then after twice as long each time, up to 60 s, until one succeeds. Default: yes.
    #[must_use]
    pub const fn hold_exhausted_quota(&self) -> bool {
        self.0.hold_exhausted_quota
    }

    /// Whether an attempt may outlive the latency budget. Default: [`AttemptTimeout::ClampToBudget`].
    #[must_use]
    pub const fn attempt_timeout(&self) -> AttemptTimeout {
        self.0.attempt_timeout
    }

    /// How a spill-over reaches the caller. Default: [`OnSpill::Error`].
    #[must_use]
    pub const fn on_spill(&self) -> OnSpill {
        self.0.on_spill
    }

    /// What is done about another layer that retries. Default: [`RetryOwnership::Enforce`].
    #[must_use]
    pub const fn retry_ownership(&self) -> RetryOwnership {
        self.0.retry_ownership
    }

    /// The longest time spent on reading the body of a refusal before the call goes on without it; never past the latency
    /// budget if that bounds attempts. Default: 2 s.
    #[must_use]
    pub const fn body_read_timeout(&self) -> Duration {
        self.0.body_read_timeout
    }
}

impl TryFrom<AdmissionPolicyBuilder> for AdmissionPolicy {
    type Error = PolicyError;

    fn try_from(builder: AdmissionPolicyBuilder) -> Result<Self, PolicyError> {
        builder.build()
    }
}

impl From<AdmissionPolicy> for AdmissionPolicyBuilder {
    fn from(policy: AdmissionPolicy) -> Self {
        policy.0
    }
}

#[cfg(test)]
mod tests;
