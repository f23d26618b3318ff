//! The arithmetic of a scope against a slow reference, and against numbers that no honest server sends.

use std::time::{Duration, Instant};

use super::{refusal, refuse};
use crate::pace::{Cost, Limits, Pace, RefusedCall, Rules, Sent, TokenEstimate, TokenUsage, WaitCause};
use crate::reading::ServiceLimit;
use crate::units::{QuotaUnit, QuotaUnits};
use proptest::collection::vec;
use proptest::prelude::*;

const UNITS: [QuotaUnit; 6] = [
    QuotaUnit::Requests,
    QuotaUnit::Tokens,
    QuotaUnit::InputTokens,
    QuotaUnit::OutputTokens,
    QuotaUnit::Concurrency,
    QuotaUnit::Quota,
];

/// A token bucket in whole numbers: sixty-billionths of a token, refilled by the nanosecond.
struct Reference {
    per_minute: i128,
    level: i128,
}

const SCALE: i128 = 60_000_000_000;

impl Reference {
    fn new(per_minute: u32) -> Self {
        let per_minute = i128::from(per_minute);
        Self { per_minute, level: per_minute.saturating_mul(SCALE) }
    }

    fn pass(&mut self, nanoseconds: u64) {
        let full = self.per_minute.saturating_mul(SCALE);
        let refill = self.per_minute.saturating_mul(i128::from(nanoseconds));
        self.level = self.level.saturating_add(refill).min(full);
    }

    fn add(&mut self, tokens: i128) {
        let full = self.per_minute.saturating_mul(SCALE);
        let level = self.level.saturating_add(tokens.saturating_mul(SCALE)).min(full);
        // The debt is bounded by an hour's worth.
        self.level = level.max(full.saturating_mul(-60));
    }

    /// Nanoseconds until a call of `tokens` may pass, rounded up.
    fn wait(&self, tokens: u32) -> u64 {
        let needed = i128::from(tokens).min(self.per_minute).saturating_mul(SCALE);
        let missing = needed.saturating_sub(self.level).max(0);
        let rounded = missing.saturating_add(self.per_minute.saturating_sub(1));
        u64::try_from(rounded.checked_div(self.per_minute).unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    Ask(u32),
    Settle(u32),
    GiveBack,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..20_000_000_000_u64).prop_map(Step::Pass),
        (0..5_000_u32).prop_map(Step::Ask),
        (0..5_000_u32).prop_map(Step::Settle),
        Just(Step::GiveBack),
    ];
    vec(step, 1..200)
}

fn tokens(amount: u32) -> Cost {
    Cost::from(TokenEstimate::new(u64::from(amount), 0))
}

fn at(start: Instant, elapsed: Duration) -> Instant {
    start.checked_add(elapsed).unwrap_or(start)
}

/// Any wait is finite, and after it the call is let go or the wait is for something else.
fn released(pace: &mut Pace, cost: Cost, mut now: Instant) -> Option<Instant> {
    for _ in 0..64 {
        let wait = pace.wait(cost, false, now);
        if wait.time.is_zero() {
            return Some(now);
        }
        now = now.checked_add(wait.time)?;
    }
    None
}

fn hostile() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), 0..100_u64, any::<u64>()]
}

fn hostile_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        Just(Duration::from_nanos(1)),
        hostile().prop_map(Duration::from_secs),
        hostile().prop_map(Duration::from_millis),
    ]
}

fn hostile_limit() -> impl Strategy<Value = ServiceLimit> {
    (
        0..UNITS.len(),
        proptest::option::of(hostile_duration()),
        proptest::option::of(hostile()),
        proptest::option::of(hostile()),
        proptest::option::of(hostile_duration()),
        any::<bool>(),
    )
        .prop_map(|(unit, window, limit, remaining, reset, at_once)| {
            let mut stated = ServiceLimit::new(UNITS.get(unit).copied().unwrap_or(QuotaUnit::Tokens));
            (stated.window, stated.limit, stated.remaining, stated.reset) = (window, limit, remaining, reset);
            stated.resets_at_once = at_once;
            stated
        })
}

#[derive(Debug, Clone)]
enum Event {
    Pass(Duration),
    Send(u64, u64),
    Observe(Vec<ServiceLimit>),
    Settle(u64, u64),
    Refuse(Option<Duration>, Vec<usize>, bool, f64),
    End,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (0..100_000_u64).prop_map(|ms| Event::Pass(Duration::from_millis(ms))),
        (hostile(), hostile()).prop_map(|(prompt, output)| Event::Send(prompt, output)),
        vec(hostile_limit(), 0..6).prop_map(Event::Observe),
        (hostile(), hostile()).prop_map(|(input, output)| Event::Settle(input, output)),
        (proptest::option::of(hostile_duration()), vec(0..UNITS.len(), 0..3), any::<bool>(), any::<f64>())
            .prop_map(|(advice, units, alone, draw)| Event::Refuse(advice, units, alone, draw)),
        Just(Event::End),
    ];
    vec(event, 1..100)
}

fn named(units: &[usize]) -> QuotaUnits {
    units.iter().filter_map(|unit| UNITS.get(*unit).copied()).collect()
}

proptest! {
    #[test]
    fn a_configured_level_agrees_with_a_slow_reference(per_minute in 1..100_000_u32, steps in steps()) {
        let start = Instant::now();
        let mut elapsed = Duration::ZERO;
        let mut pace = Pace::new(Limits::new().tokens_per_minute(u64::from(per_minute)), start);
        let mut reference = Reference::new(per_minute);
        let mut out: Vec<(Sent, u32)> = Vec::new();
        for step in steps {
            let now = at(start, elapsed);
            match step {
                Step::Pass(nanoseconds) => {
                    elapsed = elapsed.saturating_add(Duration::from_nanos(nanoseconds));
                    reference.pass(nanoseconds);
                }
                Step::Ask(amount) => {
                    let wait = pace.wait(tokens(amount), false, now);
                    let exact = reference.wait(amount);
                    let told = u64::try_from(wait.time.as_nanos()).unwrap_or(u64::MAX);
                    if amount > 0 {
                        prop_assert!(told.abs_diff(exact) <= 2_000, "told {told} ns, is {exact} ns");
                    }
                    if wait.time.is_zero() {
                        out.push((pace.send(tokens(amount), now), amount));
                        reference.add(0_i128.saturating_sub(i128::from(amount)));
                    } else if exact > 100_000 {
                        // Refused strictly before the promised instant, admitted at it.
                        let mut later = pace.clone();
                        let early = at(now, wait.time.saturating_sub(Duration::from_micros(10)));
                        prop_assert!(!later.wait(tokens(amount), false, early).time.is_zero());
                        let mut later = pace.clone();
                        prop_assert!(later.wait(tokens(amount), false, at(now, wait.time)).time.is_zero());
                    }
                }
                Step::Settle(actual) => {
                    if let Some((mut sent, estimate)) = out.pop() {
                        pace.settle(&mut sent, TokenUsage::new(u64::from(actual), 0), now);
                        pace.ended();
                        reference.add(i128::from(estimate).saturating_sub(i128::from(actual)));
                    }
                }
                Step::GiveBack => {
                    if let Some((sent, estimate)) = out.pop() {
                        pace.give_back(&sent, now);
                        pace.ended();
                        reference.add(i128::from(estimate));
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_is_let_go_before_the_advice_is_over(
        advices in vec((0..600_000_u64, 0..5_000_u64, 0..3_usize), 1..30),
        draw in 0.0..1.0_f64,
    ) {
        let start = Instant::now();
        let mut now = start;
        let rules = Rules { always_for_all: true, ..Rules::default() };
        let mut pace = Pace::with_rules(Limits::new(), rules, now);
        let mut floor = now;
        for (advice, pause, before) in advices {
            let calls: Vec<Sent> = (0..=before).map(|_| pace.send(tokens(100), now)).collect();
            now = at(now, Duration::from_millis(pause));
            for sent in &calls {
                let advice = Duration::from_millis(advice);
                let is_alone = before == 0;
                refuse(&mut pace, sent, &RefusedCall { is_alone, draw, ..refusal(Some(advice)) }, now);
                floor = floor.max(at(now, advice));
            }
            let wait = pace.wait(tokens(100), false, now);
            prop_assert!(at(now, wait.time) >= floor);
            let early = floor.checked_sub(Duration::from_nanos(1)).filter(|early| *early >= now);
            if let Some(early) = early {
                prop_assert!(!pace.wait(tokens(100), false, early).time.is_zero());
            }
        }
    }

    #[test]
    fn whatever_a_server_states_a_configured_limit_is_kept(
        per_minute in 1..200_u32,
        steps in vec((0..3_000_u64, vec(hostile_limit(), 0..3)), 1..100),
    ) {
        let start = Instant::now();
        let mut now = start;
        let mut pace = Pace::new(Limits::new().requests_per_minute(u64::from(per_minute)), start);
        let mut sent = 0_u32;
        for (pause, limits) in steps {
            while pace.wait(Cost::request(), false, now).cause == WaitCause::Nothing {
                let call = pace.send(Cost::request(), now);
                sent = sent.saturating_add(1);
                pace.observe(&call, (0, 0), &limits, now);
                pace.succeeded(&call, now);
                pace.ended();
            }
            now = at(now, Duration::from_millis(pause));
        }
        let elapsed = now.saturating_duration_since(start).as_secs_f64();
        let most = f64::from(per_minute) * (1.0 + elapsed / 60.0);
        prop_assert!(f64::from(sent) <= most + 1e-3, "{sent} instead of {most}");
    }

    #[test]
    fn no_numbers_close_a_scope_for_ever(events in events()) {
        let start = Instant::now();
        let mut now = start;
        let mut pace = Pace::new(Limits::new(), now);
        let mut out: Vec<Sent> = Vec::new();
        for event in events {
            match event {
                Event::Pass(time) => now = at(now, time),
                Event::Send(prompt, output) => {
                    out.push(pace.send(Cost::from(TokenEstimate::new(prompt, output)), now));
                }
                Event::Observe(limits) => {
                    if let Some(sent) = out.last() {
                        pace.observe(sent, (0, 0), &limits, now);
                    }
                }
                Event::Settle(input, output) => {
                    if let Some(sent) = out.last_mut() {
                        pace.settle(sent, TokenUsage::new(input, output), now);
                    }
                }
                Event::Refuse(advice, units, alone, draw) => {
                    if let Some(sent) = out.pop() {
                        // A year's advice is obeyed for a year; here it would only hide everything else.
                        let advice = advice.map(|wait| wait.min(Duration::from_secs(3_600)));
                        let planned = advice.filter(|_| alone).unwrap_or_default();
                        let refused = RefusedCall { exhausted: named(&units), planned, is_alone: alone, draw, ..refusal(advice) };
                        refuse(&mut pace, &sent, &refused, now);
                    }
                }
                Event::End => {
                    if let Some(sent) = out.pop() {
                        pace.succeeded(&sent, now);
                        pace.ended();
                    }
                }
            }
        }
        while out.pop().is_some() {
            pace.ended();
        }
        for state in pace.unit_states(now) {
            let numbers = [state.level, state.capacity, state.rate, state.learned_capacity, Some(state.mean_cost)];
            prop_assert!(numbers.into_iter().flatten().all(f64::is_finite), "{state:?}");
        }
        let opens = released(&mut pace, Cost::request(), now);
        let within = opens.map(|opens| opens.saturating_duration_since(now));
        prop_assert!(within.is_some_and(|within| within <= Duration::from_secs(2 * 3_600)), "{within:?}");
    }

    #[test]
    fn the_concurrency_limit_is_never_exceeded(limit in 1..20_u32, picks in vec(any::<bool>(), 1..200)) {
        let now = Instant::now();
        let mut pace = Pace::new(Limits::new().concurrency(limit), now);
        let mut out = 0_u32;
        for ask in picks {
            if ask {
                let wait = pace.wait(Cost::request(), false, now);
                prop_assert_eq!(wait.cause == WaitCause::Nothing, out < limit);
                if out < limit {
                    let _ = pace.send(Cost::request(), now);
                    out = out.saturating_add(1);
                }
            } else if out > 0 {
                pace.ended();
                out = out.saturating_sub(1);
            }
        }
    }
}
