//! [`RetryConflict`]: what showed itself of another layer that retries.

use std::fmt;
use std::num::NonZeroU32;

use http::HeaderValue;
use reqwest::Response;
use reqwest_middleware::Error;

use crate::error_chain;
use crate::reading::number;

/// Another layer of the stack retries, or would.
///
/// `Display` says which layer it is, as far as that can be seen, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryConflict {
    kind: ConflictKind,
    layer: Option<&'static str>,
    count: Option<u32>,
}

/// How another retrying layer showed itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConflictKind {
    /// A layer of a type that is known to retry was given to the client's builder.
    KnownRetryLayer,
    /// An `Admission` found another one around it.
    NestedAdmission,
    /// A layer outside sent the call again although it had been given up, or had used its attempts or its time in tries
    /// that the layer dropped on their way.
    Reentry,
    /// A layer inside sent one attempt again after a refusal or failure.
    RepeatedAttempt,
    /// A layer inside wanted a copy of the sealed request before it sent anything.
    ///
    /// That does not show as such. It is concluded if no sealed request has ever come through the layers inside, and one
    /// of them fails with a bare message, an error without a type of its own.
    CopiedAttempt,
    /// A layer inside sent a request of its own in place of the attempt's, so that nobody can tell how often it was sent.
    ReplacedRequest,
    /// The request says that it is a repeat (`x-stainless-retry-count`, as the OpenAI and Anthropic SDKs send it).
    /// Only ever reported.
    AnnouncedRepeat,
    /// A proxy says that it sent the request several times (`x-envoy-attempt-count`). Only ever reported.
    ProxyRepeat,
}

impl ConflictKind {
    /// The kind's name in snake case, as events and metrics have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.texts().0
    }

    /// Its name, what it is, and what to do.
    const fn texts(self) -> (&'static str, &'static str, &'static str) {
        const REMOVE: &str = "remove it; the admission layer retries for the whole stack";
        match self {
            Self::KnownRetryLayer => {
                ("known_retry_layer", "the stack has a layer that retries by itself", REMOVE)
            }
            Self::NestedAdmission => (
                "nested_admission",
                "there are two admission layers in one stack",
                "keep one of them, outermost",
            ),
            Self::Reentry => (
                "reentry",
                "a layer outside the admission layer sends a call again that was given up or has used its attempts or time",
                "remove the outer retry, or its time limit for each try; the admission layer has done what can be done (a new call needs new extensions)",
            ),
            Self::RepeatedAttempt => {
                ("repeated_attempt", "a layer inside the admission layer sent one attempt twice", REMOVE)
            }
            Self::CopiedAttempt => (
                "copied_attempt",
                "a layer inside the admission layer wants to send one attempt twice",
                REMOVE,
            ),
            Self::ReplacedRequest => (
                "replaced_request",
                "a layer inside the admission layer sends a request of its own instead of the one it was given",
                "if it retries, remove it; else let it hand on the request and the extensions that it was given",
            ),
            Self::AnnouncedRepeat => (
                "announced_repeat",
                "the request says that it is a repeat by a layer outside",
                "set that client's retries to none",
            ),
            Self::ProxyRepeat => (
                "proxy_repeat",
                "a proxy says that it sent the request several times",
                "switch the proxy's retries off for this route",
            ),
        }
    }
}

impl RetryConflict {
    pub(crate) const fn new(kind: ConflictKind) -> Self {
        Self { kind, layer: None, count: None }
    }

    pub(crate) const fn replaced_request() -> Self {
        Self::new(ConflictKind::ReplacedRequest)
    }

    pub(crate) const fn of_layer(kind: ConflictKind, layer: &'static str) -> Self {
        Self { kind, layer: Some(layer), count: None }
    }

    /// How the other layer showed itself.
    #[must_use]
    pub const fn kind(&self) -> ConflictKind {
        self.kind
    }

    /// The type name of the other layer, if it is known.
    #[must_use]
    pub const fn layer(&self) -> Option<&'static str> {
        self.layer
    }

    /// How often the other layer says it has sent the request, the first time included.
    #[must_use]
    pub const fn count(&self) -> Option<u32> {
        self.count
    }

    /// What a request says about a layer outside, in `x-stainless-retry-count`.
    pub(crate) fn announced(said: &HeaderValue) -> Option<Self> {
        let repeats = number(said)?.get();
        Some(Self { count: Some(repeats.saturating_add(1)), ..Self::new(ConflictKind::AnnouncedRepeat) })
    }

    /// What it says about a proxy that it has sent the request so often.
    pub(crate) fn by_proxy(attempts: NonZeroU32) -> Option<Self> {
        let attempts = attempts.get();
        (attempts > 1).then(|| Self { count: Some(attempts), ..Self::new(ConflictKind::ProxyRepeat) })
    }

    /// The conflict in the outcome of `send()`, if there is one; errors are searched as by
    /// [`SpillOver::find`](crate::SpillOver::find).
    #[must_use]
    pub fn of(outcome: &Result<Response, Error>) -> Option<&Self> {
        outcome.as_ref().err().and_then(error_chain::in_middleware_error)
    }

    /// The conflict in `error` or its causes, for errors that have been boxed or wrapped on their way; see
    /// [`SpillOver::find`](crate::SpillOver::find). A conflict that was cloned out of its error is not found in a wrapper that
    /// shows its cause's causes in its place.
    #[must_use]
    pub fn find<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        error_chain::find(error)
    }
}

impl fmt::Display for RetryConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, what, to_do) = self.kind.texts();
        write!(f, "{what}")?;
        if let Some(layer) = self.layer {
            write!(f, " ({layer})")?;
        }
        write!(f, ": {to_do}")
    }
}

impl std::error::Error for RetryConflict {}
