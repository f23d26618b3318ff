//! What a response is known by afterwards: its request id, the marks of a native spill-over, the attempts of a proxy.

use std::num::NonZeroU32;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{NativeSpillOver, Reading};

/// The longest request id and the longest spill-over mark that are kept, in bytes.
const MAX_MARK: usize = 128;

/// How far a request id of that name is preferred, the lowest first: an edge adds its own beside the service's.
fn rank_of_id(name: &[u8]) -> Option<u8> {
    if name == b"x-request-id" {
        return Some(0);
    }
    Some(match name {
        b"request-id" => 1,
        b"apim-request-id" => 2,
        b"x-ms-request-id" => 3,
        b"x-amzn-requestid" => 4,
        b"x-amz-request-id" => 5,
        b"x-github-request-id" => 6,
        b"x-shopify-request-id" => 7,
        b"x-correlation-id" => 8,
        b"x-trace-id" => 9,
        b"cf-ray" => 10,
        _ => return None,
    })
}

/// Envoy's count of the times that it has sent the request.
pub(super) const PROXY_ATTEMPTS: &str = "x-envoy-attempt-count";
static PROXY_ATTEMPTS_NAME: HeaderName = HeaderName::from_static(PROXY_ATTEMPTS);

/// How often a proxy says that it has sent the request, the first time included. The first field that is a number counts.
pub(crate) fn proxy_attempts(headers: &HeaderMap) -> Option<NonZeroU32> {
    // Most have none, which is seen sooner than that they have not several.
    headers.get(&PROXY_ATTEMPTS_NAME)?;
    headers.get_all(&PROXY_ATTEMPTS_NAME).iter().find_map(number)
}

/// A small number that stands alone in a field, and is not 0.
pub(crate) fn number(value: &HeaderValue) -> Option<NonZeroU32> {
    value.to_str().ok()?.trim().parse().ok()
}

/// The request ids of one response, of which the most preferred counts.
#[derive(Debug, Default)]
pub(super) struct Marks<'h> {
    request_id: Option<(u8, &'h HeaderValue)>,
}

impl<'h> Marks<'h> {
    pub(super) fn request_id(&self) -> Option<&'h HeaderValue> {
        self.request_id.map(|(_, id)| id)
    }

    /// Takes in a field whose name may be one of these.
    #[inline(never)]
    pub(super) fn note(&mut self, name: &str, value: &'h HeaderValue, reading: &mut Reading) {
        if name.starts_with("x-ms-") {
            note_spill_over(name, value, &mut reading.native_spill_over);
        } else if name == PROXY_ATTEMPTS {
            reading.proxy_attempts = reading.proxy_attempts.or_else(|| number(value));
            return;
        }
        self.note_request_id(name, value);
    }

    fn note_request_id(&mut self, name: &str, value: &'h HeaderValue) {
        if self.request_id.is_some_and(|(known, _)| known == 0) {
            return;
        }
        if let Some(rank) = rank_of_id(name.as_bytes())
            && self.request_id.is_none_or(|(known, _)| rank < known)
            && printable(value).is_some()
        {
            self.request_id = Some((rank, value));
        }
    }
}

/// <https://learn.microsoft.com/azure/ai-foundry/openai/how-to/spillover-traffic-management>
#[inline(never)]
fn note_spill_over(name: &str, value: &HeaderValue, known: &mut Option<NativeSpillOver>) {
    let new = || NativeSpillOver { from_deployment: None, error: None, spilled_over: false };
    match name {
        "x-ms-spillover-from-deployment" => {
            known.get_or_insert_with(new).from_deployment = mark(value).map(str::to_owned);
        }
        "x-ms-spillover-error" => known.get_or_insert_with(new).error = mark(value).map(str::to_owned),
        // `false` is on every response and marks nothing.
        "x-ms-is-spilled-over" if value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"true") => {
            known.get_or_insert_with(new).spilled_over = true;
        }
        _ => {}
    }
}

/// A value that is short and printable enough to be kept and logged.
fn mark(value: &HeaderValue) -> Option<&str> {
    printable(value).and_then(|text| str::from_utf8(text).ok())
}

fn printable(value: &HeaderValue) -> Option<&[u8]> {
    let text = value.as_bytes().trim_ascii();
    if !(1..=MAX_MARK).contains(&text.len()) {
        return None;
    }
    is_printable(text).then_some(text)
}

/// In blocks, of which the last overlaps the one before it, so that no single bytes are left; a whole block is compared
/// at once, unless the function is merged into others that look at single bytes.
#[inline(never)]
fn is_printable(text: &[u8]) -> bool {
    let all = |bytes: &[u8]| bytes.iter().fold(true, |all, byte| all & matches!(byte, b' '..=b'~'));
    match text.last_chunk::<16>() {
        Some(last) => all(last) && text.as_chunks::<16>().0.iter().all(|block| all(block)),
        None => all(text),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use http::StatusCode;

    use super::*;

    #[test]
    fn the_attempts_of_a_proxy_are_read_as_they_are_looked_up() {
        let cases = [("3", 3), (" 12 ", 12), ("1", 1), ("0", 0), ("many", 0), ("-2", 0), ("many|4|5", 4)];
        for (stated, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert("x-ratelimit-remaining", HeaderValue::from_static("9"));
            for line in stated.split('|') {
                headers.append(PROXY_ATTEMPTS, HeaderValue::from_static(line));
            }
            let read = Reading::from_parts(StatusCode::OK, &headers, None, SystemTime::UNIX_EPOCH);
            assert_eq!(read.proxy_attempts, NonZeroU32::new(expected), "{stated}");
            assert_eq!(read.proxy_attempts, proxy_attempts(&headers), "{stated}");
        }
    }
}
