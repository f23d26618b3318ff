//! Which scope a request belongs to: the calls that share a server's limits.
//!
//! Limits are counted per endpoint and credential; some services count them per deployment or model as well. The default
//! reads all three off the request; a caller who knows better says so per call or per client.

mod signed;

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use arrayvec::ArrayVec;
use reqwest::{Request, Url};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};

use crate::gate::ScopeKey;
use crate::reading::{CountedBy, Profile, Segment};

/// Headers that carry a credential, besides those that are marked as sensitive.
const CREDENTIAL_HEADERS: [&str; 14] = [
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

/// The longest part of a path that becomes a label, in bytes; labels are kept and shown.
const LONGEST_LABEL: usize = 128;

/// How much of a request body a model name is looked for in, in bytes.
const LONGEST_SEARCH: usize = 1024 * 1024;

/// How many scopes are remembered by [`RecentScopes`]: enough for a client's few models and credentials.
const RECENT: usize = 8;

/// The scopes of the latest requests, so that the next of the same kind does not put its key together anew.
#[derive(Default)]
pub(crate) struct RecentScopes {
    hasher: RandomState,
    recent: Mutex<Recent>,
}

#[derive(Default)]
struct Recent {
    scopes: ArrayVec<(Option<u64>, ScopeKey), RECENT>,
    next: usize,
}

impl RecentScopes {
    /// The scope of a request: endpoint and credential, and the deployment or model where limits are counted apart.
    ///
    /// The credential is kept as keyed hashes only.
    pub(crate) fn scope_of(&self, request: &Request, profile: &Profile) -> ScopeKey {
        let parts = Parts::of(request, profile);
        let credential = parts.credential.as_deref().map(|credential| self.hash(credential));
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let known = recent.scopes.iter().find(|(known, scope)| *known == credential && parts.are_of(scope));
        if let Some((_, scope)) = known {
            return scope.clone();
        }
        let scope = parts.key();
        recent.remember(credential, scope.clone());
        scope
    }

    fn hash(&self, credential: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(credential);
        hasher.finish()
    }
}

impl Recent {
    /// In place of the oldest, where there is no room.
    fn remember(&mut self, credential: Option<u64>, scope: ScopeKey) {
        if let Err(full) = self.scopes.try_push((credential, scope)) {
            self.next = self.next.wrapping_add(1) % RECENT;
            if let Some(oldest) = self.scopes.get_mut(self.next) {
                *oldest = full.element();
            }
        }
    }
}

/// What tells the scope of a request from others.
struct Parts<'a> {
    url: &'a Url,
    credential: Option<Cow<'a, [u8]>>,
    label: Option<Cow<'a, str>>,
}

impl<'a> Parts<'a> {
    fn of(request: &'a Request, profile: &Profile) -> Self {
        Self { url: request.url(), credential: credential(request), label: label(request, profile) }
    }

    /// Whether all but the credential is that of a known scope.
    fn are_of(&self, scope: &ScopeKey) -> bool {
        // An origin and a slash is what most URLs begin with, and is all that has to be looked at then.
        let rest = self.url.as_str().strip_prefix(scope.endpoint());
        scope.label_str() == self.label.as_deref()
            && (rest.is_some_and(|rest| rest.starts_with('/')) || endpoint(self.url) == scope.endpoint())
    }

    fn key(&self) -> ScopeKey {
        let mut scope = ScopeKey::new(&endpoint(self.url));
        if let Some(credential) = &self.credential {
            scope = scope.credential(credential);
        }
        match &self.label {
            Some(label) => scope.label(label),
            None => scope,
        }
    }
}

/// The origin: what stands before the path, which a URL with a host always has.
fn endpoint(url: &Url) -> Cow<'_, str> {
    let after = |part: Option<&str>| part.map_or(0, |part| part.len().saturating_add(1));
    let text = url.as_str();
    let rest = url.path().len().saturating_add(after(url.query())).saturating_add(after(url.fragment()));
    let endpoint = text.len().checked_sub(rest).and_then(|length| text.get(..length)).unwrap_or_default();
    if url.username().is_empty() && url.password().is_none() {
        return Cow::Borrowed(endpoint);
    }
    without_user(endpoint)
}

/// `user:password@` is a credential, not a part of the endpoint.
fn without_user(endpoint: &str) -> Cow<'_, str> {
    match (endpoint.split_once("://"), endpoint.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => Cow::Owned(format!("{scheme}://{host}")),
        _ => Cow::Borrowed(endpoint),
    }
}

/// Every request comes by here, and most headers are told from these by their last letter.
fn carries_credential(name: &str) -> bool {
    name.ends_with(['n', 'y']) && CREDENTIAL_HEADERS.contains(&name)
}

/// All that tells the caller of a request from others: of its headers, else of its URL.
pub(crate) fn credential(request: &Request) -> Option<Cow<'_, [u8]>> {
    let mut carriers = request
        .headers()
        .iter()
        .filter(|(name, value)| value.is_sensitive() || carries_credential(name.as_str()))
        .map(|(name, value)| (name.as_str(), signed::identity(value.as_bytes())));
    match (carriers.next(), carriers.next()) {
        (None, _) => url_credential(request.url()),
        (Some((_, value)), None) => Some(value),
        // A gateway's key beside a service's: limits may be counted by either.
        (Some(first), Some(second)) => {
            let mut found: Vec<_> = [first, second].into_iter().chain(carriers).collect();
            found.sort_unstable();
            let parts = found.iter().flat_map(|(name, value)| [name.as_bytes(), b"\0", value, b"\0"]);
            Some(Cow::Owned(parts.flatten().copied().collect()))
        }
    }
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

/// The deployment or model of a request.
fn label<'a>(request: &'a Request, profile: &Profile) -> Option<Cow<'a, str>> {
    let path = request.url().path();
    if let Some(name) = named_in_path(path) {
        return Some(Cow::Borrowed(name));
    }
    match profile.counted_by {
        CountedBy::Account => None,
        CountedBy::Model => {
            let body = request.body()?.as_bytes()?;
            model_of(body.get(..LONGEST_SEARCH).unwrap_or(body))
        }
        CountedBy::Segment(segment) => named_by(segment, path),
        CountedBy::Routes(routes) => {
            routes.iter().find(|(start, _)| path.starts_with(start)).map(|(_, name)| Cow::Borrowed(*name))
        }
    }
}

fn named_by(segment: Segment, path: &str) -> Option<Cow<'_, str>> {
    let rest = path.strip_prefix('/')?.strip_prefix(segment.before)?.strip_prefix('/')?;
    let (name, fits) = match rest.split_once('/') {
        Some((name, after)) => (name, segment.after.contains(&after)),
        None => (rest, segment.after.is_empty()),
    };
    if !fits || !may_be_label(name) {
        return None;
    }
    // Some clients encode the colon that the names of Bedrock's models have.
    let encoded = name.contains('%');
    Some(if encoded { name.replace("%3A", ":").replace("%3a", ":").into() } else { name.into() })
}

const fn may_be_label(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST_LABEL
}

/// `/openai/deployments/{name}/...` (Azure OpenAI) and `/models/{name}:{method}` (Gemini, Vertex).
fn named_in_path(path: &str) -> Option<&str> {
    let (mut deployment, mut model) = (None, None);
    let (mut earlier, mut before) = (b"".as_slice(), b"".as_slice());
    // By bytes, which is a third of the work of characters; every request comes by here.
    for segment in path.as_bytes().split(|byte| *byte == b'/').skip(1) {
        match before {
            // Other services deploy as well, and limit by account.
            b"deployments" if earlier == b"openai" => deployment = deployment.or(Some(segment)),
            b"models" => model = model.or(Some(segment)),
            _ => {}
        }
        (earlier, before) = (before, segment);
    }
    let until_method = |model: &'_ [u8]| model.iter().position(|byte| *byte == b':');
    let model = || model.and_then(|model| model.get(..until_method(model)?));
    std::str::from_utf8(deployment.or_else(model)?).ok().filter(|name| may_be_label(name))
}

/// The text of the field `model` of a JSON object. Nothing after it is read: the prompt may be long.
fn model_of(body: &[u8]) -> Option<Cow<'_, str>> {
    // Where it comes first and is plain, no parser is needed.
    if let Some(rest) = body.strip_prefix(br#"{"model":""#)
        && let Some(end) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))
        && let Some((model, [b'"', ..])) = rest.split_at_checked(end)
    {
        return std::str::from_utf8(model).ok().map(Cow::Borrowed);
    }
    let mut found = None;
    // Stopping at the field is an error to the parser, as is a body of any other form.
    let _ = serde_json::Deserializer::from_slice(body).deserialize_map(Model { found: &mut found });
    found
}

struct Model<'a, 'de> {
    found: &'a mut Option<Cow<'de, str>>,
}

impl<'de> Visitor<'de> for Model<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = map.next_key()? {
            if name == "model" {
                *self.found = map.next_value::<Option<Text<'de>>>()?.map(|Text(model)| model);
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// A string that borrows from the body where it can.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests;
