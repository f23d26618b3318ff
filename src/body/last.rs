//! What is kept of a response that does not reach the caller as one.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::reading::Reading;

/// A server's response as it is kept for the caller after a refusal or a failed attempt: status, headers and the first
/// 64 KiB of the body, as far as they had arrived. Cloning is cheap.
///
/// `Debug` shows the status alone.
#[derive(Clone)]
pub struct LastResponse(Arc<Kept>);

struct Kept {
    reading: Reading,
    headers: HeaderMap,
    body: Bytes,
}

impl LastResponse {
    pub(crate) fn new(reading: Reading, headers: HeaderMap, body: Bytes) -> Self {
        Self(Arc::new(Kept { reading, headers, body }))
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.reading.status()
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// The body, at most the first 64 KiB; empty if nothing of it had arrived.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.0.body
    }

    /// What the response says about capacity.
    #[must_use]
    pub fn reading(&self) -> &Reading {
        &self.0.reading
    }
}

impl fmt::Debug for LastResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastResponse").field("status", &self.status()).finish_non_exhaustive()
    }
}
