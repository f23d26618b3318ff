//! How a decision is told, and how a call ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use reqwest::{Request, Response};
use reqwest_middleware::Result;

use super::call::LogicalCall;
use super::entry::{self, InBody};
use super::sent::Sent;
use crate::body::hold;
use crate::clock;
use crate::decision::{Decision, Reason};
use crate::error_chain;
use crate::gate::{Ledger, Permit};
use crate::observe::{self, AttemptReport, DecisionEvent};
use crate::ownership::RetryConflict;
use crate::policy::OnSpill;
use crate::reading::{Hint, NativeSpillOver, Reading, proxy_attempts};
use crate::spill::SpillOver;
use crate::usage::UsageScanner;

impl LogicalCall<'_> {
    /// Tells the report, tracing, the metrics and the observer about a decision.
    pub(super) fn tell(&self, sent: &Sent, decision: &Decision, at: Instant) {
        let reading = sent.reading();
        let hint = reading.and_then(Reading::hint);
        let (wait, raw_wait) = match decision {
            Decision::Wait { until, wait, .. } => (Some(until.saturating_duration_since(at)), Some(*wait)),
            Decision::Admit | Decision::SpillOver(_) => (None, hint.map(Hint::wait)),
        };
        let event = DecisionEvent {
            reason: if let Decision::SpillOver(reason) = decision { Some(*reason) } else { None },
            status: sent.status(),
            failure: sent.failure(),
            raw_wait,
            wait,
            source: hint.map(Hint::source),
            request_id: reading.and_then(Reading::request_id),
            ..self.event(decision)
        };
        self.emit(&event);
        self.report.decided(AttemptReport {
            status: event.status,
            failure: event.failure,
            request_id: event.request_id.map(str::to_owned),
            hint: hint.cloned(),
            decision: decision.clone(),
            wait,
        });
    }

    /// Tells of a wait at the gate, unless it is the one that a refusal has been told with.
    pub(super) fn tell_queued(&self, expected: Duration) {
        if self.leg_attempts() == 0 {
            let wait = Some(expected);
            self.emit(&DecisionEvent { decision: observe::WAIT, wait, ..self.event(&Decision::Admit) });
        }
    }

    fn event(&self, decision: &Decision) -> DecisionEvent<'_> {
        let (call, host) = self.seen_as.as_deref().map_or((0, ""), |(call, host)| (*call, host));
        DecisionEvent {
            call,
            host,
            decision: observe::name(decision),
            reason: None,
            attempt: self.attempts,
            status: None,
            failure: None,
            raw_wait: None,
            wait: None,
            source: None,
            request_id: None,
        }
    }

    fn emit(&self, event: &DecisionEvent<'_>) {
        if !self.is_probe {
            observe::tell(event, self.shared.observer.as_ref());
        }
    }

    /// Takes in a success. Its body is to hold the account.
    #[inline]
    pub(super) fn succeeded(
        &mut self,
        response: &Response,
        mut permit: Option<Permit>,
    ) -> Option<Arc<Ledger>> {
        let mut reading = self.read_success(response);
        self.note_proxy(match &reading {
            Some(reading) => reading.proxy_attempts,
            None => proxy_attempts(response.headers()),
        });
        if observe::is_heard(self.shared.observer.as_ref()) {
            self.emit(&DecisionEvent {
                status: Some(response.status()),
                request_id: reading.as_ref().and_then(Reading::request_id),
                ..self.event(&Decision::Admit)
            });
        }
        self.run.succeeded();
        self.note(Some(false));
        self.arrived(response.status(), reading.as_ref());
        observe::close(self.span.as_deref(), self.attempts, &Decision::Admit);
        if let Some(permit) = &mut permit {
            entry::taken(permit, reading.as_ref(), clock::now());
        }
        let request_id = reading.as_mut().and_then(|reading| reading.request_id.take());
        let ledger = permit.map(|permit| Arc::new(Ledger::new(permit)));
        self.report.succeeded(response.status(), request_id, ledger.clone());
        ledger
    }

    /// Gives the outcome to the caller as it is; its body holds the permit.
    pub(super) fn hand_on(&mut self, sent: Sent, permit: Option<Permit>) -> Result<Response> {
        if let Some(status) = sent.status() {
            self.arrived(status, sent.reading());
        }
        let response = match sent {
            Sent::Unread(response) => response,
            Sent::Read(read) => read.0.into_response(),
            Sent::Failed(error) => return Err(error),
            Sent::CutOff => return self.spill_over(Reason::BudgetExceeded, Sent::CutOff, None, None),
        };
        let ledger = permit.map(|permit| Arc::new(Ledger::new(permit)));
        if let Some(ledger) = &ledger {
            self.report.holds(Arc::clone(ledger));
        }
        Ok(self.finish(response, ledger))
    }

    /// Lets the body hold on to the account, and puts the report in.
    #[inline]
    pub(super) fn finish(&self, mut response: Response, ledger: Option<Arc<Ledger>>) -> Response {
        response.extensions_mut().insert(self.report.clone());
        let Some(ledger) = ledger else { return response };
        let usage = self.shared.settle_from_usage;
        let media = usage.then(|| response.headers().get(http::header::CONTENT_TYPE)).flatten();
        let scanner = UsageScanner::for_content_type(media).map(Box::new);
        hold(response, InBody::new(ledger, scanner))
    }

    /// Gives the call back that the gate does not let go in time; with what came of its last attempt, if any.
    pub(super) fn turned_away(
        &mut self,
        reason: Reason,
        wait: Option<Duration>,
        request: Request,
    ) -> Result<Response> {
        let decision = Decision::SpillOver(reason);
        observe::close(self.span.as_deref(), self.attempts, &decision);
        self.run.gave_up();
        self.emit(&DecisionEvent { reason: Some(reason), raw_wait: wait, ..self.event(&decision) });
        let expected = wait.map(|wait| (wait, clock::wall_clock()));
        if let Some(last) = self.last.take() {
            return self.spill_over(reason, *last, Some(request), expected);
        }
        let mut signal = SpillOver::unsent(reason, self.attempts, self.waited, request, expected);
        let legs = self.finished_legs();
        self.report.went(legs.clone());
        signal.went(legs);
        self.report.spilled_over(signal.clone());
        Err(error_chain::raise(signal))
    }

    /// Tells of a service that spilled the call over by itself, or tried to.
    pub(super) fn native_spill_over(&self, native: &NativeSpillOver) {
        self.report.spilled_over_natively(native);
        if native.spilled_over && !self.is_probe {
            self.shared.native_spill_overs.fetch_add(1, Ordering::Relaxed);
            observe::native_spill_over();
        }
    }

    /// Gives the call up with what came of its last attempt, with the request where there is a copy, and with the wait that
    /// the gate foresees, and from when.
    pub(super) fn spill_over(
        &mut self,
        reason: Reason,
        sent: Sent,
        spare: Option<Request>,
        expected: Option<(Duration, SystemTime)>,
    ) -> Result<Response> {
        let legs = self.finished_legs();
        if let Some(native) = sent.reading().and_then(Reading::native_spill_over) {
            self.native_spill_over(native);
        }
        let (signal, response) = match sent {
            Sent::Read(read) => {
                let (peeked, reading) = *read;
                let (headers, text) = (peeked.head().headers.clone(), peeked.text().clone());
                let signal =
                    SpillOver::after_response(reason, self.attempts, self.waited, reading, headers, text);
                (signal, Some(peeked))
            }
            // The error of another layer is the caller's as it is.
            Sent::Failed(error) => return Err(error),
            Sent::Unread(_) | Sent::CutOff => {
                (SpillOver::without_response(reason, self.attempts, self.waited), None)
            }
        };
        let mut signal = signal.knowing(self.unclear, expected);
        self.report.went(legs.clone());
        signal.went(legs);
        signal.keep(spare);
        self.report.spilled_over(signal.clone());
        match (self.shared.policy.on_spill(), response) {
            (OnSpill::Response, Some(peeked)) => {
                let mut response = peeked.into_response();
                response.extensions_mut().insert(signal);
                response.extensions_mut().insert(self.report.clone());
                Ok(response)
            }
            (OnSpill::Error | OnSpill::Response, _) if self.replaced => {
                Err(error_chain::attach(error_chain::raise(signal), RetryConflict::replaced_request()))
            }
            (OnSpill::Error | OnSpill::Response, _) => Err(error_chain::raise(signal)),
        }
    }
}
