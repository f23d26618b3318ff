//! A fake origin: the innermost layer of a stack, answering without a socket, so that tokio's paused clock is exact.
#![allow(dead_code, reason = "each test file uses its part of this")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, HeaderMap, Method, StatusCode};
use reqwest::{Body, Request, Response, ResponseBuilderExt as _};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use tokio::time::Instant;

/// One answer of the fake origin.
pub(crate) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Body,
    latency: Duration,
    error: Option<reqwest_middleware::Error>,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Body::default(),
            latency: Duration::ZERO,
            error: None,
        }
    }

    pub(crate) fn ok() -> Self {
        Self::status(200)
    }

    pub(crate) fn error(error: reqwest_middleware::Error) -> Self {
        Self { error: Some(error), ..Self::ok() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        let name = http::HeaderName::try_from(name).unwrap();
        self.headers.append(name, http::HeaderValue::from_str(value).unwrap());
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    /// Answers only after `latency`.
    pub(crate) fn after(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    async fn give(self, url: reqwest::Url) -> Result<Response> {
        tokio::time::sleep(self.latency).await;
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut response = http::Response::builder().url(url).status(self.status).body(self.body).unwrap();
        *response.headers_mut() = self.headers;
        Ok(response.into())
    }
}

/// One request as the origin saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) method: Method,
    pub(crate) url: reqwest::Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Vec<u8>>,
}

type Script = dyn FnMut(usize, &Request) -> Answer + Send;

/// The origin: answers by a script that is given the number of the request, from 0.
#[derive(Clone)]
pub(crate) struct Origin {
    script: Arc<Mutex<Box<Script>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Origin {
    pub(crate) fn new(script: impl FnMut(usize, &Request) -> Answer + Send + 'static) -> Self {
        Self { script: Arc::new(Mutex::new(Box::new(script))), seen: Arc::default() }
    }

    /// Gives `answers` in order, then 200s.
    pub(crate) fn in_order(answers: impl IntoIterator<Item = Answer>) -> Self {
        let mut answers: std::collections::VecDeque<_> = answers.into_iter().collect();
        Self::new(move |_, _| answers.pop_front().unwrap_or_else(Answer::ok))
    }

    /// Gives the same answer for ever.
    pub(crate) fn always(answer: impl Fn() -> Answer + Send + 'static) -> Self {
        Self::new(move |_, _| answer())
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// The times between the start and each request.
    pub(crate) fn times(&self, start: Instant) -> Vec<Duration> {
        self.seen().iter().map(|seen| seen.at.duration_since(start)).collect()
    }

    /// A client without any other layer, for a deployment on another origin.
    pub(crate) fn client(&self) -> ClientWithMiddleware {
        ClientBuilder::new(reqwest::Client::new()).with(self.clone()).build()
    }

    /// A client of which `layer` is the only layer.
    pub(crate) fn behind(&self, layer: impl Middleware) -> ClientWithMiddleware {
        ClientBuilder::new(reqwest::Client::new()).with(layer).with(self.clone()).build()
    }
}

#[async_trait]
impl Middleware for Origin {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let answer = {
            let mut seen = self.seen.lock().unwrap();
            let answer = (self.script.lock().unwrap())(seen.len(), &request);
            seen.push(Seen {
                at: Instant::now(),
                method: request.method().clone(),
                url: request.url().clone(),
                headers: request.headers().clone(),
                body: request.body().and_then(Body::as_bytes).map(<[u8]>::to_vec),
            });
            answer
        };
        answer.give(request.url().clone()).await
    }
}

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
