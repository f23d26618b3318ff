//! Refusals that no rate of ours can avoid: a load balancer with one full backend, a key that others use as well.
//!
//! Take a refuser that turns down every k-th call, however slowly they come, and advises `w`. Between two refusals n = k − 1
//! calls pass, in `w + n/Ĉ` seconds, and the capacity that the two anchors imply, `n/(w + n/Ĉ)`, is less than Ĉ for
//! *every* Ĉ: each refusal lowers the estimate and the end is nothing.
//!
//! One such pair cannot be told from a limit that is lower than Ĉ, but a row of them can: anchors at a limit imply the
//! same capacity *whatever* Ĉ was, until Ĉ has come down to it and explains what is seen; here what they imply sinks
//! together with Ĉ. Where that is seen over a twofold drop of Ĉ, the estimate from before goes into force again, and
//! the cool-downs alone slow the calls. That is also a test: at a limit the anchors go on implying what they implied,
//! and then the low estimate was right; at such a refuser they imply more.

/// Anchors that imply less than this share of the estimate contradict it.
const CONTRADICTS: f64 = 0.9;
/// So many pairs of anchors in a row that do not, and it is a limit.
const EXPLAINED: u32 = 2;
/// How far the estimate has to fall, and with it what anchors imply, before limits are doubted.
const FALL: f64 = 0.5;
const SUNK: f64 = 0.8;
/// How many pairs of anchors that takes: in all, and below half of the first estimate.
const PAIRS: u32 = 3;
const LOW_PAIRS: u32 = 2;
/// The share of cool-downs in the time below which it is not they that make the anchors imply less: several processes at
/// one limit take shares from one another, and are advised short waits.
const CLOSED: f64 = 0.15;
/// The gain in throughput below which it is not worth while to go back.
const GAIN: f64 = 1.3;
/// What is kept of earlier pairs when another one comes: refusals may come by chance.
const KEPT: f64 = 0.8;
/// The pairs that judge the estimate which has been put back in force, the first of them the expected one.
const TRIAL: u32 = 4;
/// Refusals further apart than this, in seconds, are no matter.
const RARE: f64 = 60.0;

/// What a pair of anchors says of refusals of this kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// Nothing: the estimate follows the anchors.
    Limit,
    /// The estimate stays as it is.
    Keep,
    /// The estimate becomes this.
    Set(f64),
}

/// What was admitted, in how many seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    cost: f64,
    span: f64,
    pairs: u32,
}

impl Sum {
    fn add(&mut self, cost: f64, span: f64) {
        self.cost += cost;
        self.span += span;
        self.pairs = self.pairs.saturating_add(1);
    }

    fn implied(&self) -> f64 {
        self.cost / self.span.max(f64::MIN_POSITIVE)
    }
}

#[derive(Debug, Clone, Copy)]
struct Held {
    seen: Sum,
    /// At a limit less than this is implied.
    least: f64,
}

/// The anchors in a row that contradicted the estimate.
#[derive(Debug, Clone, Default)]
pub(super) struct Independent {
    /// The first and highest estimate of the row.
    first: f64,
    /// What was seen above half of it, and below.
    high: Sum,
    low: Sum,
    /// Seconds of `low` that were advised cool-downs; the others are our own throttling.
    closed: f64,
    /// Pairs in a row that the estimate explains.
    explained: u32,
    /// While the estimate is held.
    held: Option<Held>,
}

impl Independent {
    /// Whether calls are refused whatever their rate is.
    pub(super) const fn is_certain(&self) -> bool {
        self.held.is_some()
    }

    /// Between two anchors `cost` was admitted in `span` seconds, the last `closed` of them an advised cool-down, while
    /// calls were let go at the rate `estimate`.
    pub(super) fn pair(&mut self, cost: f64, span: f64, closed: f64, estimate: f64) -> Verdict {
        if span > RARE {
            *self = Self::default();
            return Verdict::Limit;
        }
        if let Some(held) = &mut self.held {
            held.seen = Sum { cost: held.seen.cost * KEPT, span: held.seen.span * KEPT, ..held.seen };
            held.seen.add(cost, span);
            let implied = held.seen.implied();
            if held.seen.pairs < TRIAL || implied >= held.least {
                return Verdict::Keep;
            }
            // If that was chance, what is implied will sink from here.
            *self = Self { first: estimate, high: held.seen, ..Self::default() };
            return Verdict::Set(implied);
        }
        // Where refusals come by chance a single gap may be long.
        self.explained =
            if cost < CONTRADICTS * estimate * span { 0 } else { self.explained.saturating_add(1) };
        if self.explained >= EXPLAINED || self.explained > 0 && self.first <= 0.0 {
            *self = Self::default();
            return Verdict::Limit;
        }
        self.first = self.first.max(estimate);
        if estimate > FALL * self.first {
            self.high.add(cost, span);
            return Verdict::Limit;
        }
        self.low.add(cost, span);
        self.closed += closed.min(span);
        let implied = self.low.implied();
        let enough = self.low.pairs >= LOW_PAIRS && self.low.pairs.saturating_add(self.high.pairs) >= PAIRS;
        // The same cool-downs, but calls let go at the first rate.
        let expected = self.low.cost / (self.closed + self.low.cost / self.first);
        let long = self.closed >= CLOSED * self.low.span;
        if !enough || !long || implied > SUNK * self.high.implied() || expected < GAIN * implied {
            return Verdict::Limit;
        }
        let mean = self.low.cost / f64::from(self.low.pairs);
        let seen = Sum { cost: mean, span: mean / expected, pairs: 1 };
        self.held = Some(Held { seen, least: (expected * implied).sqrt() });
        Verdict::Set(self.first)
    }
}
