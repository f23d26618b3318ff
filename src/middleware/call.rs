//! One logical call over all its attempts: acquire, send, read, decide, then wait, deliver or spill over.

use std::time::{Duration, Instant};

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};
use tracing::Span;

use super::acquire::Waiting;
use super::entry::{self, Entry};
use super::legs::{Legs, Turn};
use super::replay::Failed;
use super::sent::{AttemptOutcome, Earlier, Sent, Tried};
use super::{Shared, replay};
use crate::budget::LatencyBudget;
use crate::clock;
use crate::decision::{Call, Decision, Outcome, Reason, decide};
use crate::gate::Place;
use crate::jitter::Draw;
use crate::observe::{self, CallReport};
use crate::ownership::{Entered, Probe, RetryConflict, Run};
use crate::policy::{AttemptTimeout, RetryOwnership};
use crate::reading::Hint;

/// One call of the caller's, over all its attempts.
pub(super) struct LogicalCall<'a> {
    pub(super) shared: &'a Shared,
    pub(super) report: CallReport,
    pub(super) run: Run,
    pub(super) entry: Option<Entry<'a>>,
    /// The way over other deployments, where there are any.
    pub(super) legs: Option<Box<Legs<'a>>>,
    /// What an observer knows the call by, where there is one.
    pub(super) seen_as: Option<Box<(u64, Box<str>)>>,
    /// Whether this is a start-up check, of which nobody is told.
    pub(super) is_probe: bool,
    /// The deadline where the call is now: of the leg, where there are others.
    pub(super) deadline: Instant,
    pub(super) cut_off: Option<Instant>,
    pub(super) idempotent: bool,
    /// Whether a layer inside sent a request of its own in place of an attempt's.
    pub(super) replaced: bool,
    /// Whether the method is HEAD, whose answers have no body.
    pub(super) is_head: bool,
    /// Whether an attempt ended in a way that leaves open whether the server has processed it.
    pub(super) unclear: bool,
    pub(super) attempts: u32,
    /// Those of earlier runs of the call, by a layer outside: they count on each deployment.
    pub(super) attempts_of_earlier_runs: u32,
    pub(super) waited: Duration,
    pub(super) waiting: Option<Waiting>,
    pub(super) earlier: Option<Box<Earlier>>,
    /// The error of an attempt that was to be repeated.
    pub(super) lost: Option<Failed>,
    /// When the re-send that the call waits for was charged to the retry budget.
    pub(super) charged: Option<Instant>,
    /// Whether a name that did not resolve has been asked again.
    pub(super) asked_again: bool,
    pub(super) span: Span,
}

impl<'a> LogicalCall<'a> {
    pub(super) fn begin(
        shared: &'a Shared,
        request: &mut Request,
        extensions: &mut Extensions,
    ) -> Result<Self> {
        let now = clock::now();
        let policy = &shared.policy;
        let probe = extensions.get::<Probe>();
        let is_probe = probe.is_some();
        let budget = match probe {
            Some(probe) => {
                probe.run(shared.guarded || policy.retry_ownership() == RetryOwnership::Enforce);
                // Whatever the refusal advises, the check wants to see only whether it is sent again.
                LatencyBudget::new(Duration::ZERO)
            }
            None => {
                shared.lock_retry_budget().deposit(now);
                extensions.get::<LatencyBudget>().copied().unwrap_or(policy.latency_budget())
            }
        };
        let announced = request.headers().get("x-stainless-retry-count").and_then(RetryConflict::announced);
        let entered = Run::enter(extensions, now, budget.deadline(now), policy.max_attempts());
        let Entered { run, report, deadline, attempts, conflict } = entered;
        shared.own(announced, conflict, &report, extensions)?;
        // A budget of zero says "never wait"; taken as a timeout it would say "never send".
        let clamped =
            policy.attempt_timeout() == AttemptTimeout::ClampToBudget && !budget.duration().is_zero();
        let idempotent = replay::is_idempotent(request, policy, &shared.chance);
        let legs = match &shared.routes {
            Some(routes) if !is_probe && routes.covers(request.url()) => {
                Some(Box::new(Legs::new(routes, now, deadline, budget.duration())))
            }
            _ => None,
        };
        Ok(Self {
            shared,
            run,
            entry: if is_probe { None } else { Entry::new(shared, request, extensions) },
            report,
            seen_as: shared
                .observer
                .is_some()
                .then(|| Box::new((shared.next_call(), request.url().host_str().unwrap_or_default().into()))),
            is_probe,
            deadline: legs.as_ref().map_or(deadline, |legs| legs.first_deadline()),
            legs,
            cut_off: clamped.then_some(deadline),
            idempotent,
            replaced: false,
            is_head: request.method() == http::Method::HEAD,
            unclear: false,
            attempts,
            attempts_of_earlier_runs: attempts,
            waited: Duration::ZERO,
            waiting: None,
            earlier: None,
            lost: None,
            charged: None,
            asked_again: false,
            span: observe::call_span(request),
        })
    }

    /// Runs the call to its end.
    pub(super) async fn run(
        &mut self,
        request: Box<Request>,
        extensions: &mut Extensions,
        next: &Next<'_>,
    ) -> Result<Response> {
        self.plan_time(&request);
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
        let mut permit = match self.acquire(place).await {
            Ok(permit) => permit,
            Err(_) if self.takes_all_time(Some(&request)) => return Step::Attempt { request, place: None },
            Err(refusal) => {
                let turn = Turn::Refused(&refusal);
                return self.leave_unsent(entry::reason(&refusal), turn, request, extensions);
            }
        };
        // For a repeat, another deployment or a ticket. Each deployment gets its own form of the request.
        let copy = request.try_clone().map(Box::new);
        if !self.rewrite(&mut request) {
            drop(permit);
            let request = copy.unwrap_or(request);
            return self.leave_unsent(Reason::NotForTarget, Turn::Unasked, request, extensions);
        }
        let sent = match self.send(request, permit.as_mut(), extensions, next).await {
            AttemptOutcome::Success(response) => {
                return Step::Return(Ok(self.deliver_success(response, permit)));
            }
            AttemptOutcome::Other(sent) => sent,
        };
        let mut tried = Box::pin(self.read(sent, permit, self.is_replayable(copy.is_some()))).await;
        let decision = self.decide(&tried, copy.as_deref(), extensions);
        Box::pin(self.tell_gate(&mut tried, &decision)).await;
        match (decision, copy) {
            (Decision::Wait { until, hint, .. }, Some(request)) => {
                let place = self.wait(tried, until, hint.as_ref()).await;
                Step::Attempt { request, place }
            }
            (Decision::SpillOver(reason), copy) => self.leave(reason, tried, copy, extensions),
            (Decision::Admit | Decision::Wait { .. }, _) => {
                Step::Return(self.deliver(tried.sent, tried.permit))
            }
        }
    }

    /// Waits out a refusal or a failure. With the place that comes back, the gate does the waiting.
    async fn wait(&mut self, tried: Box<Tried>, until: Instant, hint: Option<&Hint>) -> Option<Place> {
        let Tried { sent, place, permit, .. } = *tried;
        drop(permit);
        match sent {
            Sent::Failed(failed) => self.lost = Some(failed),
            sent => self.keep(sent, self.position(), true),
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
        turn: Turn<'_>,
        request: Box<Request>,
        extensions: &Extensions,
    ) -> Step {
        if let Some(charged) = self.charged.take() {
            self.shared.lock_retry_budget().give_back(charged, clock::now());
        }
        if self.onward(reason, turn, Some(&request), extensions) {
            return Step::Attempt { request, place: None };
        }
        let expected = if let Turn::Refused(refusal) = turn { Some(refusal.wait) } else { None };
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
            copy.as_deref().filter(|_| self.is_planned() || tried.sent.is_refusal() && !self.replaced);
        let goes_on = self.onward(reason, Turn::Sent(&tried.sent), movable, extensions);
        self.keep(tried.sent, position, goes_on);
        match copy {
            Some(request) if goes_on => Step::Attempt { request, place: None },
            copy => Step::Return(self.spill(reason, copy.map(|copy| *copy), None)),
        }
    }

    /// Whether the want of a copy is no obstacle to another attempt on this deployment.
    fn is_replayable(&self, has_copy: bool) -> bool {
        has_copy || self.leg_attempts() >= self.policy().max_attempts()
    }

    /// Decides about an attempt, and records it.
    fn decide(&mut self, tried: &Tried, copy: Option<&Request>, extensions: &Extensions) -> Decision {
        let mut decision = match self.fail_over(&tried.sent, copy, extensions, tried.at) {
            Some(reason) => Decision::SpillOver(reason),
            None => {
                self.takes_all_time(copy);
                let planned = self.planned(tried, copy.is_some(), true);
                self.reconsider(planned, &tried.sent, copy, extensions, tried.at)
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
        self.record(&tried.sent, &decision, tried.at);
        self.unclear |= tried.sent.is_unclear();
        decision
    }

    /// What the policy says of an attempt.
    fn planned(&self, tried: &Tried, has_copy: bool, may_charge: bool) -> Decision {
        let outcome = match &tried.sent {
            Sent::Unread(_) => return Decision::Admit,
            Sent::CutOff => return Decision::SpillOver(Reason::NoResponse),
            // A target that cannot be reached is not waited for.
            Sent::Failed(failed) if failed.is_unsent && self.target().is_some() => {
                return Decision::SpillOver(Reason::Unreachable);
            }
            Sent::Failed(failed) => Outcome::Failure(failed.failure),
            Sent::Read(read) => Outcome::Response(&read.1),
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

/// What comes next of a call.
enum Step {
    /// An attempt, with the right to return to the front of the queue if it is a repeat.
    Attempt {
        request: Box<Request>,
        place: Option<Place>,
    },
    Return(Result<Response>),
}
