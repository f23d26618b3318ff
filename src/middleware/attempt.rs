//! One attempt: how it is sent and kept from being sent twice, and what came of it.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Instant;

use http::{Extensions, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};

use super::call::LogicalCall;
use super::entry;
use super::kept::Kept;
use super::legs::Turn;
use super::sent::Sent;
use crate::decision::Reason;
use crate::gate::{Permit, Refusal};
use crate::ownership::{Attempt, RetryConflict, Seal, invites_retry, seal};
use crate::policy::RetryOwnership;
use crate::reading::proxy_attempts;

/// An attempt that is on its way.
pub(super) struct OnItsWay<'n> {
    pub(super) attempt: Pin<Box<dyn Future<Output = Result<Response>> + Send + 'n>>,
    pub(super) permit: Option<Permit>,
    pub(super) armed: Armed,
    /// What the request in its place lacks, where a copy was sent.
    pub(super) kept: Option<Kept>,
}

/// How an attempt is kept from being sent twice.
pub(super) enum Armed {
    /// The guard at the inner end sees to it.
    Guarded(Attempt),
    Sealed(Seal),
    Not,
}

impl Armed {
    /// Whether a layer inside sent a request of its own in place of the attempt's, perhaps more than once: a response came
    /// over a connection, and the attempt's request never came to the inner end.
    fn was_replaced(&self, response: &Response) -> bool {
        let arrived = match self {
            Self::Guarded(attempt) => attempt.has_arrived(),
            Self::Sealed(seal) => seal.has_arrived(),
            Self::Not => true,
        };
        // Caches and stand-ins for a server answer by themselves, over no connection.
        !arrived && response.remote_addr().is_some()
    }
}

impl LogicalCall<'_> {
    /// Sends the request, where the gate lets it go; otherwise the call goes on with another deployment or ends.
    #[inline]
    pub(super) fn set_out<'n>(
        &mut self,
        granted: std::result::Result<Option<Permit>, Refusal>,
        request: &mut Request,
        now: Instant,
        extensions: &'n mut Extensions,
        next: &Next<'n>,
    ) -> ControlFlow<Result<Response>, Option<OnItsWay<'n>>> {
        let mut permit = match granted {
            Ok(permit) => permit,
            Err(refusal) => {
                let (reason, turn) = (entry::reason(&refusal), Turn::Refused(&refusal));
                return self.leave_unsent(reason, turn, request, extensions).map_continue(|()| None);
            }
        };
        // A copy goes out. What the caller gave is kept, for another deployment or a ticket even after the last attempt;
        // each deployment gets its own form of it.
        let (mut going, kept) = Kept::split(request);
        if !self.rewrite(&mut going) {
            *request = kept.and_then(|kept| kept.whole(request)).unwrap_or(going);
            drop(permit);
            let (reason, turn) = (Reason::NotForTarget, Turn::Unasked);
            return self.leave_unsent(reason, turn, request, extensions).map_continue(|()| None);
        }
        if let Some(permit) = &mut permit {
            permit.sent(now);
        }
        let armed = self.arm(&mut going, extensions);
        let attempt = next.clone().run(going, extensions);
        ControlFlow::Continue(Some(OnItsWay { attempt, permit, armed, kept }))
    }

    /// Counts an attempt and makes its request one that is sent only once.
    fn arm(&mut self, request: &mut Request, extensions: &mut Extensions) -> Armed {
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

    /// Takes in what came of an attempt: breaks with a success, goes on with what is to be judged; `refused` if the body of
    /// a success says that it is none.
    #[inline]
    pub(super) fn came_back(
        &mut self,
        outcome: Option<Result<Response>>,
        refused: bool,
        armed: Armed,
    ) -> ControlFlow<Response, Sent> {
        if matches!(outcome, Some(Ok(_))) && !self.shared.any_arrived.load(Ordering::Relaxed) {
            self.shared.any_arrived.store(true, Ordering::Relaxed);
        }
        let error = match outcome {
            None => return ControlFlow::Continue(Sent::CutOff),
            Some(Ok(response)) if !refused && !is_error(response.status()) => {
                return ControlFlow::Break(response);
            }
            Some(Ok(response)) => {
                self.note_proxy(proxy_attempts(response.headers()));
                if invites_retry(response.status()) && armed.was_replaced(&response) {
                    self.shared.conflict(RetryConflict::replaced_request(), &self.report);
                    self.replaced = self.shared.policy.retry_ownership() == RetryOwnership::Enforce;
                }
                return ControlFlow::Continue(Sent::Unread(response));
            }
            Some(Err(error)) => error,
        };
        ControlFlow::Continue(Sent::Failed(match armed {
            Armed::Guarded(attempt) => attempt.explain(error),
            Armed::Sealed(sealed) => {
                let any_arrived = self.shared.any_arrived.load(Ordering::Relaxed);
                let (error, conflict) = sealed.explain(error, any_arrived);
                if let Some(conflict) = conflict {
                    self.shared.conflict(conflict, &self.report);
                }
                error
            }
            Armed::Not => error,
        }))
    }

    pub(super) fn note_proxy(&self, attempts: Option<NonZeroU32>) {
        if let Some(conflict) = attempts.and_then(RetryConflict::by_proxy) {
            self.shared.conflict(conflict, &self.report);
        }
    }
}

/// Whether a response of this status may be a refusal or a failure.
fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}
