//! Which deployment a call goes to: before it is sent, after a refusal, and when it leaves.

use std::time::{Duration, Instant};

use http::Extensions;
use reqwest::Request;
use reqwest_middleware::Error;

use super::call::LogicalCall;
use super::entry::Entry;
use super::legs::{Legs, Planned, Turn};
use super::sent::Sent;
use crate::clock;
use crate::decision::{Decision, Failure, Reason};
use crate::gate::{Look, Priority, ScopeKey};
use crate::ownership::invites_retry;
use crate::reading::{Hint, Reading};
use crate::spill::{
    CallAttributes, Choice, DeploymentState, Entrance, FailOver, PRIMARY, RouteCall, Routes, Stage, Standing,
    usual_target,
};
use crate::unharmed::unharmed;

/// Why a call leaves a deployment that failed; `None` if it did not.
fn failed(sent: &Sent) -> Option<Reason> {
    match sent {
        Sent::CutOff => Some(Reason::NoResponse),
        Sent::Failed(failed) if failed.is_unsent => Some(Reason::Unreachable),
        Sent::Failed(failed) => match (&failed.error, failed.failure) {
            (Error::Reqwest(error), _) if error.is_timeout() => Some(Reason::NoResponse),
            (_, Failure::Unknown) => Some(Reason::ServerFailed),
            (_, Failure::Connect | Failure::Permanent) => None,
        },
        Sent::Read(read) => read.1.is_failure().then_some(Reason::ServerFailed),
        Sent::Unread(_) => None,
    }
}

impl LogicalCall<'_> {
    /// Before anything is sent: whether the call goes to the primary at all.
    pub(super) fn choose_first(&mut self, request: &Request, extensions: &Extensions) {
        let Some(legs) = &mut self.legs else { return };
        let routes = legs.routes;
        if routes.router.is_none() && routes.away.is_empty() && routes.circuit.is_untroubled() {
            return;
        }
        let now = clock::now();
        let fails = match routes.circuit.enter(now) {
            Entrance::Open => true,
            Entrance::Closed => false,
            Entrance::Trial(trial) => {
                legs.trial = Some(trial);
                false
            }
        };
        let standing = match self.entry.as_ref().map(Entry::scope) {
            Some(scope) if !fails => routes.away.arrive(scope),
            _ => Standing::Open,
        };
        let awaiting = fails || matches!(standing, Standing::Probing);
        if let Standing::Probe(probe) = standing {
            legs.probe = Some(probe);
        }
        if !awaiting && routes.router.is_none() {
            return;
        }
        let Some(legs) = self.legs.as_ref().filter(|_| self.left_for_a_leg(now).is_some()) else { return };
        let candidates = legs.candidates(request);
        let call = self.as_seen(legs, Stage::BeforeSend, extensions, None, None, now);
        let (primary, targets) = self.states(legs, &candidates, now);
        let choice = chosen(routes, &call, &primary, &targets);
        let (index, reason) = match choice {
            Choice::SpillTo(index) if index < targets.len() => (Some(index), Reason::RouterChoice),
            Choice::Stay | Choice::GiveUp => (None, Reason::RouterChoice),
            // Nobody queues behind a probe if another deployment is open, or asks a primary that fails if one is in time.
            _ if awaiting => {
                let most = if fails { call.budget_left } else { Duration::ZERO };
                let takes = |index: &usize| targets.get(*index).is_some_and(|to| to.expected_wait <= most);
                let usual = usual_target(&call, &targets, routes.by_weight, self.shared.chance.draw());
                (usual.filter(takes), Reason::AwaitingProbe)
            }
            _ => (None, Reason::RouterChoice),
        };
        if let Some(to) = index.and_then(|index| candidates.get(index)).copied() {
            if let Some(legs) = &mut self.legs {
                legs.planned = Planned::To(to);
            }
            self.onward(reason, Turn::Unasked, Some(request), extensions);
        }
    }

    /// A failure that is no refusal: whether another deployment takes the call, and why it leaves.
    pub(super) fn fail_over(
        &mut self,
        sent: &Sent,
        request: Option<&Request>,
        extensions: &Extensions,
        now: Instant,
    ) -> Option<Reason> {
        let legs = self.legs.as_ref()?;
        let reason = failed(sent)?;
        let (routes, unreachable) = (legs.routes, reason == Reason::Unreachable);
        let counts = match routes.fail_over {
            FailOver::Never => return None,
            FailOver::Unsent => unreachable,
            FailOver::Safe => true,
        };
        match legs.at {
            None if counts => routes.circuit.failed(unreachable, legs.trial.is_some(), now),
            None if matches!(sent, Sent::Read(_)) => routes.circuit.answered(),
            _ => {}
        }
        if !counts || !(unreachable || self.idempotent) {
            return None;
        }
        self.left_for_a_leg(now)?;
        let candidates = legs.candidates(request?);
        let next = self.next_target(legs, &candidates, reason, Turn::Sent(sent), extensions, now)?;
        if let Some(legs) = &mut self.legs {
            legs.planned = Planned::To(next);
        }
        Some(reason)
    }

    /// Whether a target has been chosen that the call goes to.
    pub(super) fn is_planned(&self) -> bool {
        self.legs.as_ref().is_some_and(|legs| matches!(legs.planned, Planned::To(_)))
    }

    /// A refusal with a wait that fits: whether the call had better go elsewhere all the same.
    pub(super) fn reconsider(
        &mut self,
        decision: Decision,
        sent: &Sent,
        spare: Option<&Request>,
        extensions: &Extensions,
        at: Instant,
    ) -> Decision {
        self.note(match sent {
            Sent::Read(read) if read.1.is_refused_unprocessed() => Some(true),
            Sent::Read(read) if !invites_retry(read.1.status()) => Some(false),
            Sent::Unread(_) | Sent::Read(_) | Sent::Failed(_) | Sent::CutOff => None,
        });
        let (Some(legs), Sent::Read(read), Some(spare)) = (&self.legs, sent, spare) else { return decision };
        let Decision::Wait { wait, .. } = &decision else { return decision };
        let failed = legs.refusals.saturating_sub(1);
        let asked = legs.routes.router.is_some() || failed >= legs.routes.failed_waits;
        if !asked || !read.1.is_refused_unprocessed() || self.left_for_a_leg(at).is_none() {
            return decision;
        }
        let candidates = legs.candidates(spare);
        let call = self.as_seen(legs, Stage::WaitFits, extensions, None, Some(*wait), at);
        let (primary, targets) = self.states(legs, &candidates, at);
        let choice = chosen(legs.routes, &call, &primary, &targets);
        let (planned, reason) = match choice {
            Choice::SpillTo(index) if let Some(to) = candidates.get(index) => {
                (Planned::To(*to), Reason::RouterChoice)
            }
            Choice::GiveUp => (Planned::GiveUp, Reason::RouterChoice),
            Choice::Stay => return decision,
            Choice::SpillTo(_) | Choice::Default => {
                let fits = |target: &DeploymentState<'_>| target.expected_wait <= call.budget_left;
                if failed < legs.routes.failed_waits || !targets.iter().any(fits) {
                    return decision;
                }
                (Planned::Nothing, Reason::WaitsFailed)
            }
        };
        if let Some(legs) = &mut self.legs {
            legs.planned = planned;
        }
        Decision::SpillOver(reason)
    }

    /// The target that takes a call which leaves where it is.
    pub(super) fn next_target(
        &self,
        legs: &Legs<'_>,
        candidates: &[usize],
        reason: Reason,
        turn: Turn<'_>,
        extensions: &Extensions,
        now: Instant,
    ) -> Option<usize> {
        match legs.planned {
            Planned::To(index) => return candidates.contains(&index).then_some(index),
            Planned::GiveUp => return None,
            Planned::Nothing if candidates.is_empty() => return None,
            Planned::Nothing => {}
        }
        let wait = match turn {
            Turn::Sent(sent) => sent.reading().and_then(Reading::hint).map(Hint::wait),
            Turn::Refused(refusal) => Some(refusal.wait),
            Turn::Answered(..) | Turn::Unasked => None,
        };
        let call = self.as_seen(legs, Stage::Spill, extensions, Some(reason), wait, now);
        let (primary, targets) = self.states(legs, candidates, now);
        let choice = chosen(legs.routes, &call, &primary, &targets);
        let index = match choice {
            Choice::SpillTo(index) if index < targets.len() => index,
            Choice::Stay | Choice::GiveUp => return None,
            Choice::SpillTo(_) | Choice::Default => {
                usual_target(&call, &targets, legs.routes.by_weight, self.shared.chance.draw())?
            }
        };
        candidates.get(index).copied()
    }

    fn as_seen<'b>(
        &self,
        legs: &Legs<'_>,
        stage: Stage,
        extensions: &'b Extensions,
        reason: Option<Reason>,
        wait: Option<Duration>,
        now: Instant,
    ) -> RouteCall<'b> {
        let attributes = extensions.get::<CallAttributes>();
        RouteCall {
            stage,
            tenant: attributes.and_then(CallAttributes::tenant_name),
            region: attributes.and_then(CallAttributes::region_name),
            priority: extensions.get::<Priority>().copied().unwrap_or_default(),
            budget_left: legs.deadline.saturating_duration_since(now),
            estimate: self.entry.as_ref().and_then(Entry::estimate),
            failed_waits: legs.refusals.saturating_sub(1),
            reason,
            wait,
        }
    }

    /// The state of the primary, and of the targets that a call may still go to.
    fn states<'b>(
        &self,
        legs: &Legs<'b>,
        candidates: &[usize],
        now: Instant,
    ) -> (DeploymentState<'b>, Vec<DeploymentState<'b>>) {
        let entry = self.entry.as_ref();
        let primary = legs.primary_scope.as_ref().or_else(|| entry.map(Entry::scope));
        let label = primary.and_then(ScopeKey::label_str);
        let state = |name: &'b str, index: Option<usize>, scope: Option<&ScopeKey>, weight: u32| {
            let look = match (entry, scope) {
                (Some(entry), Some(scope)) => entry.look(scope, now),
                _ => Look::default(),
            };
            DeploymentState {
                name,
                closed_for: look.closed_for,
                expected_wait: look.wait,
                recent_refusals: legs.routes.recent(index).refusals(),
                weight,
            }
        };
        let target = |index: &usize| {
            let target = legs.routes.targets.get(*index)?;
            Some(state(
                &target.name,
                Some(*index),
                Some(&target.scope(label, self.shared.recent_scopes.client())),
                target.weight,
            ))
        };
        (state(PRIMARY, None, primary, 1), candidates.iter().filter_map(target).collect())
    }
}

/// What the user's router says; without one, or where it panics, the choice is the usual one.
fn chosen(
    routes: &Routes,
    call: &RouteCall<'_>,
    primary: &DeploymentState<'_>,
    targets: &[DeploymentState<'_>],
) -> Choice {
    let router = routes.router.as_ref();
    router.and_then(|router| unharmed(|| router.route(call, primary, targets))).unwrap_or(Choice::Default)
}
