//! The windows of the named limit / remaining / reset families: which are spent, and when they reset.

mod field;
mod summary;
mod window;

use std::time::Duration;

use arrayvec::ArrayVec;
use http::{HeaderName, HeaderValue};

use field::{MAX_MEMBERS, ReadPart};
pub(super) use field::{Reset, read_reset};
pub(super) use summary::Summary;
pub(super) use window::Window;

use super::MAX_FIELD;
use super::limits::{Limits, ServiceLimit};
use super::names::{FieldName, Part, field_name, hash, name_of};
use super::profile::Rules;
use super::value::{Clock, Count};
use crate::units::{QuotaUnit, QuotaUnits};

/// All windows of one response; further ones are left out.
#[derive(Debug, Default)]
pub(super) struct Windows<'h>(ArrayVec<Window<'h>, 16>);

impl<'h> Windows<'h> {
    /// The window of that key and place in its fields, made if there is none yet; `None` if there is no room for one.
    pub(super) fn window(&mut self, key: u64, place: u8, unit: QuotaUnit) -> Option<&mut Window<'h>> {
        let at = match self.0.iter().position(|window| window.key == key && window.place == place) {
            Some(at) => at,
            None => {
                self.0.try_push(Window { key, place, unit, ..Window::default() }).ok()?;
                self.0.len().checked_sub(1)?
            }
        };
        self.0.get_mut(at)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Window<'h>> {
        self.0.iter_mut()
    }

    pub(super) fn note(&mut self, name: &'h HeaderName, value: &HeaderValue, clock: &Clock<'_>) -> bool {
        let (text, value) = (name.as_str(), value.as_bytes().trim_ascii());
        if value.len() > MAX_FIELD {
            return false;
        }
        // Most values with parameters state no remainder, and are members of a list.
        let states_rest = || value.windows(3).any(|word| word.eq_ignore_ascii_case(b"rem"));
        if (states_rest() || text == "sforce-limit-info") && self.note_pairs(name, value, clock) {
            return true;
        }
        name_of(text).is_some_and(|field| self.note_field(&field, name, value, clock))
    }

    /// A field that states a whole window, or several, as pairs: `total=100; remaining=0; resets=27` (Zendesk),
    /// `user-hour-lim:3500;user-hour-rem:0;` (App Store Connect), `api-usage=12/15000` (Salesforce).
    fn note_pairs(&mut self, name: &'h HeaderName, value: &[u8], clock: &Clock<'_>) -> bool {
        let pairs = || {
            value.split(|byte| matches!(byte, b';' | b',')).take(MAX_MEMBERS).filter_map(|pair| {
                let at = pair.iter().position(|byte| matches!(byte, b'=' | b':'))?;
                let key = str::from_utf8(pair.get(..at)?.trim_ascii()).ok()?;
                Some((key.to_ascii_lowercase(), pair.get(at.checked_add(1)?..)?.trim_ascii()))
            })
        };
        let field_of = |key: &str| field_name(&format!("{name}-{key}"));
        if name == "sforce-limit-info" {
            let usage = pairs()
                .find(|(key, _)| key == "api-usage")
                .and_then(|(_, value)| field::used_of_limit(value));
            let Some((used, limit)) = usage else { return false };
            if let Some(window) = self.window(hash(name.as_str().as_bytes()), 0, QuotaUnit::Quota) {
                window.family = true;
                window.note_used(used, limit);
            }
            return true;
        }
        let states_rest = |(key, _): (String, &[u8])| {
            let plain = field_name(&format!("ratelimit-{key}"));
            plain.is_some_and(|field| field.part == Part::Remaining)
        };
        if !pairs().any(states_rest) {
            return false;
        }
        for (key, value) in pairs() {
            if let Some(field) = field_of(&key) {
                self.note_field(&field, name, value, clock);
            }
        }
        true
    }

    fn note_field(
        &mut self,
        field: &FieldName,
        name: &'h HeaderName,
        value: &[u8],
        clock: &Clock<'_>,
    ) -> bool {
        let mut read = ArrayVec::<Option<ReadPart>, MAX_MEMBERS>::new();
        field::read(field, value, clock, &mut read);
        let listed = read.len() > 1;
        let noted = !read.is_empty();
        for (place, part) in (u8::from(listed)..).zip(read) {
            let Some(part) = part else { continue };
            let Some(window) = self.window(field.key, place, field.unit) else { break };
            window.unit_named |= field.unit_named;
            window.family |= field.family || field.part != Part::Limit;
            window.window = window.window.or(field.window);
            window.note(part, name, clock);
        }
        noted
    }

    /// Puts together what belongs together: several values in one field pair by their places with those of the other
    /// fields. A list of limits alone states further policies of one window (draft 06: `10, 10;w=1, 50;w=60`).
    pub(super) fn pair(&mut self, clock: &Clock<'_>) {
        // A reset whose window nobody names is one of those that are named.
        let longest = self.0.iter().filter_map(|window| window.window).max();
        let unnamed = self.0.iter_mut().filter(|window| window.window.is_none() && !window.unit_named);
        unnamed.for_each(|window| window.longest = longest);
        let listed: ArrayVec<u64, 16> =
            self.0.iter().filter(|window| window.place > 0).map(|window| window.key).collect();
        for key in listed {
            let Some(at) = self.0.iter().position(|window| window.key == key && window.place == 0) else {
                continue;
            };
            if self.0.iter().all(|window| window.key != key || window.place == 0) {
                continue;
            }
            let of_key = || self.0.iter().filter(|window| window.key == key && window.place > 0);
            if of_key().any(|window| window.remaining.is_some() || window.reset.is_some()) {
                let single = self.0.remove(at);
                let places = self.0.iter_mut().filter(|window| window.key == key);
                places.for_each(|window| window.complete(&single, clock));
                continue;
            }
            let limit = of_key().find(|window| window.place == 1).and_then(|window| window.limit);
            let window = of_key().filter(|window| window.limit == limit).find_map(|window| window.window);
            let longest = of_key().filter_map(|window| window.window).max();
            if let Some(single) = self.0.get_mut(at) {
                single.limit = single.limit.or(limit);
                single.window = single.window.or(window);
                single.longest = longest;
            }
            self.0.retain(|window| window.key != key || window.place == 0);
        }
    }
}

impl Windows<'_> {
    /// The service limits, in the order that they came in, and what is spent; but if the call was accepted, no limit of
    /// 0 is.
    pub(super) fn state_limits(
        &self,
        accepted: bool,
        rules: &Rules,
        clock: &Clock<'_>,
        limits: &mut Limits,
    ) -> QuotaUnits {
        let mut all_spent = QuotaUnits::EMPTY;
        for window in &self.0 {
            let unit = window.unit(rules);
            let is_spent = window.is_spent() == Some(true) && !(accepted && window.is_limited_to_nothing());
            if is_spent {
                all_spent = all_spent.with(unit);
            }
            if window.states_limit() {
                // Further ones are left out, but count as spent.
                let _ = limits.try_push(ServiceLimit {
                    unit,
                    window: window.window,
                    limit: window.limit.and_then(Count::known),
                    remaining: if is_spent { Some(0) } else { window.known_remaining() },
                    reset: window.reset(rules, clock).map(|(advice, _)| advice.wait),
                    resets_at_once: !window.unit_named,
                });
            }
        }
        all_spent
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn longest_reset(&self, rules: &Rules, clock: &Clock<'_>) -> Option<Duration> {
        self.0.iter().filter_map(|window| Some(window.reset(rules, clock)?.0.wait)).max()
    }

    pub(super) fn spent(&self, rules: &Rules) -> QuotaUnits {
        let spent = self.0.iter().filter(|window| window.is_spent() == Some(true));
        spent.map(|window| window.unit(rules)).collect()
    }
}
