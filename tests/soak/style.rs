//! How a server words its refusals: status, fields, and what of a wait can be said in them.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::dice::Dice;
use super::log::Ms;
use super::server::SECOND;

/// The wall clock of all servers at the start; half a second past a whole one.
const EPOCH: Duration = Duration::from_millis(1_800_000_000_500);

/// The field that a wait is stated in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    RetryAfterMs,
    RetryAfter,
    RetryAfterDate,
    /// `x-ratelimit-*`, with the reset alone.
    Reset,
    /// `RateLimit` and `RateLimit-Policy` of the IETF draft.
    Structured,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(crate) field: Field,
    pub(crate) status: u16,
}

/// The state of a window in a response: limit, what is left, and the time to the reset.
pub(crate) type Window = (u64, u64, Ms);

impl Style {
    pub(crate) fn random(dice: &mut Dice, fields: &[Field]) -> Self {
        let field = dice.one_of(fields);
        // Only an explicit wait makes a 503 a refusal.
        let explicit = !matches!(field, Field::Reset | Field::Structured);
        let statuses: &[u16] = if explicit { &[429, 429, 503, 529] } else { &[429] };
        Self { field, status: dice.one_of(statuses) }
    }

    /// What of a wait the field can say: rounded up, never down.
    pub(crate) fn stated(&self, wait: Ms) -> Ms {
        match self.field {
            Field::RetryAfterMs => wait,
            _ => wait.div_ceil(SECOND) * SECOND,
        }
    }

    /// Status and headers of a refusal that is heard at `heard` and advises `wait`, if anything.
    pub(crate) fn refusal(
        &self,
        wait: Option<Ms>,
        heard: Ms,
        window: Option<Window>,
    ) -> (StatusCode, HeaderMap) {
        let mut headers = HeaderMap::new();
        put(&mut headers, "date", &date(heard));
        if let Some(wait) = wait {
            match self.field {
                Field::RetryAfterMs => put(&mut headers, "retry-after-ms", &wait.to_string()),
                Field::RetryAfter => put(&mut headers, "retry-after", &(wait / SECOND).to_string()),
                Field::RetryAfterDate => put(&mut headers, "retry-after", &date(heard + wait)),
                Field::Reset | Field::Structured => {
                    let (limit, ..) = window.unwrap_or((100, 0, wait));
                    self.state(&mut headers, (limit, 0, wait));
                }
            }
        }
        (StatusCode::from_u16(self.status).unwrap(), headers)
    }

    /// Headers of a success.
    pub(crate) fn success(&self, heard: Ms, window: Option<Window>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        put(&mut headers, "date", &date(heard));
        if let Some(window) = window {
            self.state(&mut headers, window);
        }
        headers
    }

    fn state(&self, headers: &mut HeaderMap, (limit, left, reset): Window) {
        let reset = reset.div_ceil(SECOND);
        match self.field {
            Field::Structured => {
                put(headers, "ratelimit-policy", &format!("\"default\";q={limit}"));
                put(headers, "ratelimit", &format!("\"default\";r={left};t={reset}"));
            }
            _ => {
                put(headers, "x-ratelimit-limit", &limit.to_string());
                put(headers, "x-ratelimit-remaining", &left.to_string());
                put(headers, "x-ratelimit-reset", &reset.to_string());
            }
        }
    }
}

fn date(at: Ms) -> String {
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + EPOCH + Duration::from_millis(at))
}

fn put(headers: &mut HeaderMap, name: &'static str, value: &str) {
    headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
}
