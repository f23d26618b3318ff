//! The table of vendors. A row states only what the standard profile does not know already.

use std::time::Duration;

use super::{BareReset, CountedBy, Profile, Segment};
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

/// The names of limits in Azure's model catalogue, of which GitHub Models is a shop window: `UserConcurrentRequests`,
/// `UserByModelByDay`, `UserByModelByMinuteUncachedInputTokens`.
const CATALOGUE_UNITS: &[(&str, crate::units::QuotaUnit)] = &[
    ("userconcurrentrequests", Concurrency),
    ("inputtokens", InputTokens),
    ("outputtokens", OutputTokens),
    ("minutetokens", Tokens),
    ("daytokens", Tokens),
    ("userby", Requests),
];

/// What OpenAI and its like say, as 429 and with the code of a throttle, of a request that is larger than the limit.
const TOO_LARGE: &[&str] = &["request too large for"];

pub(super) static VENDORS: &[Profile] = &[
    Profile { too_large_phrases: TOO_LARGE, ..by_model("openai", &["api.openai.com"]) },
    // The long context is sold apart: https://docs.claude.com/en/docs/build-with-claude/context-windows
    Profile {
        too_large_phrases: &["extra usage is required for long context"],
        ..by_model("anthropic", &["api.anthropic.com"])
    },
    Profile { too_large_phrases: TOO_LARGE, ..by_model("groq", &["api.groq.com"]) },
    by_model("together", &["api.together.xyz", "api.together.ai"]),
    by_model("fireworks", &["api.fireworks.ai"]),
    plain("replicate", &["api.replicate.com"]),
    plain("deepseek", &["api.deepseek.com"]),
    by_model("nvidia", &["integrate.api.nvidia.com"]),
    // The free requests of a day; https://openrouter.ai/docs/api-reference/limits
    Profile { long_quota_phrases: &["free-models-per-day"], ..by_model("openrouter", &["openrouter.ai"]) },
    // https://docs.perplexity.ai/guides/rate-limits-usage-tiers, https://deepinfra.com/docs/advanced/rate-limits,
    // https://docs.sambanova.ai/docs/en/models/rate-limits, https://docs.siliconflow.com/en/userguide/rate-limits
    by_model("perplexity", &["api.perplexity.ai"]),
    by_model("deepinfra", &["api.deepinfra.com"]),
    by_model("sambanova", &["api.sambanova.ai"]),
    by_model("siliconflow", &["api.siliconflow.com", "api.siliconflow.cn"]),
    // https://platform.kimi.ai/docs/pricing/limits: by organisation.
    Profile {
        name: "moonshot",
        hosts: &["api.moonshot.ai", "api.moonshot.cn"],
        units_by_phrase: &[
            ("max rpm", Requests),
            ("max rpd", Requests),
            ("tpm rate limit", Tokens),
            ("tpd rate limit", Tokens),
        ],
        ..PLAIN
    },
    plain("huggingface", &["huggingface.co"]),
    plain("llm7", &["api.llm7.io"]),
    Profile {
        name: "azure-openai",
        hosts: &[
            "openai.azure.com",
            "cognitiveservices.azure.com",
            "services.ai.azure.com",
            "models.ai.azure.com",
        ],
        too_large_phrases: TOO_LARGE,
        units_by_phrase: CATALOGUE_UNITS,
        bare_reset: BareReset::ByRenewalPeriod,
        counted_by: CountedBy::Model,
        ..PLAIN
    },
    plain("azure-cosmos", &["documents.azure.com", "cosmos.azure.com"]),
    Profile {
        name: "github-models",
        hosts: &["models.github.ai", "models.inference.ai.azure.com"],
        counted_by: CountedBy::Model,
        units_by_phrase: CATALOGUE_UNITS,
        ..PLAIN
    },
    // The quota policy's own form: https://learn.microsoft.com/azure/api-management/api-management-error-handling-policies
    Profile {
        name: "azure-apim",
        hosts: &["azure-api.net", "api.cognitive.microsoft.com"],
        extra_statuses: &[403],
        evidence: &["quota will be replenished"],
        units_by_phrase: &[("volume quota", Quota), ("bandwidth quota", Quota)],
        ..PLAIN
    },
    // https://ai.google.dev/gemini-api/docs/rate-limits, https://cloud.google.com/apis/design/errors
    // The older APIs throttle with 403: https://developers.google.com/workspace/drive/api/guides/handle-errors,
    // https://developers.google.com/youtube/v3/docs/errors. `quotaExceeded` is a day's quota at YouTube, a rate in the
    // Directory API, concurrency in that of Analytics; only the messages tell.
    Profile {
        name: "gemini",
        hosts: &["googleapis.com"],
        extra_statuses: &[403],
        evidence: &["quota exceeded", "request rate higher than configured"],
        terminal_codes: &["dailylimitexceeded", "dailylimitexceededunreg"],
        terminal_phrases: &["cannot be completed because you have exceeded your"],
        // The names of Vertex's metrics: `generate_content_requests_per_day_per_project_per_base_model`.
        long_quota_phrases: &["_per_day_per_"],
        units_by_phrase: &[
            ("input_token", InputTokens),
            ("output_token", OutputTokens),
            ("tokens_per_", Tokens),
            ("requests_per_", Requests),
            ("_requests,", Requests),
        ],
        ..PLAIN
    },
    // The requests-per-minute window of the older gateway counts tokens "by size"; its names say so themselves.
    by_model("mistral", &["api.mistral.ai"]),
    // https://docs.cohere.com/docs/rate-limits: a trial key's cap per month comes as 429 with prose only.
    Profile {
        name: "cohere",
        hosts: &["api.cohere.com", "api.cohere.ai"],
        long_quota_phrases: &["calls / month"],
        ..PLAIN
    },
    // https://www.alibabacloud.com/help/en/model-studio/rate-limit: OpenAI's code of an empty account stands for a limit
    // per minute, which the message tells from a free allowance that is used up.
    Profile {
        name: "dashscope",
        hosts: &["dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com"],
        counted_by: CountedBy::Model,
        terminal_phrases: &["free allocated quota", "free tier of the model has been exhausted"],
        passing_phrases: &["allocated quota exceeded", "exceeded your current quota"],
        units_by_code: &[
            ("throttlingratequota", Requests),
            ("throttlingburstrate", Requests),
            ("limitrequests", Requests),
            ("throttlingallocationquota", Tokens),
            ("insufficientquota", Tokens),
        ],
        ..PLAIN
    },
    // https://developers.cloudflare.com/workers-ai/platform/errors: the free allowance of a day.
    Profile {
        name: "cloudflare",
        hosts: &["api.cloudflare.com"],
        terminal_codes: &["3036", "4006"],
        ..PLAIN
    },
    // "x-should-retry: false" comes with the failure that clears soonest, a full shared queue.
    Profile {
        name: "cerebras",
        hosts: &["api.cerebras.ai"],
        counted_by: CountedBy::Model,
        should_retry: None,
        units_by_code: &[
            ("requestquotaexceeded", Requests),
            ("tokenquotaexceeded", Tokens),
            ("queueexceeded", Concurrency),
        ],
        ..PLAIN
    },
    // Exhausted credit comes as 429 with prose only, or as 402 or 403 with a code.
    Profile {
        name: "xai",
        hosts: &["api.x.ai"],
        counted_by: CountedBy::Model,
        extra_statuses: &[403],
        terminal_codes: &["personalteamblockedspendinglimit"],
        terminal_phrases: &["used all available credits", "monthly spending limit", "purchase more credits"],
        ..PLAIN
    },
    // https://www.volcengine.com/docs/82379/1299023: `QuotaExceeded` is a trial that is over, `SetLimitExceeded` a cap that
    // the account has set itself.
    Profile {
        name: "volcengine",
        hosts: &["volces.com", "bytepluses.com"],
        counted_by: CountedBy::Model,
        terminal_codes: &["quotaexceeded", "setlimitexceeded"],
        units_by_code: &[
            ("ratelimitexceededendpointrpmexceeded", Requests),
            ("modelaccountrpmratelimitexceeded", Requests),
            ("ratelimitexceededendpointtpmexceeded", Tokens),
            ("modelaccounttpmratelimitexceeded", Tokens),
        ],
        ..PLAIN
    },
    // https://docs.z.ai/api-reference/api-code
    Profile {
        name: "zai",
        hosts: &["api.z.ai", "open.bigmodel.cn"],
        terminal_codes: &["1113", "1309"],
        units_by_code: &[
            ("1302", Requests),
            ("1303", Requests),
            ("1304", Quota),
            ("1308", Quota),
            ("1310", Quota),
        ],
        ..PLAIN
    },
    // https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html
    // One exception name for all limits; only the message tells the daily quota from the others.
    Profile {
        name: "aws-bedrock",
        hosts: &["amazonaws.com"],
        counted_by: CountedBy::Segment(Segment {
            before: "model",
            after: &[
                "invoke",
                "invoke-with-response-stream",
                "converse",
                "converse-stream",
                "async-invoke",
                "count-tokens",
            ],
        }),
        extra_statuses: &[400],
        terminal_phrases: &["per day"],
        units_by_phrase: &[("too many tokens", Tokens), ("too many requests", Requests)],
        ..PLAIN
    },
    Profile {
        name: "snowflake",
        hosts: &["snowflakecomputing.com"],
        units_by_phrase: &[("too many requests", Requests)],
        ..PLAIN
    },
    Profile {
        name: "databricks",
        hosts: &["cloud.databricks.com", "gcp.databricks.com", "azuredatabricks.net"],
        // One code for all limits; only the message tells them apart.
        units_by_phrase: &[
            ("input tokens", InputTokens),
            ("output tokens", OutputTokens),
            ("tokens per ", Tokens),
            ("rate limit", Requests),
        ],
        counted_by: CountedBy::Segment(Segment { before: "serving-endpoints", after: &["invocations"] }),
        ..PLAIN
    },
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
