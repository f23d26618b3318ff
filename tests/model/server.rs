//! The server: a bucket that refuses what does not fit.

use std::time::Duration;

use tokio::time::Instant;

use super::scenario::{Advice, Scenario, ServerKind};

#[derive(Debug)]
pub(crate) struct Server {
    pub(super) scenario: Scenario,
    start: Instant,
    level: f64,
    last: f64,
    /// The oracle's place in the future: level and moment after everything that it has let go.
    planned: (f64, f64),
    pub(super) admitted: f64,
    pub(super) successes: u64,
    pub(super) rejections: u64,
    pub(super) per_second: Vec<u32>,
    pub(super) last_admission: f64,
    /// When calls arrived, and whether they were taken.
    pub(super) arrivals: Vec<(f64, bool)>,
}

/// What a server states in its headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stated {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset: Duration,
}

pub(crate) enum Answer {
    Taken(Option<Stated>),
    Refused(Option<Duration>),
}

impl Server {
    pub(crate) fn new(scenario: Scenario, start: Instant) -> Self {
        Self {
            scenario,
            start,
            level: 0.0,
            last: 0.0,
            planned: (0.0, 0.0),
            admitted: 0.0,
            successes: 0,
            rejections: 0,
            per_second: Vec::new(),
            last_admission: 0.0,
            arrivals: Vec::new(),
        }
    }

    fn capacity(&self, at: f64) -> f64 {
        let Scenario { warm_up, seconds, .. } = self.scenario;
        let middle = (at - warm_up) / seconds;
        let factor = if (1.0 / 3.0..2.0 / 3.0).contains(&middle) { self.scenario.step } else { 1.0 };
        self.scenario.capacity * factor
    }

    fn bucket(&self) -> f64 {
        let depth = match self.scenario.server {
            ServerKind::Leaky => 5.0,
            ServerKind::Headers => 60.0,
        };
        depth * self.scenario.capacity
    }

    fn measures(&self, at: f64) -> bool {
        at >= self.scenario.warm_up
            && (self.scenario.is_batch() || at < self.scenario.warm_up + self.scenario.seconds)
    }

    /// By how much a call is too much, where it is.
    fn drain(&mut self, cost: f64, at: f64) -> Option<f64> {
        let capacity = self.capacity(at);
        self.level = (self.level - capacity * (at - self.last)).max(0.0);
        self.last = at;
        match self.scenario.server {
            ServerKind::Leaky => Some(self.level - self.bucket()).filter(|over| *over >= 0.0),
            // A token bucket admits a call when all of its cost is there; `level` is what has been taken.
            ServerKind::Headers => Some(self.level + cost - self.bucket()).filter(|over| *over > 0.0),
        }
    }

    /// A call of somebody unseen.
    pub(super) fn arrive_unseen(&mut self, cost: f64) {
        let at = self.start.elapsed().as_secs_f64();
        if self.drain(cost, at).is_none() {
            self.level += cost;
        }
    }

    pub(super) fn arrive(&mut self, cost: f64) -> Answer {
        let at = self.start.elapsed().as_secs_f64();
        let over = self.drain(cost, at);
        if self.scenario.traced {
            self.arrivals.push((at, over.is_none()));
        }
        let capacity = self.capacity(at);
        if let Some(over) = over {
            if self.measures(at) {
                self.rejections += 1;
            }
            let second = at as usize;
            if self.per_second.len() <= second {
                self.per_second.resize(second + 1, 0);
            }
            self.per_second[second] += 1;
            self.level += self.scenario.rejection_cost * cost;
            let exact = Duration::from_millis((1000.0 * over / capacity).floor() as u64 + 1);
            return Answer::Refused(match self.scenario.advice {
                Advice::Exact => Some(exact),
                Advice::WholeSeconds => Some(Duration::from_secs(exact.as_secs_f64().ceil() as u64)),
                Advice::Missing => None,
            });
        }
        self.level += cost;
        self.last_admission = at;
        if self.measures(at) {
            self.admitted += cost;
            self.successes += 1;
        }
        Answer::Taken((self.scenario.server == ServerKind::Headers).then(|| Stated {
            limit: self.bucket() as u64,
            remaining: (self.bucket() - self.level).max(0.0) as u64,
            reset: Duration::from_secs_f64(self.level / capacity),
        }))
    }

    /// When the oracle lets a call go that comes now.
    pub(super) fn plan(&mut self, cost: f64, deadline: f64) -> Option<f64> {
        let bucket = self.bucket();
        let now = self.start.elapsed().as_secs_f64();
        let (level, last) = self.planned;
        let mut at = now.max(last);
        let mut level = (level - self.capacity(at) * (at - last)).max(0.0);
        // Timers go by whole milliseconds, so that a call arrives up to two later than planned.
        let slack = 0.002 * self.capacity(at);
        let line = bucket - slack - if self.scenario.server == ServerKind::Headers { cost } else { 0.0 };
        if level > line {
            let wait = (level - line) / self.capacity(at);
            at += wait;
            level = line;
        }
        if at > deadline {
            return None;
        }
        self.planned = (level + cost, at);
        Some(at)
    }
}
