//! A cell of the zoo: a server, who calls it, and what is allowed.

use super::limit::Limit;
use super::server::Spec;
use crate::model::Random;

/// What a cell has to show.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A limit and nothing else.
    Limit,
    /// Refusals by chance: held against what is reached with no gate at all.
    Chance,
    /// A fixed window that is stated as it is.
    TrueWindow,
    /// What is stated is not so: held against the cell of this title, whose server states nothing.
    Untrue { twin: String },
    /// Some callers are always refused.
    Banned,
    /// Some callers are of the lowest priority, beside others that leave nothing over.
    Batch,
}

/// What a cell has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Goal {
    /// Share of what is allowed.
    pub(crate) goodput: f64,
    /// 429s per success.
    pub(crate) refused: f64,
}

impl Goal {
    pub(crate) const ADVISED: Self = Self { goodput: 0.95, refused: 0.05 };
    pub(crate) const UNADVISED: Self = Self { goodput: 0.95, refused: 0.08 };
    pub(crate) const IN_FLIGHT: Self = Self { goodput: 0.9, refused: 0.08 };
    pub(crate) const NO_BURST: Self = Self { goodput: 0.88, refused: 0.08 };
    pub(crate) const COUNTS_REFUSED: Self = Self { goodput: 0.85, refused: 0.08 };
    pub(crate) const CHANCE: Self = Self { goodput: 0.9, refused: f64::INFINITY };
}

#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// Cells of one family stand together in the report.
    pub(crate) family: &'static str,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) spec: Spec,
    pub(crate) goal: Goal,
    pub(crate) callers: usize,
    /// So many of the first callers are of the lowest priority.
    pub(crate) batch: usize,
    pub(crate) processes: usize,
    /// Hosts that the callers call by turns, each with a scope of its own and the limits of all.
    pub(crate) scopes: usize,
    /// Seconds that an admitted call takes.
    pub(crate) service: f64,
    /// Whether that is only the mean of an exponential distribution.
    pub(crate) varies: bool,
    /// The spread of lognormal costs; 0 for equal ones.
    pub(crate) sigma: f64,
    /// Calls offered as a multiple of the limit; 0 for callers that never pause.
    pub(crate) load: f64,
    pub(crate) warm_up: f64,
    pub(crate) seconds: f64,
    /// Seconds that a call may take.
    pub(crate) budget: f64,
    pub(crate) attempts: Option<u32>,
    pub(crate) banned_path: &'static str,
    pub(crate) banned_budget: f64,
    /// Whether each process is told that others share its limits.
    pub(crate) is_told: bool,
    /// No gate that is known reaches its goal; `ZOO.md` says why.
    pub(crate) is_out_of_reach: bool,
    pub(crate) is_quick: bool,
}

impl Cell {
    /// Callers that never pause, for 100 s after a warm-up of 20.
    pub(crate) fn new(family: &'static str, name: impl Into<String>, spec: Spec, goal: Goal) -> Self {
        Self {
            family,
            name: name.into(),
            kind: Kind::Limit,
            spec,
            goal,
            callers: 8,
            batch: 0,
            processes: 1,
            scopes: 1,
            service: 0.2,
            varies: false,
            sigma: 0.0,
            load: 0.0,
            warm_up: 20.0,
            seconds: 100.0,
            budget: 30.0,
            attempts: None,
            banned_path: "chat/completions",
            banned_budget: 30.0,
            is_told: false,
            is_out_of_reach: false,
            is_quick: false,
        }
    }

    /// For windows of a minute: five of them, after the one in which nothing is known yet.
    pub(crate) fn for_minutes(self) -> Self {
        Self { warm_up: 73.0, seconds: 300.0, budget: 90.0, ..self }
    }

    /// Name and numbers; no two cells share a title.
    pub(crate) fn title(&self) -> String {
        let Self { name, callers, service, load, .. } = self;
        let load = if *load > 0.0 { format!(", load {load}x") } else { String::new() };
        let processes =
            if self.processes > 1 { format!(" in {} processes", self.processes) } else { String::new() };
        format!("{name}: {callers} callers{processes}, {service} s a call{load}")
    }

    /// Whether this cell is one of the tenth that is kept aside. It goes by the name, so that a server with and without
    /// its headers is on one side.
    pub(crate) fn is_kept_aside(&self) -> bool {
        let title = self.title();
        let group = title.split_once(" [").map_or(title.clone(), |(head, rest)| {
            format!("{head}{}", rest.split_once(']').map_or("", |(_, tail)| tail))
        });
        // FNV-1a.
        let hash = group.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash >> 32).is_multiple_of(10)
    }

    pub(crate) fn cost(&self, random: &mut Random) -> f64 {
        if self.sigma <= 0.0 {
            return 1.0;
        }
        let sigma = self.sigma;
        (sigma * random.normal() - sigma * sigma / 2.0).exp().clamp(0.02, 12.0)
    }

    pub(crate) fn service_time(&self, random: &mut Random) -> f64 {
        if self.varies { random.exponential(self.service) } else { self.service }
    }

    /// Mean seconds between the end of a call and the next.
    pub(crate) fn think(&self, round_trip: f64) -> f64 {
        if self.load <= 0.0 {
            return 0.0;
        }
        let rate = self.load * self.limit(round_trip);
        (self.callers as f64 / rate - self.service - round_trip).max(0.0)
    }

    /// Calls a second that the server's limits admit. A place in a server is taken until the answer has come.
    fn limit(&self, round_trip: f64) -> f64 {
        let in_flight_for = self.service + round_trip / 2.0;
        let limits = self.spec.rules.iter().filter(|rule| rule.to.is_infinite());
        limits.map(|rule| rule.limit.per_second(in_flight_for)).fold(f64::INFINITY, f64::min)
    }

    /// Calls a second that the callers make if none is ever held back.
    pub(crate) fn demand(&self, round_trip: f64) -> f64 {
        let callers = self.callers - self.spec.banned.map_or(0, |banned| banned.callers);
        callers as f64 / (self.service + round_trip + self.think(round_trip))
    }

    /// The work of a second that perfect knowledge gets done.
    pub(crate) fn allowed(&self, round_trip: f64) -> f64 {
        let allowed = self.limit(round_trip).min(self.demand(round_trip));
        match self.spec.banned.and_then(|banned| banned.advice) {
            // Its first refusal may close the scope for all, and the second: nothing can be known before.
            Some(advice) if advice >= 10 => allowed * (1.0 - 2.0 * f64::from(advice) / self.seconds),
            _ => allowed,
        }
    }

    /// Whether there is anything to hold back, or nothing that ever could be.
    pub(crate) fn is_worth_playing(&self, round_trip: f64) -> bool {
        let limits = || self.spec.rules.iter().map(|rule| &rule.limit);
        limits().any(|limit| matches!(limit, Limit::InFlight { .. } | Limit::Chance { .. }))
            || matches!(self.kind, Kind::Banned | Kind::Batch)
            || self.demand(round_trip) >= 0.8 * self.limit(round_trip)
    }
}
