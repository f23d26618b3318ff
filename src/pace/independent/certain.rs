//! Refusals that are held to be independent of the rate: living with them, and finding out a limit.

use super::tally::{Pair, Tally};
use super::{Independent, KEPT, PAYS, Phase, Verdict};

/// What is kept of the pairs since the trial when another one comes.
const REMEMBERED: f64 = 0.95;
/// Below this share of advised cool-downs in the time there is hardly anything to lose by a lower rate.
const HARDLY: f64 = 0.15;
/// After so many times the patience it is looked at again whatever it seems, for what went through before the trial may
/// have been too little by chance.
const SOMETIME: f64 = 8.0;
/// How many times shorter gaps cast doubt on the kind, the log-likelihood ratio that does, and the most that is held
/// against that.
const SHORTER: f64 = 2.0;
const DOUBTED: f64 = 5.0;
const TRUST: f64 = 3.0;
/// How many times longer gaps are at a limit when the rate falls to what goes through, and the log-likelihood ratio that
/// decides between this and no change.
const LONGER: f64 = 5.0;
const CHECKED: f64 = 3.0;
/// The least doubt after a trial that was won at a limit.
const FOOLED: f64 = 8.0;
/// Advice below this share of the usual is a limit's; so many times in a row, and there is nothing but a limit.
const SHORT: f64 = 0.3;
const MOST_SHORT: f64 = 10.0;
/// Gaps take no longer than this share of the cool-downs; and the most that the rate grows at a time.
const SHARE: f64 = 0.67;
const STEP: f64 = 2.0;
/// How fast the gap follows what is seen.
const GAIN: f64 = 0.1;

impl Independent {
    pub(super) fn certain(&mut self, pair: &Pair) -> Verdict {
        // A limit as well: it advises its own waits, and its anchors are worth following.
        if pair.last.is_advised && pair.last.wait < SHORT * self.seen.closed / self.seen.pairs {
            self.short += 1.0;
            return if self.short >= MOST_SHORT {
                Verdict::Set(self.forget(self.doubt))
            } else {
                Verdict::Limit
            };
        }
        self.short = 0.0;
        self.seen.add(pair, KEPT);
        self.tried.add(pair, REMEMBERED);
        self.count += 1.0;
        self.odd += 1.0;
        self.gap += GAIN * (pair.cost / pair.refusals - self.gap);
        self.ratio += pair.refusals * SHORTER.ln() - pair.cost * (SHORTER - 1.0) / self.usual;
        self.ratio = self.ratio.max(-TRUST);

        let carried = self.tried.throughput();
        let does_not_pay = pair.last.is_advised && self.seen.share() < HARDLY || carried < PAYS * self.before;
        if self.ratio > DOUBTED
            || self.count >= self.patience && does_not_pay
            || self.count >= SOMETIME * self.patience
        {
            self.ratio = 0.0;
            self.phase = Phase::Check { faster: pair.rate };
            return Verdict::Set(carried.max(self.before));
        }
        if !pair.last.is_advised
            && let Some(verdict) = self.try_faster(pair, true)
        {
            return verdict;
        }
        let enough = self.gap * self.seen.pairs / (SHARE * self.seen.closed).max(f64::MIN_POSITIVE);
        // Where callers do not come as fast as they may, or gaps become shorter, there is no use in more.
        if pair.rate < enough && 2.0 * self.seen.pace() > pair.rate && self.ratio <= 0.0 {
            Verdict::Set(enough.min(STEP * pair.rate))
        } else {
            Verdict::Keep
        }
    }

    pub(super) fn checked(&mut self, pair: &Pair, faster: f64) -> Verdict {
        // Refusals of one moment have one cause here, or a herd would tell against a limit.
        let gap = (self.tried.cost / self.tried.pairs).max(0.1 * pair.mean);
        self.ratio += pair.cost / gap * (1.0 - 1.0 / LONGER) - LONGER.ln();
        if self.ratio > CHECKED {
            self.forget(self.doubt.max(0.5 * FOOLED));
            return Verdict::Limit;
        }
        if self.ratio < -CHECKED {
            self.phase = Phase::Certain;
            self.patience *= 2.0;
            (self.ratio, self.tried, self.count) = (0.0, Tally::default(), 0.0);
            return Verdict::Set(faster);
        }
        Verdict::Keep
    }

    /// It was a limit; returns what it carries.
    fn forget(&mut self, doubt: f64) -> f64 {
        let floor = self.tried.throughput().max(self.before);
        *self = Self { doubt: 2.0 * doubt.max(1.0), floor, ..Self::default() };
        floor
    }
}
