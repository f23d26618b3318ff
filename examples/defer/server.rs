//! A deployment on loopback that is closed at first, and knows which job it has done by its idempotency key.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long one job takes.
const WORK: Duration = Duration::from_millis(50);

#[derive(Default)]
struct State {
    opens_at: Option<Instant>,
    /// The jobs that are done, by their idempotency keys.
    done: HashMap<String, String>,
    repeats: usize,
    refusals: usize,
    early: usize,
    unauthorized: usize,
}

/// What the server saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) jobs: HashSet<String>,
    pub(crate) keys: usize,
    /// Requests for jobs that were done already; answered without doing them again.
    pub(crate) repeats: usize,
    pub(crate) refusals: usize,
    pub(crate) early: usize,
    pub(crate) unauthorized: usize,
}

pub(crate) struct Server {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Server {
    /// Closed for `closed`, counted from the first request.
    pub(crate) fn start(key: &'static str, closed: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A connection that breaks, as when its client is killed, concerns its client alone.
                thread::spawn(move || serve(stream, key, closed, &shared).ok());
            }
        });
        Ok(Self { address, state })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1/embeddings", self.address)
    }

    pub(crate) fn seen(&self) -> Seen {
        let state = lock(&self.state);
        Seen {
            jobs: state.done.values().cloned().collect(),
            keys: state.done.len(),
            repeats: state.repeats,
            refusals: state.refusals,
            early: state.early,
            unauthorized: state.unauthorized,
        }
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves one connection until the client closes it.
fn serve(mut stream: TcpStream, key: &str, closed: Duration, state: &Mutex<State>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = BufReader::new(stream.try_clone()?);
    while let Some(request) = read_request(&mut requests)? {
        let answer = answer(&request, key, closed, state);
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}

fn answer(request: &Request, key: &str, closed: Duration, state: &Mutex<State>) -> String {
    let mut seen = lock(state);
    if request.api_key != key {
        seen.unauthorized += 1;
        return response("401 Unauthorized", "");
    }
    let now = Instant::now();
    let is_first = seen.opens_at.is_none();
    let opens_at = *seen.opens_at.get_or_insert(now + closed);
    let left = opens_at.saturating_duration_since(now);
    if !left.is_zero() {
        seen.refusals += 1;
        seen.early += usize::from(!is_first);
        let advice = format!("retry-after-ms: {}\r\n", left.as_micros().div_ceil(1000));
        return response("429 Too Many Requests", &advice);
    }
    if seen.done.contains_key(&request.idempotency_key) {
        seen.repeats += 1;
        return response("200 OK", "");
    }
    // Done from here on, whether or not anybody is left to hear of it.
    seen.done.insert(request.idempotency_key.clone(), request.body.clone());
    drop(seen);
    thread::sleep(WORK);
    response("200 OK", "")
}

struct Request {
    api_key: String,
    idempotency_key: String,
    body: String,
}

fn read_request(requests: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if requests.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut request = Request { api_key: String::new(), idempotency_key: String::new(), body: String::new() };
    let mut length = 0;
    loop {
        line.clear();
        requests.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "api-key" => request.api_key = value.to_owned(),
            "idempotency-key" => request.idempotency_key = value.to_owned(),
            "content-length" => length = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    requests.take(length).read_to_string(&mut request.body)?;
    Ok(Some(request))
}

fn response(status: &str, header: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n{header}\r\n{{}}")
}
