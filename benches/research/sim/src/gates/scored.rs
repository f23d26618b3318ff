//! Hypotheses of what the server counts, scored by how much they tell of its refusals.
use super::{Answer, Gate, backoff};
use crate::Rng;
use std::collections::VecDeque;

const FADE: f64 = 1.0 / 64.0; // the tables forget at each refusal: they rest on the last 64 refusals
const PRICE: [f64; 4] = [0.0, 6.0, 8.0, 8.0]; // nats: what pure luck hardly reaches; more where the split is sought as well
const FLIGHT: f64 = 0.75; // in flight follows the rate where calls take the same time: it has to be clearly better
const TRUST: f64 = 16.0; // nats of old evidence kept at a change of rule, so that the new one is judged by its own fruits
const CHANCE: f64 = 0.35; // chance refuses at most so much; "nothing" pays for what is beyond
const PER: f64 = 30.0; // admitted calls per refusal: 3 * 30 after a run of one refusal
const SHUT: f64 = 8.0; // a probe may cost 1/8 of the time in advised closures
const DEPTH: f64 = 0.025; // the cycle starts so far below the estimate
const RISE: f64 = 0.05; // and is so far above it where the probe is due
const MEMORY: f64 = 100.0; // calls that the throughput rests on
const KEEP: f64 = 15.0; // refused after m calls: at least m / (m + 15) of the rate reached is kept
const BIN: f64 = 0.03; // resolution of the rates

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mode { Nothing, Bucket, Spacing, Flight }
const MODES: [Mode; 4] = [Mode::Nothing, Mode::Bucket, Mode::Spacing, Mode::Flight];

/// What a split [[ok, refused] below, [ok, refused] beyond] tells of the refusals (half of the G-test's statistic).
fn tells(lo: [f64; 2], hi: [f64; 2]) -> f64 {
    let (a, b) = (lo[0] + lo[1], hi[0] + hi[1]);
    if a < 1e-6 || b < 1e-6 || hi[1] * a <= lo[1] * b { return 0.0; }
    let t = |x: f64, side: f64, all: f64| if x > 1e-9 { x * (x * (a + b) / (side * all)).ln() } else { 0.0 };
    let (ok, no) = (lo[0] + hi[0], lo[1] + hi[1]);
    t(lo[0], a, ok) + t(hi[0], b, ok) + t(lo[1], a, no) + t(hi[1], b, no)
}
/// Answers by the value of a feature; refusals are expected beyond the split that tells most.
struct Stump { bins: Vec<[f64; 2]>, split: usize, score: f64, top: usize }
impl Stump {
    fn new(n: usize) -> Self { Stump { bins: vec![[0.0; 2]; n], split: n - 1, score: 0.0, top: 0 } }
    fn add(&mut self, bin: usize, refused: bool) { let n = self.bins.len(); self.top = self.top.max(bin); self.bins[bin.min(n - 1)][refused as usize] += 1.0; }
    fn fit(&mut self) {
        let all = self.bins.iter().fold([0.0; 2], |s, b| [s[0] + b[0], s[1] + b[1]]);
        let mut lo = [0.0; 2];
        self.score = 0.0;
        for (i, b) in self.bins[..self.bins.len().min(self.top + 1)].iter().enumerate() {
            lo = [lo[0] + b[0], lo[1] + b[1]];
            let g = tells(lo, [all[0] - lo[0], all[1] - lo[1]]);
            if g > self.score + 1e-9 { self.score = g; self.split = i; }
        }
    }
}

struct Sent { at: f64, flight: u32, prev: f64, rate: usize, beyond: bool, counted: bool }

pub struct Scored {
    rng: Rng, mode: Mode, closed: f64, next: f64, pending: VecDeque<Sent>, flight: u32, last: f64,
    // the cycle: from the first success after refusals to the next such
    told: bool, lost: f64, depth: f64, fresh: bool, reached: f64, began: f64, m: f64, run: u32, cut_at: f64, wait: f64, latency: f64, shut: f64, count: f64, time: f64, cycles: u32,
    // predictions
    t_ref: f64, n_since: f64, bucket: [[f64; 2]; 2], rates: Stump, flights: Stump,
    debug: bool,
}

impl Scored {
    pub fn new(seed: u64) -> Self {
        Scored { rng: Rng::new(seed, 5), mode: Mode::Nothing, closed: 0.0, next: 0.0, pending: VecDeque::new(), flight: 0, last: -1e3,
            told: false, lost: 1.0, depth: DEPTH, fresh: true, reached: 0.0, began: -1.0, m: 0.0, run: 0, cut_at: -1.0, wait: 0.0, latency: 0.002, shut: 0.0, count: 0.0, time: 0.0, cycles: 0,
            t_ref: -1.0, n_since: 0.0, bucket: [[0.0; 2]; 2], rates: Stump::new(400), flights: Stump::new(1024), debug: std::env::var("DEBUG").is_ok() && seed == 1000 }
    }
    /// Throughput over cycles.
    fn wall(&self, now: f64) -> f64 {
        if self.run > 0 || self.cycles == 0 { (self.count + self.m).max(1.0) / (self.time + now - self.began).max(0.001) } else { self.count / self.time.max(0.001) }
    }
    /// Calls to a probe: more after many refusals, fewer while the estimate rests on a handful of calls.
    fn span(&self) -> f64 { PER * (self.lost + 2.0) * if self.fresh { 1.0 / 3.0 } else { 1.0 } }
    /// How far the cycle is: 1 where a probe is due.
    fn due(&self, now: f64) -> f64 {
        if self.run > 0 { return 0.0; }
        (self.m / self.span()).min((now - self.began) / (SHUT * self.shut).max(1e-3))
    }
    fn ramp(&self, now: f64) -> f64 { let x = 2.0 * self.due(now) - 1.0; 1.0 + if x < 0.0 { self.depth } else { RISE } * x.powi(3) }
    fn rate(&self, now: f64) -> f64 {
        match self.mode {
            Mode::Bucket => self.wall(now) * self.ramp(now),
            Mode::Spacing => ((self.rates.split as f64 + 1.0) * BIN - 4.6).exp().max(self.wall(now)) * self.ramp(now), // what went through is a lower bound
            _ => f64::INFINITY,
        }.max(0.02)
    }
    fn cap(&self, now: f64) -> u32 {
        if self.mode != Mode::Flight { return u32::MAX; }
        let k = self.flights.split.max(1) as f64;
        (k * self.ramp(now)).max(k + self.due(now).floor()) as u32
    }
    fn end_run(&mut self, now: f64) {
        let dt = (now - self.began).max(0.001);
        let old = self.wall(now).max(self.count / self.time.max(1e-3)).max(1e-3);
        if self.cycles == 0 { self.count = 1.0; self.time = dt / self.m.max(1.0); }
        else { let w = (-self.m / MEMORY).exp(); let w = w * (5.0 * (self.m + 4.0) / self.count).min(1.0); self.count = w * self.count + self.m; self.time = w * self.time + dt; }
        if self.mode == Mode::Bucket { self.time = self.time.min(self.count / (self.m / (self.m + KEEP) * self.reached).max(1e-6)); }
        if self.mode != Mode::Nothing { self.time = self.time.min(2.0 * self.count / old); }
        if self.debug { println!("{now:8.3} {:?} m={} dt={dt:.2} run={} wall={:.2} rate={:.2} spacing {:.2} k={} scores {:.1?} bucket {:.1?}", self.mode, self.m, self.run, self.count / self.time, self.rate(now), ((self.rates.split as f64 + 1.0) * BIN - 4.6).exp(), self.flights.split, self.scores(), self.bucket); }
        self.cycles += 1;
        if self.mode != Mode::Nothing && self.m > 8.0 { self.fresh = false; }
        self.lost = (self.run as f64).min(4.0);
        let part = self.m / (PER * (self.lost + 2.0));
        if part < 0.1 { self.depth = (2.0 * self.depth).min(0.4); } else if part > 0.2 { self.depth = (0.5 * self.depth).max(DEPTH); }
        self.began = now; self.m = 0.0; self.run = 0; self.wait = 0.0;
        self.next = now.max(self.next.min(now + 1.0 / self.rate(now)));
    }
    /// A call that went through, or was not refused for some times as long as refusals take.
    fn admit(&mut self, now: f64, i: usize) {
        if self.pending[i].counted { return; }
        self.pending[i].counted = true;
        let p = &self.pending[i];
        self.bucket[p.beyond as usize][0] += 1.0; self.rates.add(p.rate, false); self.flights.add(p.flight as usize, false);
        if self.run > 0 && p.at > self.cut_at { self.end_run(now); }
        self.m += 1.0;
        if self.mode != Mode::Nothing && self.due(now) > 1.5 { self.fade(1.0 - FADE); }
    }
    fn scores(&self) -> [f64; 4] {
        let b = &self.bucket;
        let (ok, no) = (b[0][0] + b[1][0], b[0][1] + b[1][1]);
        let p = no / (ok + no).max(1.0);
        let much = if p > CHANCE { no * (p / CHANCE).ln() + ok * ((1.0 - p) / (1.0 - CHANCE)).max(1e-9).ln() } else { 0.0 };
        let s = [-much, tells(b[0], b[1]), self.rates.score, FLIGHT * self.flights.score];
        std::array::from_fn(|i| s[i] - PRICE[i])
    }
    fn fade(&mut self, f: f64) { for x in self.bucket.iter_mut().chain(&mut self.rates.bins).chain(&mut self.flights.bins) { x[0] *= f; x[1] *= f; } }
    fn choose(&mut self, now: f64) {
        self.rates.fit(); self.flights.fit();
        let s = self.scores();
        let best = (0..4).max_by(|a, b| s[*a].total_cmp(&s[*b])).unwrap();
        if MODES[best] != self.mode && s[best] > s[self.mode as usize] + 3.0 {
            if self.debug { println!("{now:8.3} {:?} -> {:?} {s:.1?}", self.mode, MODES[best]); }
            if self.mode == Mode::Nothing { self.fresh = self.count + self.m < 10.0; }
            self.mode = MODES[best];
            self.fade((TRUST / (s[best] + PRICE[best]).max(1.0)).min(1.0));
            self.next = now + 1.0 / self.rate(now);
        }
    }
}

impl Gate for Scored {
    fn earliest(&mut self, now: f64, flight: u32) -> f64 {
        self.flight = flight;
        let known = now - 3.0 * self.latency - 0.01;
        for i in 0..self.pending.len() { if self.pending[i].at > known { break; } self.admit(now, i); }
        if self.mode == Mode::Nothing { return self.closed.max(now); }
        if flight >= self.cap(now) { return f64::INFINITY; }
        self.closed.max(now).max(self.next)
    }
    fn sent(&mut self, now: f64, _cost: f64, _: u64, _: u64) {
        if self.began < 0.0 { self.began = now; }
        let slack = self.wall(now) * (now - self.t_ref) - self.n_since;
        let beyond = self.t_ref >= 0.0 && (slack < 0.2 || self.run > 0 && !self.told);
        let gap = (now - self.last).max(1e-3);
        self.pending.push_back(Sent { at: now, flight: self.flight + 1, prev: self.last, rate: (((1.0 / gap).ln() + 4.6) / BIN).max(0.0) as usize, beyond, counted: false });
        self.last = now; self.n_since += 1.0;
        let r = self.rate(now);
        if !r.is_finite() { if self.run > 0 { self.next = now + self.wait; } return; }
        self.next = self.next.max(if self.run > 0 { now } else { now - 1.0 / r }) + (1.0 / r).max(self.wait);
    }
    fn answered(&mut self, now: f64, a: &Answer) -> f64 {
        let found = self.pending.iter().position(|p| p.at == a.sent_at && p.flight == a.in_flight);
        if !a.refused {
            if let Some(i) = found { self.admit(now, i); self.pending.remove(i); }
            return 0.0;
        }
        if let Some(p) = found.and_then(|i| self.pending.remove(i)) {
            self.fade(1.0 - FADE);
            if self.last == p.at { self.last = p.prev; }
            self.bucket[p.beyond as usize][1] += 1.0; self.rates.add(p.rate, true); self.flights.add(p.flight as usize, true);
        }
        self.latency = (0.9 * self.latency).max(now - a.sent_at);
        if let Some(w) = a.advice { self.closed = self.closed.max(now + w); }
        self.told = a.advice.is_some_and(|w| w > 0.0);
        self.t_ref = a.sent_at; self.n_since = 0.0;
        if a.sent_at >= self.cut_at {
            if self.run == 0 { self.shut = 0.0; self.reached = if self.mode == Mode::Bucket { self.rate(now) } else { 0.0 }; }
            self.run += 1; self.cut_at = now;
            let gap = 1.0 / self.wall(now).max(0.02);
            self.wait = if self.run == 1 || self.told { 0.0 } else { (2.0 * self.wait).max(gap).min(5.0) };
            self.shut += a.advice.unwrap_or(0.0);
            self.next = now + gap.min(1.0 / self.rate(now)).max(self.wait);
        }
        self.choose(now);
        match a.advice { Some(w) if w > 0.0 => w, _ if self.mode == Mode::Nothing => backoff(&mut self.rng, a.attempts), _ => 0.0 }
    }
}
