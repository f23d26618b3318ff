//! What the windows of a refusal advise together.

use std::cmp::Reverse;
use std::time::Duration;

use arrayvec::ArrayVec;
use http::HeaderName;

use super::super::profile::Rules;
use super::super::value::{Advice, Clock};
use super::{Window, Windows};
use crate::units::QuotaUnits;

#[derive(Debug)]
pub(in crate::reading) struct Summary<'b> {
    pub(in crate::reading) spent: QuotaUnits,
    /// Whether a window is known to be spent: then only the spent ones' resets count.
    pub(in crate::reading) any_spent: bool,
    /// Whether a long-lived quota without a usable reset is spent.
    pub(in crate::reading) daily_spent: bool,
    pub(in crate::reading) advice: Option<(Advice, &'b HeaderName)>,
    /// Whether that field is an epoch to a fraction of a second.
    pub(in crate::reading) exact: bool,
    /// The longest window that is stated of what is spent, else of all.
    pub(in crate::reading) window: Option<Duration>,
}

impl Windows<'_> {
    /// What a refusal's windows advise. Spent windows decide alone, the latest of them. If none is known to be spent, the
    /// ones `violated` names decide; else those of the shortest window, for a wrong short wait costs one more refusal and a
    /// wrong long one hours; else the latest of all.
    pub(in crate::reading) fn summary(
        &self,
        rules: &Rules,
        clock: &Clock<'_>,
        violated: &[u64],
    ) -> Summary<'_> {
        let is_spent = |window: &&Window<'_>| window.is_spent() == Some(true);
        let any_spent = self.0.iter().any(|window| is_spent(&window));
        let stated = self.0.iter().filter(|window| !any_spent || is_spent(window));
        let window = stated.filter_map(|window| window.window).max();
        let spent = self.spent(rules);
        let mut summary =
            Summary { spent, any_spent, daily_spent: false, advice: None, exact: false, window };
        if any_spent {
            for window in self.0.iter().filter(is_spent) {
                match (window.reset(rules, clock), window.window, window.window_source) {
                    (Some(reset), ..) => summary.keep(reset, window.resets_to_the_fraction()),
                    (None, Some(wait), Some(source)) if rules.spent_window_is_wait => {
                        summary.keep((Advice { wait, at: None }, source), false);
                    }
                    _ => summary.daily_spent |= window.is_daily_quota(rules),
                }
            }
        }
        let any_violated = self.0.iter().any(|window| !window.healthy && violated.contains(&window.key));
        let with_reset = self.0.iter().filter(|window| !window.healthy && window.reset.is_some());
        let shortest = with_reset.filter_map(|window| window.window).min();
        let counts = |window: &&Window<'_>| match (any_violated, shortest) {
            // Contentful: a remainder per window, and one reset that belongs to whichever is spent.
            _ if any_spent => summary.advice.is_none() && window.is_lone_reset(),
            _ if window.healthy => false,
            (true, _) => violated.contains(&window.key),
            (false, Some(shortest)) => window.window == Some(shortest),
            // GitHub's secondary limit comes beside the untouched window of the primary one.
            (false, None) => !(rules.only_spent_resets && window.remaining.is_some()),
        };
        let counted: ArrayVec<_, 16> = self.0.iter().filter(counts).collect();
        for window in counted {
            if let Some(reset) = window.reset(rules, clock) {
                summary.keep(reset, window.resets_to_the_fraction());
            }
        }
        summary
    }

    pub(in crate::reading) fn units_of(&self, violated: &[u64], rules: &Rules) -> QuotaUnits {
        let violated = self.0.iter().filter(|window| violated.contains(&window.key));
        violated.map(|window| window.unit(rules)).collect()
    }
}

impl<'b> Summary<'b> {
    fn keep(&mut self, reset: (Advice, &'b HeaderName), exact: bool) {
        let order = |(advice, name): (Advice, &'b HeaderName)| (advice.wait, Reverse(name.as_str()));
        if self.advice.is_none_or(|known| order(reset) > order(known)) {
            (self.advice, self.exact) = (Some(reset), exact);
        }
    }
}
