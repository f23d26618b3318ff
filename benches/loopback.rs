//! What a call costs as a user would notice it: `cargo bench --bench loopback`.
//!
//! Calls over loopback with kept-alive HTTP/1 connections to a server that answers at once, by one caller and by 64, with and
//! without rate-limit headers in the answers. The client has one thread, the server another. The stacks take turns of a few
//! milliseconds, short enough to find a moment in which the machine does nothing else. A round is as fast as a tenth of
//! a stack's turns, and the minimum of ten rounds is compared with that of the bare client; the median shows how far rounds differ.
//! The last column is the processor time of the client's thread, mean of all turns: less than a user notices, but hardly moved by
//! what else runs. Takes a little over a minute, however busy the machine is.
//!
//! `-- --check` fails where the default client takes more than 1.08 of the bare client's time. `-- --profile "default
//! client" 64 1000` lets 64 callers make a thousand calls each and does nothing else, for a profiler to look at.

#![allow(clippy::indexing_slicing, reason = "a bench with numbers of its own")]

#[path = "loopback/server.rs"]
mod server;
#[path = "stack/mod.rs"]
mod stack;
#[path = "loopback/stacks.rs"]
mod stacks;
#[path = "loopback/times.rs"]
mod times;

use std::sync::Arc;
use std::time::{Duration, Instant};

use server::Server;
use stacks::{BARE, DEFAULT, STACKS, Stack};
use times::{Times, processor_time};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The most that the default client may take, as a multiple of the bare client's time.
const MOST: f64 = 1.08;
const ROUNDS: usize = 10;
const ROUND: Duration = Duration::from_millis(1_500);
/// Callers, and the calls that each makes in a turn.
const CALLERS: [(u32, u32); 2] = [(1, 32), (64, 4)];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = Server::start()?;
    runtime.block_on(async {
        if let Some(at) = arguments.iter().position(|argument| argument == "--profile") {
            let [name, callers, calls] =
                [1, 2, 3].map(|next| arguments.get(at + next).map_or("", String::as_str));
            return profile(&server, name, callers.parse()?, calls.parse()?).await;
        }
        // `cargo test` only sees that all stacks run.
        let (rounds, round) = if has("--bench") { (ROUNDS, ROUND) } else { (1, Duration::ZERO) };
        let worst = compare(&server, rounds, round).await?;
        if has("--check") && worst > MOST {
            return Err(format!(
                "the default client takes {worst:.3} of the bare client's time, {MOST} at most"
            )
            .into());
        }
        Ok(())
    })
}

/// Prints all comparisons; the worst ratio of the default client.
async fn compare(server: &Server, rounds: usize, round: Duration) -> Result<f64> {
    println!("{:22} {:>19} {:>19} {:>19}", "a call", "minimum", "median", "client's processor");
    let mut worst = 0.0_f64;
    for with_limits in [false, true] {
        for (callers, calls) in CALLERS {
            let all = measure(server, with_limits, (callers, calls), rounds, round).await?;
            println!(
                "{callers} callers, {} rate-limit headers",
                if with_limits { "with" } else { "without" }
            );
            let figures = all.each_ref().map(|times| [times.minimum(), times.median(), times.processor()]);
            for (name, own) in STACKS.iter().zip(figures) {
                print!("  {name:20}");
                for (figure, bare) in own.iter().zip(figures[BARE]) {
                    print!(" {figure:8.2} us {:7.3}", figure / bare);
                }
                println!();
            }
            worst = worst.max(figures[DEFAULT][0] / figures[BARE][0]);
        }
    }
    Ok(worst)
}

/// All stacks by turns.
async fn measure(
    server: &Server,
    with_limits: bool,
    (callers, calls): (u32, u32),
    rounds: usize,
    round: Duration,
) -> Result<[Times; STACKS.len()]> {
    let url = server.url(with_limits);
    let mut stacks = Vec::new();
    for name in STACKS {
        let stack = Arc::new(Stack::named(name, &url)?);
        // Opens the connections.
        stack.turn(callers, calls).await?;
        stacks.push(stack);
    }
    let (before, mut turn) = (server.served(), 0);
    let mut times = [(); STACKS.len()].map(|()| Times::default());
    for _ in 0..rounds {
        let start = Instant::now();
        loop {
            turn += 1;
            for place in 0..STACKS.len() {
                // Five is prime, so each step goes through all, and nobody always comes after the same other.
                let chosen = (place * (1 + turn % (STACKS.len() - 1)) + turn) % STACKS.len();
                let processor = processor_time();
                let time = stacks[chosen].turn(callers, calls).await?;
                times[chosen].add_turn(time, processor_time() - processor, callers * calls);
            }
            if start.elapsed() >= round {
                break;
            }
        }
        times.iter_mut().for_each(Times::end_round);
    }
    let sent = turn * STACKS.len() * (callers * calls) as usize;
    if server.served() - before != sent {
        return Err(format!("{} requests for {sent} calls", server.served() - before).into());
    }
    Ok(times)
}

/// Calls of one stack, with rate-limit headers.
async fn profile(server: &Server, name: &str, callers: u32, calls: u32) -> Result<()> {
    let stack = Arc::new(Stack::named(name, &server.url(true))?);
    let time = stack.turn(callers, calls).await?;
    println!("{name}: {} calls in {time:?}", server.served());
    Ok(())
}
