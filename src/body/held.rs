//! A response body that holds a permit until it ends, fails or is dropped.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use reqwest::{Body, Response};

use super::assemble;

/// What a response body holds on to.
pub(crate) trait Held: Send + Sync + Unpin + 'static {
    /// Some of the body has come.
    fn data(&mut self, data: &[u8]);

    /// The body has come to its end, or, if not `cleanly`, to an error. Called at most once; a body that is dropped
    /// half way just drops what it holds.
    fn end(&mut self, cleanly: bool);
}

/// Lets `response` hold on to `held` for as long as its body lasts; url, extensions and length stay as they are.
pub(crate) fn hold<H: Held>(response: Response, to_head: bool, mut held: H) -> Response {
    let url = response.url().clone();
    let (head, body) = http::Response::<Body>::from(response).into_parts();
    // Nobody reads a body that is known to be empty, so its end would never come. What the body says of itself is not
    // enough: decoders do not say that they are at their end.
    let has_none =
        to_head || head.status.is_informational() || matches!(head.status.as_u16(), 204 | 205 | 304);
    if has_none || body.is_end_stream() || body.size_hint().exact() == Some(0) {
        held.end(true);
        return assemble(head, url, body);
    }
    assemble(head, url, Body::wrap(HoldingBody { body, held: Some(held), is_over: false }))
}

struct HoldingBody<H> {
    body: Body,
    held: Option<H>,
    /// Whether nothing more will come. Whoever asks again, as most do, need not go through all layers.
    is_over: bool,
}

impl<H: Held> HoldingBody<H> {
    fn end(&mut self, cleanly: bool) {
        if let Some(mut held) = self.held.take() {
            held.end(cleanly);
        }
    }
}

impl<H: Held> http_body::Body for HoldingBody<H> {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let (Some(data), Some(held)) = (frame.data_ref(), self.held.as_mut()) {
                    held.data(data);
                }
                // A reader that knows the length stops here and never asks for the end.
                if self.body.is_end_stream() {
                    self.is_over = true;
                    self.end(true);
                }
            }
            Some(Err(_)) => self.end(false),
            None => self.end(true),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
