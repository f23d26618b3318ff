//! The IETF fields `RateLimit` and `RateLimit-Policy`, as a structured list
//! ([draft-ietf-httpapi-ratelimit-headers]) and as the dictionary of [draft 07].
//!
//! The three fields of older drafts are a family like any other, see [`super::reset`].
//!
//! [draft-ietf-httpapi-ratelimit-headers]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
//! [draft 07]: https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-07

use std::time::Duration;

use arrayvec::ArrayVec;
use http::{HeaderName, HeaderValue};
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parameters, Parser};

use super::names::hash;
use super::reset::{Buckets, Reset};
use super::value::{BareUnit, Clock, Count, count, decimal};
use crate::units::QuotaUnit;

/// The most policies that are told apart.
const MAX_POLICIES: usize = 16;

/// What a policy states.
#[derive(Debug)]
struct Policy {
    key: u64,
    quota: Option<Count>,
    window: Option<Duration>,
    unit: Option<QuotaUnit>,
}

/// The policies of one response; they complete the limits once all fields are in.
#[derive(Debug, Default)]
pub(super) struct Policies(ArrayVec<Policy, MAX_POLICIES>);

/// Which of the two fields a name is, if any.
enum Field {
    Limit,
    Policy,
}

/// The key of the bucket that a policy's name stands for.
pub(super) fn policy_key(name: &str) -> u64 {
    hash(name.as_bytes()).wrapping_add(hash(b"\0policy"))
}

fn field(name: &str) -> Option<Field> {
    // Atlassian previews its fields as `Beta-RateLimit`.
    let name = name.strip_prefix("beta-").or_else(|| name.strip_prefix("x-")).unwrap_or(name);
    match name {
        "ratelimit" => Some(Field::Limit),
        "ratelimit-policy" => Some(Field::Policy),
        _ => None,
    }
}

/// Takes in one field line; whether it was one of the two fields. A value that is no structured field is ignored, as
/// [RFC 9651 §4.2](https://www.rfc-editor.org/rfc/rfc9651#section-4.2) has it, and takes nothing else with it.
pub(super) fn note<'h>(
    name: &'h HeaderName,
    value: &HeaderValue,
    clock: &Clock<'_>,
    buckets: &mut Buckets<'h>,
    policies: &mut Policies,
) -> bool {
    let Some(field) = field(name.as_str()) else { return false };
    let value = value.as_bytes();
    let list = Parser::new(value).parse::<List>().ok();
    match field {
        Field::Policy => policies.note(list.unwrap_or_default()),
        Field::Limit => match list {
            Some(list) => {
                for entry in list.iter().take(MAX_POLICIES) {
                    if let ListEntry::Item(item) = entry {
                        note_item(item, name, clock, buckets);
                    }
                }
            }
            None => {
                if let Ok(dictionary) = Parser::new(value).parse::<Dictionary>() {
                    note_dictionary(&dictionary, name, clock, buckets);
                }
            }
        },
    }
    true
}

fn key_of(item: &BareItem) -> Option<u64> {
    match item {
        BareItem::String(name) => Some(policy_key(name.as_str())),
        BareItem::Token(name) => Some(policy_key(name.as_str())),
        _ => None,
    }
}

fn is_points(name: &HeaderName) -> bool {
    name.as_str().starts_with("beta-")
}

fn note_item<'h>(item: &Item, name: &'h HeaderName, clock: &Clock<'_>, buckets: &mut Buckets<'h>) {
    let Some(key) = key_of(&item.bare_item) else { return };
    // Atlassian's preview counts points, not requests.
    let default = if is_points(name) { QuotaUnit::Quota } else { QuotaUnit::Requests };
    let Some(bucket) = buckets.bucket(key, unit(&item.params).unwrap_or(default)) else { return };
    bucket.set_family();
    bucket.remaining = number(&item.params, "r").or(bucket.remaining);
    bucket.limit = number(&item.params, "q").or(bucket.limit);
    bucket.window = window(&item.params).or(bucket.window);
    // It also leaves `r` out while there is plenty, so that `t` alone is no advice.
    bucket.healthy = is_points(name) && bucket.remaining.is_none();
    if let Some(reset) = item.params.get("t").and_then(|t| reset(t, clock)) {
        bucket.note_reset(1, reset, name, clock);
    }
}

fn note_dictionary<'h>(
    members: &Dictionary,
    name: &'h HeaderName,
    clock: &Clock<'_>,
    buckets: &mut Buckets<'h>,
) {
    let item = |key: &str| match members.get(key) {
        Some(ListEntry::Item(item)) => Some(item),
        _ => None,
    };
    let (limit, remaining, again) = (item("limit"), item("remaining"), item("reset"));
    if limit.is_none() && remaining.is_none() && again.is_none() {
        return;
    }
    let Some(bucket) = buckets.bucket(policy_key(""), QuotaUnit::Requests) else { return };
    bucket.set_family();
    bucket.limit = limit.and_then(|item| count_of(&item.bare_item)).or(bucket.limit);
    bucket.window = limit.and_then(|item| window(&item.params)).or(bucket.window);
    bucket.remaining = remaining.and_then(|item| count_of(&item.bare_item)).or(bucket.remaining);
    if let Some(reset) = again.and_then(|item| reset(&item.bare_item, clock)) {
        bucket.note_reset(1, reset, name, clock);
    }
}

/// A count of either number type, through the decimal notation that both print.
fn count_of(item: &BareItem) -> Option<Count> {
    match item {
        BareItem::Integer(number) => count(number.to_string().as_bytes()),
        BareItem::Decimal(number) => count(number.to_string().as_bytes()),
        BareItem::String(text) => count(text.as_str().as_bytes()),
        _ => None,
    }
}

fn reset(item: &BareItem, clock: &Clock<'_>) -> Option<Reset> {
    let bare = |text: String| decimal(text.as_bytes()).map(|number| Reset::Bare(number, BareUnit::Seconds));
    match item {
        BareItem::Integer(number) => bare(number.to_string()),
        BareItem::Decimal(number) => bare(number.to_string()),
        BareItem::String(text) => {
            super::reset::read_reset(text.as_str().as_bytes(), BareUnit::Seconds, clock)
        }
        _ => None,
    }
}

fn number(params: &Parameters, key: &str) -> Option<Count> {
    params.get(key).and_then(count_of)
}

fn window(params: &Parameters) -> Option<Duration> {
    number(params, "w").map(Count::whole).filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// The quota unit: `requests`, `content-bytes` and `concurrent-requests` are the draft's, others are in use.
fn unit(params: &Parameters) -> Option<QuotaUnit> {
    let name = match params.get("qu")? {
        BareItem::String(name) => name.as_str(),
        BareItem::Token(name) => name.as_str(),
        _ => return None,
    };
    Some(match name {
        "requests" => QuotaUnit::Requests,
        "concurrent-requests" => QuotaUnit::Concurrency,
        "tokens" => QuotaUnit::Tokens,
        "input-tokens" | "prompt-tokens" => QuotaUnit::InputTokens,
        "output-tokens" | "completion-tokens" => QuotaUnit::OutputTokens,
        _ => QuotaUnit::Quota,
    })
}

impl Policies {
    fn note(&mut self, list: List) {
        for entry in list.into_iter().take(MAX_POLICIES) {
            let ListEntry::Item(item) = entry else { continue };
            let (key, quota) = match &item.bare_item {
                // Drafts up to 06: the policy is its quota, `100;w=60`.
                BareItem::Integer(_) => (None, count_of(&item.bare_item)),
                named => (key_of(named), number(&item.params, "q")),
            };
            // An integer has no name; one that no bucket has stands for it.
            let policy = Policy {
                key: key.unwrap_or(0),
                quota,
                window: window(&item.params),
                unit: unit(&item.params),
            };
            if self.0.try_push(policy).is_err() {
                return;
            }
        }
    }

    /// Completes the buckets by what their policies state.
    pub(super) fn complete(&self, buckets: &mut Buckets<'_>) {
        if self.0.is_empty() {
            return;
        }
        let three_fields = hash(b"ratelimit");
        for bucket in buckets.iter_mut() {
            let policy = self.0.iter().find(|policy| {
                policy.key == bucket.key
                    || (policy.key == 0 && bucket.key == three_fields && policy.quota == bucket.limit)
            });
            if let Some(policy) = policy {
                bucket.limit = bucket.limit.or(policy.quota);
                bucket.window = bucket.window.or(policy.window);
                bucket.unit = policy.unit.unwrap_or(bucket.unit);
            }
        }
    }
}
