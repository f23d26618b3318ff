//! A provisioned deployment on loopback: it refuses every call once, with recorded advice, and keeps the time.

#[path = "../loopback/mod.rs"]
mod loopback;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use loopback::{Request, lock, refusal, response};

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
        let unseen = |advice: &Duration| Seen {
            advice: *advice,
            refused_at: None,
            refusals: 0,
            resent_at: None,
            successes: 0,
        };
        let calls = Arc::new(Mutex::new(advice.iter().map(unseen).collect()));
        let shared = Arc::clone(&calls);
        let address = loopback::listen(move |request| answer(request, &shared))?;
        Ok(Self { address, calls })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1/chat/completions", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        lock(&self.calls).clone()
    }
}

/// The answer to a request, whose header `x-call` says which call it belongs to.
fn answer(request: &Request, calls: &Mutex<Vec<Seen>>) -> String {
    let mut calls = lock(calls);
    let call = request.header("x-call").parse().ok().and_then(|call: usize| calls.get_mut(call));
    let Some(seen) = call else { return response("404 Not Found", "", "{}") };
    let Some(refused_at) = seen.refused_at else {
        seen.refused_at = Some(Instant::now());
        seen.refusals += 1;
        return refusal(seen.advice);
    };
    seen.resent_at.get_or_insert(request.arrived);
    let left = (refused_at + seen.advice).saturating_duration_since(request.arrived);
    if left.is_zero() {
        seen.successes += 1;
        return response("200 OK", "", r#"{"choices":[]}"#);
    }
    seen.refusals += 1;
    refusal(left)
}
