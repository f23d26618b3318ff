//! A stack without sockets, on a clock that jumps.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use http::{Extensions, HeaderMap, StatusCode};
use reqwest::{Request, Response};
use reqwest_admission::Admission;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};

/// Answers each request by its host, and keeps what came.
#[derive(Clone, Default)]
pub(super) struct Server {
    seen: Arc<Mutex<Vec<Request>>>,
}

/// The host that refuses everything for an hour; others answer 200.
pub(super) const REFUSING: &str = "refusing.example";

impl Server {
    pub(super) fn seen(&self) -> Vec<Request> {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A client whose requests all come here, with the admission layer around.
    pub(super) fn behind(&self, admission: Admission) -> ClientWithMiddleware {
        ClientBuilder::new(client()).with(admission).with(self.clone()).build()
    }

    /// A client whose requests all come here.
    pub(super) fn client(&self) -> ClientWithMiddleware {
        ClientBuilder::new(client()).with(self.clone()).build()
    }
}

#[async_trait]
impl Middleware for Server {
    async fn handle(
        &self,
        request: Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let mut response = http::Response::new("");
        if request.url().host_str() == Some(REFUSING) {
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            let hour = [(http::header::RETRY_AFTER, http::HeaderValue::from_static("3600"))];
            *response.headers_mut() = HeaderMap::from_iter(hour);
        }
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        Ok(response.into())
    }
}

/// Made once: it loads what no target needs.
fn client() -> reqwest::Client {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    CLIENT.get_or_init(reqwest::Client::new).clone()
}

/// Runs to its end what waits on the clock alone.
pub(super) fn run<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O needs nothing of the system");
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}
