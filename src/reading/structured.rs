//! The IETF fields `RateLimit` and `RateLimit-Policy`, as a structured list ([draft-ietf-httpapi-ratelimit-headers]) and as
//! the dictionary of [draft 07]. The three fields of older drafts are a family like any other, see [`super::windows`].
//!
//! [draft-ietf-httpapi-ratelimit-headers]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
//! [draft 07]: https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-07

use std::convert::Infallible;
use std::time::Duration;

use arrayvec::ArrayVec;
use http::{HeaderName, HeaderValue};
use sfv::visitor::{
    DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ListVisitor, ParameterVisitor,
};
use sfv::{BareItemFromInput, KeyRef, Parser};

use super::names::hash;
use super::value::{Clock, Count, TimeUnit, Value, count};
use super::windows::{Reset, Windows, read_reset};
use crate::units::QuotaUnit;

const MAX_POLICIES: usize = 16;

/// One policy, or one entry of a dictionary (whose value is its quota), and what is said of it.
#[derive(Debug, Clone, Copy, Default)]
struct Member {
    /// The key of the window that its name stands for. Up to draft 06 a policy has no name but its quota: `100;w=60`.
    key: Option<u64>,
    quota: Option<Count>,
    remaining: Option<Count>,
    window: Option<Duration>,
    reset: Option<Reset>,
    unit: Option<QuotaUnit>,
}

type Members = ArrayVec<Member, MAX_POLICIES>;

/// The policies of one response; they complete the windows once all fields are in.
#[derive(Debug, Default)]
pub(super) struct Policies(Members);

/// The key of the window that a policy's name stands for.
pub(super) fn policy_key(name: &[u8]) -> u64 {
    const POLICY: u64 = hash(b"\0policy");
    hash(name).wrapping_add(POLICY)
}

/// Takes in one line of such a field; whether it was one. A value that is no structured field is ignored, as
/// [RFC 9651 §4.2](https://www.rfc-editor.org/rfc/rfc9651#section-4.2) has it, and takes nothing else with it.
pub(super) fn note<'h>(
    name: &'h HeaderName,
    value: &HeaderValue,
    clock: &Clock<'_>,
    windows: &mut Windows<'h>,
    policies: &mut Policies,
) -> bool {
    // Atlassian previews its fields as `Beta-RateLimit`, and counts points in them, not requests.
    let (plain, points) = (name.as_str(), name.as_str().starts_with("beta-"));
    let plain = plain.strip_prefix("beta-").or_else(|| plain.strip_prefix("x-")).unwrap_or(plain);
    if !matches!(plain, "ratelimit" | "ratelimit-policy") {
        return false;
    }
    let (value, is_policy, mut members) = (value.as_bytes(), plain == "ratelimit-policy", Members::new());
    let collect = Collect { to: &mut members, clock, name: None };
    if Parser::new(value).parse_list_with_visitor(collect).is_ok() {
        for member in members {
            if is_policy {
                let _ = policies.0.try_push(member);
            } else if let Some(key) = member.key {
                windows.state(key, &member, points, name, clock);
            }
        }
        return true;
    }
    members.clear();
    let collect = Collect { to: &mut members, clock, name: None };
    if !is_policy && Parser::new(value).parse_dictionary_with_visitor(collect).is_ok() {
        let entry = |key: &[u8]| members.iter().rev().find(|member| member.key == Some(policy_key(key)));
        let (limit, left, reset) = (entry(b"limit"), entry(b"remaining"), entry(b"reset"));
        if let Some(any) = limit.or(left).or(reset) {
            let quota = limit.and_then(|limit| limit.quota);
            let window = limit.and_then(|limit| limit.window);
            let remaining = left.and_then(|left| left.quota);
            let reset = reset.and_then(|reset| reset.reset);
            let whole = Member { quota, window, remaining, reset, unit: None, ..*any };
            windows.state(policy_key(b""), &whole, false, name, clock);
        }
    }
    true
}

impl<'h> Windows<'h> {
    fn state(&mut self, key: u64, member: &Member, points: bool, name: &'h HeaderName, clock: &Clock<'_>) {
        let unit = if points { QuotaUnit::Quota } else { QuotaUnit::Requests };
        let Some(window) = self.window(key, 0, member.unit.unwrap_or(unit)) else { return };
        window.family = true;
        window.remaining = member.remaining.or(window.remaining);
        window.limit = member.quota.or(window.limit);
        window.window = member.window.or(window.window);
        // Atlassian leaves `r` out while there is plenty, so that `t` alone is no advice.
        window.healthy = points && window.remaining.is_none();
        if let Some(reset) = member.reset {
            window.note_reset(1, reset, name, clock);
        }
    }
}

impl Policies {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn longest_window(&self) -> Option<Duration> {
        self.0.iter().filter_map(|policy| policy.window).max()
    }

    /// Completes the windows by what their policies state. A policy without a name is that of the window with its quota.
    pub(super) fn complete(&self, windows: &mut Windows<'_>) {
        if self.0.is_empty() {
            return;
        }
        for window in windows.iter_mut() {
            let policy = self.0.iter().find(|policy| match policy.key {
                Some(key) => key == window.key,
                None => window.family && policy.quota.is_some() && policy.quota == window.limit,
            });
            if let Some(policy) = policy {
                window.limit = window.limit.or(policy.quota);
                window.window = window.window.or(policy.window);
                window.unit = policy.unit.unwrap_or(window.unit);
            }
        }
    }
}

/// Collects the members of a field; further ones are left out.
struct Collect<'m, 'c, 'n> {
    to: &'m mut Members,
    clock: &'c Clock<'c>,
    /// The name of an entry of a dictionary.
    name: Option<&'n str>,
}

impl<'de> ListVisitor<'de> for Collect<'_, '_, '_> {
    type Out = ();
    type Error = Infallible;

    fn entry(&mut self) -> Result<impl EntryVisitor<'de>, Infallible> {
        Ok(Collect { to: self.to, ..*self })
    }

    fn finish(self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl<'de> DictionaryVisitor<'de> for Collect<'_, '_, '_> {
    type Out = ();
    type Error = Infallible;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Infallible> {
        Ok(Collect { to: self.to, clock: self.clock, name: Some(key.as_str()) })
    }

    fn finish(self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl<'de> EntryVisitor<'de> for Collect<'_, '_, '_> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Infallible> {
        Ok(self)
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Infallible> {
        Ok(Ignored)
    }
}

impl<'de> ItemVisitor<'de> for Collect<'_, '_, '_> {
    type Out = Option<()>;
    type Error = Infallible;

    fn bare_item(
        self,
        item: BareItemFromInput<'de>,
    ) -> Result<impl ParameterVisitor<'de, Out = Option<()>>, Infallible> {
        let Self { to, clock, name } = self;
        let key = name.or_else(|| text_of(&item)).map(|name| policy_key(name.as_bytes()));
        let mut member = Member { key, ..Member::default() };
        if name.is_some() {
            (member.quota, member.reset) = (count_of(&item), reset_of(&item, clock));
        } else if matches!(item, BareItemFromInput::Integer(_)) {
            member.quota = count_of(&item);
        }
        let room = to.try_push(member).is_ok();
        Ok(to.last_mut().filter(|_| room).map(|member| Parameters { member, clock }))
    }
}

struct Parameters<'m, 'c> {
    member: &'m mut Member,
    clock: &'c Clock<'c>,
}

impl<'de> ParameterVisitor<'de> for Parameters<'_, '_> {
    type Out = ();
    type Error = Infallible;

    /// Of two parameters of one name the later counts.
    fn parameter(&mut self, key: &'de KeyRef, value: BareItemFromInput<'de>) -> Result<(), Infallible> {
        match key.as_str() {
            "q" => self.member.quota = count_of(&value),
            "r" => self.member.remaining = count_of(&value),
            "w" => {
                let seconds = count_of(&value).map(Count::whole).filter(|seconds| *seconds > 0);
                self.member.window = seconds.map(Duration::from_secs);
            }
            "t" => self.member.reset = reset_of(&value, self.clock),
            "qu" => self.member.unit = text_of(&value).map(unit_of),
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Infallible> {
        Ok(())
    }
}

fn text_of<'i>(item: &'i BareItemFromInput<'_>) -> Option<&'i str> {
    match item {
        BareItemFromInput::String(name) => Some(name.as_str()),
        BareItemFromInput::Token(name) => Some(name.as_str()),
        _ => None,
    }
}

fn number_of(item: &BareItemFromInput<'_>) -> Option<Count> {
    match item {
        BareItemFromInput::Integer(number) => {
            Some(Count::thousandths(i64::from(*number).saturating_mul(1_000)))
        }
        BareItemFromInput::Decimal(number) => {
            Some(Count::thousandths(number.as_integer_scaled_1000().into()))
        }
        _ => None,
    }
}

fn count_of(item: &BareItemFromInput<'_>) -> Option<Count> {
    let in_string = || match item {
        BareItemFromInput::String(text) => count(text.as_str().as_bytes()),
        _ => None,
    };
    number_of(item).or_else(in_string)
}

fn reset_of(item: &BareItemFromInput<'_>, clock: &Clock<'_>) -> Option<Reset> {
    match (item, number_of(item)) {
        (_, Some(number)) => Some(Reset { value: Value::Bare(number.positive()?), unit: TimeUnit::Seconds }),
        (BareItemFromInput::String(text), _) => {
            read_reset(text.as_str().as_bytes(), TimeUnit::Seconds, clock)
        }
        _ => None,
    }
}

/// The quota unit: `requests`, `content-bytes` and `concurrent-requests` are the draft's, others are in use.
fn unit_of(name: &str) -> QuotaUnit {
    match name {
        "requests" => QuotaUnit::Requests,
        "concurrent-requests" => QuotaUnit::Concurrency,
        "tokens" => QuotaUnit::Tokens,
        "input-tokens" | "prompt-tokens" => QuotaUnit::InputTokens,
        "output-tokens" | "completion-tokens" => QuotaUnit::OutputTokens,
        _ => QuotaUnit::Quota,
    }
}
