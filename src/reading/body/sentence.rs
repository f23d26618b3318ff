//! The sentences in which servers state a wait: `Please try again in 7m12s.`
//!
//! One small grammar: a word of waiting, a few words that may follow it, a time expression. The same messages also state
//! limits, windows, prices and versions, and a wrong match is worse than a miss.

use arrayvec::ArrayVec;

use super::super::value::{Clock, Stated, TimeUnit, Value, scan_instant, scan_number, scan_prose, timespan};
use super::words::among;

/// What must stand between a word of waiting and the time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// Nothing: `wait 20 seconds`.
    Anything,
    /// A preposition or a colon: `retry in 5s`, `resets at: ..`.
    Preposition,
    /// One of duration: `blocked for 2 hours`, `banned until ..`. What comes after or in something else is another matter.
    ForOrUntil,
    /// One of a moment: `available in 5s`. What is available for so long is not awaited.
    NotFor,
    /// What is forbidden so long: `do not retry until ..`, `cannot retry for 5s`.
    NotBefore,
}

/// Words before a word of waiting, in the same sentence; the nearest last.
type Said<'t> = ArrayVec<&'t str, 6>;

/// Words of waiting, the words that may stand before them (empty: any), and what must stand behind.
const TRIGGERS: [(&str, &str, Behind); 11] = [
    ("cooldown", "", Behind::Anything),
    ("off", "back", Behind::Anything),
    ("down", "cool", Behind::Anything),
    ("retry unlock unlocks", "", Behind::Preposition),
    ("again", "try trying back come check request requests attempt", Behind::Preposition),
    ("back", "come check try be", Behind::Preposition),
    ("request attempt call", "next", Behind::Preposition),
    // Supabase: `you can only request this after ..`.
    ("this", "request", Behind::Preposition),
    ("expires expire ends", "ban block lockout cooldown penalty suspension", Behind::Preposition),
    ("unblocked unbanned lifted", "", Behind::NotFor),
    ("limited blocked banned throttled suspended locked paused", "", Behind::ForOrUntil),
];
const RENEWALS: &str = "reset resets resetting renew renews renewed renewal refresh refreshes refreshed refill refills refilled \
    replenish replenishes replenished restored resume resumes";

fn trigger(word: &str, said: &Said<'_>) -> Option<Behind> {
    let before = said.last().copied().unwrap_or_default();
    let behind = match word {
        "wait" if !is_another_wait(said) => Behind::Anything,
        "backoff" if !among(before, "exponential linear with default") => Behind::Anything,
        "available" if is_awaited(said) => Behind::NotFor,
        // Home Connect: `blocked during the remaining period of 564 seconds`.
        "period" if before == "remaining" && said.contains(&"blocked") => Behind::Anything,
        // A penalty, and no call that took too long.
        "out" if before == "timed" && said.contains(&"been") => Behind::ForOrUntil,
        _ if among(word, RENEWALS) && !is_of_something_else(before) => Behind::Preposition,
        _ => {
            let fits = |(words, needs, _): &&(&str, &str, Behind)| {
                among(word, words) && (needs.is_empty() || among(before, needs))
            };
            TRIGGERS.iter().find(fits)?.2
        }
    };
    match behind {
        Behind::Preposition if is_negated(said) => Some(Behind::NotBefore),
        Behind::Anything if is_negated(said) => None,
        behind => Some(behind),
    }
}

/// Whether the words are those of a wait that is over, of another one, or of the most there is.
fn is_another_wait(said: &Said<'_>) -> bool {
    const OTHERS: &str = "max maximum average typical had having lock queue default initial total";
    said.iter().rev().take(2).any(|word| among(word, OTHERS))
}

/// Whether what is waited for is said not to be done: `do not retry`. A new clause ends that.
fn is_negated(said: &Said<'_>) -> bool {
    let mut clause = said.iter().rev().take(3).take_while(|word| !among(word, "please and but so then or"));
    clause.any(|word| among(word, "not t never cannot no"))
}

/// Whether what is available some time is what a caller waits for, and no feature, offer or count.
fn is_awaited(said: &Said<'_>) -> bool {
    const AWAITED: &str = "access api capacity call calls credits expected it limit more next quota request requests \
        resource resources retry server service slot slots system tokens usage we";
    let counted = said.iter().any(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    let awaited = said.is_empty() || said.iter().any(|word| among(word, AWAITED));
    awaited && (!counted || said.contains(&"more"))
}

/// Words whose renewal or reset is no limit's.
fn is_of_something_else(word: &str) -> bool {
    const OTHERS: &str = "subscription plan trial license membership certificate password key token cache connection page \
        last previous was were";
    among(word, OTHERS)
}

/// The words that may stand between a word of waiting and the time.
const FILLERS: &str = "\
    about again allowed another approximately approx around at be call calls it is least of minimum please request \
    requests roughly than the this time timestamp waiting will your delay seconds secs sec s";

const MAX_FILLERS: usize = 6;

/// The wait that a message in lower case states first.
pub(super) fn stated(text: &str, clock: &Clock<'_>) -> Option<Stated> {
    let mut said = Said::new();
    let mut rest = text;
    loop {
        let start = rest.find(|letter: char| letter.is_ascii_alphanumeric())?;
        let at_word = rest.get(start..)?;
        let (word, tail) = split_word(at_word);
        if let Some(behind) = trigger(word, &said)
            && let Some(stated) = behind_trigger(tail, behind, clock)
        {
            return Some(stated);
        }
        if said.is_full() {
            said.remove(0);
        }
        said.push(word);
        // A word before a full stop belongs to another sentence.
        if tail.starts_with(['.', ';', '!', '?', '\n']) {
            said.clear();
        }
        rest = tail;
    }
}

fn split_word(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(text.len());
    text.split_at(end)
}

fn behind_trigger(text: &str, behind: Behind, clock: &Clock<'_>) -> Option<Stated> {
    let mut text = text;
    let anything = behind == Behind::Anything;
    let (mut preposition, mut within, mut refused) = (anything, anything, behind == Behind::NotBefore);
    for _ in 0..=MAX_FILLERS {
        let bare =
            text.trim_start_matches([' ', ':', '=', '~', '"', '\'', '`', '*', '(', '[', '_', '-', '\t']);
        let between = text.get(..text.len().saturating_sub(bare.len())).unwrap_or_default();
        // A dash begins another sentence, or a number below 0.
        if between.contains(" -") {
            return None;
        }
        // What a colon or an equals sign introduces is the value.
        let sign = between.contains([':', '=']);
        preposition |= sign && behind != Behind::ForOrUntil && !refused;
        text = bare;
        if behind == Behind::Preposition
            && !refused
            && let Some((at, _)) = scan_instant(text.as_bytes(), clock)
            && let at = Stated::at(at)
            && (preposition || !clock.wait(at).is_zero())
        {
            return Some(at);
        }
        if preposition && let Some(time) = time(text, within, clock) {
            return Some(time);
        }
        let (word, tail) = split_word(text);
        match word {
            "no" | "not" if behind == Behind::Preposition && !preposition => refused = true,
            "before" | "sooner" | "earlier" if refused => preposition = true,
            "for" | "until" | "till" if behind != Behind::NotFor => {
                (preposition, within) = (true, word == "for")
            }
            "from" if behind == Behind::NotFor => preposition = true,
            "in" | "after" | "at" | "on" if behind != Behind::ForOrUntil && (preposition || !refused) => {
                (preposition, within) = (true, word == "in");
            }
            _ if among(word, FILLERS) => {}
            _ => return None,
        }
        text = tail;
    }
    None
}

/// The time that a text begins with: an instant, a duration, an epoch.
fn time(text: &str, within: bool, clock: &Clock<'_>) -> Option<Stated> {
    if let Some((at, _)) = scan_instant(text.as_bytes(), clock) {
        return Some(Stated::at(at));
    }
    if let Some((delay, rest)) = scan_prose(text) {
        return is_a_wait(rest).then(|| Stated::delay(delay));
    }
    let word = text.split([' ', ',', ')', '"', ']']).next()?.trim_end_matches(['.', '!']);
    // Only behind that preposition: elsewhere it could be a time of day.
    if within && let Some(delay) = timespan(word.as_bytes()) {
        return Some(Stated::delay(delay));
    }
    if word.starts_with("pt") {
        return match Value::read(word.as_bytes(), clock)? {
            Value::Stated(stated) => Some(stated),
            Value::Bare(_) => None,
        };
    }
    let (number, rest) = scan_number(word.as_bytes())?;
    match Stated::bare(number, TimeUnit::Seconds) {
        at @ Stated::At(_) if rest.is_empty() => Some(at),
        _ => None,
    }
}

/// Whether what follows a duration leaves it a wait: not `30 seconds ago`, `24 hour window`, `an hour or so`, `5s - 10s`.
fn is_a_wait(rest: &str) -> bool {
    let trimmed = rest.trim_start();
    let second = ["-", "\u{2013}", "to ", "or "].iter().find_map(|between| trimmed.strip_prefix(between));
    if second.is_some_and(|second| second.trim_start().starts_with(|letter: char| letter.is_ascii_digit())) {
        return false;
    }
    const OTHERS: &str = "ago window windows period periods interval intervals limit limits exceeded timeout times per of \
        applied boundaries tokens rows between each every";
    let rest = rest.trim_start_matches([' ', '-']);
    let word = split_word(rest).0;
    !rest.starts_with('/')
        && !rest.starts_with("or so")
        && !rest.starts_with("or two")
        && !among(word, OTHERS)
}
