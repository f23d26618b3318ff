//! The table of vendors. A row states only what the standard profile does not know already.

mod models;
mod services;

use super::{BareReset, CountedBy, Profile};
use crate::units::QuotaUnit::{Concurrency, InputTokens, OutputTokens, Quota, Requests, Tokens};

pub(super) static STANDARD: Profile = Profile {
    name: "standard",
    // A wrong entry here turns a short throttle into a lost call: only codes that mean nothing else.
    terminal_codes: &[
        "insufficientquota",
        "exceededcurrentquotaerror",
        "*spendlimitexceeded",
        "*spendlimitreached",
        "organizationusagelimitexceeded",
        "projectusagelimitexceeded",
        "creditbalanceexhausted",
        "creditbalancetoolow",
        "insufficientcredits",
        "insufficientg1creditsbalance",
        "insufficientbalance",
        "billinghardlimitreached",
        "billingnotactive",
    ],
    units_by_code: &[
        ("requests", Requests),
        ("tokens", Tokens),
        ("inputtokens", InputTokens),
        ("outputtokens", OutputTokens),
        ("usagelimitreached", Quota),
        ("quotaexceeded", Quota),
        ("quotaexhausted", Quota),
    ],
    units_by_phrase: &[
        ("concurren", Concurrency),
        ("simultaneous", Concurrency),
        ("input or output tokens", Tokens),
        ("input tokens", InputTokens),
        ("input token ", InputTokens),
        ("prompt tokens", InputTokens),
        ("output tokens", OutputTokens),
        ("output token ", OutputTokens),
        ("token rate limit", Tokens),
        ("tokens per ", Tokens),
        ("on tokens", Tokens),
        ("request tokens", Tokens),
        ("for tokens", Tokens),
        ("call rate limit", Requests),
        ("request rate limit", Requests),
        ("requests rate limit", Requests),
        ("requests per ", Requests),
        ("on requests", Requests),
        ("for requests", Requests),
        ("number of requests", Requests),
        ("api calls", Requests),
        ("calls per ", Requests),
    ],
    markers: &[
        ("x-ratelimit-type", "concurren", Concurrency),
        ("x-ratelimit-type", "input", InputTokens),
        ("x-ratelimit-type", "output", OutputTokens),
        ("x-ratelimit-type", "token", Tokens),
        ("x-ratelimit-type", "request", Requests),
        // `UserByModelByDay`, of Azure's model catalogue.
        ("x-ratelimit-type", "userby", Requests),
        ("anthropic-ratelimit-unified-representative-claim", "", Quota),
    ],
    ..PLAIN
};

/// What every row starts from; codes, phrases and markers of the standard row count for all rows anyway.
const PLAIN: Profile = Profile {
    name: "",
    hosts: &[],
    extra_statuses: &[],
    evidence: &[],
    payment_required_is_quota: true,
    should_retry: Some("x-should-retry"),
    terminal_codes: &[],
    terminal_phrases: &[],
    passing_phrases: &[],
    long_quota_phrases: &[],
    too_large_phrases: &[],
    units_by_code: &[],
    units_by_phrase: &[],
    markers: &[],
    bare_reset: BareReset::Seconds,
    legacy_millisecond_retry_after: false,
    zero_limit: None,
    spent_window_is_wait: false,
    daily_is_quota: false,
    counted_by: CountedBy::Account,
    backoff_floor: None,
};

const fn plain(name: &'static str, hosts: &'static [&'static str]) -> Profile {
    Profile { name, hosts, ..PLAIN }
}

/// A vendor that counts limits per model, of which nothing else is to be said.
const fn by_model(name: &'static str, hosts: &'static [&'static str]) -> Profile {
    Profile { counted_by: CountedBy::Model, ..plain(name, hosts) }
}

/// All rows.
pub(super) fn vendors() -> impl Iterator<Item = &'static Profile> {
    models::ROWS.iter().chain(services::ROWS)
}
