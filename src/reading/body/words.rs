//! The words of a body: names of members, codes, messages, quota ids, policy names.

use arrayvec::ArrayVec;

use super::super::hint::HintKind;
use super::super::profile::{is_rate_code, normal_code};
use super::super::structured::policy_key;
use super::json::Json;
use super::member::Rank;
use super::{MAX_CODE, MAX_MESSAGE, Path, Walk, sentence};
use crate::units::QuotaUnit;

/// The words of names that run them together, as `retryafterms` and `resettime` do. A longer word stands before its own
/// beginning.
const KNOWN: &str = "\
    milliseconds description remaining timestamp available estimated throttled violated throttle \
    policies duration message minutes seconds summary backoff blocked request details millis access \
    policy resets detail string reason errors after delay limit until reset retry quota again stamp \
    error fault inner wait time date rate code type name secs next utc sec at in ms";

/// The words of a member's name in lower case, between hyphens: split at signs and capitals, and if all of a word is known
/// words run together.
pub(super) fn spaced(key: &str) -> String {
    let mut text = String::with_capacity(key.len().saturating_add(4));
    let letters = key.chars().take(MAX_CODE);
    let (mut previous, mut letters) = ('-', letters.peekable());
    while let Some(letter) = letters.next() {
        let lower_ahead = letters.peek().is_some_and(char::is_ascii_lowercase);
        let begins = letter.is_ascii_uppercase()
            && (previous.is_ascii_lowercase()
                || previous.is_ascii_digit()
                || previous.is_ascii_uppercase() && lower_ahead);
        if begins {
            text.push('-');
        }
        text.push(if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' });
        previous = letter;
    }
    let words: Vec<_> = text.split('-').filter(|word| !word.is_empty()).flat_map(known_parts).collect();
    words.join("-")
}

fn known_parts(word: &str) -> ArrayVec<&str, 8> {
    let mut parts = ArrayVec::new();
    let mut rest = word;
    while !rest.is_empty() {
        let known =
            KNOWN.split(' ').find_map(|known| Some((rest.get(..known.len())?, rest.strip_prefix(known)?)));
        let Some((_, tail)) = known.filter(|(part, _)| parts.try_push(*part).is_ok()) else {
            return [word].into_iter().collect();
        };
        rest = tail;
    }
    parts
}

pub(super) fn among(word: &str, list: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

pub(super) fn names_sale(words: &[&str]) -> bool {
    const SOLD: &str =
        "subscription subscriptions plan membership license trial billing invoice password certificate";
    words.iter().any(|word| among(word, SOLD))
}

pub(super) fn holds_code(words: &[&str]) -> bool {
    words.last().is_some_and(|last| among(last, "code type tag reason err name status error errors summary"))
}

pub(super) fn holds_message(words: &[&str]) -> bool {
    const LAST: &str = "message messages msg detail details error errors description reason info title raw text summary \
        explanation cause string fault notice hint note";
    words.last().is_some_and(|last| among(last, LAST))
}

impl Walk<'_> {
    pub(super) fn code(&mut self, text: &str) {
        // AWS puts a namespace before its codes: `com.amazonaws.dynamodb.v20120810#ThrottlingException`.
        // A problem type is an URL, which may have a fragment too.
        let behind = text.rsplit_once('#').filter(|_| !text.contains(':'));
        let text = behind.map_or(text, |(_, code)| code);
        if text.len() > MAX_CODE {
            return;
        }
        let code = normal_code(text.split('/').next().unwrap_or(text));
        self.found.final_code |= self.rules.is_final_code(&code);
        self.found.refuses |= self.rules.refusal_codes_in_success.contains(&code);
        self.found.units.extend(self.rules.unit_of_code(&code));
        // A sentence in the place of a code is not one.
        let is_code = !text.trim().contains(' ');
        self.found.rate_limited |= is_code && is_rate_code(&code);
        self.found.long_quota |= is_code && is_long_quota(&code);
    }

    pub(super) fn message(&mut self, text: &str, path: &Path) {
        if self.open(text, path) {
            return;
        }
        let mut end = text.len().min(MAX_MESSAGE);
        while !text.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        let lower = text.get(..end).unwrap_or_default().to_ascii_lowercase();
        if let Some(stated) = sentence::stated(&lower, self.clock) {
            self.offer(Rank::Sentence, HintKind::RetryAfter, self.clock.advice(stated), path);
        }
        self.found.prose_units.extend(self.rules.unit_of_message(&lower));
        let says = |phrases: &[String]| phrases.iter().any(|phrase| lower.contains(phrase.as_str()));
        self.found.final_phrase |= says(&self.rules.final_phrases);
        self.passes |= says(&self.rules.passing_phrases);
        self.found.too_large |= says(&self.rules.too_large_phrases);
        self.found.says_too_large |= lower.contains("too large");
        self.found.rate_limited |= says(&self.rules.evidence);
        self.found.long_quota |= self.rules.names_long_quota(&lower) || is_used_up(&lower);
    }

    /// The id of a Google quota, such as `GenerateRequestsPerDayPerProjectPerModel-FreeTier`: the `quotaId` of a
    /// `QuotaFailure`, the `quota_limit` of an `ErrorInfo`.
    pub(super) fn quota_id(&mut self, id: &str) {
        const UNITS: [(&str, QuotaUnit); 6] = [
            ("perday", QuotaUnit::Quota),
            ("inputtoken", QuotaUnit::InputTokens),
            ("outputtoken", QuotaUnit::OutputTokens),
            ("token", QuotaUnit::Tokens),
            ("concurrent", QuotaUnit::Concurrency),
            ("request", QuotaUnit::Requests),
        ];
        self.found.daily_quota |= id.contains("perday");
        let named = UNITS.iter().find(|(part, _)| id.contains(part));
        self.found.units.extend(named.map(|(_, unit)| *unit));
    }

    /// The policies of the draft's problem types; a proxy may have added lines of its own to the `RateLimit` field.
    pub(super) fn violated_policies(&mut self, value: &Json<'_>) {
        let mut add = |name: &Json<'_>| {
            if let Json::String(name) = name {
                let _ = self.found.violated.try_push(policy_key(name.as_bytes()));
            }
        };
        match value {
            Json::Array(names) => {
                names.iter().filter_map(|name| Json::read(name.get())).for_each(|name| add(&name))
            }
            name => add(name),
        }
    }
}

/// Whether a message says that an allowance of a day or longer is used up: `You have reached your monthly limit`, `You have used
/// all of your daily calls, please upgrade`. One that names a window of at most an hour means a rate.
fn is_used_up(lower: &str) -> bool {
    const USED: [&str; 6] = ["upgrade", "exceeded", "reached", "used up", "used all", "exhausted"];
    const LONG: [&str; 9] =
        ["monthly", "per month", "/month", "weekly", "per week", "daily", "per day", "/day", "24 hour"];
    const SHORT: [&str; 10] =
        ["second", "minute", "/min", "per min", "hourly", "per hour", "/hour", "rpm", "tpm", "/s "];
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    says(&USED) && says(&LONG) && !says(&SHORT)
}

/// Whether a code in normal form names an allowance of a day or longer: `daily_quota_exceeded`.
fn is_long_quota(code: &str) -> bool {
    let says = |words: &[&str]| words.iter().any(|word| code.contains(word));
    says(&["daily", "weekly", "monthly", "perday", "permonth"]) && says(&["quota", "limit", "allowance"])
}
