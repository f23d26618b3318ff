//! The loop of a call, in its verbs: acquire, send, read, decide, then wait, deliver or spill over.

use std::time::Instant;

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};

use super::call::LogicalCall;
use super::entry;
use super::outcome::{AttemptOutcome, Tried};
use super::route::LegOutcome;
use crate::clock;
use crate::decision::{Call, Decision, Outcome, Reason, decide};
use crate::gate::Place;
use crate::jitter::Draw;
use crate::reading::Hint;

/// What comes next of a call.
enum Step {
    /// An attempt, with the right to return to the front of the queue if it is a repeat.
    Attempt {
        request: Box<Request>,
        place: Option<Place>,
    },
    Return(Result<Response>),
}

impl LogicalCall<'_> {
    /// Runs the call to its end.
    pub(super) async fn run(
        &mut self,
        request: Box<Request>,
        extensions: &mut Extensions,
        next: &Next<'_>,
    ) -> Result<Response> {
        self.choose_first(&request, extensions);
        let mut step = Step::Attempt { request, place: None };
        loop {
            step = match step {
                Step::Attempt { request, place } => self.attempt(request, place, extensions, next).await,
                Step::Return(outcome) => return outcome,
            };
        }
    }

    /// One attempt. Requests, and what a success does not need, are boxed, so that a call that waits holds little memory.
    async fn attempt(
        &mut self,
        mut request: Box<Request>,
        place: Option<Place>,
        extensions: &mut Extensions,
        next: &Next<'_>,
    ) -> Step {
        if !self.may_ask_account() {
            let reason = Reason::QuotaExhausted;
            return self.leave_unsent(reason, LegOutcome::Unasked, request, extensions);
        }
        let mut permit = match self.acquire(place).await {
            Ok(permit) => permit,
            Err(_) if self.takes_all_time(Some(&request)) => return Step::Attempt { request, place: None },
            Err(refusal) => {
                let outcome = LegOutcome::Rejected(&refusal);
                return self.leave_unsent(entry::reason(&refusal), outcome, request, extensions);
            }
        };
        // For a repeat, another deployment or a ticket. Each deployment gets its own form of the request.
        let copy = request.try_clone().map(Box::new);
        if !self.rewrite(&mut request) {
            drop(permit);
            let request = copy.unwrap_or(request);
            return self.leave_unsent(Reason::NotForTarget, LegOutcome::Unasked, request, extensions);
        }
        let outcome = match self.send(request, permit.as_mut(), extensions, next).await {
            Ok(success) => return Step::Return(Ok(self.deliver_success(success, permit))),
            Err(outcome) => outcome,
        };
        let mut tried = Box::pin(self.read(outcome, permit, self.is_replayable(copy.is_some()))).await;
        let decision = self.decide(&tried, copy.as_deref(), extensions);
        Box::pin(self.teach_gate(&mut tried, &decision)).await;
        match (decision, copy) {
            (Decision::Wait { until, hint, .. }, Some(request)) => {
                let place = self.wait(tried, until, hint.as_ref()).await;
                Step::Attempt { request, place }
            }
            (Decision::SpillOver(reason), copy) => self.leave(reason, tried, copy, extensions),
            (Decision::Admit | Decision::Wait { .. }, _) => {
                Step::Return(self.deliver(tried.outcome, tried.permit))
            }
        }
    }

    /// Waits out a refusal or a failure. With the place that comes back, the gate does the waiting.
    async fn wait(&mut self, tried: Box<Tried>, until: Instant, hint: Option<&Hint>) -> Option<Place> {
        let Tried { outcome, place, permit, .. } = *tried;
        drop(permit);
        match outcome {
            AttemptOutcome::Failed(failed) => self.lost = Some(failed),
            outcome => self.keep(outcome, self.position(), true),
        }
        // If the server named a moment, the gate keeps it for the whole scope.
        if place.is_none() || hint.is_none_or(|hint| hint.wait().is_zero()) {
            clock::sleep_until(until).await;
        }
        place
    }

    /// The deployment does not get the call: it goes on to the next, or back to the caller.
    fn leave_unsent(
        &mut self,
        reason: Reason,
        outcome: LegOutcome<'_>,
        request: Box<Request>,
        extensions: &Extensions,
    ) -> Step {
        if let Some(charged) = self.charged.take() {
            self.shared.lock_retry_budget().give_back(charged, clock::now());
        }
        if self.move_on(reason, outcome, Some(&request), extensions) {
            return Step::Attempt { request, place: None };
        }
        let expected = if let LegOutcome::Rejected(refusal) = outcome { Some(refusal.wait) } else { None };
        Step::Return(self.turned_away(reason, expected, *request))
    }

    /// The call leaves the deployment after an attempt: it goes on to the next if it may be repeated there, or is given up.
    fn leave(
        &mut self,
        reason: Reason,
        tried: Box<Tried>,
        copy: Option<Box<Request>>,
        extensions: &Extensions,
    ) -> Step {
        let position = self.position();
        let movable =
            copy.as_deref().filter(|_| self.is_planned() || tried.outcome.is_refusal() && !self.replaced);
        let goes_on = self.move_on(reason, LegOutcome::Attempt(&tried.outcome), movable, extensions);
        self.keep(tried.outcome, position, goes_on);
        match copy {
            Some(request) if goes_on => Step::Attempt { request, place: None },
            copy => Step::Return(self.spill(reason, copy.map(|copy| *copy), None)),
        }
    }

    /// Whether the lack of a copy does not prevent another attempt on this deployment.
    fn is_replayable(&self, has_copy: bool) -> bool {
        has_copy || self.leg_attempts() >= self.max_attempts()
    }

    /// The most attempts on the deployment where the call is.
    fn max_attempts(&self) -> u32 {
        let own = self.settings.as_ref().and_then(|settings| settings.max_attempts());
        own.unwrap_or(self.policy().max_attempts())
    }

    /// Decides about an attempt, and records it.
    fn decide(&mut self, tried: &Tried, copy: Option<&Request>, extensions: &Extensions) -> Decision {
        let mut decision = match self.fail_over(&tried.outcome, copy, extensions, tried.at) {
            Some(reason) => Decision::SpillOver(reason),
            None => {
                self.takes_all_time(copy);
                let planned = self.planned(tried, copy.is_some(), true);
                self.reconsider(planned, &tried.outcome, copy, extensions, tried.at)
            }
        };
        // Another call may have taken the last of the retry budget meanwhile.
        if let Decision::Wait { charged: true, .. } = decision {
            if self.shared.lock_retry_budget().withdraw(tried.at) {
                self.charged = Some(tried.at);
            } else {
                decision = self.planned(tried, copy.is_some(), false);
            }
        }
        self.learn_quota(&decision, tried.at);
        self.record(&tried.outcome, &decision, tried.at);
        self.unclear |= tried.outcome.is_unclear();
        decision
    }

    /// What the policy says of an attempt.
    fn planned(&self, tried: &Tried, has_copy: bool, may_charge: bool) -> Decision {
        let outcome = match &tried.outcome {
            AttemptOutcome::Unread(_) => return Decision::Admit,
            AttemptOutcome::CutOff => return Decision::SpillOver(Reason::NoResponse),
            // A target that cannot be reached is not waited for.
            AttemptOutcome::Failed(failed) if failed.is_unsent && self.target().is_some() => {
                return Decision::SpillOver(Reason::Unreachable);
            }
            AttemptOutcome::Failed(failed) => Outcome::Failure(failed.failure),
            AttemptOutcome::Read(read) => Outcome::Response(&read.1),
        };
        self.plan(outcome, tried.at, tried.draw, self.is_replayable(has_copy), may_charge)
    }

    /// What the policy says of an outcome that came at `at`.
    pub(super) fn plan(
        &self,
        outcome: Outcome<'_>,
        at: Instant,
        draw: Draw,
        replayable: bool,
        may_charge: bool,
    ) -> Decision {
        // If reading a refusal's body took what was left, a send now would be cut off at once.
        let deadline = if clock::now() < self.deadline { self.deadline } else { at };
        let call = Call::new(deadline)
            .attempts(self.leg_attempts())
            .max_attempts(self.max_attempts())
            .idempotent(self.idempotent)
            .replayable(replayable && !self.replaced)
            .retry_budget_open(may_charge && self.shared.lock_retry_budget().allows(at));
        match decide(self.policy(), outcome, &call, at, draw) {
            Decision::SpillOver(Reason::BodyNotReplayable) if self.replaced => {
                Decision::SpillOver(Reason::RetryConflict)
            }
            decision => decision,
        }
    }
}
