//! The members of a body that state a wait, by the words of their names.

use std::cmp::Reverse;
use std::time::Duration;

use arrayvec::ArrayVec;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::super::hint::{Hint, HintKind};
use super::super::names::may_be_limit;
use super::super::value::{Advice, Count, Stated, TimeUnit, json_number, scan_prose, timespan};
use super::super::waits;
use super::super::windows::Windows;
use super::json::Json;
use super::words::among;
use super::{Around, BodyAdvice, MAX_ELEMENTS, Path, Walk};
use crate::units::QuotaUnit;

/// What a GraphQL query costs, and what there is for it: <https://shopify.dev/docs/api/usage/limits>.
pub(super) const COSTS: [&str; 4] =
    ["requested-query-cost", "currently-available", "restore-rate", "maximum-available"];

/// How a body states a wait, the most trustworthy way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Profile,
    /// [`google.rpc.RetryInfo`](https://cloud.google.com/apis/design/errors#error_details).
    RetryInfo,
    QuotaResetDelay,
    QuotaResetInstant,
    RetryAfterMillis,
    RetryAfter,
    EmbeddedHeader,
    ResetMillis,
    Reset,
    Sentence,
    /// The reset of a limit that is not used up.
    UnspentReset,
}

fn any(words: &[&str], of: &str) -> bool {
    words.iter().any(|word| among(word, of))
}

/// The unit that a name states, and whether it states one; `None` for a unit that no service waits in.
fn unit_of(words: &[&str]) -> Option<(TimeUnit, bool)> {
    const NAMES: [(&str, TimeUnit); 5] = [
        ("ms millis milliseconds millisecond msec msecs", TimeUnit::Milliseconds),
        ("minutes mins min", TimeUnit::Minutes),
        ("hours hrs", TimeUnit::Hours),
        ("days", TimeUnit::Days),
        ("seconds second secs sec s", TimeUnit::Seconds),
    ];
    if any(words, "us usec micros microseconds ns nanos nanoseconds weeks months") {
        return None;
    }
    let named = NAMES.iter().find(|(names, _)| any(words, names)).map(|(_, unit)| *unit);
    Some((named.unwrap_or(TimeUnit::Seconds), named.is_some()))
}

/// Words that make a name one of something else: a setting, a count, a reference.
const OTHERS: &str = "max maximum minimum count attempts policy url uri link id token password timeout strategy factor \
    enabled message reason header headers supported average avg mean total default initial base last previous since ago \
    elapsed used saved interval period window version budget subscription membership license trial";

/// Whether a name is one of something else. `min` in front is the least of something, behind it a unit; `rate` belongs to a
/// rate limit or is a rate.
fn is_of_something_else(words: &[&str]) -> bool {
    let is_rate = |(at, word): (usize, &&str)| {
        *word == "rate" && words.get(at.saturating_add(1)).is_none_or(|next| !next.starts_with("limit"))
    };
    any(words, OTHERS) || words.first() == Some(&"min") || words.iter().enumerate().any(is_rate)
}

/// Words of waiting, those of which one has to stand beside them, and those that may not. `.` is a word by itself, `unit` any
/// unit of time, `when` any preposition or moment.
const WAITING: [(&str, &str, &str); 14] = [
    ("retry", "when unit wait backoff before", "limit times number"),
    ("wait", ". when unit suggested recommended", ""),
    ("backoff", ". when unit delay", "limit base"),
    ("off", "back", ""),
    ("throttle", "when unit", ""),
    ("throttled", "when unit", "requests"),
    ("cooldown", ". when unit", ""),
    ("cool", "down", ""),
    ("penalty", ". when unit", ""),
    ("estimated", "time", "processing cost tokens"),
    ("next", "access request call try attempt retry allowed available before", ""),
    ("available", "in at after", ""),
    ("blocked banned suspended locked block ban lockout suspension", "unit until for duration expires", "by"),
    ("again", "when", ""),
];

fn says_wait(words: &[&str], timed: bool) -> bool {
    let moment = any(words, "in at after time until delay for duration");
    WAITING.iter().any(|(word, beside, not)| {
        let stands_beside = |other: &str| match other {
            "." => words.len() == 1,
            "unit" => timed,
            "when" => moment,
            other => words.contains(&other),
        };
        any(words, word) && beside.split(' ').any(stands_beside) && !any(words, not)
    })
}

/// Words that go on with the name above: `{"retry": {"after": 5}}`.
const GOES_ON: &str = "after in at until time timestamp date delay unix epoch utc ms millis milliseconds seconds secs sec s minutes \
    mins hours";

/// What a member states by its name and, if that only goes on with the one above, by both.
fn meaning_below(words: &[&str], around: Around<'_>) -> Option<(Rank, TimeUnit, HintKind)> {
    meaning(words, around).or_else(|| {
        if !words.iter().all(|word| among(word, GOES_ON)) {
            return None;
        }
        let whole: ArrayVec<&str, 32> =
            around.name.split('-').chain(words.iter().copied()).take(32).collect();
        meaning(&whole, around)
    })
}

/// What a member states by the words of its name: how, in which unit, and whether it is a reset.
fn meaning(words: &[&str], around: Around<'_>) -> Option<(Rank, TimeUnit, HintKind)> {
    if around.sold || is_of_something_else(words) {
        return None;
    }
    let (unit, timed) = unit_of(words)?;
    let in_millis = unit == TimeUnit::Milliseconds;
    if any(words, "reset resets refresh refreshes renew renews renewal replenish refill") {
        let says_when = timed
            || any(words, "in at after time timestamp date unix epoch utc to on until delay")
            || around.limits && words.len() == 1
            || words.ends_with(&["limit", "reset"])
            || words.ends_with(&["quota", "reset"]);
        let rank = match words {
            ["quota", "reset", "delay"] => Rank::QuotaResetDelay,
            ["quota", "reset", "timestamp"] | ["quota", "reset", "time", "stamp"] => Rank::QuotaResetInstant,
            _ if around.unspent => Rank::UnspentReset,
            _ if in_millis => Rank::ResetMillis,
            _ => Rank::Reset,
        };
        return says_when.then_some((rank, unit, HintKind::WindowReset));
    }
    let rank = match words {
        ["retry", "delay"] => Rank::RetryInfo,
        _ if in_millis => Rank::RetryAfterMillis,
        _ => Rank::RetryAfter,
    };
    says_wait(words, timed).then_some((rank, unit, HintKind::RetryAfter))
}

impl Walk<'_> {
    /// Takes in a member that states a wait in itself, or what remains of a limit; whether it was one.
    pub(super) fn wait_member(
        &mut self,
        words: &[&str],
        value: &Json<'_>,
        path: &Path,
        around: Around<'_>,
    ) -> bool {
        if around.limits && words == ["remaining"] {
            let spent = value.count().is_some_and(Count::is_zero_or_less);
            self.found.units.extend(spent.then_some(QuotaUnit::Requests));
            return true;
        }
        let named =
            self.rules.wait_member(&path.text).map(|unit| (Rank::Profile, unit, HintKind::RetryAfter));
        let Some((rank, unit, kind)) = named.or_else(|| meaning_below(words, around)) else { return false };
        let is_delay = any(words, "in after for delay duration wait backoff cooldown");
        let Some(advice) = self.advice(value, unit, is_delay) else {
            return kind == HintKind::RetryAfter || !matches!(value, Json::Object(_));
        };
        // A reset beyond every bound is a mistake; a wait that long is meant.
        if kind == HintKind::RetryAfter || advice.wait < Hint::LONGEST_WAIT {
            self.offer(rank, kind, advice, path);
        }
        true
    }

    /// Takes in a member that states costs; whether it was one.
    pub(super) fn cost_member(&mut self, words: &str, value: &Json<'_>) -> bool {
        let Some(place) = COSTS.iter().position(|known| *known == words) else { return false };
        if let (Json::Number(text), Some(cost)) = (value, self.cost.get_mut(place)) {
            *cost = json_number(text);
        }
        true
    }

    /// The time until there is enough for a query: what is missing, at the rate that it comes back by the second.
    pub(super) fn wait_for_cost(&mut self) {
        let [Some(requested), Some(available), Some(restored), most] = self.cost else { return };
        let missing = requested.saturating_sub(available).as_secs_f64() / restored.as_secs_f64();
        if most.is_some_and(|most| most < requested) {
            self.found.too_large = true;
        } else if let (true, Ok(wait)) = (self.found.refuses, Duration::try_from_secs_f64(missing)) {
            let path = Path { text: "extensions.cost.throttlestatus".to_owned(), fixed: true };
            self.offer(Rank::RetryAfter, HintKind::RetryAfter, self.clock.advice(Stated::delay(wait)), &path);
        }
    }

    /// What a value states. `00:00:05` is a time of day unless the member `is_delay`.
    fn advice(&self, value: &Json<'_>, unit: TimeUnit, is_delay: bool) -> Option<Advice> {
        match value {
            Json::Number(text) => Some(self.clock.advice(Stated::bare(json_number(text)?, unit))),
            Json::String(text) => self.clock.read(text.as_bytes(), unit).or_else(|| {
                let lower = text.trim().to_ascii_lowercase();
                let prose = scan_prose(&lower).filter(|(_, rest)| rest.is_empty()).map(|(delay, _)| delay);
                let delay = prose.or_else(|| timespan(lower.as_bytes()).filter(|_| is_delay))?;
                Some(self.clock.advice(Stated::delay(delay)))
            }),
            // A protobuf duration that was not printed by the JSON mapping; it states both of its parts or leaves one
            // out, which null means as well.
            Json::Object(duration) => {
                let part = |key: &str| {
                    let part = Json::read(duration.get(key)?.get())?;
                    (!matches!(part, Json::Other)).then(|| part.number())
                };
                let nanos = part("nanos").flatten().filter(|nanos| nanos.as_secs() < u64::from(u32::MAX));
                let nanos = nanos.and_then(|nanos| nanos.checked_div(1_000_000_000));
                let total = match part("seconds") {
                    // Less than a second more or less: what can be read is still the least to wait.
                    Some(seconds) => seconds?.saturating_add(nanos.unwrap_or_default()),
                    None => nanos?,
                };
                Some(self.clock.advice(Stated::bare(total, TimeUnit::Seconds)))
            }
            _ => None,
        }
    }

    pub(super) fn offer(&mut self, rank: Rank, kind: HintKind, advice: Advice, path: &Path) {
        let new = BodyAdvice { advice, kind, path: path.text.clone(), rank };
        if let Some(heard) = &mut self.found.heard {
            heard.push(new.clone());
        }
        // Zero milliseconds beside positive seconds are a truncation, as with the headers.
        let truncates = |one: &BodyAdvice, other: &BodyAdvice| {
            one.rank == Rank::RetryAfterMillis && one.advice.wait.is_zero() && other.rank == Rank::RetryAfter
        };
        // GitHub Models repeats its message as `details`.
        let order = |of: &BodyAdvice| {
            let path = of.path.clone();
            (Reverse(of.rank), of.advice.wait, path.ends_with("message"), Reverse(path))
        };
        let better = |known: &BodyAdvice| {
            !truncates(&new, known) && (truncates(known, &new) || order(&new) > order(known))
        };
        if self.found.advice.as_ref().is_none_or(better) {
            self.found.advice = Some(new);
        }
    }

    /// Rate-limit headers inside of the body, as OpenRouter sends those of the upstream.
    pub(super) fn headers(&mut self, value: &Json<'_>, path: &Path) {
        let Json::Object(members) = value else { return };
        let mut headers = HeaderMap::new();
        for (name, value) in members.iter().take(MAX_ELEMENTS) {
            let value = Json::read(value.get())
                .and_then(|value| value.text().and_then(|text| HeaderValue::from_str(text).ok()));
            if let (Ok(name), Some(value)) = (HeaderName::try_from(name.as_str()), value) {
                headers.append(name, value);
            }
        }
        let mut windows = Windows::default();
        for (name, value) in headers.iter().filter(|(name, _)| may_be_limit(name.as_str())) {
            windows.note(name, value, self.clock);
        }
        windows.pair(self.clock);
        let summary = windows.summary(self.rules, self.clock, &[]);
        self.found.units.extend(summary.spent.iter());
        let explicit = waits::explicit(&headers, self.clock, self.rules);
        let explicit = explicit.map(|wait| (HintKind::RetryAfter, wait.advice, wait.name));
        let reset = || summary.advice.map(|(advice, name)| (HintKind::WindowReset, advice, name));
        if let Some((kind, advice, name)) = explicit.or_else(reset) {
            self.offer(Rank::EmbeddedHeader, kind, advice, &path.key(name.as_str()));
        }
    }
}
