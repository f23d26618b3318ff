//! Two deployments on loopback: a primary that closes as a real one did, and a standby with room for all.

#[path = "../loopback/mod.rs"]
mod loopback;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use loopback::{lock, refusal, response};

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

    /// A standby that serves every request with its key.
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

    /// Gives the answer for the key that a request shows.
    fn start(
        counts: Arc<Mutex<Counts>>,
        answer: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let address = loopback::listen(move |request| answer(request.header("api-key")))?;
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
