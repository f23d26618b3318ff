//! A provisioned deployment on loopback: it refuses every call once, with recorded advice, and keeps the time.
//!
//! Plain threads and sockets, so that its stopwatch does not run on the client's runtime.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What the server saw of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) advice: Duration,
    /// When the first 429 went out; the advice counts from here.
    refused_at: Option<Instant>,
    pub(crate) refusals: usize,
    resent_at: Option<Instant>,
    pub(crate) successes: usize,
}

impl Seen {
    /// From the 429 to the arrival of the next request of the same call.
    pub(crate) fn waited(&self) -> Option<Duration> {
        Some(self.resent_at?.duration_since(self.refused_at?))
    }
}

pub(crate) struct Deployment {
    address: SocketAddr,
    calls: Arc<Mutex<Vec<Seen>>>,
}

impl Deployment {
    /// Listens on a free port; call `n` is refused until the `n`th advice has passed.
    pub(crate) fn start(advice: &[Duration]) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let unseen = |advice: &Duration| Seen {
            advice: *advice,
            refused_at: None,
            refusals: 0,
            resent_at: None,
            successes: 0,
        };
        let calls = Arc::new(Mutex::new(advice.iter().map(unseen).collect()));
        let server = Self { address, calls: Arc::clone(&calls) };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let calls = Arc::clone(&calls);
                // A connection that breaks concerns its client alone.
                thread::spawn(move || serve(stream, &calls).ok());
            }
        });
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1/chat/completions", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves one connection until the client closes it.
fn serve(mut stream: TcpStream, calls: &Mutex<Vec<Seen>>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = BufReader::new(stream.try_clone()?);
    while let Some((arrived, call)) = read_request(&mut requests)? {
        let answer = match calls.lock().unwrap_or_else(PoisonError::into_inner).get_mut(call) {
            Some(seen) => answer(seen, arrived),
            None => response("404 Not Found", "", "{}"),
        };
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}

/// When a request arrived and, from its `x-call` header, which call it belongs to.
fn read_request(requests: &mut impl BufRead) -> io::Result<Option<(Instant, usize)>> {
    let mut line = String::new();
    if requests.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let arrived = Instant::now();
    let (mut call, mut length) = (usize::MAX, 0);
    loop {
        line.clear();
        requests.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        let value = value.trim().parse();
        match name.to_ascii_lowercase().as_str() {
            "x-call" => call = value.unwrap_or(usize::MAX),
            "content-length" => length = value.unwrap_or(0),
            _ => {}
        }
    }
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    io::copy(&mut requests.take(length), &mut io::sink())?;
    Ok(Some((arrived, call)))
}

fn answer(seen: &mut Seen, arrived: Instant) -> String {
    let Some(refused_at) = seen.refused_at else {
        seen.refused_at = Some(Instant::now());
        return refuse(seen, seen.advice);
    };
    seen.resent_at.get_or_insert(arrived);
    let left = (refused_at + seen.advice).saturating_duration_since(arrived);
    if left.is_zero() {
        seen.successes += 1;
        return response("200 OK", "", r#"{"choices":[]}"#);
    }
    refuse(seen, left)
}

fn refuse(seen: &mut Seen, left: Duration) -> String {
    seen.refusals += 1;
    let advice = format!("retry-after-ms: {}\r\n", left.as_micros().div_ceil(1000));
    response(
        "429 Too Many Requests",
        &advice,
        r#"{"error":{"code":"429","message":"The deployment is at capacity."}}"#,
    )
}

fn response(status: &str, header: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{header}\r\n{body}"
    )
}
