//! A message as text: a line of words, header lines, an empty line, the body.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::{Request, Url};

use super::SECRET;

pub(super) struct Message<'i> {
    words: Vec<&'i str>,
    pub(super) headers: HeaderMap,
    pub(super) body: &'i [u8],
}

impl<'i> Message<'i> {
    /// `None` for an input that holds the secret by itself: fuzzers learn such words.
    pub(super) fn read(input: &'i [u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(input);
        if text.contains(SECRET) {
            return None;
        }
        let (first, mut rest) = line(input);
        let mut headers = HeaderMap::new();
        loop {
            let (field, after) = line(rest);
            rest = after;
            if field.is_empty() {
                break;
            }
            let colon = field.iter().position(|byte| *byte == b':').unwrap_or(field.len());
            let (name, value) = field.split_at(colon);
            let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii();
            // What no HTTP parser lets through is left out.
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
                let _ = headers.try_append(name, value);
            }
        }
        let words = std::str::from_utf8(first).unwrap_or_default().split(' ').collect();
        Some(Self { words, headers, body: rest })
    }

    pub(super) fn word(&self, index: usize) -> &'i str {
        self.words.get(index).copied().unwrap_or_default()
    }

    /// A word as a number, by its hash if it is none.
    pub(super) fn number(&self, index: usize) -> u64 {
        let word = self.word(index);
        let hash = |hash: u64, byte: &u8| hash.wrapping_mul(31).wrapping_add(u64::from(*byte));
        word.parse().unwrap_or_else(|_| word.as_bytes().iter().fold(7, hash))
    }

    /// The request that a message is whose second and third words are method and URL.
    pub(super) fn request(&self) -> Option<Request> {
        let method: Method = self.word(1).parse().unwrap_or(Method::POST);
        let base = Url::parse("https://api.example/").ok()?;
        let url = base.join(self.word(2)).ok()?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return None;
        }
        let mut request = Request::new(method, url);
        *request.headers_mut() = self.headers.clone();
        if !self.body.is_empty() {
            *request.body_mut() = Some(self.body.to_vec().into());
        }
        Some(request)
    }
}

/// The first line without its end, and the rest.
fn line(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (line, rest) = input.split_at(end);
    (line.strip_suffix(b"\r").unwrap_or(line), rest.strip_prefix(b"\n").unwrap_or(rest))
}

/// Puts the secret wherever a request may hold one: headers, query, user information, and a header of any name that is
/// marked as sensitive. `which` tells one caller's secret from another's.
pub(super) fn add_secrets(request: &mut Request, sensitive: &str, which: u32) {
    let secret = |before: &str| HeaderValue::try_from(format!("{before}{SECRET}{which}"));
    for (name, before) in [
        ("authorization", "Bearer "),
        ("cookie", "session="),
        ("x-api-key", ""),
        ("api-key", ""),
        ("x-auth", ""),
        ("helicone-auth", "Bearer "),
        ("x-jwt-assertion", ""),
        ("dd-api-key", ""),
        ("x-session", ""),
    ] {
        if let Ok(value) = secret(before) {
            request.headers_mut().insert(name, value);
        }
    }
    if let (Ok(name), Ok(mut value)) = (HeaderName::try_from(sensitive), secret("")) {
        value.set_sensitive(true);
        request.headers_mut().insert(name, value);
    }
    let url = request.url_mut();
    // Both fail only for URLs that can have no user.
    let _ = url.set_username("user");
    let _ = url.set_password(Some(SECRET));
    url.query_pairs_mut().append_pair("api_key", SECRET).append_pair("access_token", SECRET);
}
