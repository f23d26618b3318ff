//! What the buckets of a refusal advise together.

use http::HeaderName;

use super::super::value::{Advice, Clock};
use super::super::vendor::Profile;
use super::Buckets;
use super::bucket::Bucket;
use crate::units::QuotaUnits;

/// What the buckets advise.
#[derive(Debug)]
pub(in crate::reading) struct ResetAdvice<'b> {
    pub(in crate::reading) advice: Advice,
    pub(in crate::reading) source: &'b HeaderName,
}

/// What the buckets say together.
#[derive(Debug)]
pub(in crate::reading) struct Summary<'b> {
    pub(in crate::reading) spent: QuotaUnits,
    /// Whether a bucket is known to be spent: then only the spent ones' resets count.
    pub(in crate::reading) any_spent: bool,
    /// Whether a long-lived quota without a usable reset is spent.
    pub(in crate::reading) daily_spent: bool,
    pub(in crate::reading) advice: Option<ResetAdvice<'b>>,
}

fn keep<'b>(latest: &mut Option<ResetAdvice<'b>>, advice: Advice, source: &'b HeaderName) {
    if latest.as_ref().is_none_or(|known| advice.wait > known.advice.wait) {
        *latest = Some(ResetAdvice { advice, source });
    }
}

impl Buckets<'_> {
    /// What a refusal's buckets advise. Spent buckets decide alone, the latest of them. Where none is known to be
    /// spent, the ones `violated` names; else those of the shortest window, for a wrong short wait costs one more
    /// refusal and a wrong long one hours; else the latest of all.
    pub(in crate::reading) fn summary(
        &self,
        profile: &Profile,
        clock: &Clock<'_>,
        violated: &[u64],
    ) -> Summary<'_> {
        let spent = self.spent(profile);
        let any_spent = self.0.iter().any(|bucket| bucket.is_spent() == Some(true));
        let mut daily_spent = false;
        let mut latest: Option<ResetAdvice<'_>> = None;
        if any_spent {
            for bucket in self.0.iter().filter(|bucket| bucket.is_spent() == Some(true)) {
                match (bucket.reset(profile, clock), bucket.window, bucket.window_source) {
                    (Some((advice, source)), ..) => keep(&mut latest, advice, source),
                    (None, Some(wait), Some(source)) if profile.spent_window_is_wait => {
                        keep(&mut latest, Advice { wait, at: None }, source);
                    }
                    _ => daily_spent |= bucket.is_daily_quota(profile),
                }
            }
            if latest.is_none() {
                // Contentful: a remainder per window, and one reset that belongs to whichever is spent.
                for (advice, source) in
                    self.0.iter().filter(|b| b.is_lone_reset()).filter_map(|b| b.reset(profile, clock))
                {
                    keep(&mut latest, advice, source);
                }
            }
        } else {
            let usable = || self.0.iter().filter(|bucket| !bucket.healthy);
            let is_violated = |bucket: &&Bucket<'_>| violated.contains(&bucket.key);
            let any_violated = usable().any(|bucket| is_violated(&bucket));
            let shortest =
                usable().filter(|bucket| bucket.reset.is_some()).filter_map(|bucket| bucket.window).min();
            let chosen = usable().filter(|bucket| {
                if any_violated {
                    is_violated(bucket)
                } else {
                    shortest.is_none() || bucket.window == shortest
                }
            });
            for (advice, source) in chosen.filter_map(|bucket| bucket.reset(profile, clock)) {
                keep(&mut latest, advice, source);
            }
        }
        Summary { spent, any_spent, daily_spent, advice: latest }
    }

    /// The units of the buckets that `violated` names.
    pub(in crate::reading) fn units_of(&self, violated: &[u64], profile: &Profile) -> QuotaUnits {
        self.0
            .iter()
            .filter(|bucket| violated.contains(&bucket.key))
            .map(|bucket| bucket.unit(profile))
            .collect()
    }
}
