//! The model's server behind a socket on loopback: HTTP/1 or HTTP/2, as its client speaks.
//!
//! What it answers, and how long after, is the model's. It knows each request's call by the header `x-call`, and
//! notes connections, and requests that come before the moment that was advised to their call.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use reqwest::Body;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::model::{Call, World};
use crate::origin::{later, refused, taken};

/// The header by which a request says which call it belongs to.
pub(crate) const CALL: &str = "x-call";

/// The time between the head of a refusal and its body: whoever does not read the body loses an HTTP/1 connection.
const REFUSAL_BODY: Duration = Duration::from_millis(1);
const REFUSAL: &str = r#"{"error":{"code":"429","message":"The deployment is at capacity."}}"#;

/// What the server has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    /// Those of them that came by HTTP/2.
    pub(crate) by_http2: usize,
    /// Requests that came before the moment advised to their call, counted from when the refusal was written.
    pub(crate) early: usize,
    /// Calls that were announced and have not come to their end.
    pub(crate) open: usize,
}

/// One call, as the server knows it.
#[derive(Clone, Copy, Debug)]
struct Expected {
    call: Call,
    /// Nothing of this call may come before.
    opens: Option<Instant>,
}

#[derive(Debug)]
struct Book {
    world: Arc<World>,
    connections: AtomicUsize,
    requests: AtomicUsize,
    by_http2: AtomicUsize,
    early: AtomicUsize,
    ended: AtomicUsize,
    calls: Mutex<Vec<Expected>>,
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    book: Arc<Book>,
    runtime: Option<Runtime>,
}

impl Server {
    /// Listens on a free port, on a thread of its own.
    pub(crate) fn start(world: Arc<World>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let count = AtomicUsize::default;
        let book = Arc::new(Book {
            world,
            connections: count(),
            requests: count(),
            by_http2: count(),
            early: count(),
            ended: count(),
            calls: Mutex::default(),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        runtime.spawn(listen(listener, Arc::clone(&book)));
        Ok(Self { address, book, runtime: Some(runtime) })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1/responses", self.address)
    }

    /// Announces a call; its requests carry the number in the header [`CALL`].
    pub(crate) fn expect(&self, call: Call) -> usize {
        let mut calls = self.book.calls();
        calls.push(Expected { call, opens: None });
        calls.len() - 1
    }

    /// Notes that the caller of a call has its answer, or has given up.
    pub(crate) fn ended(&self) {
        self.book.ended.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn seen(&self) -> Seen {
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let Book { connections, requests, by_http2, early, ended, .. } = &*self.book;
        Seen {
            connections: of(connections),
            requests: of(requests),
            by_http2: of(by_http2),
            early: of(early),
            open: self.book.calls().len() - of(ended),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A runtime must not be waited for inside of another.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn listen(listener: TcpListener, book: Arc<Book>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        book.connections.fetch_add(1, Ordering::Relaxed);
        let book = Arc::clone(&book);
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&book), request));
            let protocol = auto::Builder::new(TokioExecutor::new());
            // A connection that breaks concerns its client alone.
            protocol.serve_connection(TokioIo::new(stream), service).await.ok();
        });
    }
}

async fn answer(book: Arc<Book>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let number = request.headers().get(CALL).and_then(|value| value.to_str().ok()?.parse().ok());
    let call = number.and_then(|number| book.arrived(number, request.version()));
    Ok(match call {
        Some((number, call)) => book.answer(number, call).await,
        None => status(StatusCode::BAD_REQUEST),
    })
}

impl Book {
    fn calls(&self) -> MutexGuard<'_, Vec<Expected>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the arrival of a request of call `number`.
    fn arrived(&self, number: usize, version: Version) -> Option<(usize, Call)> {
        let now = Instant::now();
        let expected = *self.calls().get(number)?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        if version == Version::HTTP_2 {
            self.by_http2.fetch_add(1, Ordering::Relaxed);
        }
        if expected.opens.is_some_and(|opens| now < opens) {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
        Some((number, expected.call))
    }

    async fn answer(&self, number: usize, call: Call) -> Response<Body> {
        let (answer, body) = self.world.send(&call).await;
        let response = match answer {
            Ok(stated) => taken(stated, call.size, body).map(Response::from),
            Err(advice) => refused(advice).map(|response| {
                if let (Some(wait), Some(expected)) = (advice, self.calls().get_mut(number)) {
                    expected.opens = Some(Instant::now() + wait);
                }
                Response::from(response).map(|_| later(REFUSAL_BODY, REFUSAL))
            }),
        };
        response.unwrap_or_else(|_| status(StatusCode::INTERNAL_SERVER_ERROR))
    }
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::default());
    *response.status_mut() = status;
    response
}
