//! The body of a refusal: delays, codes and sentences in the JSON shapes that vendors use.
//!
//! One walk over known containers serves all shapes; keys are compared without case, `_` and `-`. A body that is not
//! JSON says nothing, whatever numbers it has in it, unless the whole of it is a code that the vendor is known for.

mod sentence;

use std::time::{Duration, SystemTime};

use arrayvec::ArrayVec;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::ratelimit::policy_key;
use super::reset::Buckets;
use super::retry_after::Waits;
use super::types::HintKind;
use super::value::{Advice, BareUnit, Clock};
use super::vendor::{Profile, is_rate_code, normal_code};
use super::{MAX_BODY, names};
use crate::units::{QuotaUnit, QuotaUnits};

/// The most elements of an array and the most embedded headers that are looked at.
const MAX_ELEMENTS: usize = 32;

/// How deep the walk goes, and how often JSON inside a JSON string is opened.
const MAX_DEPTH: u8 = 8;
const MAX_NESTED: u8 = 2;

/// The longest code, and the longest message that is read for sentences.
const MAX_CODE: usize = 64;
const MAX_MESSAGE: usize = 8 * 1024;

/// A quota per day whose stated delay is shorter than this is not honest about it.
pub(super) const HONEST_DAILY_DELAY: Duration = Duration::from_secs(3_600);

/// How a body states a wait, the most trustworthy way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// [`google.rpc.RetryInfo`](https://cloud.google.com/apis/design/errors#error_details).
    RetryInfo,
    QuotaResetDelay,
    QuotaResetInstant,
    RetryAfterMillis,
    RetryAfter,
    EmbeddedHeader,
    ResetMillis,
    Reset,
    Sentence,
}

/// The wait that a body states.
#[derive(Debug)]
pub(super) struct BodyAdvice {
    pub(super) advice: Advice,
    pub(super) kind: HintKind,
    pub(super) path: String,
    rank: Rank,
}

/// What a body says.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) advice: Option<BodyAdvice>,
    /// What codes, quota ids and embedded counters name.
    pub(super) units: QuotaUnits,
    /// What sentences name, where nothing better does.
    pub(super) prose_units: QuotaUnits,
    pub(super) terminal: bool,
    pub(super) daily_quota: bool,
    /// Whether a code, or for some vendors a message, says that a rate was exceeded.
    pub(super) rate_limited: bool,
    /// The keys of the policies that `violated-policies` names.
    pub(super) violated: ArrayVec<u64, 8>,
}

impl Body {
    /// Reads a body, of which only the first [`MAX_BODY`] bytes are looked at.
    pub(super) fn read(profile: &Profile, body: &[u8], received_at: SystemTime, clock: &Clock<'_>) -> Self {
        let mut walk = Walk { profile, clock, received_at, nested: 0, found: Self::default() };
        let body = body.get(..MAX_BODY).unwrap_or(body).trim_ascii();
        match serde_json::from_slice::<Value>(body) {
            Ok(root) => walk.root(&root, &Path::default()),
            Err(_) => walk.plain_text(body),
        }
        walk.found
    }
}

/// A lower-case path such as `error.details[].retrydelay`; fixed inside of a JSON string, which is one field.
#[derive(Debug, Clone, Default)]
struct Path {
    text: String,
    fixed: bool,
}

impl Path {
    fn key(&self, key: &str) -> Self {
        if self.fixed {
            return self.clone();
        }
        let mut text = self.text.clone();
        if !text.is_empty() {
            text.push('.');
        }
        // Keys are the server's words; only harmless ones and not too many of them go into a hint's source.
        text.extend(
            key.trim().chars().filter(char::is_ascii_graphic).take(MAX_CODE).map(|c| c.to_ascii_lowercase()),
        );
        Self { text, fixed: false }
    }

    fn element(&self) -> Self {
        let mut path = self.clone();
        if !path.fixed && !path.text.is_empty() {
            path.text.push_str("[]");
        }
        path
    }
}

struct Walk<'a> {
    profile: &'a Profile,
    clock: &'a Clock<'a>,
    received_at: SystemTime,
    nested: u8,
    found: Body,
}

impl Walk<'_> {
    fn root(&mut self, root: &Value, path: &Path) {
        match root {
            Value::Object(map) => self.object(map, path, false, 0),
            // Google wraps the error in a list of one, Salesforce lists its errors.
            Value::Array(list) => {
                for element in list.iter().take(MAX_ELEMENTS) {
                    if let Value::Object(map) = element {
                        self.object(map, path, false, 0);
                    }
                }
            }
            Value::String(text) => {
                self.open(text, path);
            }
            _ => {}
        }
    }

    /// Opens JSON that is inside of a JSON string; whether it was any.
    fn open(&mut self, text: &str, path: &Path) -> bool {
        // The object may follow a few words, as in `got status: 429. {"error": ..}`.
        let Some(start) = text.find(['{', '[']).filter(|_| self.nested < MAX_NESTED) else { return false };
        let Some(Ok(root)) = text.get(start..).map(serde_json::from_str::<Value>) else { return false };
        if !matches!(root, Value::Object(_) | Value::Array(_)) {
            return false;
        }
        self.nested = self.nested.saturating_add(1);
        self.root(&root, &Path { text: path.text.clone(), fixed: !path.text.is_empty() });
        self.nested = self.nested.saturating_sub(1);
        true
    }

    fn plain_text(&mut self, body: &[u8]) {
        if body.len() <= MAX_CODE
            && let Ok(text) = str::from_utf8(body)
            && !text.contains(char::is_whitespace)
        {
            // Dropbox: `too_many_write_operations`, in summaries followed by `/...`.
            let code = normal_code(text.split('/').next().unwrap_or(text));
            self.found.units =
                self.profile.unit_of_code(&code).into_iter().fold(self.found.units, QuotaUnits::with);
            self.found.rate_limited |= is_rate_code(&code);
        }
    }

    /// Reads an object; `limits` where it is one that holds limit, remaining and reset.
    fn object(&mut self, map: &Map<String, Value>, path: &Path, limits: bool, depth: u8) {
        if depth >= MAX_DEPTH {
            return;
        }
        for (key, value) in map {
            let name = normal_code(key.get(..MAX_CODE).unwrap_or(key));
            let at = || path.key(key);
            if limits && self.limit_member(&name, value, &at()) {
                continue;
            }
            if self.wait_member(&name, value, &at()) {
                continue;
            }
            match name.as_str() {
                "code" | "type" | "errorcode" | "errortype" | "policyname" | "tag" | "reason" | "err"
                | "name" => {
                    self.code(value);
                    self.child(value, &at(), false, depth);
                }
                "status" => self.code(value),
                "message" | "msg" | "detail" | "details" | "error" | "errors" | "errordescription"
                | "errormessage" | "errorsummary" | "raw" => {
                    if let Value::String(text) = value {
                        if matches!(name.as_str(), "error" | "errors" | "errorsummary") {
                            self.code(value);
                        }
                        self.message(text, &at());
                    } else {
                        self.child(value, &at(), false, depth);
                    }
                }
                "metadata" | "extensions" | "innererror" | "parameters" | "data" | "fault" | "violations" => {
                    self.child(value, &at(), false, depth);
                }
                "limit" | "limits" | "ratelimit" | "ratelimits" => self.child(value, &at(), true, depth),
                "headers" => self.headers(value, &at()),
                "quotaid" => self.quota_id(value),
                "violatedpolicies" => self.violated_policies(value),
                _ => {}
            }
        }
    }

    fn child(&mut self, value: &Value, path: &Path, limits: bool, depth: u8) {
        let depth = depth.saturating_add(1);
        match value {
            Value::Object(map) => self.object(map, path, limits, depth),
            Value::Array(list) => {
                let path = path.element();
                for element in list.iter().take(MAX_ELEMENTS) {
                    match element {
                        Value::Object(map) => self.object(map, &path, limits, depth),
                        Value::String(text) => self.message(text, &path),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// A member that states a wait in itself.
    fn wait_member(&mut self, name: &str, value: &Value, path: &Path) -> bool {
        let (rank, unit, kind) = match name {
            "retrydelay" => (Rank::RetryInfo, BareUnit::Seconds, HintKind::RetryAfter),
            "quotaresetdelay" => (Rank::QuotaResetDelay, BareUnit::Seconds, HintKind::WindowReset),
            "quotaresettimestamp" => (Rank::QuotaResetInstant, BareUnit::Seconds, HintKind::WindowReset),
            "retryafterms" | "retryaftermillis" | "retryaftermilliseconds" | "retryinms" => {
                (Rank::RetryAfterMillis, BareUnit::Milliseconds, HintKind::RetryAfter)
            }
            "retryafter" | "retryafterseconds" | "retryaftersecs" | "retryaftersec" | "retryin"
            | "retryinseconds" => (Rank::RetryAfter, BareUnit::Seconds, HintKind::RetryAfter),
            "resetms" | "resetsinms" | "resetatms" => {
                (Rank::ResetMillis, BareUnit::Milliseconds, HintKind::WindowReset)
            }
            "resetsinseconds" | "resetinseconds" | "resetafter" | "resetsat" | "resetat" | "resettime" => {
                (Rank::Reset, BareUnit::Seconds, HintKind::WindowReset)
            }
            _ => return false,
        };
        if let Some(advice) = self.advice(value, unit) {
            self.offer(rank, kind, advice, path);
        }
        true
    }

    /// A member of an object such as Vercel's `limit`: `{"remaining":0,"reset":..,"resetMs":..,"total":50}`.
    fn limit_member(&mut self, name: &str, value: &Value, path: &Path) -> bool {
        match name {
            "remaining" => {
                if value.as_f64().is_some_and(|remaining| remaining <= 0.0) {
                    self.found.units = self.found.units.with(QuotaUnit::Requests);
                }
            }
            "reset" => {
                if let Some(advice) = self.advice(value, BareUnit::Seconds) {
                    self.offer(Rank::Reset, HintKind::WindowReset, advice, path);
                }
            }
            _ => return false,
        }
        true
    }

    fn advice(&self, value: &Value, unit: BareUnit) -> Option<Advice> {
        match value {
            // The number's own text keeps what a float would lose.
            Value::Number(number) => self.clock.read(number.to_string().as_bytes(), unit),
            Value::String(text) => self.clock.read(text.as_bytes(), unit),
            // A protobuf duration that was not printed by the JSON mapping.
            Value::Object(duration) => {
                let part = |key: &str| {
                    duration.get(key).and_then(|part| match part {
                        Value::String(text) => text.parse::<u64>().ok(),
                        part => part.as_u64(),
                    })
                };
                let nanos = part("nanos").and_then(|nanos| u32::try_from(nanos).ok()).unwrap_or(0);
                let text = format!("{}.{nanos:09}", part("seconds").or_else(|| part("nanos").map(|_| 0))?);
                self.clock.read(text.as_bytes(), BareUnit::Seconds)
            }
            _ => None,
        }
    }

    fn offer(&mut self, rank: Rank, kind: HintKind, advice: Advice, path: &Path) {
        let better = self.found.advice.as_ref().is_none_or(|known| {
            // Zero milliseconds beside positive seconds are a truncation, as with the headers.
            let truncated = known.rank == Rank::RetryAfterMillis
                && known.advice.wait.is_zero()
                && rank == Rank::RetryAfter;
            let truncates =
                rank == Rank::RetryAfterMillis && advice.wait.is_zero() && known.rank == Rank::RetryAfter;
            !truncates
                && (truncated || rank < known.rank || (rank == known.rank && advice.wait > known.advice.wait))
        });
        if better {
            self.found.advice = Some(BodyAdvice { advice, kind, path: path.text.clone(), rank });
        }
    }

    fn code(&mut self, value: &Value) {
        let code = match value {
            Value::String(text) if text.len() <= MAX_CODE => {
                normal_code(text.split('/').next().unwrap_or(text))
            }
            Value::Number(number) => number.to_string(),
            _ => return,
        };
        if self.profile.is_terminal_code(&code) {
            self.found.terminal = true;
        }
        if let Some(unit) = self.profile.unit_of_code(&code) {
            self.found.units = self.found.units.with(unit);
        }
        // A sentence in the place of a code is not one.
        let is_word = value.as_str().is_some_and(|text| !text.trim().contains(' '));
        self.found.rate_limited |= is_word && is_rate_code(&code);
    }

    fn message(&mut self, text: &str, path: &Path) {
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
        self.found.terminal |= says(self.profile.terminal_phrases);
        self.found.rate_limited |= says(self.profile.evidence);
    }

    /// The id of a Google quota, such as `GenerateRequestsPerDayPerProjectPerModel-FreeTier`.
    fn quota_id(&mut self, value: &Value) {
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
    fn violated_policies(&mut self, value: &Value) {
        let names = match value {
            Value::Array(names) => names.as_slice(),
            name => std::slice::from_ref(name),
        };
        for name in names.iter().filter_map(Value::as_str) {
            if self.found.violated.try_push(policy_key(name)).is_err() {
                return;
            }
        }
    }

    /// Rate-limit headers inside of the body, as OpenRouter sends those of the upstream.
    fn headers(&mut self, value: &Value, path: &Path) {
        let Value::Object(map) = value else { return };
        let mut headers = HeaderMap::new();
        for (name, value) in map.iter().take(MAX_ELEMENTS) {
            let value = match value {
                Value::String(text) => HeaderValue::from_str(text).ok(),
                Value::Number(number) => HeaderValue::from_str(&number.to_string()).ok(),
                _ => None,
            };
            if let (Ok(name), Some(value)) = (HeaderName::try_from(name.as_str()), value) {
                headers.append(name, value);
            }
        }
        let (mut buckets, mut waits) = (Buckets::default(), Waits::default());
        for (name, value) in &headers {
            if names::may_be_limit(name.as_str()) {
                buckets.note(name, value, self.clock);
            }
            waits.note(name, value, self.clock);
        }
        let summary = buckets.summary(self.profile, self.clock, &[]);
        self.found.units = summary.spent.iter().fold(self.found.units, QuotaUnits::with);
        if let Some((advice, name)) = waits.choose() {
            self.offer(Rank::EmbeddedHeader, HintKind::RetryAfter, advice, &path.key(name.as_str()));
        } else if let Some(reset) = summary.advice {
            self.offer(
                Rank::EmbeddedHeader,
                HintKind::WindowReset,
                reset.advice,
                &path.key(reset.source.as_str()),
            );
        }
    }
}

#[cfg(test)]
mod tests;
