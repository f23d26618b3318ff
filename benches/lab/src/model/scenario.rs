//! What a run is made of, and what came out of it.

/// What a scenario is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) callers: usize,
    pub(crate) processes: usize,
    /// Tokens a second.
    pub(crate) capacity: f64,
    /// Offered load as a multiple of the capacity; 0 for a batch of `seconds` of work.
    pub(crate) load: f64,
    /// The latency budget of a call in seconds.
    pub(crate) budget: f64,
    pub(crate) warm_up: f64,
    pub(crate) seconds: f64,
    /// The share of its cost that a refused call is charged.
    pub(crate) rejection_cost: f64,
    pub(crate) advice: Advice,
    /// The factor on the capacity during the middle third.
    pub(crate) step: f64,
    /// The share of the capacity that somebody unseen takes.
    pub(crate) tenant: f64,
    /// What the server sets aside for a call, as a multiple of its cost; the excess is given back at the call's end.
    pub(crate) reserve: f64,
    /// Seconds of capacity that a leaky bucket holds.
    pub(crate) depth: f64,
    /// Seconds on the network, one way.
    pub(crate) one_way: f64,
    pub(crate) server: ServerKind,
    /// By how many seconds at most the way to the server is longer for one request than for another, and the seed of
    /// that; the calls are those of `seed`.
    pub(crate) wobble: (f64, u64),
    /// Whether every arrival at the server is kept.
    pub(crate) traced: bool,
    pub(crate) seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Advice {
    Exact,
    WholeSeconds,
    Missing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ServerKind {
    /// A provisioned deployment: nothing but refusals.
    Leaky,
    /// A token bucket of a minute's worth that states its limit in headers.
    Headers,
}

impl Scenario {
    pub(crate) fn ptu(callers: usize, capacity: f64, load: f64, seed: u64) -> Self {
        Self {
            callers,
            processes: 1,
            capacity,
            load,
            budget: 60.0,
            warm_up: 300.0,
            seconds: 1800.0,
            rejection_cost: 0.0,
            advice: Advice::Exact,
            step: 1.0,
            tenant: 0.0,
            reserve: 1.0,
            depth: 5.0,
            one_way: 0.025,
            server: ServerKind::Leaky,
            wobble: (0.0, 0),
            traced: false,
            seed,
        }
    }

    /// Tokens a second at a moment, in seconds from the start.
    pub(super) fn capacity_at(&self, at: f64) -> f64 {
        let [from, to] = self.changes();
        if (from..to).contains(&at) { self.step * self.capacity } else { self.capacity }
    }

    /// When the capacity changes, and when it is as before.
    pub(super) fn changes(&self) -> [f64; 2] {
        [self.warm_up + self.seconds / 3.0, self.warm_up + 2.0 * self.seconds / 3.0]
    }

    /// The tokens that the server's bucket holds.
    pub(super) fn bucket(&self) -> f64 {
        let depth = match self.server {
            ServerKind::Leaky => self.depth,
            ServerKind::Headers => 60.0,
        };
        depth * self.capacity
    }

    pub(crate) fn is_batch(&self) -> bool {
        self.load <= 0.0
    }
}

/// What came out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// The cost admitted, as a share of what the server could have admitted; of a batch, over the time it took.
    pub(crate) goodput: f64,
    pub(crate) rejections_per_success: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Share of calls.
    pub(crate) failed: f64,
    /// The most refusals in one second after the first.
    pub(crate) peak: f64,
    /// Mean seconds until a call that failed was told so.
    pub(crate) refusal: f64,
    /// The moment of the last admission.
    pub(crate) makespan: f64,
}

impl Figures {
    /// The mean over runs; of the peaks the highest.
    pub(crate) fn mean(runs: &[Self]) -> Self {
        let mean = |field: fn(&Self) -> f64| runs.iter().map(field).sum::<f64>() / runs.len() as f64;
        Self {
            goodput: mean(|run| run.goodput),
            rejections_per_success: mean(|run| run.rejections_per_success),
            p50: mean(|run| run.p50),
            p99: mean(|run| run.p99),
            failed: mean(|run| run.failed),
            peak: runs.iter().map(|run| run.peak).fold(0.0, f64::max),
            refusal: mean(|run| run.refusal),
            makespan: mean(|run| run.makespan),
        }
    }
}
