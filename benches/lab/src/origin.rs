//! The end of every stack: the model's server in the place of a network.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Extensions, StatusCode};
use http_body::Frame;
use reqwest::{Body, Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};
use tokio::time::{Instant, Sleep, sleep};

use crate::model::{Call, Stated, World};

/// Answers by the model, without a socket.
#[derive(Debug)]
pub(crate) struct Origin(pub(crate) Arc<World>);

/// A call came to its end after its deadline; no server has seen it.
#[derive(Debug, thiserror::Error)]
#[error("the time of the call is over")]
pub(crate) struct TooLate;

#[async_trait]
impl Middleware for Origin {
    async fn handle(&self, _: Request, extensions: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let call = *extensions.get::<Call>().ok_or_else(|| Error::middleware(TooLate))?;
        // For strategies that know nothing of a deadline: their callers have hung up.
        if Instant::now() > call.deadline {
            return Err(Error::middleware(TooLate));
        }
        let (answer, body) = self.0.send(&call).await;
        match answer {
            Ok(stated) => taken(stated, call.size, body),
            Err(advice) => refused(advice),
        }
    }
}

/// A success: the head now, the body after `body`.
pub(crate) fn taken(stated: Option<Stated>, size: f64, body: Duration) -> Result<Response> {
    let text =
        format!(r#"{{"usage":{{"prompt_tokens":{size},"completion_tokens":0,"total_tokens":{size}}}}}"#);
    let mut head = http::Response::builder().header(CONTENT_TYPE, "application/json");
    if let Some(Stated { limit, remaining, reset }) = stated {
        head = head
            .header("x-ratelimit-limit-tokens", limit)
            .header("x-ratelimit-remaining-tokens", remaining)
            .header("x-ratelimit-reset-tokens", format!("{}ms", reset.as_millis()));
    }
    Ok(head.body(later(body, text)).map_err(Error::middleware)?.into())
}

/// A refusal with what it advises. Whole seconds go by the standard header.
pub(crate) fn refused(advice: Option<Duration>) -> Result<Response> {
    let head = http::Response::builder().status(StatusCode::TOO_MANY_REQUESTS);
    let head = match advice {
        Some(wait) if wait.subsec_millis() == 0 => head.header("retry-after", wait.as_secs()),
        Some(wait) => head.header("retry-after-ms", wait.as_millis().to_string()),
        None => head,
    };
    Ok(head.body(Body::default()).map_err(Error::middleware)?.into())
}

/// A body that comes all at once, after `wait`.
pub(crate) fn later(wait: Duration, text: impl Into<Bytes>) -> Body {
    Body::wrap(SlowBody { sleep: Box::pin(sleep(wait)), text: Some(text.into()) })
}

struct SlowBody {
    sleep: Pin<Box<Sleep>>,
    text: Option<Bytes>,
}

impl http_body::Body for SlowBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
        if self.text.is_some() {
            std::task::ready!(self.sleep.as_mut().poll(context));
        }
        Poll::Ready(self.text.take().map(|text| Ok(Frame::data(text))))
    }
}
