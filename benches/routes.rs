//! What a call that does not spill pays for routes being configured: `cargo bench --bench routes`.
//!
//! Counts the instructions of the same call with and without routes, and fails where routes add more than 2 % to them.

use reqwest_admission::{Admission, Deployment};
use reqwest_middleware::ClientBuilder;

#[path = "callgrind/mod.rs"]
mod callgrind;
#[path = "stack/mod.rs"]
mod stack;

use callgrind::{Result, per_round};
use stack::Stack;

const CASES: [&str; 3] = ["without", "two routes", "two routes of a path"];
const MOST: f64 = 1.02;

fn main() -> Result<()> {
    callgrind::main(CASES, run, table)
}

fn table() -> Result<()> {
    let without = per_round("without")?;
    println!("{:30} {:>14} {:>8}", "a call", "instructions", "ratio");
    let mut worst = 1.0_f64;
    for case in CASES {
        let count = per_round(case)?;
        worst = worst.max(count / without);
        println!("{case:30} {count:14.0} {:8.4}", count / without);
    }
    if worst > MOST {
        return Err(format!("routes cost a call that does not spill more than allowed: {worst:.4}").into());
    }
    Ok(())
}

fn run(case: &str, rounds: u32) -> Result<()> {
    let routed = || {
        let azure = Deployment::azure_openai("standard", "https://standby.example", "gpt").api_key("0123");
        Admission::builder().spill_to(azure).spill_to(Deployment::new("last", "https://last.example"))
    };

    let admission = match case {
        "without" => Admission::builder(),
        "two routes" => routed().primary("https://api.openai.com"),
        _ => routed().primary("https://api.openai.com/v1"),
    };
    Stack::over_origin(ClientBuilder::new(reqwest::Client::new()).with(admission.build()?))?.calls(rounds)
}
