//! The arithmetic of a scope against slow references, hostile numbers and long courses of events.

mod properties;
mod refusals;

use std::time::{Duration, Instant};

use super::{Lesson, Pace, RefusedCall, Sent};
use crate::units::QuotaUnits;

/// Everything that a test leaves open about a refusal.
pub(super) fn refusal(advice: Option<Duration>) -> RefusedCall {
    RefusedCall {
        who: (0, 0),
        advice,
        planned: Duration::ZERO,
        exhausted: QuotaUnits::EMPTY,
        is_alone: false,
        refusals: 0,
        draw: 0.5,
    }
}

pub(super) fn refuse(pace: &mut Pace, sent: &Sent, refused: &RefusedCall, now: Instant) -> Lesson {
    let lesson = pace.refused(sent, refused, &[], now);
    pace.ended();
    lesson
}

/// Whatever has happened in a scope: its slots, spans and watched calls are bounded in number.
#[test]
fn a_scope_takes_a_bounded_room() {
    let start = crate::clock::now();
    let mut pace = Pace::new(crate::pace::Limits::new(), start);
    let mut calls = Vec::new();
    for n in 0..20_000_u64 {
        let now = start + Duration::from_micros(37 * n);
        calls.push(pace.send(crate::pace::Cost::request(), now));
        if n % 3 == 0 {
            let sent = calls.remove(calls.len() / 2);
            let refused = RefusedCall { who: (n, n % 50), ..refusal(Some(Duration::from_millis(n % 900))) };
            refuse(&mut pace, &sent, &refused, now + Duration::from_millis(2));
        }
    }
    let kept = size_of::<Pace>() + pace.pacer.kept_bytes();
    println!("{} bytes, {kept} with what is kept beside", size_of::<Pace>());
    assert!(kept <= 3_200, "{kept} bytes");
}
