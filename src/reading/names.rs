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
mod tests {
    use super::*;

    fn read(name: &str) -> FieldName {
        assert!(may_be_limit(name), "{name}");
        field_name(name).unwrap_or_else(|| panic!("{name}"))
    }

    #[test]
    fn the_fields_of_a_bucket_share_their_key() {
        for names in [
            ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
            ["x-rate-limit-limit", "x-rate-limit-remaining", "x-rate-limit-reset"],
            ["x-app-limit-24hour-limit", "x-app-limit-24hour-remaining", "x-app-limit-24hour-reset"],
            ["ratelimit-limit", "ratelimit-remaining", "ratelimit-resettime"],
            ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset-after"],
            [
                "x-hubspot-ratelimit-max",
                "x-hubspot-ratelimit-remaining",
                "x-hubspot-ratelimit-interval-milliseconds",
            ],
            [
                "x-hubspot-ratelimit-daily",
                "x-hubspot-ratelimit-daily-remaining",
                "x-hubspot-ratelimit-daily-reset",
            ],
            [
                "anthropic-priority-input-tokens-limit",
                "anthropic-priority-input-tokens-remaining",
                "anthropic-priority-input-tokens-reset",
            ],
        ] {
            let [limit, remaining, reset] = names.map(read);
            assert_eq!((limit.key, limit.key), (remaining.key, reset.key), "{names:?}");
            assert_eq!((limit.part, remaining.part), (Part::Limit, Part::Remaining), "{names:?}");
        }
        assert_ne!(read("x-ratelimit-remaining-requests").key, read("x-ratelimit-remaining-tokens").key);
        assert_ne!(read("x-ratelimit-remaining").key, read("ratelimit-remaining").key);
    }

    #[test]
    fn parts() {
        for (name, part) in [
            ("x-ratelimit-reset", Part::Reset),
            ("x-ratelimit-reset-after", Part::ResetAfter),
            ("ratelimit-resettime", Part::ResetAgain),
            ("ratelimit-reset-date", Part::ResetAgain),
            ("x-ratelimit-next", Part::ResetAgain),
            ("x-ratelimit-renewalperiod-tokens", Part::Window),
            ("x-ratelimit-interval-seconds", Part::Window),
            ("anthropic-ratelimit-unified-5h-status", Part::Status),
            ("anthropic-ratelimit-unified-7d-utilization", Part::Utilization),
            ("x-hubspot-ratelimit-daily", Part::Limit),
        ] {
            assert_eq!(read(name).part, part, "{name}");
        }
        for name in [
            "x-ratelimit-delay",
            "x-ratelimit-type",
            "x-ratelimit-used",
            "x-ratelimit-resource",
            "ratelimit-name",
        ] {
            assert_eq!(field_name(name), None, "{name}");
        }
    }

    #[test]
    fn units_and_windows() {
        let seconds = |name: &str| read(name).window.map(|window| window.as_secs());
        assert_eq!(seconds("x-ratelimit-remaining-req-10-second"), Some(10));
        assert_eq!(seconds("x-ratelimit-reset-tokens-minute"), Some(60));
        assert_eq!(seconds("x-user-limit-24hour-remaining"), Some(86_400));
        assert_eq!(seconds("anthropic-ratelimit-unified-5h-reset"), Some(18_000));
        assert_eq!(seconds("x-ratelimit-minute-reset"), Some(60));
        assert_eq!(seconds("x-ratelimit-reset"), None);
        for (name, unit) in [
            ("x-ratelimit-remaining", QuotaUnit::Requests),
            ("x-ratelimit-remaining-project-tokens", QuotaUnit::Tokens),
            ("x-ratelimit-remaining-tokens_usage_based", QuotaUnit::Tokens),
            ("x-ratelimit-remaining-input-images", QuotaUnit::Quota),
            ("x-ratelimit-remaining-tokens-prompt", QuotaUnit::InputTokens),
            ("x-ratelimit-remaining-tokens-cache-adjusted-prompt", QuotaUnit::InputTokens),
            ("x-ratelimit-remaining-tokens-generated", QuotaUnit::OutputTokens),
            ("anthropic-ratelimit-output-tokens-remaining", QuotaUnit::OutputTokens),
            ("ratelimitbysize-remaining", QuotaUnit::Tokens),
            ("x-ratelimit-complexity-remaining", QuotaUnit::Quota),
        ] {
            assert_eq!(read(name).unit, unit, "{name}");
        }
    }
}
