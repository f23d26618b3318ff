//! Instructions per call of whole stacks, and of the parts of ours: `cargo bench --bench instructions`.
//!
//! Instructions, unlike nanoseconds, are the same on a busy machine.

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;
use reqwest_admission::decision::{Call, Outcome, decide};
use reqwest_admission::gate::{Gate, Priority, Reserve, ScopeKey};
use reqwest_admission::jitter::Draw;
use reqwest_admission::pace::{Cost, Limits, TokenEstimate, TokenUsage};
use reqwest_admission::reading::Profile;
use reqwest_admission::{AdmissionPolicy, Reading};

#[path = "callgrind/mod.rs"]
mod callgrind;
#[path = "stack/mod.rs"]
mod stack;

#[path = "stack/responses.rs"]
mod responses;

use callgrind::{Result, per_round};
use responses::RESPONSES;
use stack::{STACKS, Stack};

/// Parts that are counted by themselves.
const PARTS: [&str; 10] = [
    "read a 200",
    "read a 200: anthropic",
    "read a 200: github",
    "read a 200: ietf",
    "read a 200: ietf, three fields",
    "read a 200: plain",
    "decide a 429",
    "reserve + settle",
    "refusal",
    "queue and drop the first",
];

fn main() -> Result<()> {
    callgrind::main(STACKS.into_iter().chain(PARTS), run, table)
}

fn table() -> Result<()> {
    println!("{:20} {:>10} {:>10} {:>10}", "stack", "a call", "adds", "x retry");
    let counts = STACKS.map(per_round);
    let mut stacks = Vec::new();
    for (name, count) in STACKS.iter().zip(counts) {
        stacks.push((*name, count?));
    }
    let of = |name: &str| stacks.iter().find(|(known, _)| *known == name).map_or(0.0, |(_, count)| *count);
    let (bare, retry) = (of("bare"), of("retry"));
    for (name, count) in &stacks {
        let added = count - bare;
        println!("{name:20} {count:10.0} {added:10.0} {:10.2}", added / (retry - bare));
    }
    for part in PARTS {
        println!("{part:30} {:10.0}", per_round(part)?);
    }
    Ok(())
}

fn run(case: &str, rounds: u32) -> Result<()> {
    match case {
        "read a 200" => reading("openai", rounds)?,
        "decide a 429" => decision(rounds),
        "reserve + settle" => reserving(rounds)?,
        "refusal" => refusal(rounds)?,
        "queue and drop the first" => dropping(rounds)?,
        case if case.starts_with("read a 200: ") => {
            reading(case.trim_start_matches("read a 200: "), rounds)?;
        }
        stack => Stack::named(stack)?.calls(rounds)?,
    }
    Ok(())
}

fn reading(response: &str, rounds: u32) -> Result<()> {
    let known = RESPONSES.iter().find(|(name, ..)| *name == response);
    let (_, host, fields) = known.ok_or_else(|| format!("no response is called {response}"))?;
    let (headers, profile) = (stack::headers(fields), Profile::for_host(host));
    for _ in 0..rounds {
        let headers = black_box(&headers);
        black_box(Reading::with_profile(profile, StatusCode::OK, headers, None, SystemTime::UNIX_EPOCH));
    }
    Ok(())
}

fn decision(rounds: u32) {
    let headers = stack::headers(&[("retry-after", "7")]);
    let reading = Reading::from_parts(StatusCode::TOO_MANY_REQUESTS, &headers, None, SystemTime::UNIX_EPOCH);
    let (policy, now) = (AdmissionPolicy::default(), Instant::now());
    let call = Call::new(now.checked_add(Duration::from_secs(30)).unwrap_or(now));
    for _ in 0..rounds {
        let outcome = Outcome::Response(black_box(&reading));
        black_box(decide(&policy, outcome, &call, now, Draw::ZERO));
    }
}

fn reserving(rounds: u32) -> Result<()> {
    let limits =
        Limits::new().requests_per_minute(1_000_000_000_000).tokens_per_minute(1_000_000_000_000_000);
    let gate = Gate::builder().limits(limits).build()?;
    let scope = ScopeKey::new("https://api.example.com").credential(b"secret");
    let (cost, now) = (Cost::from(TokenEstimate::new(1_000, 200)), Instant::now());
    for _ in 0..rounds {
        if let Reserve::Granted(mut permit) =
            gate.reserve(black_box(&scope), cost, Priority::Normal, None, now)
        {
            permit.sent(now);
            permit.settle(TokenUsage::new(900, 100), now);
            permit.finish();
        }
    }
    Ok(())
}

/// The first of a queue leaves it, and whoever comes after it is looked at.
fn dropping(rounds: u32) -> Result<()> {
    let (gate, scope, now) = shut()?;
    let waiting = [Priority::Normal; 2].map(|class| gate.reserve(&scope, Cost::request(), class, None, now));
    for _ in 0..rounds {
        drop(black_box(gate.reserve(black_box(&scope), Cost::request(), Priority::High, None, now)));
    }
    drop(waiting);
    Ok(())
}

fn refusal(rounds: u32) -> Result<()> {
    let (gate, scope, now) = shut()?;
    for _ in 0..rounds {
        drop(black_box(gate.reserve(black_box(&scope), Cost::request(), Priority::Normal, Some(now), now)));
    }
    Ok(())
}

/// A gate whose one call a minute is gone.
fn shut() -> Result<(Gate, ScopeKey, Instant)> {
    let gate = Gate::builder().limits(Limits::new().requests_per_minute(1)).build()?;
    let scope = ScopeKey::new("https://api.example.com").credential(b"secret");
    let now = Instant::now();
    if let Reserve::Granted(mut permit) = gate.reserve(&scope, Cost::request(), Priority::Normal, None, now) {
        permit.sent(now);
    }
    Ok((gate, scope, now))
}
