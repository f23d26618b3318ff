//! Whose request it is: the credentials that it carries.

use std::borrow::Cow;

use reqwest::{Request, Url};

use super::signed;
use crate::credentials::{identifies_caller, is_credential, is_proof};

/// One credential: where it stands, and what tells one caller from another.
type Carrier<'a> = (Cow<'a, str>, Cow<'a, [u8]>);

/// All that identifies the caller of a request: its credentials and its account, in headers, query and URL.
///
/// What goes with one request alone, a signature or a nonce, is another one each time: it counts only if there is nothing
/// else.
pub(crate) fn credential(request: &Request) -> Option<Cow<'_, [u8]>> {
    let mut carriers: Vec<Carrier<'_>> = Vec::new();
    for (name, value) in request.headers() {
        if identifies_caller(name, value) {
            carriers.push((Cow::Borrowed(name.as_str()), signed::identity(value.as_bytes())));
        }
    }
    carriers.extend(in_url(request.url()));
    if carriers.len() > 1 && carriers.iter().any(|(name, _)| !is_proof(name)) {
        carriers.retain(|(name, _)| !is_proof(name));
    }
    if carriers.len() <= 1 {
        return carriers.pop().map(|(_, value)| value);
    }
    // A gateway's key beside a service's: limits may be counted by either.
    carriers.sort_unstable();
    let mut all = Vec::new();
    for (name, value) in &carriers {
        // With lengths, since a decoded name or value may have any byte.
        all.extend_from_slice(format!("{}:{name}{}:", name.len(), value.len()).as_bytes());
        all.extend_from_slice(value);
    }
    Some(Cow::Owned(all))
}

/// The credentials of the query and of `user:password@`.
fn in_url(url: &Url) -> impl Iterator<Item = Carrier<'_>> {
    let user = match (url.username(), url.password()) {
        ("", None) => None,
        (user, None) => Some(Cow::Borrowed(user.as_bytes())),
        (user, Some(password)) => Some(Cow::Owned(format!("{user}:{password}").into_bytes())),
    };
    let query = url.query_pairs().filter(|(name, value)| is_credential(name, value));
    query.map(|(name, value)| (name, bytes(value))).chain(user.map(|user| (Cow::Borrowed(""), user)))
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}
