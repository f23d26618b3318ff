//! One logical call over all its attempts: enter, send, read, decide, then wait or return.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};
use tracing::Span;

use super::attempt::OnItsWay;
use super::entry::Entry;
use super::legs::{Legs, Turn};
use super::replay::IDEMPOTENCY_KEY;
use super::sent::Sent;
use super::{Shared, replay};
use crate::budget::LatencyBudget;
use crate::clock;
use crate::decision::{Call, Decision, Failure, Outcome, Reason, decide};
use crate::error_chain;
use crate::gate::{Permit, Place};
use crate::observe::{self, CallReport};
use crate::ownership::{Entered, Probe, RetryConflict, Run, STAINLESS_RETRY_COUNT, find, invites_retry};
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
    /// Whether a layer inside sent a request of its own in place of an attempt's.
    pub(super) replaced: bool,
    /// Whether an attempt ended in a way that leaves open whether the server has processed it.
    pub(super) unclear: bool,
    pub(super) attempts: u32,
    pub(super) waited: Duration,
    /// What came of the last attempt, during a wait and after it.
    pub(super) last: Option<Box<Sent>>,
    /// Its span, where somebody looks at it.
    pub(super) span: Option<Box<Span>>,
}

impl<'a> LogicalCall<'a> {
    #[inline]
    pub(super) fn begin(
        shared: &'a Shared,
        request: &mut Request,
        extensions: &mut Extensions,
        now: Instant,
    ) -> Result<Self> {
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
                return Err(error_chain::raise(conflict));
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
            replaced: false,
            unclear: false,
            attempts,
            waited: Duration::ZERO,
            last: None,
            span: observe::call_span(request),
        })
    }

    /// Runs the call to its end. `request` stays what the caller gave for as long as it may be needed again.
    pub(super) async fn run(
        &mut self,
        request: &mut Request,
        extensions: &mut Extensions,
        next: &Next<'_>,
        mut now: Instant,
    ) -> Result<Response> {
        let mut place: Option<Box<Place>> = None;
        self.choose_first(request, extensions);
        loop {
            let granted = match self.enter(place.take().map(|place| *place), now) {
                ControlFlow::Continue(permit) => Ok(permit),
                // Boxed, as is all that few calls need, so that the others have no larger a future for it.
                ControlFlow::Break(answer) => Box::pin(self.pass(answer, &mut now)).await,
            };
            let OnItsWay { attempt, permit, armed, kept } =
                match self.set_out(granted, request, now, extensions, next) {
                    ControlFlow::Continue(Some(under)) => under,
                    ControlFlow::Continue(None) => {
                        now = clock::now();
                        continue;
                    }
                    ControlFlow::Break(outcome) => return outcome,
                };
            let outcome = match self.cut_off {
                Some(deadline) => clock::until(deadline, attempt).await,
                None => Some(attempt.await),
            };
            let (outcome, refused) = match outcome {
                Some(Ok(response)) if self.may_refuse_inside() && response.status().is_success() => {
                    let (response, refused) = Box::pin(self.look_inside(response, clock::now())).await;
                    (Some(Ok(response)), refused)
                }
                outcome => (outcome, false),
            };
            let sent = match self.came_back(outcome, refused, armed) {
                ControlFlow::Break(response) => {
                    let ledger = self.succeeded(&response, permit);
                    return Ok(self.finish(response, ledger));
                }
                ControlFlow::Continue(sent) => sent,
            };
            let spare = kept.and_then(|kept| kept.whole(request));
            match Box::pin(self.judge(sent, permit, spare, extensions)).await {
                Step::Return(outcome) => return outcome,
                Step::Repeat(again, right) => (*request, place) = (*again, right),
            }
            now = clock::now();
        }
    }

    /// What to do about an attempt that did not end in success; waits, where that is to send it again.
    async fn judge(
        &mut self,
        sent: Sent,
        permit: Option<Permit>,
        spare: Option<Request>,
        extensions: &Extensions,
    ) -> Step {
        let at = clock::now();
        let sent = self.read(sent, at).await;
        let may_repeat = self.leg_attempts() < self.policy().max_attempts();
        let decision = self.decide(&sent, spare.is_some() || !may_repeat, at);
        let decision = self.reconsider(decision, &sent, spare.as_ref(), extensions, at);
        self.tell(&sent, &decision, at);
        self.unclear |= sent.is_unclear();
        let booked = self.booked(permit.as_ref(), &sent);
        let left = self.leave(permit, &sent, &decision, at);
        self.publish(booked, &sent, at).await;
        if let Decision::SpillOver(reason) = &decision {
            let copy = spare.as_ref().filter(|_| sent.is_refusal() && !self.replaced);
            if self.onward(*reason, Turn::Sent(&sent), copy, extensions)
                && let Some(spare) = spare
            {
                self.keep_response(sent);
                return Step::Repeat(Box::new(spare), None);
            }
        }
        self.remember(&sent, &decision);
        match (decision, spare) {
            (Decision::Wait { until, hint, .. }, Some(spare)) => {
                self.keep_response(sent);
                drop(left.permit);
                // Where the server named a moment, the gate keeps it for the whole scope.
                if left.place.is_none() || hint.is_none_or(|hint| hint.wait().is_zero()) {
                    self.wait(until).await;
                }
                Step::Repeat(Box::new(spare), left.place.map(Box::new))
            }
            (Decision::SpillOver(reason), spare) => {
                observe::close(self.span.as_deref(), self.attempts, &Decision::SpillOver(reason));
                // A call that is cut off keeps what the server has said last.
                let sent = match sent {
                    Sent::CutOff => {
                        let read = self.last.take_if(|last| matches!(**last, Sent::Read(_)));
                        read.map_or(Sent::CutOff, |read| *read)
                    }
                    sent => sent,
                };
                Step::Return(match (sent, spare) {
                    // No connection to a target is no error of the caller's.
                    (Sent::Failed(_), Some(request)) => self.turned_away(reason, None, request),
                    (sent, spare) => self.spill_over(reason, sent, spare, None),
                })
            }
            (decision, _) => {
                observe::close(self.span.as_deref(), self.attempts, &decision);
                Step::Return(self.hand_on(sent, left.permit))
            }
        }
    }

    fn decide(&self, sent: &Sent, replayable: bool, at: Instant) -> Decision {
        let outcome = match sent {
            Sent::Unread(_) => return Decision::Admit,
            Sent::CutOff => return Decision::SpillOver(Reason::BudgetExceeded),
            Sent::Read(read) => Outcome::Response(&read.1),
            Sent::Failed(error) => match replay::failure(error) {
                // Nothing was sent; a target that cannot be reached is not waited for.
                Failure::Connect if self.target().is_some() => {
                    return Decision::SpillOver(Reason::Unreachable);
                }
                failure => Outcome::Failure(failure),
            },
        };
        let mut budget = self.shared.lock_retry_budget();
        // Where reading a refusal's body took what was left, a send now would be cut off at once.
        let deadline = if clock::now() < self.deadline { self.deadline } else { at };
        let call = Call::new(deadline)
            .attempts(self.leg_attempts())
            .idempotent(self.idempotent)
            .replayable(replayable && !self.replaced)
            .retry_budget_open(budget.allows(at));
        let decision = decide(self.policy(), outcome, &call, at, self.shared.chance.draw());
        match decision {
            Decision::Wait { charged: true, .. } => {
                let _ = budget.withdraw(at);
                decision
            }
            Decision::SpillOver(Reason::BodyNotReplayable) if self.replaced => {
                Decision::SpillOver(Reason::RetryConflict)
            }
            decision => decision,
        }
    }

    /// Keeps for re-runs by layers outside what this attempt came to.
    fn remember(&self, sent: &Sent, decision: &Decision) {
        let excused = match sent {
            _ if matches!(decision, Decision::SpillOver(_)) => return self.run.gave_up(),
            Sent::Unread(_) => true,
            Sent::Read(read) => !invites_retry(read.1.status()),
            Sent::Failed(error) => replay::failure(error) == Failure::Permanent,
            Sent::CutOff => false,
        };
        if excused {
            self.run.attempt_excused();
        }
    }

    /// Keeps what is worth keeping of an attempt: its response, which no failure to connect replaces.
    fn keep_response(&mut self, sent: Sent) {
        if self.last.is_none() || !matches!(sent, Sent::Failed(_)) {
            self.last = sent.detached().map(Box::new);
        }
    }

    async fn wait(&mut self, until: Instant) {
        let start = clock::now();
        clock::sleep_until(until).await;
        self.count_wait(clock::since(start));
    }

    pub(super) fn count_wait(&mut self, waited: Duration) {
        self.waited = self.waited.saturating_add(waited);
        self.report.waited_for(waited);
    }
}

/// What comes after an attempt.
enum Step {
    Return(Result<Response>),
    /// The copy of the request, and the right to return to the front.
    Repeat(Box<Request>, Option<Box<Place>>),
}
