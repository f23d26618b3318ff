//! One response, one pass over its headers, and the rules by which the parts make a reading.

use std::borrow::Cow;
use std::time::Duration;

use arrayvec::ArrayVec;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::body::{Body, HONEST_DAILY_DELAY};
use super::marks::Marks;
use super::names::{Kind, may_be_structured};
use super::ratelimit::{self, Policies};
use super::reset::{Buckets, Summary};
use super::retry_after::Waits;
use super::types::{Hint, HintKind, HintSource, Terminal};
use super::value::{Advice, Clock};
use super::vendor::{Profile, is_rate_code, normal_code};
use super::{MAX_LINES, Reading};
use crate::units::{QuotaUnit, QuotaUnits};

/// Completes a reading that has only its status and moment, in its place, for it is large to be moved.
pub(super) fn read(profile: &Profile, headers: &HeaderMap, body: Option<&[u8]>, reading: &mut Reading) {
    let (status, received_at) = (reading.status, reading.received_at);
    reading.throttled = matches!(status.as_u16(), 429 | 503 | 529);
    let mut clock = Clock::new(headers, received_at);
    let (mut fields, mut marks) = (Fields::default(), Marks::default());
    for (name, value) in headers {
        let text = name.as_str().as_bytes();
        // No other field that counts has so short a name.
        if text.len() <= Clock::LONGEST_NAME {
            clock.note(name, value);
            continue;
        }
        match Kind::of(text) {
            Kind::Frequent(field) => fields.buckets.note_frequent(field, name, value, &clock),
            Kind::Structured => fields.note_structured(name, value, &clock),
            Kind::Silent if value.len() < Buckets::SHORTEST_SPECIAL => {}
            Kind::Limit | Kind::Silent => fields.note_limit(name, value, &clock),
            Kind::Mark => marks.note(name.as_str(), value, reading),
            Kind::Other => {}
        }
    }
    clock.all_are_noted();
    fields.policies.complete(&mut fields.buckets);
    reading.request_id = marks.request_id().cloned();
    let accepted = status.as_u16() < 400;
    reading.exhausted = fields.buckets.state_limits(accepted, profile, &clock, &mut reading.limits);
    if profile.inspects_body_of(status) {
        judge(profile, headers, body, &fields.buckets, &clock, reading);
    }
}

/// What a response that may be a refusal says beside its buckets. By itself, so that the usual response does not pay for
/// the room that it takes.
#[inline(never)]
fn judge(
    profile: &Profile,
    headers: &HeaderMap,
    body: Option<&[u8]>,
    buckets: &Buckets<'_>,
    clock: &Clock<'_>,
    reading: &mut Reading,
) {
    let waits = Waits::of(headers, clock);
    let body = body.map(|body| Body::read(profile, body, reading.received_at, clock)).unwrap_or_default();
    Refusal { profile, status: reading.status, headers, waits: &waits, buckets, body }.judge(reading, clock);
}

/// What the pass over the headers finds.
#[derive(Default)]
struct Fields<'h> {
    buckets: Buckets<'h>,
    policies: Policies,
    structured: usize,
}

impl<'h> Fields<'h> {
    #[inline(never)]
    fn note_limit(&mut self, name: &'h HeaderName, value: &HeaderValue, clock: &Clock<'_>) {
        if may_be_structured(name.as_str().as_bytes()) {
            self.note_structured(name, value, clock);
        } else {
            self.buckets.note_unusual(None, name, value, clock);
        }
    }

    #[inline(never)]
    fn note_structured(&mut self, name: &'h HeaderName, value: &HeaderValue, clock: &Clock<'_>) {
        if self.structured < MAX_LINES
            && ratelimit::note(name, value, clock, &mut self.buckets, &mut self.policies)
        {
            self.structured = self.structured.saturating_add(1);
        }
    }
}

/// A response that may be a refusal for want of capacity.
struct Refusal<'a> {
    profile: &'a Profile,
    status: StatusCode,
    headers: &'a HeaderMap,
    waits: &'a Waits<'a>,
    buckets: &'a Buckets<'a>,
    body: Body,
}

impl Refusal<'_> {
    fn judge(&self, reading: &mut Reading, clock: &Clock<'_>) {
        let summary = self.buckets.summary(self.profile, clock, &self.body.violated);
        reading.throttled = self.is_throttled(&summary);
        if self.status == StatusCode::PAYLOAD_TOO_LARGE {
            reading.terminal = Some(Terminal::RequestTooLarge);
            reading.named = self.hint(&summary).map(Box::new);
            if reading.throttled {
                reading.exhausted = union(reading.exhausted, self.named_units());
            }
            return;
        }
        if !reading.throttled {
            return;
        }
        let hint = self.hint(&summary);
        reading.terminal = self.terminal(&summary, hint.as_ref());
        let named = match reading.terminal {
            Some(Terminal::QuotaExhausted) => QuotaUnits::EMPTY.with(QuotaUnit::Quota),
            Some(Terminal::RequestTooLarge) => self.named_units(),
            // A directive says nothing of what is exhausted, and nothing else is asked.
            Some(_) => QuotaUnits::EMPTY,
            None => self.named_units(),
        };
        reading.exhausted = union(reading.exhausted, named);
        if reading.terminal.is_none() {
            if hint.is_none() {
                reading.backoff_floor = self.profile.backoff_floor;
            }
            reading.hint = hint;
        } else {
            reading.named = hint.map(Box::new);
        }
    }

    fn is_throttled(&self, summary: &Summary<'_>) -> bool {
        match self.status.as_u16() {
            429 | 503 | 529 => true,
            402 => self.profile.payment_required_is_quota,
            413 => self.body.rate_limited,
            // A vendor's own status also has its usual meaning, such as "forbidden": only evidence makes it a refusal.
            _ => {
                // `ThrottlingException:http://internal.amazon.com/coral/..`
                let throttling = self.headers.get("x-amzn-errortype").is_some_and(|kind| {
                    let kind = kind.to_str().unwrap_or_default();
                    is_rate_code(&normal_code(kind.split(':').next().unwrap_or(kind)))
                });
                summary.any_spent
                    || self.waits.choose().is_some()
                    || self.body.rate_limited
                    || self.body.terminal
                    || throttling
            }
        }
    }

    fn terminal(&self, summary: &Summary<'_>, hint: Option<&Hint>) -> Option<Terminal> {
        if self.status == StatusCode::PAYMENT_REQUIRED || self.body.terminal {
            return Some(Terminal::QuotaExhausted);
        }
        if self.body.too_large {
            return Some(Terminal::RequestTooLarge);
        }
        let directive = self.profile.should_retry.and_then(|name| self.headers.get(name));
        if directive.is_some_and(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"false")) {
            return Some(Terminal::ServerDirective);
        }
        let dishonest = hint.is_none_or(|hint| hint.wait < HONEST_DAILY_DELAY);
        let unnamed = hint.is_none_or(|hint| hint.kind == HintKind::WindowReset);
        let daily = self.body.daily_quota && dishonest
            || self.body.long_quota && hint.is_none()
            || summary.daily_spent && unnamed;
        daily.then_some(Terminal::QuotaExhausted)
    }

    /// What the response names as exhausted, the counters apart: a header that says so, else codes, else sentences.
    fn named_units(&self) -> QuotaUnits {
        let mut seen = ArrayVec::<&str, 8>::new();
        let mut units = QuotaUnits::EMPTY;
        for (header, part, unit) in self.profile.all_markers() {
            if seen.contains(&header) {
                continue;
            }
            let says = |value: &HeaderValue| contains_ignore_case(value.as_bytes(), part);
            if self.headers.get(header).is_some_and(says) {
                units = units.with(unit);
                // The first match of a header counts.
                if seen.try_push(header).is_err() {
                    break;
                }
            }
        }
        if units.is_empty() {
            units = union(self.body.units, self.buckets.units_of(&self.body.violated, self.profile));
        }
        let counted = self.buckets.spent(self.profile);
        if units.is_empty() && counted.is_empty() { self.body.prose_units } else { units }
    }

    /// Explicit waits first; then the body's, unless spent buckets say when they reset.
    fn hint(&self, summary: &Summary<'_>) -> Option<Hint> {
        if let Some((advice, name)) = self.waits.choose() {
            let advice = self.legacy_milliseconds(advice, summary).unwrap_or(advice);
            return Some(hint(advice, HintKind::RetryAfter, HintSource::Header(name.clone())));
        }
        let body = self.body.advice.as_ref().map(|body| {
            let advice = self.legacy_milliseconds(body.advice, summary).unwrap_or(body.advice);
            hint(advice, body.kind, HintSource::Body(Cow::Owned(body.path.clone())))
        });
        let reset = summary
            .advice
            .as_ref()
            .map(|reset| hint(reset.advice, HintKind::WindowReset, HintSource::Header(reset.source.clone())));
        match (body, reset) {
            // A reset is the time to a full bucket, an explicit delay the time to the next place in it.
            (Some(body), Some(reset)) if summary.any_spent => {
                let explicit = body.kind == HintKind::RetryAfter && body.wait != reset.wait;
                Some(if explicit { body } else { reset })
            }
            (Some(body), _) => Some(body),
            (None, reset) => reset,
        }
    }

    /// Discord's API before version 8 stated milliseconds where seconds belong. The reset of a spent bucket gives it
    /// away; a shared scope's counters belong to another bucket and prove nothing.
    fn legacy_milliseconds(&self, stated: Advice, summary: &Summary<'_>) -> Option<Advice> {
        if !self.profile.legacy_millisecond_retry_after || stated.at.is_some() || !summary.any_spent {
            return None;
        }
        if self.headers.contains_key("x-ratelimit-scope") {
            return None;
        }
        let reset = summary.advice.as_ref()?.advice.wait;
        let millis = Duration::from_millis(u64::try_from(stated.wait.as_millis().div_ceil(1_000)).ok()?);
        let second = Duration::from_secs(1);
        let too_long = stated.wait > reset.saturating_mul(2).saturating_add(second);
        let fits = !reset.is_zero() && millis <= reset.saturating_add(second);
        (too_long && fits).then_some(Advice { wait: millis, at: None })
    }
}

fn hint(advice: Advice, kind: HintKind, source: HintSource) -> Hint {
    Hint { wait: advice.wait, at: advice.at, kind, source }
}

fn union(one: QuotaUnits, other: QuotaUnits) -> QuotaUnits {
    other.iter().fold(one, QuotaUnits::with)
}

fn contains_ignore_case(value: &[u8], part: &str) -> bool {
    let part = part.as_bytes();
    part.is_empty() || value.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}
