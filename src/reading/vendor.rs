//! Vendor knowledge as data: what a profile can say, and how one is found. The rows are in [`table`].

mod table;

use std::time::Duration;

use http::StatusCode;

use crate::units::QuotaUnit;

/// What is known of one vendor's ways.
///
/// A profile adds to what the standard one knows; nothing in the parser asks for a vendor by name.
#[derive(Debug)]
pub struct Profile {
    pub(crate) name: &'static str,
    /// Host names, each standing for itself and all its subdomains.
    pub(super) hosts: &'static [&'static str],
    /// Statuses beyond 429, 503 and 529 that refuse for want of capacity; each only with evidence: an explicit wait,
    /// a spent bucket, a rate-limit code or one of `evidence`.
    pub(super) extra_statuses: &'static [u16],
    /// Lower-case words of an error message that mark an extra status as a refusal for want of capacity.
    pub(super) evidence: &'static [&'static str],
    /// Whether 402 means that a quota is used up.
    pub(super) payment_required_is_quota: bool,
    /// The header whose `false` is a directive not to repeat.
    pub(super) should_retry: Option<&'static str>,
    /// Codes that no wait helps against, in [normal form](normal_code); a leading `*` matches any beginning.
    pub(super) terminal_codes: &'static [&'static str],
    /// Lower-case words of an error message that no wait helps against, for vendors that send nothing better.
    pub(super) terminal_phrases: &'static [&'static str],
    /// Lower-case words of an error message by which a terminal code means a limit that passes.
    pub(super) passing_phrases: &'static [&'static str],
    /// Lower-case words of an error message that name a quota per day or month: no wait helps where no time is stated.
    pub(super) long_quota_phrases: &'static [&'static str],
    /// Lower-case words of an error message that say that the request is larger than the whole limit.
    pub(super) too_large_phrases: &'static [&'static str],
    /// Codes in [normal form](normal_code) that name what is exhausted.
    pub(super) units_by_code: &'static [(&'static str, QuotaUnit)],
    /// Lower-case words of an error message that name what is exhausted; the first match counts.
    pub(super) units_by_phrase: &'static [(&'static str, QuotaUnit)],
    /// Headers whose value names what is exhausted, by a lower-case part of the value; the first match counts.
    pub(super) markers: &'static [(&'static str, &'static str, QuotaUnit)],
    /// How a reset without a unit is meant.
    pub(super) bare_reset: BareReset,
    /// Whether old versions of the service state `Retry-After` in milliseconds, which a reset then gives away.
    pub(super) legacy_millisecond_retry_after: bool,
    /// What a limit of 0 stands for.
    pub(super) zero_limit: Option<QuotaUnit>,
    /// Whether the stated length of a spent rolling window may be taken as the wait.
    pub(super) spent_window_is_wait: bool,
    /// Whether a limit per day whose name says nothing else is a long-lived quota, reset at an unknown moment.
    pub(super) daily_is_quota: bool,
    /// What limits are counted by, beyond endpoint and credential.
    pub(crate) counted_by: CountedBy,
    /// The least wait that the documentation asks for where a response advises none.
    pub(super) backoff_floor: Option<Duration>,
}

/// What a vendor counts limits by, beyond endpoint and credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedBy {
    /// Nothing else: one set of limits for all.
    Account,
    /// The model, which the `model` field of the request's body names.
    Model,
    /// What a segment of the path names.
    Segment(Segment),
    /// Groups of routes, by how their paths begin; the first match counts, and all others share one set of limits.
    Routes(&'static [(&'static str, &'static str)]),
}

/// Paths of the form `/{before}/{name}/{after}`, and no others: what is named is shown, and any other path may be a
/// secret or have one in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) before: &'static str,
    /// What may stand behind the name; where there is nothing, the path must end with the name.
    pub(crate) after: &'static [&'static str],
}

/// How a reset without a unit is meant where it is not an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BareReset {
    Seconds,
    Milliseconds,
    /// Seconds or milliseconds, as limit, remaining and renewal period together tell; else not at all.
    ByRenewalPeriod,
}

impl Profile {
    /// The profile for servers of which nothing is known.
    #[must_use]
    pub fn standard() -> &'static Self {
        &table::STANDARD
    }

    /// The profile of that name, in lower-case kebab form; the standard one where there is none.
    #[must_use]
    pub fn named(name: &str) -> &'static Self {
        table::vendors().find(|profile| profile.name == name).unwrap_or_else(Self::standard)
    }

    /// The profile of the vendor that a host belongs to; the standard one where none is known.
    #[must_use]
    pub fn for_host(host: &str) -> &'static Self {
        let host = host.strip_suffix('.').unwrap_or(host);
        table::vendors()
            .flat_map(|profile| profile.hosts.iter().map(move |suffix| (profile, *suffix)))
            .filter(|(_, suffix)| is_host_under(host, suffix))
            .max_by_key(|(_, suffix)| suffix.len())
            .map_or_else(Self::standard, |(profile, _)| profile)
    }

    /// The profile's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Whether the body of a response with this status can say more than its headers.
    #[must_use]
    #[inline]
    pub fn inspects_body_of(&self, status: StatusCode) -> bool {
        let status = status.as_u16();
        // Refusals are errors, and most responses are none.
        status >= 400
            && (matches!(status, 402 | 413 | 429 | 503 | 529) || self.extra_statuses.contains(&status))
    }

    pub(super) fn is_terminal_code(&self, code: &str) -> bool {
        self.terminal_codes.iter().chain(table::STANDARD.terminal_codes).any(|known| {
            match known.strip_prefix('*') {
                Some(end) => code.ends_with(end),
                None => code == *known,
            }
        })
    }

    pub(super) fn unit_of_code(&self, code: &str) -> Option<QuotaUnit> {
        let tables = self.units_by_code.iter().chain(table::STANDARD.units_by_code);
        tables.into_iter().find(|(known, _)| code == *known).map(|(_, unit)| *unit)
    }

    pub(super) fn unit_of_message(&self, lower: &str) -> Option<QuotaUnit> {
        let tables = self.units_by_phrase.iter().chain(table::STANDARD.units_by_phrase);
        tables.into_iter().find(|(phrase, _)| lower.contains(phrase)).map(|(_, unit)| *unit)
    }

    pub(super) fn all_markers(&self) -> impl Iterator<Item = (&'static str, &'static str, QuotaUnit)> {
        let own = std::ptr::eq(self, &raw const table::STANDARD);
        let standard = if own { [].iter() } else { table::STANDARD.markers.iter() };
        self.markers.iter().chain(standard).copied()
    }
}

fn is_host_under(host: &str, suffix: &str) -> bool {
    let Some(split) = host.len().checked_sub(suffix.len()) else { return false };
    let (Some(head), Some(tail)) = (host.get(..split), host.get(split..)) else { return false };
    tail.eq_ignore_ascii_case(suffix) && (head.is_empty() || head.ends_with('.'))
}

/// A code in the form of the tables: lower-case letters and digits only, so that `InsufficientQuota`,
/// `insufficient_quota` and `INSUFFICIENT_QUOTA` are one.
pub(super) fn normal_code(code: &str) -> String {
    code.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Whether a code in normal form says that a rate was exceeded, whatever the rest of its name.
pub(super) fn is_rate_code(code: &str) -> bool {
    [
        "ratelimit",
        "toomanyrequests",
        "throttl",
        "throughputexceeded",
        "requestlimitexceeded",
        "requestlimitreached",
        "slowdown",
    ]
    .iter()
    .any(|part| code.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_match_on_label_boundaries_and_the_longest_wins() {
        for (host, name) in [
            ("api.openai.com", "openai"),
            ("my-deployment.openai.azure.com", "azure-openai"),
            ("MY.OpenAI.Azure.COM.", "azure-openai"),
            ("api.github.com", "github"),
            ("models.github.ai", "github-models"),
            ("notgithub.com", "standard"),
            ("github.com.evil.example", "standard"),
            ("slack.com", "slack"),
            ("workspace.slack.com", "slack"),
            ("hooks.slack.com", "slack-webhooks"),
            ("us-central1-aiplatform.googleapis.com", "gemini"),
            ("bedrock-runtime.eu-west-1.amazonaws.com", "aws-bedrock"),
            ("", "standard"),
            ("127.0.0.1", "standard"),
        ] {
            assert_eq!(Profile::for_host(host).name(), name, "{host}");
        }
    }

    #[test]
    fn an_unknown_name_is_the_standard_profile() {
        assert_eq!(Profile::named("no-such-vendor").name(), "standard");
        assert_eq!(Profile::named("groq").name(), "groq");
    }

    #[test]
    fn the_table_is_in_the_form_that_is_compared_with() {
        let mut names: Vec<_> = table::vendors().map(|profile| profile.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "each name once");
        for profile in table::vendors().chain([Profile::standard()]) {
            assert!(profile.extra_statuses.iter().all(|status| *status >= 400), "{}", profile.name);
            let codes = profile
                .units_by_code
                .iter()
                .map(|(code, _)| *code)
                .chain(profile.terminal_codes.iter().copied());
            for code in codes {
                assert_eq!(code.trim_start_matches('*'), normal_code(code), "{}", profile.name);
            }
            let words = profile.units_by_phrase.iter().map(|(phrase, _)| *phrase);
            let others = [
                profile.terminal_phrases,
                profile.passing_phrases,
                profile.long_quota_phrases,
                profile.too_large_phrases,
                profile.evidence,
            ];
            for phrase in words.chain(others.into_iter().flatten().copied()) {
                assert_eq!(phrase, phrase.to_lowercase(), "{}", profile.name);
            }
            for (header, part, _) in profile.markers {
                assert_eq!(
                    (*header, *part),
                    (&*header.to_lowercase(), &*part.to_lowercase()),
                    "{}",
                    profile.name
                );
            }
        }
    }
}
