//! What one response says about capacity: the hint, what is exhausted, the limits, terminal or not.
//!
//! Pure: the moment of receipt is an argument, nothing here reads a clock or waits.

mod vendor;

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use arrayvec::ArrayVec;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

pub use vendor::Profile;

use crate::units::{QuotaUnit, QuotaUnits};

/// The longest part of a body that is looked at, in bytes.
pub const MAX_BODY: usize = 64 * 1024;

/// The most service limits one reading holds; further ones are left out.
pub(crate) const MAX_LIMITS: usize = 12;

/// What one response says about capacity.
///
/// Made by [`Reading::from_parts`]. Reading never fails: a field that cannot be understood is as if absent.
#[derive(Debug, Clone)]
pub struct Reading {
    pub(crate) status: StatusCode,
    pub(crate) received_at: SystemTime,
    pub(crate) throttled: bool,
    pub(crate) hint: Option<Hint>,
    pub(crate) exhausted: QuotaUnits,
    pub(crate) limits: ArrayVec<ServiceLimit, MAX_LIMITS>,
    pub(crate) terminal: Option<Terminal>,
    pub(crate) backoff_floor: Option<Duration>,
    pub(crate) request_id: Option<HeaderValue>,
    pub(crate) native_spill_over: Option<NativeSpillOver>,
}

impl Reading {
    /// Reads a response with the standard profile; `body` is the (possibly cut) body where it is at hand.
    #[must_use]
    pub fn from_parts(
        status: StatusCode,
        headers: &HeaderMap,
        body: Option<&[u8]>,
        received_at: SystemTime,
    ) -> Self {
        Self::with_profile(Profile::standard(), status, headers, body, received_at)
    }

    /// Reads a response with what is known of one vendor.
    #[must_use]
    pub fn with_profile(
        _profile: &Profile,
        status: StatusCode,
        _headers: &HeaderMap,
        _body: Option<&[u8]>,
        received_at: SystemTime,
    ) -> Self {
        Self {
            status,
            received_at,
            throttled: matches!(status.as_u16(), 429 | 503 | 529),
            hint: None,
            exhausted: QuotaUnits::EMPTY,
            limits: ArrayVec::new(),
            terminal: None,
            backoff_floor: None,
            request_id: None,
            native_spill_over: None,
        }
    }

    /// The response's status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// When the response was received, by our clock.
    #[must_use]
    pub const fn received_at(&self) -> SystemTime {
        self.received_at
    }

    /// Whether the server refused the request for want of capacity, before processing it: 429, 529, 503, and the
    /// 400 / 403 forms of vendors that use them.
    #[must_use]
    pub const fn is_throttled(&self) -> bool {
        self.throttled
    }

    /// The wait that the response advises.
    #[must_use]
    pub const fn hint(&self) -> Option<&Hint> {
        self.hint.as_ref()
    }

    /// The quota units that the response says are exhausted.
    #[must_use]
    pub const fn exhausted(&self) -> QuotaUnits {
        self.exhausted
    }

    /// Limit, remaining and reset per quota unit and time window, as far as they are stated.
    #[must_use]
    pub fn limits(&self) -> &[ServiceLimit] {
        &self.limits
    }

    /// Why no wait will help, where that is so.
    #[must_use]
    pub const fn terminal(&self) -> Option<Terminal> {
        self.terminal
    }

    /// The least wait that the vendor's documentation asks for where a response advises none.
    #[must_use]
    pub const fn backoff_floor(&self) -> Option<Duration> {
        self.backoff_floor
    }

    /// The server's id of the request, where it is short and printable.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_ref().and_then(|id| id.to_str().ok())
    }

    /// The marks of a service that spilled the request over by itself.
    #[must_use]
    pub const fn native_spill_over(&self) -> Option<&NativeSpillOver> {
        self.native_spill_over.as_ref()
    }
}

/// The wait that a response advises, with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    pub(crate) wait: Duration,
    pub(crate) at: Option<SystemTime>,
    pub(crate) kind: HintKind,
    pub(crate) source: HintSource,
}

impl Hint {
    /// The advised wait, counted from the receipt of the response; sub-millisecond parts are rounded up.
    #[must_use]
    pub const fn wait(&self) -> Duration {
        self.wait
    }

    /// The instant as the server stated it, by the server's clock, where the advice was an instant.
    #[must_use]
    pub const fn at(&self) -> Option<SystemTime> {
        self.at
    }

    /// What sort of statement the advice is.
    #[must_use]
    pub const fn kind(&self) -> HintKind {
        self.kind
    }

    /// The field that the advice was read from.
    #[must_use]
    pub const fn source(&self) -> &HintSource {
        &self.source
    }
}

/// What sort of statement a hint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HintKind {
    /// An explicit request to come back later: `Retry-After`, its relatives, a delay in the body.
    RetryAfter,
    /// The reset of a time window; such a moment is often rounded or a little early.
    WindowReset,
}

/// The field that a hint was read from. Displays as the lower-case header name or as `body:<path>`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HintSource {
    /// A header field.
    Header(HeaderName),
    /// A place in the body, as a lower-case path such as `error.details[].retrydelay`.
    Body(Cow<'static, str>),
}

impl fmt::Display for HintSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => f.write_str(name.as_str()),
            Self::Body(path) => write!(f, "body:{path}"),
        }
    }
}

/// Why no wait will help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Terminal {
    /// Credit, spend cap or a long-lived quota is used up.
    QuotaExhausted,
    /// The server says not to repeat the request (`x-should-retry: false`).
    ServerDirective,
    /// The request is larger than the server will ever take.
    RequestTooLarge,
}

/// One service limit as a response states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceLimit {
    /// What is counted.
    pub unit: QuotaUnit,
    /// The time window, where it is stated.
    pub window: Option<Duration>,
    /// The service limit, in units per window.
    pub limit: Option<u64>,
    /// What is left; 0 where the server says it is overdrawn.
    pub remaining: Option<u64>,
    /// The time until the window resets or the bucket is full, counted from receipt.
    pub reset: Option<Duration>,
}

/// The marks of a service that spilled a request over by itself (Azure OpenAI's native spill-over).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NativeSpillOver {
    /// `x-ms-spillover-from-deployment`: the deployment that did not take the request.
    pub from_deployment: Option<String>,
    /// `x-ms-spillover-error`: why the spill-over itself failed.
    pub error: Option<String>,
    /// `x-ms-is-spilled-over`.
    pub spilled_over: bool,
}
