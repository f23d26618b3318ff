//! The legs of a call: how one deployment's part begins and ends, and what is recorded of it.

use http::{Extensions, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::ClientWithMiddleware;
use std::time::Instant;

use super::call::LogicalCall;
use super::entry::Entry;
use super::route::LegOutcome;
use crate::clock;
use crate::decision::Reason;
use crate::gate::ScopeKey;
use crate::observe;
use crate::policy::AdmissionPolicy;
use crate::reading::{Profile, Reading};
use crate::spill::{FailOver, LegReport, Target};
use crate::unharmed::unharmed;

impl LogicalCall<'_> {
    /// How often the request was sent to the deployment that it is with.
    pub(super) fn leg_attempts(&self) -> u32 {
        let of_earlier_legs = self.route.as_ref().map_or(0, |route| route.attempts_before);
        let here = self.attempts.saturating_sub(of_earlier_legs);
        // Runs of the call by a layer outside come on top of ours, they do not multiply them.
        if of_earlier_legs > 0 { here.saturating_add(self.attempts_of_earlier_runs) } else { here }
    }

    /// The target that the call is with, if not with the primary.
    pub(super) fn target(&self) -> Option<&Target> {
        self.route.as_ref().and_then(|route| route.target())
    }

    /// The client of the target that the call is with, if it isn't reached through the primary's own stack.
    pub(super) fn own_client(&self) -> Option<ClientWithMiddleware> {
        self.target()?.client.clone()
    }

    /// The policy of the deployment that the call is with.
    pub(super) fn policy(&self) -> &AdmissionPolicy {
        self.target().and_then(|target| target.policy.as_ref()).unwrap_or(&self.shared.policy)
    }

    /// What is known of the vendor that answered.
    pub(super) fn profile_of(&self, response: &Response) -> Profile {
        self.profile_of_host(response.url().host_str())
    }

    pub(super) fn profile_of_host(&self, host: Option<&str>) -> Profile {
        match self.target() {
            Some(target) => target.profile.clone(),
            None => self.shared.profile_of(host.unwrap_or_default()),
        }
    }

    /// Makes the request one for the deployment that it goes to; a request that the deployment cannot take stays as it is.
    pub(super) fn rewrite(&self, request: &mut Request) -> bool {
        // A function of the user's may map the body or set the credential; one that panics cannot take the request.
        let apply = |target: &Target| unharmed(|| target.rewrite.apply(request).is_some()).unwrap_or(false);
        self.target().is_none_or(apply)
    }

    /// Records whether an answer was a refusal, for the shares of refusals and for the way back to the primary.
    pub(super) fn answered(&mut self, refused: bool) {
        let Some(route) = &mut self.route else { return };
        route.routes.recent(route.at).record(refused);
        if refused {
            route.refusals = route.refusals.saturating_add(1);
        } else if let Some(probe) = route.probe.take() {
            probe.succeeded();
        }
        if route.at.is_none() {
            route.routes.failures.close(&());
        }
    }

    /// An answer is handed on: the report says where it comes from.
    pub(super) fn arrived(&mut self, status: StatusCode, reading: Option<&Reading>) {
        if let Some(native) = reading.and_then(Reading::native_spill_over) {
            self.native_spill_over(native);
        }
        self.end_route(LegOutcome::Answered(status, reading));
    }

    /// The call ends here after it has been elsewhere.
    pub(super) fn end_route(&mut self, outcome: LegOutcome<'_>) {
        if self.route.as_ref().is_some_and(|route| !route.done.is_empty()) {
            self.end_leg(None, outcome, clock::now());
        }
    }

    /// The deployment that the call is with does not take it: takes the call to the next one, if there is one and the
    /// request is at hand. Returns whether it did.
    pub(super) fn move_on(
        &mut self,
        reason: Reason,
        outcome: LegOutcome<'_>,
        request: Option<&Request>,
        extensions: &Extensions,
    ) -> bool {
        let now = clock::now();
        let Some(route) = &self.route else { return false };
        let next = request.filter(|_| route.has_time_for_a_leg(now)).and_then(|request| {
            self.next_target(route, &route.candidates(request), reason, outcome, extensions, now)
        });
        self.end_leg(Some(reason), outcome, now);
        if let (Some(next), Some(request)) = (next, request) {
            self.begin_leg(next, reason, request, now);
        }
        next.is_some()
    }

    fn end_leg(&mut self, reason: Option<Reason>, outcome: LegOutcome<'_>, now: Instant) {
        let Some(route) = &mut self.route else { return };
        let mut report = LegReport {
            deployment: route.name(),
            reason,
            attempts: self.attempts.saturating_sub(route.attempts_before),
            waited: self.waited.saturating_sub(route.waited_before),
            took: now.saturating_duration_since(route.began),
            estimate: self.entry.as_ref().and_then(Entry::estimate),
            ..LegReport::default()
        };
        match outcome {
            LegOutcome::Attempt(outcome) => report.read(outcome.reading()),
            LegOutcome::Rejected(refusal) => report.expect(Some(refusal.wait), clock::wall_clock()),
            LegOutcome::Answered(status, reading) => {
                report.read(reading);
                report.status = Some(status);
            }
            LegOutcome::Unasked => {
                let wait = self.entry.as_ref().map(|entry| entry.peek(entry.scope(), now).wait);
                report.expect(wait.filter(|wait| !wait.is_zero()), clock::wall_clock());
            }
        }
        route.learn_time(outcome, report.took.saturating_sub(report.waited));
        let refused = matches!(outcome, LegOutcome::Attempt(_)) && reason.is_some_and(closes_the_primary);
        if let (None, true, Some(entry)) = (route.at, refused, &self.entry) {
            route.routes.refusals.open(entry.scope(), now);
        }
        (route.probe, route.trial) = (None, None);
        route.done.push(report);
        // At once: a caller who drops the call on a later leg still has the earlier ones.
        self.report.lock().legs = route.done.clone();
    }

    fn begin_leg(&mut self, next: usize, reason: Reason, request: &Request, now: Instant) {
        let Some(route) = &mut self.route else { return };
        let Some(target) = route.routes.targets.get(next) else { return };
        observe::routed(&route.name(), &target.name, reason);
        if route.at.is_none() {
            route.primary_scope = self.entry.as_ref().map(Entry::scope).cloned();
        }
        route.go_to(next, self.attempts, self.waited, now);
        let left = route.deadline.saturating_duration_since(now);
        let own = now.checked_add(left.mul_f64(target.budget_share)).unwrap_or(route.deadline);
        let after = route.candidates(request).first().copied();
        route.keep_for(after, self.idempotent && route.routes.fail_over == FailOver::Safe);
        let latest = if after.is_none() { route.deadline } else { route.early_deadline() };
        self.deadline = own.min(latest);
        let label = route.primary_scope.as_ref().and_then(ScopeKey::label_str);
        let scope = target.scope(label, self.shared.recent_scopes.client());
        self.entry = self.entry.take().map(|entry| entry.moved_to(scope, target.has_scope, request));
        if let (Some(seen_as), Some(host)) = (&mut self.seen_as, target.rewrite.base.host_str()) {
            seen_as.1 = host.into();
        }
        // The error of a deployment that the call has left is not how it ends.
        self.lost = None;
    }

    /// When an attempt that begins at `now` is cut off.
    pub(super) fn attempt_ends(&self, now: Instant) -> Option<Instant> {
        let end = self.cut_off?;
        let of_leg = self.route.as_ref().and_then(|route| route.attempt_end(now));
        Some(of_leg.map_or(end, |of_leg| of_leg.min(end)))
    }

    /// Gives the primary all of the time if no other deployment can take the request. Returns whether it had less.
    pub(super) fn takes_all_time(&mut self, request: Option<&Request>) -> bool {
        let Some(route) = self.route.as_ref().filter(|route| route.at.is_none()) else { return false };
        let had_less = self.deadline < route.deadline;
        if !had_less || request.is_some_and(|request| !route.candidates(request).is_empty()) {
            return false;
        }
        self.deadline = route.deadline;
        true
    }
}

/// Whether the primary is probed after a refusal for this reason; others are about the one request alone.
const fn closes_the_primary(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::BudgetExceeded
            | Reason::NoResponse
            | Reason::WaitsFailed
            | Reason::AttemptsExhausted
            | Reason::RetryBudgetSpent
            | Reason::QuotaExhausted
    )
}
