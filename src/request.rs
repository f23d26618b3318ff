//! [`AdmissionRequestExt`]: what a single call sets for itself.

use std::time::Duration;

use http::Extensions;
use jiff::fmt::serde::unsigned_duration::friendly::compact::optional as written_duration;
use reqwest_middleware::RequestBuilder;
use serde::{Deserialize, Serialize};

use crate::budget::LatencyBudget;
use crate::gate::{Priority, ScopeKey};
use crate::observe::CallReport;
use crate::pace::TokenEstimate;

/// Settings of a single call, as methods of reqwest-middleware's `RequestBuilder`.
///
/// Each replaces what the client's builder says, for this call alone. Setting one twice keeps the later value, as
/// `with_extension` does. `http::Extensions` have the same methods, for calls that are sent with `execute_with_extensions`.
///
/// ```
/// use std::time::Duration;
/// use reqwest_admission::AdmissionRequestExt as _;
/// use reqwest_admission::gate::Priority;
///
/// # async fn example(client: reqwest_middleware::ClientWithMiddleware) -> reqwest_middleware::Result<()> {
/// let response = client
///     .post("https://api.example/v1/search")
///     .latency_budget(Duration::from_secs(5))
///     .priority(Priority::High)
///     .repeatable() // a search may run twice
///     .send()
///     .await?;
/// # Ok(())
/// # }
/// ```
pub trait AdmissionRequestExt: Sized {
    /// Puts a setting with the call.
    #[doc(hidden)]
    #[must_use]
    fn with_setting<T: Clone + Send + Sync + 'static>(self, setting: T) -> Self;

    /// Sets the time that the call may take over queueing, sends and waits, up to the head of the response. Zero means:
    /// send once, never wait.
    #[must_use]
    fn latency_budget(self, budget: Duration) -> Self {
        self.with_setting(LatencyBudget::new(budget))
    }

    /// Sets the class of the call in the queue of its scope.
    #[must_use]
    fn priority(self, priority: Priority) -> Self {
        self.with_setting(priority)
    }

    /// Says how many tokens the call will take, for limits that count tokens.
    #[must_use]
    fn token_estimate(self, estimate: TokenEstimate) -> Self {
        self.with_setting(estimate)
    }

    /// Names the scope whose limits and cool-downs the call shares, in place of endpoint, credential and model.
    #[must_use]
    fn scope(self, scope: ScopeKey) -> Self {
        self.with_setting(scope)
    }

    /// Sets how many times the call may be sent to one deployment, the first time included, in place of
    /// [`AdmissionPolicy::max_attempts`](crate::AdmissionPolicy::max_attempts). 0 counts as 1, and more than 100 as 100.
    #[must_use]
    fn max_attempts(self, attempts: u32) -> Self {
        self.with_setting(MaxAttempts(attempts.clamp(1, 100)))
    }

    /// Says that the server may process the call twice without harm, so that a time-out, a lost connection or a 500 is
    /// repeated, too. `GET`, `PUT`, `DELETE` and calls with an `Idempotency-Key` are repeatable without it; a refusal such
    /// as 429 is repeated in any case, since it was not processed.
    #[must_use]
    fn repeatable(self) -> Self {
        self.with_setting(Repeatable)
    }

    /// Has the call write what happens to it into `report`, which is then at hand after an error as well.
    #[must_use]
    fn report(self, report: &CallReport) -> Self {
        self.with_setting(report.clone())
    }
}

impl AdmissionRequestExt for RequestBuilder {
    fn with_setting<T: Clone + Send + Sync + 'static>(self, setting: T) -> Self {
        self.with_extension(setting)
    }
}

impl AdmissionRequestExt for Extensions {
    fn with_setting<T: Clone + Send + Sync + 'static>(mut self, setting: T) -> Self {
        self.insert(setting);
        self
    }
}

#[derive(Debug, Clone, Copy)]
struct MaxAttempts(u32);

#[derive(Debug, Clone, Copy)]
struct Repeatable;

/// The settings that a call brought with it and that a ticket carries. The scope is not among them: its key means
/// nothing to another process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CallSettings {
    #[serde(with = "written_duration", skip_serializing_if = "Option::is_none")]
    latency_budget: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Priority>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_estimate: Option<TokenEstimate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeatable: bool,
}

impl CallSettings {
    /// What the call brought.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        if extensions.is_empty() {
            return Self::default();
        }
        Self {
            latency_budget: extensions.get::<LatencyBudget>().map(|budget| budget.duration()),
            priority: extensions.get().copied(),
            token_estimate: extensions.get().copied(),
            max_attempts: extensions.get::<MaxAttempts>().map(|most| most.0),
            repeatable: extensions.get::<Repeatable>().is_some(),
        }
    }

    /// Puts them with a call.
    pub(crate) fn apply<C: AdmissionRequestExt>(self, mut call: C) -> C {
        if let Some(budget) = self.latency_budget {
            call = call.latency_budget(budget);
        }
        if let Some(priority) = self.priority {
            call = call.priority(priority);
        }
        if let Some(estimate) = self.token_estimate {
            call = call.token_estimate(estimate);
        }
        if let Some(attempts) = self.max_attempts {
            call = call.max_attempts(attempts);
        }
        if self.repeatable { call.repeatable() } else { call }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn budget(&self) -> Option<LatencyBudget> {
        self.latency_budget.map(LatencyBudget::new)
    }

    pub(crate) const fn max_attempts(&self) -> Option<u32> {
        self.max_attempts
    }

    pub(crate) const fn is_repeatable(&self) -> bool {
        self.repeatable
    }
}
