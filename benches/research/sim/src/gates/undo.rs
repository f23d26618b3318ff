//! CUBIC on the rate (RFC 9438), counted in calls, with an undo (as Eifel and F-RTO) where slower did not make refusals rarer.
//!
//! Admitted is a call that has not been refused after a few times the time that refusals take. A *run* is refusals without a call
//! admitted between; from its second on the scope is taken as closed: single probes, doubling waits. The first call admitted after
//! a run decides the rate: that is the only place where it falls. A *cycle* is what lies between two such cuts.
use super::{Answer, Gate};
use std::collections::VecDeque;

/// Calls from a cut back to the old top: a limit is touched about once in 1 to 2 N calls, that is the price in refusals.
const N: f64 = 32.0;
/// CUBIC's cut; and the deeper one where refusals are borne, so that what is slow is surely below a limit.
const BETA: f64 = 0.9;
const DEEP: f64 = 0.75;
/// So many early refusals in a row start a trial; doubled after a vain one.
const NEEDED: u32 = 3;
/// Early: at less than this share of a rate that went well.
const EARLY: f64 = 0.8;
/// In a trial refusals may be this much more frequent than while slow.
const WORSE: f64 = 2.0;
/// Refusals beyond that until the verdict.
const CREDIT: f64 = 8.0;
/// Longest wait between two probes, longest time back to the old top, in seconds.
const PROBE: f64 = 8.0;
const BACK: f64 = 20.0;
/// Refusals close the scope for at most about one part in so many of the time.
const DEAR: f64 = 16.0;
/// More refusals in a row are no chance.
const CHANCE: f64 = 3.0;

struct Sent { at: f64, limited: bool }
/// Admitted and refused calls.
#[derive(Default, Clone, Copy)]
struct Tally { ok: f64, no: f64 }
struct Trial { back: f64, all: Tally }

pub struct Undo {
    closed: f64, next: f64, pending: VecDeque<Sent>, latency: f64,
    // The curve.
    paced: bool, slow: Option<f64>, top: f64, beta: f64, n: f64, k: f64,
    // The cycle and the one before; the run that ends it.
    began: f64, cycle: Tally, last: (f64, f64), run: u32, cut_at: f64, wait: f64, shut_at: f64, reached: f64, x: f64,
    // The undo.
    good: f64, early: u32, needed: u32, series: Tally, trial: Option<Trial>, tried: bool, control: Tally, credit: f64, bearable: f64,
    // In flight.
    recent: VecDeque<(u32, bool)>, cap: u32, held: u32, at_cap: f64, raise: f64,
    debug: bool,
}

/// Refusals per admitted call that are borne, where there were `q` runs of refusals per admitted call while slow.
fn bearable(q: f64) -> f64 { let q = q.min(0.4); WORSE * q / (1.0 - q) }

impl Undo {
    pub fn new(seed: u64) -> Self {
        Undo { closed: 0.0, next: 0.0, pending: VecDeque::new(), latency: 0.01, paced: false, slow: None, top: 0.0, beta: BETA, n: 0.0, k: N,
            began: -1.0, cycle: Tally::default(), last: (0.0, 0.0), run: 0, cut_at: -1.0, wait: 0.0, shut_at: 0.0, reached: 0.0, x: 0.0,
            good: 0.0, early: 0, needed: NEEDED, series: Tally::default(), trial: None, tried: false, control: Tally::default(), credit: 0.0, bearable: 0.0,
            recent: VecDeque::new(), cap: u32::MAX, held: u32::MAX, at_cap: 0.0, raise: 0.0, debug: std::env::var("DEBUG").is_ok() && seed == 1000 }
    }
    fn rate(&self) -> f64 {
        if !self.paced { return f64::INFINITY; }
        if self.trial.is_some() { return self.good * (self.n / 2.0).min(40.0).exp2(); }
        if self.slow.is_some() { return self.top * (4.0 * self.n / N).min(40.0).exp2(); }
        let x = self.n / self.k;
        self.top * (1.0 + (1.0 - self.beta) * (x - 1.0).min(1.0).powi(3)) * (0.5 * (x - 2.0)).clamp(0.0, 40.0).exp2()
    }
    /// Clearly slower than the top, and the cut has had time to act.
    fn in_control(&self) -> bool { self.trial.is_none() && self.n >= 0.25 * N && self.n < 0.8 * self.k }
    fn presume(&mut self, now: f64) {
        // All that are due first, then the verdict: refusals come before the answers of those admitted with them.
        let mut over = false;
        while let Some(s) = self.pending.front() && s.at + 3.0 * self.latency <= now + 1e-9 { let s = self.pending.pop_front().unwrap(); over |= self.admit(s); }
        if over { self.end_run(now); }
    }
    /// Whether it ends a run.
    fn admit(&mut self, s: Sent) -> bool {
        self.cycle.ok += 1.0;
        if let Some(t) = &mut self.trial { t.all.ok += 1.0; if t.all.ok > 8.0 * N { t.all.ok *= 0.5; t.all.no *= 0.5; } }
        if self.in_control() {
            self.control.ok += 1.0;
            if self.control.ok > 2.0 * N { self.control.ok *= 0.5; self.control.no *= 0.5; }
        }
        // The curve goes on with calls that the gate held back; in a trial while it does not go worse than borne.
        if s.limited && (self.trial.is_none() || self.credit >= 0.75 * CREDIT) { self.n += 1.0; }
        if let Some(end) = self.slow && self.rate() >= end { self.slow = None; self.top = end; self.n = 0.0; self.k = N; }
        self.credit = (self.credit + self.bearable).min(CREDIT);
        self.run > 0 && s.at >= self.cut_at
    }
    /// The first admitted call after refusals: what the rate is from here.
    fn end_run(&mut self, now: f64) {
        let run = std::mem::take(&mut self.run) as f64;
        self.wait = 0.0;
        if self.credit >= 0.0 { return; }
        // A trial that goes well but for bad luck goes on.
        if let Some(t) = &self.trial && t.all.no <= self.bearable * t.all.ok + 2.0 { self.credit = CREDIT; return; }
        let span = now - self.began;
        let (ok, time) = if self.n < 0.5 * N { self.last } else { (0.0, 0.0) };
        let seen = (self.cycle.ok + ok) / (span + time).max(0.001);
        let went = self.last.0 / self.last.1.max(0.001);
        self.last = (self.cycle.ok, span);
        if let Some(t) = self.trial.take() {
            // Vain. What was admitted in it is the capacity, if it was more than a handful.
            self.top = if self.cycle.ok < 0.25 * N { t.back } else { seen.clamp(t.back, self.good.max(t.back)) };
            self.good = self.top;
            self.needed = (2 * self.needed).min(128);
            (self.early, self.slow, self.k, self.bearable, self.control) = (0, None, N, 0.0, Tally::default());
        } else { self.cut(now, run, seen, went, span); }
        if self.debug { println!("{now:8.2} {} m={} run={run} seen={seen:.2} reached={:.2} x={:.2} top={:.2} k={:.0} early={} good={:.2} bearable={:.3}", if self.trial.is_some() { "trial" } else { "cut" }, self.cycle.ok, self.reached, self.x, self.top, self.k, self.early, self.good, self.bearable); }
        self.n = 0.0; self.began = now; self.cycle = Tally::default();
        self.credit = if self.bearable > 0.0 { CREDIT } else { 0.0 };
        self.next = if self.trial.is_some() { now } else { now + 1.0 / self.rate() };
    }
    fn cut(&mut self, now: f64, run: f64, seen: f64, went: f64, span: f64) {
        if self.tried {
            self.bearable = bearable((self.control.no - 1.0).max(0.0) / (self.control.ok + 0.5 * N));
            if self.bearable < 2.0 / N { self.bearable = 0.0; }
        }
        let early = run <= CHANCE && self.reached < EARLY * self.good;
        if early {
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
        if self.cycle.ok < 0.25 * N { self.top = self.top.max(0.5 * self.reached); }
        if run > CHANCE { self.good = self.top; } else if self.n >= 0.5 * N { self.good = self.good.max(seen); }
        // Back to the top in N calls; in more where refusals are dear.
        let dear = if self.x < 0.5 { 0.0 } else { (DEAR * shut * self.top).min(2.0 * self.k) };
        let plain = was_slow || self.slow.is_some() || self.bearable > 0.0;
        self.k = (if plain { N } else { (N * run.min(2.0)).max(dear) }).min(BACK * self.top).max(2.0);
        self.beta = if self.bearable > 0.0 { DEEP } else { BETA };
        if self.early >= self.needed {
            self.trial = Some(Trial { back: self.top, all: Tally::default() });
            self.control = Tally { ok: self.series.ok.max(1.0), no: self.series.no };
            self.bearable = bearable(self.control.no / self.control.ok);
            (self.tried, self.top, self.early, self.k, self.slow) = (true, self.good, 0, N, None);
        }
    }
    /// Is it the number in flight? Of the last 2 N calls, (nearly) all with `k` or more in flight were refused, with fewer hardly any.
    fn crowded(&mut self, now: f64, a: &Answer) -> bool {
        if self.trial.is_some() && self.cap == u32::MAX { return false; }
        self.cap = if a.in_flight > self.held { self.held } else {
            let split = |k: &u32| {
                let (mut over, mut under) = (Tally::default(), Tally::default());
                for (f, no) in &self.recent { let t = if f >= k { &mut over } else { &mut under }; if *no { t.no += 1.0 } else { t.ok += 1.0 } }
                over.no >= 3.0 && over.no >= 4.0 * over.ok && 7.0 * under.no <= under.ok
            };
            let most = self.recent.iter().map(|x| x.0).max().unwrap_or(0);
            if self.recent.len() < 2 * N as usize { u32::MAX } else { (2..=most).rev().find(split).map_or(u32::MAX, |k| k - 1) }
        };
        self.held = self.cap;
        if a.in_flight <= self.cap { return false; }
        self.at_cap = 0.0; self.raise = now + BACK * (self.closed - now).max(0.0);
        true
    }
}

impl Gate for Undo {
    fn earliest(&mut self, now: f64, in_flight: u32) -> f64 {
        self.presume(now);
        if in_flight >= self.cap { return f64::INFINITY; }
        let t = self.closed.max(now);
        if !self.paced { return t; }
        let t = t.max(self.next);
        if self.run > 1 && let Some(s) = self.pending.back() { return t.max(s.at + 3.0 * self.latency); }
        t
    }
    fn sent(&mut self, now: f64, _cost: f64, _: u64, _: u64) {
        if self.began < 0.0 { self.began = now; }
        let gap = 1.0 / self.rate();
        let due = self.next.max(self.closed);
        self.pending.push_back(Sent { at: now, limited: !self.paced || now - due < gap });
        self.next = now.max(self.next) + gap;
    }
    fn answered(&mut self, now: f64, a: &Answer) -> f64 {
        if !a.refused { self.presume(now); }
        let place = self.pending.iter().position(|s| s.at == a.sent_at);
        let sent = place.and_then(|i| self.pending.remove(i));
        if self.paced && self.trial.is_none() { self.recent.push_back((a.in_flight, a.refused)); }
        if self.recent.len() > 2 * N as usize { self.recent.pop_front(); }
        if !a.refused {
            if a.in_flight >= self.cap { self.at_cap += 1.0; if self.at_cap >= N && now >= self.raise { self.held = self.cap; self.cap += 1; self.at_cap = 0.0; } }
            if let Some(s) = sent && self.admit(s) { self.end_run(now); }
            return 0.0;
        }
        if sent.is_none() { self.cycle.ok -= 1.0; }
        self.latency = (0.95 * self.latency).max(now - a.sent_at);
        self.presume(now);
        let own = a.advice.unwrap_or(0.0);
        self.closed = self.closed.max(now + own);
        if self.crowded(now, a) { return own; }
        self.credit -= 1.0;
        if let Some(t) = &mut self.trial { t.all.no += 1.0; }
        // Probes while nothing succeeds say nothing on the share of refusals.
        if self.run < 2 { self.cycle.no += 1.0; if self.in_control() { self.control.no += 1.0; } }
        // In a row: nothing sent before it since the last one is still undecided. What was sent before that is the same event.
        let in_a_row = !self.pending.iter().any(|s| s.at >= self.cut_at && s.at <= a.sent_at);
        if a.sent_at >= self.cut_at && (self.run == 0 || in_a_row) {
            if self.run == 0 { self.shut_at = now; self.reached = self.rate(); self.x = self.n / self.k; }
            if !self.paced {
                self.paced = true; self.n = 0.0;
                self.top = ((self.cycle.ok + place.unwrap_or(0) as f64 + 1.0) / (now - self.began).max(0.01)).clamp(0.2, 1e6);
                self.reached = self.top; self.good = self.top;
            }
            self.run += 1; self.cut_at = now;
            let gap = 1.0 / self.rate();
            if self.run > 1 { self.wait = (2.0 * self.wait).max(gap).min(PROBE); }
            self.next = now + gap.max(self.wait);
        }
        own
    }
}
