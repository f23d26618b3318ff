//! The rate of one scope: how it rises, when it falls, and when the next call may go.
//!
//! Refusals without a call admitted between them are a *run*. From its second refusal on the scope is taken for closed: single
//! probes, with waits that double. The rate is decided by the first call admitted after a run, and nowhere else; what lies
//! between two such verdicts is a *cycle*.

use super::curve::{CUT, Curve, Phase, WAY};
use super::in_flight::InFlight;
use super::net::Net;
use super::pending::{Pending, Slot};
use super::suspects::Suspects;
use super::undo::{Tally, Undo, Verdict};
use super::witnesses::Witnesses;

/// More refusals in a row are no chance.
const CHANCE: u32 = 3;
/// The longest wait between two probes of a closed scope, in seconds.
const LONGEST_PROBE: f64 = 4.0;
/// The wait after a first refusal if nothing was ever admitted, in seconds.
const FIRST_WAIT: f64 = 0.5;
/// One call, however much work it is, keeps the next one back for so many seconds at most.
const LONGEST_GAP: f64 = 20.0;
/// Refusals close the scope for at most about one part in so many of the time.
const DEAR: f64 = 16.0;
/// A closed scope was shut for more than this part of the cycle.
const SHUT: f64 = 0.75;
/// After a long closing the rate begins at one part in so many of what it was before.
const UP: f64 = 8.0;
/// The first rate, in calls a second, is at least this if fewer calls went before.
const UNKNOWN: f64 = 5.0;
const FEW: f64 = 4.0;
/// So many calls before the first refusal, in less than half of the time below, may be a burst.
const BURST: f64 = 32.0;
/// What was sent longer ago than this, in seconds, tells little of the rate that was refused first.
const LATELY: f64 = 10.0;
/// A scope opens when nobody has called for so many seconds; for twice as long after a burst was refused, up to the most.
const HOLD: f64 = 30.0;
const LONGEST_HOLD: f64 = 3_600.0;
/// If several processes share the limit the way back takes as many seconds for all, at least and at most so many calls: the
/// larger share is then refused more often, and shares become equal (Chiu and Jain 1989).
const SHARED_WAY: (f64, f64, f64) = (10.0, 0.25 * WAY, 3.0 * WAY);

/// From one verdict to the next.
#[derive(Debug, Clone, Copy, Default)]
struct Cycle {
    began: f64,
    calls: Tally,
    /// The calls admitted in the cycle before, and its length.
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
    progress: f64,
    /// The very first call was refused: what was sent with it tells the rate.
    is_blind: bool,
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

/// A verdict of the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heard {
    pub(super) now: f64,
    pub(super) call: Passed,
    /// Which call of its caller's it is, and of what kind.
    pub(super) who: (u64, u64),
}

/// What is known of a refusal beside the call itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances {
    /// Advised seconds; 0 if nothing is advised.
    pub(super) advice: f64,
    /// Whether the advice may bind the refused call alone.
    pub(super) may_be_alone: bool,
    /// Something else explains the refusal: it says nothing of the rate.
    pub(super) is_explained: bool,
    /// Nobody else waits or is in flight.
    pub(super) has_no_others: bool,
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
    is_held_back: bool,
    pub(super) in_flight: u32,
    /// When it was due, and when the next was due after it: to take both back.
    due: (f64, f64),
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
        self.next += self.gap(work).clamp(-LONGEST_GAP, LONGEST_GAP);
    }

    /// The scope is closed for so long that nobody knows what holds then: one call at a time asks.
    pub(super) fn ask_singly(&mut self) {
        self.run.refusals = self.run.refusals.max(2);
    }

    /// The scope is open again, as somebody knows from elsewhere.
    pub(super) fn reopen(&mut self, now: f64) {
        self.closed = self.closed.min(now);
        self.next = self.next.min(now);
        self.run = Run { counted: now, ..Run::default() };
    }

    /// The rate in force, in calls of mean cost a second.
    pub(super) fn rate(&self) -> Option<f64> {
        let curve = self.curve.as_ref()?;
        // Cut at once, decide later how deep: what is sent before the verdict would be refused as well.
        let is_cut = self.run.refusals > 0 && !self.undo.is_in_credit() && curve.phase == Phase::Cubic;
        Some(if is_cut { CUT * curve.rate() } else { curve.rate() })
    }

    /// Seconds that a call of so much work keeps the next one back.
    fn gap(&self, work: f64) -> f64 {
        self.rate().map_or(0.0, |rate| work / (rate * self.net.haste()))
    }

    /// The earliest moment at which a call may go behind work of `ahead`, by pace alone.
    pub(super) fn earliest(&mut self, now: f64, ahead: f64) -> f64 {
        self.presume(now);
        self.open(now);
        if self.curve.is_none() || self.net.has_opened() {
            return self.closed;
        }
        let next = match self.run.refusals {
            0 => self.next,
            // The verdict, if one is due before, may bring it forward.
            1 => self.pending.due_since(self.run.counted).map_or(self.next, |due| due.min(self.next)),
            _ => match self.pending.due_since(self.run.counted) {
                Some(due) => due,
                None => self.pending.all_due().map_or(self.next, |due| due.max(self.next)),
            },
        };
        self.closed.max(next) + self.gap(ahead)
    }

    /// Stops pacing if nobody has called for a while: a bucket is full then, and a burst may pass.
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
            curve.top = curve.top.max(self.cycle.calls.admitted / span);
        }
        self.hold = (2.0 * self.hold).min(LONGEST_HOLD);
        self.curve = Some(curve);
        self.cycle = Cycle { began: now, last: self.cycle.last, ..Cycle::default() };
        self.begin_event(now);
        self.next = now + self.gap(1.0);
    }

    /// What was sent before belongs to what has been counted.
    fn begin_event(&mut self, now: f64) {
        self.run.counted = now;
        self.pending.split();
    }

    /// Takes calls for admitted that were not refused in time: all that are due first, then the verdict.
    fn presume(&mut self, now: f64) {
        let mut ended = None;
        while let Some(slot) = self.pending.pop_due(now) {
            // It takes effect when it was due, not when somebody asks.
            let due = now.min(slot.last + self.pending.patience());
            self.suspects.heard(slot.order, slot.open, false);
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
            self.cycle.calls.admitted += 1.0;
            let climbs = call < slot.held_back && self.undo.may_climb();
            self.undo.admitted(self.is_in_control());
            if climbs && let Some(curve) = &mut self.curve {
                curve.climb();
            }
        }
        if self.parked.is_some() && self.cycle.calls.admitted >= WAY {
            self.hold = (0.5 * self.hold).max(HOLD);
        }
        self.run.refusals > 0 && slot.first >= self.run.counted
    }

    /// Clearly slower than the top, and the cut has had time to act.
    fn is_in_control(&self) -> bool {
        !self.undo.is_trying()
            && self
                .curve
                .as_ref()
                .is_some_and(|curve| curve.climbed >= 0.25 * WAY && curve.climbed < 0.8 * curve.way)
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
            self.cycle.calls.admitted *= 0.5;
        }
        let gap = self.gap(work).min(LONGEST_GAP);
        let due = self.next.max(self.closed);
        let is_held_back = self.curve.is_none() || now - due < gap;
        // Time in which nobody called is no part of the cycle, nor is the scope shut in it.
        let idle = now - due - gap;
        if in_flight <= 1 && idle > 0.0 && self.curve.is_some() {
            self.cycle.began += idle;
            self.run.began += idle;
        }
        let before = self.next;
        self.next = now.max(self.next) + gap;
        let order = self.pending.push(now, is_held_back);
        Passed { at: now, order, is_held_back, in_flight, due: (before, self.next) }
    }

    /// A call that was granted is not sent after all: as if it had never been granted.
    pub(super) fn returned(&mut self, call: &Passed) {
        // Only if nobody has gone since: a place in the schedule that others have passed is worth nothing.
        if self.next.total_cmp(&call.due.1).is_eq() {
            self.next = call.due.0;
        }
        if !self.decide(call) {
            self.revoke();
        }
    }

    /// A call has its verdict; whether it was still open.
    fn decide(&mut self, call: &Passed) -> bool {
        self.pending.remove(call.order, call.is_held_back)
    }

    /// A call that was taken for admitted was not.
    const fn revoke(&mut self) {
        self.cycle.calls.admitted = (self.cycle.calls.admitted - 1.0).max(0.0);
    }

    /// The server has taken a call.
    pub(super) fn admitted(&mut self, heard: &Heard) {
        let Heard { now, call, who } = heard;
        self.presume(*now);
        self.suspects.admitted(*who, call.order);
        self.in_flight.admitted(call.in_flight, self.samples());
        self.witnesses.heard(call.order, call.at, false);
        self.net.admitted(*now, call.is_held_back);
        if self.decide(call) {
            self.suspects.heard(call.order, 1, false);
            self.pass(*now, call);
        }
    }

    /// A call that was open counts as admitted.
    fn pass(&mut self, now: f64, call: &Passed) {
        if self.admit(&Slot::of(call.order, call.at, call.is_held_back)) {
            self.end_run(now);
        }
    }

    fn samples(&self) -> bool {
        self.curve.is_some() && !self.undo.is_trying()
    }

    /// The server has refused a call. The scope is closed if the advice is for all.
    pub(super) fn refused(&mut self, heard: &Heard, of: &Circumstances) -> Meaning {
        let Heard { now, call, who } = heard;
        let now = *now;
        let ahead = self.pending.open_before(call.order);
        let was_open = self.decide(call);
        if !was_open {
            self.revoke();
        }
        self.pending.refused_after(now - call.at);
        if self.suspects.refused(*who, call.order) && of.may_be_alone {
            return Meaning::Suspect;
        }
        if of.advice > 0.0 {
            self.witnesses.refused(call.order, call.at, now, of.advice);
        }
        self.witnesses.heard(call.order, call.at, true);
        if was_open {
            self.suspects.heard(call.order, 1, true);
        }
        self.presume(now);
        let is_for_all = !of.may_be_alone || self.witnesses.are_for_all();
        if is_for_all {
            self.closed = self.closed.max(now + of.advice);
        }
        if !of.is_explained {
            self.slow_down(now, call, ahead);
            // A call that has the scope to itself pays the advice and no more.
            if of.has_no_others && of.advice > 0.0 {
                self.next = now;
            }
        } else if was_open {
            self.pass(now, call);
        }
        if is_for_all { Meaning::ForAll } else { Meaning::Alone }
    }

    /// A refusal that may be of the rate; `ahead` calls without a verdict were sent before it.
    fn slow_down(&mut self, now: f64, call: &Passed, ahead: f64) {
        // The end of a window refuses many in one go, all with many in flight: only the first of an event is evidence.
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
        // Probes while nothing succeeds say nothing on the share of refusals.
        let counts = self.run.refusals < 2;
        self.undo.refused(self.is_in_control() && counts);
        if counts {
            self.cycle.calls.refused += 1.0;
        }
        // In a row: nothing sent before it since the last refusal is still open. What was sent before that is the same event.
        let follows = self.run.refusals == 0 || !self.pending.any_open(self.run.counted, call.at);
        if call.at >= self.run.counted && follows {
            self.count(now, ahead);
        }
    }

    /// A refusal that is an event of its own.
    fn count(&mut self, now: f64, ahead: f64) {
        /// The first rate is measured over so many seconds at least.
        const SHORTEST: f64 = 0.01;
        let is_new = self.curve.is_none();
        let mut first = 0.0;
        if is_new {
            let seen = self.cycle.calls.admitted + ahead;
            let span = (now - self.cycle.began).max(SHORTEST);
            let rate = (seen + 1.0) / span;
            // A few calls tell how often somebody calls, not what the server allows.
            let curve = Curve::new(if seen < FEW { rate.max(UNKNOWN) } else { rate });
            // A burst may have been saved up by the server: it is no rate that went well.
            if seen < BURST || span > 0.5 * LATELY {
                self.undo.begin(curve.top);
            }
            self.curve = Some(curve);
            if seen <= 0.0 {
                // Nothing has ever been admitted: the scope is closed, and its rate unknown.
                (self.run.refusals, self.run.is_blind, first) = (1, true, FIRST_WAIT);
            }
        }
        if self.run.refusals == 0 || is_new {
            self.run.began = now;
            self.run.reached = self.rate().unwrap_or(0.0);
            self.run.progress = self.curve.as_ref().map_or(0.0, Curve::progress);
        }
        self.run.refusals = self.run.refusals.saturating_add(1);
        self.begin_event(now);
        let gap = self.gap(1.0);
        if self.run.refusals > 1 {
            self.run.wait = (2.0 * self.run.wait).max(gap).min(LONGEST_PROBE);
        }
        self.next = now + gap.max(self.run.wait).max(first);
    }

    /// The first admitted call after refusals: what the rate is from here.
    fn end_run(&mut self, now: f64) {
        let mut run = self.run;
        self.run = Run { counted: run.counted, ..Run::default() };
        if run.is_blind {
            run.reached =
                run.reached.max(self.cycle.calls.admitted / (run.began - self.cycle.began).max(0.001));
        }
        if self.undo.forgives(now) {
            return;
        }
        let Some(curve) = self.curve.clone() else { return };
        let calls = self.cycle.calls;
        let span = now - self.cycle.began;
        let had_climbed = curve.climbed >= 0.5 * WAY;
        let (more, longer) = if had_climbed { (0.0, 0.0) } else { self.cycle.last };
        let seen = (calls.admitted + more) / (span + longer).max(0.001);
        let (before, took) = self.cycle.last;
        // A first burst tells no rate unless most of it went through.
        let went_through = !self.undo.is_first() || calls.admitted > calls.refused;
        let went = match took > 0.0 {
            true => before / took,
            false if went_through => run.reached,
            false => 0.0,
        };
        let feedback = self.pending.refusal_takes();
        self.curve = Some(match self.undo.give_up(calls, seen) {
            Some(back) => Curve::new(back),
            None if run.is_blind && calls.admitted <= calls.refused => Curve::slow_start(),
            None => {
                let verdict = Verdict {
                    went_through,
                    is_chance: run.refusals <= CHANCE,
                    reached: run.reached,
                    calls,
                    seen,
                    had_climbed,
                    now,
                    began: self.cycle.began,
                };
                let curve = self.cut(now, &run, &curve, &verdict, went).slower_than(feedback);
                self.undo.settle(&verdict, curve.top, !self.is_shared).map_or(curve, Curve::trial)
            }
        });
        self.cycle = Cycle { began: now, calls: Tally::default(), last: (calls.admitted, span) };
        self.begin_event(now);
        self.next = if self.undo.is_trying() { now } else { now + self.gap(1.0) };
    }

    /// The curve after a cut.
    fn cut(&mut self, now: f64, run: &Run, curve: &Curve, verdict: &Verdict, went: f64) -> Curve {
        let Verdict { calls, seen, .. } = *verdict;
        self.undo.judge(verdict);
        // Shut for most of the cycle: what went through in all of it is the capacity. Otherwise the capacity lies between
        // that and the rate reached.
        let shut = now - run.began;
        let was_closed = shut > SHUT * (now - self.cycle.began);
        let used = 2.0 * calls.admitted / (run.began - self.cycle.began).max(0.001);
        let reached = run.reached.min(used).max(0.5 * run.reached);
        let low = seen.min(reached);
        // Before anything is known of the rate a burst may have reached far too much.
        let (middle, least) =
            if self.undo.knows_rate() { (0.5 * (low + reached), 0.5) } else { ((low * reached).sqrt(), 0.3) };
        let mut top = if was_closed || self.undo.bears() { seen } else { middle };
        let is_low = was_closed && top < 0.5 * went;
        top = top.min(run.reached);
        if calls.admitted < 0.25 * WAY {
            top = top.max(least * run.reached);
        }
        if is_low {
            top = top.max(went / UP);
        }
        // Back to the top in so many calls; in more if refusals are dear.
        let calls = if self.is_shared { (SHARED_WAY.0 * top).clamp(SHARED_WAY.1, SHARED_WAY.2) } else { WAY };
        let is_plain = is_low || self.undo.bears() || matches!(curve.phase, Phase::SlowStart { .. });
        let dear = if run.progress < 0.5 { 0.0 } else { (DEAR * shut * top).min(2.0 * curve.way) };
        let way = if is_plain { calls } else { (calls * f64::from(run.refusals.min(2))).max(dear) };
        let phase = if is_low { Phase::SlowStart { until: 0.9 * went } } else { Phase::Cubic };
        Curve::cut(top, way, phase, self.undo.bears())
    }
}
