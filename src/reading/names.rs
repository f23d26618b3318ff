//! The names of rate-limit fields: which bucket, which part of it, what it counts, over which window.
//!
//! There is no list of names, there are hundreds. A name is a bag of words: one of them is the part (`limit`,
//! `remaining`, `reset`), some name the unit or the window, and all but the part identify the bucket, in any order:
//! `x-ratelimit-remaining-requests`, `x-ratelimit-requests-limit`, `anthropic-ratelimit-requests-reset`.

use std::time::Duration;

use arrayvec::ArrayVec;

use crate::units::QuotaUnit;

const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;

/// The part of a bucket that a field states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Limit,
    Remaining,
    Reset,
    /// A reset as a time from now, beside one as an instant.
    ResetAfter,
    /// The same instant in another notation.
    ResetAgain,
    /// The length of the window.
    Window,
    /// `allowed` or `rejected`.
    Status,
    /// The spent share of the limit, from 0 to 1.
    Utilization,
}

/// What the name of a rate-limit field says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FieldName {
    pub(super) part: Part,
    pub(super) unit: QuotaUnit,
    pub(super) window: Option<Duration>,
    /// Equal for the fields of one bucket.
    pub(super) key: u64,
    /// Whether the name says what is counted; where it does not, calls are.
    pub(super) unit_named: bool,
    /// Whether the name says that the value is in milliseconds.
    pub(super) millis: bool,
    /// Whether the name is one of a rate-limit family, and not only a word in common with them.
    pub(super) family: bool,
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len()).any(|window| window == part)
}

/// Whether a name may be one of these; cheap, for every field of every response passes here.
pub(super) fn may_be_limit(name: &str) -> bool {
    let name = name.as_bytes();
    contains(name, b"limit") || contains(name, b"remaining") || name.starts_with(b"anthropic-priority-")
}

/// Reads a name that passed [`may_be_limit`].
pub(super) fn field_name(name: &str) -> Option<FieldName> {
    let mut words = ArrayVec::<&str, 12>::new();
    for word in name.split(['-', '_']) {
        words.try_push(word).ok()?;
    }
    let family = contains(name.as_bytes(), b"ratelimit")
        || contains(name.as_bytes(), b"rate-limit")
        || name.starts_with("anthropic-priority-");
    // Anthropic's `unified-overage-*` tell whether paid overage is on, not whether a limit is spent.
    if words.contains(&"overage") {
        return None;
    }
    let (at, part) = part_of(&words, family)?;

    let mut bag = Bag::default();
    let mut window = None;
    let mut key: u64 = 0;
    let mut part_value = part;
    let mut millis = false;
    let mut previous = "";
    for (index, word) in words.iter().enumerate() {
        let is_part = index == at;
        let qualifies = index > at && matches!(part, Part::Reset | Part::Window) && is_qualifier(word);
        if is_part {
            if let Part::Reset = part
                && word.len() > 6
            {
                part_value = if word.ends_with("after") { Part::ResetAfter } else { Part::ResetAgain };
            }
        } else if qualifies {
            millis |= matches!(*word, "ms" | "milliseconds" | "millis");
            if let Part::Reset = part {
                part_value = match *word {
                    "after" | "in" => Part::ResetAfter,
                    "time" | "date" | "at" | "timestamp" => Part::ResetAgain,
                    _ => part_value,
                };
            }
        } else {
            key = key.wrapping_add(hash(word));
            bag.note(word);
            window = window_of(previous, word).or(window);
        }
        previous = word;
    }
    let unit = bag.unit();
    Some(FieldName {
        part: part_value,
        unit: unit.unwrap_or(QuotaUnit::Requests),
        window,
        key,
        unit_named: unit.is_some(),
        millis,
        family,
    })
}

/// The word that names the part, and the part.
fn part_of(words: &[&str], family: bool) -> Option<(usize, Part)> {
    let last = |test: fn(&str) -> bool| words.iter().rposition(|word| test(word));
    let strong = |word: &str| match word {
        "remaining" => Some(Part::Remaining),
        "status" => Some(Part::Status),
        "utilization" => Some(Part::Utilization),
        "renewalperiod" | "interval" => Some(Part::Window),
        "next" => Some(Part::ResetAgain),
        _ if word.starts_with("reset") => Some(Part::Reset),
        _ => None,
    };
    if let Some((at, part)) = words.iter().enumerate().rev().find_map(|(at, word)| Some((at, strong(word)?)))
    {
        // `x-quota-next`, `x-job-status`: words too common to mean anything outside the families.
        return (family || matches!(part, Part::Remaining | Part::Reset)).then_some((at, part));
    }
    if let Some(at) = last(|word| word == "max") {
        return family.then_some((at, Part::Limit));
    }
    let at = last(|word| word == "limit");
    let whole_family =
        at.is_some_and(|at| at.checked_sub(1).and_then(|before| words.get(before)) == Some(&"rate"));
    match at {
        // In `x-rate-limit-requests` the word belongs to the family's name.
        Some(at) if !whole_family => Some((at, Part::Limit)),
        _ => {
            // `x-hubspot-ratelimit-daily` states the limit of that window.
            let at = words.len();
            let named = words.last().is_some_and(|word| window_of("", word).is_some());
            (family && named).then_some((at, Part::Limit))
        }
    }
}

fn is_qualifier(word: &str) -> bool {
    matches!(
        word,
        "after"
            | "in"
            | "time"
            | "date"
            | "at"
            | "timestamp"
            | "utc"
            | "epoch"
            | "ms"
            | "millis"
            | "milliseconds"
            | "seconds"
            | "s"
    )
}

/// FNV-1a; sums of it identify a bag of words.
pub(super) fn hash(word: &str) -> u64 {
    word.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The window that a word names, for example `minute`, `24hour`, `5h`, or the two words `10-second`.
fn window_of(previous: &str, word: &str) -> Option<Duration> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = word.split_at_checked(digits)?;
    let seconds = match unit {
        "second" | "seconds" | "secondly" | "sec" => 1,
        "minute" | "minutes" | "minutely" | "min" => MINUTE,
        "hour" | "hours" | "hourly" => HOUR,
        "day" | "days" | "daily" => DAY,
        "week" | "weekly" => 7 * DAY,
        "month" | "monthly" => 30 * DAY,
        "s" if digits > 0 => 1,
        "m" if digits > 0 => MINUTE,
        "h" if digits > 0 => HOUR,
        "d" if digits > 0 => DAY,
        _ => return None,
    };
    let number: u64 = if digits > 0 { number.parse().ok()? } else { previous.parse().unwrap_or(1) };
    number.checked_mul(seconds).filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// The words of a name that say what is counted.
#[derive(Default)]
struct Bag {
    requests: bool,
    tokens: bool,
    input: bool,
    output: bool,
    concurrency: bool,
    other: bool,
}

impl Bag {
    fn note(&mut self, word: &str) {
        match word {
            "requests" | "request" | "req" | "reqs" | "call" | "calls" | "rpm" | "rpd" => {
                self.requests = true
            }
            "tokens" | "token" | "tpm" | "tpd" | "ratelimitbysize" => self.tokens = true,
            "input" | "prompt" => self.input = true,
            "output" | "generated" | "completion" => self.output = true,
            "concurrent" | "concurrency" | "connections" => self.concurrency = true,
            "images" | "image" | "audio" | "bytes" | "cost" | "points" | "credits" | "complexity"
            | "spend" | "unified" => {
                self.other = true;
            }
            _ => {}
        }
    }

    const fn unit(&self) -> Option<QuotaUnit> {
        Some(if self.other {
            QuotaUnit::Quota
        } else if self.concurrency {
            QuotaUnit::Concurrency
        } else if self.input {
            QuotaUnit::InputTokens
        } else if self.output {
            QuotaUnit::OutputTokens
        } else if self.tokens {
            QuotaUnit::Tokens
        } else if self.requests {
            QuotaUnit::Requests
        } else {
            return None;
        })
    }
}

#[cfg(test)]
mod tests;
