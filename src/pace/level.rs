//! The token bucket of one quota unit: refill, grant, debt, settling, and learning from `remaining`.

use super::number::{at_least, at_most, float};
use super::trust::Trust;
use crate::reading::ServiceLimit;

/// Windows that are believed; what a server states or implies beyond is cut to these.
const SHORTEST_WINDOW: f64 = 1.0;
const LONGEST_WINDOW: f64 = 86_400.0;
/// The window that is assumed where none is stated and none can be derived.
const USUAL_WINDOW: f64 = 60.0;
/// Limits that are believed, in units.
const LARGEST_LIMIT: f64 = 1e15;
/// The deepest debt, in buckets: an hour's worth of a limit per minute. What a server claims a call has used is not
/// proof enough to close a scope for longer.
const DEEPEST: f64 = 60.0;
/// The share of the bucket that batch calls leave to the others.
const BATCH_RESERVE: f64 = 0.1;
/// Calls of mean cost that are kept free where the limit comes from headers: several processes see the same
/// `remaining` and each other's calls only a round trip later.
const HEADROOM: f64 = 2.0;
/// The share of an upward correction that is taken at once; downward ones are taken whole.
const UPWARD: f64 = 0.25;
/// The share of a newly derived window that is taken over.
const WINDOW_GAIN: f64 = 0.25;
/// A window is derived only where this share of the limit is used: near the full bucket the quotient is noise.
const DERIVABLE: f64 = 0.9;

/// The capacity and the refill rate of a bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bucket {
    pub(crate) capacity: f64,
    /// Units per second.
    pub(crate) rate: f64,
}

/// Where a limit in force comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Configured,
    Headers,
}

#[derive(Debug, Clone, Copy)]
struct Learned {
    capacity: f64,
    window: f64,
    /// Whether the window was stated rather than assumed or derived from too little.
    window_known: bool,
    /// Whether nothing comes back before the end of the window: then this level holds nobody back.
    is_window: bool,
    /// When the call was sent whose response was applied last.
    as_of: f64,
    /// The capacity over the window.
    rate: f64,
}

/// What one response says of one unit, in terms of the gate's own bookkeeping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observation<'a> {
    pub(crate) limit: &'a ServiceLimit,
    pub(crate) sent_at: f64,
    pub(crate) now: f64,
    /// The cost of what was sent after the observed call.
    pub(crate) sent_after: f64,
    /// Half the round trip, in seconds.
    pub(crate) one_way: f64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Level {
    configured: Option<Bucket>,
    learned: Option<Learned>,
    /// What is in force: the lower of configured and learned; there is one where there is either.
    bucket: Option<Bucket>,
    level: f64,
    /// The level of the configured bucket alone: what a server has left does not raise the operator's limit.
    own: f64,
    refilled: f64,
    /// How far the learned limit is believed.
    trust: Trust,
}

impl Level {
    pub(crate) const fn bucket(&self) -> Option<Bucket> {
        self.bucket
    }

    pub(crate) const fn level(&self) -> f64 {
        self.level
    }

    /// Whether a learned limit holds calls back.
    #[inline]
    fn believes(&self) -> bool {
        self.learned.is_some_and(|learned| !learned.is_window) && self.trust.holds()
    }

    /// Whether the server would refuse a call of `cost` now, by what it has stated and whatever that is worth.
    pub(crate) fn speaks_against(&self, cost: f64) -> bool {
        let is_lower = self.origin() == Some(Origin::Headers);
        is_lower
            && cost > 0.0
            && self
                .learned
                .is_some_and(|learned| !learned.is_window && self.level < at_most(cost, learned.capacity))
    }

    /// A call that the stated level spoke against was refused, or admitted, after `held` seconds without a call.
    pub(crate) fn score(&mut self, refused: bool, held: f64) {
        self.trust.score(refused);
        if refused {
            self.trust.lasted(held);
        }
    }

    pub(crate) fn origin(&self) -> Option<Origin> {
        let bucket = self.bucket?;
        match self.configured {
            Some(configured) if configured.rate <= bucket.rate => Some(Origin::Configured),
            _ => Some(Origin::Headers),
        }
    }

    /// Sets or removes the configured limit; an infinite one is none.
    pub(crate) fn configure(&mut self, per_minute: f64, now: f64) {
        self.refill(now);
        let known = self.bucket.map(|_| self.level);
        self.configured = per_minute.is_finite().then(|| {
            let capacity = per_minute.clamp(1.0, LARGEST_LIMIT);
            Bucket { capacity, rate: capacity / USUAL_WINDOW }
        });
        self.own = self.configured.map_or(0.0, |own| known.unwrap_or(own.capacity).min(own.capacity));
        self.combine(now);
    }

    /// Adds what has come since the last refill; a clock that steps back adds nothing and takes nothing.
    #[inline]
    pub(crate) fn refill(&mut self, now: f64) {
        let Some(bucket) = self.bucket else { return };
        let elapsed = now - self.refilled;
        if elapsed > 0.0 {
            self.level = at_most(self.level + elapsed * bucket.rate, bucket.capacity);
            if let Some(own) = self.configured {
                self.own = at_most(self.own + elapsed * own.rate, own.capacity);
            }
            self.refilled = now;
        }
    }

    /// Seconds until a call of `cost` may pass when `ahead` goes first. With `idle` seconds since the last call and none in
    /// flight, one may go that tests whether the stated limit still holds.
    #[inline]
    pub(crate) fn wait(&self, ahead: f64, cost: f64, mean: f64, batch: bool, idle: Option<f64>) -> f64 {
        if cost <= 0.0 {
            return 0.0;
        }
        let missing = |bucket: Bucket, level: f64, headroom: f64| {
            let kept = if batch { at_least(headroom, BATCH_RESERVE * bucket.capacity) } else { headroom };
            let needed = at_most(cost + kept, bucket.capacity);
            at_least((ahead + needed - level) / bucket.rate, 0.0)
        };
        let own = self.configured.map_or(0.0, |own| missing(own, self.own, 0.0));
        let (true, Some(bucket)) = (self.believes(), self.bucket) else { return own };
        let stated = missing(bucket, self.level, HEADROOM * mean);
        at_least(idle.map_or(stated, |idle| at_most(stated, self.trust.longest(false) - idle)), own)
    }

    /// Takes `cost`; the level may go below 0, so that a call larger than the bucket passes when it is full.
    pub(crate) fn take(&mut self, cost: f64) {
        self.add(-cost);
    }

    /// Gives `amount` back, or takes it when it is negative.
    #[inline]
    pub(crate) fn add(&mut self, amount: f64) {
        let Some(bucket) = self.bucket else { return };
        self.level = within(self.level + amount, bucket);
        if let Some(own) = self.configured {
            self.own = within(self.own + amount, own);
        }
    }

    /// Learns from what a response states.
    ///
    /// The level is never set to `remaining`: that counts what is in flight twice.
    #[inline]
    pub(crate) fn observe(&mut self, seen: &Observation<'_>) {
        let Some(stated) = seen.limit.limit.map(float) else { return };
        if stated < 1.0 || self.learned.is_some_and(|learned| seen.sent_at < learned.as_of) {
            return;
        }
        self.refill(seen.now);
        let capacity = at_most(stated, LARGEST_LIMIT);
        let remaining = seen.limit.remaining.map(|left| at_most(float(left), capacity));
        let first = self.learned.is_none();
        let (window, window_known) = self.window(seen.limit, capacity, remaining);
        let rate = capacity / window;
        let is_window = seen.limit.resets_at_once;
        self.learned = Some(Learned { capacity, window, window_known, is_window, as_of: seen.sent_at, rate });
        self.combine(seen.now);

        let (Some(bucket), Some(remaining)) = (self.bucket, remaining) else { return };
        let since = at_least(seen.now - seen.sent_at - seen.one_way, 0.0);
        let server = at_most(remaining + rate * since, capacity) - seen.sent_after;
        let target = at_most(server, bucket.capacity);
        if first && self.configured.is_none() || target < self.level {
            self.level = target;
        } else {
            self.level += UPWARD * (target - self.level);
        }
        if self.configured.is_some() {
            self.level = at_most(self.level, self.own);
        }
    }

    /// The window: stated, or derived from how long the used part takes to come back.
    fn window(&self, limit: &ServiceLimit, capacity: f64, remaining: Option<f64>) -> (f64, bool) {
        let believed = |seconds: f64| seconds.clamp(SHORTEST_WINDOW, LONGEST_WINDOW);
        if let Some(window) = limit.window
            && !window.is_zero()
        {
            return (believed(window.as_secs_f64()), true);
        }
        let earlier = self.learned.filter(|learned| learned.window_known);
        let reset = || limit.reset.filter(|reset| !reset.is_zero());
        if limit.resets_at_once
            && let Some(reset) = reset()
        {
            // What is left of a fixed window is its whole length near its beginning, and less than that later.
            let left = believed(reset.as_secs_f64());
            let fresh = remaining.is_some_and(|left| left >= DERIVABLE * capacity);
            let window = match earlier {
                Some(known) if fresh && left < known.window => {
                    known.window + WINDOW_GAIN * (left - known.window)
                }
                Some(known) => known.window.max(left),
                None => left,
            };
            return (window, true);
        }
        if let Some(left) = remaining
            && left < DERIVABLE * capacity
            && let Some(reset) = reset()
        {
            let derived = believed(reset.as_secs_f64() * capacity / (capacity - left));
            let window =
                earlier.map_or(derived, |known| known.window + WINDOW_GAIN * (derived - known.window));
            return (window, true);
        }
        earlier.map_or((USUAL_WINDOW, false), |known| (known.window, true))
    }

    /// Puts the lower of configured and learned in force; the level has been refilled at the old rate before.
    fn combine(&mut self, now: f64) {
        let learned = self.learned.map(|learned| Bucket { capacity: learned.capacity, rate: learned.rate });
        let before = self.bucket;
        self.bucket = match (self.configured, learned) {
            (Some(one), Some(other)) => {
                Some(Bucket { capacity: one.capacity.min(other.capacity), rate: one.rate.min(other.rate) })
            }
            (one, other) => one.or(other),
        };
        match (before, self.bucket) {
            (None, Some(bucket)) => {
                self.level = bucket.capacity;
                self.refilled = now;
            }
            // A larger bucket does not come with more in it, a smaller one holds less.
            (Some(_), Some(bucket)) => self.level = at_most(self.level, bucket.capacity),
            (_, None) => {}
        }
    }
}

/// A level that a bucket can have.
#[inline]
const fn within(level: f64, bucket: Bucket) -> f64 {
    at_least(at_most(level, bucket.capacity), -DEEPEST * bucket.capacity)
}
