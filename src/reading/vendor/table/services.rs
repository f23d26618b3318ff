//! The rows of all other services.

use std::time::Duration;

use super::super::{BareReset, CountedBy, Profile, Segment};
use super::{PLAIN, plain};
use crate::units::QuotaUnit::{Concurrency, Quota, Requests};

pub(super) static ROWS: &[Profile] = &[
    // https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api: at least a minute.
    // https://docs.github.com/en/rest/rate-limit: searches and GraphQL have limits of their own.
    Profile {
        name: "github",
        hosts: &["github.com"],
        extra_statuses: &[403],
        evidence: &["rate limit", "abuse detection"],
        counted_by: CountedBy::Routes(&[
            ("/search/code", "code_search"),
            ("/search/", "search"),
            ("/graphql", "graphql"),
            ("/api/v3/search/code", "code_search"),
            ("/api/v3/search/", "search"),
            ("/api/graphql", "graphql"),
        ]),
        backoff_floor: Some(Duration::from_secs(60)),
        ..PLAIN
    },
    plain("gitlab", &["gitlab.com"]),
    // https://discord.com/developers/docs/change-log: milliseconds before version 8 of the API.
    Profile {
        name: "discord",
        hosts: &["discord.com", "discordapp.com"],
        legacy_millisecond_retry_after: true,
        ..PLAIN
    },
    plain("reddit", &["reddit.com"]),
    plain("twitter", &["twitter.com", "x.com"]),
    plain("twitch", &["api.twitch.tv"]),
    plain("spotify", &["api.spotify.com"]),
    plain("spacetraders", &["api.spacetraders.io"]),
    plain("shopify", &["myshopify.com"]),
    // https://docs.stripe.com/rate-limits; 402 is a declined card.
    Profile {
        name: "stripe",
        hosts: &["api.stripe.com"],
        payment_required_is_quota: false,
        should_retry: Some("stripe-should-retry"),
        units_by_code: &[("ratelimit", Requests), ("locktimeout", Concurrency)],
        markers: &[
            ("stripe-rate-limited-reason", "concurrency", Concurrency),
            ("stripe-rate-limited-reason", "rate", Requests),
            ("stripe-rate-limited-reason", "resource-specific", Requests),
        ],
        ..PLAIN
    },
    // https://developers.hubspot.com/docs/api/usage-details: the day ends at midnight of the account's time zone.
    Profile {
        name: "hubspot",
        hosts: &["api.hubapi.com", "api.hubspot.com"],
        terminal_codes: &["daily"],
        units_by_code: &[("tensecondlyrolling", Requests), ("secondly", Requests)],
        spent_window_is_wait: true,
        daily_is_quota: true,
        ..PLAIN
    },
    plain("zendesk", &["zendesk.com"]),
    // https://docs.slack.dev/apis/web-api/rate-limits: per method of the API, and per workspace.
    Profile {
        name: "slack",
        hosts: &["slack.com"],
        units_by_code: &[("ratelimited", Requests)],
        counted_by: CountedBy::Segment(Segment { before: "api", after: &[] }),
        ..PLAIN
    },
    // The path of an incoming webhook is a secret.
    Profile {
        name: "slack-webhooks",
        hosts: &["hooks.slack.com"],
        units_by_code: &[("ratelimited", Requests)],
        ..PLAIN
    },
    Profile {
        name: "notion",
        hosts: &["api.notion.com"],
        units_by_code: &[("ratelimited", Requests)],
        ..PLAIN
    },
    // https://airtable.com/developers/web/api/rate-limits
    Profile {
        name: "airtable",
        hosts: &["api.airtable.com"],
        units_by_code: &[("ratelimitreached", Requests)],
        backoff_floor: Some(Duration::from_secs(30)),
        ..PLAIN
    },
    // https://developer.atlassian.com/cloud/jira/platform/rate-limiting
    Profile {
        name: "atlassian",
        hosts: &["atlassian.net", "atlassian.com"],
        markers: &[
            ("ratelimit-reason", "concurren", Concurrency),
            ("ratelimit-reason", "quota", Quota),
            ("ratelimit-reason", "cost", Quota),
            ("ratelimit-reason", "burst", Requests),
            ("ratelimit-reason", "per-issue", Requests),
        ],
        ..PLAIN
    },
    // https://developer.okta.com/docs/reference/rate-limits: a limit of 0 is the concurrent one.
    Profile {
        name: "okta",
        hosts: &["okta.com", "oktapreview.com", "okta-emea.com"],
        zero_limit: Some(Concurrency),
        ..PLAIN
    },
    plain("auth0", &["auth0.com"]),
    plain("docker-hub", &["docker.io", "hub.docker.com"]),
    plain("vercel", &["api.vercel.com"]),
    // https://linear.app/developers/rate-limiting: GraphQL, hence 400.
    Profile {
        name: "linear",
        hosts: &["api.linear.app"],
        extra_statuses: &[400],
        units_by_code: &[("ratelimited", Requests)],
        ..PLAIN
    },
    Profile {
        name: "figma",
        hosts: &["api.figma.com"],
        markers: &[("x-figma-rate-limit-type", "", Requests)],
        ..PLAIN
    },
    Profile {
        name: "dropbox",
        hosts: &["dropboxapi.com"],
        units_by_code: &[("toomanywriteoperations", Concurrency), ("toomanyrequests", Requests)],
        ..PLAIN
    },
    plain("wikimedia", &["wikipedia.org", "wikimedia.org", "wikidata.org"]),
    // The 24-hour quota of the organisation; no time is given.
    Profile {
        name: "salesforce",
        hosts: &["salesforce.com", "force.com"],
        extra_statuses: &[403],
        terminal_codes: &["requestlimitexceeded"],
        // The same code for too many long requests at a time.
        passing_phrases: &["concurrent"],
        ..PLAIN
    },
    // https://developer.prisjakt.nu/docs/sections/rate-limit
    Profile { name: "prisjakt", hosts: &["prisjakt.nu"], bare_reset: BareReset::Milliseconds, ..PLAIN },
    plain("lemlist", &["api.lemlist.com"]),
    plain("mailerlite", &["mailerlite.com"]),
    plain("persona", &["withpersona.com"]),
    plain("connecteam", &["api.connecteam.com"]),
    plain("agent-ai", &["api.agent.ai"]),
    plain("pipedrive", &["pipedrive.com"]),
    plain("brevo", &["api.brevo.com", "api.sendinblue.com"]),
    plain("azure-devops", &["dev.azure.com", "visualstudio.com"]),
    plain("upstash", &["upstash.io"]),
    plain("planning-center", &["planningcenteronline.com"]),
    plain("crates-io", &["crates.io"]),
    // https://developers.binance.com/docs/binance-spot-api-docs/rest-api/limits: 418 once an address is banned.
    Profile {
        name: "binance",
        hosts: &["binance.com", "binance.us"],
        extra_statuses: &[418],
        evidence: &["ip banned until"],
        ..PLAIN
    },
    plain("ietf-draft", &[]),
];
