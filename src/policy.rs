//! What a client may do about a refusal: every setting, its default, its allowed range.
//!
//! A policy is made by [`AdmissionPolicy::builder`] or read from a configuration file by serde, with durations as a
//! person writes them (`"30s"`, `"43ms"`, `"1m 30s"`, or ISO 8601). Both ways check it: a [`PolicyError`] names
//! the field, the value and the allowed range. A policy that exists is valid.

use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact::required as written_duration;
use serde::{Deserialize, Serialize};

use crate::budget::LatencyBudget;
use crate::jitter::UpwardJitter;

mod parts;

pub use parts::{AttemptTimeout, Backoff, OnSpill, RetryBudgetPolicy, RetryCharge, RetryOwnership};

const MILLISECOND: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// What a client may do about a refusal. See the [module documentation](self).
///
/// ```
/// use std::time::Duration;
/// use reqwest_admission::AdmissionPolicy;
///
/// let policy = AdmissionPolicy::builder().latency_budget(Duration::from_secs(5)).max_attempts(3).build()?;
/// let same: AdmissionPolicy = serde_json::from_str(r#"{ "latency_budget": "5s", "max_attempts": 3 }"#)?;
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

    /// The wait where the server advises none. Default: full jitter, base 500 ms, cap 20 s, floor 100 ms.
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

    /// The longest time spent on reading the body of a refusal before going on without it; never past the latency
    /// budget where that bounds attempts. Default: 2 s.
    #[must_use]
    pub const fn body_read_timeout(&self) -> Duration {
        self.0.body_read_timeout
    }
}

/// Builds an [`AdmissionPolicy`]; [`build`](Self::build) checks every value.
///
/// This is also the form that serde reads and writes: a map of the same names, all optional, unknown ones refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdmissionPolicyBuilder {
    #[serde(with = "written_duration")]
    latency_budget: Duration,
    max_attempts: u32,
    backoff: Backoff,
    jitter: UpwardJitter,
    #[serde(with = "written_duration")]
    reset_margin: Duration,
    retry_budget: RetryBudgetPolicy,
    mint_idempotency_key: bool,
    attempt_timeout: AttemptTimeout,
    on_spill: OnSpill,
    retry_ownership: RetryOwnership,
    #[serde(with = "written_duration")]
    body_read_timeout: Duration,
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

    pub(crate) const fn ownership(&self) -> RetryOwnership {
        self.retry_ownership
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

/// A setting out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}, allowed is {allowed}")]
pub struct PolicyError {
    field: &'static str,
    value: String,
    allowed: String,
}

impl PolicyError {
    pub(crate) fn new(field: &'static str, value: impl ToString, allowed: impl ToString) -> Self {
        Self { field, value: value.to_string(), allowed: allowed.to_string() }
    }

    /// The field's name, with dots for nested ones, as in a configuration file.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        self.field
    }

    /// The value that was refused.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The range that is allowed.
    #[must_use]
    pub fn allowed(&self) -> &str {
        &self.allowed
    }
}

fn within(field: &'static str, value: Duration, least: Duration, most: Duration) -> Result<(), PolicyError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(PolicyError::new(field, written(value), format!("{} to {}", written(least), written(most))))
}

fn share_within(field: &'static str, value: f64, most: f64) -> Result<(), PolicyError> {
    if (0.0..=most).contains(&value) {
        return Ok(());
    }
    Err(PolicyError::new(field, value, format!("0 to {most}")))
}

/// A duration as a configuration file has it.
fn written(duration: Duration) -> String {
    jiff::fmt::friendly::SpanPrinter::new()
        .designator(jiff::fmt::friendly::Designator::Compact)
        .unsigned_duration_to_string(&duration)
}

#[cfg(test)]
mod tests;
