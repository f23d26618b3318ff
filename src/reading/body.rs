//! The body of a refusal: waits, codes and sentences in the JSON shapes that vendors use, and in XML faults.
//!
//! One walk over all members serves all shapes. A body of any other kind says nothing, whatever numbers it has in it, unless
//! the whole of it is a code.

mod json;
mod member;
mod sentence;
mod words;
mod xml;

use std::time::Duration;

use arrayvec::ArrayVec;

use json::Json;
use member::Rank;
use serde_json::value::RawValue;

use super::MAX_BODY;
use super::hint::HintKind;
use super::profile::{Rules, is_rate_code, normal_code};
use super::value::{Advice, Clock};
use crate::units::QuotaUnits;

/// The most elements of an array, and the most embedded headers, that are read.
const MAX_ELEMENTS: usize = 32;

/// How deep the walk goes, and how often JSON inside a JSON string is opened.
const MAX_DEPTH: u8 = 8;
const MAX_NESTED: u8 = 2;

/// In bytes; of a longer message this much is read.
const MAX_CODE: usize = 64;
const MAX_MESSAGE: usize = 8 * 1024;

/// A quota per day whose stated delay is shorter than this is not honest about it.
pub(super) const HONEST_DAILY_DELAY: Duration = Duration::from_secs(3_600);

#[derive(Debug, Clone)]
pub(super) struct BodyAdvice {
    pub(super) advice: Advice,
    pub(super) kind: HintKind,
    pub(super) path: String,
    rank: Rank,
}

#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) advice: Option<BodyAdvice>,
    /// Every wait that was stated, if somebody asks for them.
    pub(super) heard: Option<Vec<BodyAdvice>>,
    /// What codes, quota ids and embedded counters name.
    pub(super) units: QuotaUnits,
    /// What sentences name, if nothing better does.
    pub(super) prose_units: QuotaUnits,
    /// Whether a code says that no wait helps, and no message that this one passes.
    pub(super) final_code: bool,
    pub(super) final_phrase: bool,
    /// Whether the request is larger than the limit, and not only than what is left of it.
    pub(super) too_large: bool,
    /// Whether a message says so in so many words, which some say of what is left, too.
    pub(super) says_too_large: bool,
    pub(super) daily_quota: bool,
    /// Whether something names a quota per day or longer, whose times are honest if there are any.
    pub(super) long_quota: bool,
    /// Whether a code, or for some vendors a message, says that a rate was exceeded.
    pub(super) rate_limited: bool,
    /// Whether a code makes a refusal of a success.
    pub(super) refuses: bool,
    /// The keys of the policies that `violated-policies` names.
    pub(super) violated: ArrayVec<u64, 8>,
}

impl Body {
    /// Reads the first [`MAX_BODY`] bytes of a body; keeps every wait that it states if that is `explained`.
    pub(super) fn read(rules: &Rules, body: &[u8], clock: &Clock<'_>, explained: bool) -> Self {
        let found = Self { heard: explained.then(Vec::new), ..Self::default() };
        let mut walk = Walk { rules, clock, nested: 0, passes: false, cost: Default::default(), found };
        let body = body.get(..MAX_BODY).unwrap_or(body);
        // A byte order mark is no JSON, and sent before it nevertheless (RFC 8259 §8.1).
        let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii();
        if let Ok(text) = str::from_utf8(body) {
            match Json::read(text) {
                Some(root) => walk.root(&root, &Path::default()),
                None if text.starts_with('<') => xml::elements(text, |name, text| {
                    walk.member(name, &Json::String(text.into()), &Path::default(), Around::default());
                }),
                None => walk.plain_text(text),
            }
        }
        walk.wait_for_cost();
        walk.found.final_code &= !walk.passes;
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

/// What surrounds a member.
#[derive(Debug, Clone, Copy, Default)]
struct Around<'k> {
    /// The words of the name that it is below.
    name: &'k str,
    /// Whether it is below a name of something that is sold: when a subscription is renewed is no reset.
    sold: bool,
    /// Whether it is below a name of a limit.
    limits: bool,
    /// Whether something is left of the limit that it is about.
    unspent: bool,
    depth: u8,
}

struct Walk<'a> {
    rules: &'a Rules,
    clock: &'a Clock<'a>,
    nested: u8,
    /// Whether a message says that a final code is not final here.
    passes: bool,
    /// What a GraphQL query costs, in the order of [`COSTS`](member::COSTS).
    cost: [Option<Duration>; 4],
    found: Body,
}

impl Walk<'_> {
    fn root(&mut self, root: &Json<'_>, path: &Path) {
        match root {
            Json::Object(_) => self.child(root, path, Around::default()),
            // Google wraps the error in a list of one, Salesforce lists its errors.
            Json::Array(list) => elements(list)
                .filter(|element| matches!(element, Json::Object(_)))
                .for_each(|element| self.child(&element, path, Around::default())),
            Json::String(text) => self.message(text, path),
            Json::Number(_) | Json::Other => {}
        }
    }

    /// Opens JSON that is inside of a JSON string; whether it was any.
    fn open(&mut self, text: &str, path: &Path) -> bool {
        // The object may follow a few words, as in `got status: 429. {"error": ..}`.
        let Some(start) = text.find(['{', '[']).filter(|_| self.nested < MAX_NESTED) else { return false };
        let root = text.get(start..).and_then(Json::read);
        let Some(root @ (Json::Object(_) | Json::Array(_))) = root else { return false };
        self.nested = self.nested.saturating_add(1);
        self.root(&root, &Path { text: path.text.clone(), fixed: !path.text.is_empty() });
        self.nested = self.nested.saturating_sub(1);
        true
    }

    fn plain_text(&mut self, text: &str) {
        if text.len() <= MAX_CODE && !text.contains(char::is_whitespace) {
            // Dropbox: `too_many_write_operations`, in summaries followed by `/...`.
            let code = normal_code(text.split('/').next().unwrap_or(text));
            self.found.units.extend(self.rules.unit_of_code(&code));
            self.found.rate_limited |= is_rate_code(&code);
        }
    }

    fn child(&mut self, value: &Json<'_>, path: &Path, around: Around<'_>) {
        if around.depth >= MAX_DEPTH {
            return;
        }
        let depth = around.depth.saturating_add(1);
        match value {
            Json::Object(members) => {
                // Of several limits those that are spent count.
                let left = members.get("remaining").and_then(|left| Json::read(left.get())?.count());
                let unspent = left.is_some_and(|left| !left.is_zero_or_less());
                let limits = around.limits || left.is_some() && members.contains_key("limit");
                for (key, value) in members {
                    if let Some(value) = Json::read(value.get()) {
                        self.member(key, &value, path, Around { unspent, limits, ..around });
                    }
                }
            }
            Json::Array(list) => {
                let path = path.element();
                for element in elements(list) {
                    match element {
                        Json::Object(_) => self.child(&element, &path, Around { depth, ..around }),
                        Json::String(text) => self.message(&text, &path),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn member(&mut self, key: &str, value: &Json<'_>, parent: &Path, around: Around<'_>) {
        let spaced = words::spaced(key);
        let words: ArrayVec<&str, 16> = spaced.split('-').take(16).collect();
        let path = parent.key(key);
        if self.wait_member(&words, value, &path, around) || self.cost_member(&spaced, value) {
            return;
        }
        match (words.as_slice(), value) {
            (["headers"], _) => self.headers(value, &path),
            (["quota", "id" | "limit"], Json::String(id)) => self.quota_id(&id.to_ascii_lowercase()),
            (["violated", "policies"], _) => self.violated_policies(value),
            (_, Json::Object(_) | Json::Array(_)) => {
                let limits = words.last().is_some_and(|last| matches!(*last, "limit" | "limits"));
                let sold = around.sold || words::names_sale(&words);
                let depth = around.depth.saturating_add(1);
                self.child(value, &path, Around { name: &spaced, sold, limits, depth, ..around });
            }
            (words, Json::String(text)) => {
                if words::holds_code(words) {
                    self.code(text);
                }
                if words::holds_message(words) {
                    self.message(text, &path);
                }
            }
            (words, Json::Number(number)) if words::holds_code(words) => self.code(number),
            _ => {}
        }
    }
}

fn elements<'j>(list: &'j [&'j RawValue]) -> impl Iterator<Item = Json<'j>> {
    list.iter().take(MAX_ELEMENTS).filter_map(|element| Json::read(element.get()))
}

#[cfg(test)]
mod tests;
