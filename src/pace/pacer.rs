//! The rate of one scope: how it rises, when it falls, and when the next call may go.
//!
//! Refusals without a call admitted between them are a *run*. From its second refusal on the scope is taken for closed:
//! single probes, with waits that double. The rate is decided by the first call admitted after a run, and nowhere else; what
//! lies between two such cuts is a *cycle*.

use super::curve::{CUT, Curve, Phase, WAY};
use super::in_flight::InFlight;
use super::net::Net;
use super::pending::{Pending, Slot};
use super::suspects::Suspects;
use super::undo::{Cut, Tally, Undo};
use super::witnesses::Witnesses;

/// More refusals in a row are no chance.
const CHANCE: u32 = 3;
/// The longest wait between two probes of a closed scope, in seconds.
const LONGEST_PROBE: f64 = 8.0;
/// The wait after the first refusal where nothing is known and nothing advised, in seconds.
const FIRST_WAIT: f64 = 0.5;
/// Refusals close the scope for at most about one part in so many of the time.
const DEAR: f64 = 16.0;
/// A closed scope was shut for more than this part of the cycle.
const SHUT: f64 = 0.75;
/// What was sent longer ago than this, in seconds, tells little of the rate that was refused first.
const LATELY: f64 = 10.0;

/// A scope opens when nobody has called for so many seconds; for twice as long after a burst was refused, up to the most.
const HOLD: f64 = 30.0;
const LONGEST_HOLD: f64 = 3_600.0;
/// The rate, in calls a second, where the first call of all was refused.
const UNKNOWN: f64 = 20.0;

/// The way back takes at least so many seconds: to touch the limit of a fast scope more often finds nothing new.
const STEP: f64 = 2.0;
/// A limit has risen if so many times its old top went through.
const ROSE: f64 = 1.25;

/// Where several processes share a limit the way back takes as many seconds for all, at least and at most so many calls: the
/// larger share is then refused more often, and shares become equal (Chiu and Jain 1989).
const SHARED_WAY: (f64, f64, f64) = (10.0, 16.0, 48.0);

/// From one cut to the next.
#[derive(Debug, Clone, Copy, Default)]
struct Cycle {
    began: f64,
    calls: Tally,
    /// The work admitted, and that of the cycle before with its length.
    work: f64,
    last: (f64, f64),
}

/// Refusals without an admitted call between them.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    refusals: u32,
    began: f64,
    /// What was sent before this moment belongs to an event that has been counted.
    counted: f64,
    wait: f64,
    /// The rate at its beginning, and the share of the way to the top.
    reached: f64,
    climbed: f64,
}

/// See the [module](self).
#[derive(Debug, Clone, Default)]
pub(super) struct Pacer {
    /// No call goes before these: the advice for all, and the pace.
    closed: f64,
    next: f64,
    pub(super) pending: Pending,
    /// Missing until the first refusal: nothing is paced.
    curve: Option<Curve>,
    cycle: Cycle,
    run: Run,
    undo: Undo,
    pub(super) in_flight: InFlight,
    witnesses: Witnesses,
    suspects: Suspects,
    pub(super) net: Net,
    has_begun: bool,
    /// The curve while the scope is open because nobody called, and how long that takes.
    parked: Option<Curve>,
    hold: f64,
    /// Other processes use the same limit: to each of them the others' probes look like chance.
    is_shared: bool,
}

/// A verdict that has come by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heard {
    pub(super) now: f64,
    pub(super) call: Passed,
    /// Which call of its caller's it is, and of what kind.
    pub(super) who: (u64, u64),
}

/// What a refusal means for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Its advice is for all calls of the scope.
    ForAll,
    /// Its advice is for the refused call alone.
    Alone,
    /// It says nothing of the scope: this call is refused whenever it comes.
    Suspect,
}

/// A call as the pacer remembers it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Passed {
    pub(super) at: f64,
    /// Its number, counted over all calls of the scope.
    pub(super) order: u64,
    /// Its cost in calls of mean cost.
    work: f64,
    held_back: bool,
    pub(super) in_flight: u32,
    /// The rate at which it was sent, and the share of the way to the top; of those sent before there was one, none.
    rate: Option<f64>,
    progress: f64,
    /// When it was due, and when the next was due after it: to take both back.
    due: (f64, f64),
}

impl Passed {
    fn slot(&self) -> Slot {
        Slot {
            first: self.at,
            last: self.at,
            order: self.order,
            open: 1,
            held_back: u32::from(self.held_back),
            work: self.work,
        }
    }
}

impl Pacer {
    pub(super) fn new(is_shared: bool) -> Self {
        Self { is_shared, hold: HOLD, ..Self::default() }
    }

    pub(super) const fn is_pacing(&self) -> bool {
        self.curve.is_some()
    }

    /// The end of the advice for all.
    pub(super) const fn closed(&self) -> f64 {
        self.closed
    }

    /// The memory that is kept beside the value itself.
    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.pending.kept_bytes() + self.witnesses.kept_bytes() + self.suspects.kept_bytes()
    }

    /// When the next call is due by pace.
    pub(super) const fn next(&self) -> f64 {
        self.next
    }

    /// A call turned out to be so much more work than it was counted for.
    pub(super) fn correct(&mut self, work: f64) {
        /// Beyond, in seconds, it is the usage that is odd.
        const MOST: f64 = 60.0;
        self.next += self.gap(work).clamp(-MOST, MOST);
        self.cycle.work = (self.cycle.work + work).max(0.0);
    }

    /// The scope is closed for so long that nobody knows what holds then: one call at a time asks.
    pub(super) fn ask_singly(&mut self) {
        self.run.refusals = self.run.refusals.max(2);
        self.witnesses.ask_singly();
    }

    /// The scope is open again, as somebody knows from elsewhere.
    pub(super) fn reopen(&mut self, now: f64) {
        self.closed = self.closed.min(now);
        self.next = self.next.min(now);
        self.run = Run { counted: now, ..Run::default() };
    }

    /// The rate in force, in calls of mean cost a second.
    pub(super) fn rate(&self) -> Option<f64> {
        // Cut at once, decide later how deep: what is sent before the verdict would be refused as well.
        let cut = if self.run.refusals > 0 && !self.undo.is_in_credit() { CUT } else { 1.0 };
        let curve = self.curve.as_ref()?;
        Some(if curve.phase == Phase::Cubic { cut * curve.rate() } else { curve.rate() })
    }

    fn progress(&self) -> f64 {
        self.curve.as_ref().map_or(0.0, Curve::progress)
    }

    /// Seconds that a call of so much work keeps the next one back.
    fn gap(&self, work: f64) -> f64 {
        self.rate().map_or(0.0, |rate| work / (rate * self.net.haste()))
    }

    /// The earliest moment at which a call may go behind `ahead`, by pace alone.
    pub(super) fn earliest(&mut self, now: f64, ahead: f64) -> f64 {
        self.presume(now);
        self.open(now);
        if self.curve.is_none()
            || self.net.has_opened()
            || self.closed <= now && self.witnesses.wants_another(now)
        {
            return self.closed;
        }
        let gap = self.gap(ahead);
        let next = match self.run.refusals {
            0 => self.next,
            // The verdict, if one is due before, may bring it forward.
            1 => self.pending.due_since(self.run.counted).map_or(self.next, |due| due.min(self.next)),
            _ => match self.pending.due_since(self.run.counted) {
                Some(due) => due,
                None => self.pending.all_due().map_or(self.next, |due| due.max(self.next)),
            },
        };
        self.closed.max(next) + gap
    }

    /// Stops pacing where nobody has called for a while: a bucket is full then, and a burst may pass.
    fn open(&mut self, now: f64) {
        let idle = now - self.next.max(self.closed);
        if idle > self.hold && self.run.refusals == 0 && !self.undo.is_trying() && self.curve.is_some() {
            self.parked = self.curve.take();
            self.cycle = Cycle { began: now, last: self.cycle.last, ..Cycle::default() };
        }
    }

    /// Goes on pacing after the first refusal of an open scope. A burst that was too large says nothing of the rate, but after
    /// it the scope opens later.
    fn resume(&mut self, now: f64, mut curve: Curve) {
        let span = now - self.cycle.began;
        if span > 0.5 * LATELY {
            curve.top = curve.top.max(self.cycle.work / span);
        }
        self.hold = (2.0 * self.hold).min(LONGEST_HOLD);
        self.curve = Some(curve);
        self.cycle = Cycle { began: now, last: self.cycle.last, ..Cycle::default() };
        self.run.counted = now;
        self.pending.split();
        self.next = now + self.gap(1.0);
    }

    /// Takes calls for admitted that were not refused in time: all that are due first, then the verdict.
    fn presume(&mut self, now: f64) {
        let mut ended = None;
        while let Some(slot) = self.pending.pop_due(now) {
            // It takes effect when it was due, not when somebody asks.
            let due = now.min(slot.last + self.pending.patience());
            self.suspects.heard(slot.order, slot.open, false);
            self.net.admitted(now, slot.open, slot.held_back);
            if self.admit(&slot) {
                ended = Some(due);
            }
        }
        if let Some(due) = ended {
            self.end_run(due);
        }
    }

    /// Counts admitted calls; returns whether they end a run.
    fn admit(&mut self, slot: &Slot) -> bool {
        for call in 0..slot.open {
            let in_control = self.is_in_control();
            self.cycle.calls.admitted += 1.0;
            let may_climb = call < slot.held_back && self.undo.may_climb();
            self.undo.admitted(in_control);
            if may_climb && let Some(curve) = &mut self.curve {
                curve.climb();
            }
        }
        self.cycle.work += slot.work;
        if self.parked.is_some() && self.cycle.calls.admitted >= WAY {
            self.hold = (0.5 * self.hold).max(HOLD);
        }
        self.run.refusals > 0 && slot.first >= self.run.counted
    }

    /// Clearly slower than the top, and the cut has had time to act.
    fn is_in_control(&self) -> bool {
        !self.undo.is_trying()
            && self.curve.as_ref().is_some_and(|curve| (0.25..0.8).contains(&curve.progress()))
    }

    /// A call of so much `work` goes; it is counted as in flight.
    pub(super) fn sent(&mut self, now: f64, work: f64) -> Passed {
        let in_flight = self.in_flight.count();
        if !self.has_begun {
            self.has_begun = true;
            self.cycle.began = now;
        }
        if self.curve.is_none() && now - self.cycle.began > LATELY {
            self.cycle.began += 0.5 * (now - self.cycle.began);
            self.cycle.work *= 0.5;
            self.cycle.calls.admitted *= 0.5;
        }
        let gap = self.gap(work);
        let due = self.next.max(self.closed);
        let held_back = self.curve.is_none() || now - due < gap;
        // Time in which nobody called is no part of the cycle, nor is the scope shut in it.
        let idle = now - due - gap;
        if in_flight <= 1 && idle > 0.0 && self.curve.is_some() {
            self.cycle.began += idle;
            self.run.began += idle;
        }
        let before = self.next;
        self.next = now.max(self.next) + gap;
        let order = self.pending.push(now, work, held_back);
        if now >= self.closed {
            self.witnesses.sent(now, order, self.pending.patience());
        }
        Passed {
            at: now,
            order,
            work,
            held_back,
            in_flight,
            rate: self.rate(),
            progress: self.progress(),
            due: (before, self.next),
        }
    }

    /// A call that was let go is not sent after all: as if it had never been let go.
    pub(super) fn returned(&mut self, call: &Passed) {
        // Only if nobody has gone since: a place in the schedule that others have passed is worth nothing.
        if self.next.total_cmp(&call.due.1).is_eq() {
            self.next = call.due.0;
        }
        if !self.decide(call) {
            self.revoke(call);
        }
    }

    /// A call has its verdict; whether it was still open.
    fn decide(&mut self, call: &Passed) -> bool {
        self.pending.remove(call.order, call.work, call.held_back)
    }

    fn revoke(&mut self, call: &Passed) {
        self.cycle.calls.admitted = (self.cycle.calls.admitted - 1.0).max(0.0);
        self.cycle.work = (self.cycle.work - call.work).max(0.0);
    }

    /// The server has taken a call.
    pub(super) fn admitted(&mut self, heard: &Heard) {
        let Heard { now, call, who } = heard;
        self.presume(*now);
        self.suspects.admitted(*who, call.order);
        self.in_flight.admitted(*now, call.in_flight, self.samples());
        self.witnesses.heard(call.order, call.at, false);
        if self.decide(call) {
            let slot = call.slot();
            self.suspects.heard(slot.order, slot.open, false);
            self.net.admitted(*now, slot.open, slot.held_back);
            if self.admit(&slot) {
                self.end_run(*now);
            }
        }
    }

    fn samples(&self) -> bool {
        self.curve.is_some() && !self.undo.is_trying()
    }

    /// The server has refused a call, with `advice` in seconds where there is any. Where `may_be_alone`, the scope is closed
    /// only if the advice is for all. A refusal that `is_explained` otherwise says nothing of the rate.
    pub(super) fn refused(
        &mut self,
        heard: &Heard,
        advice: f64,
        may_be_alone: bool,
        is_explained: bool,
        has_no_others: bool,
    ) -> Meaning {
        let Heard { now, call, who } = heard;
        let now = *now;
        self.presume(now);
        let place = self.pending.open_before(call.order);
        let was_open = self.decide(call);
        self.pending.refused_after(now - call.at);
        if !was_open {
            self.revoke(call);
        }
        if self.suspects.refused(*who, call.order) && may_be_alone {
            return Meaning::Suspect;
        }
        if advice > 0.0 {
            self.pending.split_behind(call.order);
            self.witnesses.refused(call.order, call.at, now, advice);
        }
        self.witnesses.heard(call.order, call.at, true);
        if was_open {
            self.suspects.heard(call.order, 1, true);
        }
        self.presume(now);
        let is_for_all = !may_be_alone || self.witnesses.are_for_all();
        if is_for_all {
            self.closed = self.closed.max(now + advice);
            self.witnesses.closed(advice);
        }
        if !is_explained {
            self.slow_down(now, call, place);
            // A call that has the scope to itself pays the advice and no more.
            if has_no_others && advice > 0.0 && self.run.refusals <= 1 {
                self.next = now;
            }
        }
        if is_for_all { Meaning::ForAll } else { Meaning::Alone }
    }

    fn slow_down(&mut self, now: f64, call: &Passed, place: f64) {
        let is_first = self.run.refusals == 0 && call.at >= self.run.counted;
        let samples = (self.samples(), is_first);
        if self.in_flight.refused(now, call.in_flight, self.closed - now, samples) {
            return;
        }
        self.net.refused(now);
        if self.net.is_open() {
            return;
        }
        if call.at >= self.run.counted
            && let Some(parked) = self.parked.take()
        {
            return self.resume(now, parked);
        }
        let counts = self.run.refusals < 2;
        let in_control = self.is_in_control();
        self.undo.refused(in_control, counts);
        if counts {
            self.cycle.calls.refused += 1.0;
        }
        // In a row: nothing sent before it since the last refusal is still open. What was sent before that is the same event.
        let follows = self.run.refusals == 0 || !self.pending.any_open(self.run.counted, call.at);
        if call.at >= self.run.counted && follows {
            self.count(now, call, place);
        }
    }

    /// A refusal that is an event of its own.
    fn count(&mut self, now: f64, call: &Passed, place: f64) {
        let mut wait = 0.0;
        if self.curve.is_none() {
            let seen = self.cycle.calls.admitted + place;
            let rate = (seen + 1.0) / (now - self.cycle.began).max(self.pending.patience());
            let curve = Curve::new(if seen > 0.0 { rate } else { UNKNOWN });
            wait = if seen > 0.0 { 0.0 } else { FIRST_WAIT };
            self.undo.begin(curve.top, seen);
            self.curve = Some(curve);
        }
        if self.run.refusals == 0 {
            self.run.began = now;
            self.run.reached = call.rate.or_else(|| self.rate()).unwrap_or(0.0);
            self.run.climbed = call.progress;
        }
        self.run.refusals = self.run.refusals.saturating_add(1);
        self.run.counted = now;
        self.pending.split();
        let gap = self.gap(1.0);
        if self.run.refusals > 1 {
            self.run.wait = (2.0 * self.run.wait).max(gap).min(LONGEST_PROBE);
        }
        self.next = now + gap.max(self.run.wait).max(wait);
    }

    /// The first admitted call after refusals: what the rate is from here.
    fn end_run(&mut self, now: f64) {
        let run = self.run;
        self.run = Run { counted: run.counted, ..Run::default() };
        if self.undo.forgives(now) {
            return;
        }
        let Some(curve) = self.curve.clone() else { return };
        let had_climbed = curve.climbed >= 0.5 * WAY;
        let span = now - self.cycle.began;
        let (work, time) = if had_climbed { (0.0, 0.0) } else { self.cycle.last };
        let seen = (self.cycle.work + work) / (span + time).max(0.001);
        let before = self.cycle.last;
        let went = if before.1 > 0.0 { before.0 / before.1 } else { run.reached };
        let last = (self.cycle.work, span);
        let cut = Cut {
            run: run.refusals,
            reached: run.reached,
            cycle: self.cycle.calls,
            seen,
            began: self.cycle.began,
            now,
            had_climbed,
        };
        match self.undo.give_up(cut.cycle, seen) {
            Some(back) => self.set_curve(back, WAY, Phase::Cubic, false),
            None => self.cut(now, &run, &cut, span, went, curve),
        }
        self.cycle = Cycle { began: now, last, ..Cycle::default() };
        // What was sent before the verdict belongs to what it was given on.
        self.run.counted = now;
        self.pending.split();
        self.next = if self.undo.is_trying() { now } else { now + self.gap(1.0) };
    }

    fn set_curve(&mut self, top: f64, way: f64, phase: Phase, is_deep: bool) {
        if let Some(curve) = &mut self.curve {
            curve.cut(top, way, phase, is_deep, self.pending.refusal_takes());
        }
    }

    fn cut(&mut self, now: f64, run: &Run, cut: &Cut, span: f64, went: f64, curve: Curve) {
        let is_chance = cut.run <= CHANCE;
        self.undo.judge(cut, is_chance);
        // Shut for most of the cycle: what went through in all of it is the capacity. Otherwise the capacity lies between
        // that and the rate reached.
        let shut = now - run.began;
        let used = 2.0 * cut.cycle.admitted / (run.began - self.cycle.began).max(0.001);
        let reached = run.reached.min(used).max(0.5 * run.reached);
        let was_closed = shut > SHUT * span;
        let top =
            if was_closed || self.undo.bears() { cut.seen } else { 0.5 * (cut.seen.min(reached) + reached) };
        let was_slow = matches!(curve.phase, Phase::SlowStart { .. });
        let phase = if was_closed && top < 0.5 * went {
            Phase::SlowStart { until: 0.9 * went }
        } else {
            Phase::Cubic
        };
        let mut top = top.min(run.reached);
        if cut.cycle.admitted < 0.25 * WAY {
            top = top.max(0.5 * run.reached);
        }
        let top = top.clamp(0.02, 1e6);
        // Back to the top in so many calls; in more where refusals are dear.
        let is_plain = was_slow || phase != Phase::Cubic || self.undo.bears();
        let way = if self.is_shared {
            (SHARED_WAY.0 * top).clamp(SHARED_WAY.1, SHARED_WAY.2)
        } else if is_plain {
            WAY
        } else {
            let dear = if run.climbed < 0.5 { 0.0 } else { (DEAR * shut * top).min(2.0 * curve.way) };
            // Refused far beyond the top although the limit has not risen: the way was too short.
            let is_far = run.climbed > 2.0 && cut.seen <= ROSE * curve.top;
            let far = if is_far { curve.way * (0.5 * run.climbed).min(2.0) } else { 0.0 };
            (WAY * f64::from(cut.run.min(2))).max(dear).max(far).max(STEP * top)
        };
        let is_deep = self.undo.bears();
        match self.undo.settle(cut, is_chance, top, !self.is_shared) {
            Some(good) => self.set_curve(good, WAY, Phase::Trial, is_deep),
            None => self.set_curve(top, way, phase, is_deep),
        }
    }
}
