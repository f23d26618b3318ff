//! The words of a body: codes, messages, quota ids, policy names.

use serde_json::Value;

use super::super::ratelimit::policy_key;
use super::super::types::HintKind;
use super::super::vendor::{is_rate_code, normal_code};
use super::delay::Rank;
use super::{MAX_CODE, MAX_MESSAGE, Path, Walk, sentence};
use crate::units::QuotaUnit;

impl Walk<'_> {
    pub(super) fn code(&mut self, value: &Value) {
        let code = match value {
            Value::String(text) => {
                // AWS puts a namespace before its codes: `com.amazonaws.dynamodb.v20120810#ThrottlingException`.
                // A problem type is an URL, which may have a fragment too.
                let code = text.rsplit_once('#').filter(|_| !text.contains(':'));
                let text = code.map_or(text.as_str(), |(_, code)| code);
                if text.len() > MAX_CODE {
                    return;
                }
                normal_code(text.split('/').next().unwrap_or(text))
            }
            Value::Number(number) => number.to_string(),
            _ => return,
        };
        if self.profile.is_terminal_code(&code) {
            self.ending.terminal_code = true;
        }
        if let Some(unit) = self.profile.unit_of_code(&code) {
            self.found.units = self.found.units.with(unit);
        }
        // A sentence in the place of a code is not one.
        let is_word = value.as_str().is_some_and(|text| !text.trim().contains(' '));
        self.found.rate_limited |= is_word && is_rate_code(&code);
    }

    pub(super) fn message(&mut self, text: &str, path: &Path) {
        if self.open(text, path) {
            return;
        }
        let mut end = text.len().min(MAX_MESSAGE);
        while !text.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        let text = text.get(..end).unwrap_or_default();
        let lower = text.to_ascii_lowercase();
        if let Some(stated) = sentence::stated(&lower, self.received_at)
            && let Some(advice) = self.clock.advice(stated)
        {
            self.offer(Rank::Sentence, HintKind::RetryAfter, advice, path);
        }
        if let Some(unit) = self.profile.unit_of_message(&lower) {
            self.found.prose_units = self.found.prose_units.with(unit);
        }
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
        self.ending.terminal_phrase |= says(self.profile.terminal_phrases);
        self.ending.passes |= says(self.profile.passing_phrases);
        self.found.long_quota |= says(self.profile.long_quota_phrases);
        self.found.too_large |= says(self.profile.too_large_phrases);
        self.found.rate_limited |= says(self.profile.evidence);
    }

    /// The id of a Google quota, such as `GenerateRequestsPerDayPerProjectPerModel-FreeTier`: the `quotaId` of a
    /// `QuotaFailure`, the `quota_limit` of an `ErrorInfo`.
    pub(super) fn quota_id(&mut self, value: &Value) {
        let Some(id) = value.as_str().map(str::to_ascii_lowercase) else { return };
        let unit = if id.contains("perday") {
            self.found.daily_quota = true;
            QuotaUnit::Quota
        } else if id.contains("inputtoken") {
            QuotaUnit::InputTokens
        } else if id.contains("outputtoken") {
            QuotaUnit::OutputTokens
        } else if id.contains("token") {
            QuotaUnit::Tokens
        } else if id.contains("concurrent") {
            QuotaUnit::Concurrency
        } else if id.contains("request") {
            QuotaUnit::Requests
        } else {
            return;
        };
        self.found.units = self.found.units.with(unit);
    }

    /// The policies of the draft's problem types; a proxy may have added lines of its own to the `RateLimit` field.
    pub(super) fn violated_policies(&mut self, value: &Value) {
        let names = match value {
            Value::Array(names) => names.as_slice(),
            name => std::slice::from_ref(name),
        };
        for name in names.iter().filter_map(Value::as_str) {
            if self.found.violated.try_push(policy_key(name.as_bytes())).is_err() {
                return;
            }
        }
    }
}
