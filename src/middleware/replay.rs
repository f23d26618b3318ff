//! Whether a request may be sent twice: what its method, its headers and the failure say.

use http::{HeaderName, HeaderValue};
use reqwest::Request;
use reqwest_middleware::Error;

use crate::clock::Chance;
use crate::decision::Failure;
use crate::policy::AdmissionPolicy;

/// [draft-ietf-httpapi-idempotency-key-header](https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/).
pub(super) static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Whether processing `request`, which has an `Idempotency-Key` or not, twice is harmless; gives it one where the policy says
/// so.
pub(super) fn is_idempotent(
    request: &mut Request,
    has_key: bool,
    policy: &AdmissionPolicy,
    chance: &Chance,
) -> bool {
    if has_key || request.method().is_idempotent() {
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

/// What the error of an attempt says about whether the server has seen the request.
pub(super) fn failure(error: &Error) -> Failure {
    match error {
        Error::Reqwest(error) if error.is_connect() => Failure::Connect,
        Error::Reqwest(error) if error.is_builder() || error.is_redirect() || error.is_status() => {
            Failure::Permanent
        }
        Error::Reqwest(error) if error.is_timeout() || error.is_request() => Failure::Unknown,
        // The error of another layer is that layer's business.
        Error::Reqwest(_) | Error::Middleware(_) => Failure::Permanent,
    }
}
