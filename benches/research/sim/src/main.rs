//! The zoo: callers behind a gate at servers that limit, in virtual time. An experiment, not a part of the product.
//! `cargo run --release -- zoo|costs|stated|poison|changes|fleets GATE[,GATE] [part of a cell's name]`; environment: OW one way through the network in
//! seconds (0.001), SEED shifts the seeds, DEBUG=1 traces, BUDGET of the kind poison (300 s; 5: a fresh call each time), KIND=1 suspects by caller
//! instead of by call. Printed per cell: goodput as share of what is allowed, refusals per success, calls given up, c goodput of the first 20 s,
//! `!` target missed; t seconds until 90 % again after a change; j Jain's index between processes.
mod gates;
mod server;
mod sets;
use gates::{Answer, Gate, Stated};
use server::{Advice, Headers, Limit, Server};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

#[derive(Clone)]
pub struct Rng(u64);
impl Rng {
    pub fn new(seed: u64, stream: u64) -> Self { let mut r = Rng(seed.wrapping_mul(0x9E3779B97F4A7C15) ^ stream.wrapping_mul(0xD1B54A32D192ED03)); r.next(); r }
    fn next(&mut self) -> u64 { self.0 = self.0.wrapping_add(0x9E3779B97F4A7C15); let mut z = self.0; z = (z ^ (z >> 30)).wrapping_mul(0xBF58476D1CE4E5B9); z = (z ^ (z >> 27)).wrapping_mul(0x94D049BB133111EB); z ^ (z >> 31) }
    pub fn u(&mut self) -> f64 { (self.next() >> 11) as f64 / 9007199254740992.0 }
}

#[derive(Clone, Copy)]
enum Ev { Start(usize), Arrive(usize), Answered(usize, bool, f64, Option<Stated>), Retry(usize, u64), Timer(usize, u64), Deadline(usize, u64) }
struct E(f64, u64, Ev);
impl PartialEq for E { fn eq(&self, o: &Self) -> bool { self.cmp(o) == Ordering::Equal } }
impl Eq for E {}
impl PartialOrd for E { fn partial_cmp(&self, o: &Self) -> Option<Ordering> { Some(self.cmp(o)) } }
impl Ord for E { fn cmp(&self, o: &Self) -> Ordering { o.0.total_cmp(&self.0).then(o.1.cmp(&self.1)) } }

/// What a cell asks of a gate.
fn asked(name: &str) -> (f64, f64) {
    let good = if name.contains("no burst") { 0.88 } else if name.contains("counts refused") { 0.85 } else if name.contains("concurrency") || name.starts_with("random") || name.contains("+ random") { 0.9 } else { 0.95 };
    let refused = if name.contains("random") || name.starts_with("poison") { f64::INFINITY } else if name.contains("none") || name.contains("nginx") || name.contains("concurrency") || name.contains("after 0") { 0.08 } else { 0.05 };
    (good, refused)
}

#[derive(Clone)]
pub struct Cell { pub name: String, pub limits: Vec<(f64, f64, Limit)>, pub callers: usize, pub procs: usize, pub service: f64, pub exp: bool, pub seconds: f64, pub warm: f64, pub budget: f64, pub allowed: f64, pub sigma: f64, pub think: f64, pub headers: Headers, pub back: bool }

struct Call { cost: f64, id: u64, began: f64, attempts: u32, sent: f64, inflight: u32, queued: bool }
struct Proc { gate: Box<dyn Gate>, queue: VecDeque<(usize, u64)>, timer: u64, timer_at: f64, inflight: u32 }

#[derive(Default, Clone, Debug)]
pub struct Out { pub calls: f64, pub ok: f64, pub refused: f64, pub failed: f64, pub per_proc: Vec<f64>, pub by_second: Vec<f64> }

/// Every call has a number; a call that is sent again keeps it.
fn call_of(c: usize, id: u64) -> u64 { (c as u64) << 32 | id }
/// Route and model: the callers that are always refused use another, where the cell says so.
fn kind_of(cell: &Cell, c: usize) -> u64 { (cell.name.contains("other kind") && c < bad(cell)) as u64 }
/// How many callers are refused always.
fn bad(cell: &Cell) -> usize { if !cell.name.starts_with("poison") { 0 } else if cell.name.contains("three") { 3 } else { 1 } }

/// One way through the network, in seconds.
fn ow() -> f64 { f64::from_bits(OW.load(std::sync::atomic::Ordering::Relaxed)) }
static OW: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
fn set_ow(x: f64) { OW.store(x.to_bits(), std::sync::atomic::Ordering::Relaxed); }

fn run(cell: &Cell, make: &dyn Fn(u64) -> Box<dyn Gate>, seed: u64) -> Out {
    let ow = ow();
    let mut heap = BinaryHeap::new();
    let mut seq = 0;
    let mut server = Server::new(cell.limits.clone(), cell.headers, seed);
    let mut rng = Rng::new(seed, 1);
    let mut procs: Vec<Proc> = (0..cell.procs).map(|i| Proc { gate: make(seed * 1000 + i as u64), queue: VecDeque::new(), timer: 0, timer_at: f64::INFINITY, inflight: 0 }).collect();
    let mut calls: Vec<Call> = (0..cell.callers).map(|_| Call { cost: 1.0, id: 0, began: 0.0, attempts: 0, sent: 0.0, inflight: 0, queued: false }).collect();
    let mut out = Out { per_proc: vec![0.0; cell.procs], by_second: vec![0.0; cell.seconds as usize + 2], ..Out::default() };
    macro_rules! at { ($t:expr, $e:expr) => {{ seq += 1; heap.push(E($t, seq, $e)); }} }
    for i in 0..cell.callers { at!(rng.u() * 0.01, Ev::Start(i)); }
    while let Some(E(now, _, ev)) = heap.pop() {
        if now > cell.seconds { break; }
        let measured = now >= cell.warm;
        let mut touched = None;
        match ev {
            Ev::Start(c) => {
                let k = &mut calls[c];
                k.id += 1; k.began = now; k.attempts = 0; k.queued = true;
                // Costs with mean 1 (tokens of a call, say).
                k.cost = if cell.sigma > 0.0 { let (u, v) = (1.0 - rng.u(), rng.u()); ((-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos() * cell.sigma - cell.sigma * cell.sigma / 2.0).exp().clamp(0.02, 12.0) } else { 1.0 };
                procs[c % cell.procs].queue.push_back((c, k.id));
                at!(now + cell.budget, Ev::Deadline(c, k.id));
                touched = Some(c % cell.procs);
            }
            Ev::Arrive(c) => {
                let cost = calls[c].cost;
                // A call that the account may not make: refused whenever it comes, as long as others are not.
                let poison = c < bad(cell);
                let verdict = if poison { Err(if cell.name.contains("60 s") { Some(60.0) } else if cell.name.contains("says 1 s") { Some(1.0) } else { None }) } else { server.arrive(now, cost) };
                let stated = server.stated(now);
                match verdict {
                    Ok(()) => { let d = if cell.exp { -(1.0 - rng.u()).ln() * cell.service } else { cell.service }; at!(now + d + ow, Ev::Answered(c, true, -1.0, stated)); }
                    Err(advice) => at!(now + 0.001 + ow, Ev::Answered(c, false, advice.unwrap_or(-1.0), stated)),
                }
            }
            Ev::Answered(c, ok, advice, stated) => {
                let p = c % cell.procs;
                procs[p].inflight -= 1;
                if ok { server.in_service -= 1; }
                let k = &mut calls[c];
                let a = Answer { call: call_of(c, k.id), kind: kind_of(cell, c), refused: !ok, advice: (advice >= 0.0).then_some(advice), stated, sent_at: k.sent, cost: k.cost, in_flight: k.inflight, attempts: k.attempts };
                let wait = procs[p].gate.answered(now, &a);
                if ok {
                    if measured { out.ok += k.cost; out.per_proc[p] += k.cost; out.calls += 1.0; }
                    out.by_second[now as usize] += k.cost;
                    k.id += 1;
                    let think = if cell.think > 0.0 { -(1.0 - rng.u()).ln() * cell.think } else { 0.0 };
                    at!(now + think, Ev::Start(c));
                } else {
                    if measured { out.refused += 1.0; }
                    if now + wait > k.began + cell.budget { if measured { out.failed += 1.0; } k.id += 1; at!(now + 0.5, Ev::Start(c)); }
                    else { at!(now + wait, Ev::Retry(c, k.id)); }
                }
                touched = Some(p);
            }
            Ev::Retry(c, id) => if calls[c].id == id { calls[c].queued = true; let q = &mut procs[c % cell.procs].queue; if calls[c].attempts > front() && cell.back { q.push_back((c, id)) } else { q.push_front((c, id)) }; touched = Some(c % cell.procs); },
            Ev::Timer(p, t) => if procs[p].timer == t { procs[p].timer_at = f64::INFINITY; touched = Some(p); },
            Ev::Deadline(c, id) => if calls[c].id == id && calls[c].queued { calls[c].queued = false; calls[c].id += 1; if measured { out.failed += 1.0; } at!(now + 0.5, Ev::Start(c)); },
        }
        let Some(p) = touched else { continue };
        loop {
            let Some(&(c, id)) = procs[p].queue.front() else { break };
            if calls[c].id != id || !calls[c].queued { procs[p].queue.pop_front(); continue; }
            let inflight = procs[p].inflight;
            let t = procs[p].gate.earliest(now, inflight);
            if t <= now + 1e-9 {
                procs[p].queue.pop_front();
                procs[p].inflight += 1;
                let k = &mut calls[c];
                k.queued = false; k.attempts += 1; k.sent = now; k.inflight = procs[p].inflight;
                let (cost, call) = (k.cost, call_of(c, k.id)); procs[p].gate.sent(now, cost, call, kind_of(cell, c));
                at!(now + ow, Ev::Arrive(c));
                continue;
            }
            if t.is_finite() && (t - procs[p].timer_at).abs() > 1e-9 { procs[p].timer += 1; procs[p].timer_at = t; let g = procs[p].timer; at!(t, Ev::Timer(p, g)); }
            break;
        }
    }
    out
}

fn cells() -> Vec<Cell> {
    use Advice::*;
    let inf = f64::INFINITY;
    let mut v = vec![];
    let mut add = |name: &str, limit: Limit, rate: f64, callers: &[usize], service: &[f64]| {
        for &n in callers { for &d in service {
            let demand = n as f64 / (d + 2.0 * ow());
            let allowed = if let Limit::Concurrency { n: k, .. } = limit { (k as f64 / (d + ow())).min(demand) } else { rate.min(demand) };
            if demand < 0.8 * rate && !matches!(limit, Limit::Concurrency { .. } | Limit::Random { .. }) { continue; }
            v.push(Cell { name: format!("{name} | {n} callers, {d} s"), limits: vec![(0.0, inf, limit.clone())], callers: n, procs: 1, service: d, exp: false, seconds: if name.starts_with("window 300") { 373.0 } else { 120.0 }, warm: if name.starts_with("window 300") { 73.0 } else { 20.0 }, budget: if name.starts_with("window 300") { 90.0 } else { 30.0 }, allowed, sigma: 0.0, think: 0.0, headers: Headers::None, back: true });
        } }
    };
    let n3 = [1, 8, 40];
    let d3 = [0.02, 0.2];
    add("leaky 20/s b40 exact", Limit::Leaky { rate: 20.0, burst: 40.0, advice: Exact }, 20.0, &n3, &d3);
    add("leaky 200/s b400 exact", Limit::Leaky { rate: 200.0, burst: 400.0, advice: Exact }, 200.0, &[40, 400], &d3);
    add("leaky 20/s b40 ceil", Limit::Leaky { rate: 20.0, burst: 40.0, advice: Ceil }, 20.0, &n3, &d3);
    add("leaky 20/s b40 none", Limit::Leaky { rate: 20.0, burst: 40.0, advice: None }, 20.0, &n3, &d3);
    add("nginx 20/s no burst", Limit::Leaky { rate: 20.0, burst: 1.0, advice: None }, 20.0, &n3, &d3);
    add("nginx 200/s no burst", Limit::Leaky { rate: 200.0, burst: 1.0, advice: None }, 200.0, &[40], &[0.02, 0.15]);
    add("nginx 500/s b100", Limit::Leaky { rate: 500.0, burst: 101.0, advice: None }, 500.0, &[40], &[0.02]);
    add("governor 20/s b20 after 0", Limit::Leaky { rate: 20.0, burst: 20.0, advice: Fixed(0.0) }, 20.0, &[8, 40], &d3);
    add("governor 1/s b5 after 0", Limit::Leaky { rate: 1.0, burst: 5.0, advice: Fixed(0.0) }, 1.0, &[8, 40], &[0.02]);
    add("window 100 per 5 s, ceil", Limit::Window { n: 100, period: 5.0, phase: 1.3, advice: Ceil }, 20.0, &n3, &d3);
    add("window 100 per 5 s, none", Limit::Window { n: 100, period: 5.0, phase: 1.3, advice: None }, 20.0, &[8, 40], &d3);
    add("window 20 per 1 s, ceil", Limit::Window { n: 20, period: 1.0, phase: 0.3, advice: Ceil }, 20.0, &[8, 40], &d3);
    add("window 300 per 60 s, exact", Limit::Window { n: 300, period: 60.0, phase: 13.0, advice: Exact }, 5.0, &[8, 40], &d3);
    add("window 300 per 60 s, none", Limit::Window { n: 300, period: 60.0, phase: 13.0, advice: None }, 5.0, &[8, 40], &d3);
    add("sliding 100 per 5 s, exact", Limit::Sliding { n: 100, period: 5.0, counts_refused: false, advice: Exact }, 20.0, &[8, 40], &d3);
    add("sliding 100 per 5 s, none", Limit::Sliding { n: 100, period: 5.0, counts_refused: false, advice: None }, 20.0, &[8, 40], &d3);
    add("counts refused 100 per 5 s", Limit::Sliding { n: 100, period: 5.0, counts_refused: true, advice: None }, 20.0, &[8, 40], &d3);
    add("concurrency 5", Limit::Concurrency { n: 5, advice: None }, 0.0, &[8, 40], &[0.02, 0.2, 2.0]);
    add("concurrency 3, says 20 s", Limit::Concurrency { n: 3, advice: Fixed(20.0) }, 0.0, &[8], &[0.02, 0.2]);
    for c in v.clone().into_iter().filter(|c| c.name.starts_with("concurrency 5") && c.service >= 0.2) { v.push(Cell { exp: true, name: c.name.replace("concurrency 5", "concurrency 5 exp"), ..c }); }
    for (n, d) in [(8usize, 0.02), (40, 0.2)] {
        v.push(Cell { name: format!("leaky 20/s b40 exact + random .05 none | {n} callers, {d} s"), limits: vec![(0.0, inf, Limit::Leaky { rate: 20.0, burst: 40.0, advice: Exact }), (0.0, inf, Limit::Random { p: 0.05, advice: None })], callers: n, procs: 1, service: d, exp: false, seconds: 120.0, warm: 20.0, budget: 30.0, allowed: 20.0, sigma: 0.0, think: 0.0, headers: Headers::None, back: true });
        v.push(Cell { name: format!("leaky 20/s b40 none + random .05 none | {n} callers, {d} s"), limits: vec![(0.0, inf, Limit::Leaky { rate: 20.0, burst: 40.0, advice: None }), (0.0, inf, Limit::Random { p: 0.05, advice: None })], callers: n, procs: 1, service: d, exp: false, seconds: 120.0, warm: 20.0, budget: 30.0, allowed: 20.0, sigma: 0.0, think: 0.0, headers: Headers::None, back: true });
        v.push(Cell { name: format!("window 100 per 5 s ceil + 1000 per 60 s ceil | {n} callers, {d} s"), limits: vec![(0.0, inf, Limit::Window { n: 100, period: 5.0, phase: 1.3, advice: Ceil }), (0.0, inf, Limit::Window { n: 1000, period: 60.0, phase: 1.3, advice: Ceil })], callers: n, procs: 1, service: d, exp: false, seconds: 241.3, warm: 61.3, budget: 90.0, allowed: 1000.0 / 60.0, sigma: 0.0, think: 0.0, headers: Headers::None, back: true });
    }
    v.push(Cell { name: "concurrency 16 + random .05 .02 s | 50 callers, 0.2 s".into(), limits: vec![(0.0, inf, Limit::Concurrency { n: 16, advice: None }), (0.0, inf, Limit::Random { p: 0.05, advice: Fixed(0.02) })], callers: 50, procs: 1, service: 0.2, exp: false, seconds: 120.0, warm: 20.0, budget: 30.0, allowed: 16.0 / (0.2 + ow()), sigma: 0.0, think: 0.0, headers: Headers::None, back: true });
    for p in [0.02, 0.05, 0.1, 0.3] {
        for (a, s) in [(None, "none"), (Fixed(0.01), "10 ms"), (Fixed(0.3), ".3 s"), (Fixed(2.0), "2 s")] {
            for n in [1usize, 8, 30] { for d in [0.05, 1.0] {
                // Allowed: everyone keeps to the cool-down of all, and calls as fast as it can between.
                let rate = n as f64 / (d + 2.0 * ow());
                v.push(Cell { name: format!("random {p} advice {s} | {n} callers, {d} s"), limits: vec![(0.0, inf, Limit::Random { p, advice: a })], callers: n, procs: 1, service: d, exp: false, seconds: 200.0, warm: 20.0, budget: 30.0, allowed: -rate, sigma: 0.0, think: 0.0, headers: Headers::None, back: true });
            } }
        }
    }
    v
}

/// One caller whose calls are always refused (a model that the account may not use), beside others whose are not.
fn poison() -> Vec<Cell> {
    let inf = f64::INFINITY;
    let mut v = vec![];
    let full = std::env::var("ALL").is_ok();
    for who in if full { vec!["", ", three", ", other kind, fresh", ", fresh", ", other kind", ", three, other kind, fresh"] } else { vec!["", ", other kind, fresh"] } {
        for (name, limits, rate) in [("no limit", vec![], inf), ("leaky 20/s b40 none", vec![(0.0, inf, Limit::Leaky { rate: 20.0, burst: 40.0, advice: Advice::None })], 20.0)] {
            for advice in ["no advice", "says 1 s", "says 60 s"] { for (n, d) in [(9usize, 0.2), (41, 0.2), (41, 2.0)] {
                let allowed = rate.min((n - if who.contains("three") { 3 } else { 1 }) as f64 / (d + 2.0 * ow()));
                // With 60 s two closings are lost while it is learned.
                let warm = if advice == "says 60 s" { 140.0 } else { 20.0 };
                v.push(Cell { name: format!("poison {advice}, {name}{who} | {n} callers, {d} s"), limits: limits.clone(), callers: n, procs: 1, service: d, exp: false, seconds: warm + 180.0, warm, budget: if who.contains("fresh") { 5.0 } else { 600.0 }, allowed, sigma: 0.0, think: 0.0, headers: Headers::None, back: true });
            } }
        }
    }
    v
}

/// Costs that differ (tokens), and callers that are not always there.
fn costs() -> Vec<Cell> {
    use Advice::*;
    let inf = f64::INFINITY;
    let mut v = vec![];
    for (name, limit) in [("tokens 20/s b40 exact", Limit::Leaky { rate: 20.0, burst: 40.0, advice: Exact }), ("tokens 20/s b40 none", Limit::Leaky { rate: 20.0, burst: 40.0, advice: None }), ("tokens 200/s b400 exact", Limit::Leaky { rate: 200.0, burst: 400.0, advice: Exact })] {
        for n in [8usize, 64, 512] { for (d, load) in [(0.3, 0.8), (0.3, 1.2), (0.3, 3.0)] {
            let Limit::Leaky { rate, .. } = limit else { continue };
            let think = n as f64 / (load * rate) - d - 2.0 * ow();
            if think < 0.0 { continue; }
            v.push(Cell { name: format!("{name} | {n} callers, load {load}"), limits: vec![(0.0, inf, limit.clone())], callers: n, procs: 1, service: d, exp: true, seconds: 320.0, warm: 60.0, budget: 30.0, allowed: rate * load.min(1.0), sigma: 0.8, think, headers: Headers::None, back: true });
        } }
    }
    v
}

/// Windows that headers state, rightly or wrongly.
fn stated() -> Vec<Cell> {
    use Advice::*;
    let inf = f64::INFINITY;
    let mut v = vec![];
    for (h, headers) in [("true", Headers::True), ("no reset", Headers::NoReset), ("far reset", Headers::FarReset), ("zero", Headers::Zero), ("plenty", Headers::Plenty)] {
        for (name, limit, rate, warm, span) in [
            ("window 100 per 5 s, ceil", Limit::Window { n: 100, period: 5.0, phase: 1.3, advice: Ceil }, 20.0, 21.3, 100.0),
            ("window 100 per 5 s, none", Limit::Window { n: 100, period: 5.0, phase: 1.3, advice: None }, 20.0, 21.3, 100.0),
            ("window 300 per 60 s, ceil", Limit::Window { n: 300, period: 60.0, phase: 13.0, advice: Ceil }, 5.0, 73.0, 300.0),
            ("window 300 per 60 s, none", Limit::Window { n: 300, period: 60.0, phase: 13.0, advice: None }, 5.0, 73.0, 300.0),
            ("sliding 100 per 5 s, ceil", Limit::Sliding { n: 100, period: 5.0, counts_refused: false, advice: Ceil }, 20.0, 20.0, 100.0),
            ("bucket 20/s b40, none", Limit::Leaky { rate: 20.0, burst: 40.0, advice: None }, 20.0, 20.0, 100.0),
        ] { for (n, d) in [(8usize, 0.02), (40, 0.2)] {
            v.push(Cell { name: format!("{name}, headers {h} | {n} callers, {d} s"), limits: vec![(0.0, inf, limit.clone())], callers: n, procs: 1, service: d, exp: false, seconds: warm + span, warm, budget: 90.0, allowed: rate, sigma: 0.0, think: 0.0, headers, back: true });
        } }
    }
    v
}

fn changes() -> Vec<Cell> {
    use Advice::*;
    let inf = f64::INFINITY;
    let l = |rate: f64, burst: f64, advice| Limit::Leaky { rate, burst, advice };
    let mut v = vec![];
    for (s, advice, b) in [("exact", Exact, 2.0), ("none b40", None, 2.0), ("none b1", None, 0.0)] {
        let f = |r: f64| if b == 0.0 { 1.0 } else { b * r };
        for (name, lims) in [
            ("x 1/8", vec![(0.0, 100.0, l(40.0, f(40.0), advice)), (100.0, inf, l(5.0, f(5.0), advice))]),
            ("x 8", vec![(0.0, 100.0, l(5.0, f(5.0), advice)), (100.0, inf, l(40.0, f(40.0), advice))]),
            ("vanishes", vec![(0.0, 100.0, l(5.0, f(5.0), advice))]),
            ("outage 20 s", vec![(0.0, inf, l(20.0, f(20.0), advice)), (80.0, 100.0, Limit::Outage { from: 80.0, to: 100.0 })]),
        ] {
            let allowed = match name { "x 1/8" => 5.0, "x 8" => 40.0, "vanishes" => 40.0 / (0.2 + 2.0 * ow()), _ => 20.0 };
            v.push(Cell { name: format!("{name} {s}"), limits: lims, callers: 40, procs: 1, service: 0.2, exp: false, seconds: 200.0, warm: 100.0, budget: 30.0, allowed, sigma: 0.0, think: 0.0, headers: Headers::None, back: true });
        }
    }
    v
}

fn fleets() -> Vec<Cell> {
    use Advice::*;
    let inf = f64::INFINITY;
    let mut v = vec![];
    for (procs, callers) in [(3, 30), (8, 64), (16, 160), (64, 64)] {
        for (name, limit) in [("leaky 20/s b40 exact", Limit::Leaky { rate: 20.0, burst: 40.0, advice: Exact }), ("leaky 20/s b40 none", Limit::Leaky { rate: 20.0, burst: 40.0, advice: None }), ("nginx 20/s no burst", Limit::Leaky { rate: 20.0, burst: 1.0, advice: None }), ("window 100 per 5 s ceil", Limit::Window { n: 100, period: 5.0, phase: 1.3, advice: Ceil }), ("concurrency 16", Limit::Concurrency { n: 16, advice: None })] {
            let d = 0.2;
            let allowed = if name == "concurrency 16" { 16.0 / (d + ow()) } else { 20.0 };
            v.push(Cell { name: format!("{procs} processes, {callers} callers: {name}"), limits: vec![(0.0, inf, limit)], callers, procs, service: d, exp: false, seconds: 220.0, warm: 120.0, budget: 60.0, allowed, sigma: 0.0, think: 0.0, headers: Headers::None, back: true });
        }
    }
    v
}


fn list(what: &str) -> Vec<Cell> {
    match what { "zoo" => cells(), "valid" => sets::generated(1), "kept" => sets::generated(20261201), "changes" => changes(), "fleets" => fleets(), "costs" => costs(), "poison" => poison(), "stated" => stated(), _ => panic!("no set {what}") }
}
struct Result { good: f64, refused: f64, failed: f64, cold: f64, met: bool, short: f64, share: f64, out: Out, allowed: f64 }
fn sort<const N: usize>(v: [&mut Vec<f64>; N]) { for x in v { x.sort_by(f64::total_cmp); } }
/// What chance allows (a shared cool-down) and what no gate at all reaches, the middle of the seeds; cached in a file, since neither depends on the gate.
fn bound(cell: &Cell, name: &str, seeds: u64, base: u64) -> f64 {
    use std::sync::Mutex; use std::collections::HashMap;
    static CACHE: Mutex<Option<HashMap<String, f64>>> = Mutex::new(None);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/target/bounds.txt");
    let key = format!("{name};{};{};{};{seeds}", cell.name, ow(), base).replace(' ', "_");
    let mut lock = CACHE.lock().unwrap();
    let cache = lock.get_or_insert_with(|| std::fs::read_to_string(file).unwrap_or_default().lines().filter_map(|l| { let (k, v) = l.split_once(' ')?; Some((k.to_string(), v.parse().ok()?)) }).collect());
    if let Some(x) = cache.get(&key) { return *x; }
    let mut g: Vec<f64> = (0..seeds).map(|s| run(cell, &|x| gates::make(name, x), base + s + 1).ok / (cell.seconds - cell.warm)).collect();
    g.sort_by(f64::total_cmp);
    let x = g[g.len() / 2];
    cache.insert(key.clone(), x);
    use std::io::Write;
    if let Ok(mut f) = std::fs::OpenOptions::new().create(true).append(true).open(file) { let _ = writeln!(f, "{key} {x}"); }
    x
}
fn measure(cell: &Cell, name: &str, seeds: u64, base: u64) -> Result {
    let mut cell = cell.clone();
    let chance = cell.allowed < 0.0;
    if chance { cell.allowed = bound(&cell, "cooldown", seeds, base); }
    let none = if chance { bound(&cell, "none", seeds, base) } else { 0.0 };
    let outs: Vec<Out> = (0..seeds).map(|s| run(&cell, &|x| gates::make(name, x), base + s + 1)).collect();
    let span = cell.seconds - cell.warm;
    let m = outs.len() / 2;
    let mut good: Vec<f64> = outs.iter().map(|o| o.ok / span / cell.allowed).collect();
    let mut refused: Vec<f64> = outs.iter().map(|o| if o.calls < 100.0 && o.refused <= 6.0 { 0.0 } else { o.refused / o.calls.max(1.0) }).collect();
    let mut failed: Vec<f64> = outs.iter().map(|o| o.failed).collect();
    sort([&mut good, &mut refused, &mut failed]);
    let (ask_good, ask_refused) = asked(&cell.name);
    let met = good[m] >= ask_good - 0.005 && refused[m] <= ask_refused + 0.0005;
    let short = (ask_good - good[m]).max(0.0) + if ask_refused.is_finite() { (refused[m] - ask_refused).clamp(0.0, 1.0) } else { 0.0 };
    let cold = outs[m].by_second[..20].iter().sum::<f64>() / 20.0 / cell.allowed;
    let share = if chance { good[m] * cell.allowed / none } else { f64::NAN };
    Result { good: good[m], refused: refused[m], failed: failed[m], cold, met, short, share, out: outs.into_iter().next().unwrap(), allowed: cell.allowed }
}
/// What a family is called in the tables.
fn family(name: &str) -> &'static str {
    if name.contains("+ random") { return "limit + chance"; }
    for f in ["random", "leaky", "no burst", "governor", "nginx 500", "sliding", "counts refused", "concurrency", "poison", "tokens", "window"] { if name.contains(f) { return f; } }
    "other"
}
/// `all SETS GATES`: one line a set (a family with FAMILIES=1), the cells missed with MISSED=1.
fn summary(sets: &str, names: &[&str], seeds: u64, base: u64) {
    for set in sets.split(',') {
        let (what, ms) = set.split_once('@').unwrap_or((set, "2"));
        set_ow(ms.parse::<f64>().unwrap() / 2000.0);
        let only = std::env::var("ONLY").unwrap_or_default();
        let cells: Vec<Cell> = list(what).into_iter().filter(|c| only.is_empty() || only.split(',').any(|f| family(&c.name) == f)).collect();
        for name in names {
            let (mut met, mut short, mut low, mut lost) = (0, 0.0, vec![], 0.0);
            let mut share = vec![];
            let mut families: std::collections::BTreeMap<&str, (u32, u32)> = Default::default();
            for c in &cells {
                let r = measure(c, name, seeds, base);
                let f = families.entry(family(&c.name)).or_default();
                f.1 += 1; f.0 += r.met as u32;
                met += r.met as u32; short += r.short; lost += r.failed;
                if r.good < 0.6 { low.push(c.name.clone()); }
                if !r.share.is_nan() { share.push(r.share); }
                if !r.met && std::env::var("MISSED").is_ok() { println!("  {:70} {:8.2} {:.2} {:.3} {:.0} c{:.2} share {:.2}", c.name, r.allowed, r.good, r.refused, r.failed, r.cold, r.share); }
            }
            share.sort_by(f64::total_cmp);
            let chance = if share.is_empty() { String::new() } else { format!(" | of no gate: lowest {:.2} tenth {:.2} middle {:.2}", share[0], share[share.len() / 10], share[share.len() / 2]) };
            println!("{set:10} {name:10} met {met:3} of {:3} ({:.1} %) short {short:.2} below .6: {} given up {lost:.0}{chance}", cells.len(), 100.0 * met as f64 / cells.len() as f64, low.len());
            if std::env::var("FAMILIES").is_ok() { println!("    {}", families.iter().map(|(n, (a, b))| format!("{n} {a}/{b}")).collect::<Vec<_>>().join(", ")); }
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let what = args.get(1).map_or("zoo", |s| s.as_str());
    let names: Vec<&str> = args.get(2).map_or("none,cooldown,cubic", |s| s.as_str()).split(',').collect();
    let filter = args.get(3).cloned().unwrap_or_default();
    set_ow(std::env::var("OW").map_or(0.001, |s| s.parse().unwrap()));
    let seeds: u64 = std::env::var("SEEDS").map_or(3, |s| s.parse().unwrap()); let base: u64 = std::env::var("SEED").map_or(0, |s| s.parse().unwrap());
    if what == "all" { return summary(args.get(3).map_or("zoo@2,zoo@100,valid@2,valid@100", |s| s.as_str()), &names, seeds, base); }
    let list = list(what);
    println!("{:72} {:>8} {}", "", "allowed", names.iter().map(|n| format!("{n:>26}")).collect::<String>());
    for cell in list.iter().filter(|c| c.name.contains(&filter)) {
        for (i, name) in names.iter().enumerate() {
            let r = measure(cell, name, seeds, base);
            if i == 0 { print!("{:72} {:8.2}", cell.name, r.allowed); }
            let o = &r.out;
            let mut extra = format!(" c{:.2}{}", r.cold, if r.met { "" } else { "!" });
            if what == "fleets" { let s: f64 = o.per_proc.iter().sum(); let q: f64 = o.per_proc.iter().map(|x| x * x).sum(); extra = format!(" j{:.2}", s * s / q / cell.procs as f64); }
            if what == "changes" { let at = cell.warm as usize; let t = (at..cell.seconds as usize - 5).find(|t| o.by_second[*t..*t + 5].iter().sum::<f64>() >= 4.5 * r.allowed); extra = format!(" t{}", t.map_or("-".into(), |t| (t - at).to_string())); }
            print!("{:>26}", format!("{:.2} {:.3} {:.0}{extra}", r.good, r.refused, r.failed));
        }
        println!();
    }
}
/// How often a call may be refused and still go before the others.
fn front() -> u32 { std::env::var("FRONT").map_or(1, |s| s.parse().unwrap()) }
