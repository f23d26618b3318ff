//! Making a profile of one's own.

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use super::super::Reading;
use super::super::value::TimeUnit;
use super::rules::{CountedBy, Rules};
use super::validate::parse_offset;
use super::{Adjust, Inner, Profile};
use crate::units::QuotaUnit;

/// A profile in the making: [`Profile::builder`]. All that it sets can be read from a file as well, by [`Profile`]'s
/// `Deserialize`, except [`adjust`](Self::adjust).
#[must_use]
pub struct ProfileBuilder {
    rules: Rules,
    offset: Option<String>,
    adjust: Option<Box<Adjust>>,
}

/// Why a profile cannot be: the field, its value and what it may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("profile: {field} is {value:?}, expected {expected}")]
pub struct ProfileError {
    field: &'static str,
    value: String,
    expected: &'static str,
}

impl ProfileError {
    pub(super) fn new(field: &'static str, value: &str, expected: &'static str) -> Self {
        Self { field, value: value.chars().take(80).collect(), expected }
    }
}

impl ProfileBuilder {
    pub(super) fn new(name: String) -> Self {
        Self { rules: Rules::named(name), offset: None, adjust: None }
    }

    /// A host that the profile is for, with all its subdomains (`hosts`).
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.rules.hosts.push(host.into());
        self
    }

    /// A status that refuses for want of capacity, if there is evidence: an explicit wait, a spent counter, a rate-limit
    /// code, [evidence](Self::evidence) (`refusal_statuses`). 402 then counts as one instead of as a bill.
    pub fn refusal_status(mut self, status: u16) -> Self {
        self.rules.refusal_statuses.push(status);
        self
    }

    /// A code in the JSON body of a 200 that makes it a refusal (`refusal_codes_in_success`).
    pub fn refusal_code_in_success(mut self, code: impl Into<String>) -> Self {
        self.rules.refusal_codes_in_success.push(code.into());
        self
    }

    /// Words of a message that mark such a status as a refusal (`evidence`).
    pub fn evidence(mut self, words: impl Into<String>) -> Self {
        self.rules.evidence.push(words.into());
        self
    }

    /// A header that states a wait, and the unit of its bare numbers (`wait_headers`).
    pub fn wait_header(mut self, name: impl Into<String>, unit: TimeUnit) -> Self {
        self.rules.wait_headers.push((name.into(), unit));
        self
    }

    /// A member of the body that states a wait, by the end of its path, such as `error.retry_in` (`wait_members`).
    pub fn wait_member(mut self, path: impl Into<String>, unit: TimeUnit) -> Self {
        self.rules.wait_members.push((path.into(), unit));
        self
    }

    /// A code after which no wait helps; a leading `*` matches any beginning (`final_codes`).
    pub fn final_code(mut self, code: impl Into<String>) -> Self {
        self.rules.final_codes.push(code.into());
        self
    }

    /// Words of a message after which no wait helps (`final_phrases`).
    pub fn final_phrase(mut self, words: impl Into<String>) -> Self {
        self.rules.final_phrases.push(words.into());
        self
    }

    /// Words of a message by which a final code means a limit that passes (`passing_phrases`).
    pub fn passing_phrase(mut self, words: impl Into<String>) -> Self {
        self.rules.passing_phrases.push(words.into());
        self
    }

    /// A code, or words of a message, that name what is exhausted (`units_by_code`, `units_by_phrase`).
    pub fn exhausts(mut self, words: impl Into<String>, unit: QuotaUnit) -> Self {
        let words = words.into();
        self.rules.units_by_code.push((words.clone(), unit));
        self.rules.units_by_phrase.push((words, unit));
        self
    }

    /// What limits are counted by, beyond endpoint and credential (`counted_by`). By default nothing else.
    pub fn counted_by(mut self, counted_by: CountedBy) -> Self {
        self.rules.counted_by = counted_by;
        self
    }

    /// The zone of times that state none, as `+08:00` (`utc_offset`). By default such a time says nothing.
    pub fn utc_offset(mut self, offset: impl Into<String>) -> Self {
        self.offset = Some(offset.into());
        self
    }

    /// The least wait if a response advises none, in whole seconds, rounded up (`backoff_floor_seconds`).
    pub fn backoff_floor(mut self, floor: Duration) -> Self {
        self.rules.set_backoff_floor(floor);
        self
    }

    /// A function of status, headers, body and what was read of them that has the last word, for what no data can say. The
    /// body is given for the statuses that may refuse for want of capacity. It must not block; if it
    /// panics, what was read holds.
    pub fn adjust(
        mut self,
        adjust: impl Fn(StatusCode, &HeaderMap, Option<&[u8]>, Reading) -> Reading + Send + Sync + 'static,
    ) -> Self {
        self.adjust = Some(Box::new(adjust));
        self
    }

    /// Makes the profile.
    ///
    /// # Errors
    ///
    /// A value that can match nothing, or means something else, is a [`ProfileError`] that names it.
    pub fn build(self) -> Result<Profile, ProfileError> {
        let mut rules = self.rules;
        if let Some(offset) = self.offset {
            rules.utc_offset = Some(parse_offset(&offset)?);
        }
        let rules = rules.validated()?;
        Ok(Profile(std::sync::Arc::new(Inner { rules, adjust: self.adjust })))
    }
}

impl std::fmt::Debug for ProfileBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProfileBuilder").field("rules", &self.rules).finish_non_exhaustive()
    }
}
