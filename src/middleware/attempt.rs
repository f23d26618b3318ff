//! One attempt: how it is sent and kept from being sent twice, and what came of it.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Instant;

use http::{Extensions, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientWithMiddleware, Next, Result};

use super::call::LogicalCall;
use super::entry;
use super::kept::Kept;
use super::legs::Turn;
use super::sent::Sent;
use crate::decision::Reason;
use crate::gate::{Permit, Refusal};
use crate::ownership::{Attempt, RetryConflict, Seal, seal};
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
            Err(_) if self.takes_all_time(Some(request)) => return ControlFlow::Continue(None),
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
        self.count_attempt();
        if let Some(client) = self.own_client() {
            let (attempt, armed) = self.send_with(client, going);
            return ControlFlow::Continue(Some(OnItsWay { attempt, permit, armed, kept }));
        }
        let armed = self.arm(&mut going, extensions);
        let attempt = next.clone().run(going, extensions);
        ControlFlow::Continue(Some(OnItsWay { attempt, permit, armed, kept }))
    }

    /// Sends the request with a target's own client, at whose inner end a guard stands. Its layers see no extensions of the
    /// caller's, which may hold what is meant for the primary.
    fn send_with<'n>(
        &self,
        client: ClientWithMiddleware,
        mut request: Request,
    ) -> (Pin<Box<dyn Future<Output = Result<Response>> + Send + 'n>>, Armed) {
        let mut extensions = Extensions::new();
        self.report.leave_in(&mut extensions);
        let attempt = self.run.guarded_attempt(&mut extensions);
        let armed = if self.shared.guarded { Armed::Guarded(attempt) } else { self.sealed(&mut request) };
        (Box::pin(async move { client.execute_with_extensions(request, &mut extensions).await }), armed)
    }

    fn count_attempt(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
        self.run.attempt_started();
        self.report.sent();
    }

    /// Makes the request of an attempt one that is sent only once.
    fn arm(&self, request: &mut Request, extensions: &mut Extensions) -> Armed {
        if self.shared.guarded {
            Armed::Guarded(self.run.guarded_attempt(extensions))
        } else {
            self.sealed(request)
        }
    }

    fn sealed(&self, request: &mut Request) -> Armed {
        match self.shared.policy.retry_ownership() {
            RetryOwnership::Enforce => Armed::Sealed(seal(request, &self.run)),
            _ => Armed::Not,
        }
    }

    /// Takes in what came of an attempt: breaks with a success, goes on with what is to be judged.
    #[inline]
    pub(super) fn came_back(
        &self,
        outcome: Option<Result<Response>>,
        armed: Armed,
    ) -> ControlFlow<Response, Sent> {
        let error = match outcome {
            None => return ControlFlow::Continue(Sent::CutOff),
            Some(Ok(response)) if !is_error(response.status()) => return ControlFlow::Break(response),
            Some(Ok(response)) => {
                self.note_proxy(proxy_attempts(response.headers()));
                return ControlFlow::Continue(Sent::Unread(response));
            }
            Some(Err(error)) => error,
        };
        ControlFlow::Continue(Sent::Failed(match armed {
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
