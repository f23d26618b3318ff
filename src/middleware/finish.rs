//! The last verbs of a call: deliver, or spill over. What happened is written into the record here; events are views of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use reqwest::{Request, Response};
use reqwest_middleware::{Error, Result};

use super::call::LogicalCall;
use super::entry::InBody;
use super::outcome::{AttemptOutcome, Earlier, Position, Waiting};
use super::replay::Failed;
use super::route::LegOutcome;
use crate::body::{LastResponse, hold};
use crate::clock;
use crate::decision::{Decision, Failure, Reason};
use crate::error_chain;
use crate::gate::{Ledger, Permit};
use crate::observe::{self, AttemptReport, DecisionEvent};
use crate::ownership::{RetryConflict, RunEnd, invites_retry};
use crate::policy::OnSpill;
use crate::reading::{MAX_BODY, NativeSpillOver, Reading, proxy_attempts};
use crate::spill::{Facts, Quiet, SpillOver};
use crate::usage::UsageScanner;

impl LogicalCall<'_> {
    /// Records what was decided about an attempt.
    pub(super) fn record(&mut self, outcome: &AttemptOutcome, decision: &Decision, at: Instant) {
        let reading = outcome.reading();
        let planned = match decision {
            Decision::Wait { until, .. } => Some(until.saturating_duration_since(at)),
            Decision::Admit | Decision::SpillOver(_) => None,
        };
        let report = AttemptReport {
            status: outcome.status(),
            failure: outcome.failure(),
            request_id: reading.and_then(Reading::request_id).map(str::to_owned),
            hint: reading.and_then(Reading::hint).cloned(),
            decision: decision.clone(),
            wait: planned,
            waited: None,
        };
        self.write(report);
        self.waiting = planned.map(|planned| Waiting { since: at, planned });
    }

    /// Writes an attempt into the record, and emits it.
    fn write(&self, report: AttemptReport) {
        self.emit(DecisionEvent::of(&report));
        self.report.lock().decided(report);
    }

    /// Records that the call waits at the gate before its first attempt on a deployment.
    pub(super) fn emit_queued(&self, expected: Duration) {
        if self.leg_attempts() == 0 {
            let decision = observe::WAIT;
            self.emit(DecisionEvent { decision, wait: Some(expected), ..DecisionEvent::default() });
        }
    }

    /// Records how long a wait really was.
    pub(super) fn count_wait(&mut self, planned: Duration, waited: Duration) {
        self.waited = self.waited.saturating_add(waited);
        self.report.lock().waited(waited);
        if !self.is_probe {
            let call = self.seen_as.as_ref().map_or(0, |seen_as| seen_as.0);
            observe::waited(call, self.attempts, planned, waited, self.shared.observer.as_ref());
        }
    }

    fn emit<'e>(&'e self, event: DecisionEvent<'e>) {
        if !self.is_probe {
            let (call, host) = self.seen_as.as_deref().map_or((0, ""), |(call, host)| (*call, host));
            let event = DecisionEvent { call, host, attempt: self.attempts, ..event };
            observe::emit(&event, self.shared.observer.as_ref());
        }
    }

    /// Keeps the response of an attempt for the end of the call.
    pub(super) fn keep(&mut self, outcome: AttemptOutcome, belongs_to: Position, give_up: bool) {
        let AttemptOutcome::Read(read) = outcome else { return };
        let (mut peeked, reading) = *read;
        if give_up {
            peeked.give_up();
        }
        let headers = peeked.head().headers.clone();
        let response = LastResponse::new(reading, headers, peeked.text(MAX_BODY));
        self.report.lock().last = Some(response.clone());
        let whole = (self.shared.policy.on_spill() == OnSpill::Response).then(|| Box::new(peeked));
        self.earlier = Some(Box::new(Earlier { response, whole, belongs_to }));
    }

    /// Where the call is.
    pub(super) fn position(&self) -> Position {
        (self.attempts, self.route.as_ref().and_then(|route| route.at))
    }

    /// Gives a success to the caller; its body holds the permit.
    pub(super) fn deliver_success(&mut self, response: Response, mut permit: Option<Permit>) -> Response {
        let reading = self.read_success(&response);
        self.detect_proxy(match &reading {
            Some(reading) => reading.proxy_attempts,
            None => proxy_attempts(response.headers()),
        });
        self.write(AttemptReport {
            status: Some(response.status()),
            failure: None,
            request_id: reading.as_ref().and_then(Reading::request_id).map(str::to_owned),
            hint: None,
            decision: Decision::Admit,
            wait: None,
            waited: None,
        });
        self.run.ends(RunEnd::Succeeded);
        self.has_quota();
        self.answered(false);
        self.arrived(response.status(), reading.as_ref());
        observe::close(&self.span, self.attempts, &Decision::Admit);
        if let (Some(permit), Some(entry)) = (&mut permit, &self.entry) {
            entry.taken(permit, reading.as_ref(), || self.profile_of(&response), clock::now());
        }
        self.hand_over(response, permit)
    }

    /// Gives the outcome of an attempt to the caller as it is.
    pub(super) fn deliver(&mut self, outcome: AttemptOutcome, permit: Option<Permit>) -> Result<Response> {
        let excused = match &outcome {
            AttemptOutcome::Unread(_) => true,
            AttemptOutcome::Read(read) => !invites_retry(read.1.status()),
            AttemptOutcome::Failed(failed) => failed.failure == Failure::Permanent,
            AttemptOutcome::CutOff => false,
        };
        self.run.ends(if excused { RunEnd::Excused } else { RunEnd::Failed });
        observe::close(&self.span, self.attempts, &Decision::Admit);
        match outcome {
            AttemptOutcome::Unread(response) => {
                self.arrived(response.status(), None);
                Ok(self.hand_over(response, permit))
            }
            AttemptOutcome::Read(read) => {
                self.arrived(read.1.status(), Some(&read.1));
                Ok(self.hand_over(read.0.into_response(), permit))
            }
            AttemptOutcome::Failed(failed) => Err(self.fail(failed)),
            AttemptOutcome::CutOff => self.spill(Reason::NoResponse, None, None),
        }
    }

    /// An error is the caller's own; where the call has been before it is in the report.
    fn fail(&mut self, failed: Failed) -> Error {
        self.end_route(LegOutcome::Unasked);
        failed.error
    }

    /// Puts the report into a response, and the permit into its body.
    fn hand_over(&self, mut response: Response, permit: Option<Permit>) -> Response {
        response.extensions_mut().insert(self.report.clone());
        let Some(permit) = permit else { return response };
        let ledger = Arc::new(Ledger::new(permit));
        self.report.lock().ledger = Some(Arc::clone(&ledger));
        let usage = self.shared.settle_from_usage;
        let media = usage.then(|| response.headers().get(http::header::CONTENT_TYPE)).flatten();
        let scanner = UsageScanner::for_content_type(media).map(Box::new);
        hold(response, self.is_head, InBody::new(ledger, scanner))
    }

    /// The call does not go where it is, and nowhere else either: the gate's no, which foresees a wait, or a target that
    /// cannot take the request. A failure that was to be repeated is then the caller's as it is.
    pub(super) fn turned_away(
        &mut self,
        reason: Reason,
        wait: Option<Duration>,
        request: Request,
    ) -> Result<Response> {
        let failed = self.lost.take().filter(|_| self.earlier.is_none());
        let decision = if failed.is_some() { Decision::Admit } else { Decision::SpillOver(reason) };
        self.emit(DecisionEvent {
            decision: observe::name(&decision),
            reason: failed.is_none().then_some(reason),
            failure: failed.as_ref().map(|failed| failed.failure),
            raw_wait: wait.filter(|_| failed.is_none()),
            ..DecisionEvent::default()
        });
        self.report.lock().end = Some(decision);
        match failed {
            Some(failed) => {
                self.run.ends(RunEnd::Failed);
                observe::close(&self.span, self.attempts, &Decision::Admit);
                Err(self.fail(failed))
            }
            None => self.spill(reason, Some(request), wait),
        }
    }

    /// Records that a service spilled the call over by itself, or tried to.
    pub(super) fn native_spill_over(&self, native: &NativeSpillOver) {
        self.report.lock().native = Quiet(Some(native.clone()));
        if native.spilled_over && !self.is_probe {
            self.shared.native_spill_overs.fetch_add(1, Ordering::Relaxed);
            observe::native_spill_over();
        }
    }

    /// Gives the call up: with its last response, with the request or a copy of it if there is one, and with the wait that
    /// the gate foresees.
    pub(super) fn spill(
        &mut self,
        reason: Reason,
        request: Option<Request>,
        expected: Option<Duration>,
    ) -> Result<Response> {
        observe::close(&self.span, self.attempts, &Decision::SpillOver(reason));
        self.run.ends(RunEnd::GaveUp);
        let legs = self.route.as_mut().map(|route| std::mem::take(&mut route.done)).unwrap_or_default();
        let here = self.position();
        let (last, whole, is_about_last) = match self.earlier.take() {
            Some(earlier) => (Some(earlier.response), earlier.whole, earlier.belongs_to == here),
            None => (None, None, false),
        };
        if let Some(native) = last.as_ref().and_then(|last| last.reading().native_spill_over()) {
            self.native_spill_over(native);
        }
        let facts = Facts {
            reason,
            attempts: self.attempts,
            waited: self.waited,
            never_sent: last.is_none() && !self.unclear,
            last,
            is_about_last,
            expected: expected.map(|wait| (wait, clock::wall_clock())),
            possibly_processed: self.unclear,
            legs,
            settings: self.settings.take(),
        };
        let signal = SpillOver::new(facts, request);
        self.report.lock().spill_over = Some(signal.clone());
        let Some(peeked) = whole else {
            let error = error_chain::raise(signal);
            return Err(match self.replaced {
                true => error_chain::attach(error, RetryConflict::replaced_request()),
                false => error,
            });
        };
        let mut response = peeked.into_response();
        response.extensions_mut().insert(signal);
        response.extensions_mut().insert(self.report.clone());
        Ok(response)
    }
}
