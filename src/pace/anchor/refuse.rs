//! What a refusal does to the pace: the new anchor, and when the next call may go.

use super::super::independent::Last;
use super::{Anchor, LARGEST, MARGIN, PATIENCE, Pacer, SLOWEST, bounded, gathering};

/// Backoff where a refusal advises nothing: the first wait without an estimate, and the longest.
const FIRST_BACKOFF: f64 = 0.5;
const LONGEST_BACKOFF: f64 = 8.0;
const MOST_DOUBLINGS: u32 = 6;
/// Fewer calls of mean cost lately than this are no evidence of a rate.
const SCARCE: f64 = 8.0;
/// The rate, in calls of mean cost a second, that re-opens a scope of which nothing is known.
const UNKNOWN_RATE: f64 = 10.0;
/// What all calls in flight together may move the next, in seconds; beyond, an estimate or a usage is wrong.
const LONGEST_BACKLOG: f64 = 900.0;

/// A refusal, in the gate's own bookkeeping; all moments in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused {
    pub(crate) now: f64,
    pub(crate) sent_at: f64,
    /// Everything sent before the refused call.
    pub(crate) sent_before: f64,
    pub(crate) cost: f64,
    /// The advised wait, where there is any.
    pub(crate) advice: Option<f64>,
    /// The wait that the call plans for itself, and the longest that it has time for, where it has the scope to itself.
    pub(crate) alone: Option<(f64, f64)>,
    /// A random draw from [0, 1).
    pub(crate) draw: f64,
    /// The rate of the limit that headers state.
    pub(crate) header_rate: Option<f64>,
    /// The lowest known rate, stated or configured.
    pub(crate) cap: Option<f64>,
}

impl Pacer {
    /// The server refused a call for want of this unit; returns the wait in seconds that it stands for.
    pub(crate) fn refuse(&mut self, seen: &Refused) -> f64 {
        let planned = seen.alone.map(|(planned, _)| planned);
        let wait = seen.advice.or(planned.filter(|planned| *planned > 0.0)).unwrap_or_else(|| self.backoff());
        if self.mean <= 0.0 {
            self.mean = seen.cost.max(1.0);
        }
        let is_early =
            self.capacity.is_some_and(|capacity| self.gated <= PATIENCE * self.patience(capacity).1);
        self.guess.refused(seen.sent_at);
        let newest = seen.sent_at >= self.last_refused;
        self.last_refused = self.last_refused.max(seen.sent_at);
        if !self.pacing && self.recent.is_full(seen.now) {
            self.proven.add(seen.now, self.recent.rate(seen.now));
        }
        if !self.pacing {
            self.episode = 0;
            self.round = f64::NEG_INFINITY;
        }
        if seen.sent_at >= self.round {
            self.episode = self.episode.saturating_add(1);
            self.failures = self.failures.saturating_add(1);
            self.round = seen.now;
        }
        // What a late answer to an older call says was said by a newer one already.
        if !newest && self.pacing {
            self.refused = (self.refused + seen.cost).min(LARGEST);
            return wait;
        }

        let admits = seen.sent_at + wait - gathering(seen.cost, seen.header_rate);
        let admitted = (seen.sent_before - self.refused).max(0.0);
        let last =
            Last { wait, is_advised: seen.advice.is_some(), is_early, sent_at: seen.sent_at, now: seen.now };
        self.measure(Anchor { admits, admitted, refused: self.refused }, last);
        let estimate = self.capacity.unwrap_or_else(|| {
            self.provisional = true;
            self.guess.begin(seen.now);
            // Calls now and then show how much was wanted, not how much there is.
            let scarce = self.recent.cost() < SCARCE * self.mean;
            self.recent.rate(seen.now).max(if scarce { UNKNOWN_RATE * self.mean } else { 0.0 })
        });
        let capacity = bounded(estimate, self.mean, seen.cap);
        self.capacity = Some(capacity);

        self.refused = (self.refused + seen.cost).min(LARGEST);
        self.pacing = true;
        self.gated = 0.0;
        self.probing = 0.0;
        // There is no limit to keep clear of where calls are refused whatever their rate is.
        let margin = if self.independent.is_fast() {
            MARGIN.0
        } else {
            self.margin(self.episode.saturating_sub(1), capacity)
        } * (0.5 + seen.draw);
        let sent_after = (self.sent - seen.sent_before - seen.cost).max(0.0);
        // Refused again without a success between: perhaps the server charges for what it refuses, and leaves the
        // charge out of its advice. Then the call that comes back pays for itself first, or it never passes.
        let charge = if self.failures >= 2 { (seen.cost / capacity).min(SLOWEST) } else { 0.0 };
        let apart = match seen.alone {
            None => margin + charge,
            Some((planned, at_most)) => {
                // Nobody else is to be kept apart from a call that is alone. One that is refused as advised again and
                // again is not: others, in processes of their own, wake when it does.
                let jitter = (planned - wait).max(0.0);
                let unseen = self.failures >= 2 && seen.advice.is_some() && jitter > 0.0;
                if unseen { (margin + charge).min(at_most - wait).max(jitter) } else { jitter }
            }
        };
        self.next_send = admits + (sent_after / capacity).min(LONGEST_BACKLOG) + apart;
        wait
    }

    /// Another unit refused the call: this one did not take it either.
    pub(crate) fn not_admitted(&mut self, cost: f64) {
        self.refused = (self.refused + cost).min(LARGEST);
    }

    /// The wait in seconds where a refusal advises none.
    fn backoff(&self) -> f64 {
        let Some(capacity) = self.capacity else { return FIRST_BACKOFF };
        let doublings = f64::from(self.failures.clamp(0, i32::try_from(MOST_DOUBLINGS).unwrap_or(6)));
        (self.mean / capacity * doublings.exp2()).min(LONGEST_BACKOFF)
    }
}
