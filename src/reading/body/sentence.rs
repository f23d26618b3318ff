//! The sentences in which servers state a wait: `Please try again in 7m12s.`
//!
//! One small grammar: a word of waiting, a few words that may follow it, a time expression. The same messages also state
//! limits, windows, prices and versions, and a wrong match is worse than a miss.

use super::super::value::{Clock, Stated, TimeUnit, Value, scan_instant, scan_number, scan_prose, timespan};

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
}

/// The words of waiting, with those before them that belong to them.
fn trigger(word: &str, before: &str) -> Option<Behind> {
    Some(match word {
        "wait" if !matches!(before, "max" | "maximum" | "average" | "typical" | "not" | "t") => {
            Behind::Anything
        }
        "backoff" | "cooldown" => Behind::Anything,
        "retry" => Behind::Preposition,
        "again" if matches!(before, "try" | "trying" | "back" | "come" | "check" | "request" | "attempt") => {
            Behind::Preposition
        }
        "off" if before == "back" => Behind::Anything,
        "back" if before == "come" || before == "check" || before == "try" => Behind::Preposition,
        // Supabase: `you can only request this after ..`.
        "this" if before == "request" => Behind::Preposition,
        "reset" | "resets" | "resetting" | "renew" | "renews" | "renewed" | "renewal" | "refresh"
        | "refreshes" | "refreshed" | "refill" | "refills" | "refilled" | "replenish" | "replenishes"
        | "replenished" | "restored" | "resume" | "resumes"
            if !is_of_something_else(before) =>
        {
            Behind::Preposition
        }
        "available" | "unblocked" | "unbanned" | "lifted" => Behind::NotFor,
        "blocked" | "banned" | "throttled" | "suspended" | "locked" | "paused" => Behind::ForOrUntil,
        _ => return None,
    })
}

/// Words whose renewal or reset is no limit's.
fn is_of_something_else(word: &str) -> bool {
    matches!(
        word,
        "subscription"
            | "plan"
            | "trial"
            | "license"
            | "membership"
            | "certificate"
            | "password"
            | "key"
            | "token"
            | "cache"
            | "connection"
            | "page"
    )
}

/// The words that may stand between a word of waiting and the time.
const FILLERS: &str = "\
    about again another approximately approx around at be call calls it is least minimum please request \
    requests roughly the this time timestamp waiting will your delay seconds secs sec s";

/// The most such words.
const MAX_FILLERS: usize = 6;

/// The wait that a message in lower case states first.
pub(super) fn stated(text: &str, clock: &Clock<'_>) -> Option<Stated> {
    let mut before = "";
    let mut rest = text;
    loop {
        let start = rest.find(|letter: char| letter.is_ascii_alphanumeric())?;
        let at_word = rest.get(start..)?;
        let (word, tail) = split_word(at_word);
        if let Some(behind) = trigger(word, before)
            && let Some(stated) = behind_trigger(tail, behind, clock)
        {
            return Some(stated);
        }
        // A word before a full stop belongs to another sentence.
        before = if tail.starts_with(['.', ';', '!', '?']) { "" } else { word };
        rest = tail;
    }
}

fn split_word(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(text.len());
    text.split_at(end)
}

fn behind_trigger(text: &str, behind: Behind, clock: &Clock<'_>) -> Option<Stated> {
    let mut text = text;
    let (mut preposition, mut within) = (behind == Behind::Anything, false);
    for _ in 0..=MAX_FILLERS {
        let bare =
            text.trim_start_matches([' ', ':', '=', '~', '"', '\'', '`', '*', '(', '[', '_', '-', '\t']);
        // What a colon or an equals sign introduces is the value.
        let sign = text
            .get(..text.len().saturating_sub(bare.len()))
            .is_some_and(|between| between.contains([':', '=']));
        preposition |= sign && behind != Behind::ForOrUntil;
        text = bare;
        if preposition && let Some(time) = time(text, within, clock) {
            return Some(time);
        }
        let (word, tail) = split_word(text);
        match word {
            "for" | "until" | "till" if behind != Behind::NotFor => preposition = true,
            "from" if behind == Behind::NotFor => preposition = true,
            "in" | "after" | "at" | "on" if behind != Behind::ForOrUntil => {
                preposition = true;
                within |= word == "in";
            }
            _ if FILLERS.split(' ').any(|filler| filler == word) => {}
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

/// Whether what follows a duration leaves it a wait: not `30 seconds ago`, `24 hour window`, `an hour or so`.
fn is_a_wait(rest: &str) -> bool {
    let rest = rest.trim_start_matches([' ', '-']);
    let other = [
        "ago",
        "window",
        "windows",
        "period",
        "periods",
        "interval",
        "intervals",
        "limit",
        "limits",
        "exceeded",
        "timeout",
        "times",
        "per",
    ];
    !rest.starts_with('/')
        && !rest.starts_with("or so")
        && !rest.starts_with("or two")
        && !other.contains(&split_word(rest).0)
}
