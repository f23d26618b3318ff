//! The right to send one call, from its grant to the end of its response's body.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cell::{Cell, Wakers};
use super::queue::{Number, Priority};
use crate::clock;
use crate::observe;
use crate::pace::{Limits, RefusedCall, Sent, TokenUsage, whole};
use crate::reading::ServiceLimit;
use crate::units::QuotaUnits;

/// The right to send one call.
///
/// A guard: it holds a slot of the scope until it is dropped, so it is to be kept until the end of the response's
/// *body*. Dropping it is always right, whatever has happened: before [`sent`](Self::sent) the cost is given back as
/// well, afterwards the estimate stands, since the server may have counted the call.
///
/// A call passes these stations; only the first is needed:
/// [`sent`](Self::sent) → [`observe`](Self::observe) → [`settle`](Self::settle) → [`finish`](Self::finish), or
/// [`sent`](Self::sent) → [`refused`](Self::refused).
#[must_use = "dropping a permit gives it back"]
pub struct Permit {
    cell: Arc<Cell>,
    call: Sent,
    number: Number,
    since: Instant,
    class: Priority,
    kind: u64,
    is_sent: bool,
    /// Whether the slot has been given back by other means than dropping.
    is_closed: bool,
}

impl Permit {
    pub(crate) const fn new(
        cell: Arc<Cell>,
        call: Sent,
        number: Number,
        since: Instant,
        class: Priority,
        kind: u64,
    ) -> Self {
        Self { cell, call, number, since, class, kind, is_sent: false, is_closed: false }
    }

    pub(super) const fn cell(&self) -> &Arc<Cell> {
        &self.cell
    }

    /// Which call of its caller's it is, and of what kind.
    const fn who(&self) -> (u64, u64) {
        (self.number.call(), self.kind)
    }

    pub(super) const fn call(&self) -> Sent {
        self.call
    }

    /// What the call costs the fleet: the limits in force, its tokens, and the tokens that calls before it took beyond
    /// their estimates and have not been told of, which are thereby told.
    pub(super) fn share(&self) -> (Limits, i64, i64) {
        let mut state = self.cell.lock();
        let tokens = i64::try_from(whole(self.call.tokens())).unwrap_or(i64::MAX);
        (state.pace.limits(), tokens, state.owed.as_mut().map_or(0, std::mem::take))
    }

    /// The fleet has not been told after all.
    pub(super) fn owe(&self, tokens: i64) {
        if let Some(owed) = &mut self.cell.lock().owed {
            *owed = owed.saturating_add(tokens);
        }
    }

    /// The call is about to be sent, at `now`. From here on its cost counts.
    #[inline]
    pub fn sent(&mut self, now: Instant) {
        if !self.is_sent {
            self.is_sent = true;
            self.call.left(now);
        }
    }

    /// The server took the call and stated `limits`, perhaps none.
    pub fn observe(&mut self, limits: &[ServiceLimit], now: Instant) {
        self.is_sent = true;
        let who = self.who();
        let news = self.cell.change(now, |state| {
            state.pace.observe(&self.call, who, limits, now);
            state.pace.news()
        });
        if let Some(given_up) = news {
            observe::pace(given_up);
        }
    }

    /// Replaces the estimate by what the call has really taken; may be called again with better numbers.
    pub fn settle(&mut self, usage: TokenUsage, now: Instant) {
        self.is_sent = true;
        self.cell.change(now, |state| state.settle(&mut self.call, usage, now));
    }

    /// The same, but wakes nobody: for callers that hold a lock of their own.
    pub(super) fn settle_and(&mut self, usage: TokenUsage, now: Instant, wakers: &mut Wakers) {
        self.is_sent = true;
        let mut state = self.cell.lock();
        state.settle(&mut self.call, usage, now);
        state.pump(now, wakers);
    }

    /// The end of the call and what it has really taken, in one visit; wakes nobody.
    pub(super) fn end_and(
        &mut self,
        cleanly: bool,
        usage: Option<TokenUsage>,
        now: Instant,
        wakers: &mut Wakers,
    ) {
        self.is_closed = true;
        self.is_sent |= cleanly || usage.is_some();
        let mut state = self.cell.lock();
        if let Some(usage) = usage {
            state.settle(&mut self.call, usage, now);
        }
        state.end(&self.call, self.is_sent, cleanly, now);
        state.pump(now, wakers);
    }

    /// The body of a successful response has come to its end: gives the slot back, with credit for a learned
    /// concurrency limit. An aborted body is dropped instead.
    pub fn finish(mut self) {
        self.is_sent = true;
        self.end(true);
    }

    /// The server refused the call for want of capacity, its response received at `now`.
    ///
    /// `advice` is the wait that the response asks for (before any jitter), `exhausted` what it says is used up:
    /// [`Concurrency`](crate::units::QuotaUnit::Concurrency) lowers the cap on the calls in flight,
    /// [`Quota`](crate::units::QuotaUnit::Quota) only closes the scope, the others (or none) re-open it paced. Closes the
    /// scope, by maximum, as far as its advice is for all; gives slot and cost back, and refuses waiting calls whose deadline
    /// is now out of reach.
    ///
    /// `planned` is the wait that this call plans for itself, its jitter included; it is not let go before, however soon
    /// others are.
    ///
    /// The place is the call's right to return to the front of its class, from its third refusal on behind a few others;
    /// dropping it costs nothing.
    pub fn refused(
        self,
        advice: Option<Duration>,
        exhausted: QuotaUnits,
        planned: Duration,
        now: Instant,
    ) -> Place {
        self.refused_with(advice, exhausted, planned, &[], now)
    }

    /// The same, where the refusal states limits.
    pub(crate) fn refused_with(
        mut self,
        advice: Option<Duration>,
        exhausted: QuotaUnits,
        planned: Duration,
        limits: &[ServiceLimit],
        now: Instant,
    ) -> Place {
        self.is_closed = true;
        let refusal = RefusedCall {
            who: self.who(),
            advice,
            planned,
            exhausted,
            is_alone: false,
            refusals: self.number.refusals(),
            draw: 0.5,
        };
        let (number, own) = self.cell.visit(|state, wakers| {
            let lesson = state.refused(&self.call, refusal, limits, now, wakers);
            (state.number_after_refusal(self.number, lesson.is_suspect), lesson.own)
        });
        let not_before = now.checked_add(own);
        Place { cell: Arc::clone(&self.cell), number, since: self.since, kind: self.kind, not_before }
    }

    /// Whether the scope has been closed since the call was let go.
    pub(crate) fn is_overtaken(&self, now: Instant) -> bool {
        self.cell.lock().pace.is_closed(now)
    }

    /// Gives back a permit that was not used; the call keeps its place.
    pub(crate) fn step_back(self) -> Place {
        Place {
            cell: Arc::clone(&self.cell),
            number: self.number,
            since: self.since,
            kind: self.kind,
            not_before: None,
        }
    }

    /// The class in which the call was granted.
    #[must_use]
    pub const fn priority(&self) -> Priority {
        self.class
    }

    #[inline]
    fn end(&mut self, cleanly: bool) {
        if self.is_closed {
            return;
        }
        self.is_closed = true;
        let now = clock::now();
        self.cell.change(now, |state| state.end(&self.call, self.is_sent, cleanly, now));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.end(false);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("class", &self.class)
            .field("is_sent", &self.is_sent)
            .finish_non_exhaustive()
    }
}

/// The place in the queue of a call that the server refused: see [`Permit::refused`].
#[must_use = "without its place the call goes to the end of the queue"]
pub struct Place {
    pub(crate) cell: Arc<Cell>,
    pub(crate) number: Number,
    pub(crate) since: Instant,
    pub(crate) kind: u64,
    /// When the call itself may be sent again, whatever the scope's state.
    pub(crate) not_before: Option<Instant>,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("number", &self.number).finish_non_exhaustive()
    }
}
