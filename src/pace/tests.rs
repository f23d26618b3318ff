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
