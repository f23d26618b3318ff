//! [`AdmissionClient`]: owns the reqwest client's builder, and guards both ends of the stack.

use std::fmt;
use std::sync::Arc;

use reqwest_middleware::{ClientWithMiddleware, Middleware};

use crate::middleware::{AdmissionBuilder, BuildError, known_conflict};
use crate::ownership::{ConflictKind, RetryConflict};
use crate::policy::{AdmissionPolicy, RetryOwnership};

/// Builds clients in which nothing but the admission layer retries.
///
/// It switches reqwest's own retries off, puts the admission layer outermost and a guard innermost, and takes other
/// middlewares between them. A middleware whose type is known to retry is refused; one that retries
/// unrecognised is stopped at run time, before a second copy of an attempt reaches the wire. The page
/// [Who retries?](crate::who_retries) has what is detected, prevented and invisible, measured.
///
/// Add no layers to the built client: `reqwest_middleware::ClientBuilder::from_client` puts them inside of the guard, which
/// then does not see what they do. Request initialisers (`with_init`) may be added so. With reqwest's own retries off,
/// HTTP/2 requests that the server says it never looked at are repeated by the admission layer, and only where a
/// repeat is harmless.
///
/// A gate that several of these clients are given keeps their scopes apart, since no layer can see the credentials in a
/// client's [default headers](reqwest::ClientBuilder::default_headers): only the first has the scopes that endpoint,
/// credential and label name. To share scopes, name them with [`scope_by`](AdmissionBuilder::scope_by), or share the
/// client, whose clones are cheap.
///
/// ```
/// use std::time::Duration;
/// use reqwest_admission::{AdmissionClient, AdmissionPolicy};
///
/// let client = AdmissionClient::builder(reqwest::Client::builder())
///     .policy(AdmissionPolicy::builder().latency_budget(Duration::from_secs(10)).build()?)
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct AdmissionClient;

impl AdmissionClient {
    /// A builder of a client around the settings in `client`, for example timeouts and proxies.
    ///
    /// A retry policy set on it is replaced by none.
    #[must_use]
    pub fn builder(client: reqwest::ClientBuilder) -> AdmissionClientBuilder {
        AdmissionClientBuilder {
            client,
            admission: crate::Admission::builder(),
            layers: Vec::new(),
            conflicts: Vec::new(),
        }
    }
}

/// Builds a [`ClientWithMiddleware`] that [`AdmissionClient`] owns.
pub struct AdmissionClientBuilder {
    client: reqwest::ClientBuilder,
    admission: AdmissionBuilder,
    layers: Vec<Arc<dyn Middleware>>,
    conflicts: Vec<RetryConflict>,
}

impl AdmissionClientBuilder {
    /// Sets the policy.
    #[must_use]
    pub fn policy(mut self, policy: AdmissionPolicy) -> Self {
        self.admission = self.admission.policy(policy);
        self
    }

    /// Sets up the whole admission layer: policy, observer, profile, random draws. Replaces an earlier
    /// [`policy`](Self::policy).
    #[must_use]
    pub fn admission(mut self, admission: AdmissionBuilder) -> Self {
        self.admission = admission;
        self
    }

    /// Adds a middleware inside of the admission layer; the first is the outermost of them.
    #[must_use]
    pub fn with<M: Middleware>(mut self, middleware: M) -> Self {
        self.conflicts.extend(known_conflict::<M>());
        self.with_arc(Arc::new(middleware))
    }

    /// Adds a shared middleware, of which the type is not known: if it retries, that shows only at run time.
    #[must_use]
    pub fn with_arc(mut self, middleware: Arc<dyn Middleware>) -> Self {
        self.layers.push(middleware);
        self
    }

    /// Builds the client.
    ///
    /// # Errors
    ///
    /// [`ClientBuildError::RetryConflict`] where a middleware is known to retry (under
    /// [`RetryOwnership::Report`] that is only an event), [`ClientBuildError::Admission`] where a setting is out of its
    /// range, [`ClientBuildError::Client`] where reqwest refuses its own.
    pub fn build(self) -> Result<ClientWithMiddleware, ClientBuildError> {
        let guard = self.admission.guard();
        for conflict in self.conflicts {
            crate::observe::conflict(&conflict, guard.observer.as_ref());
            if guard.ownership == RetryOwnership::Enforce {
                return Err(conflict.into());
            }
        }
        let admission = self.admission.guarded().build()?;
        let client = self.client.retry(reqwest::retry::never()).build()?;
        let mut stack = reqwest_middleware::ClientBuilder::new(client).with(admission);
        for layer in self.layers {
            stack = stack.with_arc(layer);
        }
        Ok(stack.with(guard).build())
    }
}

impl fmt::Debug for AdmissionClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionClientBuilder")
            .field("admission", &self.admission)
            .field("layers", &self.layers.len())
            .finish_non_exhaustive()
    }
}

/// Why a client cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientBuildError {
    /// A middleware of the stack retries by itself.
    #[error(transparent)]
    RetryConflict(#[from] RetryConflict),
    /// A setting of the admission layer is not valid.
    #[error(transparent)]
    Admission(#[from] BuildError),
    /// reqwest cannot build its client.
    #[error("reqwest cannot build its client: {0}")]
    Client(#[from] reqwest::Error),
}

impl ClientBuildError {
    /// The kind of conflict, where it is one.
    #[must_use]
    pub const fn conflict_kind(&self) -> Option<ConflictKind> {
        match self {
            Self::RetryConflict(conflict) => Some(conflict.kind()),
            Self::Admission(_) | Self::Client(_) => None,
        }
    }
}
