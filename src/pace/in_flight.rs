//! Calls in flight, and a cap on them where that is what the server counts.
//!
//! The sign is that the number in flight at sending splits the refused calls from the admitted ones, whatever their rate; or
//! that the server says so. Latency is no evidence: that of a language model follows the length of its output.

use super::number::whole;
use super::undo::Tally;

/// The calls that are looked at, and the least that are needed.
const RECENT: usize = 64;
const ENOUGH: usize = 32;
/// What a split has to tell of the refusals, in nats: what luck hardly reaches, with the split sought as well.
const PRICE: f64 = 8.0;
/// What is left of the number in flight where a refusal says "too many at once" (AIMD).
const DECREASE: f64 = 0.9;
/// Calls of class batch leave one part in so many of the cap to the others.
const BATCH_LEAVES: u32 = 10;
/// One more is tried after so many calls at the cap.
const RAISE: f64 = 28.0;
/// At the cap one call more is tried never before so many times the advised closing.
const BACK: f64 = 20.0;

/// See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct InFlight {
    count: u32,
    configured: Option<u32>,
    /// The last calls: how many were in flight when each was sent, doubled, plus one where it was refused.
    recent: [u16; RECENT],
    seen: usize,
    cap: u32,
    held: u32,
    /// When the cap was last in use, calls that have ended since, and when one more may be tried.
    full: f64,
    at_cap: f64,
    raise: f64,
    /// When a refusal last said "too many"; those of calls sent before tell of the old cap.
    lowered: f64,
    /// Whether the server itself has named the number in flight.
    is_named: bool,
}

impl Default for InFlight {
    fn default() -> Self {
        Self {
            count: 0,
            configured: None,
            recent: [0; RECENT],
            seen: 0,
            cap: u32::MAX,
            held: u32::MAX,
            full: f64::NEG_INFINITY,
            at_cap: 0.0,
            raise: 0.0,
            lowered: f64::NEG_INFINITY,
            is_named: false,
        }
    }
}

impl InFlight {
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    pub(super) const fn configure(&mut self, most: Option<u32>) {
        self.configured = most;
    }

    /// The cap as learned.
    pub(crate) fn learned(&self) -> Option<u32> {
        (self.cap < u32::MAX).then_some(self.cap)
    }

    /// The cap in force.
    pub(crate) fn cap(&self) -> Option<u32> {
        match (self.configured, self.learned()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Whether one more call may go; calls of class batch leave a tenth of the cap to the others.
    pub(super) fn is_free(&self, batch: bool) -> bool {
        self.cap().is_none_or(|cap| {
            let kept = if batch && cap > 1 { cap.div_ceil(BATCH_LEAVES) } else { 0 };
            self.count < cap.saturating_sub(kept)
        })
    }

    pub(super) const fn take(&mut self, now: f64) {
        self.count = self.count.saturating_add(1);
        if self.count >= self.cap {
            self.full = now;
        }
    }

    pub(super) const fn release(&mut self) {
        self.count = self.count.saturating_sub(1);
    }

    /// The server says that a call sent at `sent` was one too many.
    pub(super) fn too_many(&mut self, now: f64, sent: f64, in_flight: u32) {
        if sent < self.lowered {
            return;
        }
        self.cap = u32::try_from(whole(DECREASE * f64::from(in_flight.min(self.cap)))).unwrap_or(1).max(1);
        self.is_named = true;
        (self.held, self.lowered, self.at_cap, self.raise) = (self.cap, now, 0.0, now);
    }

    fn note(&mut self, in_flight: u32, refused: bool) {
        let place = self.seen % RECENT;
        self.seen = self.seen.wrapping_add(1).max(1);
        if let Some(place) = self.recent.get_mut(place) {
            let number = u16::try_from(in_flight.min(0x7FFF)).unwrap_or(0x7FFF);
            *place = number << 1 | u16::from(refused);
        }
    }

    pub(super) fn admitted(&mut self, in_flight: u32, counts: bool) {
        if counts {
            self.note(in_flight, false);
        }
    }

    /// A call sent at `sent` has ended cleanly. If all of the cap was in use meanwhile, that speaks for one more.
    pub(super) fn ended_cleanly(&mut self, now: f64, sent: f64) {
        if sent > self.full {
            return;
        }
        self.at_cap += 1.0;
        if self.at_cap >= RAISE && now >= self.raise {
            self.held = self.cap;
            self.cap = self.cap.saturating_add(1);
            self.at_cap = 0.0;
        }
    }

    /// A refusal; whether it is explained by the number in flight.
    pub(super) fn refused(
        &mut self,
        now: f64,
        in_flight: u32,
        closed: f64,
        (counts, is_first): (bool, bool),
    ) -> bool {
        // The end of a window refuses many in one go, all with many in flight, which is no evidence.
        if counts && is_first {
            self.note(in_flight, true);
        }
        if self.is_named || !counts && self.cap == u32::MAX {
            return false;
        }
        self.cap = if in_flight > self.held { self.held } else { self.split().unwrap_or(u32::MAX) };
        self.held = self.cap;
        if in_flight <= self.cap {
            return false;
        }
        self.at_cap = 0.0;
        self.raise = now + BACK * closed.max(0.0);
        true
    }

    /// The number beyond which most were refused, and hardly any up to it, and not by luck.
    fn split(&self) -> Option<u32> {
        if self.seen < ENOUGH {
            return None;
        }
        let mut sorted = self.recent;
        sorted.sort_unstable();
        // What has not been seen yet is nought, and sorted first.
        let calls = sorted.iter().skip(RECENT.saturating_sub(self.seen));
        let mut under = Tally::default();
        for call in calls.clone() {
            under.add(call & 1 == 1, 1.0);
        }
        let mut over = Tally::default();
        let mut calls = calls.rev().peekable();
        while let Some(call) = calls.next() {
            over.add(call & 1 == 1, 1.0);
            under.add(call & 1 == 1, -1.0);
            if calls.peek().is_some_and(|next| *next >> 1 == call >> 1) {
                continue;
            }
            let splits = over.refused >= 2.0 * over.admitted && 5.0 * under.refused <= under.admitted;
            if splits && tells(under, over) >= PRICE {
                return u32::from(call >> 1).checked_sub(1).filter(|cap| *cap > 0);
            }
        }
        None
    }
}

/// What a split tells of the refusals, in nats (half the statistic of the G-test), where they are more frequent beyond it.
fn tells(under: Tally, over: Tally) -> f64 {
    let (below, beyond) = (under.admitted + under.refused, over.admitted + over.refused);
    if below <= 0.0 || beyond <= 0.0 || over.refused * below <= under.refused * beyond {
        return 0.0;
    }
    let all = below + beyond;
    let term = |part: f64, side: f64, kind: f64| {
        if part > 0.0 { part * (part * all / (side * kind)).ln() } else { 0.0 }
    };
    let (admitted, refused) = (under.admitted + over.admitted, under.refused + over.refused);
    term(under.admitted, below, admitted)
        + term(over.admitted, beyond, admitted)
        + term(under.refused, below, refused)
        + term(over.refused, beyond, refused)
}
