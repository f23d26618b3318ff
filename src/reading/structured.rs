//! The IETF fields `RateLimit` and `RateLimit-Policy`, as a structured list
//! ([draft-ietf-httpapi-ratelimit-headers]) and as the dictionary of [draft 07].
//!
//! The three fields of older drafts are a family like any other, see [`super::windows`].
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

/// The most policies of one field that are told apart.
const MAX_POLICIES: usize = 16;

/// One policy, or one entry of a dictionary, and what is said of it.
#[derive(Debug, Clone, Copy, Default)]
struct Member {
    /// The key of the window that its name stands for. Up to draft 06 a policy has no name but its quota: `100;w=60`.
    key: Option<u64>,
    /// Its value as a count, which an entry of a dictionary has.
    count: Option<Count>,
    quota: Option<Count>,
    remaining: Option<Count>,
    window: Option<Duration>,
    reset: Option<Reset>,
    unit: Option<QuotaUnit>,
}

/// The policies of one response; they complete the windows once all fields are in.
#[derive(Debug, Default)]
pub(super) struct Policies(ArrayVec<Member, MAX_POLICIES>);

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
    // Atlassian previews its fields as `Beta-RateLimit`.
    let plain = name.as_str();
    let plain = plain.strip_prefix("beta-").or_else(|| plain.strip_prefix("x-")).unwrap_or(plain);
    let is_policy = match plain {
        "ratelimit" => false,
        "ratelimit-policy" => true,
        _ => return false,
    };
    let value = value.as_bytes();
    let mut members = Members { list: ArrayVec::new(), clock };
    let is_list = Parser::new(value).parse_list_with_visitor(&mut members).is_ok();
    if is_list && is_policy {
        members.list.into_iter().for_each(|policy| {
            let _ = policies.0.try_push(policy);
        });
    } else if is_list {
        members.list.iter().for_each(|member| note_limit(member, name, clock, windows));
    } else if !is_policy {
        members.list.clear();
        if Parser::new(value).parse_dictionary_with_visitor(&mut members).is_ok() {
            note_dictionary(&members.list, name, clock, windows);
        }
    }
    true
}

fn note_limit<'h>(member: &Member, name: &'h HeaderName, clock: &Clock<'_>, windows: &mut Windows<'h>) {
    let Some(key) = member.key else { return };
    // Atlassian's preview counts points, not requests.
    let counts_points = name.as_str().starts_with("beta-");
    let default = if counts_points { QuotaUnit::Quota } else { QuotaUnit::Requests };
    let Some(window) = windows.window(key, 0, member.unit.unwrap_or(default)) else { return };
    window.family = true;
    window.remaining = member.remaining.or(window.remaining);
    window.limit = member.quota.or(window.limit);
    window.window = member.window.or(window.window);
    // It also leaves `r` out while there is plenty, so that `t` alone is no advice.
    window.healthy = counts_points && window.remaining.is_none();
    if let Some(reset) = member.reset {
        window.note_reset(1, reset, name, clock);
    }
}

fn note_dictionary<'h>(
    members: &[Member],
    name: &'h HeaderName,
    clock: &Clock<'_>,
    windows: &mut Windows<'h>,
) {
    let entry = |key: &[u8]| members.iter().rev().find(|member| member.key == Some(policy_key(key)));
    let (limit, remaining, reset) = (entry(b"limit"), entry(b"remaining"), entry(b"reset"));
    if limit.is_none() && remaining.is_none() && reset.is_none() {
        return;
    }
    let Some(window) = windows.window(policy_key(b""), 0, QuotaUnit::Requests) else { return };
    window.family = true;
    window.limit = limit.and_then(|limit| limit.count).or(window.limit);
    window.window = limit.and_then(|limit| limit.window).or(window.window);
    window.remaining = remaining.and_then(|remaining| remaining.count).or(window.remaining);
    if let Some(reset) = reset.and_then(|reset| reset.reset) {
        window.note_reset(1, reset, name, clock);
    }
}

impl Policies {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The longest window that a policy states.
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
struct Members<'c> {
    list: ArrayVec<Member, MAX_POLICIES>,
    clock: &'c Clock<'c>,
}

impl<'de> ListVisitor<'de> for &mut Members<'_> {
    type Out = ();
    type Error = Infallible;

    fn entry(&mut self) -> Result<impl EntryVisitor<'de>, Infallible> {
        Ok(Entry { members: self, name: None })
    }

    fn finish(self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl<'de> DictionaryVisitor<'de> for &mut Members<'_> {
    type Out = ();
    type Error = Infallible;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Infallible> {
        Ok(Entry { members: self, name: Some(key.as_str()) })
    }

    fn finish(self) -> Result<(), Infallible> {
        Ok(())
    }
}

struct Entry<'m, 'c, 'n> {
    members: &'m mut Members<'c>,
    name: Option<&'n str>,
}

impl<'de> EntryVisitor<'de> for Entry<'_, '_, '_> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Infallible> {
        Ok(self)
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Infallible> {
        Ok(Ignored)
    }
}

impl<'de> ItemVisitor<'de> for Entry<'_, '_, '_> {
    type Out = Option<()>;
    type Error = Infallible;

    fn bare_item(
        self,
        item: BareItemFromInput<'de>,
    ) -> Result<impl ParameterVisitor<'de, Out = Option<()>>, Infallible> {
        let clock = self.members.clock;
        let mut member = Member::default();
        match (self.name, &item) {
            (Some(name), item) => {
                member.key = Some(policy_key(name.as_bytes()));
                member.count = count_of(item);
                member.reset = reset_of(item, clock);
            }
            (None, BareItemFromInput::String(name)) => {
                member.key = Some(policy_key(name.as_str().as_bytes()))
            }
            (None, BareItemFromInput::Token(name)) => member.key = Some(policy_key(name.as_str().as_bytes())),
            (None, BareItemFromInput::Integer(_)) => member.quota = count_of(&item),
            (None, _) => {}
        }
        let room = self.members.list.try_push(member).is_ok();
        Ok(self.members.list.last_mut().filter(|_| room).map(|member| Parameters { member, clock }))
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
            "qu" => self.member.unit = unit_of(&value),
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Infallible> {
        Ok(())
    }
}

fn count_of(item: &BareItemFromInput<'_>) -> Option<Count> {
    match item {
        BareItemFromInput::Integer(number) => Some(Count::from(i64::from(*number))),
        BareItemFromInput::Decimal(number) => count(number.to_string().as_bytes()),
        BareItemFromInput::String(text) => count(text.as_str().as_bytes()),
        _ => None,
    }
}

fn reset_of(item: &BareItemFromInput<'_>, clock: &Clock<'_>) -> Option<Reset> {
    let bare = |number| Some(Reset { value: Value::Bare(number), unit: TimeUnit::Seconds });
    match item {
        BareItemFromInput::Integer(number) => {
            bare(Duration::from_secs(u64::try_from(i64::from(*number)).ok()?))
        }
        BareItemFromInput::Decimal(number) => {
            let thousandths = i64::from(number.as_integer_scaled_1000());
            bare(Duration::from_millis(u64::try_from(thousandths).ok()?))
        }
        BareItemFromInput::String(text) => read_reset(text.as_str().as_bytes(), TimeUnit::Seconds, clock),
        _ => None,
    }
}

/// The quota unit: `requests`, `content-bytes` and `concurrent-requests` are the draft's, others are in use.
fn unit_of(item: &BareItemFromInput<'_>) -> Option<QuotaUnit> {
    let name = match item {
        BareItemFromInput::String(name) => name.as_str(),
        BareItemFromInput::Token(name) => name.as_str(),
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
