//! Step responses: limits that change, and how soon the callers get what is allowed then.

use super::cell::{Cell, Goal};
use super::dialect::{Advice, Dialect, Voice};
use super::limit::Limit;
use super::runs::Played;
use super::server::{Rule, Spec};
use crate::targets::Check;

/// When everything changes.
pub(crate) const AT: f64 = 100.0;
/// Seconds that are watched after that.
const AFTER: f64 = 140.0;
/// Refusals are held against successes for so many seconds.
const MEANWHILE: usize = 60;
/// A share of what is allowed, over so many seconds, is being back.
const BACK: f64 = 0.9;
const SPAN: usize = 5;
const FAMILY: &str = "changes";
/// The period of the ramp.
const DAY: f64 = 400.0;

/// How a limit speaks, and its burst as seconds of its rate; none is a spacing.
const VOICES: [(&str, Advice, f64); 3] = [
    ("exact advice", Advice::Milliseconds, 2.0),
    ("no advice", Advice::Nothing, 2.0),
    ("no burst", Advice::Nothing, 0.0),
];

/// A change and the time there is to follow it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) name: &'static str,
    pub(crate) cell: Cell,
    /// From when on being back is counted.
    pub(crate) from: f64,
    pub(crate) within: f64,
}

pub(crate) fn all() -> Vec<Change> {
    let mut changes = Vec::new();
    for (said, advice, seconds) in VOICES {
        let limit = |rate: f64| Limit::Bucket { rate, burst: (seconds * rate).max(1.0), delays: false };
        let to = |before: f64, after: f64| {
            vec![Rule::between(0.0, AT, limit(before)), Rule::between(AT, f64::INFINITY, limit(after)).then()]
        };
        let refusing =
            |seconds: f64| vec![Rule::always(limit(20.0)), Rule::between(AT, AT + seconds, Limit::Closed)];
        let cell = |name: &str, rules: Vec<Rule>| {
            let spec = Spec { rules, voice: Voice::new(Dialect::Silent, advice), banned: None };
            of(format!("{name}, {said}"), spec)
        };
        let mut add = |name, rules, from, within| {
            changes.push(Change { name, cell: cell(name, rules), from, within });
        };
        add("x 1/8", to(40.0, 5.0), AT, 30.0);
        add("x 8", to(5.0, 40.0), AT, 45.0);
        add("x 16", to(2.5, 40.0), AT, 45.0);
        add("vanishes", vec![Rule::between(0.0, AT, limit(5.0))], AT, 45.0);
        add("appears", vec![Rule::between(AT, f64::INFINITY, limit(20.0))], AT, 30.0);
        add("refuses all for 20 s", refusing(20.0), AT + 20.0, 30.0);
        add("refuses all for 60 s", refusing(60.0), AT + 60.0, 30.0);
    }
    let at_once = |most| Limit::InFlight { most };
    for (name, before, after) in [("concurrency falls", 20, 4), ("concurrency rises", 4, 20)] {
        let rules =
            vec![Rule::between(0.0, AT, at_once(before)), Rule::between(AT, f64::INFINITY, at_once(after))];
        let spec = Spec { rules, voice: Voice::new(Dialect::Silent, Advice::Nothing), banned: None };
        changes.push(Change { name, cell: of(name.into(), spec), from: AT, within: 30.0 });
    }
    changes
}

fn of(name: String, spec: Spec) -> Cell {
    Cell { callers: 40, warm_up: AT, seconds: AFTER, ..Cell::new(FAMILY, name, spec, Goal::UNADVISED) }
}

/// A limit that goes from 5 to 40 a second and back, as over a day.
pub(crate) fn ramps() -> Vec<Cell> {
    let ramp = |(said, advice, seconds): (&str, Advice, f64)| {
        let rate = |at: f64| 22.5 - 17.5 * (std::f64::consts::TAU * at / DAY).cos();
        let rules = (0..2 * DAY as u32)
            .step_by(5)
            .map(|second| {
                let (from, rate) = (f64::from(second), rate(f64::from(second) + 2.5));
                let limit = Limit::Bucket { rate, burst: (seconds * rate).max(1.0), delays: false };
                let rule = Rule::between(from, from + 5.0, limit);
                if second == 0 { rule } else { rule.then() }
            })
            .collect();
        let spec = Spec { rules, voice: Voice::new(Dialect::Silent, advice), banned: None };
        Cell { warm_up: DAY, seconds: DAY, ..of(format!("ramp from 5/s to 40/s and back, {said}"), spec) }
    };
    VOICES.map(ramp).into()
}

/// What a second of a ramp allows on average.
pub(crate) const RAMP_ALLOWS: f64 = 22.5;

impl Change {
    /// Seconds until nine tenths of what is allowed get done again, with one seed.
    pub(crate) fn back_after(&self, played: &Played, seed: usize) -> f64 {
        let done = &played.runs[seed].by_second;
        let enough = BACK * SPAN as f64 * played.allowed[seed];
        let from = self.from as usize;
        let is_back = |second: &usize| done[*second..].iter().take(SPAN).sum::<f64>() >= enough;
        let back = (from..done.len().saturating_sub(SPAN)).find(is_back);
        back.map_or(AFTER, |second| (second - from) as f64)
    }

    /// 429s per success from the change until a minute after its end.
    pub(crate) fn refused_meanwhile(&self, played: &Played, seed: usize) -> f64 {
        let run = &played.runs[seed];
        let span = AT as usize..self.from as usize + MEANWHILE;
        let refused: u32 = run.refused_by_second.get(span.clone()).unwrap_or_default().iter().sum();
        let done: f64 = run.by_second.get(span).unwrap_or_default().iter().sum();
        f64::from(refused) / done.max(1.0)
    }
}

/// A change with its runs.
pub(crate) type PlayedChange = (Change, Played);

/// For each change the slowest to be back and the most refusals, whatever the server says; and the ramps.
pub(crate) fn checks(changes: &[PlayedChange], ramps: &[Played], is_quick: bool) -> Vec<Check> {
    let seeds = changes.first().map_or(0, |(_, played)| played.runs.len());
    let mut names: Vec<&str> = Vec::new();
    for (change, _) in changes {
        if !names.contains(&change.name) {
            names.push(change.name);
        }
    }
    let mut checks = Vec::new();
    for name in names {
        let of = || changes.iter().filter(|(change, _)| change.name == name);
        let most = |figure: fn(&Change, &Played, usize) -> f64| {
            let of_seed =
                |seed| of().map(|(change, played)| figure(change, played, seed)).fold(0.0, f64::max);
            (0..seeds).map(of_seed).collect::<Vec<f64>>()
        };
        let within = of().map(|(change, _)| change.within).fold(0.0, f64::max);
        let case = format!("change: {name}");
        checks.push(Check::of_seeds(
            &case,
            "s until back",
            &most(Change::back_after),
            (false, within),
            is_quick,
        ));
        let refused = most(Change::refused_meanwhile);
        checks.push(Check::of_seeds(&case, "429s per success", &refused, (false, 0.1), is_quick));
    }
    if let Some(seeds) = ramps.first().map(|ramp| ramp.runs.len()) {
        let lowest = |seed| ramps.iter().map(|ramp| ramp.goodput_of(seed)).fold(f64::INFINITY, f64::min);
        let highest = |seed| ramps.iter().map(|ramp| ramp.refused_of(seed)).fold(0.0, f64::max);
        let of = |figure: &dyn Fn(usize) -> f64| (0..seeds).map(figure).collect::<Vec<f64>>();
        let case = "change: ramp from 5/s to 40/s and back";
        checks.push(Check::of_seeds(case, "goodput", &of(&lowest), (true, BACK), is_quick));
        checks.push(Check::of_seeds(case, "429s per success", &of(&highest), (false, 0.1), is_quick));
    }
    checks
}
