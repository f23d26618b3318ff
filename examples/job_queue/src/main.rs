//! Calls that cannot be served now, parked in a job queue and done after the reset; none is lost when a worker is killed.
//!
//! `cargo run -p job_queue` starts a deployment on loopback that is closed for three seconds and sends it 40 calls with a
//! budget of 500 ms. Each comes back as a spill-over at once and goes, as a [`Deferred`] ticket, into a queue of
//! [apalis](https://docs.rs/apalis) in a file of `SQLite`, to be run when the deployment opens. A worker, a process of its own,
//! is killed half way; another one goes on. No ticket holds the key: each worker sets its own. It fails if a claim of the
//! summary does not hold.

mod server;

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use apalis::prelude::*;
use apalis_sqlite::{Config, SqlitePool, SqliteStorage};
use reqwest_admission::spill::Deferred;
use reqwest_admission::{AdmissionClient, AdmissionPolicy, Credential, SpillOver};
use reqwest_middleware::ClientWithMiddleware;
use server::Server;
use tokio::process::{Child, Command};

const KEY: &str = "the-key";
const JOBS: usize = 40;
const CLOSED: Duration = Duration::from_secs(3);
/// What a caller gives a call; a worker has more time.
const BUDGET: Duration = Duration::from_millis(500);
/// When all must be done.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<ExitCode, BoxDynError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name, database] = arguments.as_slice()
        && flag == "--worker"
    {
        work(name, Path::new(database)).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let database =
        std::env::temp_dir().join(format!("reqwest-admission-job-queue-{}.db", std::process::id()));
    let met = park_and_work(&database).await;
    std::fs::remove_file(&database).ok();
    Ok(if met? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn park_and_work(database: &PathBuf) -> Result<bool, BoxDynError> {
    let server = Server::start(KEY, CLOSED)?;
    let mut queue = storage(database).await?;
    SqliteStorage::setup(queue.pool()).await?;

    let began = Instant::now();
    let parked = park(&server, &mut queue).await?;
    say(format_args!(
        "{parked} of {JOBS} calls parked within {:.0?}; the deployment refused {} request(s), the gate the rest",
        began.elapsed(),
        server.seen().refusals
    ));
    let on_disk = std::fs::read(database)?;
    let leaked = on_disk.windows(KEY.len()).any(|window| window == KEY.as_bytes());

    let mut first = worker("worker-1", database)?;
    until(|| server.seen().keys >= JOBS / 2).await?;
    first.kill().await?;
    let at_kill = server.seen().keys;
    say(format_args!("{:6.1?}: worker-1 killed, {at_kill} jobs done", began.elapsed()));

    // What the first one had taken and not reported goes to the second, once the queue takes the first for dead.
    let mut second = worker("worker-2", database)?;
    let mut reported = 0;
    while reported < JOBS && began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let done = Filter { status: Some(Status::Done), page: 1, page_size: u32::try_from(JOBS).ok() };
        reported = queue.list_tasks(&done).await?.len();
    }
    let took = began.elapsed();
    second.kill().await?;
    let seen = server.seen();
    say(format_args!("{took:6.1?}: {} jobs done, {} of them asked for twice\n", seen.keys, seen.repeats));

    let claims = [
        (parked == JOBS, "every call that was refused was parked"),
        (!leaked, "the queue's file holds no credential"),
        (at_kill < JOBS, "the worker was killed before all was done"),
        (
            seen.jobs.len() == JOBS && reported == JOBS,
            "every job was done and the queue knows: none was lost",
        ),
        (seen.keys == JOBS, "no job was done twice: a repeat has the same idempotency key"),
        (seen.early == 0, "nothing was sent before the reset but the one request that learned of it"),
        (seen.unauthorized == 0, "each worker set the credential again"),
    ];
    for (met, text) in claims {
        say(format_args!("[{}] {text}", if met { "ok" } else { "NOT MET" }));
    }
    Ok(claims.iter().all(|(met, _)| *met))
}

/// Sends all calls, and parks those that are spilled over.
async fn park(server: &Server, queue: &mut SqliteStorage<Deferred>) -> Result<usize, BoxDynError> {
    let client = client(BUDGET)?;
    let mut parked = 0;
    for job in 0..JOBS {
        let call = client.post(server.url()).header("api-key", KEY).body(format!("text {job}"));
        let outcome = call.send().await;
        let Some(spill) = SpillOver::of(&outcome) else { continue };
        let ticket = spill.clone().into_deferred()?;
        // The queue counts whole seconds; rounding down would run the job early.
        let at =
            ticket.retry_at().unwrap_or(SystemTime::UNIX_EPOCH).duration_since(SystemTime::UNIX_EPOCH)?;
        let at = at.as_secs() + u64::from(at.subsec_nanos() > 0);
        queue.push_task(TaskBuilder::new(ticket).run_at_timestamp(at).max_attempts(10).build()).await?;
        parked += 1;
    }
    Ok(parked)
}

/// Runs jobs until it is killed.
async fn work(name: &str, database: &Path) -> Result<(), BoxDynError> {
    let queue = storage(database).await?.poll_with_interval(Duration::from_millis(100));
    let worker = WorkerBuilder::new(name).backend(queue).data(client(PATIENCE)?).build(send);
    worker.run().await?;
    Ok(())
}

/// One job: the call again, under the worker's own credential.
async fn send(ticket: Deferred, client: Data<ClientWithMiddleware>) -> Result<(), BoxDynError> {
    let response = ticket.into_call(&client, &Credential::header("api-key", KEY))?.send().await?;
    // A job that fails is tried again by the queue.
    response.error_for_status()?.bytes().await?;
    Ok(())
}

/// A client that gives each call an idempotency key of its own, so that a repeat does no harm.
fn client(budget: Duration) -> Result<ClientWithMiddleware, BoxDynError> {
    let policy = AdmissionPolicy::builder().latency_budget(budget).mint_idempotency_key(true).build()?;
    // No proxy: the server is on this machine, whatever the environment says.
    Ok(AdmissionClient::builder(reqwest::Client::builder().no_proxy()).policy(policy).build()?)
}

async fn storage(database: &Path) -> Result<SqliteStorage<Deferred>, BoxDynError> {
    let pool = SqlitePool::connect(&format!("sqlite://{}?mode=rwc", database.display())).await?;
    // A worker that is not heard of for two seconds is taken for dead, and its jobs go to others.
    let config = Config::default().queue("deferred").heartbeat_interval(Duration::from_secs(1)).batch_size(5);
    Ok(SqliteStorage::new(&pool).with_config(config))
}

/// A worker in a process of its own.
fn worker(name: &str, database: &Path) -> io::Result<Child> {
    Command::new(std::env::current_exe()?).args(["--worker", name]).arg(database).kill_on_drop(true).spawn()
}

async fn until(done: impl Fn() -> bool) -> Result<(), BoxDynError> {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > PATIENCE {
            return Err("the jobs are not done in time".into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Prints a line; a reader that has seen enough (`| head`) is no error.
fn say(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}
