//! What the windows of a refusal advise together.

use std::time::Duration;

use http::HeaderName;

use super::super::profile::Rules;
use super::super::value::{Advice, Clock};
use super::{Window, Windows};
use crate::units::QuotaUnits;

/// What the windows say together.
#[derive(Debug)]
pub(in crate::reading) struct Summary<'b> {
    pub(in crate::reading) spent: QuotaUnits,
    /// Whether a window is known to be spent: then only the spent ones' resets count.
    pub(in crate::reading) any_spent: bool,
    /// Whether a long-lived quota without a usable reset is spent.
    pub(in crate::reading) daily_spent: bool,
    /// When to come back, and the field that says so.
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
        let mut summary = Summary {
            spent: self.spent(rules),
            any_spent,
            daily_spent: false,
            advice: None,
            exact: false,
            window: self
                .0
                .iter()
                .filter(|window| !any_spent || is_spent(window))
                .filter_map(|w| w.window)
                .max(),
        };
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
            if summary.advice.is_none() {
                // Contentful: a remainder per window, and one reset that belongs to whichever is spent.
                self.keep_all(|window| window.is_lone_reset(), rules, clock, &mut summary);
            }
            return summary;
        }
        let any_violated = self.0.iter().any(|window| !window.healthy && violated.contains(&window.key));
        let with_reset = self.0.iter().filter(|window| !window.healthy && window.reset.is_some());
        let shortest = with_reset.filter_map(|window| window.window).min();
        let counts = |window: &Window<'_>| match (any_violated, shortest) {
            _ if window.healthy => false,
            (true, _) => violated.contains(&window.key),
            (false, Some(shortest)) => window.window == Some(shortest),
            // GitHub's secondary limit comes beside the untouched window of the primary one.
            (false, None) => !(rules.only_spent_resets && window.remaining.is_some()),
        };
        self.keep_all(counts, rules, clock, &mut summary);
        summary
    }

    fn keep_all<'b>(
        &'b self,
        counts: impl Fn(&Window<'_>) -> bool,
        rules: &Rules,
        clock: &Clock<'_>,
        summary: &mut Summary<'b>,
    ) {
        for window in self.0.iter().filter(|window| counts(window)) {
            if let Some(reset) = window.reset(rules, clock) {
                summary.keep(reset, window.resets_to_the_fraction());
            }
        }
    }

    /// The units of the windows that `violated` names.
    pub(in crate::reading) fn units_of(&self, violated: &[u64], rules: &Rules) -> QuotaUnits {
        self.0
            .iter()
            .filter(|window| violated.contains(&window.key))
            .map(|window| window.unit(rules))
            .collect()
    }
}

impl<'b> Summary<'b> {
    fn keep(&mut self, reset: (Advice, &'b HeaderName), exact: bool) {
        let order = |(advice, name): &(Advice, &HeaderName)| {
            (advice.wait, std::cmp::Reverse(name.as_str().to_owned()))
        };
        if self.advice.as_ref().is_none_or(|known| order(&reset) > order(known)) {
            (self.advice, self.exact) = (Some(reset), exact);
        }
    }
}
