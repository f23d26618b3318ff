//! Whose request it is: the credentials that it carries.

use std::borrow::Cow;

use http::HeaderValue;
use reqwest::{Request, Url};

use super::signed;

/// Headers that carry a credential, besides those that are marked as sensitive.
pub(super) const CREDENTIAL_HEADERS: [&str; 14] = [
    "authorization",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "ocp-apim-subscription-key",
    "private-token",
    "x-access-token",
    "x-auth-key",
    "x-auth-token",
    "x-figma-token",
    "x-rapidapi-key",
    "x-shopify-access-token",
    "x-subscription-token",
    "xi-api-key",
];

/// Query parameters that carry a credential.
const CREDENTIAL_PARAMETERS: [&str; 6] =
    ["key", "api_key", "api-key", "apikey", "access_token", "subscription-key"];

/// Every request comes by here, and most headers are told from these by their last letter.
fn carries_credential(name: &str, value: &HeaderValue) -> bool {
    value.is_sensitive()
        || matches!(name.as_bytes().last(), Some(b'n' | b'y')) && CREDENTIAL_HEADERS.contains(&name)
}

/// All that tells the caller of a request from others: of its headers, else of its URL.
pub(crate) fn credential(request: &Request) -> Option<Cow<'_, [u8]>> {
    let mut carriers =
        request.headers().iter().filter(|(name, value)| carries_credential(name.as_str(), value));
    let Some(first) = carriers.next() else { return url_credential(request.url()) };
    let Some(second) = carriers.next() else { return Some(signed::identity(first.1.as_bytes())) };
    // A gateway's key beside a service's: limits may be counted by either.
    let all = [first, second].into_iter().chain(carriers);
    let mut found: Vec<_> =
        all.map(|(name, value)| (name.as_str(), signed::identity(value.as_bytes()))).collect();
    found.sort_unstable();
    let parts = found.iter().flat_map(|(name, value)| [name.as_bytes(), b"\0", value, b"\0"]);
    Some(Cow::Owned(parts.flatten().copied().collect()))
}

/// The credential of the query and of `user:password@`.
fn url_credential(url: &Url) -> Option<Cow<'_, [u8]>> {
    let user = match (url.username(), url.password()) {
        ("", None) => None,
        (user, None) => Some(Cow::Borrowed(user)),
        (user, Some(password)) => Some(Cow::Owned(format!("{user}:{password}"))),
    };
    if url.query().is_none() {
        return user.map(bytes);
    }
    let carriers = url.query_pairs().filter(|(name, _)| CREDENTIAL_PARAMETERS.contains(&name.as_ref()));
    let mut found: Vec<_> = carriers.chain(user.map(|user| (Cow::Borrowed(""), user))).collect();
    if found.len() <= 1 {
        return found.pop().map(|(_, value)| bytes(value));
    }
    found.sort_unstable();
    // With lengths, since a decoded value may have any byte.
    let parts = found.iter().map(|(name, value)| format!("{name}={}:{value}\0", value.len()));
    Some(Cow::Owned(parts.flat_map(String::into_bytes).collect()))
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}
