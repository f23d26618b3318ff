//! Whether a request may be sent twice: what its method, its headers and the failure say.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};

use http::{HeaderName, HeaderValue};
use reqwest::Request;
use reqwest_middleware::Error;

use crate::clock::Chance;
use crate::decision::Failure;
use crate::policy::AdmissionPolicy;

/// [draft-ietf-httpapi-idempotency-key-header](https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/).
static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Whether processing `request` twice is harmless; gives it an `Idempotency-Key` if the policy says so.
pub(super) fn is_idempotent(request: &mut Request, policy: &AdmissionPolicy, chance: &Chance) -> bool {
    if request.method().is_idempotent() || request.headers().contains_key(&IDEMPOTENCY_KEY) {
        return true;
    }
    if !policy.mint_idempotency_key() {
        return false;
    }
    // Set once on the request that all attempts are copies of. The deployed servers take the bare value, not the
    // draft's quoted string.
    let Ok(key) = HeaderValue::try_from(chance.uuid()) else { return false };
    request.headers_mut().insert(&IDEMPOTENCY_KEY, key);
    true
}

/// An attempt that ended in an error.
pub(super) struct Failed {
    pub(super) error: Error,
    pub(super) failure: Failure,
    /// Whether no connection came about, so that nothing was sent.
    pub(super) is_unsent: bool,
}

impl Failed {
    /// Classifies the error of an attempt. `asked_again` is the call's memory of a name that did not resolve.
    pub(super) fn new(error: Error, asked_again: &mut bool) -> Self {
        let (failure, is_unsent) = match &error {
            Error::Reqwest(error) if error.is_connect() => {
                let failure = match why_unconnected(error) {
                    Unconnected::ForNow => Failure::Connect,
                    Unconnected::NoAddress if !std::mem::replace(asked_again, true) => Failure::Connect,
                    Unconnected::NoAddress | Unconnected::ForGood => Failure::Permanent,
                };
                (failure, true)
            }
            Error::Reqwest(error) if error.is_builder() || error.is_redirect() || error.is_status() => {
                (Failure::Permanent, false)
            }
            Error::Reqwest(error) if error.is_timeout() || error.is_request() => (Failure::Unknown, false),
            // The error of another layer is that layer's business.
            Error::Reqwest(_) | Error::Middleware(_) => (Failure::Permanent, false),
        };
        Self { error, failure, is_unsent }
    }
}

/// Why no connection came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unconnected {
    /// The network or the server may take the next one.
    ForNow,
    /// The name did not resolve, or whatever else is not told in more detail. Asked once more.
    NoAddress,
    /// A certificate, a scheme or a URL that the next connection would stumble over as well.
    ForGood,
}

/// By the operating system's errors in the chain of sources: whoever refuses a certificate, a scheme or a URL has none.
fn why_unconnected(error: &reqwest::Error) -> Unconnected {
    if error.is_timeout() {
        return Unconnected::ForNow;
    }
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref() {
            return of_io(error);
        }
        next = error.source();
    }
    Unconnected::ForGood
}

fn of_io(error: &io::Error) -> Unconnected {
    // Layers wrap the errors of others in their own, and `source()` passes the wrapped one over.
    if let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        return of_io(inner);
    }
    use ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidData, InvalidInput,
        NotConnected, TimedOut, UnexpectedEof, Unsupported,
    };
    match (error.raw_os_error(), error.kind()) {
        (_, InvalidData | InvalidInput | Unsupported) => Unconnected::ForGood,
        // A failed look-up has no number on Unix, and one of Winsock's own on Windows.
        (Some(11_001..=11_004), _) => Unconnected::NoAddress,
        (Some(_), _)
        | (
            None,
            BrokenPipe | ConnectionAborted | ConnectionRefused | ConnectionReset | NotConnected | TimedOut
            | UnexpectedEof,
        ) => Unconnected::ForNow,
        (None, _) => Unconnected::NoAddress,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("invalid peer certificate: UnknownIssuer")]
    struct Certificate;

    #[test]
    fn an_error_of_the_operating_system_is_found_however_it_is_wrapped() {
        let refused = || io::Error::from(ErrorKind::ConnectionRefused);
        let certificate = || io::Error::new(ErrorKind::InvalidData, Certificate);
        for (error, expected) in [
            (refused(), Unconnected::ForNow),
            (io::Error::other(refused()), Unconnected::ForNow),
            (io::Error::other(io::Error::other(refused())), Unconnected::ForNow),
            (certificate(), Unconnected::ForGood),
            (io::Error::other(certificate()), Unconnected::ForGood),
            (io::Error::other("failed to lookup address information"), Unconnected::NoAddress),
            (io::Error::from_raw_os_error(11_001), Unconnected::NoAddress),
            (io::Error::from_raw_os_error(24), Unconnected::ForNow),
        ] {
            assert_eq!(of_io(&error), expected, "{error:?}");
        }
    }
}
