//! What a server counts: the quota units of the rate-limit vocabulary.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A resource that a server counts against a limit (the *quota unit* of
/// [draft-ietf-httpapi-ratelimit-headers]).
///
/// [draft-ietf-httpapi-ratelimit-headers]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum QuotaUnit {
    /// Calls, whatever their size.
    #[default]
    Requests,
    /// Tokens of prompt and completion together.
    Tokens,
    /// Tokens of the prompt.
    InputTokens,
    /// Tokens of the completion.
    OutputTokens,
    /// Calls in flight at the same time.
    Concurrency,
    /// A longer-lived allowance or anything else: credit, spend, subscription windows, bytes.
    Quota,
}

impl QuotaUnit {
    const ALL: [Self; 6] =
        [Self::Requests, Self::Tokens, Self::InputTokens, Self::OutputTokens, Self::Concurrency, Self::Quota];

    /// The unit's name in lower-case kebab form, for example `input-tokens`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::InputTokens => "input-tokens",
            Self::OutputTokens => "output-tokens",
            Self::Concurrency => "concurrency",
            Self::Quota => "quota",
        }
    }
}

impl fmt::Display for QuotaUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of [`QuotaUnit`]s, for example the ones a refusal says are exhausted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct QuotaUnits(u8);

const fn bit(unit: QuotaUnit) -> u8 {
    #[expect(clippy::as_conversions, reason = "the six units are numbered from 0")]
    let number = unit as u8;
    1 << number
}

impl QuotaUnits {
    /// The set without members.
    pub const EMPTY: Self = Self(0);

    /// Whether the set has no member.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `unit` is a member.
    #[must_use]
    pub const fn contains(self, unit: QuotaUnit) -> bool {
        self.0 & bit(unit) != 0
    }

    /// The set with `unit` as a member.
    #[must_use]
    pub const fn with(self, unit: QuotaUnit) -> Self {
        Self(self.0 | bit(unit))
    }

    /// The members, in the order of [`QuotaUnit`].
    pub fn iter(self) -> impl Iterator<Item = QuotaUnit> {
        QuotaUnit::ALL.into_iter().filter(move |unit| self.contains(*unit))
    }
}

impl fmt::Debug for QuotaUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<QuotaUnit> for QuotaUnits {
    fn from_iter<T: IntoIterator<Item = QuotaUnit>>(units: T) -> Self {
        units.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl Extend<QuotaUnit> for QuotaUnits {
    fn extend<T: IntoIterator<Item = QuotaUnit>>(&mut self, units: T) {
        *self = units.into_iter().fold(*self, Self::with);
    }
}

impl Serialize for QuotaUnits {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_keeps_each_unit_once_and_in_order() {
        let set: QuotaUnits = [QuotaUnit::Quota, QuotaUnit::Tokens, QuotaUnit::Quota].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [QuotaUnit::Tokens, QuotaUnit::Quota]);
        assert!(!set.contains(QuotaUnit::Requests));
        assert_eq!(serde_json::to_string(&set).unwrap(), r#"["tokens","quota"]"#);
    }
}
