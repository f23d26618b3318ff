//! One logical call over all its attempts: acquire, send, read, decide, then wait, deliver or spill over.

use std::time::{Duration, Instant};

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Next, Result};
use tracing::Span;

use super::acquire::Waiting;
use super::entry::{self, Entry};
use super::legs::{Legs, Turn};
use super::replay::IDEMPOTENCY_KEY;
use super::sent::{AttemptOutcome, Earlier, Sent, Tried};
use super::{Shared, replay};
use crate::budget::LatencyBudget;
use crate::clock;
use crate::decision::{Call, Decision, Outcome, Reason, decide};
use crate::jitter::Draw;
use crate::observe::{self, CallReport};
use crate::ownership::{Entered, Probe, RetryConflict, Run, STAINLESS_RETRY_COUNT, find};
use crate::policy::{AttemptTimeout, RetryOwnership};

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
    idempotent: bool,
    /// Whether the method is HEAD, whose answers have no body.
    pub(super) is_head: bool,
    /// Whether an attempt ended in a way that leaves open whether the server has processed it.
    pub(super) unclear: bool,
    pub(super) attempts: u32,
    pub(super) waited: Duration,
    pub(super) waiting: Option<Waiting>,
    pub(super) earlier: Option<Box<Earlier>>,
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
            // Whatever the refusal advises, the check wants to see only whether it is sent again.
            Some(_) => LatencyBudget::new(Duration::ZERO),
            None => extensions.get::<LatencyBudget>().copied().unwrap_or(policy.latency_budget()),
        };
        match probe {
            Some(probe) => probe.run(shared.guarded || policy.retry_ownership() == RetryOwnership::Enforce),
            None => shared.lock_retry_budget().deposit(now),
        }
        let Entered { run, report, deadline, attempts, conflict } =
            Run::enter(extensions, now, budget.deadline(now), policy.max_attempts());
        let [repeats, key] = find(request.headers(), [&STAINLESS_RETRY_COUNT, &IDEMPOTENCY_KEY]);
        let has_key = key.is_some();
        if let Some(conflict) = repeats.and_then(RetryConflict::announced) {
            shared.conflict(conflict, &report);
        }
        if let Some(conflict) = conflict {
            shared.conflict(conflict.clone(), &report);
            if policy.retry_ownership() == RetryOwnership::Enforce {
                report.leave_in(extensions);
                return Err(Error::middleware(conflict));
            }
        }
        // A budget of zero says "never wait"; taken as a timeout it would say "never send".
        let clamped =
            policy.attempt_timeout() == AttemptTimeout::ClampToBudget && !budget.duration().is_zero();
        let idempotent = replay::is_idempotent(request, has_key, policy, &shared.chance);
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
            is_head: request.method() == http::Method::HEAD,
            unclear: false,
            attempts,
            waited: Duration::ZERO,
            waiting: None,
            earlier: None,
            asked_again: false,
            span: observe::call_span(request),
        })
    }

    /// Runs the call to its end.
    pub(super) async fn run(
        &mut self,
        mut request: Request,
        extensions: &mut Extensions,
        next: &Next<'_>,
    ) -> Result<Response> {
        let mut place = None;
        self.choose_first(&request, extensions);
        loop {
            let mut permit = match self.acquire(place.take()).await {
                Ok(permit) => permit,
                Err(refusal) => {
                    let (reason, turn) = (entry::reason(&refusal), Turn::Refused(&refusal));
                    if self.onward(reason, turn, Some(&request), extensions) {
                        continue;
                    }
                    return self.turned_away(reason, Some(refusal.wait), request);
                }
            };
            // For a repeat, another deployment or a ticket. Each deployment gets its own form of the request.
            let copy = request.try_clone();
            if !self.rewrite(&mut request) {
                drop(permit);
                request = copy.unwrap_or(request);
                if self.onward(Reason::NotForTarget, Turn::Unasked, Some(&request), extensions) {
                    continue;
                }
                return self.turned_away(Reason::NotForTarget, None, request);
            }
            let sent = match self.send(request, permit.as_mut(), extensions, next).await {
                AttemptOutcome::Success(response) => return Ok(self.deliver_success(response, permit)),
                AttemptOutcome::Other(sent) => sent,
            };
            let mut tried = self.read(sent, permit, self.is_replayable(copy.is_some())).await;
            let decision = self.decide(&tried, copy.as_ref(), extensions);
            self.tell_gate(&mut tried, &decision).await;
            request = match (decision, copy) {
                (Decision::Wait { until, hint, .. }, Some(copy)) => {
                    self.keep(tried.sent, true);
                    drop(tried.permit);
                    place = tried.place;
                    // If the server named a moment, the gate keeps it for the whole scope.
                    if place.is_none() || hint.is_none_or(|hint| hint.wait().is_zero()) {
                        clock::sleep_until(until).await;
                    }
                    copy
                }
                (Decision::SpillOver(reason), copy) => {
                    let movable = copy.as_ref().filter(|_| tried.sent.is_refusal());
                    let goes_on = self.onward(reason, Turn::Sent(&tried.sent), movable, extensions);
                    match copy {
                        Some(copy) if goes_on => {
                            self.keep(tried.sent, true);
                            copy
                        }
                        copy => {
                            self.keep(tried.sent, false);
                            return self.spill(reason, copy, None);
                        }
                    }
                }
                (Decision::Admit | Decision::Wait { .. }, _) => {
                    return self.deliver(tried.sent, tried.permit);
                }
            };
        }
    }

    /// Whether the want of a copy is no obstacle to another attempt on this deployment.
    fn is_replayable(&self, has_copy: bool) -> bool {
        has_copy || self.leg_attempts() >= self.policy().max_attempts()
    }

    /// Decides about an attempt, and records it.
    fn decide(&mut self, tried: &Tried, copy: Option<&Request>, extensions: &Extensions) -> Decision {
        let plan = |may_charge| {
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
            self.plan(outcome, tried.at, tried.draw, self.is_replayable(copy.is_some()), may_charge)
        };
        let mut decision = plan(true);
        if let Decision::Wait { charged: true, .. } = decision
            && !self.shared.lock_retry_budget().withdraw(tried.at)
        {
            decision = plan(false);
        }
        let decision = self.reconsider(decision, &tried.sent, copy, extensions, tried.at);
        self.record(&tried.sent, &decision, tried.at);
        self.unclear |= tried.sent.is_unclear();
        decision
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
            .replayable(replayable)
            .retry_budget_open(may_charge && self.shared.lock_retry_budget().allows(at));
        decide(self.policy(), outcome, &call, at, draw)
    }
}
