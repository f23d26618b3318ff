//! Two deployments on loopback: a primary that closes as a real one did, and a standby with room for all.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How many calls the primary serves between two refusals, per account.
const SERVED_BETWEEN: usize = 2;

/// The quota of one account at the primary.
#[derive(Default)]
struct Account {
    advice: VecDeque<Duration>,
    closed_until: Option<Instant>,
    served: usize,
}

/// What the primary counted.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) served: usize,
    /// Refusals by how long they ask to wait: up to the limit, and above.
    pub(crate) short: usize,
    pub(crate) long: usize,
    /// Requests that came while the account was closed.
    pub(crate) early: usize,
    pub(crate) unauthorized: usize,
}

pub(crate) struct Server {
    address: SocketAddr,
    counts: Arc<Mutex<Counts>>,
}

type Answer = dyn Fn(&str) -> String + Send + Sync;

impl Server {
    /// A primary that closes each of its `accounts` for the waits in turn; waits above `long` are counted apart.
    pub(crate) fn primary(accounts: HashMap<String, Vec<Duration>>, long: Duration) -> io::Result<Self> {
        let accounts = accounts
            .into_iter()
            .map(|(key, advice)| (key, Account { advice: advice.into(), ..Account::default() }));
        let accounts = Mutex::new(accounts.collect::<HashMap<_, _>>());
        let counts = Arc::<Mutex<Counts>>::default();
        let counted = Arc::clone(&counts);
        Self::start(counts, move |key| {
            let mut accounts = lock(&accounts);
            let mut counts = lock(&counted);
            match accounts.get_mut(key) {
                Some(account) => account.answer(long, &mut counts),
                None => unauthorized(&mut counts),
            }
        })
    }

    /// A standby that serves whoever shows its key.
    pub(crate) fn standby(expected: &'static str) -> io::Result<Self> {
        let counts = Arc::<Mutex<Counts>>::default();
        let counted = Arc::clone(&counts);
        Self::start(counts, move |key| {
            let mut counts = lock(&counted);
            if key != expected {
                return unauthorized(&mut counts);
            }
            counts.served += 1;
            response("200 OK", "", "{}")
        })
    }

    fn start(
        counts: Arc<Mutex<Counts>>,
        answer: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let answer: Arc<Answer> = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = Arc::clone(&answer);
                // A connection that breaks concerns its client alone.
                thread::spawn(move || serve(stream, &*answer).ok());
            }
        });
        Ok(Self { address, counts })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn counts(&self) -> Counts {
        *lock(&self.counts)
    }
}

impl Account {
    fn answer(&mut self, long: Duration, counts: &mut Counts) -> String {
        let now = Instant::now();
        let left = self.closed_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        if !left.is_zero() {
            counts.early += 1;
            return refusal(left);
        }
        if self.served < SERVED_BETWEEN {
            self.served += 1;
            counts.served += 1;
            return response("200 OK", "", "{}");
        }
        let Some(advice) = self.advice.pop_front() else {
            counts.served += 1;
            return response("200 OK", "", "{}");
        };
        self.served = 0;
        self.closed_until = Some(now + advice);
        if advice > long {
            counts.long += 1;
        } else {
            counts.short += 1;
        }
        refusal(advice)
    }
}

fn unauthorized(counts: &mut Counts) -> String {
    counts.unauthorized += 1;
    response("401 Unauthorized", "", "{}")
}

fn refusal(left: Duration) -> String {
    let advice = format!("retry-after-ms: {}\r\n", left.as_micros().div_ceil(1000));
    response("429 Too Many Requests", &advice, r#"{"error":{"code":"429"}}"#)
}

fn response(status: &str, header: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{header}\r\n{body}")
}

/// Serves one connection until the client closes it.
fn serve(mut stream: TcpStream, answer: &Answer) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = BufReader::new(stream.try_clone()?);
    while let Some(key) = read_request(&mut requests)? {
        stream.write_all(answer(&key).as_bytes())?;
    }
    Ok(())
}

/// The key that a request shows.
fn read_request(requests: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    if requests.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let (mut key, mut length) = (String::new(), 0);
    loop {
        line.clear();
        requests.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "api-key" => key = value.trim().to_owned(),
            "content-length" => length = value.trim().parse().unwrap_or(0),
            _ => {}
        }
    }
    io::copy(&mut requests.take(length), &mut io::sink())?;
    Ok(Some(key))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
