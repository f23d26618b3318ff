//! The start-up check: how often does one refused request of this client reach the wire?

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use reqwest_middleware::ClientWithMiddleware;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::conflict::{ConflictKind, RetryConflict};
use crate::clock;
use crate::observe::CallReport;

/// How long the check watches for repeats. Known layers send their first within about a second.
const WATCH: Duration = Duration::from_secs(5);

/// How long the check goes on after the call has ended, for copies that were sent beside it.
const LINGER: Duration = Duration::from_millis(10);

/// Repeats closer than this have no backoff between them, which only reqwest's own retries do.
const NO_BACKOFF: Duration = Duration::from_millis(50);

const REFUSAL: &[u8] =
    b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 3600\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

const FAILURE: &[u8] =
    b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Checks at start-up that nothing in `client` but the admission layer repeats refused calls.
///
/// Sends one request through the whole stack to a listener of its own on the loopback interface, which
/// answers 429, and counts arrivals for at most five seconds. If there is only one, the same is done with a 500, which a
/// retry layer outside repeats by rules of its own: [`failure_arrivals`](SoleOwnerReport::failure_arrivals). A client
/// without another retrying layer is done in milliseconds. There is no other traffic (but a client with a proxy for plain
/// `http` sends the request there: the verdict is then [`SoleOwnerVerdict::Inconclusive`]), and no effect on budgets,
/// cool-downs or the gate.
///
/// A loop around the client, such as that of an SDK, is not part of the client and not seen. Nor is a time limit for each
/// try: the listener answers at once.
///
/// # Errors
///
/// An I/O error if a listener cannot be opened.
///
/// # Cancel safety
///
/// Dropping the future closes the listener.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use reqwest_admission::{AdmissionClient, verify_sole_owner};
///
/// let client = AdmissionClient::builder(reqwest::Client::builder()).build()?;
/// let report = verify_sole_owner(&client).await?;
/// assert!(report.is_sole_owner(), "{report:?}");
/// # Ok(())
/// # }
/// ```
pub async fn verify_sole_owner(client: &ClientWithMiddleware) -> io::Result<SoleOwnerReport> {
    let refused = Observed::of(client, REFUSAL).await?;
    let mut report =
        SoleOwnerReport { arrivals: refused.count(), failure_arrivals: None, verdict: refused.verdict() };
    if report.is_sole_owner() {
        let failed = Observed::of(client, FAILURE).await?;
        report.failure_arrivals = Some(failed.count());
        if let Some(conflict) = failed.conflict {
            report.verdict = SoleOwnerVerdict::Conflict(conflict);
        }
    }
    Ok(report)
}

/// What the listener and the stack saw of one call.
struct Observed {
    arrivals: Vec<Instant>,
    probe: Probe,
    conflict: Option<RetryConflict>,
}

impl Observed {
    /// Sends a request through `client`; every request that arrives is answered with `answer`.
    async fn of(client: &ClientWithMiddleware, answer: &'static [u8]) -> io::Result<Self> {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let probe = Probe::default();
        let report = CallReport::new();
        let arrivals = Mutex::new(Vec::new());
        let outcome = {
            let mut server = pin!(serve(&listener, answer, &arrivals));
            let mut call =
                pin!(client.get(url).with_extension(probe.clone()).with_extension(report.clone()).send());
            // The server is polled by this very future: no task is left behind whatever happens to it.
            let both = poll_fn(|context| {
                let _: Poll<()> = server.as_mut().poll(context);
                call.as_mut().poll(context)
            });
            let outcome = clock::until(after(WATCH), both).await;
            let _ = clock::until(after(LINGER), server).await;
            outcome
        };
        let arrivals = arrivals.into_inner().unwrap_or_else(PoisonError::into_inner);
        // The signal may be wrapped by a layer outside, or a layer inside may have kept it to itself.
        let signalled = outcome.as_ref().and_then(RetryConflict::of).cloned();
        let conflict = signalled.or_else(|| report.conflicts().into_iter().find(is_of_the_stack));
        Ok(Self { arrivals, probe, conflict })
    }

    fn count(&self) -> u32 {
        u32::try_from(self.arrivals.len()).unwrap_or(u32::MAX)
    }

    fn verdict(&self) -> SoleOwnerVerdict {
        match &self.conflict {
            Some(conflict) => SoleOwnerVerdict::Conflict(conflict.clone()),
            None => classify(&self.arrivals, &self.probe),
        }
    }
}

fn after(wait: Duration) -> Instant {
    let now = clock::now();
    now.checked_add(wait).unwrap_or(now)
}

const fn is_of_the_stack(conflict: &RetryConflict) -> bool {
    !matches!(conflict.kind(), ConflictKind::AnnouncedRepeat | ConflictKind::ProxyRepeat)
}

/// Answers every request with `answer`, and notes when it came.
async fn serve(listener: &TcpListener, answer: &[u8], arrivals: &Mutex<Vec<Instant>>) {
    // All at once, since a client may open a connection that it does not use after all.
    let mut open: Vec<Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>>> = Vec::new();
    poll_fn(|context| {
        while let Poll::Ready(accepted) = listener.poll_accept(context) {
            let Ok((stream, _)) = accepted else { return Poll::Ready(()) };
            open.push(Box::pin(respond(stream, answer, arrivals)));
        }
        open.retain_mut(|connection| connection.as_mut().poll(context).is_pending());
        Poll::Pending
    })
    .await;
}

async fn respond(mut stream: TcpStream, answer: &[u8], arrivals: &Mutex<Vec<Instant>>) -> io::Result<()> {
    let mut head = Vec::with_capacity(1024);
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        // A client that wants to speak HTTP/2 or TLS sends something else; a bound keeps that short.
        if stream.read_buf(&mut head).await? == 0 || head.len() > 64 * 1024 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(clock::now());
    stream.write_all(answer).await?;
    stream.shutdown().await
}

fn classify(arrivals: &[Instant], probe: &Probe) -> SoleOwnerVerdict {
    let runs = probe.runs.load(Ordering::Relaxed);
    let shortest = arrivals.windows(2).filter_map(|pair| match pair {
        [earlier, later] => Some(later.saturating_duration_since(*earlier)),
        _ => None,
    });
    let shortest = shortest.min();
    let at_once = shortest.is_some_and(|gap| gap < NO_BACKOFF);
    match (arrivals.len(), runs) {
        (0, _) => SoleOwnerVerdict::Inconclusive,
        (1, 0) => SoleOwnerVerdict::NoAdmissionLayer,
        (1, 1) => SoleOwnerVerdict::SoleOwner,
        (_, 2..) => SoleOwnerVerdict::RetriesOutside,
        (_, 0 | 1) if at_once && !probe.protected.load(Ordering::Relaxed) => SoleOwnerVerdict::ReqwestRetries,
        (_, 0 | 1) => SoleOwnerVerdict::RetriesInside,
    }
}

/// Marks the call of the check; the admission layer counts its runs here and leaves no other trace of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Probe {
    runs: Arc<AtomicU32>,
    protected: Arc<AtomicBool>,
}

impl Probe {
    /// The call runs through an admission layer; if it is `protected`, reqwest's own retries cannot happen.
    pub(crate) fn run(&self, protected: bool) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.protected.store(protected, Ordering::Relaxed);
    }
}

/// What [`verify_sole_owner`] saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoleOwnerReport {
    arrivals: u32,
    failure_arrivals: Option<u32>,
    verdict: SoleOwnerVerdict,
}

impl SoleOwnerReport {
    /// How many requests reached the wire for one call that was refused with a 429.
    #[must_use]
    pub const fn arrivals(&self) -> u32 {
        self.arrivals
    }

    /// How many requests reached the wire for one call that failed with a 500; `None` if that was not tried. More than 1
    /// means that another layer repeats failures: the admission layer repeats none during the check. A layer outside may;
    /// its sends come on top of ours, they do not multiply them.
    #[must_use]
    pub const fn failure_arrivals(&self) -> Option<u32> {
        self.failure_arrivals
    }

    /// The likely cause.
    #[must_use]
    pub const fn verdict(&self) -> &SoleOwnerVerdict {
        &self.verdict
    }

    /// Whether nothing but the admission layer repeats refused calls.
    #[must_use]
    pub fn is_sole_owner(&self) -> bool {
        self.verdict == SoleOwnerVerdict::SoleOwner
    }
}

/// Who repeats refused calls, as far as the wire shows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SoleOwnerVerdict {
    /// The admission layer alone.
    SoleOwner,
    /// Nobody, but there is no admission layer in the stack either.
    NoAdmissionLayer,
    /// A layer outside of the admission layer runs the call again.
    RetriesOutside,
    /// A layer inside of the admission layer, or one in a stack without it, sends an attempt again.
    RetriesInside,
    /// Several requests without any backoff between them: most likely reqwest's own retry policy, else a layer that
    /// sends at once again.
    ReqwestRetries,
    /// The stack saw the other layer itself, and stopped it if the policy says so.
    Conflict(RetryConflict),
    /// Nothing arrived: a proxy, `https_only`, or a layer that answers by itself.
    Inconclusive,
}
