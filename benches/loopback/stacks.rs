//! The stacks that are compared, each with connections of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method};
use reqwest::{Request, Url};
use reqwest_admission::{Admission, AdmissionClient};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::{RetryTransientMiddleware, policies::ExponentialBackoff};

use crate::Result;

const REQUEST: &[u8] = br#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"hello"}]}"#;

/// What all are compared with, what is held to a target, and the others.
pub(crate) const BARE: usize = 0;
pub(crate) const DEFAULT: usize = 1;
pub(crate) const STACKS: [&str; 5] =
    ["bare", "default client", "without gate", "layer alone", "reqwest-retry"];

/// A client and what it asks for.
#[derive(Clone)]
pub(crate) struct Stack {
    client: ClientWithMiddleware,
    url: Url,
    headers: HeaderMap,
}

impl Stack {
    pub(crate) fn named(name: &str, url: &str) -> Result<Self> {
        let settings = || reqwest::Client::builder().no_proxy().http1_only();
        let client = match name {
            "bare" => ClientBuilder::new(settings().build()?).build(),
            "default client" => AdmissionClient::builder(settings()).build()?,
            "without gate" => {
                let admission = Admission::builder().without_gate();
                AdmissionClient::builder(settings()).admission(admission).build()?
            }
            // Without the guard at the inner end, as in a stack that somebody else builds.
            "layer alone" => ClientBuilder::new(settings().build()?).with(Admission::default()).build(),
            "reqwest-retry" => {
                let policy = ExponentialBackoff::builder().build_with_max_retries(3);
                let retry = RetryTransientMiddleware::new_with_policy(policy);
                ClientBuilder::new(settings().build()?).with(retry).build()
            }
            _ => return Err(format!("no stack is called {name}").into()),
        };
        let headers = [
            (http::header::AUTHORIZATION, "Bearer sk-0123456789abcdef0123456789abcdef"),
            (http::header::CONTENT_TYPE, "application/json"),
        ];
        let headers =
            headers.map(|(name, value)| (name, HeaderValue::from_static(value))).into_iter().collect();
        Ok(Self { client, url: url.parse()?, headers })
    }

    /// One call, from the request to the end of the response's body.
    async fn call(&self) -> Result<()> {
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = Some(REQUEST.to_vec().into());
        let response = self.client.execute(request).await?.error_for_status()?;
        response.bytes().await?;
        Ok(())
    }

    /// Lets `callers` make so many calls each, one after another; the time of it all.
    pub(crate) async fn turn(self: &Arc<Self>, callers: u32, calls: u32) -> Result<Duration> {
        let tasks: Vec<_> = (0..callers)
            .map(|_| {
                let stack = Arc::clone(self);
                async move {
                    for _ in 0..calls {
                        stack.call().await?;
                    }
                    Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
                }
            })
            .collect();
        let start = Instant::now();
        let tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
        for task in tasks {
            task.await??;
        }
        Ok(start.elapsed())
    }
}
