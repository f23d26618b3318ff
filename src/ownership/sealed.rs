//! Sealing an attempt: its request cannot be copied, so nothing below can send it twice.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use reqwest::{Body, Request};
use reqwest_middleware::Error;

use super::conflict::{ConflictKind, RetryConflict};
use super::run::Attempt;
use crate::error_chain;

/// Makes `request` one that cannot be copied: `try_clone()` returns `None`.
///
/// The wire is unchanged. What it costs: 307 and 308 redirects of a request with a body are not followed, the replay of
/// HTTP/2 requests that the server says it never looked at is lost, and inner layers see no `body.as_bytes()`.
pub(crate) fn seal(request: &mut Request, attempt: Attempt) {
    let body = request.body_mut().take().unwrap_or_default();
    *request.body_mut() = Some(Body::wrap(SealedBody { body, attempt, is_touched: false.into() }));
}

/// Adds the conflict to an error of a layer that wanted a copy before anything was sent; `any_arrived` says whether a
/// sealed request has ever come through the layers inside.
///
/// A layer that copies every request, as reqwest-retry does, has never let a sealed one through. It gives up with a bare
/// message. Layers that fail for reasons of their own, such as a token that could not be had, have an error type, or
/// have let other requests through.
pub(crate) fn explain_copy(
    error: Error,
    attempt: &Attempt,
    any_arrived: bool,
) -> (Error, Option<RetryConflict>) {
    let bare = match &error {
        Error::Middleware(error) => error.is::<String>() || error.is::<&'static str>(),
        Error::Reqwest(_) => false,
    };
    if any_arrived || attempt.has_arrived() || !bare {
        return (error, None);
    }
    let conflict = RetryConflict::new(ConflictKind::CopiedAttempt);
    (error_chain::attach(error, conflict.clone()), Some(conflict))
}

/// A body that says when the client asks for it.
struct SealedBody {
    body: Body,
    attempt: Attempt,
    is_touched: AtomicBool,
}

impl SealedBody {
    fn touch(&self) {
        if !self.is_touched.swap(true, Ordering::Relaxed) {
            self.attempt.is_touched();
        }
    }
}

impl http_body::Body for SealedBody {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        self.touch();
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.touch();
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.touch();
        self.body.size_hint()
    }
}
