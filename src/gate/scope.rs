//! What shares limits: the key of a scope.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, OnceLock};

/// The key of a scope: the calls that share one server's limits.
///
/// It is made of the endpoint, a keyed hash of the credential, and if limits are counted apart, a label such as the
/// model or the deployment. The key of the hash is random per process and the credential itself is not kept, so a key
/// may be printed; it means nothing to another process.
#[derive(Clone)]
pub struct ScopeKey(Arc<Inner>);

#[derive(PartialEq, Eq)]
struct Inner {
    hash: u64,
    endpoint: Box<str>,
    /// 128 bits, so that two credentials share a scope in no lifetime of a process.
    credential: Option<(u64, u64)>,
    label: Option<Box<str>>,
}

fn keys() -> &'static (RandomState, RandomState) {
    static KEYS: OnceLock<(RandomState, RandomState)> = OnceLock::new();
    KEYS.get_or_init(|| (RandomState::new(), RandomState::new()))
}

impl ScopeKey {
    /// The scope of an endpoint, for example `https://api.example.com`, whatever the credential.
    #[must_use]
    pub fn new(endpoint: &str) -> Self {
        Self::assemble(endpoint, None, None)
    }

    /// The scope of one credential of the endpoint.
    #[must_use]
    pub fn credential(self, credential: &[u8]) -> Self {
        let (one, other) = keys();
        let hash = (one.hash_one(credential), other.hash_one(credential));
        Self::assemble(&self.0.endpoint, Some(hash), self.0.label.as_deref())
    }

    /// The scope of a model, a deployment or whatever else has limits of its own.
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        Self::assemble(&self.0.endpoint, self.0.credential, Some(label))
    }

    /// The same for one client alone.
    pub(crate) fn of_client(&self, client: u64) -> Self {
        let (one, other) = keys();
        let whose = (self.0.credential, client);
        let hash = (one.hash_one(whose), other.hash_one(whose));
        Self::assemble(&self.0.endpoint, Some(hash), self.0.label.as_deref())
    }

    fn assemble(endpoint: &str, credential: Option<(u64, u64)>, label: Option<&str>) -> Self {
        let hash = keys().0.hash_one((endpoint, credential, label));
        Self(Arc::new(Inner { hash, endpoint: endpoint.into(), credential, label: label.map(Into::into) }))
    }

    /// The endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.0.endpoint
    }

    /// The model, deployment or the like.
    #[must_use]
    pub fn label_str(&self) -> Option<&str> {
        self.0.label.as_deref()
    }
}

impl PartialEq for ScopeKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for ScopeKey {}

impl Hash for ScopeKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl fmt::Debug for ScopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeKey")
            .field("endpoint", &self.0.endpoint)
            .field("credential", &self.0.credential.map(|_| "set"))
            .field("label", &self.0.label)
            .finish()
    }
}

/// Takes the hash that a [`ScopeKey`] was made with: it is keyed already.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Prehashed(u64);

impl Hasher for Prehashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_endpoint_credential_and_label_apart_and_shows_no_credential() {
        let key = ScopeKey::new("https://api.example.com");
        let one = key.clone().credential(b"sk-secret-1").label("large");
        assert_eq!(one, key.clone().label("large").credential(b"sk-secret-1"));
        assert_ne!(one, key.clone().credential(b"sk-secret-2").label("large"));
        assert_ne!(one, key.clone().credential(b"sk-secret-1").label("small"));
        assert_ne!(one, key);
        assert!(!format!("{one:?}").contains("secret"));
    }
}
