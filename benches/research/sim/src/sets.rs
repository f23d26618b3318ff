//! Generated sets of cells: other rates, windows, latencies, advice, callers. `validation` was used for tuning, `kept` never.
use crate::server::{Advice, Headers, Limit};
use crate::{Cell, Rng, ow};

struct Draw(Rng);
impl Draw {
    fn of<T: Copy>(&mut self, from: &[T]) -> T { from[((self.0.u() * from.len() as f64) as usize).min(from.len() - 1)] }
    /// Log-uniform, rounded to two digits.
    fn log(&mut self, lo: f64, hi: f64) -> f64 { let x = lo * (hi / lo).powf(self.0.u()); let p = 10f64.powf(x.log10().floor() - 1.0); format!("{:.4}", (x / p).round() * p).parse().unwrap() }
    fn u(&mut self) -> f64 { self.0.u() }
}

fn blank(name: String, limits: Vec<(f64, f64, Limit)>, callers: usize, service: f64, allowed: f64) -> Cell {
    Cell { name: format!("{name} | {callers} callers, {service} s"), limits, callers, procs: 1, service, exp: false, seconds: 120.0, warm: 20.0, budget: 30.0, allowed, sigma: 0.0, think: 0.0, headers: Headers::None, back: true }
}

/// About 140 cells: the families of the zoo in the proportions of the zoo, with numbers drawn from `seed`.
pub fn generated(seed: u64) -> Vec<Cell> {
    use Advice::*;
    let inf = f64::INFINITY;
    let mut d = Draw(Rng::new(seed, 4242));
    let mut v = vec![];
    // Callers and service time so that the demand is 1.2 to 12 times the rate.
    fn load(d: &mut Draw, rate: f64) -> (usize, f64) {
        loop {
            let (n, s) = (d.of(&[1usize, 2, 4, 6, 12, 25, 50, 100, 250]), d.log(0.01, 1.5));
            // The demand is taken at a round trip of 2 ms for both round trips, so that the cells are the same; with 100 ms it has to be enough as well.
            let (fast, slow) = (n as f64 / (s + 0.002), n as f64 / (s + 0.1));
            if slow >= 1.2 * rate && fast <= 30.0 * rate { return (n, s); }
            if d.u() < 0.001 { return ((3.0 * rate * (s + 0.1)).ceil() as usize, s); }
        }
    }
    let advices = [("exact", Exact), ("ceil", Ceil), ("none", None), ("after 0", Fixed(0.0))];
    for i in 0..16 {
        let (rate, over) = (d.log(0.7, 600.0), d.log(0.3, 6.0));
        let (name, a) = advices[i % 4];
        let burst = (rate * over).round().max(2.0);
        let (n, s) = load(&mut d, rate);
        v.push(blank(format!("leaky {rate}/s b{burst} {name}"), vec![(0.0, inf, Limit::Leaky { rate, burst, advice: a })], n, s, rate));
    }
    for i in 0..9 {
        let rate = d.log(2.0, 400.0);
        let (n, s) = load(&mut d, rate);
        let a = if i % 3 == 2 { Fixed(1.0) } else { None };
        v.push(blank(format!("no burst {rate}/s, {}", if i % 3 == 2 { "says 1 s" } else { "none" }), vec![(0.0, inf, Limit::Leaky { rate, burst: 1.0, advice: a })], n, s, rate));
    }
    for i in 0..20 {
        let period = d.of(&[1.0, 2.0, 4.0, 10.0, 10.0, 15.0, 30.0, 60.0]);
        let rate = d.log(1.5, 120.0).max(6.0 / period);
        let count = (rate * period).round();
        let (name, a) = [("exact", Exact), ("ceil", Ceil), ("none", None), ("ceil", Ceil), ("none", None)][i % 5];
        let (n, s) = load(&mut d, rate);
        let phase = (d.u() * period * 100.0).round() / 100.0;
        let mut c = blank(format!("window {count} per {period} s, {name}"), vec![(0.0, inf, Limit::Window { n: count as u32, period, phase, advice: a })], n, s, count / period);
        let warm = phase + ((20.0f64 - phase).max(0.0) / period).ceil().max(1.0) * period;
        (c.warm, c.seconds, c.budget) = (warm, warm + (100.0 / period).ceil().max(5.0) * period, 1.5 * period.max(20.0));
        v.push(c);
    }
    for i in 0..8 {
        let (period, rate) = (d.of(&[1.0, 3.0, 10.0, 20.0]), d.log(3.0, 80.0));
        let count = (rate * period).round().max(5.0);
        let (n, s) = load(&mut d, count / period);
        let (name, a) = [("exact", Exact), ("none", None), ("ceil", Ceil), ("none", None)][i % 4];
        let mut c = blank(format!("sliding {count} per {period} s, {name}"), vec![(0.0, inf, Limit::Sliding { n: count as usize, period, counts_refused: false, advice: a })], n, s, count / period);
        (c.warm, c.seconds, c.budget) = (40.0, 160.0, 40.0);
        v.push(c);
    }
    for _ in 0..4 {
        let (period, rate) = (d.of(&[2.0, 5.0, 10.0]), d.log(3.0, 80.0));
        let count = (rate * period).round().max(5.0);
        let (n, s) = load(&mut d, count / period);
        v.push(blank(format!("counts refused {count} per {period} s, none"), vec![(0.0, inf, Limit::Sliding { n: count as usize, period, counts_refused: true, advice: None })], n, s, count / period));
    }
    for i in 0..14 {
        let (k, s) = (d.of(&[2u32, 3, 4, 7, 12, 20, 40]), d.log(0.03, 3.0));
        let n = (k as f64 * d.log(1.5, 8.0)).ceil() as usize;
        let (name, a) = [("", None), ("", None), ("", None), (", says .1 s", Fixed(0.1)), (", says 1 s", Fixed(1.0)), ("", None), (", says 0", Fixed(0.0))][i % 7];
        let exp = i % 3 == 1;
        let mut c = blank(format!("concurrency {k}{}{name}", if exp { " exp" } else { "" }), vec![(0.0, inf, Limit::Concurrency { n: k, advice: a })], n, s, k as f64 / (s + ow()));
        c.exp = exp;
        if s > 1.0 { (c.warm, c.seconds) = (60.0, 260.0); }
        v.push(c);
    }
    for i in 0..3 {
        let rate = d.log(4.0, 40.0);
        let (n, s) = load(&mut d, rate);
        let (small, large) = ((rate * 5.0).round(), (rate * 50.0).round());
        let a = [Ceil, None, Exact][i];
        let mut c = blank(format!("window {small} per 5 s + {large} per 60 s {}", ["ceil", "none", "exact"][i]), vec![(0.0, inf, Limit::Window { n: small as u32, period: 5.0, phase: 1.7, advice: a }), (0.0, inf, Limit::Window { n: large as u32, period: 60.0, phase: 1.7, advice: a })], n, s, large / 60.0);
        (c.warm, c.seconds, c.budget) = (61.7, 241.7, 90.0);
        v.push(c);
    }
    for i in 0..5 {
        let (rate, p) = (d.log(5.0, 60.0), d.of(&[0.02, 0.04, 0.08]));
        let (n, s) = load(&mut d, rate);
        let (name, a) = [("exact", Exact), ("none", None), ("none", None), ("ceil", Ceil), ("exact", Exact)][i];
        v.push(blank(format!("leaky {rate}/s b{} {name} + random {p} none", (1.5 * rate).round()), vec![(0.0, inf, Limit::Leaky { rate, burst: (1.5 * rate).round(), advice: a }), (0.0, inf, Limit::Random { p, advice: None })], n, s, rate));
    }
    for _ in 0..2 {
        let (k, s, p) = (d.of(&[6u32, 10, 24]), d.log(0.1, 1.0), d.of(&[0.02, 0.05]));
        v.push(blank(format!("concurrency {k} + random {p} .05 s"), vec![(0.0, inf, Limit::Concurrency { n: k, advice: None }), (0.0, inf, Limit::Random { p, advice: Fixed(0.05) })], 3 * k as usize, s, k as f64 / (s + ow())));
    }
    for i in 0..54 {
        let p = [0.01, 0.03, 0.05, 0.08, 0.15, 0.25][i % 6];
        let (a, name) = match d.of(&[0usize, 0, 1, 2, 3, 4]) {
            0 => (None, "none".to_string()),
            1 => (Fixed(0.0), "0".to_string()),
            2 => { let w = d.log(0.005, 0.1); (Fixed(w), format!("{w:.3} s")) }
            3 => { let w = d.log(0.1, 1.0); (Fixed(w), format!("{w:.2} s")) }
            _ => { let w = d.of(&[1.0, 1.0, 3.0]); (Fixed(w), format!("{w} s")) }
        };
        let (n, s) = (d.of(&[1usize, 2, 5, 12, 20, 50]), d.log(0.03, 2.0));
        let mut c = blank(format!("random {p} advice {name}"), vec![(0.0, inf, Limit::Random { p, advice: a })], n, s, -1.0);
        c.seconds = 200.0;
        v.push(c);
    }
    v
}
