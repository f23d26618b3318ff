//! The names of rate-limit fields: which bucket, which part of it, what it counts, over which window.
//!
//! There is no list of names, there are hundreds. A name is a bag of words: one of them is the part (`limit`,
//! `remaining`, `reset`), some name the unit or the window, and all but the part identify the bucket, in any order:
//! `x-ratelimit-remaining-requests`, `x-ratelimit-requests-limit`, `anthropic-ratelimit-requests-reset`.

mod words;

use std::sync::LazyLock;
use std::time::Duration;

use super::value::TimeUnit;
use crate::units::QuotaUnit;
use arrayvec::ArrayVec;
use words::{counts, window_of};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Limit,
    Remaining,
    Reset,
    /// A reset as a time from now, beside one as an instant.
    ResetAfter,
    /// The same instant in another notation.
    ResetAgain,
    Window,
    /// `allowed` or `rejected`; a number is what remains.
    Status,
    /// The spent share of the limit, from 0 to 1.
    Utilization,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FieldName {
    pub(super) part: Part,
    pub(super) unit: QuotaUnit,
    pub(super) window: Option<Duration>,
    /// Equal for the fields of one bucket.
    pub(super) key: u64,
    /// Whether the name says what is counted; if it does not, calls are.
    pub(super) unit_named: bool,
    /// The unit of a reset that is a bare number.
    pub(super) time: TimeUnit,
    /// Whether the name is one of a rate-limit family, and not only a word in common with them.
    pub(super) family: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    /// A part that is always meant as one.
    Strong(Part),
    /// A limit if nothing else is.
    Max,
    /// `left` or `available`, of something only in the families.
    Left,
    /// A limit, unless it belongs to the name of the family.
    Limit,
    Rate,
    Family,
    /// What a reset or a window is stated in.
    Time(TimeUnit),
    After,
    Instant,
    /// What is counted down by paging, trials and sessions, and is no limit outside of the families.
    Elsewhere,
    /// Anthropic's `unified-overage-*` tell whether paid overage is on, not whether a limit is spent.
    Overage,
    Other,
}

fn word(text: &[u8]) -> Word {
    match text {
        b"limit" | b"lim" => Word::Limit,
        b"remaining" | b"remain" | b"rem" => Word::Strong(Part::Remaining),
        b"reset" | b"resets" => Word::Strong(Part::Reset),
        b"status" => Word::Strong(Part::Status),
        b"utilization" => Word::Strong(Part::Utilization),
        b"renewalperiod" | b"interval" | b"window" | b"period" => Word::Strong(Part::Window),
        b"next" => Word::Strong(Part::ResetAgain),
        b"rate" => Word::Rate,
        b"max" | b"total" => Word::Max,
        b"left" | b"available" => Word::Left,
        b"overage" => Word::Overage,
        b"items" | b"results" | b"pages" | b"records" | b"rows" | b"entries" | b"objects" | b"days"
        | b"storage" | b"space" | b"password" | b"connection" | b"cache" | b"session" | b"sessions"
        | b"trial" | b"login" => Word::Elsewhere,
        b"after" | b"in" => Word::After,
        b"time" | b"date" | b"at" | b"timestamp" | b"utc" | b"epoch" => Word::Instant,
        b"ms" | b"millis" | b"milliseconds" => Word::Time(TimeUnit::Milliseconds),
        b"seconds" | b"s" => Word::Time(TimeUnit::Seconds),
        _ if text.starts_with(b"ratelimit") => Word::Family,
        _ if text.starts_with(b"reset") => {
            Word::Strong(if text.ends_with(b"after") { Part::ResetAfter } else { Part::ResetAgain })
        }
        _ => Word::Other,
    }
}

/// Whether a header's name may be one of a rate-limit field. Every field of every response passes here.
pub(super) fn may_be_limit(name: &str) -> bool {
    name.as_bytes().windows(5).any(|word| matches!(word, b"limit" | b"remai" | b"reset"))
        || name.starts_with("anthropic-")
}

/// The names that most responses with limits have, taken apart once.
static FREQUENT: LazyLock<Vec<(String, Option<FieldName>)>> = LazyLock::new(|| {
    const NAMES: &str = "x-ratelimit-* ratelimit-* x-ratelimit-*-requests x-ratelimit-*-tokens anthropic-ratelimit-requests-* \
        anthropic-ratelimit-tokens-* anthropic-ratelimit-input-tokens-* anthropic-ratelimit-output-tokens-*";
    let parts = ["limit", "remaining", "reset", "used", "resource", "scope"];
    let mut names: Vec<_> =
        NAMES.split(' ').flat_map(|name| parts.map(|part| name.replace('*', part))).collect();
    names.sort_unstable();
    names.into_iter().map(|name| (name.clone(), field_name(&name))).collect()
});

pub(super) fn name_of(header: &str) -> Option<FieldName> {
    match FREQUENT.binary_search_by(|(name, _)| name.as_str().cmp(header)) {
        Ok(at) => FREQUENT.get(at).and_then(|(_, field)| *field),
        Err(_) => field_name(header),
    }
}

/// Takes apart a name that may be of a rate-limit field.
pub(super) fn field_name(name: &str) -> Option<FieldName> {
    let mut words = ArrayVec::<(&[u8], Word), 12>::new();
    let mut family = name.starts_with("anthropic-priority-");
    for text in name.as_bytes().split(|byte| matches!(byte, b'-' | b'_')).flat_map(compound) {
        let word = word(text);
        let behind_rate = words.last().is_some_and(|(_, last)| *last == Word::Rate);
        family |= word == Word::Family || word == Word::Limit && behind_rate;
        words.try_push((text, word)).ok()?;
    }
    let any = |wanted| words.iter().any(|(_, word)| *word == wanted);
    if any(Word::Overage) || any(Word::Elsewhere) && !family {
        return None;
    }
    let (at, part) = part_of(&words, family)?;
    Some(describe(&words, at, part, family))
}

fn describe(words: &[(&[u8], Word)], at: usize, mut part: Part, family: bool) -> FieldName {
    let qualified = matches!(part, Part::Reset | Part::ResetAgain | Part::Window);
    let (mut counted, mut window, mut key) = (None, None, 0_u64);
    let (mut time, mut previous): (_, &[u8]) = (TimeUnit::Seconds, b"");
    for (index, (text, word)) in words.iter().enumerate() {
        match (word, part) {
            _ if index == at => {}
            (Word::Time(unit), _) if qualified && index > at => time = *unit,
            (Word::After, Part::Reset) if index > at => part = Part::ResetAfter,
            (Word::Instant, Part::Reset) if index > at => part = Part::ResetAgain,
            (Word::After | Word::Instant, _) if qualified && index > at => {}
            _ => {
                key = key.wrapping_add(hash(text));
                // An API token is a credential, whose requests are counted.
                if (previous, *text) != (b"api", b"token") {
                    counted = counted.max(counts(text));
                }
                window = window_of(previous, text).or(window);
            }
        }
        previous = text;
    }
    let unit = counted.map(|(_, unit)| unit);
    let (unit_named, unit) = (unit.is_some(), unit.unwrap_or(QuotaUnit::Requests));
    FieldName { part, unit, window, key, unit_named, time, family }
}

/// The two words that are written as one in `X-Sentry-Rate-Limit-ConcurrentRemaining` and `X-RateLimit-UserReset`. A preset
/// is no reset.
fn compound(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let head = [b"remaining".as_slice(), b"reset", b"limit"]
        .iter()
        .find_map(|part| text.strip_suffix(*part))
        .filter(|head| *head != b"p" && !text.starts_with(b"ratelimit"))
        .unwrap_or_default();
    let (first, second) = text.split_at_checked(head.len()).unwrap_or((b"", text));
    (!first.is_empty()).then_some(first).into_iter().chain(std::iter::once(second))
}

/// The word that names the part, and the part; the last one if there are several.
fn part_of(words: &[(&[u8], Word)], family: bool) -> Option<(usize, Part)> {
    let before = |at: usize| at.checked_sub(1).and_then(|before| words.get(before));
    // A time that remains is a wait: `x-ratelimit-timeremaining`.
    let is_time =
        |at| before(at).is_some_and(|(text, _)| matches!(*text, b"time" | b"seconds" | b"ms" | b"ttl"));
    let mut weak = None;
    for (at, (_, word)) in words.iter().enumerate().rev() {
        match word {
            Word::Strong(Part::Remaining) if is_time(at) => return None,
            // How often, and not when: `x-ratelimit-reset-count`.
            Word::Strong(Part::Reset)
                if words.get(at.saturating_add(1)).is_some_and(|(text, _)| *text == b"count") =>
            {
                return None;
            }
            Word::Strong(part @ (Part::Remaining | Part::Reset)) => return Some((at, *part)),
            // `x-quota-next`, `x-job-status`: words too common to mean anything outside the families.
            Word::Strong(part) => {
                let of_limit =
                    *part == Part::Status && before(at).is_some_and(|(_, word)| *word == Word::Limit);
                return (family || of_limit).then_some((at, *part));
            }
            Word::Left if family && !is_time(at) => return Some((at, Part::Remaining)),
            Word::Max if family => weak = weak.or(Some(at)),
            // In `x-rate-limit-requests` the word belongs to the family's name.
            Word::Limit if !before(at).is_some_and(|(_, word)| *word == Word::Rate) => {
                weak = weak.or(Some(at))
            }
            _ => {}
        }
    }
    // `x-hubspot-ratelimit-daily` states the limit of that window.
    let states_window = || family && words.last().is_some_and(|(text, _)| window_of(b"", text).is_some());
    let at = weak.or_else(|| states_window().then_some(words.len()))?;
    Some((at, Part::Limit))
}

/// FNV-1a; sums of it identify a bag of words.
pub(super) const fn hash(word: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut rest = word;
    while let [byte, tail @ ..] = rest {
        // `u64::from` is not for constants.
        hash = (hash ^ u64::from_le_bytes([*byte, 0, 0, 0, 0, 0, 0, 0])).wrapping_mul(0x0100_0000_01b3);
        rest = tail;
    }
    hash
}

#[cfg(test)]
mod tests;
