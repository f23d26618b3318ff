//! A time window as headers state it: a hypothesis, used as far as it comes true.
//!
//! A *closing* lasts from the last call that is left to the stated reset. It came true if a call was refused in it, none was
//! admitted before its end, and the window was renewed then; it failed if one was admitted clearly before. Calls are held
//! back to the reset at first for ten seconds at most, then as long as most closings came true. One call, the *pilot*, goes
//! first at the end of a closing. A window that failed holds nobody back, and is watched on.
//!
//! In one window the earliest end is the truest (resets are rounded up), and what is left never grows.

use super::trust::Trust;

/// After so many calls a trusted closing is tested again: one refusal in so many.
const CHECK: f64 = 250.0;
/// Resets come in whole seconds, rounded up.
pub(super) const ROUND: f64 = 1.0;
/// Beyond, in seconds, a first closing may be odd.
const LONG: f64 = 60.0;
/// A closing may end by this part of it before the reset without being wrong.
const EARLY: f64 = 1.0 / 8.0;
/// What is left has to rise by this part of the limit for a renewal: less is answers in another order.
const RENEWED: f64 = 0.5;
/// What others take is known from the last two windows: this much of the tally is kept at each.
const OTHERS: f64 = 0.5;
/// The first wait after a refusal at the reset, as part of the closing; it doubles.
const SOON: f64 = 1.0 / 64.0;
/// Not before an answer.
pub(super) const NEVER: f64 = f64::INFINITY;

/// A call as the window sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) order: u64,
    pub(super) at: f64,
    /// Its cost, and that of all calls sent so far with it.
    pub(super) cost: f64,
    pub(super) sum: f64,
}

/// What a response states.
#[derive(Debug, Clone, Copy)]
pub(super) struct Statement {
    pub(super) limit: f64,
    pub(super) remaining: f64,
    /// Seconds, counted from when the call was sent.
    pub(super) reset: f64,
    /// Whether no reset was stated: then a closing is believed once, for so long.
    pub(super) is_assumed: bool,
    /// Whether the call was admitted.
    pub(super) was_admitted: bool,
}

/// The window as known: as call `order` was counted in it, when `sum` had been sent.
#[derive(Debug, Clone, Copy)]
struct Window {
    order: u64,
    sum: f64,
    left: f64,
    /// The least that was ever stated to be left.
    least: f64,
    from: f64,
    end: f64,
    is_assumed: bool,
    /// Whether something was left when it was first heard of.
    is_watched: bool,
}

#[derive(Debug, Clone, Copy)]
struct Closing {
    began: f64,
    end: f64,
    holds: bool,
    was_refused: bool,
    is_over: bool,
    pilot: Option<(u64, f64)>,
    next: f64,
    wait: f64,
}

impl Closing {
    /// By how much it may end before the reset: an eighth, at least the rounding, at most half of it.
    fn slack(&self) -> f64 {
        let length = self.end - self.began;
        (EARLY * length).max(ROUND).min(0.5 * length)
    }
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub(super) struct StatedWindow {
    window: Window,
    closing: Option<Closing>,
    /// What a window holds when it is renewed.
    refill: f64,
    /// The cost of calls refused after the counted one, and the latest of them.
    refused: (f64, u64),
    trust: Trust,
    /// When the latest call was sent that took the last of a window.
    last_taken: f64,
    /// Calls since the last test.
    unchecked: f64,
    /// Whether a call was refused in the closing that has just ended: the next statement tells if it was renewed.
    verdict: Option<bool>,
    /// What the window lost, and what we took of it.
    used: f64,
    own: f64,
    /// What has been sent in all, and the latest call.
    sum: f64,
    latest: u64,
    /// The cost of one mean call.
    one: f64,
}

impl StatedWindow {
    /// A window of which one mean call takes `one`, when `sum` has been sent with call `latest`.
    pub(super) fn new(one: f64, sum: f64, latest: u64) -> Self {
        Self {
            window: Window {
                order: 0,
                sum: 0.0,
                left: NEVER,
                least: NEVER,
                from: -1.0,
                end: NEVER,
                is_assumed: false,
                is_watched: false,
            },
            closing: None,
            refill: NEVER,
            refused: (0.0, 0),
            trust: Trust::default(),
            last_taken: f64::NEG_INFINITY,
            unchecked: 0.0,
            verdict: None,
            used: one,
            own: one,
            sum,
            latest,
            one,
        }
    }

    /// What the window loses for each call of ours: more than its cost where others call as well.
    fn each(&self) -> f64 {
        (self.used / self.own).max(1.0)
    }

    /// Our part of what is left, less what was sent since that was counted.
    pub(super) fn left(&self) -> f64 {
        self.window.left / self.each() - (self.sum - self.window.sum - self.refused.0).max(0.0)
    }

    /// When the window ends, while it lasts.
    pub(super) fn end(&self) -> Option<f64> {
        (self.window.end < NEVER).then_some(self.window.end)
    }

    /// Whether a call of `cost` has to wait for the renewal when `ahead` goes first, by what is believed.
    pub(super) fn holds_back(&self, ahead: f64, cost: f64) -> bool {
        self.trust.holds() && ahead > 0.0 && ahead + cost > self.left()
    }

    fn is_out(&self) -> bool {
        self.left() < self.one
    }

    /// Whether something was left by all that was stated in this window.
    fn has_more(&self, least: f64) -> bool {
        self.window.least >= least && self.window.least < NEVER
    }

    fn count_from(&mut self, order: u64, sum: f64) {
        (self.window.order, self.window.sum) = (order, sum);
        if self.refused.1 <= order {
            self.refused.0 = 0.0;
        }
    }

    /// Two calls cannot both have taken the last of one window.
    fn contradict(&mut self, call: &Counted, said: &Statement, end: f64) {
        if !said.was_admitted || said.remaining > 0.0 {
            return;
        }
        let is_same = call.at < self.window.end && end <= self.window.end + ROUND;
        if is_same && self.last_taken >= self.window.from {
            self.trust.score(false);
            if let Some(closing) = &mut self.closing {
                closing.holds &= self.trust.holds();
            }
        }
        self.last_taken = call.at;
    }

    /// Takes in what the response to `call` states.
    pub(super) fn state(&mut self, call: &Counted, said: &Statement) {
        let end = call.at + said.reset;
        self.contradict(call, said, end);
        if call.order < self.window.order {
            if call.at >= self.window.from {
                self.window.end = self.window.end.min(end);
                self.window.least = self.window.least.min(said.remaining);
            }
            return;
        }
        let since = (call.sum - self.window.sum - self.refused.0).max(0.0);
        if let Some(was_refused) = self.verdict.take() {
            self.refill = (said.remaining + since).min(said.limit);
            if self.refill < RENEWED * said.limit {
                self.trust.score(false);
            } else if was_refused {
                self.trust.score(true);
            }
        }
        if self.refill == NEVER {
            self.refill = said.limit;
        }
        let counted = self.window.left - since;
        let is_new = self.window.end == NEVER && counted == NEVER
            || call.at >= self.window.end
            || end > self.window.end + ROUND
            || said.remaining >= counted + RENEWED * self.refill;
        if is_new {
            let (left, least) = (said.remaining, said.remaining);
            let (is_assumed, is_watched) = (said.is_assumed, left >= self.one);
            self.window = Window { left, least, from: call.at, end, is_assumed, is_watched, ..self.window };
        } else {
            let left = said.remaining.min(counted);
            if counted < NEVER {
                self.used += self.window.left - left;
                self.own += since;
            }
            self.window.left = left;
            self.window.least = self.window.least.min(said.remaining);
            self.window.end = self.window.end.min(end);
        }
        self.count_from(call.order, call.sum);
        if let Some(closing) = &mut self.closing {
            closing.end = closing.end.min(self.window.end);
        }
    }

    fn begin(&mut self, now: f64, refusal_takes: f64) {
        let end = self.window.end;
        if now >= end || end == NEVER {
            return;
        }
        let mut closing = Closing {
            began: now,
            end,
            holds: self.trust.holds(),
            was_refused: false,
            is_over: false,
            pilot: None,
            next: end + refusal_takes,
            wait: SOON * (end - now),
        };
        if closing.holds && self.unchecked >= CHECK {
            self.unchecked = 0.0;
            closing.next = end - 2.0 * closing.slack();
        }
        // A window that we have used up ourselves long before its end is odd; by our own count alone it closes nothing.
        let is_odd = self.window.is_watched && end - now > LONG;
        closing.holds &= !is_odd || self.trust.is_proven() || !self.has_more(self.one);
        closing.next = closing.next.min(now + self.trust.longest(is_odd));
        self.closing = Some(closing);
    }

    /// The first call admitted in a closing, or after it; those sent before a refusal could tell may have been the last ones left.
    fn end_closing(&mut self, order: u64, at: f64, patience: f64) {
        let has_more = self.has_more(self.one);
        let Some(closing) = &mut self.closing else { return };
        let is_pilot = closing.pilot.is_some_and(|pilot| pilot.0 == order);
        if closing.is_over || !is_pilot && (at <= closing.began || at < closing.began + patience) {
            return;
        }
        let end = closing.end;
        if at < end && has_more {
            (closing.pilot, closing.next) = (None, end);
            return;
        }
        closing.is_over = true;
        let (is_early, length, was_refused) =
            (at < end - closing.slack(), end - closing.began, closing.was_refused);
        self.used *= OTHERS;
        self.own *= OTHERS;
        if is_early || self.window.is_assumed {
            self.trust.score(false);
        } else {
            self.verdict = Some(was_refused);
            self.trust.lasted(length);
        }
    }

    /// The window is renewed as full as it was the last time; its end is not known before the next statement.
    fn renew(&mut self, order: u64, at: f64, sum_before: f64) {
        if self.closing.is_some_and(|closing| closing.is_over && at >= closing.end)
            && self.window.order < order
        {
            self.closing = None;
            self.window = Window { left: self.refill, least: NEVER, from: at, end: NEVER, ..self.window };
            self.count_from(order.saturating_sub(1), sum_before);
        }
    }

    /// The earliest moment for the next call; `others` is what advice and pace decide, `closed` what advice alone does.
    pub(super) fn earliest(
        &mut self,
        now: f64,
        in_flight: u32,
        others: f64,
        closed: f64,
        (refusal_takes, patience): (f64, f64),
    ) -> f64 {
        if let Some((order, at)) = self.closing.and_then(|closing| closing.pilot)
            && now >= at + patience
        {
            self.end_closing(order, at, patience);
            let sum_before = self.sum - self.one;
            self.renew(order, at, sum_before);
        }
        // Nothing in flight, and the latest response said that something was left: one call tests it.
        let is_latest = in_flight == 0 && self.window.order >= self.latest;
        if is_latest && self.is_out() && self.has_more(self.each() * self.one) {
            self.window.left = self.each() * self.one;
            self.refused.0 = 0.0;
            self.count_from(self.latest, self.sum);
        }
        let is_out = self.is_out();
        if self.closing.is_some_and(|closing| !is_out || closing.is_over && now >= closing.end) {
            self.closing = None;
        }
        if self.closing.is_none() && is_out {
            if self.window.end == NEVER && in_flight > 0 && self.trust.holds() {
                return NEVER;
            }
            self.begin(now, refusal_takes);
        }
        match &self.closing {
            Some(closing) if closing.holds && !closing.is_over => {
                closing.pilot.map_or(closing.next.max(closed).max(now), |(_, at)| at + patience)
            }
            _ => others,
        }
    }

    pub(super) fn sent(&mut self, call: &Counted) {
        (self.sum, self.latest) = (call.sum, call.order);
        if let Some(closing) = self.closing.as_mut().filter(|closing| closing.holds) {
            closing.pilot = Some((call.order, call.at));
        }
    }

    /// A call was admitted, alone or not, and nothing was stated or something.
    pub(super) fn admitted(&mut self, call: &Counted, was_alone: bool, is_stated: bool, patience: f64) {
        self.unchecked += 1.0;
        self.end_closing(call.order, call.at, patience);
        self.renew(call.order, call.at, call.sum - call.cost);
        // Counted out, sent alone, admitted, nothing stated: the count is no good.
        if !is_stated && was_alone && self.window.end == NEVER && self.is_out() {
            self.window.left = NEVER;
        }
    }

    /// A call does not count: it was refused, or never sent.
    pub(super) fn uncount(&mut self, call: &Counted) {
        if call.order > self.window.order {
            self.refused = (self.refused.0 + call.cost, self.refused.1.max(call.order));
        }
    }

    /// A call was refused, after [`uncount`](Self::uncount) and [`state`](Self::state); whether a closing that holds explains it.
    pub(super) fn explains(&mut self, now: f64, call: &Counted, refusal_takes: f64) -> bool {
        if !self.is_out() {
            return false;
        }
        if self.closing.is_none_or(|closing| closing.is_over && self.trust.holds()) {
            self.begin(now, refusal_takes);
        }
        let (left, trust) = (self.left().max(0.0), self.trust);
        let Some(closing) = &mut self.closing else { return false };
        closing.was_refused = true;
        let explained = closing.holds && !closing.is_over;
        if closing.pilot.is_some_and(|pilot| pilot.0 == call.order) {
            closing.pilot = None;
            if self.window.is_assumed {
                closing.holds = false;
                self.trust.score(false);
                return false;
            }
            closing.wait *= 2.0;
            let tested = closing.began + trust.longest_after(now - closing.began);
            closing.next = if now < closing.end {
                (closing.end + refusal_takes).min(tested)
            } else {
                now + closing.wait.min(closing.end - closing.began)
            };
        }
        if explained {
            self.window.left -= left;
            self.window.least = 0.0;
        }
        explained
    }
}
