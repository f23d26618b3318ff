//! Which scope a request belongs to: the calls that share a server's limits.
//!
//! Limits are counted per endpoint and credential; some services count them per deployment or model as well. The default
//! reads all three off the request; a caller who knows better says so per call or per client.

mod credential;
mod label;
mod signed;

use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrayvec::ArrayVec;
use reqwest::{Request, Url};

pub(crate) use credential::credential;
use label::{is_plain, label_beside, named_in_path, names_plainly};

use crate::gate::ScopeKey;
use crate::reading::{CountedBy, Profile};

/// How many scopes are remembered by [`RecentScopes`]: enough for a client's few models and credentials.
const RECENT: usize = 8;

/// The scopes of the latest requests, so that the next of the same kind does not put its key together anew.
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

#[derive(Default)]
struct Recent {
    scopes: ArrayVec<Known, RECENT>,
    next: usize,
}

struct Known {
    /// A keyed hash of it.
    credential: Option<u64>,
    scope: ScopeKey,
    /// That of its endpoint.
    profile: Profile,
    /// Whether a body may be looked at for the label without reading it.
    is_plain: bool,
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

    /// The scope of a request: endpoint and credential, and the deployment or model where limits are counted apart.
    /// `profile` finds the profile of its endpoint, always the same one.
    ///
    /// The credential is kept as keyed hashes only.
    pub(crate) fn scope_of(&self, request: &Request, profile: impl FnOnce() -> Profile) -> ScopeKey {
        let credential = credential(request);
        let hash = credential.as_deref().map(|credential| self.hash(credential));
        let named = named_in_path(request.url().path());
        let is_it = |known: &&Known| known.credential == hash && known.is_plainly_of(request, named);
        if let Some(known) = self.lock().scopes.iter().find(is_it) {
            return known.scope.clone();
        }
        let profile = profile();
        self.find_or_make(&Parts::of(request, credential, named, &profile), hash, &profile)
    }

    fn find_or_make(&self, parts: &Parts<'_>, hash: Option<u64>, profile: &Profile) -> ScopeKey {
        let mut recent = self.lock();
        let is_it = |known: &&Known| known.credential == hash && parts.are_of(&known.scope);
        if let Some(known) = recent.scopes.iter().find(is_it) {
            return known.scope.clone();
        }
        let scope = match self.apart {
            Some(client) => parts.key().of_client(client),
            None => parts.key(),
        };
        let is_plain = parts.label.as_deref().is_some_and(is_plain);
        recent.remember(Known { credential: hash, scope: scope.clone(), profile: profile.clone(), is_plain });
        scope
    }

    fn hash(&self, credential: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(credential);
        hasher.finish()
    }

    fn lock(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    /// In place of the oldest, where there is no room.
    fn remember(&mut self, known: Known) {
        if let Err(full) = self.scopes.try_push(known) {
            self.next = self.next.wrapping_add(1) % RECENT;
            if let Some(oldest) = self.scopes.get_mut(self.next) {
                *oldest = full.element();
            }
        }
    }
}

impl Known {
    /// Whether it can be seen at a glance that a request, its credential apart, is of this scope, as most are. `named` is
    /// the label that its path names.
    fn is_plainly_of(&self, request: &Request, named: Option<&str>) -> bool {
        let label = self.scope.label_str();
        begins_with(request.url(), self.scope.endpoint())
            && match (named, self.profile.counted_by()) {
                (Some(_), _) => label == named,
                (None, CountedBy::Account) => label.is_none(),
                (None, CountedBy::Model) => {
                    let body = request.body().and_then(reqwest::Body::as_bytes);
                    self.is_plain && body.zip(label).is_some_and(|(body, label)| names_plainly(body, label))
                }
                (None, CountedBy::Segment { .. } | CountedBy::Routes(_)) => false,
            }
    }
}

/// Whether a URL begins with an endpoint and a slash. Most do; one with a user or without a path does not.
fn begins_with(url: &Url, endpoint: &str) -> bool {
    url.as_str().strip_prefix(endpoint).is_some_and(|rest| rest.starts_with('/'))
}

/// What tells the scope of a request from others.
struct Parts<'a> {
    url: &'a Url,
    credential: Option<Cow<'a, [u8]>>,
    label: Option<Cow<'a, str>>,
}

impl<'a> Parts<'a> {
    fn of(
        request: &'a Request,
        credential: Option<Cow<'a, [u8]>>,
        named: Option<&'a str>,
        profile: &'a Profile,
    ) -> Self {
        let label = named.map(Cow::Borrowed).or_else(|| label_beside(request, profile));
        Self { url: request.url(), credential, label }
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
