//! Random servers: each has one limit, states it in one style, and has faults besides.
//!
//! A server decides about a request when it is sent; what takes time is the answer. So the order of the log is the order of
//! its decisions, and a server whose advice is for all can keep its word: from the refused request until the advised moment, as
//! the client counts it, it admits nothing.

use super::dice::Dice;
use super::log::Ms;
use super::style::Style;

pub(crate) const SECOND: Ms = 1_000;
pub(crate) const MINUTE: Ms = 60 * SECOND;
pub(crate) const HOUR: Ms = 60 * MINUTE;

/// How often others take a part of a limit.
const OTHERS: f64 = 0.1;

/// What limits a server.
#[derive(Debug, Clone)]
pub(crate) enum Limit {
    /// Drains at `rate` a second and holds `depth`.
    Bucket { rate: f64, depth: f64, level: f64, at: Ms },
    /// `most` calls in each `period`, which begins and ends by the clock.
    Window { period: Ms, most: u64, begun: Ms, used: u64 },
    /// Closes now and then, for between 10 ms and `longest`.
    Closings { share: f64, longest: Ms },
    /// Refuses now and then, whatever else it does, and advises between 10 ms and `longest`.
    Chance { share: f64, longest: Ms },
    /// Refuses what is more than `most` at a time.
    Concurrency { most: usize },
    /// Refuses everything for a while now and then, mostly without advice.
    Overload { share: f64, until: Ms },
    /// Refuses nothing.
    None,
}

/// A request as a server sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) now: Ms,
    pub(crate) cost: f64,
}

/// What a server makes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Admitted,
    /// The advice as the client will count it, from when it has the answer.
    Refused {
        wait: Option<Ms>,
    },
}

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) limit: Limit,
    pub(crate) style: Style,
    /// The share of admitted requests that come to grief.
    pub(crate) faults: f64,
    pub(crate) dice: Dice,
    /// Until when nothing is admitted, where its advice is for all.
    closed_until: Ms,
    /// Requests that it works on or whose bodies are not over.
    pub(crate) open: usize,
}

impl Server {
    pub(crate) fn new(limit: Limit, style: Style, faults: f64, dice: Dice) -> Self {
        Self { limit, style, faults, dice, closed_until: 0, open: 0 }
    }

    /// Whether what it advises holds for every request.
    pub(crate) fn advises_all(&self) -> bool {
        matches!(self.limit, Limit::Bucket { .. } | Limit::Window { .. } | Limit::Closings { .. })
    }

    /// Decides about a request whose refusal would be heard after `trip`.
    pub(crate) fn decide(&mut self, request: Request, trip: Ms) -> Verdict {
        let heard = request.now + trip;
        if request.now < self.closed_until {
            return self.close(self.closed_until, heard);
        }
        if let Some(wait) = self.chance(request) {
            return Verdict::Refused { wait: wait.map(|wait| self.style.stated(wait)) };
        }
        match self.reopens(request) {
            Some(moment) => self.close(moment, heard),
            None => Verdict::Admitted,
        }
    }

    /// Admits nothing until `moment`, and no less than what can be stated of that.
    fn close(&mut self, moment: Ms, heard: Ms) -> Verdict {
        let wait = self.style.stated(moment.saturating_sub(heard).max(10));
        self.closed_until = self.closed_until.max(heard + wait);
        Verdict::Refused { wait: Some(wait) }
    }

    /// The moment at which it admits again, if it refuses this; else takes it in.
    fn reopens(&mut self, request: Request) -> Option<Ms> {
        let Request { now, cost } = request;
        // What others of the same account take is in nobody's books.
        let others = if self.dice.chance(OTHERS) { self.dice.between(0.0, 1.0) } else { 0.0 };
        match &mut self.limit {
            Limit::Bucket { rate, depth, level, at } => {
                *level = (*level - *rate * (now - *at) as f64 / 1e3).max(0.0);
                *level = (*level + others * *depth).min(level.max(*depth));
                *at = now;
                if *level + cost <= *depth || *level <= 0.0 {
                    *level += cost;
                    return None;
                }
                Some(now + ((*level + cost - *depth) / *rate * 1e3).ceil() as Ms)
            }
            Limit::Window { period, most, begun, used } => {
                if now >= *begun + *period {
                    *begun = now - now % *period;
                    *used = 0;
                }
                *used += 1 + (others * *most as f64) as u64;
                (*used > *most).then_some(*begun + *period)
            }
            Limit::Closings { share, longest } => {
                self.dice.chance(*share).then(|| now + self.dice.spread(10, *longest))
            }
            _ => None,
        }
    }

    /// The advice of a refusal that says nothing of other requests.
    fn chance(&mut self, request: Request) -> Option<Option<Ms>> {
        let dice = &mut self.dice;
        match &mut self.limit {
            Limit::Chance { share, longest } if dice.chance(*share) => {
                Some(dice.chance(0.8).then(|| dice.spread(10, *longest)))
            }
            Limit::Concurrency { most } if self.open >= *most => {
                Some(dice.chance(0.5).then(|| dice.spread(10, 5 * SECOND)))
            }
            Limit::Overload { share, until } => {
                if request.now >= *until && dice.chance(*share) {
                    *until = request.now + dice.spread(100, 10 * MINUTE);
                }
                (request.now < *until).then(|| dice.chance(0.2).then(|| dice.spread(SECOND, MINUTE)))
            }
            _ => None,
        }
    }

    /// Limit and remaining calls of a window and the time to its end, for the headers.
    pub(crate) fn window(&self, heard: Ms) -> Option<(u64, u64, Ms)> {
        match self.limit {
            Limit::Window { period, most, begun, used } => {
                Some((most, most.saturating_sub(used), (begun + period).saturating_sub(heard)))
            }
            _ => None,
        }
    }
}
