//! What the gate costs a call, in nanoseconds. Measured, not asserted: `cargo test --release --test gate_cost -- --ignored
//! --nocapture`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use reqwest_admission::gate::{Gate, Priority, Reserve, ScopeKey};
use reqwest_admission::pace::{Cost, Limits, TokenEstimate, TokenUsage};
use reqwest_admission::reading::ServiceLimit;
use reqwest_admission::units::QuotaUnit;

const ROUNDS: u32 = 200_000;

/// The best of several runs, in nanoseconds a round.
fn best(name: &str, mut round: impl FnMut()) {
    let mut shortest = Duration::MAX;
    for _ in 0..7 {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            round();
        }
        shortest = shortest.min(start.elapsed());
    }
    println!("{name:52} {:7.1} ns", shortest.as_secs_f64() * 1e9 / f64::from(ROUNDS));
}

fn limits() -> Limits {
    Limits::new().requests_per_minute(1_000_000_000_000).tokens_per_minute(1_000_000_000_000_000)
}

fn one(gate: &Gate, scope: &ScopeKey, cost: Cost, stated: &[ServiceLimit]) {
    let now = Instant::now();
    if let Reserve::Granted(mut permit) = gate.reserve(scope, cost, Priority::Normal, None, now) {
        permit.sent(now);
        let now = Instant::now();
        permit.observe(stated, now);
        permit.settle(TokenUsage::new(900, 100), now);
        permit.finish();
    }
}

/// For an instruction counter: the happy path and nothing else.
#[test]
#[ignore = "a measurement"]
fn happy_path() {
    let scope = ScopeKey::new("https://api.example.com").credential(b"secret");
    let gate = Gate::builder().limits(limits()).build().expect("valid");
    for _ in 0..10_000 {
        one(&gate, &scope, Cost::from(TokenEstimate::new(1_000, 200)), &[]);
    }
}

#[test]
#[ignore = "a measurement"]
fn cost_of_a_call() {
    let cost = Cost::from(TokenEstimate::new(1_000, 200));
    let scope = ScopeKey::new("https://api.example.com").credential(b"secret");
    best("two readings of the clock", || {
        black_box((Instant::now(), Instant::now()));
    });

    let gate = Gate::default();
    best("nothing known: reserve, drop unsent", || {
        black_box(gate.reserve(&scope, cost, Priority::Normal, None, Instant::now())).ignore();
    });
    let gate = Gate::builder().limits(limits()).build().expect("valid");
    best("two limits: reserve, settle, finish", || {
        let now = Instant::now();
        if let Reserve::Granted(mut permit) = gate.reserve(&scope, cost, Priority::Normal, None, now) {
            permit.settle(TokenUsage::new(900, 100), now);
            permit.finish();
        }
    });
    best("two limits: all stations, no headers", || one(&gate, &scope, cost, &[]));
    let mut stated = [ServiceLimit::new(QuotaUnit::Requests), ServiceLimit::new(QuotaUnit::Tokens)];
    for limit in &mut stated {
        limit.limit = Some(1_000_000_000_000_000);
        limit.remaining = Some(999_999_999_999_999);
        limit.reset = Some(Duration::from_secs(1));
    }
    let learning = Gate::default();
    best("two stated limits: all stations, learning", || one(&learning, &scope, cost, &stated));

    let shut = Gate::builder().limits(Limits::new().requests_per_minute(1)).build().expect("valid");
    let now = Instant::now();
    if let Reserve::Granted(mut permit) = shut.reserve(&scope, cost, Priority::Normal, None, now) {
        permit.sent(now);
    }
    best("refusal with the exact wait", || {
        let now = Instant::now();
        black_box(shut.reserve(&scope, cost, Priority::Normal, Some(now), now)).ignore();
    });
    best("queue and drop a ticket", || {
        let now = Instant::now();
        black_box(shut.reserve(&scope, cost, Priority::Normal, None, now)).ignore();
    });
    let waiting: Vec<Reserve> =
        (0..1_000).map(|_| shut.reserve(&scope, cost, Priority::Normal, None, now)).collect();
    best("queue and drop a ticket behind 1,000", || {
        let now = Instant::now();
        black_box(shut.reserve(&scope, cost, Priority::Normal, None, now)).ignore();
    });
    drop(waiting);

    let start = Instant::now();
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                for _ in 0..ROUNDS {
                    one(&gate, &scope, cost, &[]);
                }
            });
        }
    });
    let each = start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS);
    println!("{:52} {each:7.1} ns", "two threads: all stations, per call and thread");
}

/// Drops an answer where dropping is the point.
trait Ignore {
    fn ignore(self);
}

impl Ignore for Reserve {
    fn ignore(self) {
        drop(self);
    }
}
