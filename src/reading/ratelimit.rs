//! The IETF fields `RateLimit` and `RateLimit-Policy`, as a structured list
//! ([draft-ietf-httpapi-ratelimit-headers]) and as the dictionary of [draft 07].
//!
//! The three fields of older drafts are a family like any other, see [`super::reset`].
//!
//! [draft-ietf-httpapi-ratelimit-headers]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
//! [draft 07]: https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-07

mod member;
mod usual;

use std::time::Duration;

use arrayvec::ArrayVec;
use http::{HeaderName, HeaderValue};
use sfv::{Dictionary, Item, List, ListEntry, Parser};

pub(super) use member::policy_key;
use member::{Bare, Member, Name};

use super::names::hash;
use super::reset::Buckets;
use super::value::{Clock, Count};
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
    let mut note = |member: &Member| match field {
        Field::Policy => policies.note(member),
        Field::Limit => note_limit(member, name, clock, buckets),
    };
    let mut members = usual::Members::new();
    if usual::read(value, clock, &mut members) {
        members.iter().for_each(note);
    } else if let Ok(list) = Parser::new(value).parse::<List>() {
        for entry in list.iter().take(MAX_POLICIES) {
            if let ListEntry::Item(item) = entry {
                note(&Member::of(item, clock));
            }
        }
    } else if matches!(field, Field::Limit)
        && let Ok(dictionary) = Parser::new(value).parse::<Dictionary>()
    {
        note_dictionary(&dictionary, name, clock, buckets);
    }
    true
}

fn is_points(name: &HeaderName) -> bool {
    name.as_str().starts_with("beta-")
}

fn note_limit<'h>(member: &Member, name: &'h HeaderName, clock: &Clock<'_>, buckets: &mut Buckets<'h>) {
    let Name::Policy(key) = member.name else { return };
    // Atlassian's preview counts points, not requests.
    let default = if is_points(name) { QuotaUnit::Quota } else { QuotaUnit::Requests };
    let Some(bucket) = buckets.bucket(key, member.unit.unwrap_or(default)) else { return };
    bucket.set_family();
    bucket.remaining = member.remaining.or(bucket.remaining);
    bucket.limit = member.quota.or(bucket.limit);
    bucket.window = member.window.or(bucket.window);
    // It also leaves `r` out while there is plenty, so that `t` alone is no advice.
    bucket.healthy = is_points(name) && bucket.remaining.is_none();
    if let Some(reset) = member.reset {
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
    let Some(bucket) = buckets.bucket(policy_key(b""), QuotaUnit::Requests) else { return };
    let count = |item: &Item| Bare::with(&item.bare_item, |bare| bare.and_then(Bare::count));
    bucket.set_family();
    bucket.limit = limit.and_then(count).or(bucket.limit);
    bucket.window = limit.and_then(|item| Member::of(item, clock).window).or(bucket.window);
    bucket.remaining = remaining.and_then(count).or(bucket.remaining);
    let reset =
        again.and_then(|item| Bare::with(&item.bare_item, |bare| bare.and_then(|bare| bare.reset(clock))));
    if let Some(reset) = reset {
        bucket.note_reset(1, reset, name, clock);
    }
}

impl Policies {
    fn note(&mut self, member: &Member) {
        // An integer has no name; one that no bucket has stands for it.
        let (key, quota) = match member.name {
            Name::Policy(key) => (key, member.quota),
            Name::Quota(quota) => (0, quota),
            Name::Other => (0, member.quota),
        };
        // Further ones are left out.
        let _ = self.0.try_push(Policy { key, quota, window: member.window, unit: member.unit });
    }

    /// Completes the buckets by what their policies state.
    #[inline]
    pub(super) fn complete(&self, buckets: &mut Buckets<'_>) {
        if !self.0.is_empty() {
            self.complete_each(buckets);
        }
    }

    fn complete_each(&self, buckets: &mut Buckets<'_>) {
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
