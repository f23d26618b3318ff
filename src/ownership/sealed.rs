//! Sealing an attempt: its request cannot be copied, so nothing below can send it twice.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use reqwest::{Body, Request};
use reqwest_middleware::Error;

use super::{ConflictKind, RetryConflict, Run};
use crate::error_chain;
use crate::observe::CallReport;

/// Makes `request` one that cannot be copied: `try_clone()` returns `None`.
///
/// The wire is unchanged. What it costs: 307 and 308 redirects of a request with a body are not followed, the replay of
/// HTTP/2 requests that the server says it never looked at is lost, and inner layers see no `body.as_bytes()`.
#[inline]
pub(crate) fn seal(request: &mut Request, run: &Run) -> Seal {
    let touched = Touched(run.call.clone());
    touched.0.cell().touched.store(false, Ordering::Relaxed);
    let body = request.body_mut().take().unwrap_or_default();
    *request.body_mut() = Some(Body::wrap(SealedBody { body, touched: touched.clone() }));
    Seal { touched }
}

/// Knows whether a sealed request has come as far as the client.
#[derive(Debug)]
pub(crate) struct Seal {
    touched: Touched,
}

/// Whether the request of the newest attempt has come as far as the client: kept with the call, which is there anyway.
///
/// The body of an earlier attempt may be let go late and speak for the newest. That costs an explanation, no more.
#[derive(Debug, Clone)]
struct Touched(CallReport);

impl Seal {
    /// Whether the request has come as far as the client.
    pub(crate) fn has_arrived(&self) -> bool {
        self.touched.0.cell().touched.load(Ordering::Relaxed)
    }

    /// Adds the conflict to an error of a layer that wanted a copy before anything was sent; `any_arrived` says whether a
    /// sealed request has ever come through the layers inside.
    ///
    /// A layer that copies every request, as reqwest-retry does, has never let a sealed one through. It gives up with a bare
    /// message. Layers that fail for reasons of their own, such as a token that could not be had, have an error type, or
    /// have let other requests through.
    pub(crate) fn explain(&self, error: Error, any_arrived: bool) -> (Error, Option<RetryConflict>) {
        let bare = match &error {
            Error::Middleware(error) => error.is::<String>() || error.is::<&'static str>(),
            Error::Reqwest(_) => false,
        };
        if any_arrived || self.has_arrived() || !bare {
            return (error, None);
        }
        let conflict = RetryConflict::new(ConflictKind::CopiedAttempt);
        (error_chain::attach(error, conflict.clone()), Some(conflict))
    }
}

struct SealedBody {
    body: Body,
    touched: Touched,
}

impl SealedBody {
    fn touch(&self) {
        self.touched.0.cell().touched.store(true, Ordering::Relaxed);
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
