//! A primary that closes as a real provisioned deployment did, and a healthy standby that takes what it will not.
//!
//! `cargo run --example spill_route` starts both on loopback, deals the 193 recorded waits to 16 accounts of the primary,
//! and has each account send a call every 150 ms with a budget of two seconds. Short waits are honoured on the primary;
//! longer ones, and calls that the gate knows to be turned away, go to the standby, under its own key and path. It prints
//! where calls were answered, why they left and what that cost, and fails if a claim of the summary does not hold.

#[path = "spill_route/server.rs"]
mod server;

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use reqwest_admission::{Admission, CallReport, Deployment, Reason};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use server::Server;
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

const RECORDED: &str = include_str!("../tests/data/ptu_retry_after_ms.csv");
const BODY: &str = r#"{"model":"provisioned","messages":[]}"#;
const STANDBY_KEY: &str = "standby-key";
/// What each call may take in all.
const BUDGET: Duration = Duration::from_secs(2);
/// What is kept of it for the standby.
const RESERVE: Duration = Duration::from_millis(400);
const ACCOUNTS: usize = 16;
const CALLS_PER_ACCOUNT: usize = 160;
const EVERY: Duration = Duration::from_millis(150);

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let advice = recorded_advice()?;
    let mut accounts = HashMap::<String, Vec<Duration>>::new();
    for (n, wait) in advice.iter().enumerate() {
        accounts.entry(account(n % ACCOUNTS)).or_default().push(*wait);
    }
    let primary = Server::primary(accounts, BUDGET - RESERVE)?;
    let standby = Server::standby(STANDBY_KEY)?;

    // No proxy: both are on this machine, whatever the environment says.
    let http = || reqwest::Client::builder().no_proxy();
    // The standby has a client of its own, so that nothing that the primary's client or layers add can reach it. Without
    // `client(..)` that is a plain one.
    let spare = Deployment::openai_compatible("standby", &format!("{}/v1", standby.url()), "pay-as-you-go")
        .client(http().retry(reqwest::retry::never()).build()?)
        .api_key(STANDBY_KEY);
    let admission = Admission::builder()
        .latency_budget(BUDGET)
        .primary(&primary.url())
        .spill_to(spare)
        .spill_reserve(RESERVE)
        .build()?;
    let client = ClientBuilder::new(http().build()?).with(admission).build();

    let took = EVERY * u32::try_from(CALLS_PER_ACCOUNT)?;
    say(format_args!(
        "{ACCOUNTS} accounts send {CALLS_PER_ACCOUNT} calls each in {took:?}; each call may take {BUDGET:?}. The primary \
         closes an account {} times in all, for as long as a real one did; the standby is healthy.\n",
        advice.len()
    ));
    let url = format!("{}/openai/deployments/provisioned/chat/completions?api-version=1", primary.url());
    let calls = send_all(&client, &url).await?;
    Ok(if summarize(&calls, &primary, &standby) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The advice of each recorded refusal, in the order in which they were received.
fn recorded_advice() -> Result<Vec<Duration>, Failure> {
    let rows = RECORDED.lines().filter(|line| !line.starts_with('#')).skip(1);
    let milliseconds = rows.filter_map(|row| row.split(',').nth(1)).map(str::parse);
    Ok(milliseconds.map(|parsed| parsed.map(Duration::from_millis)).collect::<Result<_, _>>()?)
}

fn account(n: usize) -> String {
    format!("account-{n}")
}

/// What became of one call.
struct Call {
    status: Option<StatusCode>,
    took: Duration,
    report: CallReport,
}

impl Call {
    /// Why the call left the primary, and how often it had been sent to it.
    fn left(&self) -> Option<(Reason, u32)> {
        let legs = self.report.legs();
        let first = legs.first()?;
        Some((first.reason()?, first.attempts()))
    }

    /// Whether the primary's last advice went beyond what was left of the budget, less the reserve.
    fn asked_for_too_much(&self) -> bool {
        self.report.legs().first().is_some_and(|leg| {
            leg.attempts() > 0 && leg.took() + leg.advised_wait().unwrap_or_default() > BUDGET - RESERVE
        })
    }
}

async fn send_all(client: &ClientWithMiddleware, url: &str) -> Result<Vec<Call>, Failure> {
    let start = tokio::time::Instant::now();
    let mut calls = JoinSet::new();
    for n in 0..CALLS_PER_ACCOUNT * ACCOUNTS {
        let offset = EVERY * u32::try_from(n / ACCOUNTS)? + EVERY / 16 * u32::try_from(n % ACCOUNTS)?;
        let (client, url) = (client.clone(), url.to_owned());
        calls.spawn(async move {
            tokio::time::sleep_until(start + offset).await;
            let (report, began) = (CallReport::new(), Instant::now());
            let call = client.post(url).header("api-key", account(n % ACCOUNTS)).body(BODY);
            let outcome = call.with_extension(report.clone()).send().await;
            let took = began.elapsed();
            let status = outcome.as_ref().ok().map(reqwest::Response::status);
            if let Ok(response) = outcome {
                response.bytes().await.ok();
            }
            Call { status, took, report }
        });
    }
    Ok(calls.join_all().await)
}

/// Prints what happened, and says whether all claims hold.
fn summarize(calls: &[Call], primary: &Server, standby: &Server) -> bool {
    let (stayed, left): (Vec<&Call>, Vec<&Call>) = calls.iter().partition(|call| call.left().is_none());
    say("answered by   calls   share   added p50   added p99   longest");
    for (name, calls_here) in [("primary", &stayed), ("standby", &left)] {
        let mut times: Vec<_> = calls_here.iter().map(|call| call.took).collect();
        times.sort_unstable();
        let at = |share: usize| {
            times.get(times.len() * share / 100).or(times.last()).copied().unwrap_or_default().as_secs_f64()
                * 1000.0
        };
        let share = 100.0 * fraction(calls_here.len(), calls.len());
        say(format_args!(
            "{name:<11} {:7} {share:6.1} % {:8.1} ms {:8.1} ms {:6.0} ms",
            calls_here.len(),
            at(50),
            at(99),
            at(100)
        ));
    }

    let mut reasons = HashMap::<(&str, bool), usize>::new();
    for (reason, attempts) in left.iter().filter_map(|call| call.left()) {
        *reasons.entry((reason.as_str(), attempts > 0)).or_default() += 1;
    }
    say("\nleft the primary                                     calls");
    for ((reason, sent), count) in &reasons {
        let how = if *sent { "after its refusal" } else { "before sending, as the gate knew" };
        say(format_args!("{:<50} {count:7}", format!("{reason}, {how}")));
    }

    let (at_primary, at_standby) = (primary.counts(), standby.counts());
    say(format_args!("\nthe primary counted {at_primary:?}"));
    let served = calls.iter().filter(|call| call.status == Some(StatusCode::OK)).count();
    let longest_wait = calls.iter().map(|call| call.report.waited()).max().unwrap_or_default();
    let before_sending = left.iter().filter(|call| call.left().is_some_and(|(_, sent)| sent == 0)).count();
    let above_budget = left.iter().filter(|call| call.asked_for_too_much()).count();
    let allowed = above_budget + before_sending;
    say("");
    let claims = [
        (served == calls.len(), format!("every call succeeded: {served} of {}", calls.len())),
        (
            longest_wait <= BUDGET,
            format!("no call waited longer than its budget: at most {longest_wait:.1?} of {BUDGET:?}"),
        ),
        (
            left.len() <= allowed,
            format!(
                "only what had to leave did: {} of {} on the standby, {above_budget} for advice above what was left of the \
                 budget ({} above all of it), {before_sending} turned away by the gate before sending",
                left.len(),
                calls.len(),
                at_primary.long,
            ),
        ),
        (
            at_standby.unauthorized == 0 && at_primary.unauthorized == 0,
            "each deployment saw its own credential only".to_owned(),
        ),
        (at_primary.early == 0, format!("nothing was sent to a closed account: {}", at_primary.early)),
    ];
    for (met, text) in &claims {
        say(format_args!("[{}] {text}", if *met { "ok" } else { "NOT MET" }));
    }
    claims.iter().all(|(met, _)| *met)
}

fn fraction(part: usize, whole: usize) -> f64 {
    let float = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    float(part) / float(whole.max(1))
}

/// Prints a line; a reader that has seen enough (`| head`) is no error.
fn say(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}
