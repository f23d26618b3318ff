//! `Retry-After` ([RFC 9110 §10.2.3]) and its relatives: the explicit waits.
//!
//! [RFC 9110 §10.2.3]: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3

use std::cmp::Reverse;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::MAX_FIELD;
use super::profile::Rules;
use super::value::{Advice, Clock, Stated, TimeUnit, Value, is_weekday, timespan};

/// The most members of a comma-joined value that are read.
const MAX_MEMBERS: usize = 8;

#[derive(Debug, Clone, Copy)]
pub(super) struct Explicit<'h> {
    pub(super) advice: Advice,
    pub(super) name: &'h HeaderName,
    rank: Rank,
    /// A number of whole seconds that says so by nothing but the field's definition.
    pub(super) bare: Option<Duration>,
}

/// How a field states a wait, the most precise way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Profile,
    /// `retry-after-ms`, in use at OpenAI and Azure.
    Millis,
    /// `x-ms-retry-after-ms`, in use at Azure, and what is as precise elsewhere.
    OtherMillis,
    RetryAfter,
    /// Prefixed relatives such as `x-ratelimit-retry-after`.
    Relative,
}

fn rank_of(name: &str, rules: &Rules) -> Option<(Rank, TimeUnit)> {
    if let Some((_, unit)) = rules.wait_headers.iter().find(|(known, _)| known == name) {
        return Some((Rank::Profile, *unit));
    }
    Some(match name {
        "retry-after" => (Rank::RetryAfter, TimeUnit::Seconds),
        "retry-after-ms" => (Rank::Millis, TimeUnit::Milliseconds),
        "x-ms-retry-after-ms" => (Rank::OtherMillis, TimeUnit::Milliseconds),
        // What AWS's API Gateway renames is the field of the service behind it.
        "x-amzn-remapped-retry-after" => (Rank::Relative, TimeUnit::Seconds),
        // Milliseconds, as AWS's own SDKs read it:
        // https://docs.rs/aws-runtime/latest/aws_runtime/retries/classifiers/struct.AwsErrorCodeClassifier.html
        _ if name.starts_with("x-amz") && name.ends_with("-retry-after") => {
            (Rank::OtherMillis, TimeUnit::Milliseconds)
        }
        // Traefik states a Go duration beside a `Retry-After` of whole seconds.
        "x-retry-in" => (Rank::OtherMillis, TimeUnit::Seconds),
        // GitHub Models, tower_governor.
        "x-ratelimit-timeremaining" | "x-ratelimit-after" => (Rank::Relative, TimeUnit::Seconds),
        _ => {
            let spellings = ["retry-after", "retryafter", "retry_after"];
            let (at, spelling) = spellings.iter().find_map(|text| Some((name.rfind(text)?, text)))?;
            // A setting is not the wait itself.
            if name.split(['-', '_']).any(|word| matches!(word, "max" | "min" | "default" | "no")) {
                return None;
            }
            match name.get(at.checked_add(spelling.len())?..)? {
                "" | "-seconds" | "-sec" | "-s" => (Rank::Relative, TimeUnit::Seconds),
                "-ms" | "-milliseconds" | "-millis" => (Rank::Relative, TimeUnit::Milliseconds),
                _ => return None,
            }
        }
    })
}

/// The explicit wait among some headers that counts: that of the most precise field, the longest if it stands there several
/// times. Milliseconds of 0 beside a positive coarser statement are a truncation, not an invitation.
pub(super) fn explicit<'h>(headers: &'h HeaderMap, clock: &Clock<'_>, rules: &Rules) -> Option<Explicit<'h>> {
    let stated = |(name, value): (&'h HeaderName, &HeaderValue)| {
        let (rank, unit) = rank_of(name.as_str(), rules)?;
        let (advice, bare) = read(value.as_bytes(), unit, clock)?;
        Some(Explicit { advice, name, rank, bare })
    };
    let order = |of: &Explicit<'h>| (Reverse(of.rank), of.advice.wait, Reverse(of.name.as_str()));
    let best = headers.iter().filter_map(stated).min_by(|one, other| order(other).cmp(&order(one)))?;
    if !best.advice.wait.is_zero() || best.rank >= Rank::RetryAfter {
        return Some(best);
    }
    let positive = |of: &Explicit<'h>| of.rank < Rank::Relative && !of.advice.wait.is_zero();
    let coarser = headers.iter().filter_map(stated).filter(positive);
    Some(coarser.min_by(|one, other| order(other).cmp(&order(one))).unwrap_or(best))
}

pub(super) fn is_wait(name: &str, rules: &Rules) -> bool {
    rank_of(name, rules).is_some()
}

/// The value as a whole first, for dates contain commas; else the longest of the comma-joined members.
fn read(value: &[u8], unit: TimeUnit, clock: &Clock<'_>) -> Option<(Advice, Option<Duration>)> {
    let value = value.trim_ascii();
    if value.len() > MAX_FIELD {
        return None;
    }
    if let Some(delay) = timespan(value).filter(|_| unit == TimeUnit::Milliseconds) {
        return Some((clock.advice(Stated::delay(delay)), None));
    }
    let Some(whole) = Value::read(value, clock) else {
        let members = members(value).take(MAX_MEMBERS).filter_map(|member| clock.read(member, unit));
        return members.min_by_key(|advice| Reverse(advice.wait)).map(|longest| (longest, None));
    };
    let bare = match whole {
        Value::Bare(number) if unit == TimeUnit::Seconds && number.subsec_nanos() == 0 => Some(number),
        _ => None,
    };
    Some((clock.advice(whole.stated(unit)), bare))
}

/// The comma-joined members of a value; the comma behind a weekday belongs to the date.
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let left = rest?;
        let comma = |from: usize| {
            let ahead = left.iter().skip(from).position(|byte| *byte == b',')?;
            ahead.checked_add(from)
        };
        let is_day = |at: &usize| left.get(..*at).is_some_and(|member| is_weekday(member.trim_ascii()));
        let end = match comma(0).filter(is_day) {
            Some(day) => comma(day.saturating_add(1)),
            None => comma(0),
        };
        rest = end.and_then(|end| left.get(end.checked_add(1)?..));
        left.get(..end.unwrap_or(left.len()))
    })
}

#[cfg(test)]
mod tests;
