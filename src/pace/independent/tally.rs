//! What lies between anchors, one by one and summed up.

/// The refusal that ends a pair.
#[derive(Debug, Clone, Copy)]
pub(in crate::pace) struct Last {
    /// The cool-down, in seconds, and whether the server advised it.
    pub(in crate::pace) wait: f64,
    pub(in crate::pace) is_advised: bool,
    /// Whether it came before probing had begun.
    pub(in crate::pace) is_early: bool,
    /// When the refused call was sent, and when that was known.
    pub(in crate::pace) sent_at: f64,
    pub(in crate::pace) now: f64,
}

/// What lies between two anchors.
#[derive(Debug, Clone, Copy)]
pub(in crate::pace) struct Pair {
    /// The cost that was admitted.
    pub(in crate::pace) cost: f64,
    /// How many calls were refused.
    pub(in crate::pace) refusals: f64,
    /// From the one moment at which the server admits to the other, in seconds.
    pub(in crate::pace) span: f64,
    /// The seconds of it that were spent in cool-downs.
    pub(in crate::pace) closed: f64,
    /// The estimate at which calls were let go.
    pub(in crate::pace) rate: f64,
    /// The mean cost of a call.
    pub(in crate::pace) mean: f64,
    pub(in crate::pace) last: Last,
}

/// Pairs summed up, older ones counting less.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) cost: f64,
    pub(super) refusals: f64,
    pub(super) span: f64,
    pub(super) closed: f64,
    pub(super) pairs: f64,
}

impl Tally {
    /// Adds a pair; `kept` is what is kept of those before.
    pub(super) fn add(&mut self, pair: &Pair, kept: f64) {
        self.cost = self.cost * kept + pair.cost;
        self.refusals = self.refusals * kept + pair.refusals;
        self.span = self.span * kept + pair.span;
        self.closed = self.closed * kept + pair.closed;
        self.pairs = self.pairs * kept + 1.0;
    }

    /// The cost admitted a second, cool-downs included. At a limit this is the capacity.
    pub(super) fn throughput(&self) -> f64 {
        self.cost / self.span.max(f64::MIN_POSITIVE)
    }

    /// The cost let go a second outside of cool-downs.
    pub(super) fn pace(&self) -> f64 {
        self.cost / (self.span - self.closed).max(f64::MIN_POSITIVE)
    }

    /// The cost between two refusals.
    pub(super) fn gap(&self) -> f64 {
        self.cost / self.refusals.max(f64::MIN_POSITIVE)
    }

    /// The share of the time that was spent in cool-downs.
    pub(super) fn share(&self) -> f64 {
        self.closed / self.span.max(f64::MIN_POSITIVE)
    }

    /// The cost between two refusals at a limit of `capacity` where calls are let go at `pace`; infinite where that is
    /// no more than the capacity.
    pub(super) fn gap_at_limit(&self, capacity: f64, pace: f64) -> f64 {
        let beyond = 1.0 - capacity / pace;
        if beyond > 0.0 {
            self.closed / self.refusals.max(f64::MIN_POSITIVE) * capacity / beyond
        } else {
            f64::INFINITY
        }
    }
}
