//! Which deployment a call goes to: before it is sent, after a refusal, and when it leaves.

use std::time::{Duration, Instant};

use http::Extensions;
use reqwest::Request;
use reqwest_middleware::Error;

use super::call::LogicalCall;
use super::entry::Entry;
use super::outcome::AttemptOutcome;
use super::route::{LegOutcome, NextTarget, Route};
use crate::clock;
use crate::decision::{Decision, Failure, Reason};
use crate::gate::{Look, Priority, ScopeKey};
use crate::ownership::invites_retry;
use crate::reading::{Hint, Reading};
use crate::spill::{
    CallAttributes, Choice, DeploymentState, Entrance, FailOver, PRIMARY, RouteCall, Stage, usual_target,
};
use crate::unharmed::unharmed;

/// Why a call leaves a deployment that failed; `None` if it did not.
fn failed(outcome: &AttemptOutcome) -> Option<Reason> {
    match outcome {
        AttemptOutcome::CutOff => Some(Reason::NoResponse),
        AttemptOutcome::Failed(failed) if failed.is_unsent => Some(Reason::Unreachable),
        AttemptOutcome::Failed(failed) => match (&failed.error, failed.failure) {
            (Error::Reqwest(error), _) if error.is_timeout() => Some(Reason::NoResponse),
            (_, Failure::Unknown) => Some(Reason::ServerFailed),
            (_, Failure::Connect | Failure::Permanent) => None,
        },
        AttemptOutcome::Read(read) => read.1.is_failure().then_some(Reason::ServerFailed),
        AttemptOutcome::Unread(_) => None,
    }
}

/// What the router was shown, and what it says; without one, or if it panics, the choice is the default.
struct Asked<'b> {
    call: RouteCall<'b>,
    targets: Vec<DeploymentState<'b>>,
    choice: Choice,
}

impl LogicalCall<'_> {
    /// Before anything is sent: whether the call goes to the primary at all.
    pub(super) fn choose_first(&mut self, request: &Request, extensions: &Extensions) {
        let Some(route) = &mut self.route else { return };
        let routes = route.routes;
        if routes.fail_over == FailOver::Safe {
            let next = route.candidates(request).first().copied();
            route.keep_for(next, self.idempotent);
        }
        let untroubled = routes.refusals.are_untroubled() && routes.failures.are_untroubled();
        if routes.router.is_none() && untroubled {
            return;
        }
        let now = clock::now();
        let mut fails = false;
        match routes.failures.enter(&(), now) {
            Entrance::Closed => {}
            Entrance::Trial(trial) => route.trial = Some(trial),
            Entrance::Open => fails = true,
        }
        let mut awaiting = fails;
        if let Some(scope) = self.entry.as_ref().map(Entry::scope).filter(|_| !fails) {
            match routes.refusals.enter(scope, now) {
                Entrance::Closed => {}
                Entrance::Trial(probe) => route.probe = Some(probe),
                Entrance::Open => awaiting = true,
            }
        }
        if !(awaiting || routes.router.is_some()) || !route.has_time_for_a_leg(now) {
            return;
        }
        let Some(route) = &self.route else { return };
        let candidates = route.candidates(request);
        let asked = self.ask(route, &candidates, (Stage::BeforeSend, None, None), extensions, now);
        let (index, reason) = match asked.choice {
            Choice::SpillTo(index) => (Some(index), Reason::RouterChoice),
            // Nobody queues behind a probe if another deployment is open, or asks a primary that fails if one is in time.
            Choice::Default if awaiting => {
                let most = if fails { asked.call.budget_left } else { Duration::ZERO };
                let takes =
                    |index: &usize| asked.targets.get(*index).is_some_and(|to| to.expected_wait <= most);
                (self.usual(route, &asked).filter(takes), Reason::AwaitingProbe)
            }
            _ => return,
        };
        if let Some(to) = index.and_then(|index| candidates.get(index)).copied() {
            self.plan_next(NextTarget::To(to));
            self.move_on(reason, LegOutcome::Unasked, Some(request), extensions);
        }
    }

    /// A failure that is no refusal: whether another deployment takes the call, and why it leaves.
    pub(super) fn fail_over(
        &mut self,
        outcome: &AttemptOutcome,
        request: Option<&Request>,
        extensions: &Extensions,
        now: Instant,
    ) -> Option<Reason> {
        let route = self.route.as_ref()?;
        let reason = failed(outcome)?;
        let (routes, unreachable) = (route.routes, reason == Reason::Unreachable);
        let counts = match routes.fail_over {
            FailOver::Never => return None,
            FailOver::Unsent => unreachable,
            FailOver::Safe => true,
        };
        match route.at {
            None if counts => routes.failures.failed(&(), unreachable, route.trial.is_some(), now),
            None if matches!(outcome, AttemptOutcome::Read(_)) => routes.failures.close(&()),
            _ => {}
        }
        if !counts || !(unreachable || self.idempotent) || !route.has_time_for_a_leg(now) {
            return None;
        }
        let candidates = route.candidates(request?);
        let outcome = LegOutcome::Attempt(outcome);
        let next = self.next_target(route, &candidates, reason, outcome, extensions, now)?;
        self.plan_next(NextTarget::To(next));
        Some(reason)
    }

    fn plan_next(&mut self, next: NextTarget) {
        if let Some(route) = &mut self.route {
            route.next = next;
        }
    }

    /// Whether a target has been chosen that the call goes to.
    pub(super) fn is_planned(&self) -> bool {
        self.route.as_ref().is_some_and(|route| matches!(route.next, NextTarget::To(_)))
    }

    /// A refusal with a wait that fits: whether the call had better go elsewhere all the same.
    pub(super) fn reconsider(
        &mut self,
        decision: Decision,
        outcome: &AttemptOutcome,
        copy: Option<&Request>,
        extensions: &Extensions,
        at: Instant,
    ) -> Decision {
        let AttemptOutcome::Read(read) = outcome else { return decision };
        let refused = read.1.is_refused_unprocessed();
        if refused || !invites_retry(read.1.status()) {
            self.answered(refused);
        }
        let (Some(route), Some(copy), Decision::Wait { wait, .. }) = (&self.route, copy, &decision) else {
            return decision;
        };
        let has_failed = route.refusals.saturating_sub(1) >= route.routes.failed_waits;
        let asks = route.routes.router.is_some() || has_failed;
        if !asks || !refused || !route.has_time_for_a_leg(at) {
            return decision;
        }
        let candidates = route.candidates(copy);
        let asked = self.ask(route, &candidates, (Stage::WaitFits, None, Some(*wait)), extensions, at);
        let fits = |target: &DeploymentState<'_>| target.expected_wait <= asked.call.budget_left;
        let (next, reason) = match asked.choice {
            Choice::SpillTo(index) if let Some(to) = candidates.get(index) => {
                (NextTarget::To(*to), Reason::RouterChoice)
            }
            Choice::GiveUp => (NextTarget::GiveUp, Reason::RouterChoice),
            Choice::Default if has_failed && asked.targets.iter().any(fits) => {
                (NextTarget::Undecided, Reason::WaitsFailed)
            }
            _ => return decision,
        };
        self.plan_next(next);
        Decision::SpillOver(reason)
    }

    /// The target that takes a call which leaves where it is.
    pub(super) fn next_target(
        &self,
        route: &Route<'_>,
        candidates: &[usize],
        reason: Reason,
        outcome: LegOutcome<'_>,
        extensions: &Extensions,
        now: Instant,
    ) -> Option<usize> {
        match route.next {
            NextTarget::To(index) => return candidates.contains(&index).then_some(index),
            NextTarget::GiveUp => return None,
            NextTarget::Undecided if candidates.is_empty() => return None,
            NextTarget::Undecided => {}
        }
        let wait = match outcome {
            LegOutcome::Attempt(outcome) => outcome.reading().and_then(Reading::hint).map(Hint::wait),
            LegOutcome::Rejected(refusal) => Some(refusal.wait),
            LegOutcome::Answered(..) | LegOutcome::Unasked => None,
        };
        let asked = self.ask(route, candidates, (Stage::Spill, Some(reason), wait), extensions, now);
        let index = match asked.choice {
            Choice::SpillTo(index) => index,
            Choice::Stay | Choice::GiveUp => return None,
            Choice::Default => self.usual(route, &asked)?,
        };
        candidates.get(index).copied()
    }

    /// The choice without a router.
    fn usual(&self, route: &Route<'_>, asked: &Asked<'_>) -> Option<usize> {
        usual_target(&asked.call, &asked.targets, route.routes.by_weight, self.shared.chance.draw())
    }

    /// Shows the router the call, the primary, and the targets that the call may still go to.
    fn ask<'b>(
        &self,
        route: &Route<'b>,
        candidates: &[usize],
        (stage, reason, wait): (Stage, Option<Reason>, Option<Duration>),
        extensions: &'b Extensions,
        now: Instant,
    ) -> Asked<'b> {
        let attributes = extensions.get::<CallAttributes>();
        let call = RouteCall {
            stage,
            tenant: attributes.and_then(CallAttributes::tenant_name),
            region: attributes.and_then(CallAttributes::region_name),
            priority: extensions.get::<Priority>().copied().unwrap_or_default(),
            budget_left: route.deadline.saturating_duration_since(now),
            estimate: self.entry.as_ref().and_then(Entry::estimate),
            failed_waits: route.refusals.saturating_sub(1),
            reason,
            wait,
        };
        let (primary, targets) = self.states(route, candidates, now);
        let theirs = route.routes.router.as_ref();
        let choice = theirs.and_then(|router| unharmed(|| router.route(&call, &primary, &targets)));
        let choice = match choice {
            Some(Choice::SpillTo(index)) if index >= targets.len() => Choice::Default,
            choice => choice.unwrap_or(Choice::Default),
        };
        Asked { call, targets, choice }
    }

    fn states<'b>(
        &self,
        route: &Route<'b>,
        candidates: &[usize],
        now: Instant,
    ) -> (DeploymentState<'b>, Vec<DeploymentState<'b>>) {
        let entry = self.entry.as_ref();
        let primary = route.primary_scope.as_ref().or_else(|| entry.map(Entry::scope));
        let label = primary.and_then(ScopeKey::label_str);
        let state = |name: &'b str, index: Option<usize>, scope: Option<&ScopeKey>, weight: u32| {
            let status = match (entry, scope) {
                (Some(entry), Some(scope)) => entry.peek(scope, now),
                _ => Look::default(),
            };
            DeploymentState {
                name,
                closed_for: status.closed_for,
                expected_wait: status.wait,
                recent_refusals: route.routes.recent(index).refusals(),
                weight,
            }
        };
        let target = |index: &usize| {
            let target = route.routes.targets.get(*index)?;
            let scope = target.scope(label, self.shared.recent_scopes.client());
            Some(state(&target.name, Some(*index), Some(&scope), target.weight))
        };
        (state(PRIMARY, None, primary, 1), candidates.iter().filter_map(target).collect())
    }
}
