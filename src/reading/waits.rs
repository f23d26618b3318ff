//! `Retry-After` ([RFC 9110 §10.2.3]) and its relatives: the explicit waits.
//!
//! [RFC 9110 §10.2.3]: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::MAX_FIELD;
use super::profile::Rules;
use super::value::{Advice, Clock, Stated, TimeUnit, Value, is_weekday, timespan};

/// The most members of a comma-joined value that are looked at.
const MAX_MEMBERS: usize = 8;

/// One explicit wait and the field it came from.
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
    /// A field that the profile names.
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
    let mut best: Option<Explicit<'h>> = None;
    let mut positive: Option<Explicit<'h>> = None;
    let better = |known: &Option<Explicit<'h>>, new: &Explicit<'h>| {
        let order = |explicit: &Explicit<'h>| {
            (
                std::cmp::Reverse(explicit.rank),
                explicit.advice.wait,
                std::cmp::Reverse(explicit.name.as_str()),
            )
        };
        known.as_ref().is_none_or(|known| order(new) > order(known))
    };
    for (name, value) in headers {
        let Some((rank, unit)) = rank_of(name.as_str(), rules) else { continue };
        let Some((advice, bare)) = read(value.as_bytes(), unit, clock) else { continue };
        let explicit = Explicit { advice, name, rank, bare };
        if rank < Rank::Relative && !advice.wait.is_zero() && better(&positive, &explicit) {
            positive = Some(explicit);
        }
        if better(&best, &explicit) {
            best = Some(explicit);
        }
    }
    match best {
        Some(zero) if zero.advice.wait.is_zero() && zero.rank < Rank::RetryAfter => positive.or(best),
        best => best,
    }
}

/// Whether a header of this name states an explicit wait.
pub(super) fn is_wait(name: &str, rules: &Rules) -> bool {
    rank_of(name, rules).is_some()
}

/// The value as a whole first, for dates contain commas; else the longest of the comma-joined members.
fn read(value: &[u8], unit: TimeUnit, clock: &Clock<'_>) -> Option<(Advice, Option<Duration>)> {
    let value = value.trim_ascii();
    if value.len() > MAX_FIELD {
        return None;
    }
    if unit == TimeUnit::Milliseconds
        && let Some(delay) = timespan(value)
    {
        return Some((clock.advice(Stated::delay(delay)), None));
    }
    match Value::read(value, clock) {
        Some(whole) => {
            let bare = match whole {
                Value::Bare(number) if unit == TimeUnit::Seconds && number.subsec_nanos() == 0 => {
                    Some(number)
                }
                _ => None,
            };
            Some((clock.advice(whole.stated(unit)), bare))
        }
        None => longest_member(value, unit, clock).map(|advice| (advice, None)),
    }
}

fn longest_member(value: &[u8], unit: TimeUnit, clock: &Clock<'_>) -> Option<Advice> {
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
mod tests;
