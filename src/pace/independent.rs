//! Refusals that no rate of ours can avoid: a load balancer with one full backend, a key that others use as well.
//!
//! Take a refuser that turns down one call in k, however slowly they come, and advises `w`. Between two refusals n = k − 1
//! calls pass, in `w + n/Ĉ` seconds, and the capacity that the two anchors imply, `n/(w + n/Ĉ)`, is less than Ĉ for
//! *every* Ĉ: each refusal lowers the estimate and the end is a drip. The best that can be had is `n/w`, and what is had
//! of it is the share of the time that is spent in cool-downs.
//!
//! **What tells the two apart.** The cost admitted between two anchors is the capacity times the time between them at a
//! limit C, *whatever* the rate; so a higher rate λ only makes the gaps shorter, `n = w·C/(1 − C/λ)`. At the refuser gaps stay as
//! long as they are, and more goes through. Nothing that is seen at one rate shows which it is. So now and then a
//! higher rate is *tried*, as much higher as it takes to tell, and a sequential test (exponential gaps, Wald's bounds)
//! compares the gaps that follow with those that a limit would have at the pace that was really reached: where the callers do not
//! reach the higher rate, nothing can be told. No episode decides alone, however long its gap. Both kinds of error are
//! bounded by what they cost:
//!
//! * *A trial at a limit* ends after a few refusals, undecided ones as well, and is lost unless clearly more went
//!   through. Each lost one doubles the refusals that the next one needs, up to a number beside which its own are few.
//!   Only odd refusals call for one at all: cool-downs that take a good part of the time, as a limit that is known advises a
//!   call's time after many calls; and where nothing is advised, refusals before probing has begun to grow.
//! * *A trial lost by chance* does not let the rate fall to a drip: what the trial carried is a floor, which sinks
//!   slowly until the next one.
//! * *A trial won by chance* is found out. The higher rate has to go on paying, which it cannot at a limit, since what
//!   goes through it is its capacity; and gaps have to stay as long as before the trial. Where either fails, or cool-downs
//!   hardly matter, the rate that went through is tried: at a limit refusals nearly cease, at the refuser gaps stay.
//!   The same is done from time to time without a cause, at twice the distance each time that it was in vain.
//!   One that was found out makes the next trial wait for many more refusals.
//!
//! Once it is certain, the estimate stays where cool-downs take most of the time, which is near the best, and probing
//! grows after a few gaps without a refusal, as when the full backend is back. Refusals that advise much shorter waits
//! are those of a limit beside the refuser, and are followed as ever.

mod certain;
mod tally;
#[cfg(test)]
mod tests;

use tally::Tally;
pub(super) use tally::{Last, Pair};

/// How much faster calls are let go on trial, at least and at most. The least has to be beyond the error of a capacity
/// that is known from a few pairs.
const FASTER: (f64, f64) = (1.5, 4.0);
/// How many times longer than at a limit the gaps have to be for a trial to tell anything.
const TELLING: f64 = 2.0;
/// The most that is made of that: gaps at a limit vary too.
const MOST_TELLING: f64 = 6.0;
/// Odd refusals that the first trial needs, and the most that failed trials make of it.
const SUSPICIOUS: f64 = 4.0;
const MOST_SUSPICIOUS: f64 = 24.0;
/// The share of cool-downs in the time that is odd for a limit, which advises a call's time after many calls.
const LONG: f64 = 0.07;
/// Gaps that take this many times as long as the cool-downs can be told apart.
const TELLING_GAP: f64 = 1.4;
/// Gaps of fewer calls than this are no gaps: calls were in flight together.
const LEAST_GAP: f64 = 1.9;
/// What is kept of earlier gaps when another one comes.
const KEPT: f64 = 0.8;
/// The log-likelihood ratio that decides a trial, and the most that one episode is taken for.
const DECIDED: f64 = 2.5;
const EPISODE: f64 = 2.0;
/// The refusals after which a trial is over, and the pairs and the seconds that show what it carried.
const LONGEST: f64 = 8.0;
const SHOWN: (f64, f64) = (4.0, 1.0);
/// A higher rate pays when it carries so many times what went through before.
const PAYS: f64 = 1.25;
/// How many pairs are waited for until it has to, at first.
const PATIENCE: f64 = 8.0;
/// What is kept of the floor after a lost trial with each pair.
const SINKS: f64 = 0.93;

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

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Phase {
    /// It may well be a limit.
    #[default]
    Limit,
    /// A higher rate is tried.
    Trial {
        /// The rate before.
        slower: f64,
        /// The capacity, if it is a limit.
        capacity: f64,
        /// Whether the rate before was one that refusals did not depend on.
        was_certain: bool,
    },
    /// Calls are refused whatever their rate is.
    Certain,
    /// That is doubted, and a lower rate is tried.
    Check {
        /// The rate before.
        faster: f64,
    },
}

/// What is known of the kind of refusals.
#[derive(Debug, Clone, Default)]
pub(super) struct Independent {
    phase: Phase,
    /// When the phase began: refusals of calls that left before say nothing of it.
    since: f64,
    /// The pairs of late, whatever the phase.
    seen: Tally,
    /// The pairs of the trial; and then those since it was won, the pairs of a check left out.
    tried: Tally,
    /// How many pairs the latter are, undiminished.
    count: f64,
    /// How many odd refusals there were since the last trial.
    odd: f64,
    /// The gap between refusals that does not depend on the rate, as a cost; and what it was before the trial.
    gap: f64,
    usual: f64,
    /// What went through before the trial that was won.
    before: f64,
    /// How many pairs are waited for until the higher rate has to pay.
    patience: f64,
    /// How many refusals in a row advised a much shorter wait.
    short: f64,
    /// The log-likelihood ratio of a limit to the other kind.
    ratio: f64,
    /// How many times in a row trials have failed, as a factor on what the next one needs.
    doubt: f64,
    /// What the last trial carried, sinking since.
    floor: f64,
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

    /// Whether the rate may be too high, so that several refusals are looked at however soon they come.
    pub(super) const fn is_fast(&self) -> bool {
        matches!(self.phase, Phase::Trial { .. } | Phase::Certain)
    }

    /// The cost of a gap that does not depend on the rate.
    pub(super) fn gap(&self) -> Option<f64> {
        (self.is_certain() && self.short <= 0.0).then_some(self.gap)
    }

    /// What a new pair of anchors says.
    pub(super) fn pair(&mut self, pair: &Pair) -> Verdict {
        if !self.is_limit() && pair.last.sent_at < self.since {
            return Verdict::Keep;
        }
        let pair = Pair { refusals: pair.refusals.max(1.0), ..*pair };
        let phase = self.phase;
        let verdict = match phase {
            Phase::Limit => self.suspected(&pair),
            Phase::Trial { slower, capacity, was_certain } => {
                self.on_trial(&pair, slower, capacity, was_certain)
            }
            Phase::Certain => self.certain(&pair),
            Phase::Check { faster } => self.checked(&pair, faster),
        };
        if self.phase != phase {
            self.since = pair.last.now;
        }
        verdict
    }

    fn suspected(&mut self, pair: &Pair) -> Verdict {
        self.floor *= SINKS;
        if !pair.last.is_advised && !pair.last.is_early {
            (self.seen, self.odd) = (Tally::default(), 0.0);
            return Self::no_less(self.floor, pair);
        }
        self.seen.add(pair, KEPT);
        self.odd += 1.0;
        if pair.last.is_advised && self.seen.share() < LONG {
            return Self::no_less(self.floor, pair);
        }
        if let Some(verdict) = self.try_faster(pair, false) {
            return verdict;
        }
        // Below a certain rate the kinds tell themselves apart, so until a trial has failed there is no use in going
        // lower.
        let least = if self.doubt > 0.0 {
            self.floor
        } else if pair.last.is_advised && self.seen.gap() >= LEAST_GAP * pair.mean {
            self.seen.gap() * self.seen.pairs / (TELLING_GAP * self.seen.closed).max(f64::MIN_POSITIVE)
        } else {
            0.0
        };
        Self::no_less(least, pair)
    }

    /// The estimate follows the anchors, down to `least`.
    fn no_less(least: f64, pair: &Pair) -> Verdict {
        if least > 0.0 { Verdict::AtLeast(least.min(pair.rate)) } else { Verdict::Limit }
    }

    /// Tries a higher rate, if it is time to and if that will tell anything.
    fn try_faster(&mut self, pair: &Pair, was_certain: bool) -> Option<Verdict> {
        if self.odd < (SUSPICIOUS * self.doubt.max(1.0)).min(MOST_SUSPICIOUS) {
            return None;
        }
        let gap = self.seen.gap();
        let capacity = self.seen.throughput().min(pair.rate);
        // At a limit the shorter cool-downs are, the less it takes to make gaps that are so many times shorter.
        let enough = 1.0 / (1.0 - MOST_TELLING * self.seen.share()).max(f64::MIN_POSITIVE);
        let faster = enough.clamp(FASTER.0, FASTER.1) * pair.rate;
        if gap < LEAST_GAP * pair.mean || gap < TELLING * self.seen.gap_at_limit(capacity, faster) {
            return None;
        }
        (self.gap, self.ratio, self.tried, self.count) = (gap, 0.0, Tally::default(), 0.0);
        self.phase = Phase::Trial { slower: pair.rate, capacity, was_certain };
        Some(Verdict::Set(faster))
    }

    fn on_trial(&mut self, pair: &Pair, slower: f64, capacity: f64, was_certain: bool) -> Verdict {
        self.seen.add(pair, KEPT);
        self.tried.add(pair, 1.0);
        let at_limit = self.tried.gap_at_limit(capacity, self.tried.pace());
        let at_limit = at_limit.max(self.gap / MOST_TELLING).min(self.gap);
        let ratio =
            pair.refusals * (self.gap / at_limit).ln() - pair.cost * (1.0 / at_limit - 1.0 / self.gap);
        self.ratio += ratio.clamp(-EPISODE, EPISODE);

        let carried = self.tried.throughput();
        let is_over = self.tried.refusals > LONGEST;
        let is_shown = self.tried.pairs >= SHOWN.0 && self.tried.span >= SHOWN.1;
        if self.ratio < -DECIDED || is_over && is_shown && carried > PAYS * capacity {
            self.phase = Phase::Certain;
            if !was_certain {
                self.before = capacity;
            }
            (self.usual, self.gap) = (self.gap, self.seen.gap());
            self.patience = PATIENCE;
        } else if self.ratio > DECIDED || is_over {
            self.phase = if was_certain { Phase::Certain } else { Phase::Limit };
            self.doubt = 2.0 * self.doubt.max(1.0);
            self.seen = Tally::default();
            self.floor = carried;
        } else {
            return Verdict::Keep;
        }
        (self.ratio, self.odd, self.tried, self.count) = (0.0, 0.0, Tally::default(), 0.0);
        match self.phase {
            Phase::Limit => Verdict::Set(slower.max(carried)),
            _ if self.seen.pairs > 0.0 => Verdict::Keep,
            _ => Verdict::Set(slower),
        }
    }
}
