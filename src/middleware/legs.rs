//! The way of a call over several deployments: which one it is with, and where it goes from there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Extensions, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::ClientWithMiddleware;

use super::call::LogicalCall;
use super::entry::Entry;
use super::sent::Sent;
use crate::clock;
use crate::decision::Reason;
use crate::gate::{Refusal, ScopeKey};
use crate::observe;
use crate::policy::AdmissionPolicy;
use crate::reading::{Profile, Reading};
use crate::spill::{FailOver, LegReport, PRIMARY, Probe, Routes, Target, Trial};
use crate::unharmed::unharmed;

/// The way of one call.
pub(super) struct Legs<'a> {
    pub(super) routes: &'a Routes,
    /// The deployment that the call is with: a target by its index, or the primary.
    pub(super) at: Option<usize>,
    /// The targets that it has been with, one bit each.
    tried: u64,
    pub(super) done: Vec<LegReport>,
    /// The deadline of the whole call; a leg's own may be earlier.
    pub(super) deadline: Instant,
    pub(super) budget: Duration,
    /// What is kept of the budget for the next target, and the least to begin with there.
    pub(super) reserve: Duration,
    pub(super) least: Duration,
    /// Whether an attempt here ends early, so that the next target can take the call.
    pub(super) hurries: bool,
    began: Instant,
    attempts_before: u32,
    waited_before: Duration,
    /// Refusals on this leg, in a row.
    pub(super) refusals: u32,
    pub(super) primary_scope: Option<ScopeKey>,
    pub(super) probe: Option<Probe<'a>>,
    /// Held by the call that tries a primary which failed.
    pub(super) trial: Option<Trial<'a>>,
    pub(super) planned: Planned,
}

/// What has been decided about the next leg.
pub(super) enum Planned {
    Nothing,
    /// A target by its index.
    To(usize),
    GiveUp,
}

/// How a leg ends that is not the last.
#[derive(Clone, Copy)]
pub(super) enum Turn<'a> {
    /// With what came of an attempt.
    Sent(&'a Sent),
    /// The gate did not let the call go.
    Refused(&'a Refusal),
    /// With an answer for the caller.
    Answered(StatusCode, Option<&'a Reading>),
    /// A router said so, or the deployment cannot take the request.
    Unasked,
}

impl<'a> Legs<'a> {
    pub(super) fn new(routes: &'a Routes, now: Instant, deadline: Instant, budget: Duration) -> Self {
        let reserve = routes.reserve(budget, Some(0));
        Self {
            routes,
            at: None,
            tried: 0,
            done: Vec::new(),
            deadline,
            budget,
            reserve,
            least: routes.least(reserve, budget, Some(0)),
            hurries: false,
            began: now,
            attempts_before: 0,
            waited_before: Duration::ZERO,
            refusals: 0,
            primary_scope: None,
            probe: None,
            trial: None,
            planned: Planned::Nothing,
        }
    }

    pub(super) fn target(&self) -> Option<&'a Target> {
        self.at.and_then(|index| self.routes.targets.get(index))
    }

    fn name(&self) -> Arc<str> {
        self.target().map_or_else(|| PRIMARY.into(), |target| Arc::clone(&target.name))
    }

    /// The targets that the request may still go to.
    pub(super) fn candidates(&self, request: &Request) -> Vec<usize> {
        let untried = |index: &usize| self.tried & bit(*index) == 0;
        let takes =
            |index: &usize| self.routes.targets.get(*index).is_some_and(|to| Routes::can_take(to, request));
        (0..self.routes.targets.len()).filter(untried).filter(takes).collect()
    }
}

/// There are at most 64 targets.
fn bit(index: usize) -> u64 {
    u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index)).unwrap_or_default()
}

impl LogicalCall<'_> {
    /// How often the request was sent to the deployment that it is with.
    pub(super) fn leg_attempts(&self) -> u32 {
        let of_earlier_legs = self.legs.as_ref().map_or(0, |legs| legs.attempts_before);
        let here = self.attempts.saturating_sub(of_earlier_legs);
        // Runs of the call by a layer outside come on top of ours, they do not multiply them.
        if of_earlier_legs > 0 { here.saturating_add(self.attempts_of_earlier_runs) } else { here }
    }

    /// The target that the call is with, if not with the primary.
    pub(super) fn target(&self) -> Option<&Target> {
        self.legs.as_ref().and_then(|legs| legs.target())
    }

    /// The client of the target that the call is with, if it isn't reached through the primary's own stack.
    pub(super) fn own_client(&self) -> Option<ClientWithMiddleware> {
        self.target()?.client.clone()
    }

    /// The policy where the call is.
    pub(super) fn policy(&self) -> &AdmissionPolicy {
        self.target().and_then(|target| target.policy.as_ref()).unwrap_or(&self.shared.policy)
    }

    /// What is known of the vendor where the call is.
    pub(super) fn profile_of(&self, response: &Response) -> Profile {
        self.profile_of_host(response.url().host_str())
    }

    pub(super) fn profile_of_host(&self, host: Option<&str>) -> Profile {
        match self.target() {
            Some(target) => target.profile.clone(),
            None => self.shared.profile_of(host.unwrap_or_default()),
        }
    }

    /// Makes the request one for the deployment that it goes to; it stays as it is where that cannot take it.
    pub(super) fn rewrite(&self, request: &mut Request) -> bool {
        // A function of the user's may map the body or set the credential; one that panics cannot take the request.
        let apply = |target: &Target| unharmed(|| target.rewrite.apply(request).is_ok()).unwrap_or(false);
        self.target().is_none_or(apply)
    }

    /// Takes note of an answer, for the shares of refusals and for the way back to the primary.
    pub(super) fn note(&mut self, refused: Option<bool>) {
        let (Some(legs), Some(refused)) = (&mut self.legs, refused) else { return };
        legs.routes.recent(legs.at).note(refused);
        if refused {
            legs.refusals = legs.refusals.saturating_add(1);
        } else if let Some(probe) = legs.probe.take() {
            probe.succeeded();
        }
        if legs.at.is_none() {
            legs.routes.circuit.answered();
        }
    }

    /// An answer that is handed on: tells the report where it comes from.
    pub(super) fn arrived(&mut self, status: StatusCode, reading: Option<&Reading>) {
        if let Some(native) = reading.and_then(Reading::native_spill_over) {
            self.native_spill_over(native);
        }
        self.end_legs(Turn::Answered(status, reading));
    }

    /// The call ends here after it has been elsewhere: tells the report where.
    pub(super) fn end_legs(&mut self, turn: Turn<'_>) {
        if self.legs.as_ref().is_some_and(|legs| !legs.done.is_empty()) {
            self.end_leg(None, turn, clock::now());
        }
    }

    /// The deployment that the call is with does not take it: takes the call to the next one, if there is one.
    ///
    /// Without a `request` at hand there is none.
    pub(super) fn onward(
        &mut self,
        reason: Reason,
        turn: Turn<'_>,
        request: Option<&Request>,
        extensions: &Extensions,
    ) -> bool {
        let now = clock::now();
        let Some(legs) = &self.legs else { return false };
        let mut next = None;
        if let (Some(request), Some(left)) = (request, self.left_for_a_leg(now)) {
            let candidates = legs.candidates(request);
            next = self.next_target(legs, &candidates, reason, turn, extensions, now);
            next = next.filter(|_| !left.is_zero());
        }
        self.end_leg(Some(reason), turn, now);
        let Some(next) = next else { return false };
        self.begin_leg(next, reason, request, now);
        true
    }

    /// Writes down what the leg came to.
    fn end_leg(&mut self, reason: Option<Reason>, turn: Turn<'_>, now: Instant) {
        let Some(legs) = &mut self.legs else { return };
        let mut report = LegReport {
            deployment: legs.name(),
            reason,
            status: None,
            attempts: self.attempts.saturating_sub(legs.attempts_before),
            waited: self.waited.saturating_sub(legs.waited_before),
            took: now.saturating_duration_since(legs.began),
            advised_wait: None,
            retry_at: None,
            estimate: self.entry.as_ref().and_then(Entry::estimate),
            native: crate::spill::Quiet::default(),
        };
        match turn {
            Turn::Sent(sent) => report = report.with_reading(sent.reading()),
            Turn::Refused(refusal) => report = report.expecting(Some(refusal.wait), clock::wall_clock()),
            Turn::Answered(status, reading) => {
                report = report.with_reading(reading);
                report.status = Some(status);
            }
            Turn::Unasked => {
                let wait = self.entry.as_ref().map(|entry| entry.look(entry.scope(), now).wait);
                report = report.expecting(wait.filter(|wait| !wait.is_zero()), clock::wall_clock());
            }
        }
        legs.learn_time(turn, report.took.saturating_sub(report.waited));
        let refused = matches!(turn, Turn::Sent(_)) && closes_the_primary(reason);
        if let (None, true, Some(entry)) = (legs.at, refused, &self.entry) {
            legs.routes.away.left(entry.scope(), now);
        }
        (legs.probe, legs.trial) = (None, None);
        legs.done.push(report);
        // At once: a caller who drops the call on a later leg still has the earlier ones.
        self.report.went(legs.done.clone());
    }

    fn begin_leg(&mut self, next: usize, reason: Reason, request: Option<&Request>, now: Instant) {
        let Some(legs) = &mut self.legs else { return };
        let Some(target) = legs.routes.targets.get(next) else { return };
        let from = legs.name();
        if legs.at.is_none() {
            legs.primary_scope = self.entry.as_ref().map(Entry::scope).cloned();
        }
        legs.tried |= bit(next);
        legs.at = Some(next);
        legs.planned = Planned::Nothing;
        (legs.began, legs.refusals) = (now, 0);
        (legs.attempts_before, legs.waited_before) = (self.attempts, self.waited);
        let left = legs.deadline.saturating_duration_since(now);
        let own = now.checked_add(left.mul_f64(target.budget_share)).unwrap_or(legs.deadline);
        let after = request.and_then(|request| legs.candidates(request).first().copied());
        legs.keep_for(after, self.idempotent && legs.routes.fail_over == FailOver::Safe);
        let latest = if after.is_none() { legs.deadline } else { legs.first_deadline() };
        self.deadline = own.min(latest);
        let label = legs.primary_scope.as_ref().and_then(ScopeKey::label_str);
        let scope = target.scope(label, self.shared.recent_scopes.client());
        self.entry = self.entry.take().map(|entry| entry.moved_to(scope, target.has_scope));
        if let (Some(seen_as), Some(host)) = (&mut self.seen_as, target.rewrite.base.host_str()) {
            seen_as.1 = host.into();
        }
        // The error of a deployment that the call has left is not what it comes to.
        self.lost = None;
        observe::routed(&from, &target.name, reason);
    }

    /// The legs of the call, each written down as it ended.
    pub(super) fn finished_legs(&mut self) -> Vec<LegReport> {
        self.legs.as_mut().map(|legs| std::mem::take(&mut legs.done)).unwrap_or_default()
    }
}

/// Whether the primary is probed after a refusal for this reason; others are about the one request alone.
const fn closes_the_primary(reason: Option<Reason>) -> bool {
    matches!(
        reason,
        Some(
            Reason::BudgetExceeded
                | Reason::NoResponse
                | Reason::WaitsFailed
                | Reason::AttemptsExhausted
                | Reason::RetryBudgetSpent
                | Reason::QuotaExhausted
        )
    )
}
