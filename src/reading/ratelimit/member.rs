//! One member of a `RateLimit` or `RateLimit-Policy` list: a policy and what is said of it.

use std::time::Duration;

use sfv::{BareItem, Item};

use super::super::names::hash;
use super::super::reset::{Reset, read_reset};
use super::super::value::{BareUnit, Clock, Count, Decimal, count, decimal};
use crate::units::QuotaUnit;

/// What a member is called.
#[derive(Debug, Clone, Copy)]
pub(super) enum Name {
    /// The key of the bucket that a policy's name stands for.
    Policy(u64),
    /// Drafts up to 06: the policy is its quota, `100;w=60`.
    Quota(Option<Count>),
    Other,
}

/// A policy and what its parameters state.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Name,
    /// `q`
    pub(super) quota: Option<Count>,
    /// `r`
    pub(super) remaining: Option<Count>,
    /// `w`
    pub(super) window: Option<Duration>,
    /// `t`
    pub(super) reset: Option<Reset>,
    /// `qu`
    pub(super) unit: Option<QuotaUnit>,
}

/// A value that is of any use here.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bare<'v> {
    /// An integer that is not negative.
    Whole(u64),
    /// Any other number, in decimal notation.
    Number(&'v [u8]),
    String(&'v [u8]),
    Token(&'v [u8]),
}

impl Bare<'_> {
    /// Hands on a parsed value, of which a number is printed again.
    pub(super) fn with<T>(item: &BareItem, then: impl FnOnce(Option<Bare<'_>>) -> T) -> T {
        match item {
            BareItem::Integer(number) => match u64::try_from(i64::from(*number)) {
                Ok(number) => then(Some(Bare::Whole(number))),
                Err(_) => then(Some(Bare::Number(number.to_string().as_bytes()))),
            },
            BareItem::Decimal(number) => then(Some(Bare::Number(number.to_string().as_bytes()))),
            BareItem::String(text) => then(Some(Bare::String(text.as_str().as_bytes()))),
            BareItem::Token(text) => then(Some(Bare::Token(text.as_str().as_bytes()))),
            _ => then(None),
        }
    }

    pub(super) fn count(self) -> Option<Count> {
        match self {
            Self::Whole(number) => Some(Count::of(number)),
            Self::Number(text) | Self::String(text) => count(text),
            Self::Token(_) => None,
        }
    }

    pub(super) fn reset(self, clock: &Clock<'_>) -> Option<Reset> {
        match self {
            Self::Whole(number) => Some(Reset::Bare(Decimal::of_whole(number), BareUnit::Seconds)),
            Self::Number(text) => decimal(text).map(|number| Reset::Bare(number, BareUnit::Seconds)),
            Self::String(text) => read_reset(text, BareUnit::Seconds, clock),
            Self::Token(_) => None,
        }
    }

    pub(super) fn window(self) -> Option<Duration> {
        self.count().map(Count::whole).filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    /// The quota unit: `requests`, `content-bytes` and `concurrent-requests` are the draft's, others are in use.
    fn unit(self) -> Option<QuotaUnit> {
        let (Self::String(name) | Self::Token(name)) = self else { return None };
        Some(match name {
            b"requests" => QuotaUnit::Requests,
            b"concurrent-requests" => QuotaUnit::Concurrency,
            b"tokens" => QuotaUnit::Tokens,
            b"input-tokens" | b"prompt-tokens" => QuotaUnit::InputTokens,
            b"output-tokens" | b"completion-tokens" => QuotaUnit::OutputTokens,
            _ => QuotaUnit::Quota,
        })
    }
}

impl Member {
    pub(super) fn named(name: Bare<'_>, is_integer: bool) -> Self {
        let name = match name {
            Bare::String(text) | Bare::Token(text) => Name::Policy(policy_key(text)),
            number @ (Bare::Whole(_) | Bare::Number(_)) if is_integer => Name::Quota(number.count()),
            Bare::Whole(_) | Bare::Number(_) => Name::Other,
        };
        Self { name, ..Self::unnamed() }
    }

    const fn unnamed() -> Self {
        Self { name: Name::Other, quota: None, remaining: None, window: None, reset: None, unit: None }
    }

    /// Takes in a parameter; of two of one name the later counts.
    pub(super) fn note(&mut self, key: &[u8], value: Option<Bare<'_>>, clock: &Clock<'_>) {
        match key {
            b"q" => self.quota = value.and_then(Bare::count),
            b"r" => self.remaining = value.and_then(Bare::count),
            b"w" => self.window = value.and_then(Bare::window),
            b"t" => self.reset = value.and_then(|value| value.reset(clock)),
            b"qu" => self.unit = value.and_then(Bare::unit),
            _ => {}
        }
    }

    /// A member of a parsed list.
    pub(super) fn of(item: &Item, clock: &Clock<'_>) -> Self {
        let is_integer = matches!(item.bare_item, BareItem::Integer(_));
        let mut member = Bare::with(&item.bare_item, |name| {
            name.map_or_else(Self::unnamed, |name| Self::named(name, is_integer))
        });
        for (key, value) in &item.params {
            Bare::with(value, |value| member.note(key.as_str().as_bytes(), value, clock));
        }
        member
    }
}

/// The key of the bucket that a policy's name stands for.
pub(in crate::reading) fn policy_key(name: &[u8]) -> u64 {
    const POLICY: u64 = hash(b"\0policy");
    hash(name).wrapping_add(POLICY)
}
