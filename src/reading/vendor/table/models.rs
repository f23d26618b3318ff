//! The rows of services that run models, and of the clouds around them.

use super::super::{BareReset, CountedBy, Profile, Segment};
use super::{PLAIN, by_model, plain};
use crate::units::QuotaUnit;
use crate::units::QuotaUnit::{Concurrency, InputTokens, OutputTokens, Quota, Requests, Tokens};

/// The names of limits in Azure's model catalogue, of which GitHub Models is a shop window: `UserConcurrentRequests`,
/// `UserByModelByDay`, `UserByModelByMinuteUncachedInputTokens`.
const CATALOGUE_UNITS: &[(&str, QuotaUnit)] = &[
    ("userconcurrentrequests", Concurrency),
    ("inputtokens", InputTokens),
    ("outputtokens", OutputTokens),
    ("minutetokens", Tokens),
    ("daytokens", Tokens),
    ("userby", Requests),
];

/// What OpenAI and its like say, as 429 and with the code of a throttle, of a request that is larger than the limit.
const TOO_LARGE: &[&str] = &["request too large for"];

pub(super) static ROWS: &[Profile] = &[
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
        // A short throttle comes under the code of a quota as well; its message says so.
        passing_phrases: &["retry after"],
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
];
