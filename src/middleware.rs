//! [`Admission`], the middleware: send, read, decide, then wait or return.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};
use tracing::{Instrument as _, Span};

use crate::body::Peeked;
use crate::budget::{LatencyBudget, RetryBudget};
use crate::clock::{self, Chance};
use crate::decision::{Call, Decision, Failure, Outcome, Reason, decide};
use crate::observe::{self, AttemptReport, CallReport, DecisionEvent, Observer};
use crate::ownership::{AttemptMark, Probe, RetryConflict, Run, invites_retry, seal};
use crate::policy::{AdmissionPolicy, AttemptTimeout, OnSpill, RetryOwnership};
use crate::reading::{MAX_BODY, Profile, Reading};
use crate::spill::SpillOver;

mod builder;
mod replay;

pub use builder::{AdmissionBuilder, BuildError};

/// Admits calls as the server's capacity allows: a [`reqwest_middleware::Middleware`].
///
/// It sends, reads what the response says about capacity, decides, and then waits on tokio's clock or returns. Put it
/// outermost, so that a wait covers all other layers; see the front page for the order with others.
///
/// Cloning is cheap, and clones share the retry budget.
///
/// # Cancel safety
///
/// Dropping the future of a call at any point ends it: nothing is sent after the drop and no task or timer is left.
///
/// # Panics
///
/// None of its own; tokio's timer must be running, which `#[tokio::main]` and `enable_all()` see to.
///
/// ```
/// use reqwest_admission::Admission;
///
/// let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
///     .with(Admission::default())
///     .build();
/// ```
#[derive(Debug, Clone)]
pub struct Admission(Arc<Shared>);

struct Shared {
    /// Whether a guard stands at the inner end, so that attempts need no seal.
    guarded: bool,
    policy: AdmissionPolicy,
    profile: Option<&'static Profile>,
    chance: Chance,
    observer: Option<Arc<dyn Observer>>,
    retry_budget: Mutex<RetryBudget>,
}

impl Admission {
    /// A builder for anything but the defaults.
    #[must_use]
    pub fn builder() -> AdmissionBuilder {
        AdmissionBuilder::default()
    }
}

impl Default for Admission {
    fn default() -> Self {
        AdmissionBuilder::default().with_policy(AdmissionPolicy::default())
    }
}

#[async_trait]
impl Middleware for Admission {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let call = LogicalCall::begin(&self.0, &mut request, extensions)?;
        let span = observe::call_span(request.method(), request.url().host_str().unwrap_or_default());
        call.run(request, extensions, next, &span).instrument(span.clone()).await
    }
}

/// One call of the caller's, over all its attempts.
struct LogicalCall<'a> {
    shared: &'a Shared,
    report: CallReport,
    run: Run,
    /// Only where somebody asks for it.
    host: Option<Box<str>>,
    deadline: Instant,
    cut_off: Option<Instant>,
    idempotent: bool,
    attempts: u32,
    waited: Duration,
}

/// What came of one attempt.
enum Sent {
    /// A response that is not worth a reading.
    Plain(Response),
    Refused(Box<(Peeked, Reading)>),
    Failed(Error),
    /// Cut off at the deadline.
    CutOff,
}

impl<'a> LogicalCall<'a> {
    fn begin(shared: &'a Shared, request: &mut Request, extensions: &mut Extensions) -> Result<Self> {
        let policy = &shared.policy;
        let now = clock::now();
        let probe = extensions.get::<Probe>();
        let budget = match probe {
            // Whatever the refusal advises, the check wants to see only whether it is sent again.
            Some(_) => LatencyBudget::new(Duration::ZERO),
            None => extensions.get::<LatencyBudget>().copied().unwrap_or(policy.latency_budget()),
        };
        match probe {
            Some(probe) => probe.run(shared.guarded || policy.retry_ownership() == RetryOwnership::Enforce),
            None => shared.lock_retry_budget().deposit(now),
        }
        let report = extensions.get_or_insert_with(CallReport::new).clone();
        if let Some(conflict) = RetryConflict::announced(request.headers()) {
            shared.conflict(conflict, &report);
        }
        let (run, deadline, attempts, conflict) =
            Run::enter(extensions, now, budget.deadline(now), policy.max_attempts());
        if let Some(conflict) = conflict {
            shared.conflict(conflict.clone(), &report);
            if policy.retry_ownership() == RetryOwnership::Enforce {
                return Err(Error::middleware(conflict));
            }
        }
        // A budget of zero says "never wait"; taken as a timeout it would say "never send".
        let clamped =
            policy.attempt_timeout() == AttemptTimeout::ClampToBudget && !budget.duration().is_zero();
        Ok(Self {
            shared,
            run,
            report,
            host: shared.observer.is_some().then(|| request.url().host_str().unwrap_or_default().into()),
            deadline,
            cut_off: clamped.then_some(deadline),
            idempotent: replay::is_idempotent(request, policy, &shared.chance),
            attempts,
            waited: Duration::ZERO,
        })
    }

    async fn run(
        mut self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
        span: &Span,
    ) -> Result<Response> {
        let mut request = request;
        loop {
            let may_repeat = self.attempts.saturating_add(1) < self.shared.policy.max_attempts();
            let spare = if may_repeat { request.try_clone() } else { None };
            let sent = self.send(request, extensions, next.clone()).await;
            let at = clock::now();
            let sent = self.read(sent, at).await;
            let decision = self.decide(&sent, spare.is_some() || !may_repeat, at);
            self.tell(&sent, &decision, at);
            self.remember(&sent, &decision);
            match (decision, spare) {
                (Decision::Wait { until, .. }, Some(spare)) => {
                    // What is not read by now is not worth keeping its connection during the wait.
                    drop(sent);
                    self.wait(until).await;
                    request = spare;
                }
                (Decision::SpillOver(reason), _) => {
                    observe::close(span, self.attempts, &Decision::SpillOver(reason));
                    return self.spill_over(reason, sent);
                }
                (decision, _) => {
                    observe::close(span, self.attempts, &decision);
                    return self.hand_on(sent);
                }
            }
        }
    }

    async fn send(&mut self, mut request: Request, extensions: &mut Extensions, next: Next<'_>) -> Sent {
        self.attempts = self.attempts.saturating_add(1);
        self.run.attempt_started();
        self.report.sent();
        let (mut mark, mut sealed) = (None, None);
        if self.shared.guarded {
            extensions.insert(mark.insert(AttemptMark::new(&self.report)).clone());
        } else if self.shared.policy.retry_ownership() == RetryOwnership::Enforce {
            sealed = Some(seal(&mut request));
        }
        let attempt = next.run(request, extensions);
        let outcome = match self.cut_off {
            Some(deadline) => clock::until(deadline, attempt).await,
            None => Some(attempt.await),
        };
        match outcome {
            Some(Ok(response)) => {
                if let Some(conflict) = RetryConflict::by_proxy(response.headers()) {
                    self.shared.conflict(conflict, &self.report);
                }
                Sent::Plain(response)
            }
            Some(Err(error)) => Sent::Failed(match (mark, sealed) {
                (Some(mark), _) => mark.explain(error),
                (None, Some(sealed)) => {
                    let (error, conflict) = sealed.explain(error);
                    if let Some(conflict) = conflict {
                        self.shared.conflict(conflict, &self.report);
                    }
                    error
                }
                (None, None) => error,
            }),
            None => Sent::CutOff,
        }
    }

    /// Reads a response that may be a refusal, its body included.
    async fn read(&self, sent: Sent, at: Instant) -> Sent {
        let response = match sent {
            Sent::Plain(response) if response.status().as_u16() >= 400 => response,
            other => return other,
        };
        let received_at = clock::wall_clock();
        let profile =
            self.shared.profile.unwrap_or_else(|| Profile::for_host(response.url().host_str().unwrap_or("")));
        let peeked = if profile.inspects_body_of(response.status()) {
            let patience = at.checked_add(self.shared.policy.body_read_timeout()).unwrap_or(at);
            Peeked::read(response, MAX_BODY, patience).await
        } else {
            Peeked::unread(response)
        };
        let head = peeked.head();
        let reading =
            Reading::with_profile(profile, head.status, &head.headers, Some(peeked.text()), received_at);
        Sent::Refused(Box::new((peeked, reading)))
    }

    fn decide(&self, sent: &Sent, replayable: bool, at: Instant) -> Decision {
        let outcome = match sent {
            Sent::Plain(_) => return Decision::Admit,
            Sent::CutOff => return Decision::SpillOver(Reason::BudgetExceeded),
            Sent::Refused(refused) => Outcome::Response(&refused.1),
            Sent::Failed(error) => Outcome::Failure(replay::failure(error)),
        };
        let mut budget = self.shared.lock_retry_budget();
        let call = Call::new(self.deadline)
            .attempts(self.attempts)
            .idempotent(self.idempotent)
            .replayable(replayable)
            .retry_budget_open(budget.allows(at));
        let decision = match decide(&self.shared.policy, outcome, &call, at, self.shared.chance.draw()) {
            // Reading the refusal's body took what was left: a send now would be cut off at once.
            Decision::Wait { .. } if clock::now() >= self.deadline => {
                Decision::SpillOver(Reason::BudgetExceeded)
            }
            decision => decision,
        };
        if let Decision::Wait { charged: true, .. } = decision {
            let _ = budget.withdraw(at);
        }
        decision
    }

    /// Keeps for re-runs by layers outside what this attempt came to.
    fn remember(&self, sent: &Sent, decision: &Decision) {
        match (sent, decision) {
            (_, Decision::SpillOver(_)) => self.run.gave_up(),
            (Sent::Plain(_), _) => self.run.succeeded(),
            (Sent::Refused(refused), _) if !invites_retry(refused.1.status()) => self.run.attempt_excused(),
            (Sent::Failed(error), _) if replay::failure(error) == Failure::Permanent => {
                self.run.attempt_excused()
            }
            (Sent::Refused(_) | Sent::Failed(_) | Sent::CutOff, _) => {}
        }
    }

    async fn wait(&mut self, until: Instant) {
        let start = clock::now();
        clock::sleep_until(until).await;
        let waited = clock::since(start);
        self.waited = self.waited.saturating_add(waited);
        self.report.waited_for(waited);
    }

    fn tell(&self, sent: &Sent, decision: &Decision, at: Instant) {
        let (status, failure, reading) = match sent {
            Sent::Plain(response) => (Some(response.status()), None, None),
            Sent::Refused(refused) => (Some(refused.1.status()), None, Some(&refused.1)),
            Sent::Failed(error) => (None, Some(replay::failure(error)), None),
            Sent::CutOff => (None, Some(Failure::Unknown), None),
        };
        let (wait, raw_wait) = match decision {
            Decision::Wait { until, wait, .. } => (Some(until.saturating_duration_since(at)), Some(*wait)),
            Decision::Admit | Decision::SpillOver(_) => {
                (None, reading.and_then(Reading::hint).map(|hint| hint.wait()))
            }
        };
        let event = DecisionEvent {
            host: self.host.as_deref().unwrap_or_default(),
            decision: observe::name(decision),
            reason: if let Decision::SpillOver(reason) = decision { Some(*reason) } else { None },
            attempt: self.attempts,
            status,
            failure,
            raw_wait,
            wait,
            source: reading.and_then(Reading::hint).map(|hint| hint.source()),
            request_id: reading.and_then(Reading::request_id),
        };
        observe::tell(&event, self.shared.observer.as_ref());
        self.report.decided(AttemptReport {
            status,
            failure,
            request_id: event.request_id.map(str::to_owned),
            hint: reading.and_then(Reading::hint).cloned(),
            decision: decision.clone(),
            wait,
        });
    }

    /// Gives the outcome to the caller as it is.
    fn hand_on(self, sent: Sent) -> Result<Response> {
        let mut response = match sent {
            Sent::Plain(response) => response,
            Sent::Refused(refused) => refused.0.into_response(),
            Sent::Failed(error) => return Err(error),
            Sent::CutOff => return self.spill_over(Reason::BudgetExceeded, Sent::CutOff),
        };
        response.extensions_mut().insert(self.report);
        Ok(response)
    }

    fn spill_over(self, reason: Reason, sent: Sent) -> Result<Response> {
        let (signal, response) = match sent {
            Sent::Refused(refused) => {
                let (peeked, reading) = *refused;
                let (headers, text) = (peeked.head().headers.clone(), peeked.text().clone());
                let signal =
                    SpillOver::after_response(reason, self.attempts, self.waited, reading, headers, text);
                (signal, Some(peeked))
            }
            Sent::Failed(error) => return Err(error),
            Sent::Plain(_) | Sent::CutOff => {
                (SpillOver::without_response(reason, self.attempts, self.waited), None)
            }
        };
        self.report.spilled_over(signal.clone());
        match (self.shared.policy.on_spill(), response) {
            (OnSpill::Response, Some(peeked)) => {
                let mut response = peeked.into_response();
                response.extensions_mut().insert(signal);
                response.extensions_mut().insert(self.report);
                Ok(response)
            }
            (OnSpill::Error | OnSpill::Response, _) => Err(Error::middleware(signal)),
        }
    }
}

impl Shared {
    fn conflict(&self, conflict: RetryConflict, report: &CallReport) {
        observe::conflict(&conflict, self.observer.as_ref());
        report.conflicted(conflict);
    }

    fn lock_retry_budget(&self) -> std::sync::MutexGuard<'_, RetryBudget> {
        self.retry_budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("policy", &self.policy)
            .field("profile", &self.profile.map(Profile::name))
            .field("chance", &self.chance)
            .finish_non_exhaustive()
    }
}
