//! `Retry-After` ([RFC 9110 §10.2.3]) and its relatives: the explicit waits.
//!
//! [RFC 9110 §10.2.3]: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::value::{Advice, BareUnit, Clock, Stated, is_weekday, timespan};

/// The most members of a comma-joined value that are looked at.
const MAX_MEMBERS: usize = 8;

/// One explicit wait and the field it came from.
pub(super) type Explicit<'h> = (Advice, &'h HeaderName);

/// The explicit waits of one response, the most precise statement first.
#[derive(Debug, Default)]
pub(super) struct Waits<'h> {
    /// `retry-after-ms`, in use at OpenAI and Azure.
    millis: Option<Explicit<'h>>,
    /// `x-ms-retry-after-ms`, in use at Azure, and what is as precise elsewhere.
    ms_millis: Option<Explicit<'h>>,
    retry_after: Option<Explicit<'h>>,
    /// Prefixed relatives such as `x-ratelimit-retry-after`.
    other: Option<Explicit<'h>>,
}

enum Place {
    Millis,
    MsMillis,
    RetryAfter,
    Other,
}

fn place(name: &str) -> Option<(Place, BareUnit)> {
    Some(match name {
        "retry-after" => (Place::RetryAfter, BareUnit::Seconds),
        "retry-after-ms" => (Place::Millis, BareUnit::Milliseconds),
        "x-ms-retry-after-ms" => (Place::MsMillis, BareUnit::Milliseconds),
        // What AWS's API Gateway renames is the field of the service behind it.
        "x-amzn-remapped-retry-after" => (Place::Other, BareUnit::Seconds),
        // Milliseconds, as AWS's own SDKs read it:
        // https://docs.rs/aws-runtime/latest/aws_runtime/retries/classifiers/struct.AwsErrorCodeClassifier.html
        _ if name.starts_with("x-amz") && name.ends_with("-retry-after") => {
            (Place::MsMillis, BareUnit::Milliseconds)
        }
        // Traefik states a Go duration beside a `Retry-After` of whole seconds.
        "x-retry-in" => (Place::MsMillis, BareUnit::Seconds),
        // GitHub Models.
        "x-ratelimit-timeremaining" => (Place::Other, BareUnit::Seconds),
        _ => {
            let at = name.rfind("retry-after").or_else(|| name.rfind("retryafter"))?;
            let tail = name.get(at..)?;
            match tail.strip_prefix("retry-after").or_else(|| tail.strip_prefix("retryafter"))? {
                "" | "-seconds" | "-sec" | "-s" => (Place::Other, BareUnit::Seconds),
                "-ms" | "-milliseconds" | "-millis" => (Place::Other, BareUnit::Milliseconds),
                _ => return None,
            }
        }
    })
}

impl<'h> Waits<'h> {
    /// The explicit waits among some headers.
    pub(super) fn of(headers: &'h HeaderMap, clock: &Clock<'_>) -> Self {
        let mut waits = Self::default();
        for (name, value) in headers {
            waits.note(name, value, clock);
        }
        waits
    }

    /// Takes in one field line; of several the longest valid wait counts.
    pub(super) fn note(&mut self, name: &'h HeaderName, value: &HeaderValue, clock: &Clock<'_>) {
        let Some((place, unit)) = place(name.as_str()) else { return };
        let Some(advice) = read(value.as_bytes(), unit, clock) else { return };
        let slot = match place {
            Place::Millis => &mut self.millis,
            Place::MsMillis => &mut self.ms_millis,
            Place::RetryAfter => &mut self.retry_after,
            Place::Other => &mut self.other,
        };
        if slot.is_none_or(|(known, _)| advice.wait > known.wait) {
            *slot = Some((advice, name));
        }
    }

    /// The wait that counts.
    pub(super) fn choose(&self) -> Option<Explicit<'h>> {
        let precise = [self.millis, self.ms_millis].into_iter().flatten();
        // Milliseconds of 0 beside a positive coarser statement are a truncation, not an invitation.
        let positive = |(advice, _): &Explicit<'_>| advice.wait > Duration::ZERO;
        let mut ranked = precise.chain(self.retry_after);
        let first = ranked.next();
        match first {
            Some((_, name)) if name.as_str() != "retry-after" => {
                first.filter(positive).or_else(|| ranked.find(positive)).or(first)
            }
            Some(_) => first,
            None => self.other,
        }
    }
}

/// The value as a whole first, for dates contain commas; else the longest of the comma-joined members.
fn read(value: &[u8], unit: BareUnit, clock: &Clock<'_>) -> Option<Advice> {
    let value = value.trim_ascii();
    if value.len() > super::MAX_FIELD {
        return None;
    }
    if unit == BareUnit::Milliseconds
        && let Some(delay) = timespan(value)
    {
        return clock.advice(Stated::delay(delay));
    }
    clock.read(value, unit).or_else(|| longest_member(value, unit, clock))
}

fn longest_member(value: &[u8], unit: BareUnit, clock: &Clock<'_>) -> Option<Advice> {
    let mut longest: Option<Advice> = None;
    let mut rest = Some(value);
    for _ in 0..MAX_MEMBERS {
        let Some(left) = rest else { break };
        let (mut member, mut tail) = split_member(left, 0);
        // The comma behind a weekday belongs to the date.
        if is_weekday(member.trim_ascii()) {
            (member, tail) = split_member(left, member.len().saturating_add(1));
        }
        if let Some(advice) = clock.read(member, unit)
            && longest.is_none_or(|known| advice.wait > known.wait)
        {
            longest = Some(advice);
        }
        rest = tail;
    }
    longest
}

/// Splits at the first comma from `from` on.
fn split_member(value: &[u8], from: usize) -> (&[u8], Option<&[u8]>) {
    let comma = value.iter().skip(from).position(|byte| *byte == b',').map(|at| at.saturating_add(from));
    match comma.and_then(|at| Some((value.get(..at)?, value.get(at.checked_add(1)?..)?))) {
        Some((member, tail)) => (member, Some(tail)),
        None => (value, None),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn choose(fields: &[(&'static str, &str)]) -> Option<(u128, String)> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let now = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(1_559_559_600)).unwrap();
        let clock = Clock::new(&headers, now);
        let waits = Waits::of(&headers, &clock);
        waits.choose().map(|(advice, name)| (advice.wait.as_millis(), name.to_string()))
    }

    #[test]
    fn the_more_precise_field_wins_in_any_order() {
        let chosen = |wait, name: &str| Some((wait, name.to_owned()));
        assert_eq!(
            choose(&[("retry-after", "10"), ("retry-after-ms", "3000")]),
            chosen(3000, "retry-after-ms")
        );
        assert_eq!(
            choose(&[("x-ms-retry-after-ms", "1"), ("retry-after-ms", "3000")]),
            chosen(3000, "retry-after-ms")
        );
        assert_eq!(
            choose(&[("x-ratelimit-retry-after", "5"), ("retry-after", "0")]),
            chosen(0, "retry-after")
        );
        assert_eq!(choose(&[("x-ratelimit-timeremaining", "5")]), chosen(5000, "x-ratelimit-timeremaining"));
        assert_eq!(choose(&[("x-retry-in", "480ms"), ("retry-after", "0")]), chosen(480, "x-retry-in"));
        assert_eq!(choose(&[("x-amz-retry-after", "1500")]), chosen(1500, "x-amz-retry-after"));
        assert_eq!(
            choose(&[("x-amzn-kiro-ratelimit-retry-after", "800")]),
            chosen(800, "x-amzn-kiro-ratelimit-retry-after")
        );
        assert_eq!(
            choose(&[("x-amz-retry-after", "1500"), ("retry-after", "2")]),
            chosen(1500, "x-amz-retry-after")
        );
        assert_eq!(
            choose(&[("x-amzn-remapped-retry-after", "30")]),
            chosen(30_000, "x-amzn-remapped-retry-after"),
            "a gateway's name for the field of the service behind it"
        );
        assert_eq!(choose(&[("x-retry-in", "3.2s")]), chosen(3200, "x-retry-in"));
        assert_eq!(choose(&[("x-app-retry-after-ms", "5")]), chosen(5, "x-app-retry-after-ms"));
        assert_eq!(choose(&[("retry-after-ms", "junk"), ("retry-after", "7")]), chosen(7000, "retry-after"));
    }

    #[test]
    fn zero_milliseconds_beside_a_positive_wait_are_a_truncation() {
        let chosen = |wait, name: &str| Some((wait, name.to_owned()));
        assert_eq!(choose(&[("retry-after-ms", "0"), ("retry-after", "5")]), chosen(5000, "retry-after"));
        assert_eq!(
            choose(&[("x-ms-retry-after-ms", "0"), ("retry-after", "5")]),
            chosen(5000, "retry-after")
        );
        assert_eq!(choose(&[("retry-after-ms", "0"), ("retry-after", "0")]), chosen(0, "retry-after-ms"));
        assert_eq!(choose(&[("retry-after-ms", "0")]), chosen(0, "retry-after-ms"));
    }

    #[test]
    fn several_lines_and_members_the_longest_counts() {
        let wait = |fields: &[(&'static str, &str)]| choose(fields).map(|(wait, _)| wait);
        assert_eq!(wait(&[("retry-after", "5"), ("retry-after", "30")]), Some(30_000));
        assert_eq!(wait(&[("retry-after", "30"), ("retry-after", "5")]), Some(30_000));
        assert_eq!(wait(&[("retry-after", "5, 30")]), Some(30_000));
        assert_eq!(wait(&[("retry-after", "nope,7,")]), Some(7_000));
        assert_eq!(wait(&[("retry-after", "5, Mon, 03 Jun 2019 11:30:12 GMT")]), Some(1_812_000));
        assert_eq!(
            wait(&[("retry-after", "Mon, 03 Jun 2019 11:30:12 GMT, Mon, 03 Jun 2019 11:30:13 GMT")]),
            Some(1_813_000)
        );
        assert_eq!(wait(&[("retry-after", "Zun, 29 Sep 2023 16:26:27 GMT")]), None);
        assert_eq!(wait(&[("retry-after", "")]), None);
    }

    #[test]
    fn a_time_span_is_read_in_milliseconds_fields_only() {
        let wait = |fields: &[(&'static str, &str)]| choose(fields).map(|(wait, _)| wait);
        assert_eq!(wait(&[("x-ms-retry-after-ms", "00:00:00.033")]), Some(33));
        assert_eq!(wait(&[("retry-after", "00:00:33")]), None);
    }
}
