//! What was sent lately: the first guess at a capacity, until refusals tell it; and what went well lately, which casts doubt
//! on an estimate far below it.

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

    /// Whether the whole span has been seen.
    pub(crate) fn is_full(&self, now: f64) -> bool {
        self.first.is_some_and(|first| now - first >= 2.0 * HALF_SPAN)
    }

    /// The cost a second over the last five to ten seconds.
    pub(crate) fn rate(&self, now: f64) -> f64 {
        let since = self.first.unwrap_or(now).max(self.half_started - HALF_SPAN);
        (self.current + self.previous) / (now - since).clamp(1.0, 2.0 * HALF_SPAN)
    }
}

/// The time constant of what "lately" means, in seconds.
const LATELY: f64 = 120.0;
/// The least span over which a rate goes well, in seconds: a full bucket lets any rate pass for a while.
const WELL: f64 = 10.0;
/// What is below this share of it is far below. Over [`WELL`] a bucket of five seconds lets one and a half times the
/// capacity pass.
const FAR: f64 = 0.33;

/// The highest rate that went well lately.
#[derive(Debug, Clone, Default)]
pub(crate) struct Proven {
    rate: f64,
    at: f64,
}

impl Proven {
    /// Calls went well at `rate`.
    pub(crate) fn add(&mut self, now: f64, rate: f64) {
        let kept = (-(now - self.at).max(0.0) / LATELY).exp();
        self.rate = rate.max(self.rate * kept);
        self.at = now;
    }

    /// Calls went well at `rate` over `span` seconds, if that is long enough.
    pub(crate) fn add_span(&mut self, now: f64, rate: f64, span: f64) {
        if span >= WELL {
            self.add(now, rate);
        }
    }

    pub(crate) fn is_far_above(&self, rate: f64) -> bool {
        rate < FAR * self.rate
    }
}
