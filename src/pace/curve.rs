//! CUBIC ([RFC 9438](https://www.rfc-editor.org/rfc/rfc9438)) on the rate, with calls instead of seconds on its axis.

/// Calls from a cut back to the old top. A limit is touched about once in one to two times as many: the price in refusals.
pub(super) const WAY: f64 = 32.0;
/// What is left of the rate at a cut (RFC 9438 has .7; a rate is shared by fewer than a link is).
pub(super) const CUT: f64 = 0.9;
/// The same where refusals by chance are borne, so that what is slow is surely below a limit.
const DEEP_CUT: f64 = 0.75;
/// The same where the way back is longer than two [`WAY`]s: the dip lasts as long, so it has to be shallower.
const FLAT_CUT: f64 = 0.97;
/// The longest time back to the top, in seconds.
const LONGEST_WAY: f64 = 20.0;
/// No way back is shorter than so many times what a refusal takes to be heard: a loop cannot be faster than its feedback.
const FEEDBACK: f64 = 8.0;
/// The slowest and the fastest rate, in calls a second: a call a minute even so, and what no client reaches.
const SLOWEST: f64 = 0.05;
const FASTEST: f64 = 1e6;
/// The rate after a first burst that was refused to the last call.
const FIRST: f64 = 5.0;
/// Doublings beyond which a rate is infinite for all purposes.
const MOST_DOUBLINGS: f64 = 40.0;

/// How the rate rises.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    /// Steeply to the old top, flat around it, then doubling once for each two ways beyond.
    Cubic,
    /// Doubling four times a way, until a rate that went well is near.
    SlowStart { until: f64 },
    /// Doubling with every second call: the undo of a cut.
    Trial,
}

#[derive(Debug, Clone)]
pub(super) struct Curve {
    pub(super) phase: Phase,
    /// The rate at which the curve is flat, in calls of mean cost a second.
    pub(super) top: f64,
    is_deep: bool,
    /// Calls to the top, and calls since the cut that the pace held back.
    pub(super) way: f64,
    pub(super) climbed: f64,
}

impl Curve {
    /// In one way to `top`.
    pub(super) fn new(top: f64) -> Self {
        Self::cut(top, WAY, Phase::Cubic, false)
    }

    /// Where nothing is known of the rate.
    pub(super) fn slow_start() -> Self {
        Self { phase: Phase::SlowStart { until: FASTEST }, ..Self::new(FIRST) }
    }

    /// The rate in force, in calls of mean cost a second.
    pub(super) fn rate(&self) -> f64 {
        let doublings = |number: f64| number.clamp(0.0, MOST_DOUBLINGS).exp2();
        let rate = match self.phase {
            Phase::Trial => self.top * doublings(0.5 * self.climbed),
            Phase::SlowStart { .. } => self.top * doublings(4.0 * self.climbed / WAY),
            Phase::Cubic => {
                let x = self.climbed / self.way;
                let depth = 1.0
                    - match self.is_deep {
                        true => DEEP_CUT,
                        false if self.way > 2.0 * WAY => FLAT_CUT,
                        false => CUT,
                    };
                self.top * (1.0 + depth * (x - 1.0).min(1.0).powi(3)) * doublings(0.5 * (x - 2.0))
            }
        };
        rate.clamp(SLOWEST, FASTEST)
    }

    /// The share of the way to the top.
    pub(super) fn progress(&self) -> f64 {
        self.climbed / self.way
    }

    pub(super) fn climb(&mut self) {
        self.climbed += 1.0;
        if let Phase::SlowStart { until } = self.phase
            && self.rate() >= until
        {
            *self = Self::new(until);
        }
    }

    /// The curve after a cut: in so many calls back to `top`.
    pub(super) fn cut(top: f64, way: f64, phase: Phase, is_deep: bool) -> Self {
        let top = bounded(top);
        Self { phase, top, is_deep, way: way.min(LONGEST_WAY * top).max(2.0), climbed: 0.0 }
    }

    /// The same, no faster than a refusal, which takes so many seconds, can be heard.
    pub(super) fn slower_than(self, refusal_takes: f64) -> Self {
        Self { way: self.way.max(FEEDBACK * refusal_takes * self.top), ..self }
    }

    /// The undo of a cut: back to `good` and beyond.
    pub(super) fn trial(good: f64) -> Self {
        Self { phase: Phase::Trial, ..Self::new(good) }
    }
}

fn bounded(rate: f64) -> f64 {
    rate.clamp(SLOWEST, FASTEST)
}
