//! Refusals that no rate of ours can avoid: a load balancer with one full backend, a key that others use as well.
//!
//! Take a refuser that turns down one call in k, however slowly they come, and advises `w`. Between two refusals n = k − 1
//! calls pass, in `w + n/Ĉ` seconds, and the capacity that the two anchors imply, `n/(w + n/Ĉ)`, is less than Ĉ for
//! *every* Ĉ: each refusal lowers the estimate and the end is a drip. The best that can be had is `n/w`, and what is had
//! of it is the share of the time that is spent in cool-downs.
//!
//! What tells such a refuser from a limit is how the gaps n answer to the rate. At a limit C no more than about
//! `w·C/(1 − C/Ĉ)` calls pass between two refusals, fewer the faster they come; at the refuser gaps stay as long as they
//! are. So where refusals look odd for a limit, and the two kinds predict gaps that differ enough, a higher rate is
//! *tried*, and a sequential test of the gaps that follow (exponential ones, Wald's bounds) tells the kind. Odd are
//! cool-downs that take a good part of the time, as a limit that is known advises a call's time after many calls; and
//! where nothing is advised, refusals before probing has begun to grow. At a limit a trial costs a few refusals; each
//! one that fails doubles what the next one needs.
//!
//! Once it is certain, the estimate stays where cool-downs take most of the time, which is near the best, and probing
//! grows after a few gaps without a refusal, as when the full backend is back. Refusals that advise much shorter waits
//! are those of a limit beside the refuser, and are followed as ever; gaps that become much shorter refute it all.

/// How much faster calls are let go on trial.
const FASTER: f64 = 4.0;
/// How many times longer than at a limit the gaps have to be for a trial to tell anything.
const TELLING: f64 = 2.0;
/// The most that is made of that: gaps at a limit vary too.
const MOST_TELLING: f64 = 6.0;
/// Odd refusals that the first trial needs, and the most that failed trials make of it.
const SUSPICIOUS: f64 = 3.0;
const MOST_SUSPICIOUS: f64 = 24.0;
/// The share of cool-downs in the time that is odd for a limit.
const LONG: f64 = 0.06;
/// Gaps that take this many times as long as the cool-downs can be told apart.
const TELLING_WAIT: f64 = 1.4;
/// The least gap at a limit, and the least that is odd, in calls of mean cost.
const LEAST_GAP: f64 = 0.8;
const ODD_GAP: f64 = 3.0;
/// What is kept of earlier gaps when another one comes.
const KEPT: f64 = 0.8;
/// The log-likelihood ratio that decides a trial.
const DECIDED: f64 = 2.5;
/// Once it is certain: how many times shorter gaps are at a limit, the log-likelihood ratio that makes it one after all,
/// and the most that is held against that.
const SHORTER: f64 = 3.0;
const REFUTED: f64 = 7.0;
const TRUST: f64 = 3.0;
/// Advice below this share of the usual is a limit's; so many times in a row, and there is nothing but a limit.
const SHORT: f64 = 0.3;
const MOST_SHORT: f64 = 10.0;
/// Once it is certain, gaps take no longer than this share of the cool-downs.
const SHARE: f64 = 0.67;
/// What is kept of failed trials with every refusal that bears out one that did not fail.
const FORGIVEN: f64 = 0.97;
/// How fast the gap follows what is seen.
const GAIN: f64 = 0.1;

/// What lies between two anchors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    /// The cost that was admitted.
    pub(super) cost: f64,
    /// How many calls were refused.
    pub(super) refusals: f64,
    /// From the one moment at which the server admits to the other, in seconds.
    pub(super) span: f64,
    /// The last cool-down, in seconds, and whether the server advised it.
    pub(super) wait: f64,
    pub(super) is_advised: bool,
    /// The estimate at which calls were let go.
    pub(super) rate: f64,
    /// The mean cost of a call.
    pub(super) mean: f64,
    /// Whether the last refusal came before probing had begun.
    pub(super) is_early: bool,
}

/// What a pair of anchors says of refusals of this kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// Nothing: the estimate follows the anchors.
    Limit,
    /// Nothing, but the estimate does not fall below this.
    AtLeast(f64),
    /// The estimate stays as it is.
    Keep,
    /// The estimate becomes this.
    Set(f64),
}

/// The pairs of late, older ones counting less.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    cost: f64,
    refusals: f64,
    span: f64,
    waits: f64,
    pairs: f64,
    /// How many pairs there were, undiminished.
    count: f64,
}

impl Sum {
    fn add(&mut self, pair: &Pair) {
        self.cost = self.cost * KEPT + pair.cost;
        self.refusals = self.refusals * KEPT + pair.refusals;
        self.span = self.span * KEPT + pair.span;
        self.waits = self.waits * KEPT + pair.wait;
        self.pairs = self.pairs * KEPT + 1.0;
        self.count += 1.0;
    }

    fn implied(&self) -> f64 {
        self.cost / self.span.max(f64::MIN_POSITIVE)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Phase {
    /// It may well be a limit.
    #[default]
    Limit,
    /// A higher rate is tried.
    Trial {
        /// The rate before.
        slower: f64,
        /// The gap that is expected at a limit.
        at_limit: f64,
        /// Whether the rate before was one that refusals did not depend on.
        was_certain: bool,
    },
    /// Calls are refused whatever their rate is.
    Certain,
}

/// What is known of the kind of refusals.
#[derive(Debug, Clone, Default)]
pub(super) struct Independent {
    phase: Phase,
    seen: Sum,
    /// The pairs of the trial alone.
    tried: Sum,
    /// The gap between refusals that does not depend on the rate, as a cost.
    gap: f64,
    /// What that is held for at least, once it is certain.
    least: f64,
    /// How many refusals in a row advised a much shorter wait.
    short: f64,
    /// The log-likelihood ratio of a limit to the other kind.
    ratio: f64,
    /// How many times in a row trials have failed, as a factor on what the next one needs.
    doubt: f64,
}

impl Independent {
    /// Whether calls are refused whatever their rate is.
    pub(super) fn is_certain(&self) -> bool {
        self.phase == Phase::Certain
    }

    /// Whether a pair says something even when the callers were the limit.
    pub(super) fn is_limit(&self) -> bool {
        self.phase == Phase::Limit
    }

    /// The cost of a gap that does not depend on the rate.
    pub(super) fn gap(&self) -> Option<f64> {
        (self.is_certain() && self.short <= 0.0).then_some(self.gap)
    }

    /// What a new pair of anchors says.
    pub(super) fn pair(&mut self, pair: &Pair) -> Verdict {
        let refusals = pair.refusals.max(1.0);
        let pair = Pair { refusals, ..*pair };
        match self.phase {
            Phase::Limit => {
                if !pair.is_advised && !pair.is_early {
                    self.seen = Sum::default();
                    return Verdict::Limit;
                }
                self.seen.add(&pair);
                // A limit that is known advises waits of a call's time after many calls.
                if pair.is_advised && self.seen.waits < LONG * self.seen.span {
                    return Verdict::Limit;
                }
                self.try_faster(&pair, false).unwrap_or_else(|| self.until_told(&pair))
            }
            Phase::Trial { slower, at_limit, was_certain } => {
                self.seen.add(&pair);
                self.tried.add(&pair);
                self.ratio +=
                    refusals * (self.gap / at_limit).ln() - pair.cost * (1.0 / at_limit - 1.0 / self.gap);
                if self.ratio < -DECIDED {
                    (self.phase, self.ratio) = (Phase::Certain, 0.0);
                    self.gap = self.seen.cost / self.seen.refusals;
                    self.least = 0.5 * self.gap;
                    self.seen.count = 1.0;
                } else if self.ratio > DECIDED {
                    self.phase = if was_certain { Phase::Certain } else { Phase::Limit };
                    (self.ratio, self.doubt, self.seen) = (0.0, 2.0 * self.doubt.max(1.0), Sum::default());
                    // At a limit anchors imply what it is, at whatever rate; and if the trial has failed by chance, the rate
                    // is not lost again.
                    return Verdict::Set(if was_certain { slower } else { slower.max(self.tried.implied()) });
                }
                Verdict::Keep
            }
            Phase::Certain => {
                // A limit as well: it advises its own waits, and its anchors are worth following.
                if pair.is_advised && pair.wait < SHORT * self.seen.waits / self.seen.pairs {
                    self.short += 1.0;
                    if self.short >= MOST_SHORT {
                        *self = Self::default();
                    }
                    return Verdict::Limit;
                }
                self.short = 0.0;
                self.doubt *= FORGIVEN;
                self.ratio += refusals * SHORTER.ln() - pair.cost * (SHORTER - 1.0) / self.gap;
                self.ratio = self.ratio.max(-TRUST);
                // A limit that comes near is no reason to get used to shorter gaps.
                self.gap = (self.gap + GAIN * (pair.cost / refusals - self.gap)).max(self.least);
                self.seen.add(&pair);
                if self.ratio > REFUTED {
                    let implied = self.seen.implied();
                    *self = Self { doubt: 2.0 * self.doubt.max(1.0), ..Self::default() };
                    return Verdict::Set(implied);
                }
                let enough = self.gap / (SHARE * pair.wait.max(f64::MIN_POSITIVE));
                let keep = if pair.rate < enough {
                    Verdict::Set(enough.min(FASTER * pair.rate))
                } else {
                    Verdict::Keep
                };
                if pair.is_advised { keep } else { self.try_faster(&pair, true).unwrap_or(Verdict::Keep) }
            }
        }
    }

    /// Below a certain rate the kinds tell themselves apart, so until a trial has failed there is no use in going lower.
    fn until_told(&self, pair: &Pair) -> Verdict {
        let Sum { cost, refusals, waits, pairs, .. } = self.seen;
        let gap = cost / refusals;
        if self.doubt > 0.0 || !pair.is_advised || gap < ODD_GAP * pair.mean {
            return Verdict::Limit;
        }
        Verdict::AtLeast((gap * pairs / (TELLING_WAIT * waits)).min(pair.rate))
    }

    /// Tries a higher rate, if it is time to and if that will tell anything.
    fn try_faster(&mut self, pair: &Pair, was_certain: bool) -> Option<Verdict> {
        let Sum { cost, refusals, waits, pairs, count, .. } = self.seen;
        if count < (SUSPICIOUS * self.doubt.max(1.0)).min(MOST_SUSPICIOUS) {
            return None;
        }
        let (gap, faster) = (cost / refusals, FASTER * pair.rate);
        let implied = self.seen.implied().min(pair.rate);
        let at_limit = waits / pairs * implied / (1.0 - implied / faster).max(0.1);
        let at_limit = at_limit.max(LEAST_GAP * pair.mean).max(gap / MOST_TELLING);
        if gap < TELLING * at_limit {
            return None;
        }
        (self.gap, self.ratio, self.tried) = (gap, 0.0, Sum::default());
        self.phase = Phase::Trial { slower: pair.rate, at_limit, was_certain };
        Some(Verdict::Set(faster))
    }
}
