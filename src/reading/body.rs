//! The body of a refusal: delays, codes and sentences in the JSON shapes that vendors use.
//!
//! One walk over known containers serves all shapes; keys are compared without case, `_` and `-`. A body that is not
//! JSON says nothing, whatever numbers it has in it, unless the whole of it is a code that the vendor is known for.

mod delay;
mod sentence;
mod words;

use std::time::{Duration, SystemTime};

use arrayvec::ArrayVec;
use serde_json::{Map, Value};

pub(super) use delay::BodyAdvice;

use super::MAX_BODY;
use super::value::Clock;
use super::vendor::{Profile, is_rate_code, normal_code};
use crate::units::QuotaUnits;

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

/// What a body says.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) advice: Option<BodyAdvice>,
    /// What codes, quota ids and embedded counters name.
    pub(super) units: QuotaUnits,
    /// What sentences name, where nothing better does.
    pub(super) prose_units: QuotaUnits,
    pub(super) terminal: bool,
    /// Whether the request is larger than the limit, and not only than what is left of it.
    pub(super) too_large: bool,
    pub(super) daily_quota: bool,
    /// Whether a message names a quota per day or longer, whose times are honest where there are any.
    pub(super) long_quota: bool,
    /// Whether a code, or for some vendors a message, says that a rate was exceeded.
    pub(super) rate_limited: bool,
    /// The keys of the policies that `violated-policies` names.
    pub(super) violated: ArrayVec<u64, 8>,
}

impl Body {
    /// Reads a body, of which only the first [`MAX_BODY`] bytes are looked at.
    pub(super) fn read(profile: &Profile, body: &[u8], received_at: SystemTime, clock: &Clock<'_>) -> Self {
        let (ending, found) = (Ending::default(), Self::default());
        let mut walk = Walk { profile, clock, received_at, nested: 0, ending, found };
        let body = body.get(..MAX_BODY).unwrap_or(body);
        // A byte order mark is no JSON, and sent before it nevertheless (RFC 8259 §8.1).
        let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii();
        match serde_json::from_slice::<Value>(body) {
            Ok(root) => walk.root(&root, &Path::default()),
            Err(_) => walk.plain_text(body),
        }
        Self { terminal: walk.ending.is_terminal(), ..walk.found }
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
    ending: Ending,
    found: Body,
}

/// What a body says of whether any wait helps.
#[derive(Debug, Default)]
struct Ending {
    terminal_code: bool,
    terminal_phrase: bool,
    /// Whether a message says that a terminal code is none here.
    passes: bool,
}

impl Ending {
    const fn is_terminal(&self) -> bool {
        self.terminal_code && !self.passes || self.terminal_phrase
    }
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
                | "errormessage" | "errorsummary" | "description" | "title" | "info" | "raw" => {
                    if let Value::String(text) = value {
                        if matches!(name.as_str(), "error" | "errors" | "errorsummary") {
                            self.code(value);
                        }
                        self.message(text, &at());
                    } else {
                        self.child(value, &at(), false, depth);
                    }
                }
                "meta" | "metadata" | "extensions" | "innererror" | "parameters" | "data" | "rate"
                | "fault" | "violations" => {
                    self.child(value, &at(), false, depth);
                }
                "limit" | "limits" | "ratelimit" | "ratelimits" => self.child(value, &at(), true, depth),
                "headers" => self.headers(value, &at()),
                "quotaid" | "quotalimit" => self.quota_id(value),
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
}

#[cfg(test)]
mod tests;
