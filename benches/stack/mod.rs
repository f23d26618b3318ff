//! Stacks of middlewares over an origin that answers without a socket.
#![allow(dead_code, reason = "each bench uses its part of this")]

use std::hint::black_box;
use std::sync::Arc;

use async_trait::async_trait;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::{Body, Request, Response, ResponseBuilderExt as _, Url};
use reqwest_admission::{Admission, AdmissionClient, AdmissionPolicy};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_retry::{RetryTransientMiddleware, policies::ExponentialBackoff};

const URL: &str = "https://api.openai.com/v1/chat/completions";
const REQUEST: &[u8] = br#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"hello"}]}"#;
const ANSWER: &str = r#"{"id":"chatcmpl-1","choices":[{"message":{"role":"assistant","content":"hello"}}]}"#;

/// A success of OpenAI's: fifteen headers, six of them limits.
pub(crate) const SUCCESS: [(&str, &str); 15] = [
    ("date", "Mon, 03 Jun 2024 10:59:40 GMT"),
    ("content-type", "application/json"),
    ("access-control-expose-headers", "X-Request-ID"),
    ("openai-organization", "org-example"),
    ("openai-processing-ms", "412"),
    ("openai-version", "2020-10-01"),
    ("x-ratelimit-limit-requests", "10000"),
    ("x-ratelimit-limit-tokens", "2000000"),
    ("x-ratelimit-remaining-requests", "9999"),
    ("x-ratelimit-remaining-tokens", "1999940"),
    ("x-ratelimit-reset-requests", "6ms"),
    ("x-ratelimit-reset-tokens", "1m26.4s"),
    ("x-request-id", "req_0123456789abcdef0123456789abcdef"),
    ("strict-transport-security", "max-age=31536000; includeSubDomains; preload"),
    ("cf-ray", "88d0000000000000-FRA"),
];

pub(crate) fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    lines
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

/// Answers every request alike.
struct Origin {
    url: Url,
    headers: HeaderMap,
}

#[async_trait]
impl Middleware for Origin {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        drop(request);
        let mut response = http::Response::builder()
            .url(self.url.clone())
            .body(Body::from(ANSWER))
            .map_err(reqwest_middleware::Error::middleware)?;
        *response.headers_mut() = self.headers.clone();
        Ok(response.into())
    }
}

/// Hands everything on.
struct Empty;

#[async_trait]
impl Middleware for Empty {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        next.run(request, extensions).await
    }
}

/// Keeps a copy of the request, as whoever may have to send it again must.
struct Cloning;

#[async_trait]
impl Middleware for Cloning {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let spare = request.try_clone();
        let outcome = next.run(request, extensions).await;
        drop(spare);
        outcome
    }
}

/// A stack and the request that it is asked.
#[derive(Clone)]
pub(crate) struct Stack {
    client: ClientWithMiddleware,
    request: Arc<Request>,
}

/// A request whose header values and body are its own, as those of real callers are. Those of a constant would be copied
/// for nothing.
fn owned(request: &Request) -> std::result::Result<Request, Box<dyn std::error::Error>> {
    let mut request = request.try_clone().ok_or("the body is no stream")?;
    for value in request.headers_mut().values_mut() {
        *value = HeaderValue::from_bytes(value.as_bytes())?;
    }
    *request.body_mut() = Some(REQUEST.to_vec().into());
    Ok(request)
}

/// The stacks that are compared, the first one being what all others add to.
pub(crate) const STACKS: [&str; 7] = ["bare", "empty", "clone", "retry", "no gate", "gate", "guarded"];

impl Stack {
    /// The stack of that name.
    pub(crate) fn named(name: &str) -> std::result::Result<Self, Box<dyn std::error::Error>> {
        let client = reqwest::Client::new();
        let stack = ClientBuilder::new(client);
        let stack = match name {
            "bare" => stack,
            "empty" => stack.with(Empty),
            "clone" => stack.with(Cloning),
            "retry" => stack.with(RetryTransientMiddleware::new_with_policy(
                ExponentialBackoff::builder().build_with_max_retries(3),
            )),
            "no gate" => stack.with(Admission::builder().without_gate().build()?),
            "gate" => stack.with(Admission::builder().policy(AdmissionPolicy::default()).build()?),
            "guarded" => {
                ClientBuilder::from_client(AdmissionClient::builder(reqwest::Client::builder()).build()?)
            }
            _ => return Err(format!("no stack is called {name}").into()),
        };
        Self::over_origin(stack)
    }

    /// The stack of these layers, with the origin as the innermost.
    pub(crate) fn over_origin(
        layers: ClientBuilder,
    ) -> std::result::Result<Self, Box<dyn std::error::Error>> {
        let mut request = Request::new(Method::POST, URL.parse()?);
        *request.headers_mut() = headers(&[
            ("authorization", "Bearer sk-0123456789abcdef0123456789abcdef"),
            ("content-type", "application/json"),
        ]);
        let origin = Origin { url: request.url().clone(), headers: headers(&SUCCESS) };
        Ok(Self { client: layers.with(origin).build(), request: Arc::new(request) })
    }

    /// One call, from the request to the end of the response's body.
    pub(crate) async fn call(&self) -> std::result::Result<usize, Box<dyn std::error::Error>> {
        let request = owned(&self.request)?;
        Ok(self.client.execute(request).await?.bytes().await?.len())
    }

    /// That many calls, one after another.
    pub(crate) fn calls(&self, rounds: u32) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            for _ in 0..rounds {
                black_box(self.call().await?);
            }
            Ok(())
        })
    }
}
