use super::*;

fn may_be_limit(name: &str) -> bool {
    super::may_be_limit(name)
}

fn field_name(name: &str) -> Option<FieldName> {
    let taken_apart = super::field_name(name);
    assert_eq!(name_of(name), taken_apart, "{name}: what is known of it is what it says");
    taken_apart
}

fn read(name: &str) -> FieldName {
    assert!(may_be_limit(name), "{name}");
    field_name(name).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn the_fields_of_a_bucket_share_their_key() {
    for names in [
        ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
        ["x-rate-limit-limit", "x-rate-limit-remaining", "x-rate-limit-reset"],
        ["x-app-limit-24hour-limit", "x-app-limit-24hour-remaining", "x-app-limit-24hour-reset"],
        ["ratelimit-limit", "ratelimit-remaining", "ratelimit-resettime"],
        ["x-ratelimit-userlimit", "x-ratelimit-userremaining", "x-ratelimit-userreset"],
        [
            "x-sentry-rate-limit-concurrentlimit",
            "x-sentry-rate-limit-concurrentremaining",
            "x-sentry-rate-limit-concurrentreset",
        ],
        ["x-rate-limit-requests-limit", "x-rate-limit-requests-left", "x-rate-limit-requests-reset"],
        ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset-after"],
        [
            "x-hubspot-ratelimit-max",
            "x-hubspot-ratelimit-remaining",
            "x-hubspot-ratelimit-interval-milliseconds",
        ],
        [
            "x-hubspot-ratelimit-daily",
            "x-hubspot-ratelimit-daily-remaining",
            "x-hubspot-ratelimit-daily-reset",
        ],
        [
            "anthropic-priority-input-tokens-limit",
            "anthropic-priority-input-tokens-remaining",
            "anthropic-priority-input-tokens-reset",
        ],
    ] {
        let [limit, remaining, reset] = names.map(read);
        assert_eq!((limit.key, limit.key), (remaining.key, reset.key), "{names:?}");
        assert_eq!((limit.part, remaining.part), (Part::Limit, Part::Remaining), "{names:?}");
    }
    assert_ne!(read("x-ratelimit-remaining-requests").key, read("x-ratelimit-remaining-tokens").key);
    assert_ne!(read("x-ratelimit-remaining").key, read("ratelimit-remaining").key);
}

#[test]
fn parts() {
    for (name, part) in [
        ("x-ratelimit-reset", Part::Reset),
        ("x-ratelimit-reset-after", Part::ResetAfter),
        ("ratelimit-resettime", Part::ResetAgain),
        ("ratelimit-reset-date", Part::ResetAgain),
        ("x-ratelimit-next", Part::ResetAgain),
        ("x-ratelimit-renewalperiod-tokens", Part::Window),
        ("x-ratelimit-interval-seconds", Part::Window),
        ("anthropic-ratelimit-unified-5h-status", Part::Status),
        ("anthropic-ratelimit-unified-7d-utilization", Part::Utilization),
        ("x-hubspot-ratelimit-daily", Part::Limit),
    ] {
        assert_eq!(read(name).part, part, "{name}");
    }
    for name in [
        "x-ratelimit-delay",
        "x-ratelimit-type",
        "x-ratelimit-used",
        "x-ratelimit-resource",
        "x-ratelimit-bucket",
        "x-ratelimit-scope",
        "x-ratelimit-global",
        "ratelimit-name",
    ] {
        assert_eq!(field_name(name), None, "{name}");
    }
}

#[test]
fn units_and_windows() {
    let seconds = |name: &str| read(name).window.map(|window| window.as_secs());
    assert_eq!(seconds("x-ratelimit-remaining-req-10-second"), Some(10));
    assert_eq!(seconds("x-ratelimit-reset-tokens-minute"), Some(60));
    assert_eq!(seconds("x-user-limit-24hour-remaining"), Some(86_400));
    assert_eq!(seconds("anthropic-ratelimit-unified-5h-reset"), Some(18_000));
    assert_eq!(seconds("x-ratelimit-minute-reset"), Some(60));
    assert_eq!(seconds("x-ratelimit-reset"), None);
    for (name, unit) in [
        ("x-ratelimit-remaining", QuotaUnit::Requests),
        ("x-ratelimit-remaining-project-tokens", QuotaUnit::Tokens),
        ("x-ratelimit-remaining-tokens_usage_based", QuotaUnit::Tokens),
        ("x-ratelimit-remaining-input-images", QuotaUnit::Quota),
        ("x-ratelimit-remaining-tokens-prompt", QuotaUnit::InputTokens),
        ("x-ratelimit-remaining-tokens-cache-adjusted-prompt", QuotaUnit::InputTokens),
        ("x-ratelimit-remaining-tokens-generated", QuotaUnit::OutputTokens),
        ("anthropic-ratelimit-output-tokens-remaining", QuotaUnit::OutputTokens),
        ("ratelimitbysize-remaining", QuotaUnit::Tokens),
        ("x-ratelimit-complexity-remaining", QuotaUnit::Quota),
    ] {
        assert_eq!(read(name).unit, unit, "{name}");
    }
}

#[test]
fn what_pages_trials_and_sessions_count_is_no_limit() {
    for name in [
        "x-items-remaining",
        "x-results-remaining",
        "x-remaining-pages",
        "x-trial-days-remaining",
        "x-time-remaining",
    ] {
        assert!(may_be_limit(name) && field_name(name).is_none(), "{name}");
    }
    for name in [
        "x-ratelimit-items-remaining",
        "x-rate-limit-remaining-days",
        "x-remaining-today",
        "x-calls-remaining",
    ] {
        assert_eq!(read(name).part, Part::Remaining, "{name}");
    }
}

#[test]
fn a_time_that_remains_is_no_count_and_an_api_token_no_unit() {
    assert_eq!(field_name("x-ratelimit-timeremaining"), None);
    assert_eq!(field_name("x-ratelimit-time-remaining"), None);
    assert_eq!(field_name("x-rate-limit-seconds-left"), None);
    assert_eq!(read("x-limit-left").part, Part::Limit, "outside of the families the word means nothing");
    assert_eq!(read("x-rate-limit-api-token-remaining").unit, QuotaUnit::Requests);
    assert_eq!(read("x-ratelimit-remaining-tokens").unit, QuotaUnit::Tokens);
    assert_eq!(read("x-sentry-rate-limit-concurrentremaining").unit, QuotaUnit::Concurrency);
    assert_eq!(read("x-daylimit-remaining").window, Some(Duration::from_secs(86_400)));
}

#[test]
fn what_else_is_said_of_an_api_is_its_unit() {
    for (name, unit) in [
        ("x-api-requests-remaining", QuotaUnit::Requests),
        ("x-ratelimit-api-calls-remaining", QuotaUnit::Requests),
        ("x-ratelimit-api-concurrent-remaining", QuotaUnit::Concurrency),
        ("x-ratelimit-api-credits-remaining", QuotaUnit::Quota),
        ("x-ratelimit-remaining-api-input-tokens", QuotaUnit::InputTokens),
        ("x-ratelimit-api-tokens-remaining", QuotaUnit::Tokens),
    ] {
        let field = read(name);
        assert_eq!((field.unit, field.unit_named), (unit, true), "{name}");
    }
    assert!(!read("x-rate-limit-api-token-remaining").unit_named);
}

#[test]
fn a_word_that_only_ends_like_a_part_is_none() {
    for name in ["x-ratelimit-preset", "x-limits-preset", "x-remaining-presets"] {
        assert!(field_name(name).is_none_or(|field| field.part != Part::Reset), "{name}");
    }
    assert_eq!(read("x-ratelimit-preset-remaining").part, Part::Remaining);
    assert_eq!(read("x-ratelimit-userreset").part, Part::Reset);
}
