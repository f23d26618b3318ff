//! The service of a newcomer: the README's code, against servers on loopback. `tests/newcomer.rs` puts both together.

mod client;
mod handler;
mod models;

use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use reqwest_admission::{CallReport, Deferred, Reason, SpillOver};

/// A server that gives `answers` in order, the last one for ever, and keeps the `Authorization` of each request.
struct Server {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(answers: impl Into<Vec<Answer>>) -> Result<Self, Box<dyn Error>> {
        let answers = answers.into();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                let (mut head, mut length, mut shown) = (String::new(), 0, String::new());
                while lines.read_line(&mut head).is_ok_and(|read| read > 2) {
                    let line = head.to_lowercase();
                    if let Some(value) = line.strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    if line.starts_with("authorization:") {
                        shown = head["authorization:".len()..].trim().to_owned();
                    }
                    head.clear();
                }
                lines.read_exact(&mut vec![0; length]).unwrap();
                let number = log.lock().unwrap().len();
                log.lock().unwrap().push(shown);
                let (status, header, body) = answers[number.min(answers.len() - 1)];
                let length = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status} X\r\n{header}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
            }
        });
        Ok(Self { url, seen })
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// A status, a header and a body.
type Answer = (u16, &'static str, &'static str);

const BUSY: Answer = (429, "retry-after-ms: 50", "busy");
const CLOSED: Answer = (429, "retry-after: 3600", "closed");

const fn ok(body: &'static str) -> Answer {
    (200, "x-a: b", body)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    refused_once().await?;
    spilled_to_the_standby().await?;
    over_budget().await?;
    answered_with_503().await?;
    parked_and_resumed().await
}

async fn refused_once() -> Result<(), Box<dyn Error>> {
    let (primary, standby) = (Server::start([BUSY, ok("primary")])?, Server::start([ok("standby")])?);
    let client = client::client(&primary.url, &standby.url)?;
    let body = client.get(format!("{}/v1/items", primary.url)).send().await?.text().await?;
    assert_eq!((body.as_str(), primary.seen().len(), standby.seen().len()), ("primary", 2, 0));
    println!("429 then 200: waited and served");
    Ok(())
}

async fn spilled_to_the_standby() -> Result<(), Box<dyn Error>> {
    let (primary, standby) = (Server::start([CLOSED])?, Server::start([ok("standby")])?);
    let client = client::client(&primary.url, &standby.url)?;
    let url = format!("{}/v1/items", primary.url);
    let body = client.get(url).bearer_auth("the primary's").send().await?.text().await?;
    assert_eq!((body.as_str(), primary.seen()), ("standby", vec!["Bearer the primary's".to_owned()]));
    assert_eq!(standby.seen(), ["Bearer its own token"]);
    println!("spilled over to the standby, with its own token");
    Ok(())
}

async fn over_budget() -> Result<(), Box<dyn Error>> {
    let (primary, standby) = (Server::start([CLOSED])?, Server::start([CLOSED])?);
    let client = client::client(&primary.url, &standby.url)?;
    let report = CallReport::new();
    let outcome = client.get(&primary.url).with_extension(report.clone()).send().await;
    let spill = SpillOver::of(&outcome).expect("a spill-over");
    assert_eq!((spill.reason(), spill.legs().len()), (Reason::BudgetExceeded, 2));
    assert_eq!((spill.status().map(|status| status.as_u16()), spill.body()), (Some(429), &b"closed"[..]));
    assert!(report.waited().is_zero() && spill.retry_at().is_some());
    println!("over budget: {spill}");
    Ok(())
}

async fn answered_with_503() -> Result<(), Box<dyn Error>> {
    let (primary, standby) = (Server::start([CLOSED])?, Server::start([CLOSED])?);
    let state = (client::client(&primary.url, &standby.url)?, primary.url.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/items", listener.local_addr()?);
    let router = axum::Router::new().route("/items", axum::routing::get(handler::items)).with_state(state);
    tokio::spawn(async { axum::serve(listener, router).await });
    let response = reqwest::Client::builder().no_proxy().build()?.get(url).send().await?;
    assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str()?), (503, "3601"));
    println!("503 with Retry-After to the service's own caller");
    Ok(())
}

async fn parked_and_resumed() -> Result<(), Box<dyn Error>> {
    let (primary, standby) = (Server::start([CLOSED, ok("done")])?, Server::start([CLOSED])?);
    let job = models::complete(&client::client(&primary.url, &standby.url)?, &primary.url, "Hello?").await?;
    let ticket: Deferred = serde_json::from_str(&job)?;
    assert!(ticket.retry_at().is_some() && !job.contains("token\""), "{job}");
    // Another process, later.
    let worker = client::client(&primary.url, &standby.url)?;
    assert_eq!(models::resume(&worker, ticket).await?, "done");
    assert_eq!(primary.seen(), ["", "Bearer a fresh token"]);
    println!("parked, and resumed with a fresh token");
    Ok(())
}
