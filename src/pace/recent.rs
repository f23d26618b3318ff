//! What was sent lately: the first guess at a capacity, until refusals tell it.

/// Half of the span that is looked at, in seconds.
const HALF_SPAN: f64 = 5.0;

#[derive(Debug, Clone, Default)]
pub(crate) struct Recent {
    /// The cost sent since `half_started`, and in the half span before.
    current: f64,
    previous: f64,
    half_started: f64,
    first: Option<f64>,
}

impl Recent {
    pub(crate) fn add(&mut self, now: f64, cost: f64) {
        let started = *self.first.get_or_insert(now);
        let elapsed = now - self.half_started.max(started);
        if elapsed >= HALF_SPAN {
            self.previous = if elapsed < 2.0 * HALF_SPAN { self.current } else { 0.0 };
            self.current = 0.0;
            self.half_started = now;
        }
        self.current += cost;
    }

    /// The cost of the last five to ten seconds.
    pub(crate) fn cost(&self) -> f64 {
        self.current + self.previous
    }

    /// The cost a second over the last five to ten seconds.
    pub(crate) fn rate(&self, now: f64) -> f64 {
        let since = self.first.unwrap_or(now).max(self.half_started - HALF_SPAN);
        (self.current + self.previous) / (now - since).clamp(1.0, 2.0 * HALF_SPAN)
    }
}
