//! The server: a bucket that refuses what does not fit.

use std::time::Duration;

use tokio::time::Instant;

use super::bucket::Bucket;
use super::oracle::Plan;
use super::scenario::{Advice, Scenario, ServerKind};

#[derive(Debug)]
pub(crate) struct Server {
    pub(super) scenario: Scenario,
    start: Instant,
    bucket: Bucket,
    /// The oracle's.
    plan: Plan,
    pub(super) admitted: f64,
    pub(super) successes: u64,
    pub(super) rejections: u64,
    pub(super) per_second: Vec<u32>,
    pub(super) last_admission: f64,
    /// When calls arrived, and whether they were taken.
    pub(super) arrivals: Vec<(f64, bool)>,
}

/// What a server states in its headers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stated {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Answer {
    Taken(Option<Stated>),
    Refused(Option<Duration>),
}

impl Server {
    pub(crate) fn new(scenario: Scenario, start: Instant) -> Self {
        Self {
            scenario,
            start,
            bucket: Bucket::new(),
            plan: Plan::new(&scenario),
            admitted: 0.0,
            successes: 0,
            rejections: 0,
            per_second: Vec::new(),
            last_admission: 0.0,
            arrivals: Vec::new(),
        }
    }

    fn measures(&self, at: f64) -> bool {
        at >= self.scenario.warm_up
            && (self.scenario.is_batch() || at < self.scenario.warm_up + self.scenario.seconds)
    }

    /// A call of somebody unseen.
    pub(super) fn arrive_unseen(&mut self, cost: f64) {
        let at = self.start.elapsed().as_secs_f64();
        self.bucket.advance(&self.scenario, at);
        if self.bucket.takes(&self.scenario, cost) {
            self.bucket.add(&self.scenario, cost);
        }
    }

    pub(crate) fn arrive(&mut self, cost: f64) -> Answer {
        let at = self.start.elapsed().as_secs_f64();
        self.bucket.advance(&self.scenario, at);
        let is_taken = self.bucket.takes(&self.scenario, cost);
        if self.scenario.traced {
            self.arrivals.push((at, is_taken));
        }
        let capacity = self.scenario.capacity_at(at);
        if !is_taken {
            if self.measures(at) {
                self.rejections += 1;
            }
            let second = at as usize;
            if self.per_second.len() <= second {
                self.per_second.resize(second + 1, 0);
            }
            self.per_second[second] += 1;
            let over = self.bucket.over(&self.scenario, cost);
            self.bucket.level += self.scenario.rejection_cost * cost;
            let exact = Duration::from_millis((1000.0 * over / capacity).floor() as u64 + 1);
            return Answer::Refused(match self.scenario.advice {
                Advice::Exact => Some(exact),
                Advice::WholeSeconds => Some(Duration::from_secs(exact.as_secs_f64().ceil() as u64)),
                Advice::Missing => None,
            });
        }
        self.bucket.add(&self.scenario, cost);
        self.last_admission = at;
        if self.measures(at) {
            self.admitted += cost;
            self.successes += 1;
        }
        Answer::Taken((self.scenario.server == ServerKind::Headers).then(|| Stated {
            limit: self.scenario.bucket() as u64,
            remaining: (self.scenario.bucket() - self.bucket.level).max(0.0) as u64,
            reset: Duration::from_secs_f64(self.bucket.level / capacity),
        }))
    }

    /// When the oracle sends a call that comes now.
    pub(crate) fn plan(&mut self, cost: f64, deadline: f64) -> Option<f64> {
        let one_way = self.scenario.one_way;
        let earliest = self.start.elapsed().as_secs_f64() + one_way;
        let arrival = self.plan.admit(&self.scenario, cost, earliest, deadline + one_way)?;
        Some(arrival - one_way)
    }
}
