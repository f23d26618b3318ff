//! What is left of a fixed window: nothing comes back before it resets, and then all of it does.

use super::level::Observation;
use super::number::float;
use crate::reading::ServiceLimit;
use crate::units::QuotaUnit;

/// The hold where a window is spent and nobody says when it resets, in seconds.
const UNSTATED: f64 = 1.0;
/// The longest hold, in seconds: a success is weaker evidence than a refusal, and a wrong unit must not close a scope for
/// days. Windows in use last an hour at most, longer-lived quotas apart.
const LONGEST_HOLD: f64 = 3_600.0;

/// The window that a response has told of last, while it lasts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Window(Option<Stated>);

#[derive(Debug, Clone, Copy)]
struct Stated {
    left: f64,
    until: f64,
    /// When the call was sent whose response stated it.
    as_of: f64,
}

impl Window {
    /// What is left, while the window lasts.
    pub(crate) fn left(&self, now: f64) -> Option<f64> {
        self.0.filter(|stated| now < stated.until).map(|stated| stated.left)
    }

    /// Seconds until a call of `cost` may pass when `ahead` goes first.
    pub(crate) fn wait(&self, now: f64, ahead: f64, cost: f64) -> f64 {
        match self.0 {
            Some(stated) if cost > 0.0 && ahead + cost > stated.left => (stated.until - now).max(0.0),
            _ => 0.0,
        }
    }

    /// Takes `cost`.
    pub(crate) const fn take(&mut self, cost: f64) {
        if let Some(stated) = &mut self.0 {
            stated.left -= cost;
        }
    }

    /// A call that was sent at `sent_at` turned out to have cost `difference` more.
    pub(crate) fn correct(&mut self, sent_at: f64, difference: f64) {
        if let Some(stated) = self.0.as_mut().filter(|stated| sent_at > stated.as_of) {
            stated.left -= difference;
        }
    }

    /// Learns from what a response states.
    pub(crate) fn observe(&mut self, seen: &Observation<'_>) {
        let Some(remaining) = seen.limit.remaining else { return };
        if self.0.is_some_and(|stated| seen.sent_at < stated.as_of) {
            return;
        }
        let reset =
            seen.limit.reset.filter(|reset| !reset.is_zero()).map_or(UNSTATED, |reset| reset.as_secs_f64());
        self.0 = Some(Stated {
            left: float(remaining) - seen.sent_after,
            until: seen.now + reset.min(LONGEST_HOLD),
            as_of: seen.sent_at,
        });
    }
}

/// The window of a unit that has the least left; of equals the one that resets last.
pub(crate) fn tightest(limits: &[ServiceLimit], unit: QuotaUnit) -> Option<&ServiceLimit> {
    limits
        .iter()
        .filter(|limit| limit.unit == unit && limit.resets_at_once && limit.limit != Some(0))
        .filter_map(|limit| Some((limit.remaining?, limit)))
        .min_by_key(|(left, limit)| (*left, std::cmp::Reverse(limit.reset)))
        .map(|(_, limit)| limit)
}
