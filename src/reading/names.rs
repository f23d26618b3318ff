//! The names of rate-limit fields: which bucket, which part of it, what it counts, over which window.
//!
//! There is no list of names, there are hundreds. A name is a bag of words: one of them is the part (`limit`,
//! `remaining`, `reset`), some name the unit or the window, and all but the part identify the bucket, in any order:
//! `x-ratelimit-remaining-requests`, `x-ratelimit-requests-limit`, `anthropic-ratelimit-requests-reset`.

mod quick;

use std::time::Duration;

use arrayvec::ArrayVec;

pub(super) use quick::{Kind, may_be_structured, states_nothing};

use super::value::{Count, count};
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

/// What a word of a name may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    /// A part that is always meant as one.
    Strong(Part),
    /// `max`, a limit where nothing else is.
    Max,
    /// `left` or `available`, of something only in the families.
    Left,
    /// `limit`, which may also belong to the name of the family.
    Limit,
    Rate,
    Family,
    Qualifier,
    /// What is counted down by paging, trials and sessions, and is no limit outside of the families.
    Elsewhere,
    /// Anthropic's `unified-overage-*` tell whether paid overage is on, not whether a limit is spent.
    Overage,
    Other,
}

fn word(text: &[u8]) -> Word {
    match text {
        b"limit" => Word::Limit,
        b"remaining" => Word::Strong(Part::Remaining),
        b"reset" | b"resets" => Word::Strong(Part::Reset),
        b"rate" => Word::Rate,
        b"max" => Word::Max,
        b"left" | b"available" => Word::Left,
        b"status" => Word::Strong(Part::Status),
        b"utilization" => Word::Strong(Part::Utilization),
        b"renewalperiod" | b"interval" => Word::Strong(Part::Window),
        b"next" => Word::Strong(Part::ResetAgain),
        b"overage" => Word::Overage,
        b"items" | b"results" | b"pages" | b"records" | b"rows" | b"entries" | b"objects" | b"days"
        | b"storage" | b"space" => Word::Elsewhere,
        b"after" | b"in" | b"time" | b"date" | b"at" | b"timestamp" | b"utc" | b"epoch" | b"ms"
        | b"millis" | b"milliseconds" | b"seconds" | b"s" => Word::Qualifier,
        _ if text.starts_with(b"ratelimit") => Word::Family,
        _ if text.starts_with(b"reset") => {
            Word::Strong(if text.ends_with(b"after") { Part::ResetAfter } else { Part::ResetAgain })
        }
        _ => Word::Other,
    }
}

/// Takes apart a name that may be of a rate-limit field.
pub(super) fn any_name(name: &str) -> Option<FieldName> {
    let mut words = ArrayVec::<(&[u8], Word), 12>::new();
    let mut family = name.starts_with("anthropic-priority-");
    let (mut last, mut elsewhere) = (Word::Other, false);
    for text in name.as_bytes().split(|byte| matches!(byte, b'-' | b'_')).flat_map(compound) {
        let word = word(text);
        family |= word == Word::Family || (word == Word::Limit && last == Word::Rate);
        words.try_push((text, word)).ok()?;
        last = word;
        elsewhere |= word == Word::Elsewhere;
        if word == Word::Overage {
            return None;
        }
    }
    if elsewhere && !family {
        return None;
    }
    let (at, mut part) = part_of(&words, family)?;

    let qualified = matches!(part, Part::Reset | Part::Window);
    let mut bag = Bag::default();
    let mut window = None;
    let mut key: u64 = 0;
    let mut millis = false;
    let mut previous: &[u8] = b"";
    for (index, (text, word)) in words.iter().enumerate() {
        if index == at {
        } else if qualified && index > at && *word == Word::Qualifier {
            match *text {
                b"ms" | b"milliseconds" | b"millis" => millis = true,
                b"after" | b"in" if part == Part::Reset => part = Part::ResetAfter,
                b"time" | b"date" | b"at" | b"timestamp" if part == Part::Reset => part = Part::ResetAgain,
                _ => {}
            }
        } else {
            key = key.wrapping_add(hash(text));
            if matches!(*word, Word::Other | Word::Elsewhere | Word::Family) {
                // An API token is a credential, whose requests are counted.
                if (previous, *text) != (b"api", b"token") {
                    bag.note(text);
                }
                window = window_of(previous, text).or(window);
            }
        }
        previous = text;
    }
    let unit = bag.unit();
    Some(FieldName {
        part,
        unit: unit.unwrap_or(QuotaUnit::Requests),
        window,
        key,
        unit_named: unit.is_some(),
        millis,
        family,
    })
}

/// The two words that are written as one in `X-Sentry-Rate-Limit-ConcurrentRemaining` and `X-RateLimit-UserReset`. A preset
/// is no reset.
fn compound(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let head = match text {
        b"preset" => b"",
        [head @ .., b'r', b'e', b'm', b'a', b'i', b'n', b'i', b'n', b'g']
        | [head @ .., b'r', b'e', b's', b'e', b't']
        | [head @ .., b'l', b'i', b'm', b'i', b't'] => head,
        _ => b"",
    };
    // The name of the family is one word already.
    let split = if text.starts_with(b"ratelimit") { 0 } else { head.len() };
    let (first, second) = text.split_at_checked(split).unwrap_or((b"", text));
    (split > 0).then_some(first).into_iter().chain(std::iter::once(second))
}

/// The word that names the part, and the part; the last one where there are several.
fn part_of(words: &[(&[u8], Word)], family: bool) -> Option<(usize, Part)> {
    let mut weak = None;
    for (at, (_, word)) in words.iter().enumerate().rev() {
        match word {
            // A time that remains is a wait.
            Word::Strong(Part::Remaining) if is_time(words, at) => return None,
            // `x-quota-next`, `x-job-status`: words too common to mean anything outside the families.
            Word::Strong(part @ (Part::Remaining | Part::Reset)) => return Some((at, *part)),
            Word::Strong(part) => return family.then_some((at, *part)),
            Word::Left if family && !is_time(words, at) => return Some((at, Part::Remaining)),
            Word::Max if family => weak = weak.or(Some(at)),
            Word::Limit => {
                // In `x-rate-limit-requests` the word belongs to the family's name.
                let before = at.checked_sub(1).and_then(|before| words.get(before));
                if !before.is_some_and(|(_, word)| *word == Word::Rate) {
                    weak = weak.or(Some(at));
                }
            }
            _ => {}
        }
    }
    // `x-hubspot-ratelimit-daily` states the limit of that window.
    let states_window = || family && words.last().is_some_and(|(text, _)| window_of(b"", text).is_some());
    let at = weak.or_else(|| states_window().then_some(words.len()))?;
    Some((at, Part::Limit))
}

/// Whether the word before that one is a time: `x-ratelimit-timeremaining`.
fn is_time(words: &[(&[u8], Word)], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| words.get(before));
    before.is_some_and(|(text, _)| matches!(*text, b"time" | b"seconds" | b"ms" | b"ttl"))
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

/// The window that a word names, for example `minute`, `24hour`, `5h`, or the two words `10-second`.
fn window_of(previous: &[u8], word: &[u8]) -> Option<Duration> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = word.split_at_checked(digits)?;
    let seconds = match unit {
        b"second" | b"seconds" | b"secondly" | b"sec" => 1,
        b"minute" | b"minutes" | b"minutely" | b"min" => MINUTE,
        b"hour" | b"hours" | b"hourly" => HOUR,
        b"day" | b"days" | b"daily" => DAY,
        b"week" | b"weekly" => 7 * DAY,
        b"month" | b"monthly" => 30 * DAY,
        b"s" if digits > 0 => 1,
        b"m" if digits > 0 => MINUTE,
        b"h" if digits > 0 => HOUR,
        b"d" if digits > 0 => DAY,
        _ => return None,
    };
    let whole =
        |text: &[u8]| text.first().filter(|byte| byte.is_ascii_digit()).and(count(text)).map(Count::whole);
    let number = if digits > 0 { whole(number)? } else { whole(previous).unwrap_or(1) };
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
    fn note(&mut self, word: &[u8]) {
        match word {
            b"requests" | b"request" | b"req" | b"reqs" | b"call" | b"calls" | b"rpm" | b"rpd" => {
                self.requests = true
            }
            b"tokens" | b"token" | b"tpm" | b"tpd" | b"ratelimitbysize" => self.tokens = true,
            b"input" | b"prompt" => self.input = true,
            b"output" | b"generated" | b"completion" => self.output = true,
            b"concurrent" | b"concurrency" | b"connections" => self.concurrency = true,
            b"images" | b"image" | b"audio" | b"bytes" | b"cost" | b"points" | b"credits" | b"complexity"
            | b"spend" | b"unified" => {
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
