//! The parts of a reading: hint, terminal reason, service limit, native spill-over.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use arrayvec::ArrayVec;
use http::HeaderName;

use crate::units::QuotaUnit;

/// The wait that a response advises, with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    pub(crate) wait: Duration,
    pub(crate) at: Option<SystemTime>,
    pub(crate) kind: HintKind,
    pub(crate) source: HintSource,
}

impl Hint {
    /// The longest [`wait`](Self::wait), 2³¹ seconds. It stands for advice beyond every bound, such as a delay of 300
    /// years or the year 4099: longer than any budget, and no number to reckon with ([RFC 9111 §1.2.2] saturates
    /// delta-seconds alike).
    ///
    /// [RFC 9111 §1.2.2]: https://www.rfc-editor.org/rfc/rfc9111#section-1.2.2
    pub const LONGEST_WAIT: Duration = Duration::from_secs(1 << 31);

    /// The advised wait in whole milliseconds, counted from the receipt of the response; sub-millisecond parts are
    /// rounded up. At most [`LONGEST_WAIT`](Self::LONGEST_WAIT).
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
    /// Whether nothing comes back before `reset` and then all of it does, as in a fixed window. Taken for so where the fields
    /// name no unit; services that count requests and tokens apart refill all the time.
    pub resets_at_once: bool,
}

/// The most service limits one reading holds; further ones are left out.
pub(super) const MAX_LIMITS: usize = 12;

/// As many service limits as nearly all services state; more are kept on the heap, for a reading is moved often.
const USUAL_LIMITS: usize = 4;

/// The service limits of one reading.
#[derive(Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and it shall not be allocated"
)]
pub(crate) enum Limits {
    Usual(ArrayVec<ServiceLimit, USUAL_LIMITS>),
    Many(Vec<ServiceLimit>),
}

impl Limits {
    pub(super) fn new() -> Self {
        Self::Usual(ArrayVec::new())
    }

    /// Makes room for so many limits, while there are none yet.
    #[inline]
    pub(super) fn make_room(&mut self, count: usize) {
        if count > USUAL_LIMITS {
            *self = Self::Many(Vec::with_capacity(count.min(MAX_LIMITS)));
        }
    }

    pub(crate) fn as_slice(&self) -> &[ServiceLimit] {
        match self {
            Self::Usual(limits) => limits,
            Self::Many(limits) => limits,
        }
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
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
