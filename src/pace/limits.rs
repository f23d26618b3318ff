//! Limits that the operator configures.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::cost::Amounts;
use super::number::float;
use crate::reading::ServiceLimit;
use crate::units::QuotaUnit;

/// The limits of one scope as the operator knows them: a cap on whatever is learned from responses.
///
/// Nothing needs to be configured: without limits the gate learns from rate-limit headers and from refusals. A
/// configured limit keeps the first calls from being refused, and holds if a service states nothing.
///
/// A limit per minute is a token bucket that holds one minute's worth and refills continuously, as OpenAI, Anthropic
/// and Azure describe theirs.
///
/// A limit of 0 is refused: by [`validate`](Self::validate), by whatever takes limits, and when limits are read by serde.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Limits {
    requests_per_minute: Option<u64>,
    tokens_per_minute: Option<u64>,
    input_tokens_per_minute: Option<u64>,
    output_tokens_per_minute: Option<u64>,
    concurrency: Option<u32>,
}

/// [`Limits`] as they are written, before they are checked.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    requests_per_minute: Option<u64>,
    tokens_per_minute: Option<u64>,
    input_tokens_per_minute: Option<u64>,
    output_tokens_per_minute: Option<u64>,
    concurrency: Option<u32>,
}

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written {
            requests_per_minute,
            tokens_per_minute,
            input_tokens_per_minute,
            output_tokens_per_minute,
            concurrency,
        } = Written::deserialize(deserializer)?;
        let limits = Self {
            requests_per_minute,
            tokens_per_minute,
            input_tokens_per_minute,
            output_tokens_per_minute,
            concurrency,
        };
        limits.validate().map_err(serde::de::Error::custom)?;
        Ok(limits)
    }
}

/// A configured limit, or size of the gate, that no call could ever satisfy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{limit} is 0, allowed is 1 or more")]
#[non_exhaustive]
pub struct InvalidLimits {
    /// The name of the limit.
    pub limit: &'static str,
}

impl Limits {
    /// No limit at all; everything is learned.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            requests_per_minute: None,
            tokens_per_minute: None,
            input_tokens_per_minute: None,
            output_tokens_per_minute: None,
            concurrency: None,
        }
    }

    /// At most `requests` a minute.
    #[must_use]
    pub const fn requests_per_minute(mut self, requests: u64) -> Self {
        self.requests_per_minute = Some(requests);
        self
    }

    /// At most `tokens` a minute, of prompt and completion together.
    #[must_use]
    pub const fn tokens_per_minute(mut self, tokens: u64) -> Self {
        self.tokens_per_minute = Some(tokens);
        self
    }

    /// At most `tokens` of prompt a minute.
    #[must_use]
    pub const fn input_tokens_per_minute(mut self, tokens: u64) -> Self {
        self.input_tokens_per_minute = Some(tokens);
        self
    }

    /// At most `tokens` of completion a minute.
    #[must_use]
    pub const fn output_tokens_per_minute(mut self, tokens: u64) -> Self {
        self.output_tokens_per_minute = Some(tokens);
        self
    }

    /// At most `calls` in flight, counted until the end of the response's body.
    #[must_use]
    pub const fn concurrency(mut self, calls: u32) -> Self {
        self.concurrency = Some(calls);
        self
    }

    /// Checks that every limit lets something through.
    ///
    /// # Errors
    ///
    /// [`InvalidLimits`] names the first limit that is 0.
    pub fn validate(&self) -> Result<(), InvalidLimits> {
        let zero = [
            ("requests_per_minute", self.requests_per_minute == Some(0)),
            ("tokens_per_minute", self.tokens_per_minute == Some(0)),
            ("input_tokens_per_minute", self.input_tokens_per_minute == Some(0)),
            ("output_tokens_per_minute", self.output_tokens_per_minute == Some(0)),
            ("concurrency", self.concurrency == Some(0)),
        ]
        .into_iter()
        .find(|(_, zero)| *zero);
        match zero {
            Some((limit, _)) => Err(InvalidLimits { limit }),
            None => Ok(()),
        }
    }

    /// The capacity of each unit's bucket; infinite where there is no limit.
    pub(crate) fn per_minute(&self) -> Amounts {
        [
            self.requests_per_minute,
            self.tokens_per_minute,
            self.input_tokens_per_minute,
            self.output_tokens_per_minute,
        ]
        .map(|limit| limit.map_or(f64::INFINITY, float))
    }

    pub(crate) const fn slots(&self) -> Option<u32> {
        self.concurrency
    }
}

impl ServiceLimit {
    /// A service limit of which only the unit is known; for callers that read responses themselves.
    #[must_use]
    pub const fn new(unit: QuotaUnit) -> Self {
        Self { unit, window: None, limit: None, remaining: None, reset: None, resets_at_once: false }
    }
}
