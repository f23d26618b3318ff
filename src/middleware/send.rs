//! The second verb of a call: it sends the request, once, and sees how that ends.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{ClientWithMiddleware, Error, Next, Result};

use super::call::LogicalCall;
use super::outcome::AttemptOutcome;
use super::replay::Failed;
use crate::clock;
use crate::gate::Permit;
use crate::ownership::{Attempt, RetryConflict, explain_copy, invites_retry, seal};
use crate::policy::RetryOwnership;
use crate::reading::proxy_attempts;

/// How an attempt is kept from being sent twice.
struct Armed {
    attempt: Attempt,
    by: Protection,
}

#[derive(PartialEq, Eq)]
enum Protection {
    /// The guard at the inner end sees to it.
    Guard,
    Seal,
    Nothing,
}

impl Armed {
    /// Whether a layer inside sent a request of its own in place of the attempt's, perhaps more than once: a response came
    /// over a connection, and the attempt's request never came to the inner end.
    fn was_replaced(&self, response: &Response) -> bool {
        // Caches and stand-ins for a server answer by themselves, over no connection.
        self.by != Protection::Nothing && !self.attempt.has_arrived() && response.remote_addr().is_some()
    }
}

impl LogicalCall<'_> {
    /// Sends the request, once, and waits for the head of the response. Anything but a success has to be decided about.
    pub(super) async fn send(
        &mut self,
        mut request: Box<Request>,
        permit: Option<&mut Permit>,
        extensions: &mut Extensions,
        next: &Next<'_>,
    ) -> std::result::Result<Response, AttemptOutcome> {
        let now = clock::now();
        if let (Some(permit), Some(entry)) = (permit, &mut self.entry) {
            entry.sent(permit, now);
        }
        let end = self.attempt_ends(now);
        let attempt = self.count_attempt();
        let armed = self.arm(attempt, &mut request);
        let attempt = match self.own_client() {
            Some(client) => self.send_with(client, *request, &armed.attempt),
            None => {
                if armed.by == Protection::Guard {
                    armed.attempt.expect_in(extensions);
                }
                next.clone().run(*request, extensions)
            }
        };
        let head = match end {
            Some(deadline) => clock::until(deadline, attempt).await,
            None => Some(attempt.await),
        };
        let response = match head {
            None => return Err(AttemptOutcome::CutOff),
            Some(Err(error)) => {
                let error = self.explain(error, &armed);
                return Err(AttemptOutcome::Failed(Failed::new(error, &mut self.asked_again)));
            }
            Some(Ok(response)) => response,
        };
        self.any_arrived().store(true, Ordering::Relaxed);
        let (response, refused) = match response {
            response if self.may_refuse_inside() && response.status().is_success() => {
                Box::pin(self.look_inside(response)).await
            }
            response => (response, false),
        };
        let status = response.status();
        if !refused && !status.is_client_error() && !status.is_server_error() {
            return Ok(response);
        }
        self.detect_proxy(proxy_attempts(response.headers()));
        if invites_retry(status) && armed.was_replaced(&response) {
            self.shared.conflict(RetryConflict::replaced_request(), &self.report);
            self.replaced = self.shared.policy.retry_ownership() == RetryOwnership::Enforce;
        }
        Err(AttemptOutcome::Unread(response))
    }

    /// Sends the request with a target's own client, at whose inner end a guard stands. Its layers see no extensions of the
    /// caller's, which may hold what is meant for the primary.
    fn send_with<'n>(
        &self,
        client: ClientWithMiddleware,
        request: Request,
        attempt: &Attempt,
    ) -> Pin<Box<dyn Future<Output = Result<Response>> + Send + 'n>> {
        let mut extensions = Extensions::new();
        self.report.put_in(&mut extensions);
        attempt.expect_in(&mut extensions);
        Box::pin(async move { client.execute_with_extensions(request, &mut extensions).await })
    }

    /// Whether a sealed request has ever come through the layers that the call goes through now.
    fn any_arrived(&self) -> &AtomicBool {
        let own = self.target().filter(|target| target.client.is_some());
        own.map_or(&self.shared.any_arrived, |target| &target.any_arrived)
    }

    fn count_attempt(&mut self) -> Attempt {
        self.attempts = self.attempts.saturating_add(1);
        self.charged = None;
        self.report.sent();
        self.run.attempt_started()
    }

    /// Makes the request of an attempt one that is sent only once.
    fn arm(&self, attempt: Attempt, request: &mut Request) -> Armed {
        let by = match self.shared.policy.retry_ownership() {
            _ if self.shared.guarded => Protection::Guard,
            RetryOwnership::Enforce => Protection::Seal,
            _ => Protection::Nothing,
        };
        if by == Protection::Seal {
            seal(request, attempt.clone());
        }
        Armed { attempt, by }
    }

    /// Adds the conflict to an error that another layer made of it.
    fn explain(&self, error: Error, armed: &Armed) -> Error {
        match armed.by {
            Protection::Guard => armed.attempt.explain_repeat(error),
            Protection::Seal => {
                let any_arrived = self.any_arrived().load(Ordering::Relaxed);
                let (error, conflict) = explain_copy(error, &armed.attempt, any_arrived);
                if let Some(conflict) = conflict {
                    self.shared.conflict(conflict, &self.report);
                }
                error
            }
            Protection::Nothing => error,
        }
    }

    pub(super) fn detect_proxy(&self, attempts: Option<NonZeroU32>) {
        if let Some(conflict) = attempts.and_then(RetryConflict::by_proxy) {
            self.shared.conflict(conflict, &self.report);
        }
    }
}
