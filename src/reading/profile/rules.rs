//! What a profile can say.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::super::value::TimeUnit;
use super::Profile;
use super::validate::parse_offset;
use crate::units::QuotaUnit;

/// What a profile says; the field names are those of the table and of a user's file. Codes are compared in [normal
/// form](normal_code), phrases with messages in lower case.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::reading) struct Rules {
    pub(in crate::reading) name: String,
    /// Where the knowledge is from; for people.
    #[serde(rename = "notes")]
    _notes: serde::de::IgnoredAny,
    pub(in crate::reading) hosts: Vec<String>,
    /// Each only with evidence: an explicit wait, a spent counter, a rate-limit code or one of `evidence`.
    pub(in crate::reading) refusal_statuses: Vec<u16>,
    pub(in crate::reading) refusal_codes_in_success: Vec<String>,
    pub(in crate::reading) evidence: Vec<String>,
    /// Whether 402 is an answer like any other, and not a quota that is used up.
    pub(in crate::reading) payment_required_is_ordinary: bool,
    /// The header whose `false` is a directive not to repeat, instead of `x-should-retry`; empty if there is none.
    pub(in crate::reading) should_retry_header: Option<String>,
    pub(in crate::reading) final_codes: Vec<String>,
    pub(in crate::reading) final_phrases: Vec<String>,
    pub(in crate::reading) passing_phrases: Vec<String>,
    /// An explicit wait of at most so long beside a final code means a limit that passes.
    pub(in crate::reading) passing_wait_seconds: Option<u32>,
    /// Of a quota per day or month: no wait helps if no time is stated.
    pub(in crate::reading) long_quota_phrases: Vec<String>,
    pub(in crate::reading) too_large_phrases: Vec<String>,
    pub(in crate::reading) units_by_code: Vec<(String, QuotaUnit)>,
    /// The first match counts, as in the next.
    pub(in crate::reading) units_by_phrase: Vec<(String, QuotaUnit)>,
    /// By a part of the header's value.
    pub(in crate::reading) units_by_header: Vec<(String, String, QuotaUnit)>,
    pub(in crate::reading) wait_headers: Vec<(String, TimeUnit)>,
    pub(in crate::reading) wait_members: Vec<(String, TimeUnit)>,
    pub(in crate::reading) bare_reset: BareReset,
    /// Whether old versions of the service state `Retry-After` in milliseconds, which a reset then gives away.
    pub(in crate::reading) legacy_millisecond_retry_after: bool,
    /// What a limit of 0 stands for.
    pub(in crate::reading) zero_limit: Option<QuotaUnit>,
    /// Whether the stated length of a spent rolling window may be taken as the wait.
    pub(in crate::reading) spent_window_is_wait: bool,
    /// Whether the reset of a window that has something left says nothing.
    pub(in crate::reading) only_spent_resets: bool,
    /// Whether a limit per day whose name says nothing else is a long-lived quota, reset at an unknown moment.
    pub(in crate::reading) daily_is_quota: bool,
    pub(in crate::reading) counted_by: CountedBy,
    backoff_floor_seconds: Option<u32>,
    #[serde(deserialize_with = "offset")]
    pub(in crate::reading) utc_offset: Option<i32>,
}

/// What a vendor counts limits by, beyond endpoint and credential.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CountedBy {
    /// Nothing else: one set of limits for all.
    #[default]
    Account,
    /// The model, which the `model` field of the request's body names.
    Model,
    /// What a segment of the path names, in paths of the form `/{before}/{name}/{after}`, and in no others: what is named
    /// is shown, and any other path may be a secret or have one in it.
    #[serde(rename_all = "kebab-case")]
    Segment {
        /// The segment before the name.
        before: String,
        /// What may stand behind the name; if there is nothing, the path must end with the name.
        after: Vec<String>,
    },
    /// Groups of routes, by how their paths begin, and their names; the first match counts, and all others share one set of
    /// limits.
    Routes(Vec<(String, String)>),
}

/// How a reset without a unit is meant if it is not an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::reading) enum BareReset {
    /// Seconds, unless a stated window is too short for it and milliseconds fit.
    #[default]
    Seconds,
    Milliseconds,
    /// Seconds or milliseconds, as limit, remaining and renewal period together tell; else not at all.
    ByRenewalPeriod,
}

fn offset<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_offset(&text).map_err(serde::de::Error::custom)).transpose()
}

impl Rules {
    pub(super) fn named(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    pub(in crate::reading) fn backoff_floor(&self) -> Option<Duration> {
        self.backoff_floor_seconds.map(|seconds| Duration::from_secs(seconds.into()))
    }

    pub(super) fn set_backoff_floor(&mut self, floor: Duration) {
        let seconds = floor.as_secs().saturating_add(u64::from(floor.subsec_nanos() > 0));
        self.backoff_floor_seconds = Some(u32::try_from(seconds).unwrap_or(u32::MAX));
    }

    fn with_standard<'r, T: 'r>(&'r self, list: impl Fn(&'r Self) -> &'r [T]) -> impl Iterator<Item = &'r T> {
        let standard = if self.name == "standard" { &[][..] } else { list(Profile::standard().rules()) };
        list(self).iter().chain(standard)
    }

    pub(in crate::reading) fn is_final_code(&self, code: &str) -> bool {
        self.with_standard(|rules| &rules.final_codes).any(|known| match known.strip_prefix('*') {
            Some(end) => code.ends_with(end),
            None => code == *known,
        })
    }

    pub(in crate::reading) fn unit_of_code(&self, code: &str) -> Option<QuotaUnit> {
        self.with_standard(|rules| &rules.units_by_code)
            .find(|(known, _)| code == known)
            .map(|(_, unit)| *unit)
    }

    pub(in crate::reading) fn unit_of_message(&self, lower: &str) -> Option<QuotaUnit> {
        let mut phrases = self.with_standard(|rules| &rules.units_by_phrase);
        phrases.find(|(phrase, _)| lower.contains(phrase.as_str())).map(|(_, unit)| *unit)
    }

    pub(in crate::reading) fn markers(&self) -> impl Iterator<Item = &(String, String, QuotaUnit)> {
        self.with_standard(|rules| &rules.units_by_header)
    }

    pub(in crate::reading) fn names_long_quota(&self, lower: &str) -> bool {
        self.with_standard(|rules| &rules.long_quota_phrases).any(|phrase| lower.contains(phrase.as_str()))
    }

    /// The unit of the member at a path, if the profile names it.
    pub(in crate::reading) fn wait_member(&self, path: &str) -> Option<TimeUnit> {
        let ends = |known: &str| {
            path.strip_suffix(known).is_some_and(|before| before.is_empty() || before.ends_with(['.', ']']))
        };
        self.wait_members.iter().find(|(known, _)| ends(known)).map(|(_, unit)| *unit)
    }
}

/// A code in the form of the tables: lower-case letters and digits only, so that `InsufficientQuota`,
/// `insufficient_quota` and `INSUFFICIENT_QUOTA` are one.
pub(in crate::reading) fn normal_code(code: &str) -> String {
    code.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Whether a code in normal form says that a rate was exceeded, whatever the rest of its name.
pub(in crate::reading) fn is_rate_code(code: &str) -> bool {
    const PARTS: &str = "ratelimit toomanyrequests throttl throughputexceeded requestlimitexceeded requestlimitreached slowdown";
    PARTS.split(' ').any(|part| code.contains(part))
}
