//! Whether advice is for all: calls sent after a refused one within its advised time, before that refusal was heard of, are the witnesses.
//! After a long closing a second call goes along with the first, so that there is one.
//! A call refused again although most of those sent after its last refused send went through is *suspect*: it says nothing of the scope.
use super::{Answer, Gate, backoff};
use crate::Rng;
use std::collections::VecDeque;

const FOR_ALL: f64 = 1.0; // witnesses that a server starts with
const MEMORY: f64 = 32.0; // witnesses remembered
const ADMITTED: f64 = 3.0; // not refused after so many times what refusals take: admitted
const FADE: f64 = 0.95;
const LONG: f64 = 1.0; // seconds: a closing worth a second call, which may be refused as well

/// When it was sent, and how many were in flight then: tells apart those sent at one moment.
type Key = (f64, u32);
struct Refusal { sent: Key, heard: f64, advice: f64 }
/// A call refused before: its last send, and what became of those sent after it.
struct Again { call: u64, sent: Key, through: u32, refused: u32 }
pub struct Court { again: VecDeque<Again>, recent: VecDeque<Refusal>, through: f64, refused: f64, pending: VecDeque<Key>, latency: f64 }
impl Court {
    pub fn new() -> Self { Court { again: VecDeque::new(), recent: VecDeque::new(), through: 0.0, refused: FOR_ALL, pending: VecDeque::new(), latency: 0.005 } }
    fn testify(&mut self, now: f64, sent: Key, refused: bool) {
        for x in self.again.iter_mut().filter(|x| x.sent < sent) { if refused { x.refused += 1 } else { x.through += 1 } }
        while self.recent.front().is_some_and(|r| r.heard < now - 1.0 - 4.0 * self.latency || self.recent.len() > 64) { self.recent.pop_front(); }
        if self.recent.iter().any(|r| r.sent < sent && sent.0 < r.heard.min(r.sent.0 + r.advice)) {
            if refused { self.refused += 1.0 } else { self.through += 1.0 }
            if self.refused + self.through > MEMORY { self.refused *= 0.5; self.through *= 0.5; }
        }
    }
    pub fn for_all(&mut self, now: f64) -> bool {
        while self.pending.front().is_some_and(|s| s.0 + ADMITTED * self.latency < now) { let s = self.pending.pop_front().unwrap(); self.testify(now, s, false); }
        self.through <= self.refused
    }
    /// No witness of late: a second call is worth its risk.
    pub fn uncertain(&mut self) -> bool { self.refused = (FADE * self.refused).max(FOR_ALL); self.refused < FOR_ALL + 0.5 }
    pub fn sent(&mut self, key: Key) { self.pending.push_back(key); }
    /// Whether the refusal is of a suspect.
    pub fn answered(&mut self, now: f64, a: &Answer) -> bool {
        let key = (a.sent_at, a.in_flight);
        self.for_all(now);
        let before = self.again.iter().position(|x| x.call == a.call).and_then(|i| self.again.remove(i));
        let suspect = a.refused && before.is_some_and(|x| x.through > x.refused + 1);
        if a.refused { self.again.push_back(Again { call: a.call, sent: key, through: 0, refused: 0 }); if self.again.len() > 64 { self.again.pop_front(); } }
        // The refusal first: those sent after it may be answered with it.
        if a.refused {
            self.latency = (FADE * self.latency).max(now - a.sent_at);
            if let Some(w) = a.advice && w > 0.0 && !suspect { self.recent.push_back(Refusal { sent: key, heard: now, advice: w }); }
        }
        if let Some(i) = self.pending.iter().position(|s| *s == key) { self.pending.remove(i); if !suspect { self.testify(now, key, a.refused); } }
        suspect
    }
}
/// Over any gate: where the advice is not for all, the gate hears of none; the refused call still waits.
pub struct Witnessed { rng: Rng, court: Court, inner: Box<dyn Gate>, flight: u32, closed: f64, was_closed: bool, second: Option<f64> }
impl Witnessed { pub fn new(inner: Box<dyn Gate>, seed: u64) -> Self { Witnessed { rng: Rng::new(seed, 6), court: Court::new(), inner, flight: 0, closed: 0.0, was_closed: false, second: None } } }
impl Gate for Witnessed {
    fn earliest(&mut self, now: f64, f: u32) -> f64 {
        self.court.for_all(now);
        self.flight = f;
        let t = self.inner.earliest(now, f);
        if self.second.is_some_and(|s| now <= s + ADMITTED * self.court.latency) && now >= self.closed { return now; }
        t
    }
    fn sent(&mut self, now: f64, c: f64, call: u64, kind: u64) {
        if self.second.is_some() { self.second = None; } else if self.was_closed && now >= self.closed { self.was_closed = false; self.second = Some(now); }
        self.court.sent((now, self.flight + 1));
        self.inner.sent(now, c, call, kind);
    }
    fn answered(&mut self, now: f64, a: &Answer) -> f64 {
        let suspect = self.court.answered(now, a);
        if !a.refused { return self.inner.answered(now, a); }
        if suspect {
            // The gate below sees a call that went through; this one waits by itself.
            self.inner.answered(now, &Answer { call: a.call, kind: a.kind, refused: false, advice: None, stated: a.stated, sent_at: a.sent_at, cost: a.cost, in_flight: a.in_flight, attempts: a.attempts });
            return a.advice.unwrap_or(0.0).max(backoff(&mut self.rng, a.attempts));
        }
        let advice = a.advice.filter(|w| *w > 0.0);
        let own = advice.unwrap_or(0.0);
        if advice.is_some() && self.court.for_all(now) {
            self.closed = self.closed.max(now + own); self.was_closed = own >= LONG && self.court.uncertain();
            return self.inner.answered(now, a).max(own);
        }
        self.inner.answered(now, &Answer { call: a.call, kind: a.kind, refused: true, advice: None, stated: a.stated, sent_at: a.sent_at, cost: a.cost, in_flight: a.in_flight, attempts: a.attempts }).max(own)
    }
}
