//! The bodies of refusals: read up to a bound, then given back whole or given up.
//!
//! A refusal's body is read to its end before a wait, so that its connection can be used again. Both the bytes and the
//! time are bounded, since a server may never end it.

use std::collections::VecDeque;
use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use reqwest::{Body, Response, ResponseBuilderExt as _, Url};

use crate::clock;

type AnyError = Box<dyn Error + Send + Sync>;
type Frames = VecDeque<Result<Frame<Bytes>, AnyError>>;

/// A response whose body has been read up to a bound.
pub(crate) struct Peeked {
    head: http::response::Parts,
    url: Url,
    frames: Frames,
    /// How many bytes the frames hold, each at least one.
    held: usize,
    /// What has not been read; `None` once nothing more comes.
    rest: Option<Body>,
    /// The length, if it was known before anything was read.
    length: Option<u64>,
}

impl Peeked {
    /// A response that nothing has been read of.
    pub(crate) fn unread(response: Response) -> Self {
        let url = response.url().clone();
        let (head, body) = http::Response::<Body>::from(response).into_parts();
        let length = body.size_hint().exact();
        let rest = (!body.is_end_stream()).then_some(body);
        Self { head, url, frames: VecDeque::new(), held: 0, rest, length }
    }

    /// Reads what has arrived by now, up to about `limit` bytes, and waits for nothing.
    pub(crate) async fn read_arrived(&mut self, limit: usize) {
        poll_fn(|context| Poll::Ready(self.poll_read(limit, context))).await.is_ready();
    }

    /// Reads on until about `limit` bytes are there, and not past `until`. What is read stays part of the response.
    pub(crate) async fn read(&mut self, limit: usize, until: Instant) {
        // One deadline for all of it: a server that trickles must not start it anew with each frame.
        let _ = clock::until(until, poll_fn(|context| self.poll_read(limit, context))).await;
    }

    fn poll_read(&mut self, limit: usize, context: &mut Context<'_>) -> Poll<()> {
        while self.held < limit
            && let Some(body) = &mut self.rest
        {
            let frame = ready!(Pin::new(&mut *body).poll_frame(context));
            if !matches!(frame, Some(Ok(_))) || body.is_end_stream() {
                self.rest = None;
            }
            if let Some(frame) = frame {
                let frame = frame.map_err(AnyError::from);
                // Frames with nothing in them count as well: a server may send no others.
                self.held = self.held.saturating_add(data(&frame).map_or(1, |data| data.len().max(1)));
                self.frames.push_back(frame);
            }
        }
        Poll::Ready(())
    }

    /// Whether nothing more is to be read with this limit.
    pub(crate) const fn is_read(&self, limit: usize) -> bool {
        self.rest.is_none() || self.held >= limit
    }

    pub(crate) const fn head(&self) -> &http::response::Parts {
        &self.head
    }

    /// The host that answered.
    pub(crate) fn host(&self) -> Option<&str> {
        self.url.host_str()
    }

    /// The body as far as it is read, at most `limit` bytes.
    pub(crate) fn text(&self, limit: usize) -> Bytes {
        let mut parts = self.frames.iter().filter_map(data);
        let text = match (parts.next(), parts.next()) {
            (None, _) => Bytes::new(),
            (Some(only), None) => only.clone(),
            (Some(first), Some(second)) => {
                let mut all = BytesMut::with_capacity(self.held);
                [first, second].into_iter().chain(parts).for_each(|part| all.extend_from_slice(part));
                all.freeze()
            }
        };
        text.slice(..text.len().min(limit))
    }

    /// Gives up the connection. Whoever reads the body to where it was read finds an error there, unless that is its end.
    pub(crate) fn give_up(&mut self) {
        if self.rest.take().is_some() {
            self.frames.push_back(Err(GivenUp.into()));
        }
    }

    /// The response as if nothing had been read of it: same url, extensions, length and body.
    pub(crate) fn into_response(self) -> Response {
        let body = match self.rest {
            Some(body) if self.frames.is_empty() => body,
            rest => Body::wrap(Replayed { frames: self.frames, rest, length: self.length }),
        };
        assemble(self.head, self.url, body)
    }
}

/// The end of a body that was not read to its own.
#[derive(Debug, thiserror::Error)]
#[error("the rest of the response's body was given up")]
struct GivenUp;

/// A response of these parts. `reqwest::Response` keeps its url in an extension that `http::Response` loses.
fn assemble(mut head: http::response::Parts, url: Url, body: Body) -> Response {
    let mut builder = http::Response::builder();
    // The url goes into the map that is there already; one of its own would only be taken apart again.
    if let Some(extensions) = builder.extensions_mut() {
        *extensions = std::mem::take(&mut head.extensions);
    }
    // Only a builder that was given a bad status or header has none.
    if let Some(extensions) = builder.url(url).extensions_mut() {
        head.extensions = std::mem::take(extensions);
    }
    Response::from(http::Response::from_parts(head, body))
}

fn data(frame: &Result<Frame<Bytes>, AnyError>) -> Option<&Bytes> {
    frame.as_ref().ok().and_then(Frame::data_ref)
}

/// The frames that were read, then the rest.
struct Replayed {
    frames: Frames,
    rest: Option<Body>,
    /// What is left of the length, if it was known before anything was read.
    length: Option<u64>,
}

impl http_body::Body for Replayed {
    type Data = Bytes;
    type Error = AnyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnyError>>> {
        let frame = match (self.frames.pop_front(), &mut self.rest) {
            (Some(frame), _) => Some(frame),
            (None, Some(rest)) => {
                ready!(Pin::new(rest).poll_frame(context)).map(|frame| frame.map_err(AnyError::from))
            }
            (None, None) => None,
        };
        match &frame {
            Some(frame) => {
                let given = u64::try_from(data(frame).map_or(0, Bytes::len)).unwrap_or(u64::MAX);
                self.length = self.length.map(|length| length.saturating_sub(given));
            }
            None => self.rest = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.rest.as_ref().is_none_or(|rest| rest.is_end_stream())
    }

    /// As if nothing had been read: a length that was not known stays unknown, and one that was known stays, even of a
    /// body that broke off.
    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

mod held;
mod last;

pub(crate) use held::{Held, hold};
pub use last::LastResponse;

#[cfg(test)]
mod tests;
