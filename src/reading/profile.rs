//! Vendor knowledge as data: what a profile can say, and how one is found. The built-in rows are in `vendors.json`, in the
//! same words as a user's own.

mod builder;
mod rules;
mod validate;

use std::fmt;
use std::sync::{Arc, LazyLock};

use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Deserializer};

pub use builder::{ProfileBuilder, ProfileError};
pub use rules::CountedBy;
pub(super) use rules::{BareReset, Rules, is_rate_code, normal_code};

use super::Reading;

/// What no data can say: a function of the response and what was read of it.
type Adjust = dyn Fn(StatusCode, &HeaderMap, Option<&[u8]>, Reading) -> Reading + Send + Sync;

/// What is known of one vendor's ways, or of one's own gateway. Cheap to clone.
///
/// A profile adds to what the standard one knows; nothing in the parser asks for a vendor by name. One's own is made with
/// [`Profile::builder`], or deserialized:
///
/// ```
/// use reqwest_admission::reading::Profile;
///
/// let gateway: Profile = serde_json::from_str(r#"{
///     "name": "my-gateway",
///     "hosts": ["gateway.example.com"],
///     "refusal_statuses": [402],
///     "wait_headers": [["x-backoff", "milliseconds"]],
///     "final_codes": ["plan_used_up"]
/// }"#)?;
/// assert_eq!(gateway.name(), "my-gateway");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone)]
pub struct Profile(Arc<Inner>);

struct Inner {
    rules: Rules,
    adjust: Option<Box<Adjust>>,
}

/// The built-in rows; the first is the standard one.
#[expect(clippy::expect_used, reason = "the table is part of the crate, and a test reads it")]
static TABLE: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("profile/vendors.json")).expect("the built-in profiles are well-formed")
});

static STANDARD: LazyLock<Profile> =
    LazyLock::new(|| TABLE.first().cloned().unwrap_or_else(|| Rules::default().into()));

impl Profile {
    /// The profile for unknown servers.
    #[must_use]
    pub fn standard() -> &'static Self {
        &STANDARD
    }

    /// The built-in profile of that name, in lower-case kebab form; the standard one if there is none.
    #[must_use]
    pub fn named(name: &str) -> &'static Self {
        TABLE.iter().find(|profile| profile.name() == name).unwrap_or_else(Self::standard)
    }

    /// The built-in profile of the vendor that a host belongs to; the standard one if none is known.
    #[must_use]
    pub fn for_host(host: &str) -> &'static Self {
        Self::of_host(&TABLE, host).unwrap_or_else(Self::standard)
    }

    /// The one of some profiles that a host belongs to; the longest name counts.
    pub(crate) fn of_host<'p>(profiles: &'p [Self], host: &str) -> Option<&'p Self> {
        let host = host.strip_suffix('.').unwrap_or(host);
        profiles
            .iter()
            .flat_map(|profile| profile.rules().hosts.iter().map(move |suffix| (profile, suffix)))
            .filter(|(_, suffix)| is_host_under(host, suffix))
            .max_by_key(|(_, suffix)| suffix.len())
            .map(|(profile, _)| profile)
    }

    /// Begins a profile of one's own.
    pub fn builder(name: impl Into<String>) -> ProfileBuilder {
        ProfileBuilder::new(name.into())
    }

    /// The profile's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.rules().name
    }

    /// Whether the body of a response with this status can say more than its headers.
    pub(super) fn inspects_body_of(&self, status: StatusCode) -> bool {
        let status = status.as_u16();
        // Refusals are errors, and most responses are none.
        if status < 400 {
            return status == 200 && self.refuses_inside();
        }
        matches!(status, 402 | 403 | 413 | 420 | 429 | 498 | 503 | 509 | 529)
            || self.rules().refusal_statuses.contains(&status)
    }

    /// The same of a response with these headers. Of successes only JSON of a small or unknown size is looked at, never a
    /// stream of events.
    pub(crate) fn inspects_body(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        self.inspects_body_of(status) && (status.as_u16() >= 400 || is_small_json(headers))
    }

    /// Whether the body of a success may make it a refusal.
    pub(crate) fn refuses_inside(&self) -> bool {
        !self.rules().refusal_codes_in_success.is_empty()
    }

    pub(crate) fn counted_by(&self) -> &CountedBy {
        &self.rules().counted_by
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.0.rules
    }

    /// Lets the user's function have the last word.
    pub(super) fn adjust(&self, headers: &HeaderMap, body: Option<&[u8]>, reading: Reading) -> Reading {
        match &self.0.adjust {
            Some(adjust) => {
                let theirs = || adjust(reading.status, headers, body, reading.clone());
                crate::unharmed::unharmed(theirs).unwrap_or(reading)
            }
            None => reading,
        }
    }
}

fn is_small_json(headers: &HeaderMap) -> bool {
    let text = |name: http::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let media = text(http::header::CONTENT_TYPE).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    let length = text(http::header::CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
    (media.eq_ignore_ascii_case("application/json") || media.ends_with("+json"))
        && length.is_none_or(|length| length <= super::MAX_BODY)
}

fn is_host_under(host: &str, suffix: &str) -> bool {
    let Some(split) = host.len().checked_sub(suffix.len()) else { return false };
    let (Some(head), Some(tail)) = (host.get(..split), host.get(split..)) else { return false };
    tail.eq_ignore_ascii_case(suffix) && (head.is_empty() || head.ends_with('.'))
}

impl From<Rules> for Profile {
    fn from(rules: Rules) -> Self {
        Self(Arc::new(Inner { rules, adjust: None }))
    }
}

impl From<&Self> for Profile {
    fn from(profile: &Self) -> Self {
        profile.clone()
    }
}

impl<'de> Deserialize<'de> for Profile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let rules = Rules::deserialize(deserializer)?;
        Ok(rules.validated().map_err(serde::de::Error::custom)?.into())
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Profile").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests;
