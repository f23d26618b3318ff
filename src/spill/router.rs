//! Who decides where a call goes: [`Router`], what it sees, and the default choice.

use std::sync::Arc;
use std::time::Duration;

use crate::decision::Reason;
use crate::gate::Priority;
use crate::jitter::Draw;
use crate::pace::TokenEstimate;

/// What a router may know a call by. Given with `RequestBuilder::with_extension`; no event, metric or header holds it.
///
/// ```
/// use reqwest_admission::spill::CallAttributes;
///
/// let attributes = CallAttributes::new().tenant("contoso").region("swedencentral");
/// assert_eq!(attributes.tenant_name(), Some("contoso"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CallAttributes {
    tenant: Option<Arc<str>>,
    region: Option<Arc<str>>,
}

impl CallAttributes {
    /// No attributes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets for whom the call is.
    #[must_use]
    pub fn tenant(mut self, tenant: &str) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Sets where the call comes from, or where its data must stay.
    #[must_use]
    pub fn region(mut self, region: &str) -> Self {
        self.region = Some(region.into());
        self
    }

    /// For whom the call is.
    #[must_use]
    pub fn tenant_name(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// Where the call comes from, or where its data must stay.
    #[must_use]
    pub fn region_name(&self) -> Option<&str> {
        self.region.as_deref()
    }
}

/// When a router is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Before the primary is asked for anything.
    BeforeSend,
    /// The primary refused the call, and the wait that it asks for fits into the budget.
    WaitFits,
    /// The deployment that the call is with does not take it in time, or not at all: it goes on or is given up.
    Spill,
}

/// What a router sees of a call.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RouteCall<'a> {
    /// When the router is asked.
    pub stage: Stage,
    /// For whom the call is, as [`CallAttributes`] say.
    pub tenant: Option<&'a str>,
    /// Where the call comes from, as [`CallAttributes`] say.
    pub region: Option<&'a str>,
    /// The class of the call.
    pub priority: Priority,
    /// What is left of the call's latency budget.
    pub budget_left: Duration,
    /// How many tokens the call is estimated to take.
    pub estimate: Option<TokenEstimate>,
    /// After how many waits in a row this call was refused again.
    pub failed_waits: u32,
    /// Why the call leaves where it is; only at [`Stage::Spill`].
    pub reason: Option<Reason>,
    /// The wait that the deployment asks for; not at [`Stage::BeforeSend`].
    pub wait: Option<Duration>,
}

/// What a router sees of a deployment.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct DeploymentState<'a> {
    /// The name it was given; `primary` for the primary.
    pub name: &'a str,
    /// The time until its cool-down ends; `None` if it is open.
    pub closed_for: Option<Duration>,
    /// How long a call like this would wait for it now; zero if it can go at once.
    pub expected_wait: Duration,
    /// The share of refusals among its last 32 answers, 0 to 1.
    pub recent_refusals: f64,
    /// Its weight; 1 if it has none.
    pub weight: u32,
}

/// Where a call goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Choice {
    /// The same as without a router.
    Default,
    /// Stays with the deployment that it is with, and waits if need be. At [`Stage::Spill`] the same as `GiveUp`.
    Stay,
    /// Goes to the target at this index of the slice. An index beyond it is `Default`.
    SpillTo(usize),
    /// Is given up, with the signal. At [`Stage::BeforeSend`] the same as `Stay`.
    GiveUp,
}

/// Decides where a call goes.
///
/// A closure `Fn(&RouteCall<'_>, &DeploymentState<'_>, &[DeploymentState<'_>]) -> Choice` is one. `primary` is the
/// deployment that the client asks; `targets` are those that the call may still go to, in the order in which they were
/// given: each is tried at most once per call, and those that cannot take the request are left out. Asked in the
/// task of the call, without any lock held; it should return soon.
///
/// If it panics, the choice is the default one.
///
/// Whatever it says, laws hold: nothing is sent before its deployment's gate lets it, nothing after the deadline, and
/// nothing twice that may not be repeated.
///
/// ```
/// use reqwest_admission::spill::{Choice, DeploymentState, RouteCall};
/// use reqwest_admission::{Admission, Deployment};
///
/// fn by_region(
///     call: &RouteCall<'_>,
///     _primary: &DeploymentState<'_>,
///     targets: &[DeploymentState<'_>],
/// ) -> Choice {
///     match targets.iter().position(|target| call.region == Some(target.name)) {
///         Some(index) if call.reason.is_some() => Choice::SpillTo(index),
///         _ => Choice::Default,
///     }
/// }
/// let admission = Admission::builder()
///     .primary("https://api.example")
///     .spill_to(Deployment::new("eu", "https://eu.example").bearer("0123"))
///     .spill_to(Deployment::new("us", "https://us.example").bearer("4567"))
///     .router(by_region)
///     .build()?;
/// # Ok::<(), reqwest_admission::BuildError>(())
/// ```
pub trait Router: Send + Sync {
    /// Decides about one call.
    fn route(
        &self,
        call: &RouteCall<'_>,
        primary: &DeploymentState<'_>,
        targets: &[DeploymentState<'_>],
    ) -> Choice;
}

impl<F> Router for F
where
    F: Fn(&RouteCall<'_>, &DeploymentState<'_>, &[DeploymentState<'_>]) -> Choice + Send + Sync,
{
    fn route(
        &self,
        call: &RouteCall<'_>,
        primary: &DeploymentState<'_>,
        targets: &[DeploymentState<'_>],
    ) -> Choice {
        self(call, primary, targets)
    }
}

/// The target that takes a spilled call if nobody says otherwise: one that can take it at once, else one that can
/// within the budget, else any, which then says no by itself. Among equals the first, or one by weight.
pub(crate) fn usual_target(
    call: &RouteCall<'_>,
    targets: &[DeploymentState<'_>],
    by_weight: bool,
    draw: Draw,
) -> Option<usize> {
    let is_open = |target: &DeploymentState<'_>| target.expected_wait.is_zero();
    let fits = |target: &DeploymentState<'_>| target.expected_wait <= call.budget_left;
    let pick = |eligible: &dyn Fn(&DeploymentState<'_>) -> bool| {
        if by_weight { drawn(targets, eligible, draw) } else { targets.iter().position(eligible) }
    };
    pick(&is_open).or_else(|| pick(&fits)).or_else(|| pick(&|_| true))
}

/// A target by weight.
fn drawn(
    targets: &[DeploymentState<'_>],
    eligible: &dyn Fn(&DeploymentState<'_>) -> bool,
    draw: Draw,
) -> Option<usize> {
    let weights = || targets.iter().enumerate().filter(|(_, target)| eligible(target));
    let total: f64 = weights().map(|(_, target)| f64::from(target.weight)).sum();
    let mut left = total * draw.get();
    let mut last = None;
    for (index, target) in weights() {
        last = Some(index);
        left -= f64::from(target.weight);
        if left < 0.0 {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(expected_wait: u64, weight: u32) -> DeploymentState<'static> {
        DeploymentState {
            name: "",
            closed_for: None,
            expected_wait: Duration::from_millis(expected_wait),
            recent_refusals: 0.0,
            weight,
        }
    }

    fn call() -> RouteCall<'static> {
        RouteCall {
            stage: Stage::Spill,
            tenant: None,
            region: None,
            priority: Priority::Normal,
            budget_left: Duration::from_secs(1),
            estimate: None,
            failed_waits: 0,
            reason: None,
            wait: None,
        }
    }

    #[test]
    fn an_open_target_goes_before_one_that_fits_and_that_before_any() {
        let pick = |waits: &[u64]| {
            let targets: Vec<_> = waits.iter().map(|wait| target(*wait, 1)).collect();
            usual_target(&call(), &targets, false, Draw::ZERO)
        };
        assert_eq!(pick(&[5000, 500, 0, 0]), Some(2));
        assert_eq!(pick(&[5000, 500, 1]), Some(1));
        assert_eq!(pick(&[5000, 4000]), Some(0));
        assert_eq!(pick(&[]), None);
    }

    #[test]
    fn weights_are_shares_of_the_draws() {
        let targets = [target(0, 1), target(9000, 100), target(0, 3)];
        let picked =
            (0..100).map(|n| usual_target(&call(), &targets, true, Draw::new(f64::from(n) / 100.0)).unwrap());
        let mut counts = [0; 3];
        picked.for_each(|index| counts[index] += 1);
        assert_eq!(counts, [25, 0, 75]);
    }
}
