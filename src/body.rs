//! The bodies of refusals: read up to a bound, then given back whole or dropped.
//!
//! Reading a refusal's body to its end before a wait lets the connection be used again; dropping it half read
//! closes the connection. Both the bytes and the time are bounded, since a server may never end its body.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use reqwest::{Body, Response, ResponseBuilderExt as _, Url};

use crate::clock;

/// A response whose body has been read up to a bound.
pub(crate) struct Peeked {
    head: http::response::Parts,
    url: Url,
    frames: VecDeque<Result<Frame<Bytes>, reqwest::Error>>,
    rest: Option<Body>,
    text: Bytes,
    /// The length, where it was known before anything was read.
    length: Option<u64>,
}

impl Peeked {
    /// Reads at most about `limit` bytes and not past `until`; what is read stays part of the response.
    pub(crate) async fn read(response: Response, limit: usize, until: Instant) -> Self {
        let mut peeked = Self::unread(response);
        // The deadline is for the whole of it: a server that trickles must not start it anew with each frame.
        let _ = clock::until(until, peeked.fill(limit)).await;
        peeked.text = joined(&peeked.frames, limit);
        peeked
    }

    /// A response of which nothing is read.
    pub(crate) fn unread(response: Response) -> Self {
        let url = response.url().clone();
        let (head, body) = http::Response::<Body>::from(response).into_parts();
        let length = body.size_hint().exact();
        Self { head, url, frames: VecDeque::new(), rest: Some(body), text: Bytes::new(), length }
    }

    async fn fill(&mut self, limit: usize) {
        let mut length = 0_usize;
        while let Some(body) = self.rest.as_mut() {
            let frame = body.frame().await;
            let ended = !matches!(frame, Some(Ok(_)));
            if let Some(frame) = frame {
                length = length.saturating_add(data(&frame).map_or(0, Bytes::len));
                self.frames.push_back(frame);
            }
            if ended {
                self.rest = None;
            } else if length >= limit {
                return;
            }
        }
    }

    pub(crate) const fn head(&self) -> &http::response::Parts {
        &self.head
    }

    /// The body as far as it is read.
    pub(crate) const fn text(&self) -> &Bytes {
        &self.text
    }

    /// Lets go of the connection: what is not read by now is lost.
    pub(crate) fn detach(&mut self) {
        self.rest = None;
    }

    /// The response as if it had never been looked into: same url, extensions, length and body.
    pub(crate) fn into_response(self) -> Response {
        let body = match self.rest {
            Some(body) if self.frames.is_empty() => body,
            rest => Body::wrap(Replayed { frames: self.frames, rest, length: self.length }),
        };
        assemble(self.head, self.url, body)
    }
}

/// A response of these parts. `reqwest::Response` keeps its url in an extension that `http::Response` loses.
fn assemble(mut head: http::response::Parts, url: Url, body: Body) -> Response {
    let mut builder = http::Response::builder();
    // The url goes into the map that is there already; one of its own would only be taken apart again.
    if let Some(extensions) = builder.extensions_mut() {
        *extensions = std::mem::take(&mut head.extensions);
    }
    // There are none only where a builder was given a bad status or header.
    if let Some(extensions) = builder.url(url).extensions_mut() {
        head.extensions = std::mem::take(extensions);
    }
    Response::from(http::Response::from_parts(head, body))
}

impl fmt::Debug for Peeked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peeked").field("status", &self.head.status).finish_non_exhaustive()
    }
}

fn data(frame: &Result<Frame<Bytes>, reqwest::Error>) -> Option<&Bytes> {
    frame.as_ref().ok().and_then(Frame::data_ref)
}

fn joined(frames: &VecDeque<Result<Frame<Bytes>, reqwest::Error>>, limit: usize) -> Bytes {
    let mut parts = frames.iter().filter_map(data);
    let (first, second) = (parts.next(), parts.next());
    let text = match (first, second) {
        (None, _) => Bytes::new(),
        (Some(only), None) => only.clone(),
        (Some(first), Some(second)) => {
            let mut all = BytesMut::with_capacity(first.len().saturating_add(second.len()));
            [first, second].into_iter().chain(parts).for_each(|part| all.extend_from_slice(part));
            all.freeze()
        }
    };
    text.slice(..text.len().min(limit))
}

/// The frames that were read, then the rest.
struct Replayed {
    frames: VecDeque<Result<Frame<Bytes>, reqwest::Error>>,
    rest: Option<Body>,
    /// What is left of the length, where it was known before anything was read.
    length: Option<u64>,
}

impl http_body::Body for Replayed {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        let frame = match self.frames.pop_front() {
            Some(frame) => Some(frame),
            None => match self.rest.as_mut() {
                Some(rest) => ready!(Pin::new(rest).poll_frame(context)),
                None => None,
            },
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

    /// As if nothing had been read: a length that was not known is not known now, even of a body read to its end, and
    /// one that was known is the same, even of a body that broke off.
    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

mod held;

pub(crate) use held::{Held, hold};

#[cfg(test)]
mod tests;
