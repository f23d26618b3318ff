//! Layers that are found in real stacks, and some that should not be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Extensions, HeaderValue, StatusCode};
use http_body::Frame;
use reqwest::{Body, Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use tokio::sync::Notify;

/// reqwest-retry with three retries and waits of a few milliseconds.
pub(crate) fn reqwest_retry() -> RetryTransientMiddleware<ExponentialBackoff> {
    let policy = ExponentialBackoff::builder()
        .retry_bounds(Duration::from_millis(1), Duration::from_millis(4))
        .build_with_max_retries(3);
    RetryTransientMiddleware::new_with_policy(policy)
}

#[derive(Debug, thiserror::Error)]
#[error("this layer must copy the request")]
pub(crate) struct MustCopy;

fn copy(request: &Request) -> Result<Request> {
    request.try_clone().ok_or_else(|| Error::middleware(MustCopy))
}

/// Sends everything twice, whatever the answer.
pub(crate) struct AlwaysTwice;

#[async_trait]
impl Middleware for AlwaysTwice {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let _ = next.clone().run(copy(&request)?, extensions).await;
        next.run(request, extensions).await
    }
}

/// Sends two copies at once, each with extensions of its own, and takes whichever is answered first.
pub(crate) struct Hedge;

#[async_trait]
impl Middleware for Hedge {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut copied = extensions.clone();
        let second = next.clone().run(copy(&request)?, &mut copied);
        let first = next.run(request, extensions);
        let (first, second) = tokio::join!(first, second);
        first.or(second)
    }
}

/// Drops the first attempt when told so and sends another, as layers with a time limit for an attempt do.
pub(crate) struct GiveUpAndAgain(pub(crate) Arc<Notify>);

#[async_trait]
impl Middleware for GiveUpAndAgain {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let again = copy(&request)?;
        tokio::select! {
            outcome = next.clone().run(request, extensions) => return outcome,
            () = self.0.notified() => {}
        }
        next.run(again, extensions).await
    }
}

/// Gets a new token after a 401 and sends again, if the request can be copied.
#[derive(Default)]
pub(crate) struct AuthRefresh {
    pub(crate) refreshed: AtomicUsize,
}

#[async_trait]
impl Middleware for AuthRefresh {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let again = request.try_clone();
        let outcome = next.clone().run(request, extensions).await;
        match (outcome, again) {
            (Ok(response), Some(mut again)) if response.status() == StatusCode::UNAUTHORIZED => {
                self.refreshed.fetch_add(1, Ordering::Relaxed);
                again.headers_mut().insert("authorization", HeaderValue::from_static("fresh"));
                next.run(again, extensions).await
            }
            (outcome, _) => outcome,
        }
    }
}

/// A cache that revalidates, and asks a second time where what it had is not usable after all.
pub(crate) struct Cache;

#[async_trait]
impl Middleware for Cache {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let Some(whole) = request.try_clone() else { return next.run(request, extensions).await };
        request.headers_mut().insert("if-none-match", HeaderValue::from_static("\"1\""));
        let response = next.clone().run(request, extensions).await?;
        if response.status() == StatusCode::NOT_MODIFIED {
            return next.run(whole, extensions).await;
        }
        Ok(response)
    }
}

/// Looks at the bytes of the body, as layers do that sign requests.
#[derive(Default)]
pub(crate) struct Signer {
    pub(crate) saw_the_body: AtomicBool,
}

#[async_trait]
impl Middleware for Signer {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let bytes = request.body().and_then(Body::as_bytes);
        self.saw_the_body.store(bytes.is_some_and(|bytes| !bytes.is_empty()), Ordering::Relaxed);
        next.run(request, extensions).await
    }
}

/// Sends requests of its own, made of method, URL and headers of the one that it was given: up to three, until one is
/// answered with a success.
pub(crate) struct BuildsAnew {
    /// Goes on to the next layer with these extensions: those it was given, or new ones.
    pub(crate) new_extensions: bool,
    /// Sends by this client instead.
    pub(crate) client: Option<reqwest::Client>,
}

impl BuildsAnew {
    pub(crate) const SENDS: usize = 3;

    pub(crate) fn in_the_stack() -> Self {
        Self { new_extensions: false, client: None }
    }
}

#[async_trait]
impl Middleware for BuildsAnew {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut sends = 0;
        loop {
            let mut anew = Request::new(request.method().clone(), request.url().clone());
            *anew.headers_mut() = request.headers().clone();
            let outcome = match &self.client {
                Some(client) => client.execute(anew).await.map_err(Error::from),
                None if self.new_extensions => next.clone().run(anew, &mut Extensions::new()).await,
                None => next.clone().run(anew, extensions).await,
            };
            sends += 1;
            match outcome {
                Ok(response) if !response.status().is_success() && sends < Self::SENDS => {}
                outcome => return outcome,
            }
        }
    }
}

/// Drops a try that takes longer than this and sends another, until two minutes are over.
pub(crate) struct TimeLimit {
    pub(crate) each: Duration,
    /// Each try has a copy of the extensions.
    pub(crate) copies: bool,
    /// The requests of the tries are made of method, URL and headers.
    pub(crate) anew: bool,
}

#[async_trait]
impl Middleware for TimeLimit {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let end = tokio::time::Instant::now() + Duration::from_secs(118);
        loop {
            let again = if self.anew {
                let mut anew = Request::new(request.method().clone(), request.url().clone());
                *anew.headers_mut() = request.headers().clone();
                anew
            } else {
                copy(&request)?
            };
            let mut copied = extensions.clone();
            let seen = if self.copies { &mut copied } else { &mut *extensions };
            let outcome = tokio::time::timeout(self.each, next.clone().run(again, seen)).await;
            match outcome {
                Ok(outcome) if outcome.is_ok() => return outcome,
                Ok(outcome) if tokio::time::Instant::now() >= end => return outcome,
                Err(_) if tokio::time::Instant::now() >= end => {
                    return Err(Error::middleware(std::io::Error::from(std::io::ErrorKind::TimedOut)));
                }
                // A second between tries that fail at once.
                Ok(_) => tokio::time::sleep(Duration::from_secs(1)).await,
                Err(_) => {}
            }
        }
    }
}

/// Hands each run a new, empty map of extensions.
pub(crate) struct FreshMapTwice;

#[async_trait]
impl Middleware for FreshMapTwice {
    async fn handle(&self, request: Request, _: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let _ = next.clone().run(copy(&request)?, &mut Extensions::new()).await;
        next.run(request, &mut Extensions::new()).await
    }
}

/// Holds another layer, as wrappers do that skip it for some requests.
pub(crate) struct Wrapper<M>(pub(crate) M);

#[async_trait]
impl<M: Middleware> Middleware for Wrapper<M> {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        self.0.handle(request, extensions, next).await
    }
}

/// A body of unknown length that can be sent only once.
pub(crate) fn streaming() -> Body {
    Body::wrap(Streaming(Some(Bytes::from_static(b"streamed"))))
}

struct Streaming(Option<Bytes>);

impl http_body::Body for Streaming {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}
