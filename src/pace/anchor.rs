//! Anchored pacing of one quota unit: what refusals tell about the server's capacity, and the drip that follows one.
//!
//! A refusal of a call sent at `t` with the advice `w` says that the server admits again at `R = t + w`; in terms of
//! sending times the delays of the network cancel. Two such anchors give the share of the capacity that this process
//! gets: the cost admitted between them over the time between them. After a refusal calls are not let go all at once
//! but one after another at that rate, from `R` on, with a small probing excess that grows until the next refusal.

mod measure;

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
/// Backoff where a refusal advises nothing: the first wait without an estimate, and the longest.
const FIRST_BACKOFF: f64 = 0.5;
const LONGEST_BACKOFF: f64 = 8.0;
const MOST_DOUBLINGS: u32 = 6;
/// Fewer calls of mean cost lately than this are no evidence of a rate.
const SCARCE: f64 = 8.0;
/// The rate, in calls of mean cost a second, that re-opens a scope of which nothing is known.
const UNKNOWN_RATE: f64 = 10.0;
/// Beyond this, in seconds, it is the limit that is odd, or the call.
const LONGEST_GATHERING: f64 = 60.0;
/// What one call may move the next, and all calls in flight together, in seconds; beyond, an estimate or a usage is
/// wrong.
const LONGEST_STEP: f64 = 60.0;
const LONGEST_BACKLOG: f64 = 900.0;
/// Numbers beyond are cut: they could only come from a server that lies.
const LARGEST: f64 = 1e15;

/// A refusal, in the gate's own bookkeeping; all moments in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused {
    pub(crate) now: f64,
    pub(crate) sent_at: f64,
    /// Everything sent before the refused call.
    pub(crate) sent_before: f64,
    pub(crate) cost: f64,
    /// The advised wait, where there is any.
    pub(crate) advice: Option<f64>,
    /// The wait that the call plans for itself, and the longest that it has time for, where it has the scope to itself.
    pub(crate) alone: Option<(f64, f64)>,
    /// A random draw from [0, 1).
    pub(crate) draw: f64,
    /// The rate of the limit that headers state.
    pub(crate) header_rate: Option<f64>,
    /// The lowest known rate, stated or configured.
    pub(crate) cap: Option<f64>,
}

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
        let (true, Some(capacity)) = (self.pacing, self.capacity) else { return before };

        let late = now - self.next_send;
        if late <= (2.0 * self.mean / capacity).max(0.1) {
            self.gated += cost / capacity;
        }
        let (least, unit) = self.patience(capacity);
        let patience = self.gated / unit - PATIENCE;
        let steepness = if cap.is_some() { 1.0 } else { STEEPNESS };
        let mut probing = (least * (steepness * patience.clamp(0.0, 32.0)).exp2()).min(1.0);
        let mut capacity = capacity;
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

    /// Another unit refused the call: this one did not take it either.
    pub(crate) fn not_admitted(&mut self, cost: f64) {
        self.refused = (self.refused + cost).min(LARGEST);
    }

    /// The wait in seconds where a refusal advises none.
    fn backoff(&self) -> f64 {
        let Some(capacity) = self.capacity else { return FIRST_BACKOFF };
        let doublings = f64::from(self.failures.clamp(0, i32::try_from(MOST_DOUBLINGS).unwrap_or(6)));
        (self.mean / capacity * doublings.exp2()).min(LONGEST_BACKOFF)
    }

    /// The least probing excess, and the time of calls held back after which it grows.
    fn patience(&self, capacity: f64) -> (f64, f64) {
        let per_second = capacity / self.mean;
        let least = PROBING * (PROBING_RATE / per_second).sqrt().clamp(0.1, 4.0);
        let margin = self.margin(self.episode, capacity) / least;
        // Where calls are refused whatever their rate is, a few gaps without a refusal show that this has ended.
        let unit = self.independent.gap().map_or(margin, |gap| margin.min(gap / capacity));
        (least, if self.proven.is_far_above(capacity) { unit / HASTE } else { unit })
    }

    fn margin(&self, steps: i32, capacity: f64) -> f64 {
        let calls = (0.5 * f64::from(steps.clamp(-1, 30)).exp2()).min(MARGIN_CALLS);
        (calls * self.mean / capacity).clamp(MARGIN.0, MARGIN.1)
    }

    /// The server refused a call for want of this unit; returns the wait in seconds that it stands for.
    pub(crate) fn refuse(&mut self, seen: &Refused) -> f64 {
        let planned = seen.alone.map(|(planned, _)| planned);
        let wait = seen.advice.or(planned.filter(|planned| *planned > 0.0)).unwrap_or_else(|| self.backoff());
        if self.mean <= 0.0 {
            self.mean = seen.cost.max(1.0);
        }
        let is_early =
            self.capacity.is_some_and(|capacity| self.gated <= PATIENCE * self.patience(capacity).1);
        let newest = seen.sent_at >= self.last_refused;
        self.last_refused = self.last_refused.max(seen.sent_at);
        if !self.pacing && self.recent.is_full(seen.now) {
            self.proven.add(seen.now, self.recent.rate(seen.now));
        }
        if !self.pacing {
            self.episode = 0;
            self.round = f64::NEG_INFINITY;
        }
        if seen.sent_at >= self.round {
            self.episode = self.episode.saturating_add(1);
            self.failures = self.failures.saturating_add(1);
            self.round = seen.now;
        }
        // What a late answer to an older call says was said by a newer one already.
        if !newest && self.pacing {
            self.refused = (self.refused + seen.cost).min(LARGEST);
            return wait;
        }

        let admits = seen.sent_at + wait - gathering(seen.cost, seen.header_rate);
        let admitted = (seen.sent_before - self.refused).max(0.0);
        self.measure(
            Anchor { admits, admitted, refused: self.refused },
            wait,
            seen.advice.is_some(),
            is_early,
        );
        let estimate = self.capacity.unwrap_or_else(|| {
            self.provisional = true;
            // Calls now and then show how much was wanted, not how much there is.
            let scarce = seen.alone.is_some() && self.recent.cost() < SCARCE * self.mean;
            self.recent.rate(seen.now).max(if scarce { UNKNOWN_RATE * self.mean } else { 0.0 })
        });
        let capacity = bounded(estimate, self.mean, seen.cap);
        self.capacity = Some(capacity);

        self.refused = (self.refused + seen.cost).min(LARGEST);
        self.pacing = true;
        self.gated = 0.0;
        self.probing = 0.0;
        // There is no limit to keep clear of where calls are refused whatever their rate is.
        let margin = if self.independent.is_certain() {
            MARGIN.0
        } else {
            self.margin(self.episode.saturating_sub(1), capacity)
        } * (0.5 + seen.draw);
        let sent_after = (self.sent - seen.sent_before - seen.cost).max(0.0);
        // Refused again without a success between: perhaps the server charges for what it refuses, and leaves the
        // charge out of its advice. Then the call that comes back pays for itself first, or it never passes.
        let charge = if self.failures >= 2 { (seen.cost / capacity).min(SLOWEST) } else { 0.0 };
        let apart = match seen.alone {
            None => margin + charge,
            Some((planned, at_most)) => {
                // Nobody else is to be kept apart from a call that is alone. One that is refused as advised again and
                // again is not: others, in processes of their own, wake when it does.
                let jitter = (planned - wait).max(0.0);
                let unseen = self.failures >= 2 && seen.advice.is_some() && jitter > 0.0;
                if unseen { (margin + charge).min(at_most - wait).max(jitter) } else { jitter }
            }
        };
        self.next_send = admits + (sent_after / capacity).min(LONGEST_BACKLOG) + apart;
        wait
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
