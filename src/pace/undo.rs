//! Pacing has to pay: a cut is undone if slower calls were refused just as often.
//!
//! TCP undoes a congestion response that turns out to have been spurious (Eifel, RFC 3522; F-RTO, RFC 5682). Here the sign
//! is refusals that come *early*: several cuts in a row although the rate was clearly below one that went well. Then that
//! rate is tried again. Refusals that are hardly more frequent in the trial than they were while slow are borne, and cost
//! no rate; otherwise the pace goes back, and asks for twice the evidence before the next trial.

use super::curve::WAY;

/// So many early refusals in a row start a trial; doubled after a vain one, up to the most.
const NEEDED: u32 = 3;
const MOST_NEEDED: u32 = 128;
/// Early: below this share of a rate that went well.
const EARLY: f64 = 0.8;
/// In a trial refusals may be this much more frequent than while slow.
const WORSE: f64 = 2.0;
/// Refusals beyond what is borne until a cut (the threshold of a CUSUM test).
const CREDIT: f64 = 8.0;
/// After a trial refusals go on being borne if, while slow, they are by so many standard deviations more than one a way, counted
/// over so many calls at most: it has to tell 1 in 20 from 1 in 32, and has to forget.
const SIGMA: f64 = 1.0;
const CONTROL: f64 = 128.0;
/// A trial of so many calls in which more than this share is refused has to let more through than went while slow.
const LONG: f64 = 4.0 * WAY;
const DEAR: f64 = 0.25;
/// The share of refusals while slow is believed up to this.
const MOST_SHARE: f64 = 0.4;

/// Admitted and refused calls.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) admitted: f64,
    pub(super) refused: f64,
}

impl Tally {
    pub(super) fn add(&mut self, refused: bool, calls: f64) {
        *(if refused { &mut self.refused } else { &mut self.admitted }) += calls;
    }

    /// Halves both if more than `most` were admitted.
    fn keep_recent(&mut self, most: f64) {
        if self.admitted > most {
            self.admitted *= 0.5;
            self.refused *= 0.5;
        }
    }
}

/// A rate that went well is tried again.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// The rate to go back to, and what went through while slow, in calls a second.
    back: f64,
    slow: f64,
    began: f64,
    /// Calls admitted in all, and the recent calls.
    admitted: f64,
    calls: Tally,
}

impl Trial {
    /// Many are refused for little: the more are, the more has to go through than while slow.
    fn is_vain(&self, now: f64) -> bool {
        let share = self.calls.refused / self.calls.admitted.max(1.0);
        let pays = 1.0 + share - DEAR;
        self.admitted >= LONG && share > DEAR && self.admitted < pays * self.slow * (now - self.began)
    }
}

/// What a cut of the rate is decided by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verdict {
    /// Whether most went through, if it is the first cut.
    pub(super) went_through: bool,
    /// Whether so few refusals in a row may be chance.
    pub(super) is_chance: bool,
    /// The rate at the first of them.
    pub(super) reached: f64,
    /// The calls of the cycle, and how many a second were admitted.
    pub(super) calls: Tally,
    pub(super) seen: f64,
    /// Whether the curve had climbed for long enough to tell what goes well.
    pub(super) had_climbed: bool,
    pub(super) now: f64,
    /// When the cycle began.
    pub(super) began: f64,
}

/// See the [module](self).
#[derive(Debug, Clone, Default)]
pub(super) struct Undo {
    /// A rate that went well.
    good: f64,
    /// Early cuts in a row, vain trials so far, and the calls among which the early ones came.
    early: u32,
    vain: u32,
    series: Tally,
    series_began: f64,
    has_cut: bool,
    trial: Option<Trial>,
    has_tried: bool,
    /// Calls while clearly slower than the top.
    control: Tally,
    /// Refusals that may still come before a cut, and how many each admitted call adds: the share that is borne.
    credit: f64,
    borne: f64,
}

impl Undo {
    pub(super) const fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// Whether nothing has been cut yet.
    pub(super) const fn is_first(&self) -> bool {
        !self.has_cut
    }

    /// Whether a rate is known that went well.
    pub(super) fn knows_rate(&self) -> bool {
        self.good > 0.0
    }

    /// Whether refusals by chance are borne.
    pub(super) fn bears(&self) -> bool {
        self.borne > 0.0
    }

    /// The curve rises in a trial only while it does not go worse than borne.
    pub(super) fn may_climb(&self) -> bool {
        self.trial.is_none() || self.credit >= 0.75 * CREDIT
    }

    /// The first rate of all, which went well.
    pub(super) const fn begin(&mut self, rate: f64) {
        self.good = rate;
    }

    pub(super) fn admitted(&mut self, in_control: bool) {
        if let Some(trial) = &mut self.trial {
            trial.admitted += 1.0;
            trial.calls.admitted += 1.0;
            trial.calls.keep_recent(8.0 * WAY);
        } else if in_control {
            self.control.admitted += 1.0;
            self.control.keep_recent(CONTROL);
        }
        self.credit = (self.credit + self.borne).min(CREDIT);
    }

    pub(super) fn refused(&mut self, in_control: bool) {
        self.credit -= 1.0;
        if let Some(trial) = &mut self.trial {
            trial.calls.refused += 1.0;
        } else if in_control {
            self.control.refused += 1.0;
        }
    }

    /// Whether the refusals so far cost no rate.
    pub(super) fn is_in_credit(&self) -> bool {
        self.credit >= 0.0
    }

    /// A run of refusals has ended; whether it is borne.
    pub(super) fn forgives(&mut self, now: f64) -> bool {
        if self.trial.is_some_and(|trial| trial.is_vain(now)) {
            return false;
        }
        if self.is_in_credit() {
            return true;
        }
        // A trial that goes well but for bad luck goes on.
        let goes_on =
            self.trial.is_some_and(|trial| trial.calls.refused <= self.borne * trial.calls.admitted + 2.0);
        if goes_on {
            self.credit = CREDIT;
        }
        goes_on
    }

    /// Ends a trial that did not pay; returns the rate to go back to.
    pub(super) fn give_up(&mut self, cycle: Tally, seen: f64) -> Option<f64> {
        let Trial { back, .. } = self.trial.take()?;
        // What was admitted in it is the capacity, if it was more than a handful.
        let is_handful = cycle.admitted < 0.25 * WAY;
        self.good = if is_handful { back } else { seen.clamp(back, self.good.max(back)) };
        self.vain = self.vain.saturating_add(1);
        (self.early, self.borne, self.credit, self.control) = (0, 0.0, 0.0, Tally::default());
        Some(self.good)
    }

    /// How many early cuts in a row start a trial.
    const fn needed(&self) -> u32 {
        let needed = NEEDED.saturating_mul(1 << if self.vain < 8 { self.vain } else { 8 });
        if needed < MOST_NEEDED { needed } else { MOST_NEEDED }
    }

    /// Whether a cut is one too many, judged before the new top is set.
    pub(super) fn judge(&mut self, cut: &Verdict) {
        if !cut.went_through {
            self.good = 0.0;
        }
        if self.has_tried {
            let Tally { admitted, refused } = self.control;
            let surely = (refused - SIGMA * refused.sqrt()).max(0.0) / (admitted + 0.5 * WAY);
            self.borne = if surely * WAY > 1.0 { borne(refused / admitted.max(1.0)) } else { 0.0 };
        }
        if cut.is_chance && cut.reached < EARLY * self.good {
            if self.early == 0 {
                (self.series, self.series_began) = (Tally::default(), cut.began);
            }
            self.early = self.early.saturating_add(1);
            self.series.add(false, cut.calls.admitted);
            self.series.add(true, cut.calls.refused);
        } else {
            self.early = 0;
        }
    }

    /// The cut is made, down to `top`: the rate that is to be tried again, if one is.
    pub(super) fn settle(&mut self, cut: &Verdict, top: f64, may_try: bool) -> Option<f64> {
        let tells = cut.had_climbed || self.good <= 0.0 && cut.calls.admitted >= 0.25 * WAY;
        if !cut.is_chance {
            self.good = top;
        } else if self.has_cut && tells {
            // The first cycle of all may have been a burst.
            self.good = self.good.max(cut.seen);
        }
        self.has_cut = true;
        let tries = may_try && self.early >= self.needed();
        if tries {
            let slow = self.series.admitted / (cut.now - self.series_began).max(0.001);
            let (began, admitted, calls) = (cut.now, 0.0, Tally::default());
            self.trial = Some(Trial { back: top, slow, began, admitted, calls });
            self.control = Tally { admitted: self.series.admitted.max(1.0), ..self.series };
            self.borne = borne(self.control.refused / self.control.admitted);
            (self.has_tried, self.early) = (true, 0);
        }
        self.credit = if self.borne > 0.0 { CREDIT } else { 0.0 };
        tries.then_some(self.good)
    }
}

/// Refusals per admitted call that are borne if there were `share` while slow.
fn borne(share: f64) -> f64 {
    let share = share.min(MOST_SHARE);
    WORSE * share / (1.0 - share)
}
