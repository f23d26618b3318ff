//! CUBIC on a rate: .9 after a refusal, back in the time of 100 calls, flat there, then beyond. No guard.
use super::{Answer, Gate};
pub struct Cubic { closed: f64, next: f64, paced: bool, top: f64, beta: f64, since: f64, k: f64, slow_start: bool, cut_at: f64, admitted: f64, from: f64 }
impl Cubic {
    pub fn new(_: u64) -> Self { Cubic { closed: 0.0, next: 0.0, paced: false, top: 0.0, beta: 0.75, since: 0.0, k: 3.0, slow_start: true, cut_at: -1.0, admitted: 0.0, from: -1.0 } }
    fn rate(&self, now: f64) -> f64 {
        let t = (now - self.since).max(0.0);
        if self.slow_start { return self.top * self.beta * t.min(40.0).exp2(); }
        self.top * (1.0 + (1.0 - self.beta) * (t / self.k - 1.0).powi(3)).max(0.05)
    }
}
impl Gate for Cubic {
    fn earliest(&mut self, now: f64, _: u32) -> f64 { if self.paced { self.closed.max(self.next) } else { self.closed.max(now) } }
    fn sent(&mut self, now: f64, _cost: f64, _: u64, _: u64) {
        if self.from < 0.0 { self.from = now; }
        if !self.paced { return; }
        let r = self.rate(now);
        let late = now - self.next;
        if late > (2.0 / r).max(0.1) { self.since += late.min(now - self.since).max(0.0); }
        self.next = self.next.max(now - 1.0 / r) + 1.0 / r;
    }
    fn answered(&mut self, now: f64, a: &Answer) -> f64 {
        if !a.refused { self.admitted += 1.0; return 0.0; }
        if let Some(w) = a.advice { self.closed = self.closed.max(now + w); }
        if a.sent_at >= self.cut_at {
            let seen = self.admitted / (now - self.from).max(0.001);
            if !self.paced { self.paced = true; self.top = seen.clamp(0.2, 1e6); self.beta = 0.75; self.slow_start = true; }
            else {
                let reached = self.rate(now);
                if self.slow_start && self.admitted > 8.0 { self.slow_start = false; }
                self.beta = if self.slow_start { 0.75 } else { 0.9 };
                self.top = seen.clamp(self.beta * reached, reached).max(0.05);
            }
            self.k = (100.0 / self.top).clamp(3.0, 20.0);
            self.since = now; self.cut_at = now; self.admitted = 0.0; self.from = now;
            self.next = now + 1.0 / self.rate(now);
        }
        a.advice.unwrap_or(0.0)
    }
}
