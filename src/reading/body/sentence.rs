//! The sentences in which vendors state a wait: `Please try again in 7m12s.`
//!
//! Only numbers with a unit behind known words count: the same messages also state limits, windows and prices.

use std::time::SystemTime;

use super::super::value::{BareUnit, Stated, scan_units};

/// The words before a wait.
const TRIGGERS: [&str; 4] = ["try again", "retry", "wait", "reset"];

/// The words that may stand between them and the number.
const FILLERS: [&str; 12] = [
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
];

/// The wait that a message in lower case states first.
pub(super) fn stated(lower: &str, received_at: SystemTime) -> Option<Stated> {
    let mut rest = lower;
    loop {
        let (at, trigger) = TRIGGERS
            .iter()
            .filter_map(|trigger| Some((rest.find(trigger)?, trigger)))
            .min_by_key(|(at, _)| *at)?;
        rest = rest.get(at.checked_add(trigger.len())?..)?;
        if let Some(stated) = behind(rest, received_at) {
            return Some(stated);
        }
    }
}

fn behind(text: &str, received_at: SystemTime) -> Option<Stated> {
    let mut text = text.trim_start_matches([' ', ':']);
    for _ in 0..4 {
        let Some(shorter) = FILLERS.iter().find_map(|filler| text.strip_prefix(filler)) else { break };
        text = shorter.trim_start();
    }
    if let Some(nanos) = scan_units(text.as_bytes()) {
        return Stated::delay(nanos);
    }
    instant(text, received_at)
}

/// An instant: an HTTP-date, which is as long as IMF-fixdate, or an RFC 3339 one, which ends at the next space.
fn instant(text: &str, received_at: SystemTime) -> Option<Stated> {
    const IMF_FIXDATE: usize = "sun, 06 nov 1994 08:49:37 gmt".len();
    let word = text.split([' ', ',', ')', '"']).next()?.trim_end_matches('.');
    let candidates = [text.get(..IMF_FIXDATE), (word.len() > "yyyy-mm-dd".len()).then_some(word)];
    candidates.into_iter().flatten().find_map(|candidate| {
        match Stated::parse(candidate.as_bytes(), BareUnit::Seconds, received_at)? {
            at @ Stated::At(_) => Some(at),
            Stated::Delay(_) => None,
        }
    })
}
