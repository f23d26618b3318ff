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
    /// What of it was refused, in the same halves.
    refused: (f64, f64),
}

impl Recent {
    pub(crate) fn add(&mut self, now: f64, cost: f64) {
        self.turn(now);
        self.current += cost;
    }

    /// Of what was sent, `cost` has been refused.
    pub(crate) fn refuse(&mut self, now: f64, cost: f64) {
        self.turn(now);
        self.refused.0 += cost;
    }

    fn turn(&mut self, now: f64) {
        let started = *self.first.get_or_insert(now);
        let elapsed = now - self.half_started.max(started);
        if elapsed >= HALF_SPAN {
            self.previous = if elapsed < 2.0 * HALF_SPAN { self.current } else { 0.0 };
            self.current = 0.0;
            self.refused = (0.0, if elapsed < 2.0 * HALF_SPAN { self.refused.0 } else { 0.0 });
            self.half_started = now;
        }
    }

    /// The cost of the last five to ten seconds.
    pub(crate) fn cost(&self) -> f64 {
        self.current + self.previous
    }

    /// The cost a second over the last five to ten seconds: of what was not refused, if that is `enough` to tell a rate,
    /// or else of all that was sent.
    pub(crate) fn rate(&self, now: f64, enough: f64) -> f64 {
        let since = self.first.unwrap_or(now).max(self.half_started - HALF_SPAN);
        let taken = self.cost() - self.refused.0 - self.refused.1;
        let cost = if taken >= enough { taken } else { self.cost() };
        cost / (now - since).clamp(1.0, 2.0 * HALF_SPAN)
    }
}
