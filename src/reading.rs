//! What one response says about capacity: the hint, what is exhausted, the limits, terminal or not.
//!
//! Pure: the moment of receipt is an argument, nothing here reads a clock or waits.

mod body;
mod hint;
mod judge;
mod limits;
mod marks;
mod names;
mod profile;
mod structured;
mod value;
mod waits;
mod why;
mod windows;

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue, StatusCode};

pub use hint::{Hint, HintKind, HintSource};
pub(crate) use limits::Limits;
pub use limits::ServiceLimit;
pub use marks::NativeSpillOver;
pub(crate) use marks::{number, proxy_attempts};
pub use profile::{CountedBy, Profile, ProfileBuilder, ProfileError};
pub use value::TimeUnit;
pub use why::{NotedAs, why};

use crate::units::{QuotaUnit, QuotaUnits};

/// The longest part of a body that is read, in bytes.
pub(crate) const MAX_BODY: usize = 64 * 1024;

/// The longest value of a field that is read, in bytes, the structured fields apart.
const MAX_FIELD: usize = 1024;

/// The most lines of a structured or date field that are read.
const MAX_LINES: usize = 8;

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
    pub(crate) limits: Limits,
    pub(crate) terminal: Option<Terminal>,
    pub(crate) backoff_floor: Option<Duration>,
    pub(crate) request_id: Option<HeaderValue>,
    pub(crate) native_spill_over: Option<NativeSpillOver>,
    /// How often a proxy says that it has sent the request.
    pub(crate) proxy_attempts: Option<NonZeroU32>,
}

impl Reading {
    /// Reads a response with the standard profile; `body` is the (possibly cut) body, if it is at hand.
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
    ///
    /// The body counts only with a status that may refuse for want of capacity, by itself or by the profile.
    #[must_use]
    pub fn with_profile(
        profile: &Profile,
        status: StatusCode,
        headers: &HeaderMap,
        body: Option<&[u8]>,
        received_at: SystemTime,
    ) -> Self {
        let mut reading = Self {
            status,
            received_at,
            throttled: false,
            hint: None,
            exhausted: QuotaUnits::EMPTY,
            limits: Limits::new(),
            terminal: None,
            backoff_floor: None,
            request_id: None,
            native_spill_over: None,
            proxy_attempts: None,
        };
        judge::read(profile, headers, body, &mut reading);
        profile.adjust(headers, body, reading)
    }

    /// This reading as one of a refusal for want of capacity, or as none. For [`ProfileBuilder::adjust`], like the
    /// following.
    #[must_use]
    pub const fn refused(mut self, refused: bool) -> Self {
        self.throttled = refused;
        self
    }

    /// This reading with an explicit wait, counted from receipt, and the place it was read from.
    #[must_use]
    pub fn with_wait(mut self, wait: Duration, source: HintSource) -> Self {
        self.hint =
            Some(Hint { wait: wait.min(Hint::LONGEST_WAIT), at: None, kind: HintKind::RetryAfter, source });
        self
    }

    /// This reading with this reason why no wait will help, or none.
    #[must_use]
    pub const fn with_terminal(mut self, terminal: Option<Terminal>) -> Self {
        self.terminal = terminal;
        self
    }

    /// This reading with one more unit that is exhausted.
    #[must_use]
    pub const fn with_exhausted(mut self, unit: QuotaUnit) -> Self {
        self.exhausted = self.exhausted.with(unit);
        self
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

    /// Whether the server has certainly not processed the request. A 503 without advice may come from a proxy that has
    /// already passed the request on.
    pub(crate) fn is_refused_unprocessed(&self) -> bool {
        self.throttled && (self.status != StatusCode::SERVICE_UNAVAILABLE || self.hint.is_some())
    }

    /// Whether the server failed, so that it may or may not have processed the request.
    pub(crate) fn is_failure(&self) -> bool {
        self.status.is_server_error() && !self.is_refused_unprocessed() || self.leaves_outcome_open()
    }

    /// Whether a failure is one that often passes, after which the request is repeated if that is harmless.
    pub(crate) fn leaves_outcome_open(&self) -> bool {
        matches!(self.status.as_u16(), 408 | 500 | 502 | 504)
            || self.throttled && !self.is_refused_unprocessed()
    }

    /// The wait that the response advises.
    ///
    /// A [terminal](Self::terminal) refusal keeps the moment it names, too: nobody waits for it within the call, but a job
    /// queue may.
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
        self.limits.as_slice()
    }

    /// Why no wait will help, if so.
    #[must_use]
    pub const fn terminal(&self) -> Option<Terminal> {
        self.terminal
    }

    /// The least wait that the vendor's documentation asks for if a response advises none.
    #[must_use]
    pub const fn backoff_floor(&self) -> Option<Duration> {
        self.backoff_floor
    }

    /// The server's id of the request, if it is short and printable.
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

#[cfg(test)]
mod tests;
