//! What servers admit. Times in seconds from the start of the run; a call costs 1 unless said otherwise.

use std::collections::VecDeque;

use crate::model::Random;

/// Two ways of adding up the same level differ by less.
const ROUNDING: f64 = 1e-9;

/// One limit of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Limit {
    /// A leaky bucket that drains at `rate` a second and holds `burst`: a PTU deployment, nginx `limit_req`, GCRA. If it
    /// `delays`, as nginx does without `nodelay`, a call is answered only when what was there before it has drained.
    Bucket { rate: f64, burst: f64, delays: bool },
    /// At most `most` within a fixed window.
    Window { most: f64, seconds: f64, start: Start },
    /// At most `most` calls within any span of `seconds`; a refused one may count as well.
    Sliding { most: usize, seconds: f64, counts_refused: bool },
    /// haproxy's approximation of a sliding window: the current period, and of the one before the share that is still
    /// within the span.
    Counter { most: f64, seconds: f64, counts_refused: bool },
    /// At most `most` calls at the same time.
    InFlight { most: u32 },
    /// LiteLLM's tokens: `reserve` are set aside for each call in flight, and its real `tokens` are counted at its end. The
    /// window starts with a call.
    Tokens { most: f64, seconds: f64, reserve: f64, tokens: f64 },
    /// A share of all calls is refused, whatever their rate.
    Chance { share: f64 },
    /// Nothing is admitted.
    Closed,
}

/// When the windows of a fixed window begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Start {
    /// At this moment, and one after the other.
    Aligned(f64),
    /// With the first call after the one before has ended.
    FirstCall,
}

/// What there is to state about a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Standing {
    pub(crate) limit: f64,
    pub(crate) left: f64,
    /// Seconds until it is renewed.
    pub(crate) reset: f64,
    /// Seconds that a window lasts; 0 for a bucket.
    pub(crate) window: f64,
}

/// What is known of a limit at the moment.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    level: f64,
    last: f64,
    /// The end of the current window; before any call the start of all time.
    end: f64,
    used: f64,
    before: f64,
    reserved: f64,
    log: VecDeque<f64>,
}

impl Limit {
    /// Whether a call is too much now, and if so in how many seconds it would not be.
    pub(super) fn refuses(
        &self,
        state: &mut State,
        at: f64,
        cost: f64,
        in_flight: u32,
        random: &mut Random,
    ) -> Option<f64> {
        self.advance(state, at);
        match *self {
            Self::Bucket { rate, burst, .. } => {
                let over = state.level + cost - burst;
                (state.level > 0.0 && over > ROUNDING).then(|| (over / rate).min(state.level / rate))
            }
            Self::Window { most, .. } => (state.used + cost > most + ROUNDING).then_some(state.end - at),
            Self::Sliding { most, seconds, counts_refused } => {
                let oldest = state.log.len().checked_sub(most)?;
                let wait = state.log.get(oldest).map_or(0.0, |counted| counted + seconds - at);
                if counts_refused {
                    state.log.push_back(at);
                    // More than that changes nothing but the memory.
                    if state.log.len() > 4 * most {
                        state.log.pop_front();
                    }
                }
                Some(wait)
            }
            Self::Counter { most, seconds, counts_refused } => {
                let rate = state.used + state.before * (state.end - at) / seconds;
                let is_over = rate.floor() >= most;
                if is_over && counts_refused {
                    state.used += 1.0;
                }
                is_over.then_some(state.end - at)
            }
            Self::InFlight { most } => (in_flight >= most).then_some(0.5),
            Self::Tokens { most, reserve, .. } => {
                (state.used + state.reserved + reserve > most + ROUNDING).then_some((state.end - at).max(0.0))
            }
            Self::Chance { share } => (random.uniform() < share).then_some(0.5),
            Self::Closed => Some(1.0),
        }
    }

    /// A call is admitted; by how many seconds its answer is delayed.
    pub(super) fn charge(&self, state: &mut State, at: f64, cost: f64) -> f64 {
        match *self {
            Self::Bucket { rate, delays, .. } => {
                let delay = if delays { state.level / rate } else { 0.0 };
                state.level += cost;
                return delay;
            }
            Self::Window { seconds, start, .. } => {
                if start == Start::FirstCall && state.used <= 0.0 {
                    state.end = at + seconds;
                }
                state.used += cost;
            }
            Self::Counter { .. } => state.used += 1.0,
            Self::Sliding { .. } => state.log.push_back(at),
            Self::Tokens { reserve, seconds, .. } => {
                if state.end <= at {
                    state.end = at + seconds;
                }
                state.reserved += reserve;
            }
            Self::InFlight { .. } | Self::Chance { .. } | Self::Closed => {}
        }
        0.0
    }

    /// An admitted call has been answered.
    pub(super) fn leave(&self, state: &mut State, at: f64) {
        if let Self::Tokens { reserve, tokens, .. } = *self {
            self.advance(state, at);
            state.reserved -= reserve;
            state.used += tokens;
        }
    }

    /// Lets time go on until `at`.
    fn advance(&self, state: &mut State, at: f64) {
        match *self {
            Self::Bucket { rate, .. } => {
                state.level = (state.level - rate * (at - state.last)).max(0.0);
                state.last = at;
            }
            Self::Window { seconds, start: Start::Aligned(phase), .. } if state.end <= at => {
                state.used = 0.0;
                state.end = phase + (((at - phase) / seconds).floor() + 1.0) * seconds;
            }
            Self::Window { start: Start::FirstCall, .. } | Self::Tokens { .. } if state.end <= at => {
                state.used = 0.0
            }
            Self::Sliding { seconds, .. } => {
                while state.log.front().is_some_and(|counted| counted + seconds <= at) {
                    state.log.pop_front();
                }
            }
            Self::Counter { seconds, .. } if state.end <= at => {
                let missed = state.end + seconds <= at;
                state.before = if missed { 0.0 } else { state.used };
                state.used = 0.0;
                state.end = if missed || state.end <= 0.0 { at + seconds } else { state.end + seconds };
            }
            _ => {}
        }
    }

    /// What this limit could state at a moment.
    pub(super) fn standing(&self, state: &State, at: f64, in_flight: u32) -> Option<Standing> {
        let (limit, left, reset, window) = match *self {
            Self::Bucket { rate, burst, .. } => {
                let level = (state.level - rate * (at - state.last)).max(0.0);
                (burst, (burst - level).floor(), level / rate, 0.0)
            }
            Self::Window { most, seconds, .. } => (most, most - state.used, state.end - at, seconds),
            Self::Sliding { most, seconds, .. } => {
                let left = most.saturating_sub(state.log.len());
                (
                    most as f64,
                    left as f64,
                    state.log.front().map_or(0.0, |counted| counted + seconds - at),
                    seconds,
                )
            }
            Self::InFlight { most } => (f64::from(most), f64::from(most.saturating_sub(in_flight)), 0.0, 0.0),
            Self::Tokens { most, seconds, .. } => {
                (most, most - state.used - state.reserved, state.end - at, seconds)
            }
            Self::Counter { .. } | Self::Chance { .. } | Self::Closed => return None,
        };
        Some(Standing { limit, left: left.max(0.0), reset: reset.max(0.0), window })
    }

    /// The calls that it admits in a second in the long run, given how long a call is in flight.
    pub(crate) fn per_second(&self, in_flight_for: f64) -> f64 {
        match *self {
            Self::Bucket { rate, .. } => rate,
            Self::Window { most, seconds, .. } | Self::Counter { most, seconds, .. } => most / seconds,
            Self::Sliding { most, seconds, .. } => most as f64 / seconds,
            Self::InFlight { most } => f64::from(most) / in_flight_for,
            // The last call is admitted while there is room for what is set aside for it.
            Self::Tokens { most, seconds, reserve, tokens } => {
                ((most - reserve) / tokens + 1.0).floor() / seconds
            }
            Self::Chance { .. } => f64::INFINITY,
            Self::Closed => 0.0,
        }
    }
}
