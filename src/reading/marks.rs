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

/// Whether a header's name may be one of a mark, without comparing it with all of them.
pub(super) fn may_be_mark(name: &[u8]) -> bool {
    name.starts_with(b"x-ms-")
        || name.ends_with(b"id")
        || matches!(name, b"cf-ray" | b"x-envoy-attempt-count")
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

    /// Takes in a field whose name may be one of these.
    pub(super) fn note(&mut self, name: &str, value: &'h HeaderValue) {
        let new = || NativeSpillOver { from_deployment: None, error: None, spilled_over: false };
        match name {
            "x-ms-spillover-from-deployment" => {
                self.native.get_or_insert_with(new).from_deployment = mark(value).map(str::to_owned);
            }
            "x-ms-spillover-error" => {
                self.native.get_or_insert_with(new).error = mark(value).map(str::to_owned);
            }
            "x-ms-is-spilled-over" => {
                // `false` is on every response and marks nothing.
                if value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"true") {
                    self.native.get_or_insert_with(new).spilled_over = true;
                }
            }
            "x-envoy-attempt-count" => self.proxy_attempts = self.proxy_attempts.or_else(|| number(value)),
            _ => {
                if let Some(rank) = REQUEST_IDS.iter().position(|known| *known == name)
                    && self.request_id.is_none_or(|(known, _)| rank < known)
                    && mark(value).is_some()
                {
                    self.request_id = Some((rank, value));
                }
            }
        }
    }
}

/// A value that is short and printable enough to be kept and logged.
fn mark(value: &HeaderValue) -> Option<&str> {
    let text = value.as_bytes().trim_ascii();
    let printable = || text.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let text = str::from_utf8(text).ok()?;
    ((1..=MAX_MARK).contains(&text.len()) && printable()).then_some(text)
}

#[cfg(test)]
mod tests;
