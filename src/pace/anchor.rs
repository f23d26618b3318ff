//! Anchored pacing of one quota unit: what refusals tell about the server's capacity, and the drip that follows one.
//!
//! A refusal of a call sent at `t` with the advice `w` says that the server admits again at `R = t + w`; in terms of
//! sending times the delays of the network cancel. Two such anchors give the share of the capacity that this process
//! gets: the cost admitted between them over the time between them. After a refusal calls are not let go all at once
//! but one after another at that rate, from `R` on, with a small probing excess that grows until the next refusal.

mod guess;
mod measure;
mod refuse;

use guess::Guess;
pub(crate) use refuse::Refused;

use super::independent::Independent;
use super::recent::{Proven, Recent};

/// An idle pacer opens when a call arrives this much later than it could have been sent.
const HOLD: f64 = 2.0;
/// Bounds of the margin after an anchor, in seconds.
const MARGIN: (f64, f64) = (0.05, 2.0);
/// The largest margin in calls of mean cost.
const MARGIN_CALLS: f64 = 4.0;
/// The probing excess at two calls a second. It follows 1/√rate, which makes the shares of processes converge.
const PROBING: f64 = 0.05;
const PROBING_RATE: f64 = 2.0;
/// How many margins are waited out before probing grows.
const PATIENCE: f64 = 1.5;
/// How many times probing doubles per margin waited out after that, where no limit is stated; a stated one has not to
/// be found.
const STEEPNESS: f64 = 2.0;
/// How much sooner probing grows where the estimate is far below a rate that went well lately.
const HASTE: f64 = 8.0;
/// Where probing goes on after the estimate has been doubled.
const RESUMED: f64 = 0.25;
/// The least capacity: one mean call in this many seconds, so that no process starves by its own estimate.
const SLOWEST: f64 = 15.0;
/// The weight of one call in the mean cost.
const MEAN_GAIN: f64 = 0.02;
/// Beyond this, in seconds, it is the limit that is odd, or the call.
const LONGEST_GATHERING: f64 = 60.0;
/// What one call may move the next, in seconds; beyond, an estimate or a usage is wrong.
const LONGEST_STEP: f64 = 60.0;
/// Numbers beyond are cut: they could only come from a server that lies.
const LARGEST: f64 = 1e15;

/// What one refusal pins down.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    /// When the server admits again (R).
    admits: f64,
    /// The cost that it had admitted from us before (S − F).
    admitted: f64,
    /// The cost that it had refused us before (F).
    refused: f64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Pacer {
    /// Whether calls are being let go one after another.
    pacing: bool,
    /// When the next call may be sent (V).
    next_send: f64,
    /// The estimated capacity in units per second (Ĉ).
    capacity: Option<f64>,
    /// Whether the estimate is only what was sent lately, not what two anchors say.
    provisional: bool,
    guess: Guess,
    anchor: Option<Anchor>,
    /// Refusals in a row, counted once per round trip.
    episode: i32,
    /// Refusals of calls sent before this moment belong to the same round trip.
    round: f64,
    /// Rounds of refusals without a success between them.
    failures: i32,
    last_refused: f64,
    /// Seconds' worth of calls that were held back since the last refusal.
    gated: f64,
    /// Seconds during which calls could have been sent and were not, since the last anchor.
    idle: f64,
    /// Seconds of cool-downs since the last anchor, and the end of the last of them.
    closed: f64,
    admits: f64,
    /// The cost sent (S) and refused (F) ever.
    sent: f64,
    refused: f64,
    /// The mean cost of a call (c̄).
    mean: f64,
    /// The probing excess of the last call.
    probing: f64,
    recent: Recent,
    proven: Proven,
    independent: Independent,
}

impl Pacer {
    pub(crate) const fn is_pacing(&self) -> bool {
        self.pacing
    }

    pub(crate) const fn capacity(&self) -> Option<f64> {
        self.capacity
    }

    pub(crate) const fn mean(&self) -> f64 {
        self.mean
    }

    pub(crate) const fn sent(&self) -> f64 {
        self.sent
    }

    /// Seconds until a call of `cost` may be sent when `ahead` goes first.
    pub(crate) fn wait(&self, now: f64, ahead: f64, cost: f64, header_rate: Option<f64>) -> f64 {
        if !self.pacing {
            return 0.0;
        }
        let before = self.capacity.map_or(0.0, |capacity| ahead / (capacity * (1.0 + self.probing)));
        self.next_send + before + gathering(cost, header_rate) - now
    }

    /// A call arrives at a scope that is not closed: a pacer that has been idle opens.
    pub(crate) fn arrived(&mut self, now: f64) {
        if self.pacing && now - self.next_send > HOLD {
            self.pacing = false;
            self.anchor = None;
        }
    }

    /// A call of `cost` is sent; returns everything sent before it.
    pub(crate) fn send(&mut self, now: f64, cost: f64, cap: Option<f64>) -> f64 {
        let before = self.sent;
        if cost <= 0.0 {
            return before;
        }
        self.sent = (self.sent + cost).min(LARGEST);
        self.mean = if self.mean > 0.0 { self.mean + MEAN_GAIN * (cost - self.mean) } else { cost };
        self.recent.add(now, cost);
        let (true, Some(mut capacity)) = (self.pacing, self.capacity) else { return before };

        let late = now - self.next_send;
        if late <= (2.0 * self.mean / capacity).max(0.1) {
            self.gated += cost / capacity;
            if self.guess.held_back(now) {
                capacity = bounded(2.0 * capacity, self.mean, cap);
                self.capacity = Some(capacity);
            }
        }
        let (least, unit) = self.patience(capacity);
        let patience = self.gated / unit - PATIENCE;
        let steepness = if cap.is_some() { 1.0 } else { STEEPNESS };
        let mut probing = (least * (steepness * patience.clamp(0.0, 32.0)).exp2()).min(1.0);
        if probing >= 1.0 {
            // No refusal in spite of twice the rate: the estimate is what is wrong.
            capacity = bounded(2.0 * capacity, self.mean, cap);
            self.capacity = Some(capacity);
            // Grossly wrong, perhaps: the next doubling comes sooner.
            probing = 0.0;
            let (least, unit) = self.patience(capacity);
            self.gated = (PATIENCE + (RESUMED / least).log2().max(0.0) / steepness) * unit;
        }
        self.probing = probing;
        self.idle += late.max(0.0);
        self.next_send += (cost / (capacity * (1.0 + probing))).min(LONGEST_STEP);
        before
    }

    /// A call turned out to have cost `difference` more (or, negative, less) than was counted.
    pub(crate) fn correct(&mut self, difference: f64) {
        self.sent = (self.sent + difference).clamp(0.0, LARGEST);
        if let (true, Some(capacity)) = (self.pacing, self.capacity) {
            self.next_send += (difference / capacity).clamp(-LONGEST_STEP, LONGEST_STEP);
        }
    }

    /// The usage of a call that came without an estimate.
    pub(crate) fn learn_mean(&mut self, cost: f64) {
        self.mean = if self.mean > 0.0 { self.mean + MEAN_GAIN * (cost - self.mean) } else { cost };
    }

    /// A call was taken by the server.
    pub(crate) const fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The server's stated level is low: pace before it refuses.
    pub(crate) fn enter(&mut self, now: f64, rate: f64) {
        if self.pacing {
            return;
        }
        self.pacing = true;
        self.next_send = now;
        self.gated = 0.0;
        self.episode = 0;
        self.round = f64::NEG_INFINITY;
        self.anchor = None;
        let capacity = self.capacity.unwrap_or_else(|| {
            self.provisional = true;
            rate
        });
        self.capacity = Some(bounded(capacity, self.mean, Some(rate)));
    }

    /// The server's stated level is high again.
    pub(crate) const fn leave(&mut self) {
        self.pacing = false;
        self.anchor = None;
    }

    /// The least probing excess, and the time of calls held back after which it grows.
    fn patience(&self, capacity: f64) -> (f64, f64) {
        let per_second = capacity / self.mean;
        let least = PROBING * (PROBING_RATE / per_second).sqrt().clamp(0.1, 4.0);
        let margin = self.margin(self.episode, capacity) / least;
        // Where calls are refused whatever their rate is, a few gaps without a refusal show that this has ended.
        let unit = self.independent.gap().map_or(margin, |gap| margin.min((gap / capacity).max(MARGIN.0)));
        (least, if self.proven.is_far_above(capacity) { unit / HASTE } else { unit })
    }

    fn margin(&self, steps: i32, capacity: f64) -> f64 {
        let calls = (0.5 * f64::from(steps.clamp(-1, 30)).exp2()).min(MARGIN_CALLS);
        (calls * self.mean / capacity).clamp(MARGIN.0, MARGIN.1)
    }
}

/// The seconds in which the cost of a call comes together: a token bucket, which states its limit, admits a call only
/// when all of it is there, and its advice counts to that moment.
fn gathering(cost: f64, header_rate: Option<f64>) -> f64 {
    header_rate.map_or(0.0, |rate| (cost / rate).min(LONGEST_GATHERING))
}

/// A capacity that neither starves the callers nor exceeds what is known.
fn bounded(capacity: f64, mean: f64, cap: Option<f64>) -> f64 {
    let least = (mean / SLOWEST).max(f64::MIN_POSITIVE);
    // The cap goes last but one: a limit of less than a call in 15 s is kept by the level, not by the pacer.
    capacity.min(cap.unwrap_or(LARGEST)).clamp(least, LARGEST.max(least))
}
