//! A deployment on loopback that is closed at first, and knows which job it has done by its idempotency key.

#[path = "../../loopback/mod.rs"]
mod loopback;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use loopback::{Request, lock, refusal, response};

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
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        let address = loopback::listen(move |request| answer(request, key, closed, &shared))?;
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

fn answer(request: &Request, key: &str, closed: Duration, state: &Mutex<State>) -> String {
    let mut seen = lock(state);
    if request.header("api-key") != key {
        seen.unauthorized += 1;
        return response("401 Unauthorized", "", "{}");
    }
    let now = Instant::now();
    let is_first = seen.opens_at.is_none();
    let opens_at = *seen.opens_at.get_or_insert(now + closed);
    let left = opens_at.saturating_duration_since(now);
    if !left.is_zero() {
        seen.refusals += 1;
        seen.early += usize::from(!is_first);
        return refusal(left);
    }
    let idempotency_key = request.header("idempotency-key");
    if seen.done.contains_key(idempotency_key) {
        seen.repeats += 1;
        return response("200 OK", "", "{}");
    }
    // Done from here on, whether or not anybody is left to hear of it.
    seen.done.insert(idempotency_key.to_owned(), request.body.clone());
    drop(seen);
    thread::sleep(WORK);
    response("200 OK", "", "{}")
}
