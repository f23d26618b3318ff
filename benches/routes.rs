//! What a call that does not spill pays for routes being configured: `cargo bench --bench routes`.
//!
//! Runs itself under valgrind's callgrind, for the same call with and without routes, twice each with different numbers
//! of rounds, so that the start cancels out. Fails where routes add more than 2 % of the call's instructions. Without
//! valgrind it says so and measures nothing.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;
use std::hint::black_box;
use std::process::Command;

use async_trait::async_trait;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::{Body, Request, Response, ResponseBuilderExt as _, Url};
use reqwest_admission::{Admission, Deployment};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const FEW: u32 = 200;
const MANY: u32 = 1_200;
const CASES: [&str; 3] = ["without", "two routes", "two routes of a named primary"];
const MOST: f64 = 1.02;
const URL: &str = "https://api.openai.com/v1/chat/completions";
const REQUEST: &[u8] = br#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"hello"}]}"#;

/// The limits of a success of OpenAI's.
const SUCCESS: [(&str, &str); 7] = [
    ("content-type", "application/json"),
    ("x-ratelimit-limit-requests", "10000"),
    ("x-ratelimit-limit-tokens", "2000000"),
    ("x-ratelimit-remaining-requests", "9999"),
    ("x-ratelimit-remaining-tokens", "1999940"),
    ("x-ratelimit-reset-requests", "6ms"),
    ("x-ratelimit-reset-tokens", "1m26.4s"),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments {
        ["--case", case, rounds] => run(case, rounds.parse()?),
        _ if arguments.contains(&"--bench") => table(),
        // `cargo test` only wants to see that the cases run.
        _ => CASES.iter().try_for_each(|case| run(case, 1)),
    }
}

fn table() -> Result<()> {
    let found = Command::new("valgrind").arg("--version").output();
    if !found.is_ok_and(|found| found.status.success()) {
        println!("valgrind is not there, so no instructions are counted; install it to run this bench");
        return Ok(());
    }
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

/// The instructions of one call.
fn per_round(case: &str) -> Result<f64> {
    let (few, many) = (instructions(case, FEW)?, instructions(case, MANY)?);
    Ok((many - few) / f64::from(MANY.saturating_sub(FEW)))
}

fn instructions(case: &str, rounds: u32) -> Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["--case", case, &rounds.to_string()])
        .output()?;
    let log = String::from_utf8_lossy(&output.stderr);
    let collected = log.lines().find_map(|line| line.split_once("Collected : "));
    match collected {
        Some((_, count)) if output.status.success() => Ok(count.trim().parse()?),
        _ => Err(log.into_owned().into()),
    }
}

fn run(case: &str, rounds: u32) -> Result<()> {
    let routed = || {
        let azure = Deployment::azure_openai("standard", "https://standby.example", "gpt").api_key("0123");
        Admission::builder().spill_to(azure).spill_to(Deployment::new("last", "https://last.example"))
    };
    let admission = match case {
        "without" => Admission::builder(),
        "two routes" => routed(),
        _ => routed().primary("https://api.openai.com/v1"),
    };
    let mut request = Request::new(Method::POST, URL.parse()?);
    request
        .headers_mut()
        .insert("authorization", HeaderValue::from_static("Bearer sk-0123456789abcdef0123456789abcdef"));
    *request.body_mut() = Some(REQUEST.into());
    let origin = Origin { url: request.url().clone(), headers: headers(&SUCCESS) };
    let client = ClientBuilder::new(reqwest::Client::new()).with(admission.build()?).with(origin).build();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(calls(&client, &request, rounds))
}

async fn calls(client: &ClientWithMiddleware, request: &Request, rounds: u32) -> Result<()> {
    for _ in 0..rounds {
        let request = request.try_clone().ok_or("the body is no stream")?;
        black_box(client.execute(request).await?.bytes().await?);
    }
    Ok(())
}

fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    lines
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

/// Answers every request alike, without a socket.
struct Origin {
    url: Url,
    headers: HeaderMap,
}

#[async_trait]
impl Middleware for Origin {
    async fn handle(
        &self,
        request: Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        drop(request);
        let mut response = http::Response::builder()
            .url(self.url.clone())
            .body(Body::from("{}"))
            .map_err(reqwest_middleware::Error::middleware)?;
        *response.headers_mut() = self.headers.clone();
        Ok(response.into())
    }
}
