use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const CAPACITY: f64 = 2.0;
const WAIT: f64 = 1.0;

/// Pairs of anchors, one after another.
#[derive(Default)]
struct Course {
    kind: Independent,
    rate: f64,
    now: f64,
}

impl Course {
    fn new() -> Self {
        Self { rate: 2.5, ..Self::default() }
    }

    /// `calls` pass at `pace`, then one is refused; the rate follows the verdict, or else what the pair implies.
    fn refused(&mut self, calls: f64, pace: f64) {
        let span = WAIT + calls / pace;
        let sent_at = self.now + calls / pace;
        self.now += span;
        let last = Last { wait: WAIT, is_advised: true, is_early: true, sent_at, now: sent_at };
        let pair = Pair { cost: calls, refusals: 1.0, span, closed: WAIT, rate: self.rate, mean: 1.0, last };
        let implied = calls / span;
        self.rate = match self.kind.pair(&pair) {
            Verdict::Limit => implied,
            Verdict::AtLeast(least) => implied.max(least),
            Verdict::Keep => self.rate,
            Verdict::Set(rate) => rate,
        };
    }

    /// At a limit what goes through between two anchors is the capacity times the time, if callers reach it.
    fn refused_at_limit(&mut self, most: f64) {
        let pace = self.rate.clamp(1.1 * CAPACITY, most);
        self.refused(CAPACITY * WAIT / (1.0 - CAPACITY / pace), pace);
    }

    fn is_on_trial(&self) -> bool {
        matches!(self.kind.phase, Phase::Trial { .. })
    }
}

/// Whether callers reach the rate that is tried or not, nothing more goes through.
#[test]
fn a_limit_is_never_taken_for_anything_else_and_trials_are_few() {
    for most in [1.2 * CAPACITY, 3.0 * CAPACITY, f64::MAX] {
        let mut course = Course::new();
        let mut tried = 0_u32;
        for _ in 0..1_000 {
            course.refused_at_limit(most);
            assert!(!course.kind.is_certain(), "up to {most}");
            tried += u32::from(course.is_on_trial());
        }
        // Nine end a trial, and 24 come before the next; before the first ones 4, 8 and 16.
        assert!((1..=300).contains(&tried), "up to {most}: {tried} of 1000 refusals were those of trials");
    }
}

#[test]
fn a_refuser_is_told_from_a_limit_and_a_limit_from_a_refuser() {
    let mut course = Course::new();
    for _ in 0..30 {
        course.refused(10.0, course.rate);
    }
    assert!(course.kind.is_certain());
    for refusals in 1.. {
        assert!(refusals < 40, "a limit is still not found out");
        course.refused_at_limit(f64::MAX);
        if course.kind.is_limit() {
            break;
        }
    }
    assert!(course.kind.doubt >= 8.0, "the next trial comes much later");
}

/// However long it is: a pause of the refuser's must not be enough.
#[test]
fn no_single_gap_wins_a_trial() {
    let mut course = Course::new();
    while !course.is_on_trial() {
        course.refused_at_limit(f64::MAX);
    }
    course.refused(1_000.0, 3.0 * CAPACITY);
    assert!(!course.kind.is_certain());
}

#[test]
fn what_a_lost_trial_carried_is_not_given_up_at_once() {
    let mut course = Course::new();
    while !course.is_on_trial() {
        course.refused(10.0, course.rate);
    }
    while course.is_on_trial() {
        course.refused(1.0, course.rate);
    }
    let carried = course.kind.floor;
    assert!(carried > 0.0);
    course.refused(10.0, 0.1 * carried);
    assert!(course.rate >= 0.9 * carried, "{} of {carried}", course.rate);
}

/// Pairs as no honest server makes them, each so often that phases begin and end by it.
fn pairs() -> impl Strategy<Value = (u32, Pair)> {
    let amount = || prop_oneof![Just(0.0), 0.0..100.0_f64, Just(1e15)];
    let refusals = prop_oneof![4 => Just(1.0), 1 => Just(0.0), 1 => 0.0..1e6_f64];
    let span = prop_oneof![Just(0.01), 0.01..100.0_f64, 0.01..1e7_f64];
    let closed = prop_oneof![Just(0.0), Just(1.0), 0.0..1.0_f64];
    let rate = prop_oneof![Just(f64::MIN_POSITIVE), 0.01..100.0_f64, Just(1e15)];
    let mean = prop_oneof![4 => Just(1.0), 1 => 1e-3..1e3_f64, 1 => Just(1e15)];
    let wait = prop_oneof![Just(0.0), 0.0..10.0_f64, Just(1e6)];
    (1..50_u32, amount(), refusals, span, closed, rate, mean, (wait, any::<bool>(), any::<bool>())).prop_map(
        |(repeats, cost, refusals, span, closed, rate, mean, (wait, is_advised, is_early))| {
            let last = Last { wait, is_advised, is_early, sent_at: 0.0, now: 0.0 };
            (repeats, Pair { cost, refusals, span, closed: closed * span, rate, mean, last })
        },
    )
}

proptest! {
    #[test]
    fn no_pairs_make_an_estimate_that_is_no_number(series in vec(pairs(), 1..20)) {
        let mut kind = Independent::default();
        let mut rate = 1.0_f64;
        for (repeats, pair) in series {
            // The estimate that follows the verdicts, or any other.
            let follows = pair.rate < 100.0;
            for _ in 0..repeats {
                let verdict = kind.pair(&Pair { rate: if follows { rate } else { pair.rate }, ..pair });
                if let Verdict::AtLeast(told) | Verdict::Set(told) = verdict {
                    prop_assert!(told.is_finite() && told >= 0.0, "{told} by {pair:?} of {kind:?}");
                    rate = told.clamp(pair.mean / 15.0, 1e15);
                }
                let Independent { odd, gap, usual, before, patience, ratio, doubt, floor, .. } = kind;
                let known = [odd, gap, usual, before, patience, ratio, floor];
                prop_assert!(known.iter().all(|known| known.is_finite()), "{pair:?}: {kind:?}");
                prop_assert!(doubt >= 0.0);
            }
        }
    }
}
