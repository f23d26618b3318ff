//! What is a credential, in headers, query, cookies and user information: the one place that knows.
//!
//! Used by the key of a scope, by routes, which leave credentials behind, and by tickets, which must not hold any.

use http::HeaderValue;
use http::header::{self, HeaderName};
use reqwest::Url;

mod words;

pub(crate) use words::names_credential;

/// Headers that travel to another origin: they say what a request is, not whose it is.
///
/// Not among them: `baggage`, which is the application's own data, `referer`, whose URL may hold a token, and `host`, which
/// the client sets anew.
const HARMLESS: [&str; 29] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "anthropic-beta",
    "anthropic-version",
    "cache-control",
    "content-digest",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "idempotency-key",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "openai-beta",
    "prefer",
    "range",
    "repr-digest",
    "traceparent",
    "tracestate",
    "user-agent",
];

/// Whether a header of this name may travel to any other origin.
fn is_harmless_header(name: &HeaderName) -> bool {
    HARMLESS.binary_search(&name.as_str()).is_ok()
}

/// Whether a header carries a credential, or names the account that a request is made for.
pub(crate) fn identifies_caller(name: &HeaderName, value: &HeaderValue) -> bool {
    if value.is_sensitive() || name == header::AUTHORIZATION {
        return true;
    }
    if name == header::REFERER || name == header::CONTENT_LOCATION {
        return holds_credential(value);
    }
    // Most headers are among these.
    if is_harmless_header(name) {
        return false;
    }
    names_credential(name.as_str())
        || words::names_account(name.as_str())
        || value.to_str().is_ok_and(|value| is_jwt(value) || is_bearer(value))
}

/// Whether a header may go along to any other origin.
pub(crate) fn is_harmless(name: &HeaderName, value: &HeaderValue) -> bool {
    is_harmless_header(name)
        && !identifies_caller(name, value)
        && !value.to_str().is_ok_and(|value| is_jwt(value) || is_bearer(value))
}

/// Whether a parameter of the query carries a credential.
pub(crate) fn is_credential(name: &str, value: &str) -> bool {
    names_credential(name) || is_jwt(value)
}

/// Whether a value is a JSON web token ([RFC 7519](https://www.rfc-editor.org/rfc/rfc7519)), which is one under any name: it
/// begins as a JSON object does in Base64, and has three parts, or five if it is encrypted.
fn is_jwt(value: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    value.starts_with("eyJ") && matches!(value.split('.').count(), 3 | 5) && value.bytes().all(is_of_token)
}

/// Whether a value is that of an `Authorization` header: a word after `Bearer`, and no further ones as in a sentence.
fn is_bearer(value: &str) -> bool {
    let token = value.split_at_checked(7).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer "));
    token.is_some_and(|(_, token)| !token.trim().is_empty() && !token.trim().contains(' '))
}

/// Whether a header or parameter goes with one request alone: a signature or a nonce, which is another one each time.
pub(crate) fn is_proof(name: &str) -> bool {
    words::names_proof(name)
}

/// Whether a URL in a header has a user or a credential in its query; one that cannot be read may have.
fn holds_credential(url: &HeaderValue) -> bool {
    let Ok(text) = url.to_str() else { return true };
    if !text.contains(['?', '@', '#', '=']) {
        return false;
    }
    // It may be relative, to whatever URL.
    let url = Url::parse("http://a.invalid").and_then(|base| base.join(text));
    url.map_or(true, |url| {
        let mut bare = url.clone();
        strip_url(&mut bare, |_| false);
        bare != url || url.fragment().is_some_and(|fragment| fragment.contains('='))
    })
}

/// Takes off the user information, and the query parameters that carry a credential and are not to be kept.
pub(crate) fn strip_url(url: &mut Url, kept: impl Fn(&str) -> bool) {
    // Both fail only for URLs that can have no user, which then have none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    keep_query(url, |name, value| kept(name) || !is_credential(name, value));
}

/// Keeps the query parameters that `keep` allows by name and value, as they are written: not every server reads `+` as `%20`.
pub(crate) fn keep_query(url: &mut Url, keep: impl Fn(&str, &str) -> bool) {
    if url.query_pairs().all(|(name, value)| keep(&name, &value)) {
        return;
    }
    let written = url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let kept = written.zip(url.query_pairs()).filter(|(_, (name, value))| keep(name, value));
    let kept = kept.map(|(written, _)| written).collect::<Vec<_>>().join("&");
    url.set_query(Some(kept.as_str()).filter(|kept| !kept.is_empty()));
}

/// Sets a query parameter, in place of all of the same name.
pub(crate) fn set_query(url: &mut Url, name: &str, value: &str) {
    keep_query(url, |other, _| other != name);
    url.query_pairs_mut().append_pair(name, value);
}

#[cfg(test)]
mod tests;
