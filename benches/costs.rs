//! Time and allocations of single steps: `cargo bench --bench costs`.
//!
//! For orientation only: nanoseconds depend on the machine and on what else it does. What is compared is instructions,
//! see `instructions.rs`. Each case also shows its allocations.

use std::time::{Duration, Instant, SystemTime};

use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher, black_box};
use http::StatusCode;
use reqwest_admission::decision::{Call, Outcome, decide};
use reqwest_admission::gate::{Gate, Priority, Reserve, ScopeKey, Ticket};
use reqwest_admission::jitter::Draw;
use reqwest_admission::pace::{Cost, Limits, TokenEstimate, TokenUsage};
use reqwest_admission::reading::Profile;
use reqwest_admission::{AdmissionPolicy, Reading};

#[path = "stack/mod.rs"]
mod stack;

use stack::{STACKS, SUCCESS, Stack};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// One whole call over a stack; the allocations of the origin and of the request are the same for all.
#[divan::bench(args = STACKS)]
fn call(bencher: Bencher<'_, '_>, name: &str) {
    let (Ok(stack), Ok(runtime)) =
        (Stack::named(name), tokio::runtime::Builder::new_current_thread().enable_all().build())
    else {
        return;
    };
    bencher.bench_local(|| runtime.block_on(stack.call()).ok());
}

type Lines = &'static [(&'static str, &'static str)];

/// Responses that are read often.
const RESPONSES: [(&str, u16, Lines); 4] = [
    ("a success without limits", 200, SUCCESS.split_at(6).0),
    ("a success with six limits", 200, &SUCCESS),
    ("a refusal with Retry-After", 429, &[("retry-after", "7")]),
    (
        "a refusal with a structured field",
        429,
        &[("ratelimit-policy", r#""default";q=100;w=60"#), ("ratelimit", r#""default";r=0;t=30"#)],
    ),
];

#[divan::bench(args = [0, 1, 2, 3])]
fn read(bencher: Bencher<'_, '_>, number: usize) {
    let Some((_, status, lines)) = RESPONSES.get(number) else { return };
    let headers = stack::headers(lines);
    let status = StatusCode::from_u16(*status).unwrap_or_default();
    let profile = Profile::for_host("api.openai.com");
    bencher.bench_local(|| {
        Reading::with_profile(profile, status, black_box(&headers), None, SystemTime::UNIX_EPOCH)
    });
}

#[divan::bench]
fn decide_about_a_refusal(bencher: Bencher<'_, '_>) {
    let headers = stack::headers(&[("retry-after", "7")]);
    let reading = Reading::from_parts(StatusCode::TOO_MANY_REQUESTS, &headers, None, SystemTime::UNIX_EPOCH);
    let (policy, now) = (AdmissionPolicy::default(), Instant::now());
    let call = Call::new(after(now, Duration::from_secs(30)));
    bencher.bench_local(|| decide(&policy, Outcome::Response(black_box(&reading)), &call, now, Draw::ZERO));
}

/// All that the gate does about a call that it lets go.
#[divan::bench(threads = [1, 2])]
fn reserve_and_settle(bencher: Bencher<'_, '_>) {
    let limits =
        Limits::new().requests_per_minute(1_000_000_000_000).tokens_per_minute(1_000_000_000_000_000);
    let (Ok(gate), scope) = (Gate::builder().limits(limits).build(), scope()) else { return };
    let cost = Cost::from(TokenEstimate::new(1_000, 200));
    bencher.counter(ItemsCount::new(1_u32)).bench(|| {
        let now = Instant::now();
        if let Reserve::Granted(mut permit) = gate.reserve(&scope, cost, Priority::Normal, None, now) {
            permit.sent(now);
            permit.settle(TokenUsage::new(900, 100), now);
            permit.finish();
        }
    });
}

#[divan::bench]
fn refusal_with_the_exact_wait(bencher: Bencher<'_, '_>) {
    let Some((gate, scope)) = shut() else { return };
    let now = Instant::now();
    bencher.bench_local(|| gate.reserve(&scope, Cost::request(), Priority::Normal, Some(now), now));
}

/// The drop alone, with that many others in the queue.
#[divan::bench(args = [0, 1_000])]
fn dropped_ticket(bencher: Bencher<'_, '_>, others: usize) {
    let Some((gate, scope)) = shut() else { return };
    let waiting: Vec<_> = (0..others).map(|_| ticket(&gate, &scope, Priority::Normal)).collect();
    bencher.with_inputs(|| ticket(&gate, &scope, Priority::Normal)).bench_local_values(drop);
    drop(waiting);
}

/// The same of one that is served before those others, who are looked at then.
#[divan::bench(args = [1, 1_000])]
fn dropped_first_ticket(bencher: Bencher<'_, '_>, others: usize) {
    let Some((gate, scope)) = shut() else { return };
    let waiting: Vec<_> = (0..others).map(|_| ticket(&gate, &scope, Priority::Normal)).collect();
    bencher.with_inputs(|| ticket(&gate, &scope, Priority::High)).bench_local_values(drop);
    drop(waiting);
}

/// A queue of a thousand that is let go at once: time for each.
#[divan::bench]
fn parked_waiters(bencher: Bencher<'_, '_>) {
    const WAITERS: u32 = 1_000;
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    bencher
        .counter(ItemsCount::new(WAITERS))
        .with_inputs(|| {
            let Some((gate, scope)) = shut() else { return Vec::new() };
            let waiting: Vec<_> =
                (0..WAITERS).filter_map(|_| ticket(&gate, &scope, Priority::Normal)).collect();
            let _ = gate.set_limits(&scope, Limits::new(), Instant::now());
            waiting
        })
        .bench_local_values(|waiting| {
            runtime.block_on(async {
                for ticket in waiting {
                    drop(ticket.await);
                }
            });
        });
}

fn scope() -> ScopeKey {
    ScopeKey::new("https://api.example.com").credential(b"secret")
}

/// A gate whose one call a minute is gone.
fn shut() -> Option<(Gate, ScopeKey)> {
    let gate = Gate::builder().limits(Limits::new().requests_per_minute(1)).build().ok()?;
    let (scope, now) = (scope(), Instant::now());
    if let Reserve::Granted(mut permit) = gate.reserve(&scope, Cost::request(), Priority::Normal, None, now) {
        permit.sent(now);
    }
    Some((gate, scope))
}

fn ticket(gate: &Gate, scope: &ScopeKey, class: Priority) -> Option<Ticket> {
    match gate.reserve(scope, Cost::request(), class, None, Instant::now()) {
        Reserve::Queued(ticket) => Some(ticket),
        Reserve::Granted(_) | Reserve::Refused(_) => None,
    }
}

fn after(now: Instant, duration: Duration) -> Instant {
    now.checked_add(duration).unwrap_or(now)
}
