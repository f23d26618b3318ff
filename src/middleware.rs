//! [`Admission`], the middleware: send, read, decide, then wait or return.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};
use tracing::Instrument as _;

use crate::ownership::{ConflictKind, RetryConflict};

mod acquire;
mod builder;
mod call;
mod entry;
mod finish;
mod legs;
mod next_target;
mod outcome;
mod quota;
mod read;
mod replay;
mod report;
mod retry_budget;
mod route;
mod run;
mod send;
mod shared;

use call::LogicalCall;
use shared::Shared;

pub(crate) use builder::Settings;
pub use builder::{AdmissionBuilder, BuildError};

/// Admits calls as the server's capacity allows: a middleware for reqwest-middleware.
///
/// It sends, reads what the response says about capacity, decides, and then waits on tokio's clock or returns. Put it
/// outermost, so that a wait covers all other layers; see the front page for the order with others.
///
/// Cloning is cheap, and clones share the retry budget.
///
/// # Cancel safety
///
/// Dropping the future of a call at any point ends it: nothing is sent after the drop and no task or timer is left.
///
/// # Panics
///
/// None of its own; tokio's timer must be running, which `#[tokio::main]` and `enable_all()` see to.
///
/// ```
/// use reqwest_admission::Admission;
///
/// let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
///     .with(Admission::default())
///     .build();
/// ```
#[derive(Debug, Clone)]
pub struct Admission(Arc<Shared>);

impl Admission {
    /// A builder for anything but the defaults.
    pub fn builder() -> AdmissionBuilder {
        AdmissionBuilder::default()
    }

    /// How many calls the service spilled over by itself so far (`x-ms-is-spilled-over: true`). Counted if there is a
    /// gate or an observer, since only then are responses read.
    #[must_use]
    pub fn native_spill_overs(&self) -> u64 {
        self.0.native_spill_overs.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Middleware for Admission {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut request = Box::new(request);
        let mut call = LogicalCall::begin(&self.0, &mut request, extensions)?;
        let span = call.span.clone();
        let outcome = call.run(request, extensions, &next).instrument(span).await;
        if outcome.is_err() {
            call.report.put_in(extensions);
        }
        outcome
    }
}

/// The crates whose layers retry, as they stand in the names of types.
///
/// Type names are not a stable contract; the guards at run time catch what this list misses.
const RETRYING_CRATES: [&str; 1] = ["reqwest_retry::"];

/// The conflict that a layer of type `M` is, if its type is known to retry.
pub(crate) fn known_conflict<M: 'static>() -> Option<RetryConflict> {
    let name = std::any::type_name::<M>();
    if std::any::TypeId::of::<M>() == std::any::TypeId::of::<Admission>() {
        return Some(RetryConflict::of_layer(ConflictKind::NestedAdmission, name));
    }
    // The type parameters of a wrapper name what it wraps, so the whole name is searched.
    let retries = RETRYING_CRATES.iter().any(|known| name.contains(known));
    retries.then(|| RetryConflict::of_layer(ConflictKind::KnownRetryLayer, name))
}
