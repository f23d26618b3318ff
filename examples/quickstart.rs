//! The 193 waits that a real provisioned deployment advised, replayed on loopback.
//!
//! `cargo run --example quickstart` starts a server that refuses each of 193 calls once, sends the calls through a
//! client with [`Admission`], prints a line per decision, and then compares what the client did with what the
//! server's own stopwatch saw. It exits with a failure if a claim of the summary does not hold.
//!
//! Most of these waits are about 40 ms, so a machine that is busy with something else shows in the times. A bare client
//! beside it, which sleeps exactly as long as advised, tells how much of the lateness is the machine's.

#[path = "quickstart/server.rs"]
mod server;

use std::error::Error;
use std::fmt::{self, Display};
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use reqwest_admission::gate::ScopeKey;
use reqwest_admission::observe::DecisionEvent;
use reqwest_admission::{Admission, Reason, SpillOver};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use server::{Deployment, Seen};
use tokio::task::JoinSet;

const RECORDED: &str = include_str!("../tests/data/ptu_retry_after_ms.csv");

const BODY: &str = r#"{"messages":[]}"#;

/// What each call may take in all.
const BUDGET: Duration = Duration::from_secs(2);

/// How many calls are under way at a time.
const AT_A_TIME: usize = 4;

/// The most that the median call may wait beyond its advice, as a share of it, on a machine that is not busy.
const ADDED_AT_MEDIAN: f64 = 0.15;

/// What timers and loopback add on such a machine, even for a client that sleeps exactly as long as advised. Where they
/// add more, the claim is given as much more.
const BARE_AT_MEDIAN: f64 = 0.075;

/// How often the times are taken before they count as missed.
const ROUNDS: usize = 3;

/// The exit code if only times were missed, which says more about the machine than of the client.
const TOO_LATE: u8 = 3;

/// The mean time in which a call that cannot be served in time must say so.
const SIGNAL: Duration = Duration::from_millis(50);

tokio::task_local! {
    /// The call that a task works on: observers run in the task of their call.
    static CALL: usize;
}

// One thread for all calls: a wait ends in the thread that sends, without a hop that a busy machine would delay.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    let advice = recorded_advice()?;
    for _ in 0..ROUNDS {
        let claims = replay(&advice).await?;
        for claim in &claims {
            say(format_args!("[{}] {}", claim.verdict, claim.text));
        }
        if claims.iter().all(|claim| claim.verdict == Verdict::Met) {
            return Ok(ExitCode::SUCCESS);
        }
        if claims.iter().any(|claim| claim.verdict == Verdict::Broken) {
            return Ok(ExitCode::FAILURE);
        }
        say("\nThe times suffer if the machine is busy with something else.\n");
    }
    Ok(ExitCode::from(TOO_LATE))
}

/// Sends one call for each advice, and says what was seen.
async fn replay(advice: &[Duration]) -> Result<[Claim; 4], Box<dyn Error + Send + Sync>> {
    let server = Deployment::start(advice)?;
    say(format_args!(
        "A deployment at {} refuses each of {} calls once, with the wait that a real one advised.\n\
         Each call may take {BUDGET:?} in all; {AT_A_TIME} are under way at a time.\n\n\
         call  status  decision",
        server.url(),
        advice.len(),
    ));

    let admission = Admission::builder().latency_budget(BUDGET).observer(print_decision).build()?;
    // No proxy: the server is on this machine, whatever the environment says.
    let http = reqwest::Client::builder().no_proxy().build()?;
    let client = ClientBuilder::new(http.clone()).with(admission).build();
    let bare = Bare { server: Deployment::start(advice)?, http };

    let start = Instant::now();
    let outcomes = send_all(&client, &server.url(), advice, &bare).await?;
    Ok(summarize(&server.seen(), &outcomes, start.elapsed(), &bare.server.seen()))
}

/// The advice of each recorded refusal, in the order in which they were received.
fn recorded_advice() -> Result<Vec<Duration>, Box<dyn Error + Send + Sync>> {
    let rows = RECORDED.lines().filter(|line| !line.starts_with('#')).skip(1);
    let milliseconds = rows.filter_map(|row| row.split(',').nth(1)).map(str::parse);
    Ok(milliseconds.map(|parsed| parsed.map(Duration::from_millis)).collect::<Result<_, _>>()?)
}

/// One line per decision, printed by the middleware's observer.
fn print_decision(event: &DecisionEvent<'_>) {
    let call = CALL.try_with(|call| call + 1).unwrap_or_default();
    let status = event.status.map_or(0, |status| status.as_u16());
    let advice = match (event.source, event.raw_wait) {
        (Some(source), Some(advised)) => format!("{source} asks for {:.0} ms", milliseconds(advised)),
        _ => "no advice".to_owned(),
    };
    let decision = match (event.wait, event.reason) {
        (Some(wait), _) => format!("wait {:.1} ms: {advice}", milliseconds(wait)),
        (None, Some(reason)) => format!("spill over: {advice}, {reason}"),
        (None, None) => format!("{}: attempt {}", event.decision, event.attempt),
    };
    say(format_args!("{call:4}  {status:6}  {decision}"));
}

/// What a caller got.
enum Outcome {
    Response(StatusCode),
    SpilledOver { spill: SpillOver, took: Duration },
}

/// Sends every call, a few at a time, each beside its like from a bare client.
async fn send_all(
    client: &ClientWithMiddleware,
    url: &str,
    advice: &[Duration],
    bare: &Bare,
) -> Result<Vec<Outcome>, Box<dyn Error + Send + Sync>> {
    let calls: Vec<(usize, Duration)> = advice.iter().copied().enumerate().collect();
    let queue = Arc::new(Mutex::new(calls.into_iter()));
    let mut workers = JoinSet::new();
    for _ in 0..AT_A_TIME {
        let (client, url, queue) = (client.clone(), url.to_owned(), Arc::clone(&queue));
        let (http, bare_url) = (bare.http.clone(), bare.server.url());
        let next = move || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        workers.spawn(async move {
            let mut outcomes = Vec::new();
            while let Some((call, advice)) = next() {
                outcomes.push(CALL.scope(call, send(&client, &url, call)).await?);
                if advice <= BUDGET {
                    send_bare(&http, &bare_url, call, advice).await?;
                }
            }
            Ok(outcomes)
        });
    }
    let mut outcomes = Vec::new();
    while let Some(worker) = workers.join_next().await {
        let done: Result<Vec<Outcome>, reqwest_middleware::Error> = worker?;
        outcomes.extend(done?);
    }
    Ok(outcomes)
}

/// The measure for the machine: a client without the middleware, and a server of its own.
struct Bare {
    server: Deployment,
    http: reqwest::Client,
}

/// Sends, sleeps exactly as advised, sends again.
async fn send_bare(http: &reqwest::Client, url: &str, call: usize, advice: Duration) -> reqwest::Result<()> {
    let request = || http.post(url).header("x-call", call).body(BODY).send();
    request().await?.bytes().await?;
    tokio::time::sleep(advice).await;
    request().await?.bytes().await?;
    Ok(())
}

async fn send(
    client: &ClientWithMiddleware,
    url: &str,
    call: usize,
) -> Result<Outcome, reqwest_middleware::Error> {
    let start = Instant::now();
    // The recorded refusals are of different moments. Calls of one scope would share the longest of their waits.
    let scope = ScopeKey::new(url).label(&call.to_string());
    let outcome = client.post(url).header("x-call", call).body(BODY).with_extension(scope).send().await;
    let took = start.elapsed();
    if let Some(spill) = SpillOver::of(&outcome) {
        return Ok(Outcome::SpilledOver { spill: spill.clone(), took });
    }
    let response = outcome?;
    let status = response.status();
    response.bytes().await?;
    Ok(Outcome::Response(status))
}

/// One line of the summary.
struct Claim {
    verdict: Verdict,
    text: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Met,
    /// Only a time was missed, which a busy machine can do.
    Late,
    Broken,
}

impl Verdict {
    fn of(kept: bool, in_time: bool) -> Self {
        match (kept, in_time) {
            (true, true) => Self::Met,
            (true, false) => Self::Late,
            (false, _) => Self::Broken,
        }
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Met => "ok",
            Self::Late => "too late",
            Self::Broken => "NOT MET",
        })
    }
}

/// Prints what was measured, and says which claims hold.
fn summarize(seen: &[Seen], outcomes: &[Outcome], took: Duration, bare: &[Seen]) -> [Claim; 4] {
    let waits = waits(seen);
    let spills: Vec<(&SpillOver, Duration)> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::SpilledOver { spill, took } => Some((spill, *took)),
            Outcome::Response(_) => None,
        })
        .collect();
    let served =
        outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Response(StatusCode::OK))).count();
    let refusals: usize = seen.iter().map(|call| call.refusals).sum();
    let successes: usize = seen.iter().map(|call| call.successes).sum();
    let advised: Duration = waits.iter().map(|(_, advice)| *advice).sum();
    let waited: Duration = waits.iter().map(|(waited, _)| *waited).sum();

    say(format_args!(
        "\n{} calls in {took:.1?}: {served} served after a wait, {} spilled over\n\
         {} requests at the server: {refusals} answered 429, {successes} answered 200\n\
         {:.0} ms of waiting advised, {:.0} ms waited\n",
        outcomes.len(),
        spills.len(),
        refusals + successes,
        milliseconds(advised),
        milliseconds(waited),
    ));

    [
        never_early(&waits),
        hardly_late(&waits, bare),
        spilled_at_once(seen, &spills),
        refused_once(seen, served, spills.len(), refusals),
    ]
}

/// How long each call waited that was sent again, beside its advice.
fn waits(seen: &[Seen]) -> Vec<(Duration, Duration)> {
    seen.iter().filter_map(|call| call.waited().map(|waited| (waited, call.advice))).collect()
}

/// By the server's stopwatch: from writing the 429 to the arrival of the next request.
fn never_early(waits: &[(Duration, Duration)]) -> Claim {
    let early = waits.iter().filter(|(waited, advice)| waited < advice).count();
    let margin =
        waits.iter().map(|(waited, advice)| waited.saturating_sub(*advice)).min().unwrap_or_default();
    let text = format!(
        "Nothing was sent before the advised moment: {early} of {} early, the closest {:.2} ms after it",
        waits.len(),
        milliseconds(margin)
    );
    Claim { verdict: Verdict::of(early == 0 && !waits.is_empty(), true), text }
}

fn hardly_late(calls: &[(Duration, Duration)], bare: &[Seen]) -> Claim {
    let (added, by_machine) = (median_added(calls), median_added(&waits(bare)));
    let for_machine = (by_machine - BARE_AT_MEDIAN).max(0.0);
    let text = format!(
        "The median call waited {:.1} % longer than advised; claimed: at most {:.0} %{}. A bare client that sleeps \
         exactly as advised: {:.1} %",
        added * 100.0,
        ADDED_AT_MEDIAN * 100.0,
        if for_machine > 0.0 {
            format!(", and {:.1} % for a busy machine", for_machine * 100.0)
        } else {
            String::new()
        },
        by_machine * 100.0
    );
    let allowed = ADDED_AT_MEDIAN + for_machine;
    Claim { verdict: Verdict::of(!calls.is_empty(), added <= allowed), text }
}

/// What the median call waited beyond its advice, as a share of it.
fn median_added(calls: &[(Duration, Duration)]) -> f64 {
    let mut added: Vec<f64> =
        calls.iter().map(|(waited, advice)| waited.as_secs_f64() / advice.as_secs_f64() - 1.0).collect();
    added.sort_by(f64::total_cmp);
    added.get(added.len() / 2).copied().unwrap_or(f64::INFINITY)
}

fn spilled_at_once(seen: &[Seen], spills: &[(&SpillOver, Duration)]) -> Claim {
    let too_long = seen.iter().filter(|call| call.advice > BUDGET).count();
    let for_budget = spills.iter().filter(|(spill, _)| spill.reason() == Reason::BudgetExceeded).count();
    let slept: Duration = spills.iter().map(|(spill, _)| spill.waited()).sum();
    let times = || spills.iter().map(|(_, took)| *took);
    let mean = times().sum::<Duration>() / u32::try_from(spills.len().max(1)).unwrap_or(u32::MAX);
    let text = format!(
        "Every advice over {BUDGET:?} was spilled at once: {for_budget} of {too_long}, {:.1} ms after the call began \
         (mean; longest {:.1} ms), {:.0} ms of it asleep",
        milliseconds(mean),
        milliseconds(times().max().unwrap_or_default()),
        milliseconds(slept),
    );
    let kept = for_budget == too_long && spills.len() == too_long && slept.is_zero();
    Claim { verdict: Verdict::of(kept, mean <= SIGNAL), text }
}

fn refused_once(seen: &[Seen], served: usize, spilled: usize, refusals: usize) -> Claim {
    let again = refusals.saturating_sub(seen.len());
    let text =
        format!("Every other call was served on its second attempt: {served} served, {again} refused again");
    Claim { verdict: Verdict::of(served + spilled == seen.len() && again == 0, true), text }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Prints a line; a reader that has seen enough (`| head`) is no error.
fn say(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}
