//! Calls that are refused whenever they come, while others are not: a model that the account may not use, say.
//!
//! A call, or a kind of calls (one route and model), is *suspect* when it was refused again and again although most others sent
//! in between went through, and chance hardly explains it. Neither its advice nor its refusal says anything of the scope: it
//! waits by itself, and goes behind the others. An admission clears it.

use std::collections::VecDeque;

/// Suspect is what chance explains with less than e to the minus so many: a call, and a kind, whose calls have not been refused
/// again themselves.
const DOUBT: f64 = 6.0;
const DOUBT_OF_KIND: f64 = 12.0;
/// Refused calls and kinds that are watched.
const WATCHED: usize = 16;
/// The share of calls that are refused at first rests on so many calls at most, and begins with these.
const MEMORY: f64 = 128.0;
const FIRST_SHARE: (f64, f64) = (8.0, 1.0);

/// Who was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Call(u64),
    Kind(u64),
}

/// Refused before: the last send, what became of others sent after it, and how many refusals in a row others did not share.
#[derive(Debug, Clone, Copy)]
struct Again {
    who: Who,
    order: u64,
    through: u16,
    refused: u16,
    alone: u16,
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub(super) struct Suspects {
    again: VecDeque<Again>,
    /// Calls that went through, and calls that were refused for the first time.
    share: (f64, f64),
}

impl Default for Suspects {
    fn default() -> Self {
        Self { again: VecDeque::new(), share: FIRST_SHARE }
    }
}

impl Suspects {
    /// A call was refused; whether that makes it or its kind a suspect.
    pub(super) fn refused(&mut self, (call, kind): (u64, u64), order: u64) -> bool {
        if !self.again.iter().any(|again| again.who == Who::Call(call)) {
            self.count(0.0, 1.0);
        }
        for again in &mut self.again {
            if let Who::Kind(other) = again.who
                && other != kind
                && again.order < order
            {
                again.refused = again.refused.saturating_add(1);
            }
        }
        let (through, refused) = self.share;
        let doubt = -(refused / (through + refused)).ln();
        let mut is_suspect = false;
        for (who, needed) in [(Who::Call(call), DOUBT), (Who::Kind(kind), DOUBT_OF_KIND)] {
            let alone = self
                .take(who)
                .map_or(0, |before| before.alone.saturating_add(u16::from(before.through > before.refused)));
            is_suspect |= alone > 0 && f64::from(alone.saturating_add(1)) * doubt >= needed;
            if self.again.len() == WATCHED {
                self.again.pop_front();
            }
            self.again.push_back(Again { who, order, through: 0, refused: 0, alone });
        }
        is_suspect
    }

    /// A call went through: nothing is held against it or its kind any more, and it speaks against other kinds.
    pub(super) fn admitted(&mut self, (call, kind): (u64, u64), order: u64) {
        let (call, kind) = (Who::Call(call), Who::Kind(kind));
        self.again.retain(|again| again.who != call && again.who != kind);
        for again in self.again.iter_mut().filter(|again| again.order < order) {
            if matches!(again.who, Who::Kind(_)) {
                again.through = again.through.saturating_add(1);
            }
        }
    }

    /// The verdict of `calls` calls, the first of which was number `order`. Whose they are need not be known: a call does not
    /// come again before it has its verdict.
    pub(super) fn heard(&mut self, order: u64, calls: u32, refused: bool) {
        let calls = u16::try_from(calls).unwrap_or(u16::MAX);
        for again in self.again.iter_mut().filter(|again| again.order < order) {
            if matches!(again.who, Who::Call(_)) {
                let count = if refused { &mut again.refused } else { &mut again.through };
                *count = count.saturating_add(calls);
            }
        }
        if !refused {
            self.count(f64::from(calls), 0.0);
        }
    }

    fn count(&mut self, through: f64, refused: f64) {
        self.share = (self.share.0 + through.min(MEMORY), self.share.1 + refused);
        if self.share.0 + self.share.1 > MEMORY {
            self.share = (0.5 * self.share.0, 0.5 * self.share.1);
        }
    }

    fn take(&mut self, who: Who) -> Option<Again> {
        let place = self.again.iter().position(|again| again.who == who)?;
        self.again.remove(place)
    }

    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.again.capacity() * size_of::<Again>()
    }
}
