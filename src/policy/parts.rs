//! The parts of a policy that have settings of their own.

use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact::required as written_duration;
use serde::{Deserialize, Serialize};

use super::PolicyError;
use super::range::{HOUR, MILLISECOND, MINUTE, share_within, within, written};

/// The wait if the server advises none: full jitter on an exponential step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Backoff {
    /// The first step. Default: 500 ms; 1 ms to 1 hour.
    #[serde(with = "written_duration")]
    pub base: Duration,
    /// The longest step. Default: 20 s; from `base` to 1 day.
    #[serde(with = "written_duration")]
    pub cap: Duration,
    /// The least wait before any repeat; if a server advises 0 it doubles with each attempt, up to `cap`.
    /// Default: 100 ms; 1 ms to 1 minute, and at most `cap`.
    #[serde(with = "written_duration")]
    pub floor: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(500),
            cap: Duration::from_secs(20),
            floor: Duration::from_millis(100),
        }
    }
}

impl Backoff {
    /// A backoff with these settings; checked when the policy is built.
    #[must_use]
    pub const fn new(base: Duration, cap: Duration, floor: Duration) -> Self {
        Self { base, cap, floor }
    }

    pub(super) fn check(&self) -> Result<(), PolicyError> {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        within("backoff.base", self.base, MILLISECOND, HOUR)?;
        within("backoff.cap", self.cap, self.base, DAY)?;
        within("backoff.floor", self.floor, MILLISECOND, MINUTE.min(self.cap))
    }
}

/// The share of re-sends over a client's life, as tower's `TpsBudget` has it.
///
/// A re-send is charged when it is decided; a call that is dropped in its wait does not give the charge back, which
/// counts until the window has passed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryBudgetPolicy {
    share: f64,
    minimum_per_second: u32,
    #[serde(with = "written_duration")]
    time_window: Duration,
    charge: RetryCharge,
}

impl Default for RetryBudgetPolicy {
    fn default() -> Self {
        Self {
            share: 0.2,
            minimum_per_second: 10,
            time_window: Duration::from_secs(10),
            charge: RetryCharge::default(),
        }
    }
}

impl RetryBudgetPolicy {
    /// Re-sends of up to `share` of the calls (0 to 10) plus `minimum_per_second` (0 to 1,000,000), both
    /// counted over `time_window` (1 s to 1 minute).
    ///
    /// # Errors
    ///
    /// A [`PolicyError`] for a value out of range.
    pub fn new(share: f64, minimum_per_second: u32, time_window: Duration) -> Result<Self, PolicyError> {
        let policy = Self { share, minimum_per_second, time_window, charge: RetryCharge::default() };
        policy.check()?;
        Ok(policy)
    }

    /// Sets which re-sends are charged.
    #[must_use]
    pub const fn charge(mut self, charge: RetryCharge) -> Self {
        self.charge = charge;
        self
    }

    /// The re-sends that one call pays for.
    #[must_use]
    pub const fn share(&self) -> f64 {
        self.share
    }

    /// The re-sends a second that are always allowed, as a reserve for the whole window.
    #[must_use]
    pub const fn minimum_per_second(&self) -> u32 {
        self.minimum_per_second
    }

    /// How long a deposit counts.
    #[must_use]
    pub const fn time_window(&self) -> Duration {
        self.time_window
    }

    /// Which re-sends are charged.
    #[must_use]
    pub const fn charged(&self) -> RetryCharge {
        self.charge
    }

    pub(super) fn check(&self) -> Result<(), PolicyError> {
        share_within("retry_budget.share", self.share, 10.0)?;
        if self.minimum_per_second > 1_000_000 {
            let value = self.minimum_per_second;
            return Err(PolicyError::new("retry_budget.minimum_per_second", value, "0 to 1000000"));
        }
        within("retry_budget.time_window", self.time_window, Duration::from_secs(1), MINUTE)
    }

    /// What a call deposits, in thousandths of a re-send.
    pub(crate) fn deposit_thousandths(&self) -> i64 {
        // `share` is at most 10, and rounding down errs towards fewer re-sends.
        i64::try_from(Duration::try_from_secs_f64(self.share).unwrap_or_default().as_millis()).unwrap_or(0)
    }

    /// The reserve of one window, in thousandths of a re-send.
    pub(crate) fn reserve_thousandths(&self) -> i64 {
        let window = i64::try_from(self.time_window.as_millis()).unwrap_or(0);
        i64::from(self.minimum_per_second).saturating_mul(window)
    }
}

/// Which re-sends a retry budget is charged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RetryCharge {
    /// Those without a positive wait advised by the server: backoff after 5xx, lost connections, bare 429s.
    #[default]
    Unadvised,
    /// Every re-send.
    All,
}

/// Whether an attempt may outlive the latency budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptTimeout {
    /// An attempt without a response head at the deadline is given up. A response that has begun is never cut:
    /// its body may be read for as long as the caller's own timeouts allow.
    #[default]
    ClampToBudget,
    /// Only the caller's own timeouts end an attempt; the budget bounds waits alone.
    Unclamped,
}

/// What is done about another layer that retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RetryOwnership {
    /// A conflict is an error, and outside of [`AdmissionClient`](crate::AdmissionClient) each attempt is sealed: nothing
    /// below can copy it. The costs of sealing are on the page [Who retries?](crate::who_retries).
    #[default]
    Enforce,
    /// A conflict is only an event and a metric, and attempts are not sealed.
    Report,
}

/// How a spill-over reaches the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnSpill {
    /// As an error that owns the last response's status, headers and bounded body. Outer layers stop.
    #[default]
    Error,
    /// As the server's last response itself, marked; an error only if there is no response.
    Response,
}

impl std::fmt::Display for Backoff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "base {}, cap {}, floor {}", written(self.base), written(self.cap), written(self.floor))
    }
}
