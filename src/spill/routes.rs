//! The routes of an admission layer: the deployments that its calls may spill to, checked against each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Request, Url};
use reqwest_middleware::ClientWithMiddleware;

use super::PRIMARY;
use super::circuit::{Circuits, FailOver, LONGEST};
use super::error::{RouteError, RouteProblem};
use super::route::Deployment;
use super::router::Router;
use super::target::{Target, checked_url};
use super::transport;
use crate::credentials::strip_url;
use crate::gate::ScopeKey;
use crate::ownership::Guard;
use crate::policy::written;

/// The settings, before they are checked.
pub(crate) struct RouteSettings {
    pub(crate) deployments: Vec<Deployment>,
    pub(crate) primary: Option<String>,
    pub(crate) router: Option<Arc<dyn Router>>,
    pub(crate) failed_waits: Option<u32>,
    pub(crate) reserve: Option<Duration>,
    pub(crate) fail_over: Option<FailOver>,
}

/// The most deployments: one bit each.
const MOST: usize = 64;

impl RouteSettings {
    /// Checks everything. `budget` is the policy's; `guard` keeps attempts with the targets' clients from being repeated.
    pub(crate) fn build(self, budget: Duration, guard: &Guard) -> Result<Option<Arc<Routes>>, RouteError> {
        let fault = |problem| RouteError::new(PRIMARY, problem);
        if self.deployments.is_empty() {
            let asked = self.primary.is_some()
                || self.router.is_some()
                || self.failed_waits.is_some()
                || self.reserve.is_some()
                || self.fail_over.is_some();
            return if asked { Err(fault(RouteProblem::NoDeployment)) } else { Ok(None) };
        }
        let primary = self.primary.as_ref().ok_or_else(|| fault(RouteProblem::NoPrimary))?;
        let primary = checked_url(primary).ok_or_else(|| fault(RouteProblem::Url))?;
        if let Some(reserve) = self.reserve.filter(|reserve| *reserve >= budget) {
            let value = format!("{} of {}", written(reserve), written(budget));
            return Err(fault(RouteProblem::Reserve).value(value));
        }
        let by_weight = self.deployments.iter().any(|deployment| deployment.weight.is_some());
        if let Some(without) = self.deployments.iter().find(|deployment| deployment.weight.is_none())
            && by_weight
        {
            return Err(RouteError::new(&without.name, RouteProblem::MixedWeights));
        }
        let targets = targets(self.deployments, &primary, guard)?;
        let end = primary.as_str().find(['?', '#']).unwrap_or(primary.as_str().len());
        Ok(Some(Arc::new(Routes {
            primary: primary.as_str().get(..end).unwrap_or_default().trim_end_matches('/').into(),
            recent: targets.iter().map(|_| Recent::default()).collect(),
            targets: targets.into(),
            router: self.router,
            by_weight,
            failed_waits: self.failed_waits.unwrap_or(2),
            reserve: self.reserve,
            fail_over: self.fail_over.unwrap_or_default(),
            refusals: Circuits::new(LONGEST),
            failures: Circuits::new(LONGEST),
            primary_recent: Recent::default(),
        })))
    }
}

/// The deployments, each checked and against the others.
fn targets(deployments: Vec<Deployment>, primary: &Url, guard: &Guard) -> Result<Vec<Target>, RouteError> {
    let mut targets: Vec<Target> = Vec::with_capacity(deployments.len());
    let mut plain: Option<ClientWithMiddleware> = None;
    for deployment in deployments {
        let mut target = deployment.check(primary, || {
            plain = plain.take().or_else(|| transport::plain().ok());
            plain.clone()
        })?;
        let fault = |problem| RouteError::new(&target.name, problem);
        if targets.iter().any(|other| other.name == target.name) {
            return Err(fault(RouteProblem::SameName));
        }
        if targets.iter().any(|other| other.leads_where(&target)) {
            return Err(fault(RouteProblem::SamePlace));
        }
        if !target.has_client && target.rewrite.stays_at(primary) {
            return Err(fault(RouteProblem::IsPrimary));
        }
        if targets.len() >= MOST {
            return Err(fault(RouteProblem::TooMany));
        }
        target.client = target.client.take().map(|client| transport::guarded(client, guard.clone()));
        targets.push(target);
    }
    Ok(targets)
}

/// Where the calls of an admission layer may spill to.
pub(crate) struct Routes {
    pub(crate) targets: Box<[Target]>,
    /// The beginning of the URLs that are routed.
    primary: Box<str>,
    pub(crate) router: Option<Arc<dyn Router>>,
    pub(crate) by_weight: bool,
    /// How many honoured waits in a row may be in vain.
    pub(crate) failed_waits: u32,
    reserve: Option<Duration>,
    pub(crate) fail_over: FailOver,
    /// The scopes of the primary that refused a call which then left.
    pub(crate) refusals: Circuits<ScopeKey>,
    /// Whether the primary fails.
    pub(crate) failures: Circuits<()>,
    pub(crate) primary_recent: Recent,
    recent: Box<[Recent]>,
}

impl Routes {
    /// Whether calls to `url` are routed.
    pub(crate) fn covers(&self, url: &Url) -> bool {
        if url.username().is_empty() && url.password().is_none() {
            return self.begins(url.as_str());
        }
        let mut bare = url.clone();
        strip_url(&mut bare, |_| true);
        self.begins(bare.as_str())
    }

    fn begins(&self, url: &str) -> bool {
        let rest = url.strip_prefix(&*self.primary);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
    }

    /// The part of a call's budget that is kept for the `next` target: twice the time that it usually takes, so that the
    /// answer after the last wait may take the other half, and at least a tenth. Half of the budget for a target that has
    /// not answered yet, or takes longer than the budget anyway.
    pub(crate) fn reserve(&self, budget: Duration, next: Option<usize>) -> Duration {
        let usual = || match self.recent(next).usual_time() {
            Some(time) if time < budget => {
                time.saturating_mul(2).max(budget.checked_div(10).unwrap_or_default())
            }
            _ => budget.checked_div(2).unwrap_or_default(),
        };
        self.reserve.unwrap_or_else(usual).min(budget)
    }

    /// The least time to begin with at a target: half of what is kept for it, unless nothing is known of it.
    pub(crate) fn least(&self, reserve: Duration, budget: Duration, next: Option<usize>) -> Duration {
        if self.reserve.is_none() && self.recent(next).usual_time().is_none() {
            return budget.checked_div(20).unwrap_or_default();
        }
        reserve.checked_div(2).unwrap_or_default()
    }

    /// What the answers of a deployment were like of late.
    pub(crate) fn recent(&self, target: Option<usize>) -> &Recent {
        target.and_then(|index| self.recent.get(index)).unwrap_or(&self.primary_recent)
    }

    /// Whether a target can take the request, as far as can be told beforehand: it has such a path, its body can be
    /// mapped, and it is not where the request would go anyway.
    pub(crate) fn can_take(target: &Target, request: &Request) -> bool {
        let elsewhere = || {
            let credential = crate::scope::credential(request);
            let same = match (target.rewrite.deployment.credential.identity(), credential.as_deref()) {
                (Some(there), Some(here)) => there == here,
                (Some(_), None) => false,
                // A function may set any, and a client of the user's may add any.
                (None, _) => target.rewrite.deployment.credential.is_none() && !target.has_client,
            };
            !(same && target.rewrite.stays_at(request.url()))
        };
        target.rewrite.destination(request.url()).is_some()
            && target.rewrite.takes_body(request.body())
            && elsewhere()
    }
}

/// What a deployment's answers were like of late.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// The last 32: a bit each, set for a refusal, and how many there were.
    refusals: AtomicU64,
    /// The time that it takes to answer, in microseconds; 0 if it never did.
    time: AtomicU64,
}

const WINDOW: u32 = 32;

impl Recent {
    pub(crate) fn record(&self, refused: bool) {
        let next = |old: u64| {
            let count = (old >> WINDOW).saturating_add(1).min(u64::from(WINDOW));
            Some((count << WINDOW) | (((old << 1) | u64::from(refused)) & u64::from(u32::MAX)))
        };
        // It cannot fail, since there always is a next value.
        let _ = self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Takes note of the time that one answer took: a longer one counts at once, shorter ones by an eighth each.
    pub(crate) fn took(&self, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let next = |old: u64| Some(old.saturating_sub(old.saturating_sub(time).div_ceil(8)).max(time));
        let _ = self.time.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// The time that it usually takes to answer; `None` if it never did.
    pub(crate) fn usual_time(&self) -> Option<Duration> {
        let time = self.time.load(Ordering::Relaxed);
        (time > 0).then(|| Duration::from_micros(time))
    }

    /// The share of refusals, 0 if nothing is known.
    pub(crate) fn refusals(&self) -> f64 {
        let bits = self.refusals.load(Ordering::Relaxed);
        let refused = (bits & u64::from(u32::MAX)).count_ones();
        let count = u32::try_from(bits >> WINDOW).unwrap_or(WINDOW);
        f64::from(refused) / f64::from(count.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_time_follows_long_answers_at_once_and_short_ones_slowly() {
        let (recent, ms) = (Recent::default(), Duration::from_millis);
        assert_eq!(recent.usual_time(), None);
        recent.took(ms(100));
        recent.took(ms(800));
        assert_eq!(recent.usual_time(), Some(ms(800)));
        recent.took(Duration::ZERO);
        assert_eq!(recent.usual_time(), Some(ms(700)));
        (0..200).for_each(|_| recent.took(ms(100)));
        assert_eq!(recent.usual_time(), Some(ms(100)));
    }

    #[test]
    fn the_share_of_refusals_is_that_of_the_last_32() {
        let recent = Recent::default();
        assert_eq!(recent.refusals(), 0.0);
        recent.record(true);
        recent.record(false);
        assert_eq!(recent.refusals(), 0.5);
        (0..24).for_each(|_| recent.record(false));
        (0..8).for_each(|_| recent.record(true));
        assert_eq!(recent.refusals(), 0.25);
        (0..100).for_each(|_| recent.record(true));
        assert_eq!(recent.refusals(), 1.0);
    }
}
