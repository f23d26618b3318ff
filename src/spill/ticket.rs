//! The parts of a ticket that are written in a form of their own: its version, its body, its method.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Deserializer, Serialize, de};

/// The version of the tickets that this release writes, and the newest that it reads.
pub(super) const VERSION: u32 = 1;

/// That of tickets which name none.
pub(super) const fn first_version() -> u32 {
    1
}

pub(super) fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let version = u32::deserialize(deserializer)?;
    if (first_version()..=VERSION).contains(&version) {
        return Ok(version);
    }
    Err(de::Error::custom(format_args!(
        "the ticket has format version {version}, this release of reqwest-admission reads 1 to {VERSION}: update the worker"
    )))
}

/// A body, as text if it is text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TicketBody {
    Text(String),
    Base64(String),
}

pub(super) mod method {
    use http::Method;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(method: &Method, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(method.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Method, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(|_| de::Error::custom("no HTTP method"))
    }
}

impl TicketBody {
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        Some(match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(BASE64_STANDARD.encode(bytes)),
        })
    }
}
