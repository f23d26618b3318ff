//! The guard at the inner end of a stack: it lets an attempt through once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use async_trait::async_trait;
use http::{Extensions, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};

use super::{ConflictKind, RetryConflict};
use crate::observe::{self, CallReport, Observer};
use crate::policy::RetryOwnership;

/// What the guard has seen of one attempt. The owner puts a fresh one into the extensions for each attempt.
#[derive(Debug, Clone)]
pub(crate) struct AttemptMark {
    seen: Arc<Seen>,
    report: CallReport,
}

#[derive(Debug, Default)]
struct Seen {
    state: AtomicU8,
    /// A repeat was not let through.
    stopped: AtomicBool,
}

impl AttemptMark {
    pub(crate) fn new(report: &CallReport) -> Self {
        Self { seen: Arc::default(), report: report.clone() }
    }

    /// Adds the conflict to an error that a layer made of it, so that the caller finds it.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let hidden = self.seen.stopped.load(Ordering::Acquire)
            && crate::error_chain::in_middleware_error::<RetryConflict>(&error).is_none();
        match error {
            Error::Middleware(error) if hidden => {
                Error::Middleware(error.context(RetryConflict::new(ConflictKind::RepeatedAttempt)))
            }
            other => other,
        }
    }
}

/// On its way, failed, refused or dropped: whoever sends it again retries.
const SENT: u8 = 1;
/// Answered, and not by a refusal or failure: a layer that refreshes credentials or revalidates a cache may go on.
const ANSWERED: u8 = 2;

/// The innermost layer of a stack that is built by [`AdmissionClient`](crate::AdmissionClient).
pub(crate) struct Guard {
    pub(crate) ownership: RetryOwnership,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

#[async_trait]
impl Middleware for Guard {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let Some(mark) = extensions.get::<AttemptMark>().cloned() else {
            return next.run(request, extensions).await;
        };
        if mark.seen.state.swap(SENT, Ordering::AcqRel) == SENT {
            let conflict = RetryConflict::new(ConflictKind::RepeatedAttempt);
            observe::conflict(&conflict, self.observer.as_ref());
            mark.report.conflicted(conflict.clone());
            if self.ownership == RetryOwnership::Enforce {
                mark.seen.stopped.store(true, Ordering::Release);
                return Err(Error::middleware(conflict));
            }
        }
        let outcome = next.run(request, extensions).await;
        if outcome.as_ref().is_ok_and(|response| !invites_retry(response.status())) {
            mark.seen.state.store(ANSWERED, Ordering::Release);
        }
        outcome
    }
}

/// Whether retrying layers take a response of this status for one to send again after.
pub(crate) fn invites_retry(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429)
}
