//! Which scope a request belongs to: the calls that share a server's limits.
//!
//! Limits are counted per endpoint and credential; some services count them per deployment or model as well. The default
//! reads all three off the request; a caller who knows better says so per call or per client.

mod credential;
mod label;
mod signed;

use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use arrayvec::ArrayVec;
use reqwest::{Request, Url};

pub(crate) use credential::credential;
use label::label_of;

use crate::gate::ScopeKey;
use crate::reading::Profile;

/// How many scopes are remembered by [`RecentScopes`]: enough for a client's few models and credentials.
const RECENT: usize = 8;

/// The scopes of the latest requests, so that the next of the same kind does not make its key anew.
#[derive(Default)]
pub(crate) struct RecentScopes {
    hasher: RandomState,
    recent: Mutex<Recent>,
    /// Set if the client shares no scope with others; see [`apart`].
    apart: Option<u64>,
}

/// A number that no other client or deployment has. It keeps the scopes of those apart whose credential cannot be seen,
/// since it is in the default headers of their own client.
pub(crate) fn apart() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Each scope with a keyed hash of its credential.
#[derive(Default)]
struct Recent {
    scopes: ArrayVec<(Option<u64>, ScopeKey), RECENT>,
    next: usize,
}

impl RecentScopes {
    /// For a client whose scopes are its own, even at a gate that it shares.
    pub(crate) fn apart() -> Self {
        Self { apart: Some(apart()), ..Self::default() }
    }

    /// The number of a client whose scopes are its own.
    pub(crate) const fn client(&self) -> Option<u64> {
        self.apart
    }

    /// The scope of a request: endpoint and credential, and the deployment or model if its endpoint's `profile` says that
    /// limits are counted so.
    ///
    /// The credential is kept as keyed hashes only.
    pub(crate) fn scope_of(&self, request: &Request, profile: &Profile) -> ScopeKey {
        let parts = Parts::of(request, profile);
        let hash = parts.credential.as_deref().map(|credential| self.hasher.hash_one(credential));
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let known = recent.scopes.iter().find(|(known, scope)| *known == hash && parts.are_of(scope));
        if let Some((_, scope)) = known {
            return scope.clone();
        }
        let scope = match self.apart {
            Some(client) => parts.key().of_client(client),
            None => parts.key(),
        };
        recent.remember((hash, scope.clone()));
        scope
    }
}

impl Recent {
    /// In place of the oldest if there is no room.
    fn remember(&mut self, known: (Option<u64>, ScopeKey)) {
        if let Err(full) = self.scopes.try_push(known) {
            self.next = self.next.wrapping_add(1) % RECENT;
            if let Some(oldest) = self.scopes.get_mut(self.next) {
                *oldest = full.element();
            }
        }
    }
}

/// Whether a URL begins with an endpoint and a slash. Most do; one with a user or without a path does not.
fn begins_with(url: &Url, endpoint: &str) -> bool {
    url.as_str().strip_prefix(endpoint).is_some_and(|rest| rest.starts_with('/'))
}

/// What the scope of a request is known by.
struct Parts<'a> {
    url: &'a Url,
    credential: Option<Cow<'a, [u8]>>,
    label: Option<Cow<'a, str>>,
}

impl<'a> Parts<'a> {
    fn of(request: &'a Request, profile: &'a Profile) -> Self {
        Self { url: request.url(), credential: credential(request), label: label_of(request, profile) }
    }

    /// Whether all but the credential is that of a known scope.
    fn are_of(&self, scope: &ScopeKey) -> bool {
        scope.label_str() == self.label.as_deref()
            && (begins_with(self.url, scope.endpoint()) || endpoint(self.url) == scope.endpoint())
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

#[cfg(test)]
mod tests;
