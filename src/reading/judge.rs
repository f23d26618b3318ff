//! One response, one pass over its headers, and the rules by which the parts make a reading.

use std::time::Duration;

use arrayvec::ArrayVec;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::body::{Body, HONEST_DAILY_DELAY};
use super::hint::{Hint, HintKind, HintSource};
use super::marks::Marks;
use super::names::may_be_limit;
use super::profile::{Profile, Rules, is_rate_code, normal_code};
use super::structured::{self, Policies};
use super::value::{Advice, Clock, Stated, TimeUnit};
use super::waits::{self, Explicit};
use super::windows::{Summary, Windows};
use super::{MAX_LINES, Reading, Terminal};
use crate::units::{QuotaUnit, QuotaUnits};

pub(super) fn read(profile: &Profile, headers: &HeaderMap, body: Option<&[u8]>, reading: &mut Reading) {
    let rules = profile.rules();
    let clock = Clock::new(headers, reading.received_at, rules.utc_offset);
    let mut fields = Fields::default();
    for (name, value) in headers {
        if may_be_limit(name.as_str()) {
            fields.note(name, value, &clock);
        } else {
            fields.marks.note(name.as_str(), value);
        }
    }
    fields.windows.pair(&clock);
    fields.policies.complete(&mut fields.windows);
    reading.throttled = matches!(reading.status.as_u16(), 429 | 503 | 529);
    reading.request_id = fields.marks.request_id().cloned();
    reading.native_spill_over = fields.marks.native.take();
    reading.proxy_attempts = fields.marks.proxy_attempts;
    let accepted = reading.status.as_u16() < 400;
    reading.exhausted = fields.windows.state_limits(accepted, rules, &clock, &mut reading.limits);
    if profile.inspects_body_of(reading.status) {
        let body = body.map(|body| Body::read(rules, body, &clock, false)).unwrap_or_default();
        let refusal =
            Refusal { rules, status: reading.status, headers, fields: &fields, clock: &clock, body };
        refusal.judge(reading);
    }
}

#[derive(Default)]
struct Fields<'h> {
    windows: Windows<'h>,
    policies: Policies,
    marks: Marks<'h>,
    structured: usize,
    /// The window of a violated policy that a field describes.
    violated_window: Option<Duration>,
}

impl<'h> Fields<'h> {
    fn note(&mut self, name: &'h HeaderName, value: &HeaderValue, clock: &Clock<'_>) {
        let text = name.as_str();
        if text.ends_with("ratelimit") || text.ends_with("ratelimit-policy") {
            if self.structured < MAX_LINES
                && structured::note(name, value, clock, &mut self.windows, &mut self.policies)
            {
                self.structured = self.structured.saturating_add(1);
                return;
            }
        } else if text.ends_with("policy") {
            self.violated_window = self.violated_window.max(window_in_json(value.as_bytes()));
            return;
        }
        self.windows.note(name, value, clock);
    }
}

/// The window of a policy that a header describes in JSON: `{"samplingPeriod": "PT1M", "limit": 1}` (Sentinel Hub).
fn window_in_json(value: &[u8]) -> Option<Duration> {
    if value.len() > super::MAX_FIELD || !value.trim_ascii().starts_with(b"{") {
        return None;
    }
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(value).ok()?;
    let names = |key: &str| ["period", "window", "interval"].iter().any(|word| key.contains(word));
    let stated = members.iter().filter(|(key, _)| names(&key.to_ascii_lowercase()));
    super::value::iso8601(stated.filter_map(|(_, value)| value.as_str()).next()?.as_bytes())
}

struct Refusal<'a> {
    rules: &'a Rules,
    status: StatusCode,
    headers: &'a HeaderMap,
    fields: &'a Fields<'a>,
    clock: &'a Clock<'a>,
    body: Body,
}

impl Refusal<'_> {
    fn judge(&self, reading: &mut Reading) {
        let windows = &self.fields.windows;
        let summary = windows.summary(self.rules, self.clock, &self.body.violated);
        let explicit = waits::explicit(self.headers, self.clock, self.rules);
        reading.throttled = self.is_throttled(&summary, explicit.as_ref());
        let too_large = self.status == StatusCode::PAYLOAD_TOO_LARGE
            && (explicit.is_none() || self.body.too_large || self.body.says_too_large);
        if !reading.throttled && !too_large {
            return;
        }
        let hint = self.hint(&summary, explicit.as_ref());
        reading.terminal =
            if too_large { Some(Terminal::RequestTooLarge) } else { self.terminal(&summary, hint.as_ref()) };
        if reading.throttled {
            let named = match reading.terminal {
                Some(Terminal::QuotaExhausted) => QuotaUnits::EMPTY.with(QuotaUnit::Quota),
                // A directive says nothing of what is exhausted, and nothing else is asked.
                Some(Terminal::ServerDirective) => QuotaUnits::EMPTY,
                Some(Terminal::RequestTooLarge) | None => self.named_units(),
            };
            reading.exhausted.extend(named.iter());
        }
        if reading.terminal.is_none() && hint.is_none() {
            reading.backoff_floor = self.rules.backoff_floor();
        }
        reading.hint = hint.filter(|hint| reading.throttled && !self.is_dishonest(hint));
    }

    fn is_throttled(&self, summary: &Summary<'_>, explicit: Option<&Explicit<'_>>) -> bool {
        match self.status.as_u16() {
            200 => self.body.refuses,
            429 | 503 | 529 => true,
            402 if self.is_bill() => true,
            413 => self.body.rate_limited || explicit.is_some(),
            402 if !self.rules.refusal_statuses.contains(&402) => false,
            // Such a status also has its usual meaning, such as "forbidden": only evidence makes it a refusal.
            _ => {
                // `ThrottlingException:http://internal.amazon.com/coral/..`
                let throttling = self.headers.get("x-amzn-errortype").is_some_and(|kind| {
                    let kind = kind.to_str().unwrap_or_default();
                    is_rate_code(&normal_code(kind.split(':').next().unwrap_or(kind)))
                });
                summary.any_spent
                    || explicit.is_some()
                    || self.body.advice.is_some()
                    || self.body.rate_limited
                    || self.body.final_code
                    || self.body.final_phrase
                    || throttling
            }
        }
    }

    /// Whether 402 is what it says: credit, and not a rate.
    fn is_bill(&self) -> bool {
        !self.rules.payment_required_is_ordinary && !self.rules.refusal_statuses.contains(&402)
    }

    fn terminal(&self, summary: &Summary<'_>, hint: Option<&Hint>) -> Option<Terminal> {
        let passing_wait = self.rules.passing_wait_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        let passes = hint
            .zip(passing_wait)
            .is_some_and(|(hint, longest)| hint.kind == HintKind::RetryAfter && hint.wait <= longest);
        let bill = self.status == StatusCode::PAYMENT_REQUIRED && self.is_bill();
        if bill || self.body.final_code && !passes || self.body.final_phrase {
            return Some(Terminal::QuotaExhausted);
        }
        if self.body.too_large {
            return Some(Terminal::RequestTooLarge);
        }
        let directive =
            self.headers.get(self.rules.should_retry_header.as_deref().unwrap_or("x-should-retry"));
        if directive.is_some_and(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"false")) {
            return Some(Terminal::ServerDirective);
        }
        let unnamed = hint.is_none_or(|hint| hint.kind == HintKind::WindowReset);
        let daily = self.body.daily_quota && hint.is_none_or(|hint| self.is_dishonest(hint))
            || self.body.long_quota && hint.is_none()
            || summary.daily_spent && unnamed;
        daily.then_some(Terminal::QuotaExhausted)
    }

    /// Whether a quota per day is said to come back sooner than one does.
    fn is_dishonest(&self, hint: &Hint) -> bool {
        self.body.daily_quota && hint.wait < HONEST_DAILY_DELAY
    }

    /// What the response names as exhausted, the counters apart: a header that says so, else codes, else sentences.
    fn named_units(&self) -> QuotaUnits {
        let (mut seen, mut units) = (ArrayVec::<&str, 8>::new(), QuotaUnits::EMPTY);
        for (header, part, unit) in self.rules.markers() {
            let says = |value: &HeaderValue| contains_ignore_case(value.as_bytes(), part);
            // The first match of a header counts.
            if !seen.contains(&header.as_str())
                && self.headers.get(header).is_some_and(says)
                && seen.try_push(header).is_ok()
            {
                units = units.with(*unit);
            }
        }
        if units.is_empty() {
            units = self.body.units;
            units.extend(self.fields.windows.units_of(&self.body.violated, self.rules).iter());
        }
        let counted = self.fields.windows.spent(self.rules);
        if units.is_empty() && counted.is_empty() { self.body.prose_units } else { units }
    }

    /// Explicit waits first; then the body's, unless spent windows say when they reset.
    fn hint(&self, summary: &Summary<'_>, explicit: Option<&Explicit<'_>>) -> Option<Hint> {
        let reset = summary.advice.map(|(advice, name)| from_header(advice, HintKind::WindowReset, name));
        if let Some(explicit) = explicit {
            let advice = self.in_milliseconds(explicit, summary).unwrap_or(explicit.advice);
            // Whole seconds may have been rounded down; an epoch to the fraction was not, and the `Date` that it is measured
            // against is at most a second behind.
            let rounded = explicit.bare.is_some() && summary.any_spent && summary.exact;
            let agrees = |exact: &Hint| exact.wait.abs_diff(advice.wait) < Duration::from_secs(2);
            return match reset {
                Some(exact) if rounded && agrees(&exact) && exact.wait > advice.wait => Some(exact),
                _ => Some(from_header(advice, HintKind::RetryAfter, explicit.name)),
            };
        }
        let body = self.body.advice.as_ref().map(|body| {
            let advice = self.legacy_milliseconds(body.advice, summary).unwrap_or(body.advice);
            let source = HintSource::Body(body.path.clone().into());
            Hint { wait: advice.wait, at: advice.at, kind: body.kind, source }
        });
        match (body, reset) {
            // A reset is the time to a full window, an explicit delay the time to the next place in it.
            (Some(body), Some(reset)) if summary.any_spent => {
                let explicit = body.kind == HintKind::RetryAfter && body.wait != reset.wait;
                Some(if explicit { body } else { reset })
            }
            (body, reset) => body.or(reset),
        }
    }

    /// A number of seconds that is absurd beside what else is stated, and as milliseconds is not. A penalty may well be longer
    /// than the window that was overrun, so that it takes a hundred of them.
    fn in_milliseconds(&self, explicit: &Explicit<'_>, summary: &Summary<'_>) -> Option<Advice> {
        if let Some(legacy) = self.legacy_milliseconds(explicit.advice, summary) {
            return Some(legacy);
        }
        let number = explicit.bare?;
        let windows = [self.fields.violated_window, summary.window, self.fields.policies.longest_window()];
        let window = windows.into_iter().flatten().max()?;
        let is_delay = matches!(Stated::bare(number, TimeUnit::Seconds), Stated::Delay(_));
        let absurd = number >= window.saturating_mul(100)
            && number <= window.saturating_mul(1_000)
            && !is_round(number.as_secs());
        (is_delay && absurd).then(|| self.clock.advice(Stated::bare(number, TimeUnit::Milliseconds)))
    }

    /// Discord's API before version 8 stated milliseconds where seconds belong. The reset of a spent window gives it
    /// away; a shared scope's counters belong to another window and prove nothing.
    fn legacy_milliseconds(&self, stated: Advice, summary: &Summary<'_>) -> Option<Advice> {
        let shared = self.headers.contains_key("x-ratelimit-scope");
        if !self.rules.legacy_millisecond_retry_after || stated.at.is_some() || !summary.any_spent || shared {
            return None;
        }
        let (reset, _) = summary.advice?;
        let millis = Duration::from_millis(u64::try_from(stated.wait.as_millis().div_ceil(1_000)).ok()?);
        let second = Duration::from_secs(1);
        let too_long = stated.wait > reset.wait.saturating_mul(2).saturating_add(second);
        let fits = !reset.wait.is_zero() && millis <= reset.wait.saturating_add(second);
        (too_long && fits).then_some(Advice { wait: millis, at: None })
    }
}

/// Whether a number of seconds is one that people set: some minutes, some hours. Milliseconds that count down hardly ever
/// come to one of these, and round ones are whole thousands.
const fn is_round(seconds: u64) -> bool {
    let hours = seconds.is_multiple_of(3_600) && !seconds.is_multiple_of(1_000);
    hours || matches!(seconds, 60 | 120 | 180 | 300 | 600 | 900 | 1_200 | 1_800 | 2_700)
}

fn from_header(advice: Advice, kind: HintKind, name: &HeaderName) -> Hint {
    Hint { wait: advice.wait, at: advice.at, kind, source: HintSource::Header(name.clone()) }
}

fn contains_ignore_case(value: &[u8], part: &str) -> bool {
    let part = part.as_bytes();
    part.is_empty() || value.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}
