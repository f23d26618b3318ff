//! What a call costs: before it is sent an estimate, afterwards its usage.

use serde::{Deserialize, Serialize};

use super::number::float;
use crate::units::QuotaUnit;

/// The most tokens that one call is believed to take.
const MOST_TOKENS: u64 = 1_000_000_000;

fn believed(tokens: u64) -> f64 {
    float(tokens.min(MOST_TOKENS))
}

/// The quota units that are paced, in the order of every [`Amounts`].
pub(crate) const PACED: [QuotaUnit; 4] =
    [QuotaUnit::Requests, QuotaUnit::Tokens, QuotaUnit::InputTokens, QuotaUnit::OutputTokens];

/// One number per paced quota unit, in the order of [`PACED`].
pub(crate) type Amounts = [f64; 4];

/// Adds `other` to `sum`, unit by unit.
pub(crate) fn add(sum: &mut Amounts, other: &Amounts) {
    for (total, amount) in sum.iter_mut().zip(other) {
        *total += amount;
    }
}

/// Takes `other` from `sum`, unit by unit, never going below 0.
pub(crate) fn subtract(sum: &mut Amounts, other: &Amounts) {
    for (total, amount) in sum.iter_mut().zip(other) {
        *total = (*total - amount).max(0.0);
    }
}

/// How many tokens a call will take, as far as the caller can tell beforehand.
///
/// Rate limits of LLM services count the prompt and the *allowed* completion when a call arrives, and correct the sum
/// when it ends; so the estimate is the prompt, less what the server has cached, plus the most the completion may
/// take. Azure OpenAI describes this rule for provisioned deployments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenEstimate {
    prompt: u64,
    cached: u64,
    max_output: u64,
}

impl TokenEstimate {
    /// An estimate of `prompt` tokens in and at most `max_output` tokens out.
    #[must_use]
    pub const fn new(prompt: u64, max_output: u64) -> Self {
        Self { prompt, cached: 0, max_output }
    }

    /// How many tokens of the prompt the server takes from its cache and does not count.
    #[must_use]
    pub const fn cached(mut self, tokens: u64) -> Self {
        self.cached = tokens;
        self
    }

    /// The cost in tokens: prompt − cached + most output.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.input().saturating_add(self.max_output)
    }

    const fn input(&self) -> u64 {
        self.prompt.saturating_sub(self.cached)
    }
}

/// How many tokens a call has taken, as its response says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenUsage {
    input: u64,
    output: u64,
}

impl TokenUsage {
    /// `input` tokens in (those that count, so without cached ones if the service does not count them) and
    /// `output` tokens out.
    #[must_use]
    pub const fn new(input: u64, output: u64) -> Self {
        Self { input, output }
    }

    pub(crate) fn amounts(self) -> Amounts {
        [1.0, believed(self.input.saturating_add(self.output)), believed(self.input), believed(self.output)]
    }
}

/// What one call asks of a scope: always one request, and its tokens where they are estimated.
///
/// A call without an estimate is taken for an average one of its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Cost {
    tokens: Option<TokenEstimate>,
}

impl Cost {
    /// One request of unknown size.
    #[must_use]
    pub const fn request() -> Self {
        Self { tokens: None }
    }

    /// One request with an estimate of its tokens.
    #[must_use]
    pub const fn tokens(estimate: TokenEstimate) -> Self {
        Self { tokens: Some(estimate) }
    }

    /// The estimate of its tokens.
    pub(crate) const fn estimate(self) -> Option<TokenEstimate> {
        self.tokens
    }

    pub(crate) const fn is_estimated(self) -> bool {
        self.tokens.is_some()
    }

    /// The cost per unit; `mean` stands in for what is not estimated.
    pub(crate) fn amounts(self, mean: impl FnOnce() -> Amounts) -> Amounts {
        match self.tokens {
            Some(estimate) => {
                [1.0, believed(estimate.tokens()), believed(estimate.input()), believed(estimate.max_output)]
            }
            None => {
                let [_, tokens, input, output] = mean();
                [1.0, tokens, input, output]
            }
        }
    }
}

impl From<TokenEstimate> for Cost {
    fn from(estimate: TokenEstimate) -> Self {
        Self::tokens(estimate)
    }
}

impl From<Option<TokenEstimate>> for Cost {
    fn from(estimate: Option<TokenEstimate>) -> Self {
        Self { tokens: estimate }
    }
}
