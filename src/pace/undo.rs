//! Pacing has to pay: a cut is undone where slower calls were refused just as often.
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
/// After a trial refusals go on being borne where, while slow, they are by so many standard deviations more than one a way,
/// counted over so many calls at most: it has to tell 1 in 20 from 1 in 32, and has to forget.
const SIGMA: f64 = 1.0;
const CONTROL: f64 = 128.0;
/// A trial in which more than this share is refused has to let so many times through what went through while slow.
const CHEAP: f64 = 0.1;
const PAYS: f64 = 0.6;
/// So many calls before the first refusal may have been saved up by the server: theirs is no rate that went well.
const BURST: f64 = 32.0;
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

    fn keep_recent(&mut self, most: f64) {
        if self.admitted > most {
            self.admitted *= 0.5;
            self.refused *= 0.5;
        }
    }
}

#[derive(Debug, Clone)]
struct Trial {
    /// The rate to go back to, and what went through while slow, in calls a second.
    back: f64,
    slow: f64,
    began: f64,
    /// Calls admitted in all, and the recent ones with their refusals.
    admitted: f64,
    calls: Tally,
}

impl Trial {
    /// Many are refused, and less goes through than while slow: the refusals are borne for nothing.
    fn is_idle(&self, now: f64) -> bool {
        self.admitted >= 2.0 * WAY
            && self.calls.refused > CHEAP * self.calls.admitted
            && self.admitted < PAYS * self.slow * (now - self.began)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Undo {
    /// A rate that went well.
    good: f64,
    /// Early refusals in a row, how many are needed, and the calls among which they came.
    early: u32,
    needed: u32,
    series: Tally,
    series_began: f64,
    cuts: u32,
    trial: Option<Trial>,
    has_tried: bool,
    /// Calls while clearly slower than the top.
    control: Tally,
    /// Refusals that may still come before a cut, and how many each admitted call adds: the share that is borne.
    credit: f64,
    borne: f64,
}

/// What a cut of the rate is decided by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// Refusals in a row.
    pub(super) run: u32,
    /// The rate at the first of them.
    pub(super) reached: f64,
    /// What went through in the cycle, in all and per second; and when it began.
    pub(super) cycle: Tally,
    pub(super) seen: f64,
    pub(super) began: f64,
    pub(super) now: f64,
    /// Whether the curve had climbed for long enough to tell what goes well.
    pub(super) had_climbed: bool,
}

impl Default for Undo {
    fn default() -> Self {
        Self {
            good: 0.0,
            early: 0,
            needed: NEEDED,
            series: Tally::default(),
            series_began: 0.0,
            cuts: 0,
            trial: None,
            has_tried: false,
            control: Tally::default(),
            credit: 0.0,
            borne: 0.0,
        }
    }
}

impl Undo {
    pub(super) const fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// Whether refusals by chance are borne.
    pub(super) fn bears(&self) -> bool {
        self.borne > 0.0
    }

    /// The curve rises in a trial only while it does not go worse than borne.
    pub(super) fn may_climb(&self) -> bool {
        self.trial.is_none() || self.credit >= 0.75 * CREDIT
    }

    /// The first rate of all, at which so many calls went before the first refusal.
    pub(super) fn begin(&mut self, rate: f64, calls: f64) {
        self.good = if calls < BURST { rate } else { 0.0 };
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

    /// A call was refused; `counts` where it tells of the share of refusals: probes while nothing succeeds do not.
    pub(super) fn refused(&mut self, in_control: bool, counts: bool) {
        self.credit -= 1.0;
        if let Some(trial) = &mut self.trial {
            trial.calls.refused += 1.0;
        } else if in_control && counts {
            self.control.refused += 1.0;
        }
    }

    /// Whether the refusals so far cost no rate.
    pub(super) fn is_in_credit(&self) -> bool {
        self.credit >= 0.0
    }

    /// A run of refusals has ended; whether it is borne.
    pub(super) fn forgives(&mut self, now: f64) -> bool {
        if self.trial.as_ref().is_some_and(|trial| trial.is_idle(now)) {
            return false;
        }
        if self.is_in_credit() {
            return true;
        }
        // A trial that goes well but for bad luck goes on.
        let goes_on = self
            .trial
            .as_ref()
            .is_some_and(|trial| trial.calls.refused <= self.borne * trial.calls.admitted + 2.0);
        if goes_on {
            self.credit = CREDIT;
        }
        goes_on
    }

    /// Ends a trial that did not pay; returns the rate to go back to.
    pub(super) fn give_up(&mut self, cycle: Tally, seen: f64) -> Option<f64> {
        let trial = self.trial.take()?;
        // What was admitted in it is the capacity, if it was more than a handful.
        let back = if cycle.admitted < 0.25 * WAY {
            trial.back
        } else {
            seen.clamp(trial.back, self.good.max(trial.back))
        };
        self.good = back;
        self.needed = self.needed.saturating_mul(2).min(MOST_NEEDED);
        (self.early, self.borne, self.control, self.credit) = (0, 0.0, Tally::default(), 0.0);
        Some(back)
    }

    /// Whether a cut is one too many, judged before the new top is set.
    pub(super) fn judge(&mut self, cut: &Cut, is_chance: bool) {
        if self.has_tried {
            let Tally { admitted, refused } = self.control;
            let surely = (refused - SIGMA * refused.sqrt()).max(0.0) / (admitted + 0.5 * WAY);
            self.borne = if surely * WAY > 1.0 { borne(refused / admitted.max(1.0)) } else { 0.0 };
        }
        if is_chance && cut.reached < EARLY * self.good {
            if self.early == 0 {
                self.series = Tally::default();
                self.series_began = cut.began;
            }
            self.early = self.early.saturating_add(1);
            self.series.add(false, cut.cycle.admitted);
            self.series.add(true, cut.cycle.refused);
        } else {
            self.early = 0;
        }
    }

    /// The cut is made, down to `top`: what rate went well, and whether it is to be tried again.
    pub(super) fn settle(&mut self, cut: &Cut, is_chance: bool, top: f64, may_try: bool) -> Option<f64> {
        // The first cycle of all may have been a burst.
        let tells = cut.had_climbed || self.good <= 0.0 && cut.cycle.admitted >= 0.25 * WAY;
        if !is_chance {
            self.good = top;
        } else if self.cuts > 0 && tells {
            self.good = self.good.max(cut.seen);
        }
        self.cuts = self.cuts.saturating_add(1);
        let tried = (may_try && self.early >= self.needed).then(|| {
            let slow = self.series.admitted / (cut.now - self.series_began).max(0.001);
            let (began, admitted, calls) = (cut.now, 0.0, Tally::default());
            self.trial = Some(Trial { back: top, slow, began, admitted, calls });
            self.control = Tally { admitted: self.series.admitted.max(1.0), ..self.series };
            self.borne = borne(self.control.refused / self.control.admitted);
            (self.has_tried, self.early) = (true, 0);
            self.good
        });
        self.credit = if self.borne > 0.0 { CREDIT } else { 0.0 };
        tried
    }
}

/// Refusals per admitted call that are borne where there were `share` while slow.
fn borne(share: f64) -> f64 {
    let share = share.min(MOST_SHARE);
    WORSE * share / (1.0 - share)
}
