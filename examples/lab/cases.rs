//! The scenarios of the lab.

use crate::model::{Advice, Scenario, ServerKind};
use crate::strategy::Strategy;

/// One scenario with its name; cases of one name differ in numbers.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// What tells it from others of its name, where callers, processes and load do not.
    pub(crate) variant: String,
    pub(crate) scenario: Scenario,
    who: Who,
    quick: bool,
}

/// Which strategies are worth seeing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    All,
    /// Everybody but the oracle, which does not know what is going on here.
    NoOracle,
}

impl Case {
    pub(crate) fn strategies(&self) -> impl Iterator<Item = Strategy> {
        let Self { who, quick, scenario, .. } = *self;
        // What a herd of hundreds does for half an hour takes its time.
        let is_short = !quick || scenario.callers < 500 || scenario.seconds < 200.0;
        Strategy::ALL.into_iter().filter(move |strategy| match strategy {
            Strategy::Oracle => who == Who::All,
            strategy => is_short || !strategy.is_peer() || *strategy == Strategy::Aws,
        })
    }

    /// The bucket is small for its callers.
    pub(crate) fn is_small_quota(&self) -> bool {
        self.scenario.capacity < 500.0 * self.scenario.callers as f64
    }
}

/// Callers and the capacity that is scaled to them, in tokens a second.
const SIZES: [(usize, f64); 3] = [(8, 4_000.0), (64, 32_000.0), (512, 256_000.0)];
const LOADS: [f64; 3] = [0.8, 1.2, 3.0];

/// All cases; the quick ones measure for a shorter time where much happens in it.
pub(crate) fn all(quick: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name, variant: String, scenario: Scenario, who| {
        cases.push(Case { name, variant, scenario, who, quick });
    };
    let timed = |scenario: Scenario| if quick { shorter(scenario) } else { scenario };
    let plain = |callers, capacity, load| timed(Scenario::ptu(callers, capacity, load, 0));
    let none = String::new;

    for (callers, capacity) in SIZES.into_iter().chain([(64, 4_000.0), (512, 4_000.0)]) {
        for load in LOADS {
            let variant = if capacity < 500.0 * callers as f64 { "small quota".into() } else { none() };
            add("ptu", variant, plain(callers, capacity, load), Who::All);
        }
    }
    for callers in [64, 512] {
        let scenario = Scenario { processes: 8, ..plain(callers, 500.0 * callers as f64, 3.0) };
        add("ptu", none(), scenario, Who::NoOracle);
    }
    for (callers, capacity) in SIZES.into_iter().chain([(512, 32_000.0)]) {
        let variant = if capacity < 500.0 * callers as f64 { "small quota".into() } else { none() };
        let mut batch = Scenario::ptu(callers, capacity, 0.0, 0);
        (batch.warm_up, batch.seconds) = (0.0, 300.0);
        add("batch", variant, batch, Who::All);
    }
    for (callers, capacity) in SIZES {
        for (cost, variant) in [(0.1, "10 %"), (1.0, "100 %")] {
            let scenario = Scenario { rejection_cost: cost, ..plain(callers, capacity, 3.0) };
            add("costly-rejections", variant.into(), scenario, Who::All);
        }
    }
    for (callers, capacity) in SIZES {
        for (step, variant) in [(0.5, "halved"), (2.0, "doubled")] {
            // Ten minutes of a changed capacity, however quick.
            let scenario = Scenario { step, ..Scenario::ptu(callers, capacity, 3.0, 0) };
            add("capacity-step", variant.into(), scenario, Who::All);
        }
    }
    for processes in [1, 8] {
        for load in [1.2, 3.0] {
            let scenario = Scenario { processes, server: ServerKind::Headers, ..plain(64, 32_000.0, load) };
            // The bucket of a minute has to be emptied first.
            let scenario = Scenario { warm_up: 400.0, seconds: scenario.seconds.max(600.0), ..scenario };
            add("header-server", none(), scenario, Who::All);
        }
    }
    for (callers, capacity) in SIZES {
        for (budget, variant) in [(0.5, "0.5 s"), (2.0, "2 s")] {
            let scenario = Scenario { budget, ..plain(callers, capacity, 3.0) };
            add("short-budget", variant.into(), scenario, Who::All);
        }
    }
    for (callers, capacity) in SIZES {
        for load in [1.2, 3.0] {
            let base = plain(callers, capacity, load);
            let coarse = Scenario { advice: Advice::WholeSeconds, ..base };
            add("coarse-advice", none(), coarse, Who::All);
            add("missing-advice", none(), Scenario { advice: Advice::Missing, ..base }, Who::All);
        }
    }
    for (callers, capacity) in SIZES {
        let scenario = Scenario { tenant: 0.3, ..plain(callers, capacity, 3.0) };
        add("hidden-tenant", "30 %".into(), scenario, Who::NoOracle);
    }
    cases
}

/// The same with less time where many calls make up for it.
fn shorter(scenario: Scenario) -> Scenario {
    // A small quota is used by few calls, so what it shows takes its time.
    let (warm_up, seconds) = match scenario.capacity {
        ..=10_000.0 => (300.0, 1800.0),
        ..=100_000.0 => (100.0, 300.0),
        _ => (60.0, 60.0),
    };
    Scenario { warm_up, seconds, ..scenario }
}
