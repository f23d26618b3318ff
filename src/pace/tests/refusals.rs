//! Refusals in any order against the arithmetic of a scope: long series of the same kind, so that rates are tried, taken for
//! good and doubted again, and between them whatever else a server may say.

use std::time::{Duration, Instant};

use super::{refusal, refuse};
use crate::pace::{Cost, Limits, Pace, RefusedCall, Rules, Sent, TokenEstimate, WaitCause};
use proptest::collection::vec;
use proptest::prelude::*;

/// Refusals of one kind, one after another.
#[derive(Debug, Clone)]
struct Series {
    repeats: u32,
    /// Calls that pass before some are refused, how many are, and what each costs.
    passed: u32,
    refused: u32,
    cost: u64,
    advice: Option<Duration>,
    trip: Duration,
    /// How long nobody calls after a refusal, and how far the clock then steps back.
    pause: Duration,
    back: Duration,
}

fn seconds() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => (1..10_000_u64).prop_map(Duration::from_millis),
        1 => Just(Duration::ZERO),
        1 => Just(Duration::from_nanos(1)),
        1 => (0..1_000_000_u64).prop_map(Duration::from_secs),
    ]
}

fn rarely(most: u64) -> impl Strategy<Value = Duration> {
    prop_oneof![5 => Just(Duration::ZERO), 1 => (0..most).prop_map(Duration::from_millis)]
}

fn series() -> impl Strategy<Value = Series> {
    (
        prop_oneof![1..4_u32, 4..50_u32],
        0..40_u32,
        prop_oneof![4 => Just(1_u32), 1 => 1..12_u32],
        prop_oneof![6 => Just(100), 1 => Just(0), 1 => Just(1), 1 => Just(1_000_000), 1 => Just(u64::MAX)],
        prop_oneof![4 => seconds().prop_map(Some), 1 => Just(None)],
        (0..3_000_u64).prop_map(Duration::from_millis),
        rarely(100_000_000),
        rarely(5_000),
    )
        .prop_map(|(repeats, passed, refused, cost, advice, trip, pause, back)| Series {
            repeats,
            passed,
            refused,
            cost,
            advice,
            trip,
            pause,
            back,
        })
}

struct Course {
    pace: Pace,
    now: Instant,
    /// Nothing may be sent before.
    floor: Instant,
    calls: u64,
}

impl Course {
    fn new() -> Self {
        let now = Instant::now();
        // What is advised holds for all here, whatever the others' luck.
        let rules = Rules { always_for_all: true, ..Rules::default() };
        Self { pace: Pace::with_rules(Limits::new(), rules, now), now, floor: now, calls: 0 }
    }

    fn later(&mut self, time: Duration) {
        self.now = self.now.checked_add(time).unwrap_or(self.now);
    }

    /// Waits as told and sends, unless a call in flight has to end first.
    fn send(&mut self, cost: u64) -> Result<Option<Sent>, TestCaseError> {
        let cost = Cost::from(TokenEstimate::new(cost, 0));
        for _ in 0..100 {
            let wait = self.pace.wait(cost, false, self.now);
            if wait.cause == WaitCause::Nothing {
                prop_assert!(self.now >= self.floor, "{:?} too early", self.floor - self.now);
                return Ok(Some(self.pace.send(cost, self.now)));
            }
            if wait.cause == WaitCause::Concurrency {
                prop_assert!(self.pace.in_flight().count() > 0, "nobody is in flight");
                return Ok(None);
            }
            self.later(wait.time);
        }
        Err(TestCaseError::fail("not let go after a hundred waits"))
    }

    fn passed(&mut self, sent: &Sent) {
        self.calls += 1;
        self.pace.observe(sent, (self.calls, 0), &[], self.now);
        self.pace.succeeded(sent, self.now);
        self.pace.ended();
    }

    fn play(&mut self, series: &Series, draw: f64) -> Result<(), TestCaseError> {
        for _ in 0..series.repeats {
            let mut send = |calls| -> Result<Vec<_>, TestCaseError> {
                let sent = (0..calls).map(|_| self.send(series.cost)).collect::<Result<Vec<_>, _>>()?;
                Ok(sent.into_iter().flatten().collect())
            };
            let (passed, refused) = (send(series.passed)?, send(series.refused)?);
            self.later(series.trip);
            for sent in &passed {
                self.passed(sent);
            }
            for sent in &refused {
                self.calls += 1;
                let refused = RefusedCall { who: (self.calls, 0), draw, ..refusal(series.advice) };
                refuse(&mut self.pace, sent, &refused, self.now);
                let advised = self.now.checked_add(series.advice.unwrap_or_default());
                self.floor = self.floor.max(advised.unwrap_or(self.floor));
            }
            self.is_sound()?;
            self.later(series.pause);
            self.now = self.now.checked_sub(series.back).unwrap_or(self.now);
        }
        Ok(())
    }

    /// No estimate is beside the numbers, nor so low that a call would never go.
    fn is_sound(&self) -> Result<(), TestCaseError> {
        for state in self.pace.unit_states(self.now) {
            prop_assert!(state.mean_cost.is_finite() && state.mean_cost >= 0.0, "{state:?}");
            let Some(capacity) = state.learned_capacity else { continue };
            prop_assert!(capacity.is_finite() && capacity > 0.0 && capacity <= 1e15, "{state:?}");
        }
        Ok(())
    }

    /// When nothing is refused any more, hungry callers are served at a good rate before long.
    fn recovers(&mut self) -> Result<(), TestCaseError> {
        self.now = self.now.max(self.floor);
        let start = self.now;
        let mut last = start;
        for _ in 0..1_000 {
            last = self.now;
            let sent = self.send(100)?.ok_or_else(|| TestCaseError::fail("nobody is in flight"))?;
            self.passed(&sent);
        }
        let took = last.saturating_duration_since(start);
        prop_assert!(took <= Duration::from_secs(600), "a thousand calls took {took:?}");
        Ok(())
    }
}

proptest! {
    #[test]
    fn no_refusals_spoil_an_estimate_or_let_a_call_go_too_early(
        all in vec(series(), 1..8),
        draw in 0.0..1.0_f64,
    ) {
        let mut course = Course::new();
        for series in &all {
            course.play(series, draw)?;
        }
        course.recovers()?;
    }
}
