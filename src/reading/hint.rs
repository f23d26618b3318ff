//! The wait that a response advises, and its source.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use http::HeaderName;

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

    /// The instant as the server stated it, by the server's clock, if the advice was an instant.
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
