//! One attempt: how it is kept from being sent twice, and what came of it.

use http::{Extensions, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::Result;

use super::call::LogicalCall;
use super::sent::Sent;
use crate::ownership::{Attempt, RetryConflict, Seal, seal};
use crate::policy::RetryOwnership;

/// How an attempt is kept from being sent twice.
pub(super) enum Armed {
    /// The guard at the inner end sees to it.
    Guarded(Attempt),
    Sealed(Seal),
    Not,
}

impl LogicalCall<'_> {
    /// Counts an attempt and makes its request one that is sent only once.
    pub(super) fn arm(&mut self, request: &mut Request, extensions: &mut Extensions) -> Armed {
        self.attempts = self.attempts.saturating_add(1);
        self.run.attempt_started();
        self.report.sent();
        if self.shared.guarded {
            Armed::Guarded(self.run.guarded_attempt(extensions))
        } else if self.shared.policy.retry_ownership() == RetryOwnership::Enforce {
            Armed::Sealed(seal(request, &self.run))
        } else {
            Armed::Not
        }
    }

    /// Takes in what came of an attempt: a success, or what is to be judged.
    pub(super) fn came_back(
        &self,
        outcome: Option<Result<Response>>,
        armed: Armed,
    ) -> std::result::Result<Response, Sent> {
        let error = match outcome {
            None => return Err(Sent::CutOff),
            Some(Ok(response)) if !is_error(response.status()) => return Ok(response),
            Some(Ok(response)) => {
                self.note_proxy(&response);
                return Err(Sent::Unread(response));
            }
            Some(Err(error)) => error,
        };
        Err(Sent::Failed(match armed {
            Armed::Guarded(attempt) => attempt.explain(error),
            Armed::Sealed(sealed) => {
                let (error, conflict) = sealed.explain(error);
                if let Some(conflict) = conflict {
                    self.shared.conflict(conflict, &self.report);
                }
                error
            }
            Armed::Not => error,
        }))
    }

    pub(super) fn note_proxy(&self, response: &Response) {
        if let Some(conflict) = RetryConflict::by_proxy(response.headers()) {
            self.shared.conflict(conflict, &self.report);
        }
    }
}

/// Whether a response of this status may be a refusal or a failure.
fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}
