//! The guard at the inner end of a stack: it lets an attempt through once.

use std::sync::Arc;

use async_trait::async_trait;
use http::{Extensions, StatusCode};
use reqwest::{Body, Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};

use super::conflict::{ConflictKind, RetryConflict};
use super::run::{Attempt, CallMark};
use crate::error_chain;
use crate::observe::{self, CallReport, Observer};
use crate::policy::RetryOwnership;

/// The innermost layer of a stack that is built by [`AdmissionClient`](crate::AdmissionClient), and of a target's client.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) ownership: RetryOwnership,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    /// Whether the client within may retry by itself, so that the request is sealed.
    pub(crate) seals: bool,
}

#[async_trait]
impl Middleware for Guard {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let Some(attempt) = extensions.get::<CallMark>().and_then(|mark| mark.attempt.clone()) else {
            return next.run(request, extensions).await;
        };
        if !attempt.arrives() {
            let conflict = RetryConflict::new(ConflictKind::RepeatedAttempt);
            observe::conflict(&conflict, self.observer.as_ref());
            extensions.get::<CallReport>().unwrap_or(&attempt.call).lock().conflicted(conflict.clone());
            if self.ownership == RetryOwnership::Enforce {
                attempt.call.state().lock().is_stopped = true;
                return Err(error_chain::raise(conflict));
            }
        }
        if self.seals && self.ownership == RetryOwnership::Enforce {
            let body = request.body_mut().take().unwrap_or_default();
            *request.body_mut() = Some(Body::wrap(body));
        }
        let outcome = next.run(request, extensions).await;
        if outcome.as_ref().is_ok_and(|response| !invites_retry(response.status())) {
            attempt.is_answered();
        }
        outcome
    }
}

impl Attempt {
    /// Adds the conflict to an error that a layer made of it, so that the caller finds it.
    pub(crate) fn explain_repeat(&self, error: Error) -> Error {
        let hidden = self.call.state().lock().is_stopped
            && error_chain::in_middleware_error::<RetryConflict>(&error).is_none();
        if !hidden {
            return error;
        }
        error_chain::attach(error, RetryConflict::new(ConflictKind::RepeatedAttempt))
    }
}

/// Whether retrying layers send again after a response of this status.
pub(crate) fn invites_retry(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429)
}
