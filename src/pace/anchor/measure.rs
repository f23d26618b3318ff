//! What two anchors together say of the capacity.

use super::super::independent::{Last, Pair, Verdict};
use super::{Anchor, Pacer};

/// So many refusals are enough to judge a rate that is on trial.
const TOO_MANY: f64 = 4.0;
/// No span between anchors is taken for shorter, in seconds.
const SHORTEST_SPAN: f64 = 0.01;
/// The time constant of the capacity estimate.
const MEMORY: f64 = 10.0;

impl Pacer {
    /// Takes the anchor `new` of a refusal, and what it says of the capacity together with the last one.
    pub(super) fn measure(&mut self, new: Anchor, refusal: Last) {
        let Some(last) = self.anchor else {
            self.anchor = Some(new);
            self.idle = 0.0;
            self.closed = 0.0;
            self.admits = new.admits;
            return;
        };
        self.closed += refusal.wait.min((new.admits - self.admits).max(0.0));
        self.admits = new.admits.max(self.admits);
        let span = new.admits - last.admits;
        let cost = new.admitted - last.admitted;
        let refused = (new.refused - last.refused).max(0.0);
        // A rate that is on trial must not do harm for long, nor wait for a call to be admitted.
        let on_trial = self.independent.is_fast() && refused >= TOO_MANY * self.mean;
        let enough = span >= 1.0 || self.provisional && span >= 0.25 && cost >= 8.0 * self.mean;
        if !(on_trial || enough && cost > 0.0) {
            return;
        }
        let span = span.max(SHORTEST_SPAN);
        let cost = cost.max(0.0);
        let observed = cost / span;
        self.proven.add_span(new.admits, observed, span);
        // A span in which the callers were the limit says nothing of why calls are refused.
        let verdict = match self.capacity {
            Some(rate) if self.idle <= 0.5 * span || !self.independent.is_limit() => {
                let refusals = refused / self.mean;
                let closed = self.closed.min(span);
                let pair = Pair { cost, refusals, span, closed, rate, mean: self.mean, last: refusal };
                self.independent.pair(&pair)
            }
            _ => Verdict::Limit,
        };
        self.closed = 0.0;
        let capacity = match self.capacity.filter(|_| !self.provisional) {
            // A server may charge for what it refuses; then the span is longer than what was admitted explains. After
            // a herd of refusals the estimate errs upwards, where the next refusal mends it soon, and stays open.
            None if refused > cost && verdict == Verdict::Limit => {
                self.capacity = Some((cost + refused) / span);
                self.provisional = true;
                self.anchor = Some(new);
                self.idle = 0.0;
                return;
            }
            None => observed,
            // A span in which the callers were the limit shows only that the capacity is not lower.
            Some(capacity) if self.idle > 0.5 * span => capacity.max(observed),
            Some(capacity) => {
                let weight = 1.0 - (-span / MEMORY).exp();
                capacity * (observed / capacity).clamp(0.2, 5.0).powf(weight)
            }
        };
        let capacity = match verdict {
            Verdict::Limit => capacity,
            Verdict::AtLeast(least) => capacity.max(least),
            Verdict::Keep => self.capacity.unwrap_or(capacity),
            Verdict::Set(other) => other,
        };
        self.capacity = Some(capacity);
        self.provisional = false;
        self.anchor = Some(new);
        self.idle = 0.0;
    }
}
