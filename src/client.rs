//! [`AdmissionClient`]: owns the reqwest client's builder, and guards both ends of the stack.

use std::sync::Arc;

use reqwest_middleware::{ClientWithMiddleware, Middleware};

use crate::middleware::{AdmissionBuilder, BuildError, Settings, known_conflict};
use crate::ownership::{ConflictKind, RetryConflict};
use crate::policy::RetryOwnership;

/// Builds clients in which nothing but the admission layer retries.
///
/// It switches reqwest's own retries off, puts the admission layer outermost and a guard innermost, and takes other
/// middlewares between them. A middleware whose type is known to retry is refused; one that retries
/// unrecognised is stopped at run time, before a second copy of an attempt reaches the wire. The page
/// [Who retries?](crate::who_retries) says what is detected, prevented and invisible, measured.
///
/// Add no layers to the built client: `reqwest_middleware::ClientBuilder::from_client` puts them inside of the guard, which
/// then does not see what they do. Request initialisers (`with_init`) may be added. With reqwest's own retries off,
/// HTTP/2 requests that the server says it never looked at are repeated by the admission layer, and only if a
/// repeat is harmless.
///
/// A gate that several of these clients are given keeps their scopes apart, since no layer can see the credentials in a
/// client's [default headers](reqwest::ClientBuilder::default_headers): only the first has the scopes that endpoint,
/// credential and label name. To share scopes, name them with [`scope_by`](AdmissionBuilder::scope_by), or share the
/// client, whose clones are cheap.
///
/// ```
/// use std::time::Duration;
/// use reqwest_admission::AdmissionClient;
/// use reqwest_admission::gate::Gate;
/// use reqwest_admission::pace::Limits;
///
/// let gate = Gate::builder().limits(Limits::new().requests_per_minute(500)).build()?;
/// let client = AdmissionClient::builder(reqwest::Client::builder())
///     .latency_budget(Duration::from_secs(10))
///     .gate(gate)
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
    pub fn builder(client: reqwest::ClientBuilder) -> AdmissionClientBuilder {
        let stack = ClientStack { client, layers: Vec::new(), conflicts: Vec::new() };
        AdmissionBuilder { settings: Settings::default(), stack }
    }

    /// A builder of a client for a test against a server on loopback, such as wiremock's: no proxy, whatever the environment
    /// says, and no jitter, so that a wait is exactly as long as advised.
    ///
    /// Build one in each test. Its gate is its own, unless [`gate`](AdmissionBuilder::gate) sets one that several tests
    /// share: wiremock gives the port of a finished test to a later one, and a scope is known by its host and port, so the
    /// cool-downs of one test would hold in another.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use reqwest_admission::{AdmissionClient, SpillOver};
    /// use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};
    ///
    /// let server = MockServer::start().await;
    /// let refusal = ResponseTemplate::new(429).insert_header("retry-after", "3600");
    /// Mock::given(any()).respond_with(refusal).mount(&server).await;
    ///
    /// let client = AdmissionClient::for_tests().build()?;
    /// let outcome = client.get(server.uri()).send().await;
    /// assert_eq!(SpillOver::of(&outcome).unwrap().advised_wait().unwrap().as_secs(), 3600);
    /// # Ok(()) }
    /// ```
    pub fn for_tests() -> AdmissionClientBuilder {
        Self::builder(reqwest::Client::builder().no_proxy()).draws(|| 0.0)
    }
}

/// Builds a `ClientWithMiddleware` that [`AdmissionClient`] owns, with all the settings of [`AdmissionBuilder`].
pub type AdmissionClientBuilder = AdmissionBuilder<ClientStack>;

/// What an [`AdmissionClientBuilder`] builds around the admission layer: reqwest's client and the other middlewares.
pub struct ClientStack {
    client: reqwest::ClientBuilder,
    layers: Vec<Arc<dyn Middleware>>,
    conflicts: Vec<RetryConflict>,
}

impl AdmissionBuilder<ClientStack> {
    /// Takes over all settings of `admission`, for code that sets up a layer in one place and clients in others.
    pub fn admission(mut self, admission: AdmissionBuilder) -> Self {
        self.settings.merge(admission.settings);
        self
    }

    /// Adds a middleware inside of the admission layer; the first is the outermost of them.
    pub fn with<M: Middleware>(mut self, middleware: M) -> Self {
        self.stack.conflicts.extend(known_conflict::<M>());
        self.with_arc(Arc::new(middleware))
    }

    /// Adds a shared middleware. Its type is not known, so if it retries, that shows only at run time.
    pub fn with_arc(mut self, middleware: Arc<dyn Middleware>) -> Self {
        self.stack.layers.push(middleware);
        self
    }

    /// Checks the settings and builds the client.
    ///
    /// # Errors
    ///
    /// [`ClientBuildError::RetryConflict`] if a middleware is known to retry (under
    /// [`RetryOwnership::Report`] that is only an event), [`ClientBuildError::Admission`] if a setting is out of its
    /// range or set twice, [`ClientBuildError::Client`] if reqwest refuses its own.
    pub fn build(self) -> Result<ClientWithMiddleware, ClientBuildError> {
        let Self { settings, stack: ClientStack { client, layers, conflicts } } = self;
        let guard = settings.guard();
        for conflict in conflicts {
            crate::observe::conflict(&conflict, guard.observer.as_ref());
            if guard.ownership == RetryOwnership::Enforce {
                return Err(conflict.into());
            }
        }
        let admission = settings.build(true)?;
        let client = client.retry(reqwest::retry::never()).build()?;
        let mut stack = reqwest_middleware::ClientBuilder::new(client).with(admission);
        for layer in layers {
            stack = stack.with_arc(layer);
        }
        Ok(stack.with(guard).build())
    }
}

impl std::fmt::Debug for ClientStack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientStack").field("layers", &self.layers.len()).finish_non_exhaustive()
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
    /// The kind of conflict, if it is one.
    #[must_use]
    pub const fn conflict_kind(&self) -> Option<ConflictKind> {
        match self {
            Self::RetryConflict(conflict) => Some(conflict.kind()),
            Self::Admission(_) | Self::Client(_) => None,
        }
    }
}
