//! The routes of an admission layer: the deployments that its calls may spill to, checked against each other.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Request, Url};

use super::PRIMARY;
use super::away::Away;
use super::error::{RouteError, RouteProblem};
use super::route::{Deployment, Target, checked_url};
use super::router::Router;

/// The settings, before they are checked.
#[derive(Default, Clone)]
pub(crate) struct RouteSettings {
    pub(crate) deployments: Vec<Deployment>,
    pub(crate) primary: Option<String>,
    pub(crate) router: Option<Arc<dyn Router>>,
    pub(crate) failed_waits: Option<u32>,
    pub(crate) reserve: Option<Duration>,
}

/// The most deployments: one bit each.
const MOST: usize = 64;

impl RouteSettings {
    pub(crate) fn build(self) -> Result<Option<Arc<Routes>>, RouteError> {
        let fault = |name: &str, problem| RouteError { deployment: name.to_owned(), problem, value: None };
        if self.deployments.is_empty() {
            let asked = self.primary.is_some() || self.router.is_some();
            return if asked { Err(fault(PRIMARY, RouteProblem::NoDeployment)) } else { Ok(None) };
        }
        let weighted = self.deployments.iter().filter(|deployment| deployment.weight.is_some()).count();
        if let Some(without) = self.deployments.iter().find(|deployment| deployment.weight.is_none())
            && weighted > 0
        {
            return Err(fault(&without.name, RouteProblem::MixedWeights));
        }
        let primary = match &self.primary {
            Some(url) => Some(checked_url(url).ok_or_else(|| fault(PRIMARY, RouteProblem::Url))?),
            None => None,
        };
        let mut targets: Vec<Target> = Vec::with_capacity(self.deployments.len());
        for deployment in self.deployments {
            let target = deployment.check()?;
            if targets.iter().any(|other| other.name == target.name) {
                return Err(fault(&target.name, RouteProblem::SameName));
            }
            if targets.iter().any(|other| other.rewrite.leads_where(&target.rewrite)) {
                return Err(fault(&target.name, RouteProblem::SamePlace));
            }
            if primary.as_ref().is_some_and(|primary| target.rewrite.stays_at(primary)) {
                return Err(fault(&target.name, RouteProblem::IsPrimary));
            }
            targets.push(target);
        }
        if let Some(target) = targets.get(MOST) {
            return Err(fault(&target.name, RouteProblem::TooMany));
        }
        Ok(Some(Arc::new(Routes {
            primary: primary.map(|url| {
                let end = url.as_str().find(['?', '#']).unwrap_or(url.as_str().len());
                url.as_str().get(..end).unwrap_or_default().trim_end_matches('/').into()
            }),
            recent: targets.iter().map(|_| Recent::default()).collect(),
            targets: targets.into(),
            router: self.router,
            by_weight: weighted > 0,
            failed_waits: self.failed_waits.unwrap_or(2),
            reserve: self.reserve,
            away: Away::default(),
            primary_recent: Recent::default(),
        })))
    }
}

/// Where the calls of an admission layer may spill to.
pub(crate) struct Routes {
    pub(crate) targets: Box<[Target]>,
    /// The beginning of the URLs that are routed; all where none is given.
    primary: Option<Box<str>>,
    pub(crate) router: Option<Arc<dyn Router>>,
    pub(crate) by_weight: bool,
    /// How many honoured waits in a row may be in vain.
    pub(crate) failed_waits: u32,
    reserve: Option<Duration>,
    pub(crate) away: Away,
    pub(crate) primary_recent: Recent,
    recent: Box<[Recent]>,
}

impl Routes {
    /// Whether calls to `url` are routed.
    pub(crate) fn covers(&self, url: &Url) -> bool {
        let Some(primary) = &self.primary else { return true };
        url.as_str()
            .strip_prefix(&**primary)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
    }

    /// The part of a call's budget that is kept for a spill-over leg.
    pub(crate) fn reserve(&self, budget: Duration) -> Duration {
        self.reserve.unwrap_or_else(|| budget.checked_div(10).unwrap_or_default()).min(budget)
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
            let same = match (target.rewrite.credential.identity(), credential.as_deref()) {
                (Some(there), Some(here)) => there == here,
                (Some(_), None) => false,
                // One that a function sets may be any; without one it can be told from nothing.
                (None, _) => target.rewrite.credential.is_none(),
            };
            !(same && target.rewrite.stays_at(request.url()))
        };
        target.rewrite.destination(request.url()).is_some()
            && target.rewrite.takes_body(request.body())
            && elsewhere()
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.targets.iter().map(|target| &target.name)).finish()
    }
}

/// The last 32 answers of a deployment: a bit each, set for a refusal, and how many there were.
#[derive(Debug, Default)]
pub(crate) struct Recent(AtomicU64);

const WINDOW: u32 = 32;

impl Recent {
    pub(crate) fn note(&self, refused: bool) {
        let next = |old: u64| {
            let count = (old >> WINDOW).saturating_add(1).min(u64::from(WINDOW));
            Some((count << WINDOW) | (((old << 1) | u64::from(refused)) & u64::from(u32::MAX)))
        };
        // It cannot fail, since there always is a next value.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// The share of refusals, 0 where nothing is known.
    pub(crate) fn refusals(&self) -> f64 {
        let bits = self.0.load(Ordering::Relaxed);
        let refused = (bits & u64::from(u32::MAX)).count_ones();
        let count = u32::try_from(bits >> WINDOW).unwrap_or(WINDOW);
        f64::from(refused) / f64::from(count.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_refusals_is_that_of_the_last_32() {
        let recent = Recent::default();
        assert_eq!(recent.refusals(), 0.0);
        recent.note(true);
        recent.note(false);
        assert_eq!(recent.refusals(), 0.5);
        (0..24).for_each(|_| recent.note(false));
        (0..8).for_each(|_| recent.note(true));
        assert_eq!(recent.refusals(), 0.25);
        (0..100).for_each(|_| recent.note(true));
        assert_eq!(recent.refusals(), 1.0);
    }
}
