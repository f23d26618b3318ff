//! The scenarios of the lab.

use crate::model::{Advice, Scenario, ServerKind};
use crate::strategy::Strategy;
use crate::zoo;

/// One scenario with its name; cases of one name differ in numbers.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// What tells it from others of its name, where callers, processes and load do not.
    pub(crate) variant: String,
    pub(crate) scenario: Scenario,
    pub(crate) quick: bool,
}

/// The replay of recorded waits, which is no case of the model.
pub(crate) const RECORDED: &str = "recorded";

impl Case {
    /// Who plays it.
    pub(crate) fn strategies(&self) -> impl Iterator<Item = Strategy> {
        let left_out = self.left_out();
        Strategy::ALL.into_iter().filter(move |strategy| !left_out.contains(strategy))
    }

    /// Who is left out of a quick run, because hundreds of callers who all repeat take minutes: for half an
    /// hour, or with as many clients.
    pub(crate) fn left_out(&self) -> Vec<Strategy> {
        let Scenario { callers, processes, seconds, .. } = self.scenario;
        let is_short = !self.quick || callers < 500 || (seconds < 200.0 && processes <= 8);
        let is_slow = |strategy: &Strategy| strategy.is_peer() && *strategy != Strategy::Aws && !is_short;
        Strategy::ALL.into_iter().filter(is_slow).collect()
    }

    /// The bucket is small for its callers.
    pub(crate) fn is_small_quota(&self) -> bool {
        is_small(self.scenario.callers, self.scenario.capacity)
    }

    /// Name and numbers; no two cases share a title.
    pub(crate) fn title(&self) -> String {
        let Scenario { callers, processes, capacity, load, .. } = self.scenario;
        let mut title = self.name.to_owned();
        if !self.variant.is_empty() {
            title = format!("{title} ({})", self.variant);
        }
        title = format!("{title}, {callers} callers, {capacity} tokens/s");
        if load > 0.0 {
            title = format!("{title}, {load}x");
        }
        if processes > 1 {
            title = format!("{title}, {processes} processes");
        }
        title
    }
}

/// Callers and the capacity that is scaled to them, in tokens a second.
const SIZES: [(usize, f64); 3] = [(8, 4_000.0), (64, 32_000.0), (512, 256_000.0)];
const LOADS: [f64; 3] = [0.8, 1.2, 3.0];

fn is_small(callers: usize, capacity: f64) -> bool {
    capacity < 500.0 * callers as f64
}

/// The name of a scenario, where there is one of that name.
///
/// # Errors
///
/// The names that there are.
pub(crate) fn known(name: String) -> Result<String, String> {
    let mut names = Vec::new();
    for other in all(true).iter().map(|case| case.name).chain([RECORDED]).chain(zoo::PARTS) {
        if !names.contains(&other) {
            names.push(other);
        }
    }
    if names.contains(&&*name) {
        return Ok(name);
    }
    Err(format!("no scenario is called {name}; there are {}", names.join(", ")))
}

/// All cases; the quick ones measure for a shorter time where much happens in it.
pub(crate) fn all(quick: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name, variant: &str, scenario: Scenario| {
        cases.push(Case { name, variant: variant.into(), scenario, quick });
    };
    let timed = |scenario: Scenario| if quick { shorter(scenario) } else { scenario };
    let plain = |callers, capacity, load| timed(Scenario::ptu(callers, capacity, load, 0));
    let small = |callers, capacity| if is_small(callers, capacity) { "small quota" } else { "" };

    for (callers, capacity) in SIZES.into_iter().chain([(64, 4_000.0), (512, 4_000.0)]) {
        for load in LOADS {
            add("ptu", small(callers, capacity), plain(callers, capacity, load));
        }
    }
    for processes in [8, 64] {
        for (callers, capacity) in [(64, 32_000.0), (512, 256_000.0)] {
            add("ptu", "", Scenario { processes, ..plain(callers, capacity, 3.0) });
        }
    }
    for (callers, capacity) in SIZES.into_iter().chain([(512, 32_000.0)]) {
        let mut batch = Scenario::ptu(callers, capacity, 0.0, 0);
        (batch.warm_up, batch.seconds) = (0.0, 300.0);
        add("batch", small(callers, capacity), batch);
    }
    for (callers, capacity) in SIZES {
        for (rejection_cost, variant) in [(0.1, "10 %"), (1.0, "100 %")] {
            add("costly-rejections", variant, Scenario { rejection_cost, ..plain(callers, capacity, 3.0) });
        }
    }
    add("costly-rejections", "100 %", Scenario { rejection_cost: 1.0, ..plain(64, 32_000.0, 1.2) });
    for (callers, capacity) in SIZES {
        for (step, variant) in [(0.5, "halved"), (2.0, "doubled")] {
            // Ten minutes of a changed capacity, however quick.
            add("capacity-step", variant, Scenario { step, ..Scenario::ptu(callers, capacity, 3.0, 0) });
        }
    }
    for processes in [1, 8] {
        for load in [1.2, 3.0] {
            let scenario = Scenario { processes, server: ServerKind::Headers, ..plain(64, 32_000.0, load) };
            // The bucket of a minute has to be emptied first.
            let seconds = scenario.seconds.max(600.0);
            add("header-server", "", Scenario { warm_up: 400.0, seconds, ..scenario });
        }
    }
    for (callers, capacity) in SIZES {
        for (budget, variant) in [(0.5, "0.5 s"), (2.0, "2 s")] {
            add("short-budget", variant, Scenario { budget, ..plain(callers, capacity, 3.0) });
        }
    }
    for (callers, capacity) in SIZES {
        for load in [1.2, 3.0] {
            let base = plain(callers, capacity, load);
            add("coarse-advice", "", Scenario { advice: Advice::WholeSeconds, ..base });
            add("missing-advice", "", Scenario { advice: Advice::Missing, ..base });
        }
    }
    for (callers, capacity) in SIZES {
        add("hidden-tenant", "30 %", Scenario { tenant: 0.3, ..plain(callers, capacity, 3.0) });
    }
    for (callers, capacity) in SIZES {
        add(
            "reserving-server",
            "1.5x of the cost",
            Scenario { reserve: 1.5, ..plain(callers, capacity, 3.0) },
        );
    }
    for (depth, variant) in [(1.0, "1 s"), (60.0, "60 s")] {
        add("bucket-depth", variant, Scenario { depth, ..plain(64, 32_000.0, 3.0) });
    }
    add("slow-network", "200 ms", Scenario { one_way: 0.1, ..plain(64, 32_000.0, 3.0) });
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
