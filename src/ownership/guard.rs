//! The guard at the inner end of a stack: it lets an attempt through once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use http::{Extensions, StatusCode};
use reqwest::{Body, Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};

use super::{CallMark, ConflictKind, RetryConflict, Run};
use crate::error_chain;
use crate::observe::{self, CallReport, Observer};
use crate::policy::RetryOwnership;

/// What the guard has seen of the newest attempt of a call.
#[derive(Debug, Default)]
pub(super) struct Passage {
    /// The number of the attempt, and in the last two bits how far it has come.
    stage: AtomicU64,
    /// A repeat was not let through.
    stopped: AtomicBool,
}

/// The guard has not seen it yet.
const FRESH: u64 = 0;
/// On its way, failed, refused or dropped: whoever sends it again retries.
const SENT: u64 = 1;
/// Answered, and not by a refusal or failure: a layer that refreshes credentials or revalidates a cache may go on.
const ANSWERED: u64 = 2;

/// One attempt, as the guard is to know it: in the extensions, where each attempt has its own, and with the owner.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    call: CallReport,
    number: u64,
}

impl Run {
    /// Has the guard expect one more attempt.
    pub(crate) fn guarded_attempt(&self, extensions: &mut Extensions) -> Attempt {
        let passage = &self.call.cell().passage;
        let number = (passage.stage.load(Ordering::Acquire) >> 2).wrapping_add(1);
        let attempt = Attempt { call: self.call.clone(), number };
        passage.stopped.store(false, Ordering::Relaxed);
        passage.stage.store(attempt.at(FRESH), Ordering::Release);
        let mark = extensions.get_or_insert_with(|| CallMark::of(self.call.clone()));
        mark.attempt = Some(attempt.clone());
        attempt
    }
}

impl Attempt {
    const fn at(&self, stage: u64) -> u64 {
        (self.number << 2) | stage
    }

    fn passage(&self) -> &Passage {
        &self.call.cell().passage
    }

    /// Moves the attempt on, where it is the newest and is there.
    fn moves(&self, from: u64, to: u64) -> bool {
        let stage = &self.passage().stage;
        stage.compare_exchange(self.at(from), self.at(to), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether the guard has seen the attempt.
    pub(crate) fn has_arrived(&self) -> bool {
        self.passage().stage.load(Ordering::Acquire) != self.at(FRESH)
    }

    /// Adds the conflict to an error that a layer made of it, so that the caller finds it.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let hidden = self.passage().stopped.load(Ordering::Acquire)
            && error_chain::in_middleware_error::<RetryConflict>(&error).is_none();
        if !hidden {
            return error;
        }
        error_chain::attach(error, RetryConflict::new(ConflictKind::RepeatedAttempt))
    }
}

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
        if !attempt.moves(FRESH, SENT) && !attempt.moves(ANSWERED, SENT) {
            let conflict = RetryConflict::new(ConflictKind::RepeatedAttempt);
            observe::conflict(&conflict, self.observer.as_ref());
            extensions.get::<CallReport>().unwrap_or(&attempt.call).conflicted(conflict.clone());
            if self.ownership == RetryOwnership::Enforce {
                attempt.passage().stopped.store(true, Ordering::Release);
                return Err(error_chain::raise(conflict));
            }
        }
        if self.seals && self.ownership == RetryOwnership::Enforce {
            let body = request.body_mut().take().unwrap_or_default();
            *request.body_mut() = Some(Body::wrap(body));
        }
        let outcome = next.run(request, extensions).await;
        if outcome.as_ref().is_ok_and(|response| !invites_retry(response.status())) {
            attempt.moves(SENT, ANSWERED);
        }
        outcome
    }
}

/// Whether retrying layers take a response of this status for one to send again after.
pub(crate) fn invites_retry(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429)
}
