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
pub(crate) fn is_harmless_header(name: &HeaderName) -> bool {
    HARMLESS.binary_search(&name.as_str()).is_ok()
}

/// Whether a header carries a credential, or names the account that a request is made for.
pub(crate) fn identifies_caller(name: &HeaderName, value: &HeaderValue) -> bool {
    if value.is_sensitive() || name == header::AUTHORIZATION {
        return true;
    }
    // Most headers are among these.
    if is_harmless_header(name) {
        return false;
    }
    if name == header::REFERER {
        return holds_credential(value);
    }
    names_credential(name.as_str()) || words::names_account(name.as_str())
}

/// Whether a header or parameter proves one request alone: a signature, which is another one each time.
pub(crate) fn is_proof(name: &str) -> bool {
    words::names_proof(name)
}

/// Whether a URL in a header has a user or a credential in its query; one that cannot be read may have.
fn holds_credential(url: &HeaderValue) -> bool {
    let Some(text) = url.to_str().ok().filter(|text| text.contains(['?', '@', '#', '='])) else {
        return url.to_str().is_err();
    };
    Url::parse(text).map_or(true, |url| {
        let mut bare = url.clone();
        strip_url(&mut bare, |_| false);
        bare.set_fragment(None);
        bare != url
    })
}

/// Takes off the user information, and the query parameters that carry a credential and are not to be kept.
pub(crate) fn strip_url(url: &mut Url, kept: impl Fn(&str) -> bool) {
    // Both fail only for URLs that can have no user, which then have none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    keep_query(url, |name| kept(name) || !names_credential(name));
}

/// Keeps the query parameters that `keep` names. A query of these alone stays as it is written.
pub(crate) fn keep_query(url: &mut Url, keep: impl Fn(&str) -> bool) {
    if url.query_pairs().all(|(name, _)| keep(&name)) {
        return;
    }
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| keep(name))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    url.set_query(None);
    if !kept.is_empty() {
        url.query_pairs_mut().extend_pairs(kept);
    }
}

/// Sets a query parameter, in place of all of the same name.
pub(crate) fn set_query(url: &mut Url, name: &str, value: &str) {
    keep_query(url, |other| other != name);
    url.query_pairs_mut().append_pair(name, value);
}

#[cfg(test)]
mod tests;
