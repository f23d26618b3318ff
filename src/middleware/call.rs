//! One logical call: its state over all its attempts, and how it begins. Its loop is in `run`.

use std::time::{Duration, Instant};

use http::{Extensions, HeaderName};
use reqwest::Request;
use reqwest_middleware::Result;
use tracing::Span;

use super::entry::Entry;
use super::outcome::{Earlier, Waiting};
use super::replay::{self, Failed};
use super::route::Route;
use super::shared::Shared;
use crate::budget::LatencyBudget;
use crate::clock;
use crate::gate::ScopeKey;
use crate::observe::{self, CallReport};
use crate::ownership::{Entered, Probe, RetryConflict, Run};
use crate::policy::{AttemptTimeout, RetryOwnership};
use crate::request::CallSettings;
use crate::spill::Trial;

static STAINLESS_RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");

/// One call of the caller's, over all its attempts.
pub(super) struct LogicalCall<'a> {
    pub(super) shared: &'a Shared,
    pub(super) report: CallReport,
    pub(super) run: Run,
    pub(super) entry: Option<Entry<'a>>,
    /// The route over other deployments, if there are any.
    pub(super) route: Option<Box<Route<'a>>>,
    /// The number and the host that an observer knows the call by, if there is an observer.
    pub(super) seen_as: Option<Box<(u64, Box<str>)>>,
    /// Whether this is a start-up check, which nobody hears of.
    pub(super) is_probe: bool,
    /// The deadline of the leg that the call is on; without a route, of the call.
    pub(super) deadline: Instant,
    pub(super) cut_off: Option<Instant>,
    pub(super) idempotent: bool,
    /// What the call set for itself, if anything.
    pub(super) settings: Option<Box<CallSettings>>,
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
    /// Held by the call that asks an account whose quota was exhausted.
    pub(super) quota_trial: Option<Trial<'a, ScopeKey>>,
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
        let settings = CallSettings::of(extensions);
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
                settings.budget().unwrap_or(policy.latency_budget())
            }
        };
        let announced = request.headers().get(&STAINLESS_RETRY_COUNT).and_then(RetryConflict::announced);
        let max_attempts = settings.max_attempts().unwrap_or(policy.max_attempts());
        let entered = Run::enter(extensions, now, budget.deadline(now), max_attempts);
        let Entered { run, report, deadline, attempts, conflict } = entered;
        shared.own(announced, conflict, &report, extensions)?;
        // A budget of zero says "never wait"; taken as a timeout it would say "never send".
        let clamped =
            policy.attempt_timeout() == AttemptTimeout::ClampToBudget && !budget.duration().is_zero();
        let idempotent = replay::is_idempotent(request, policy, &shared.chance) || settings.is_repeatable();
        let routes = shared.routes.as_ref().filter(|routes| !is_probe && routes.covers(request.url()));
        let route = routes.map(|routes| Box::new(Route::new(routes, now, deadline, budget.duration())));
        let seen_as = || Box::new((shared.next_call(), request.url().host_str().unwrap_or_default().into()));
        Ok(Self {
            shared,
            run,
            entry: if is_probe { None } else { Entry::new(shared, request, extensions) },
            report,
            seen_as: shared.observer.is_some().then(seen_as),
            is_probe,
            deadline: route.as_ref().map_or(deadline, |route| route.early_deadline()),
            route,
            cut_off: clamped.then_some(deadline),
            idempotent,
            settings: (!settings.is_empty()).then(|| Box::new(settings)),
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
            quota_trial: None,
            asked_again: false,
            span: observe::call_span(request),
        })
    }
}
