//! The sentences in which vendors state a wait: `Please try again in 7m12s.`
//!
//! Only numbers with a unit behind known words count: the same messages also state limits, windows and prices.

use std::time::SystemTime;

use super::super::value::{BareUnit, Stated, scan_units, timespan};

/// The words before a wait. The last ones have other meanings as well, so that their preposition belongs to them.
const TRIGGERS: [&str; 8] = [
    "try again",
    "retry",
    "wait",
    "reset",
    // Django REST framework.
    "available in",
    // Azure API Management.
    "replenished in",
    // Supabase.
    "request this after",
    // Binance.
    "banned until",
];

/// The words that may stand between them and the number.
const FILLERS: [&str; 13] = [
    "in ",
    "after ",
    "for ",
    "at least ",
    "about ",
    "approximately ",
    "another ",
    "at ",
    "until ",
    "s ",
    "again ",
    "ing ",
    "~",
];

/// Azure Resource Manager puts the number in quotation marks.
const QUOTES: [char; 3] = ['\'', '"', '`'];

/// The wait that a message in lower case states first.
pub(super) fn stated(lower: &str, received_at: SystemTime) -> Option<Stated> {
    let mut rest = lower;
    loop {
        let (at, trigger) = TRIGGERS
            .iter()
            .filter_map(|trigger| Some((rest.find(trigger)?, trigger)))
            .min_by_key(|(at, _)| *at)?;
        rest = rest.get(at.checked_add(trigger.len())?..)?;
        if let Some(stated) = behind(rest, trigger.ends_with(" in"), received_at) {
            return Some(stated);
        }
    }
}

/// What stands behind a trigger; `within` where its preposition says that it is a duration.
fn behind(text: &str, mut within: bool, received_at: SystemTime) -> Option<Stated> {
    let mut text = text.trim_start_matches([' ', ':']);
    for _ in 0..4 {
        let Some((filler, shorter)) =
            FILLERS.iter().find_map(|filler| Some((*filler, text.strip_prefix(filler)?)))
        else {
            break;
        };
        within |= filler == "in ";
        text = shorter.trim_start();
    }
    let text = text.trim_start_matches(QUOTES);
    if let Some(nanos) = scan_units(text.as_bytes()) {
        return Some(Stated::delay(nanos));
    }
    // Only behind that preposition: elsewhere it could be a time of day.
    if within && let Some(nanos) = timespan(word(text)?.as_bytes()) {
        return Some(Stated::delay(nanos));
    }
    instant(text, received_at)
}

/// The first word, without the end of its sentence.
fn word(text: &str) -> Option<&str> {
    Some(text.split([' ', ',', ')', '"']).next()?.trim_end_matches('.'))
}

/// An instant: an HTTP-date, which is as long as IMF-fixdate, or a word that is an RFC 3339 one or an epoch.
fn instant(text: &str, received_at: SystemTime) -> Option<Stated> {
    const IMF_FIXDATE: usize = "sun, 06 nov 1994 08:49:37 gmt".len();
    let word = word(text)?;
    let candidates = [text.get(..IMF_FIXDATE), (word.len() >= "1700000000".len()).then_some(word)];
    candidates.into_iter().flatten().find_map(|candidate| {
        match Stated::parse(candidate.as_bytes(), BareUnit::Seconds, received_at)? {
            at @ Stated::At(_) => Some(at),
            Stated::Delay(_) | Stated::Beyond => None,
        }
    })
}
