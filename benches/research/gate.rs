//! One gate: CUBIC on the rate (RFC 9438) counted in calls, closed runs, an undo where pacing does not pay (as Eifel, RFC 3522, and
//! F-RTO, RFC 5682, undo a spurious congestion response), a cap on calls in flight where that is what is counted, witnesses of advice.
//!
//! Words. *Admitted*: answered with success, or not refused within `PATIENCE` times what refusals take. *Run*: refusals with nothing
//! admitted between; from the second one on the scope is taken as closed: single probes, doubling waits. *Cycle*: from one verdict to
//! the next. *Verdict*: at the first call admitted after a run; the only place where the rate falls. *Borne*: refusals that do not get
//! rarer when we go slower cost no rate. *Kind*: route and model of a call.
use super::{Answer, backoff, window::StatedWindow};
use crate::Rng;
use std::collections::VecDeque;

// The curve.
/// Calls from a cut back to the old top, about half of those between two refusals: the price of staying at a limit, some 2 % of calls.
const CALLS: f64 = 32.0;
/// What a cut leaves of the top. CUBIC's .7 is for bursts into buffers; here a limit is steady and a deep cut is goodput lost.
const BETA: f64 = 0.9;
/// The same while refusals are borne: then the slow part of a cycle has to be surely below a limit, to be compared with.
const DEEP: f64 = 0.75;
/// The same where the way back is long (more than 2 `CALLS`): the dip lasts as long, so that it has to be shallower.
const FLAT: f64 = 0.97;
/// After a long closing the way back to the rate before it begins at one part in so many of it, and doubles every `CALLS / 4` calls.
const UP: f64 = 8.0;
/// So many calls before the first refusal may have been saved up by the server; their rate is no rate that went well.
const BURST: f64 = 32.0;
/// No way back to the top is shorter than so many times what a refusal takes to be heard: a loop cannot be faster than its feedback.
const FEEDBACK: f64 = 8.0;
/// Where several processes share the limit: seconds back to the top, the same for all.
const SECONDS: f64 = 10.0;
/// Longest way back to the top, in seconds: a limit that rose is found within twice that.
const BACK: f64 = 20.0;
/// A refusal may close the scope for at most one part in so many of the time: where it closes long, the way back is longer.
const DEAR: f64 = 16.0;

// Runs.
/// Not refused within so many times what refusals take: admitted.
const PATIENCE: f64 = 3.0;
/// How slowly the longest time that a refusal took is forgotten, per refusal.
const FADE: f64 = 0.95;
/// Longest wait between two probes of a closed scope, in seconds.
const PROBE: f64 = 8.0;
/// A run longer than this is no chance but a closed scope.
const CHANCE: f64 = 3.0;

// The undo.
/// Early: refused at less than this share of a rate that went well.
const EARLY: f64 = 0.8;
/// So many early verdicts in a row start a trial; doubled after a vain one.
const NEEDED: u32 = 3;
/// In a trial refusals may be this much more frequent than while slow.
const WORSE: f64 = 2.0;
/// Refusals beyond those borne until the verdict (the bound of a CUSUM).
const CREDIT: f64 = 8.0;
/// After a trial refusals go on being borne where, while slow, they are by so many standard deviations more than one per `CALLS`,
const SIGMA: f64 = 1.0;
/// counted over so many calls at most: it has to tell 1 in 20 from 1 in 32, and has to forget.
const CONTROL: f64 = 128.0;

// In flight.
/// Calls remembered with the number in flight when they were sent.
const RECENT: usize = 64;
/// One more is tried after so many calls at the cap.
const RAISE: f64 = 32.0;
/// And not before so many times the closing that a refusal advised.
const RAISE_AFTER: f64 = 20.0;
/// Nats by which a split has to tell the refused calls from the admitted ones: beyond luck, with the split sought as well.
const PRICE: f64 = 8.0;

// Witnesses and suspects.
/// Witnesses for "all" that a scope starts with, and how many are remembered.
const FOR_ALL: f64 = 1.0;
const WITNESSES: f64 = 32.0;
/// A call or kind is suspect when chance explains its refusals in a row with less than e to the minus so many.
const DOUBT: f64 = 6.0;
/// The share of first refusals rests on so many calls; it starts from 8 admitted and 1 refused.
const SHARE: f64 = 128.0;
/// Calls and kinds remembered as refused, refusals remembered as advice.
const REMEMBERED: usize = 16;

// Switches of the ablation, not of the product.
const SUSPECTS: bool = true;
const WITNESS: bool = true;

/// Admitted and refused calls.
#[derive(Default, Clone, Copy)]
struct Tally { ok: f64, no: f64 }
impl Tally {
    fn add(&mut self, refused: bool) { if refused { self.no += 1.0 } else { self.ok += 1.0 } }
    fn halve_beyond(&mut self, most: f64) { if self.ok + self.no > most { self.ok *= 0.5; self.no *= 0.5; } }
}

// ---- Witnesses: is the advice for all? ------------------------------------------------------------------------------------------

/// When a call was sent and how many were in flight then: the order of sending.
type Key = (f64, u32);
struct Refusal { sent: Key, heard: f64, advice: f64 }
/// What was refused before (a call or a kind): its last send, what became of others sent after it, refusals in a row that others did not share.
struct Again { who: u64, sent: Key, others: Tally, alone: f64 }

/// Calls sent after a refused one, within its advised time and before its refusal was heard, are the witnesses of its advice.
struct Witnesses { pending: VecDeque<(Key, u64, u64)>, latency: f64, advice: VecDeque<Refusal>, votes: Tally, again: VecDeque<Again>, share: Tally, repeated: bool }
impl Witnesses {
    fn new() -> Self { Witnesses { pending: VecDeque::new(), latency: 0.005, advice: VecDeque::new(), votes: Tally { ok: 0.0, no: FOR_ALL }, again: VecDeque::new(), share: Tally { ok: 8.0, no: 1.0 }, repeated: false } }
    fn testify(&mut self, now: f64, sent: Key, who: [u64; 2], refused: bool) {
        for x in self.again.iter_mut().filter(|x| x.sent < sent && !who.contains(&x.who)) { x.others.add(refused); }
        while self.advice.front().is_some_and(|r| r.heard < now - 1.0 - 4.0 * self.latency || self.advice.len() > REMEMBERED) { self.advice.pop_front(); }
        if self.advice.iter().any(|r| r.sent < sent && sent.0 < r.heard.min(r.sent.0 + r.advice)) { self.votes.add(refused); self.votes.halve_beyond(WITNESSES); }
        if !refused || !self.repeated { self.share.add(refused); }
        self.share.halve_beyond(SHARE);
    }
    fn sent(&mut self, sent: Key, call: u64, kind: u64) { self.pending.push_back((sent, 2 * call, 2 * kind + 1)); }
    /// Those that are due count as admitted.
    fn presume(&mut self, now: f64) {
        while let Some(&(sent, call, kind)) = self.pending.front() && sent.0 + PATIENCE * self.latency < now { self.pending.pop_front(); self.testify(now, sent, [call, kind], false); }
    }
    fn for_all(&self) -> bool { !WITNESS || self.votes.ok <= self.votes.no }
    /// Whether it is the refusal of a suspect.
    fn answered(&mut self, now: f64, a: &Answer) -> bool {
        let (sent, who) = ((a.sent_at, a.in_flight), [2 * a.call, 2 * a.kind + 1]);
        self.presume(now);
        let mut suspect = false;
        self.repeated = self.again.iter().any(|x| x.who == who[0]);
        for who in who {
            let before = self.again.iter().position(|x| x.who == who).and_then(|i| self.again.remove(i));
            if !a.refused { continue; }
            let alone = before.map_or(0.0, |x| if x.others.ok > x.others.no { x.alone + 1.0 } else { x.alone });
            let q = self.share.no / (self.share.ok + self.share.no);
            suspect |= SUSPECTS && alone > 0.0 && (alone + 1.0) * -q.ln() >= DOUBT;
            self.again.push_back(Again { who, sent, others: Tally::default(), alone });
            if self.again.len() > REMEMBERED { self.again.pop_front(); }
        }
        // The refusal first: those sent after it may be answered with it.
        if a.refused {
            self.latency = (FADE * self.latency).max(now - a.sent_at);
            if let Some(advice) = a.advice && advice > 0.0 && !suspect { self.advice.push_back(Refusal { sent, heard: now, advice }); }
        }
        if let Some(i) = self.pending.iter().position(|x| x.0 == sent) { self.pending.remove(i); if !suspect { self.testify(now, sent, who, a.refused); } }
        suspect
    }
}

// ---- In flight: is it the number of calls at the same time? ----------------------------------------------------------------------

/// What a split tells of the refusals (half the statistic of the G-test), where they are more frequent beyond it.
fn tells(under: Tally, over: Tally) -> f64 {
    let (a, b, ok, no) = (under.ok + under.no, over.ok + over.no, under.ok + over.ok, under.no + over.no);
    if a == 0.0 || b == 0.0 || over.no * a <= under.no * b { return 0.0; }
    let term = |x: f64, side: f64, all: f64| if x > 0.0 { x * (x * (a + b) / (side * all)).ln() } else { 0.0 };
    term(under.ok, a, ok) + term(over.ok, b, ok) + term(under.no, a, no) + term(over.no, b, no)
}
/// The cap, what it was before it was last raised, calls answered at it, when it may be raised.
struct InFlight { recent: VecDeque<(u32, bool)>, cap: u32, held: u32, at_cap: f64, raise: f64 }
impl InFlight {
    fn new() -> Self { InFlight { recent: VecDeque::new(), cap: u32::MAX, held: u32::MAX, at_cap: 0.0, raise: 0.0 } }
    fn seen(&mut self, a: &Answer, telling: bool) {
        if !telling { return; }
        self.recent.push_back((a.in_flight, a.refused));
        if self.recent.len() > RECENT { self.recent.pop_front(); }
    }
    fn admitted(&mut self, now: f64, a: &Answer) {
        if a.in_flight < self.cap { return; }
        self.at_cap += 1.0;
        if self.at_cap >= RAISE && now >= self.raise { self.held = self.cap; self.cap += 1; self.at_cap = 0.0; }
    }
    /// Whether the number in flight explains the refusal. `closed`: until when the scope is closed by it.
    fn explains(&mut self, now: f64, a: &Answer, closed: f64) -> bool {
        if a.in_flight > self.held { self.cap = self.held; } else {
            let split = |k: &u32| {
                let (mut under, mut over) = (Tally::default(), Tally::default());
                for (f, no) in &self.recent { if f >= k { over.add(*no) } else { under.add(*no) } }
                tells(under, over) >= PRICE && over.no >= 2.0 * over.ok && 5.0 * under.no <= under.ok
            };
            let mut counts: Vec<u32> = self.recent.iter().map(|x| x.0).filter(|k| *k > 1).collect();
            counts.sort(); counts.dedup();
            let found = counts.into_iter().rev().find(split);
            self.cap = if self.recent.len() < RECENT / 2 { u32::MAX } else { found.map_or(u32::MAX, |k| k - 1) };
        }
        self.held = self.cap;
        if a.in_flight <= self.cap { return false; }
        (self.at_cap, self.raise) = (0.0, now + RAISE_AFTER * (closed - now).max(0.0));
        true
    }
}

// ---- The rate --------------------------------------------------------------------------------------------------------------------

/// A call on its way: `limited` where the gate held it back.
struct Sent { at: f64, limited: bool }
/// A trial: the rate before it, and what became of its calls.
struct Trial { back: f64, all: Tally }
/// Refusals per admitted call that are borne, where there were `q` per admitted call while slow.
fn bearable(q: f64) -> f64 { let q = q.min(0.4); WORSE * q / (1.0 - q) }

pub struct Gate {
    /// Several processes share the limit: no trials (to one process the others' probes are chance), growth in time (equal shares).
    shared: bool, rng: Rng, stated: StatedWindow, witnesses: Witnesses, flight: InFlight, now_in_flight: u32,
    closed: f64, next: f64, pending: VecDeque<Sent>, latency: f64,
    // The curve: `n` calls into the `k` that lead back to `top`.
    paced: bool, slow: Option<f64>, top: f64, beta: f64, n: f64, k: f64,
    // The cycle, the one before (calls, seconds), and the run that ends it.
    began: f64, cycle: Tally, last: (f64, f64), run: u32, cut_at: f64, wait: f64, shut_at: f64, reached: f64, x: f64,
    // The undo.
    good: f64, first: bool, early: u32, needed: u32, series: Tally, trial: Option<Trial>, tried: bool, control: Tally, credit: f64, bearable: f64,
    debug: bool,
}

impl Gate {
    pub fn new(seed: u64, shared: bool) -> Self {
        Gate { shared, rng: Rng::new(seed, 6), stated: StatedWindow::new(), witnesses: Witnesses::new(), flight: InFlight::new(), now_in_flight: 0,
            closed: 0.0, next: 0.0, pending: VecDeque::new(), latency: 0.01, paced: false, slow: None, top: 0.0, beta: BETA, n: 0.0, k: CALLS,
            began: -1.0, cycle: Tally::default(), last: (0.0, 0.0), run: 0, cut_at: -1.0, wait: 0.0, shut_at: 0.0, reached: 0.0, x: 0.0,
            good: 0.0, first: true, early: 0, needed: NEEDED, series: Tally::default(), trial: None, tried: false, control: Tally::default(), credit: 0.0, bearable: 0.0,
            debug: std::env::var("DEBUG").is_ok() && seed % 10000 == 1000 }
    }
    fn curve(&self) -> f64 {
        if !self.paced { return f64::INFINITY; }
        if self.trial.is_some() { return self.good * (self.n / 2.0).min(40.0).exp2(); }
        if self.slow.is_some() { return self.top * (4.0 * self.n / CALLS).min(40.0).exp2(); }
        let x = self.n / self.k;
        self.top * (1.0 + (1.0 - self.beta) * (x - 1.0).min(1.0).powi(3)) * (0.5 * (x - 2.0)).clamp(0.0, 40.0).exp2()
    }
    /// Cut at once, decide later: what is sent until the verdict is heard would be refused as well.
    fn rate(&self) -> f64 { self.curve() * if self.run > 0 && self.credit < 0.0 && self.trial.is_none() && self.slow.is_none() { BETA } else { 1.0 } }
    /// Clearly slower than the top, and the cut has had time to act.
    fn in_control(&self) -> bool { self.trial.is_none() && self.n >= 0.25 * CALLS && self.n < 0.8 * self.k }
    /// All that are due first, then the verdict: refusals come before the answers of those admitted with them.
    fn presume(&mut self, now: f64) {
        let mut over = false;
        while let Some(s) = self.pending.front() && s.at + PATIENCE * self.latency <= now + 1e-9 { let s = self.pending.pop_front().unwrap(); over |= self.admit(s); }
        if over { self.verdict(now); }
    }
    /// Whether it ends a run.
    fn admit(&mut self, s: Sent) -> bool {
        self.cycle.ok += 1.0;
        if let Some(t) = &mut self.trial { t.all.ok += 1.0; if t.all.ok > 8.0 * CALLS { t.all.ok *= 0.5; t.all.no *= 0.5; } }
        if self.in_control() { self.control.ok += 1.0; if self.control.ok > CONTROL { self.control.ok *= 0.5; self.control.no *= 0.5; } }
        // The curve goes on with calls that the gate held back; in a trial while it does not go worse than borne.
        if s.limited && (self.trial.is_none() || self.credit >= 0.75 * CREDIT) { self.n += 1.0; }
        if let Some(end) = self.slow && self.rate() >= end { (self.slow, self.top, self.n, self.k) = (None, end, 0.0, CALLS); }
        self.credit = (self.credit + self.bearable).min(CREDIT);
        self.run > 0 && s.at >= self.cut_at
    }
    /// The first call admitted after a run: what the rate is from here.
    fn verdict(&mut self, now: f64) {
        let run = std::mem::take(&mut self.run) as f64;
        self.wait = 0.0;
        if self.credit >= 0.0 { return; }
        // A trial that goes well but for bad luck goes on.
        if let Some(t) = &self.trial && t.all.no <= self.bearable * t.all.ok + 2.0 { self.credit = CREDIT; return; }
        let span = now - self.began;
        let (ok, time) = if self.n < 0.5 * CALLS { self.last } else { (0.0, 0.0) };
        let seen = (self.cycle.ok + ok) / (span + time).max(0.001);
        let went = if self.last.1 > 0.0 { self.last.0 / self.last.1 } else { self.reached };
        self.last = (self.cycle.ok, span);
        if let Some(t) = self.trial.take() {
            // In vain. What was admitted in it is the capacity, if it was more than a handful.
            self.top = if self.cycle.ok < 0.25 * CALLS { t.back } else { seen.clamp(t.back, self.good.max(t.back)) };
            self.good = self.top;
            self.needed = (2 * self.needed).min(128);
            (self.early, self.slow, self.k, self.bearable, self.control) = (0, None, CALLS, 0.0, Tally::default());
        } else { self.cut(now, run, seen, went, span); }
        if self.debug { println!("{now:8.2} {} m={} run={run} seen={seen:.2} reached={:.2} x={:.2} top={:.2} k={:.0} early={} good={:.2} bearable={:.3} cap={}", if self.trial.is_some() { "trial" } else { "cut" }, self.cycle.ok, self.reached, self.x, self.top, self.k, self.early, self.good, self.bearable, self.flight.cap); }
        // What was sent before the verdict belongs to what it was given on.
        (self.n, self.began, self.cut_at, self.cycle) = (0.0, now, now, Tally::default());
        self.credit = if self.bearable > 0.0 { CREDIT } else { 0.0 };
        self.next = if self.trial.is_some() { now } else { now + 1.0 / self.rate() };
    }
    fn cut(&mut self, now: f64, run: f64, seen: f64, went: f64, span: f64) {
        if self.tried {
            let Tally { ok, no } = self.control;
            let surely = (no - SIGMA * no.sqrt()).max(0.0) / (ok + 0.5 * CALLS);
            self.bearable = if surely * CALLS > 1.0 { bearable(no / ok.max(1.0)) } else { 0.0 };
        }
        if run <= CHANCE && self.reached < EARLY * self.good {
            if self.early == 0 { self.series = Tally::default(); }
            self.early += 1; self.series.ok += self.cycle.ok; self.series.no += self.cycle.no;
        } else { self.early = 0; }
        // Closed for most of the cycle: what went through in all of it is the capacity. Else it is between that and the rate reached.
        let shut = now - self.shut_at;
        let reached = self.reached.min(2.0 * self.cycle.ok / (self.shut_at - self.began).max(0.001)).max(0.5 * self.reached);
        let closed = shut > 0.75 * span;
        let top = if closed || self.bearable > 0.0 { seen } else { 0.5 * (seen.min(reached) + reached) };
        let was_slow = self.slow.is_some();
        self.slow = (closed && top < 0.5 * went).then_some(0.9 * went);
        self.top = top.min(self.reached).clamp(0.02, 1e6);
        if self.cycle.ok < 0.25 * CALLS { self.top = self.top.max(0.5 * self.reached); }
        if self.slow.is_some() { self.top = self.top.max(went / UP); }
        // The first cycle may have been a burst that was saved up: it is no rate that went well.
        if run > CHANCE { self.good = self.top; } else if !self.first && (self.good == 0.0 && self.cycle.ok >= 0.25 * CALLS || self.n >= 0.5 * CALLS) { self.good = self.good.max(seen); }
        self.first = false;
        // Back to the top in so many calls; in more where refusals are dear.
        let dear = if self.x < 0.5 { 0.0 } else { (DEAR * shut * self.top).min(2.0 * self.k) };
        let plain = was_slow || self.slow.is_some() || self.bearable > 0.0;
        let calls = if self.shared { (SECONDS * self.top).clamp(0.5 * CALLS, 1.5 * CALLS) } else { CALLS };
        self.k = (if plain { calls } else { (calls * run.min(2.0)).max(dear) }).min(BACK * self.top).max(2.0).max(FEEDBACK * self.latency * self.top);
        self.beta = if self.bearable > 0.0 { DEEP } else if self.k > 2.0 * CALLS { FLAT } else { BETA };
        if self.early >= self.needed && !self.shared {
            self.trial = Some(Trial { back: self.top, all: Tally::default() });
            self.control = Tally { ok: self.series.ok.max(1.0), no: self.series.no };
            self.bearable = bearable(self.control.no / self.control.ok);
            (self.tried, self.top, self.early, self.k, self.slow) = (true, self.good, 0, CALLS, None);
        }
    }
    /// When the next call may go by advice, rate and calls in flight.
    fn alone(&self, now: f64, in_flight: u32) -> f64 {
        if in_flight >= self.flight.cap { return f64::INFINITY; }
        let t = self.closed.max(now);
        if !self.paced { return t; }
        let t = t.max(self.next);
        if self.run > 1 && let Some(s) = self.pending.back() { return t.max(s.at + PATIENCE * self.latency); }
        t
    }
    /// A refusal that the number in flight does not explain.
    fn refused(&mut self, now: f64, a: &Answer, place: Option<usize>) {
        self.credit -= 1.0;
        if let Some(t) = &mut self.trial { t.all.no += 1.0; }
        // Probes while nothing succeeds say nothing on the share of refusals.
        if self.run < 2 { self.cycle.no += 1.0; if self.in_control() { self.control.no += 1.0; } }
        // In a row: nothing sent before it since the last one is still undecided. What was sent before that is the same event.
        let in_a_row = !self.pending.iter().any(|s| s.at >= self.cut_at && s.at <= a.sent_at);
        if a.sent_at < self.cut_at || self.run > 0 && !in_a_row { return; }
        if self.run == 0 { self.shut_at = now; (self.reached, self.x) = (self.rate(), self.n / self.k); }
        if !self.paced {
            (self.paced, self.n) = (true, 0.0);
            self.top = ((self.cycle.ok + place.unwrap_or(0) as f64 + 1.0) / (now - self.began).max(0.01)).clamp(0.2, 1e6);
            self.reached = self.top;
            if self.cycle.ok + (place.unwrap_or(0) as f64) < BURST { self.good = self.top; }
        }
        self.run += 1; self.cut_at = now;
        let gap = 1.0 / self.rate();
        if self.run > 1 { self.wait = (2.0 * self.wait).max(gap).min(PROBE); }
        self.next = now + gap.max(self.wait);
    }
}

impl super::Gate for Gate {
    fn earliest(&mut self, now: f64, in_flight: u32) -> f64 {
        self.now_in_flight = in_flight;
        self.witnesses.presume(now);
        self.presume(now);
        let alone = self.alone(now, in_flight);
        self.stated.earliest(now, in_flight, alone, self.closed)
    }
    fn sent(&mut self, now: f64, cost: f64, call: u64, kind: u64) {
        self.stated.sent(now, cost);
        self.witnesses.sent((now, self.now_in_flight + 1), call, kind);
        if self.began < 0.0 { self.began = now; }
        let gap = 1.0 / self.rate();
        let due = self.next.max(self.closed);
        self.pending.push_back(Sent { at: now, limited: !self.paced || now - due < gap });
        self.next = now.max(self.next) + gap;
    }
    fn answered(&mut self, now: f64, a: &Answer) -> f64 {
        let suspect = self.witnesses.answered(now, a);
        let explained = self.stated.answered(now, a);
        if !a.refused { self.presume(now); }
        let place = self.pending.iter().position(|s| s.at == a.sent_at);
        let sent = place.and_then(|i| self.pending.remove(i));
        // Refused after it had been presumed to be admitted.
        if a.refused && sent.is_none() { self.cycle.ok -= 1.0; }
        let own = a.advice.unwrap_or(0.0);
        if suspect { return own.max(backoff(&mut self.rng, a.attempts)); }
        if !a.refused {
            self.flight.seen(a, self.paced && self.trial.is_none());
            self.flight.admitted(now, a);
            if let Some(s) = sent && self.admit(s) { self.verdict(now); }
            return 0.0;
        }
        self.latency = (FADE * self.latency).max(now - a.sent_at);
        self.presume(now);
        // Advice that is not for all binds the refused call alone.
        if own > 0.0 && self.witnesses.for_all() { self.closed = self.closed.max(now + own); }
        if explained { return own; }
        // Only the first refusal of an event is evidence: the end of a window refuses many calls at once, all with many in flight.
        self.flight.seen(a, self.paced && self.trial.is_none() && self.run == 0 && a.sent_at >= self.cut_at);
        if (self.trial.is_none() || self.flight.cap < u32::MAX) && self.flight.explains(now, a, self.closed) { return own; }
        self.refused(now, a, place);
        own
    }
}
