//! What a response is known by afterwards: its request id, the marks of a native spill-over, the attempts of a proxy.

use std::num::NonZeroU32;

use http::{HeaderMap, HeaderValue};

/// The longest request id and the longest spill-over mark that are kept, in bytes.
const MAX_MARK: usize = 128;

/// The headers that hold a request id, the preferred first: an edge adds its own beside the service's.
const REQUEST_IDS: [&str; 11] = [
    "x-request-id",
    "request-id",
    "apim-request-id",
    "x-ms-request-id",
    "x-amzn-requestid",
    "x-amz-request-id",
    "x-github-request-id",
    "x-shopify-request-id",
    "x-correlation-id",
    "x-trace-id",
    "cf-ray",
];

/// The marks of a service that spilled a request over by itself ([Azure OpenAI's native spill-over]).
///
/// [Azure OpenAI's native spill-over]: https://learn.microsoft.com/azure/ai-foundry/openai/how-to/spillover-traffic-management
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NativeSpillOver {
    /// `x-ms-spillover-from-deployment`: the deployment that did not take the request.
    pub from_deployment: Option<String>,
    /// `x-ms-spillover-error`: why the spill-over itself failed.
    pub error: Option<String>,
    /// `x-ms-is-spilled-over`.
    pub spilled_over: bool,
}

/// How often a proxy says that it has sent the request, the first time included: Envoy's `x-envoy-attempt-count`. The first
/// field that is a number counts.
pub(crate) fn proxy_attempts(headers: &HeaderMap) -> Option<NonZeroU32> {
    headers.get_all("x-envoy-attempt-count").iter().find_map(number)
}

/// A small number that stands alone in a field, and is not 0.
pub(crate) fn number(value: &HeaderValue) -> Option<NonZeroU32> {
    value.to_str().ok()?.trim().parse().ok()
}

/// The marks of one response.
#[derive(Debug, Default)]
pub(super) struct Marks<'h> {
    request_id: Option<(usize, &'h HeaderValue)>,
    pub(super) native: Option<NativeSpillOver>,
    pub(super) proxy_attempts: Option<NonZeroU32>,
}

impl<'h> Marks<'h> {
    pub(super) fn request_id(&self) -> Option<&'h HeaderValue> {
        self.request_id.map(|(_, id)| id)
    }

    /// Takes in a field if it is one of these.
    pub(super) fn note(&mut self, name: &str, value: &'h HeaderValue) {
        if name == "x-envoy-attempt-count" {
            self.proxy_attempts = self.proxy_attempts.or_else(|| number(value));
        } else if let Some(name) = name.strip_prefix("x-ms-").filter(|name| name.contains("spill")) {
            let text = mark(value);
            let new = NativeSpillOver { from_deployment: None, error: None, spilled_over: false };
            match name {
                "spillover-from-deployment" => {
                    self.native.get_or_insert(new).from_deployment = text.map(str::to_owned);
                }
                "spillover-error" => self.native.get_or_insert(new).error = text.map(str::to_owned),
                // `false` is on every response and marks nothing.
                "is-spilled-over" if text.is_some_and(|text| text.eq_ignore_ascii_case("true")) => {
                    self.native.get_or_insert(new).spilled_over = true;
                }
                _ => {}
            }
        } else if (name.ends_with("id") || name == "cf-ray")
            && let Some(rank) = REQUEST_IDS.iter().position(|known| *known == name)
            && self.request_id.is_none_or(|(known, _)| rank < known)
            && mark(value).is_some()
        {
            self.request_id = Some((rank, value));
        }
    }
}

/// A value that is short and printable enough to be kept and logged.
fn mark(value: &HeaderValue) -> Option<&str> {
    let text = str::from_utf8(value.as_bytes().trim_ascii()).ok()?;
    let printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    (printable && (1..=MAX_MARK).contains(&text.len())).then_some(text)
}

#[cfg(test)]
mod tests;
