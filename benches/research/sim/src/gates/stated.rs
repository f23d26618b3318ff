//! A layer over any gate: what headers state of a window, used only as far as it has come true.
//! A *closing* lasts from the last call that is left to the reset stated. It came true if a call was refused in it, none admitted
//! before its end, and the window was renewed then; it failed if not. While most came true, calls are held back to the reset, one
//! *pilot* goes first, and refusals in a closing are kept from the gate below. Otherwise that gate decides as if it were alone.
use super::{Answer, Gate};
use std::collections::VecDeque;

const TRUST: f64 = 0.8; // share of closings that came true from which on calls are held back: one failure needs four
const MEMORY: f64 = 1.0 / 8.0; // the last 8 closings count
const ROUND: f64 = 1.0; // seconds: resets come in whole ones, rounded up
const EARLY: f64 = 1.0 / 8.0; // part of a closing by which it may end before the reset without being wrong
const FURTHER: f64 = 2.0; // held at most so many times as long as any that came true, then tested
const CHECK: f64 = 250.0; // calls until a trusted closing is tested again: one refusal in so many
const RENEWED: f64 = 0.5; // part of the limit by which what is left has to rise: less is answers in another order
const OTHERS: f64 = 0.5; // kept at each window of the tally of what others take: known from the last two
const SOON: f64 = 1.0 / 64.0; // first wait after a refusal at the reset, as part of the closing; doubles
const FADE: f64 = 0.95; // how slowly the longest time that a refusal took is forgotten
const ADMITTED: f64 = 3.0; // not refused after so many times what refusals take: admitted
const INF: f64 = f64::INFINITY;

/// A call: when it was sent and how many were in flight then (tells those of one moment apart).
type Key = (f64, u32);
/// The window as stated: counted at `at`, `left` there, the `least` ever stated in it, its earliest `end`, known `from` when.
#[derive(Clone, Copy)]
struct Window { at: Key, left: f64, least: f64, from: f64, end: f64 }
struct Closing { began: f64, end: f64, hold: bool, refused: bool, over: bool, pilot: Option<Key>, next: f64, wait: f64 }
/// By how much a closing may end before the reset: an eighth, at least the rounding, at most half of it.
fn slack(c: &Closing) -> f64 { let len = c.end - c.began; (EARLY * len).max(ROUND).min(0.5 * len) }
pub struct StatedGate<G: Gate> {
    inner: G, closed: f64, latency: f64, flight: u32, sent: VecDeque<(Key, f64)>, w: Window, refill: f64,
    closing: Option<Closing>, verdict: Option<bool>, came: f64, failed: f64, longest: f64, unchecked: f64, used: f64, own: f64,
}
impl<G: Gate> StatedGate<G> {
    pub fn new(inner: G) -> Self {
        StatedGate { inner, closed: 0.0, latency: INF, flight: 0, sent: VecDeque::new(), w: Window { at: (-1.0, 0), left: INF, least: INF, from: -1.0, end: INF }, refill: INF,
            closing: None, verdict: None, came: 0.0, failed: 0.0, longest: 0.0, unchecked: 0.0, used: 1.0, own: 1.0 }
    }
    fn trusted(&self) -> bool { self.came > 0.0 && self.came >= TRUST * (self.came + self.failed) }
    fn score(&mut self, came: f64) { self.came = (1.0 - MEMORY) * self.came + came; self.failed = (1.0 - MEMORY) * self.failed + 1.0 - came; }
    /// What the window loses for each call of ours: more than 1 where others call as well.
    fn each(&self) -> f64 { (self.used / self.own).max(1.0) }
    /// Our part of what is left, less what was sent since that was counted.
    fn left(&self) -> f64 { self.w.left / self.each() - self.sent.iter().rev().take_while(|s| s.0 > self.w.at).map(|s| s.1).sum::<f64>() }
    fn state(&mut self, a: &Answer) {
        let Some((s, reset)) = a.stated.and_then(|s| Some((s, s.reset?))) else { return };
        let (key, end) = ((a.sent_at, a.in_flight), a.sent_at + reset);
        if key < self.w.at { if a.sent_at >= self.w.from { (self.w.end, self.w.least) = (self.w.end.min(end), self.w.least.min(s.remaining)); } return; }
        let since = self.sent.iter().filter(|l| l.0 > self.w.at && l.0 <= key).map(|l| l.1).sum::<f64>();
        if let Some(refused) = self.verdict.take() {
            self.refill = (s.remaining + since).min(s.limit);
            if self.refill < RENEWED * s.limit { self.score(0.0); } else if refused { self.score(1.0); }
        }
        let counted = self.w.left - since; // in one window the earliest end is the truest, and what is left does not grow
        if self.refill == INF { self.refill = s.limit; }
        if a.sent_at >= self.w.end || end > self.w.end + ROUND || s.remaining >= counted + RENEWED * self.refill {
            self.w = Window { at: key, left: s.remaining, least: s.remaining, from: a.sent_at, end };
        } else {
            let left = s.remaining.min(counted);
            if counted < INF { self.used += self.w.left - left; self.own += since; }
            self.w = Window { at: key, left, least: self.w.least.min(s.remaining), from: self.w.from, end: self.w.end.min(end) };
        }
        if let Some(c) = &mut self.closing { c.end = c.end.min(self.w.end); }
        while self.sent.front().is_some_and(|l| l.0 <= key) { self.sent.pop_front(); }
    }
    fn begin(&mut self, now: f64) {
        if now >= self.w.end || self.w.end == INF { return; }
        let mut c = Closing { began: now, end: self.w.end, hold: self.trusted(), refused: false, over: false, pilot: None, next: self.w.end + self.latency, wait: SOON * (self.w.end - now) };
        if c.hold && self.unchecked >= CHECK { self.unchecked = 0.0; c.next = c.end - 2.0 * slack(&c); }
        c.next = c.next.min(now + FURTHER * self.longest);
        self.closing = Some(c);
    }
    /// The first call admitted in a closing, or after it; those sent before a refusal could tell may have been the last ones left.
    fn admit(&mut self, call: Key) {
        let Some(c) = &mut self.closing else { return };
        if c.over || c.pilot != Some(call) && (call.0 <= c.began || call.0 < c.began + ADMITTED * self.latency) { return; }
        if call.0 < c.end && self.w.least >= 1.0 && self.w.least < INF { (c.pilot, c.next) = (None, c.end + self.latency); return; } // something was stated left: no evidence
        (c.over, self.used, self.own) = (true, OTHERS * self.used, OTHERS * self.own);
        let (early, end) = (call.0 < c.end - slack(c), c.end);
        if early { self.score(0.0); } else { self.verdict = Some(c.refused); self.longest = self.longest.max(end - c.began); }
        // Renewed: as full as it was the last time, its end not known before the next statement.
        if call.0 >= end && self.w.at < call { self.closing = None; self.w = Window { at: (call.0, call.1 - 1), left: self.refill, least: INF, from: call.0, end: INF }; }
    }
}
impl<G: Gate> Gate for StatedGate<G> {
    fn earliest(&mut self, now: f64, in_flight: u32) -> f64 {
        self.flight = in_flight;
        let inner = self.inner.earliest(now, in_flight).max(self.closed);
        if let Some(p) = self.closing.as_ref().and_then(|c| c.pilot) && now >= p.0 + ADMITTED * self.latency { self.admit(p); }
        // Nothing in flight, and something was left by all that was stated: one call tests it, in whatever order they were counted.
        if in_flight == 0 && self.left() < 1.0 && self.w.least >= self.each() && self.w.least < INF { self.w.left = self.each(); self.sent.clear(); }
        let out = self.left() < 1.0;
        if self.closing.as_ref().is_some_and(|c| !out || c.over && now >= c.end) { self.closing = None; }
        if self.closing.is_none() && out && self.w.end == INF && in_flight > 0 && self.trusted() { return INF; }
        if self.closing.is_none() && out { self.begin(now); }
        match &self.closing {
            Some(c) if c.hold && !c.over => c.pilot.map_or(c.next.max(self.closed).max(now), |p| p.0 + ADMITTED * self.latency),
            _ => inner,
        }
    }
    fn sent(&mut self, now: f64, cost: f64, call: u64, kind: u64) {
        if self.w.at.0 >= 0.0 { self.sent.push_back(((now, self.flight + 1), cost)); }
        if let Some(c) = &mut self.closing && c.hold { c.pilot = Some((now, self.flight + 1)); }
        self.inner.sent(now, cost, call, kind);
    }
    fn answered(&mut self, now: f64, a: &Answer) -> f64 {
        let key = (a.sent_at, a.in_flight);
        if a.refused {
            self.latency = if self.latency < INF { FADE * self.latency } else { 0.0 }.max(now - a.sent_at);
            self.closed = self.closed.max(now + a.advice.unwrap_or(0.0));
            self.sent.retain(|l| l.0 != key);
        } else {
            self.unchecked += a.cost;
            self.admit(key);
            // Counted out, sent alone, admitted, nothing stated: the count is no good.
            if a.stated.is_none() && a.in_flight == 1 && self.w.end == INF && self.left() < 1.0 { self.w.left = INF; }
        }
        self.state(a);
        let mut explained = false;
        if a.refused && self.left() < 1.0 {
            if self.closing.as_ref().is_none_or(|c| c.over && self.trusted()) { self.begin(now); }
            if let Some(c) = &mut self.closing {
                (c.refused, explained) = (true, c.hold && !c.over);
                if c.pilot == Some(key) { c.pilot = None; c.wait *= 2.0; c.next = if now < c.end { (c.end + self.latency).min(c.began + FURTHER * self.longest.max(now - c.began)) } else { now + c.wait.min(c.end - c.began) }; }
            }
            if explained { self.w.left -= self.left().max(0.0); self.w.least = 0.0; }
        }
        let wait = self.inner.answered(now, &Answer { refused: a.refused && !explained, ..*a });
        if explained { a.advice.unwrap_or(0.0) } else { wait }
    }
}
