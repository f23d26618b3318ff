//! How servers say what they have to say: the headers and texts of real ones, from their limits' standings.

use super::limit::Standing;
use super::written::{date, javascript, universal, up, written};
use std::fmt::Write as _;

/// The seconds from when a call is counted to when its answer is written, if the server asks its clock twice.
const WRITING: f64 = 1e-4;

pub(crate) type Headers = Vec<(&'static str, String)>;

/// Whose headers state the quota. Each is checked against recorded responses of that server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Dialect {
    /// nginx, haproxy, fastapi-limiter, Varnish: nothing.
    Silent,
    /// Django REST framework: nothing but a sentence in the body.
    Drf,
    /// express-rate-limit with `legacyHeaders`: the reset as epoch seconds, rounded up.
    ExpressLegacy,
    /// express-rate-limit with draft-6: three headers, the reset in seconds.
    Draft6,
    /// express-rate-limit with draft-7: one header of three members.
    Draft7,
    /// express-rate-limit with draft-8: structured, with a name and a partition key.
    Draft8,
    /// rate-limiter-flexible as its documentation sends it: the reset as JavaScript writes a `Date`, or as epoch seconds.
    Flexible { as_date: bool },
    /// slowapi: the reset as an epoch with a fraction, a second late.
    SlowApi,
    /// flask-limiter: the same as a whole number.
    Flask,
    /// fastify's rate-limit plugin: the reset in seconds, rounded up.
    Fastify,
    /// koa-ratelimit: the reset as an epoch with a fraction.
    Koa,
    /// `tower_governor`: limit and rest, no reset.
    Governor,
    /// LiteLLM's limits of a key; what is counted is in the names.
    LiteLlm(&'static str),
    /// LiteLLM's limit of a deployment: limit and rest on successes, nothing on refusals.
    LiteLlmDeployment,
}

/// How a refusal says when to come again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Advice {
    Nothing,
    /// `retry-after-ms`, rounded up to the next millisecond.
    Milliseconds,
    /// `Retry-After` with a fraction, which no standard knows.
    Fraction,
    /// `Retry-After`, rounded up to whole seconds, at least 1.
    Up,
    /// `Retry-After`, rounded down.
    Down,
    /// `Retry-After` from now to the reset as it is stated, rounded down.
    ToStatedReset,
    /// `Retry-After` of a fixed number, whatever the limit.
    Seconds(u32),
    /// `retry-after-ms` of a fixed number, whatever the limit.
    Fixed(u32),
}

/// What a server states that is not so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Untruth {
    /// The reset a thousand times too far: milliseconds taken for seconds.
    FarReset,
    /// No reset at all.
    NoReset,
    /// Always nothing left, for another minute: a proxy's idea of another limit.
    Zero,
    /// Ten times the limit and ten times what is left: the stated limit is not the one that refuses.
    Plenty,
    /// What was true two seconds ago.
    Lagging,
}

impl Untruth {
    pub(crate) const ALL: [Self; 5] =
        [Self::FarReset, Self::NoReset, Self::Zero, Self::Plenty, Self::Lagging];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::FarReset => "far reset",
            Self::NoReset => "no reset",
            Self::Zero => "zero",
            Self::Plenty => "plenty",
            Self::Lagging => "lagging",
        }
    }

    /// The standing as it is stated.
    pub(super) fn bend(self, standing: Standing) -> Standing {
        let Standing { limit, left, reset, .. } = standing;
        match self {
            Self::FarReset => Standing { reset: 1000.0 * reset, ..standing },
            Self::Zero => Standing { left: 0.0, reset: 60.0, ..standing },
            Self::Plenty => Standing { limit: 10.0 * limit, left: 9.0 * limit + left, ..standing },
            Self::NoReset | Self::Lagging => standing,
        }
    }
}

/// Everything about how a server speaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Voice {
    pub(crate) dialect: Dialect,
    pub(crate) advice: Advice,
    /// Whether successes advise a wait as well.
    pub(crate) always_advises: bool,
    pub(crate) untruth: Option<Untruth>,
    /// Whether there is a `Date`.
    pub(crate) dates: bool,
    /// Of a refusal.
    pub(crate) status: u16,
}

impl Voice {
    pub(crate) const fn new(dialect: Dialect, advice: Advice) -> Self {
        Self { dialect, advice, always_advises: false, untruth: None, dates: true, status: 429 }
    }

    /// The headers of an answer at an epoch; `wait` is that of a refusal.
    pub(super) fn headers(&self, epoch: f64, standing: Option<Standing>, wait: Option<f64>) -> Headers {
        let mut headers = Vec::new();
        if self.dates {
            headers.push(("date", date(epoch)));
        }
        if let Some(standing) = standing {
            self.state(&mut headers, epoch, standing, wait.is_some());
        }
        if let Some(wait) = wait.or_else(|| self.always_advises.then(|| standing.map_or(0.0, |it| it.reset)))
        {
            self.advise(&mut headers, epoch, wait);
        }
        headers
    }

    fn advise(&self, headers: &mut Headers, epoch: f64, wait: f64) {
        let (name, value) = match self.advice {
            Advice::Nothing => return,
            Advice::Milliseconds => ("retry-after-ms", format!("{}", up(1000.0 * wait))),
            Advice::Fraction => ("retry-after", format!("{}", (1000.0 * wait).round() / 1000.0)),
            Advice::Up => ("retry-after", format!("{}", up(wait).max(1))),
            Advice::Down => ("retry-after", format!("{}", wait.floor())),
            Advice::ToStatedReset => {
                let rest = self.stated_reset(epoch + wait) - (epoch + WRITING);
                ("retry-after", format!("{}", rest.floor()))
            }
            Advice::Seconds(seconds) => ("retry-after", seconds.to_string()),
            Advice::Fixed(millis) => ("retry-after-ms", millis.to_string()),
        };
        headers.push((name, value));
        if self.dialect == Dialect::Governor {
            headers.push(("x-ratelimit-after", format!("{}", wait.floor())));
        }
        if let Dialect::LiteLlm(counted) = self.dialect {
            headers.push(("rate_limit_type", counted.into()));
            headers.push(("reset_at", universal(epoch + 60.0)));
        }
    }

    /// The epoch that is given for a reset at `end`.
    fn stated_reset(&self, end: f64) -> f64 {
        match self.dialect {
            Dialect::ExpressLegacy | Dialect::Flexible { as_date: false } => up(end) as f64,
            Dialect::SlowApi => end + 1.0,
            Dialect::Flask => (end + 1.0).floor(),
            _ => end,
        }
    }

    fn state(&self, headers: &mut Headers, epoch: f64, standing: Standing, is_refusal: bool) {
        let Standing { limit, left, reset, window } = standing;
        let (delta, end) = (up(reset), self.stated_reset(epoch + reset));
        let has_reset = self.untruth != Some(Untruth::NoReset);
        let reset = match self.dialect {
            Dialect::Silent | Dialect::Drf => return,
            Dialect::LiteLlmDeployment if is_refusal => return,
            Dialect::LiteLlm(_) if is_refusal => return,
            Dialect::LiteLlm(counted) => {
                headers.push((litellm(counted, true), format!("{left}")));
                headers.push((litellm(counted, false), format!("{limit}")));
                return;
            }
            Dialect::LiteLlmDeployment => {
                headers.push(("x-ratelimit-remaining-requests", format!("{left}")));
                headers.push(("x-ratelimit-limit-requests", format!("{limit}")));
                return;
            }
            Dialect::Draft6 => {
                headers.push(("ratelimit-policy", format!("{limit};w={window}")));
                headers.push(("ratelimit-limit", format!("{limit}")));
                headers.push(("ratelimit-remaining", format!("{left}")));
                if has_reset {
                    headers.push(("ratelimit-reset", delta.to_string()));
                }
                return;
            }
            Dialect::Draft7 => {
                let reset = if has_reset { format!(", reset={delta}") } else { String::new() };
                headers.push(("ratelimit-policy", format!("{limit};w={window}")));
                headers.push(("ratelimit", format!("limit={limit}, remaining={left}{reset}")));
                return;
            }
            Dialect::Draft8 => {
                let name = format!("{limit}-in-{}", written(window));
                let reset = if has_reset { format!("; t={delta}") } else { String::new() };
                headers.push(("ratelimit", format!("\"{name}\"; r={left}{reset}")));
                headers.push((
                    "ratelimit-policy",
                    format!("\"{name}\"; q={limit}; w={window}; pk=:OTA0YjUyMWM0Njc5:"),
                ));
                return;
            }
            Dialect::Governor => None,
            Dialect::Flexible { as_date: true } => Some(javascript(end)),
            Dialect::SlowApi | Dialect::Koa => Some(format!("{}", (1e6 * end).round() / 1e6)),
            Dialect::Fastify => Some(delta.to_string()),
            Dialect::ExpressLegacy | Dialect::Flexible { .. } | Dialect::Flask => Some(format!("{end}")),
        };
        headers.push(("x-ratelimit-limit", format!("{limit}")));
        headers.push(("x-ratelimit-remaining", format!("{left}")));
        headers.extend(reset.filter(|_| has_reset).map(|reset| ("x-ratelimit-reset", reset)));
    }

    /// The body of a refusal.
    pub(super) fn refusal(&self, epoch: f64, wait: f64, standing: Option<Standing>) -> String {
        let (limit, left) = standing.map_or((0.0, 0.0), |it| (it.limit, it.left));
        match self.dialect {
            Dialect::ExpressLegacy | Dialect::Draft6 | Dialect::Draft7 | Dialect::Draft8 => {
                "Too many requests, please try again later.".into()
            }
            Dialect::Drf => {
                format!(r#"{{"detail":"Request was throttled. Expected available in {} seconds."}}"#, up(wait).max(1))
            }
            Dialect::Koa => format!("Rate limit exceeded, retry in {} seconds.", wait.floor()),
            Dialect::Governor => format!("Too Many Requests! Wait for {}s", wait.floor()),
            Dialect::Fastify => r#"{"statusCode":429,"error":"Too Many Requests","message":"Rate limit exceeded"}"#.into(),
            Dialect::LiteLlm(counted) => {
                let mut text = r#"{"error":{"message":"Rate limit exceeded for api_key: 0. Limit type: "#.to_owned();
                let reset = universal(epoch + 60.0);
                let _ = write!(text, "{counted}. Current limit: {limit}, Remaining: {left}. Limit resets at: {reset}");
                text + r#"","type":"throttling_error","param":null,"code":"429"}}"#
            }
            Dialect::LiteLlmDeployment => {
                r#"{"error":{"message":"No deployments available for selected model.","type":"rate_limit_error","param":null,"code":"429"}}"#.into()
            }
            Dialect::Silent | Dialect::Flexible { .. } | Dialect::SlowApi | Dialect::Flask => "Too Many Requests".into(),
        }
    }
}

fn litellm(counted: &str, is_rest: bool) -> &'static str {
    match (counted, is_rest) {
        ("requests", true) => "x-ratelimit-api_key-remaining-requests",
        ("requests", false) => "x-ratelimit-api_key-limit-requests",
        ("tokens", true) => "x-ratelimit-api_key-remaining-tokens",
        ("tokens", false) => "x-ratelimit-api_key-limit-tokens",
        (_, true) => "x-ratelimit-api_key-remaining-max_parallel_requests",
        (_, false) => "x-ratelimit-api_key-limit-max_parallel_requests",
    }
}
