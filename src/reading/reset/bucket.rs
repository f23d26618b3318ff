//! One bucket: what its fields state, whether it is spent, when it resets.

use std::time::Duration;

use http::HeaderName;

use super::super::names::Part;
use super::super::value::{Advice, BareUnit, Clock, Count, Decimal, Stated};
use super::super::vendor::{BareReset, Profile};
use super::Reset;
use crate::units::QuotaUnit;

/// One bucket: the fields that belong together.
#[derive(Debug)]
pub(in crate::reading) struct Bucket<'h> {
    pub(in crate::reading) key: u64,
    pub(in crate::reading) unit: QuotaUnit,
    pub(in crate::reading) window: Option<Duration>,
    pub(in crate::reading) limit: Option<Count>,
    pub(in crate::reading) remaining: Option<Count>,
    /// The notation with the lowest rank counts: a time from now, an instant, the same instant again.
    pub(super) reset: Option<(u8, Reset, &'h HeaderName)>,
    pub(super) window_source: Option<&'h HeaderName>,
    pub(super) rejected: Option<bool>,
    pub(super) utilized: bool,
    pub(super) unit_named: bool,
    pub(super) family: bool,
    /// The server leaves `remaining` out while there is plenty.
    pub(in crate::reading) healthy: bool,
}

impl Bucket<'_> {
    /// Whether the bucket is spent; `None` where it does not say.
    pub(super) fn is_spent(&self) -> Option<bool> {
        if self.rejected.is_some() {
            return self.rejected;
        }
        match self.remaining {
            Some(remaining) if !remaining.is_zero_or_less() => Some(false),
            Some(remaining) => self.is_empty(remaining),
            None => self.utilized.then_some(true),
        }
    }

    /// Whether a bucket of which nothing or less remains is spent.
    #[inline(never)]
    fn is_empty(&self, remaining: Count) -> Option<bool> {
        // Where there is no limit, nothing of it remains: Tyk sends -1, 0 and 0. A remainder of -1 is the sentinel for
        // "unknown", unless a real limit shows that the bucket is overdrawn by one.
        let unknown = self.is_unlimited() || remaining.is_minus_one() && !self.has_real_limit();
        (!unknown).then_some(true)
    }

    /// Whether the server says that there is no limit.
    pub(super) fn is_unlimited(&self) -> bool {
        self.limit.is_some_and(Count::is_minus_one)
    }

    /// What remains, where there is a limit that it may remain of.
    pub(super) fn known_remaining(&self) -> Option<u64> {
        let known = self.remaining.and_then(Count::known);
        known.filter(|left| *left > 0 || !self.is_unlimited())
    }

    /// Whether the limit is none: a server that accepts a call at a limit of 0 does not apply it.
    pub(super) fn is_limited_to_nothing(&self) -> bool {
        self.limit.is_some_and(Count::is_zero_or_less)
    }

    /// Whether the bucket is a reset alone, whose name does not say what resets.
    pub(super) const fn is_lone_reset(&self) -> bool {
        self.remaining.is_none() && self.rejected.is_none() && self.window.is_none() && !self.unit_named
    }

    fn has_real_limit(&self) -> bool {
        self.limit.is_some_and(|limit| !limit.is_zero_or_less())
    }

    fn is_sentinel(&self) -> bool {
        [self.limit, self.remaining].into_iter().flatten().any(Count::is_minus_one)
            && self.is_spent().is_none()
    }

    pub(super) fn unit(&self, profile: &Profile) -> QuotaUnit {
        match profile.zero_limit {
            Some(unit) if self.limit.is_some_and(Count::is_zero_or_less) => unit,
            _ if self.is_daily_quota(profile) => QuotaUnit::Quota,
            _ => self.unit,
        }
    }

    /// Whether what is known of the bucket makes a service limit.
    pub(super) fn states_limit(&self) -> bool {
        self.reset.is_some() || self.family && (self.limit.is_some() || self.remaining.is_some())
    }

    pub(super) fn is_daily_quota(&self, profile: &Profile) -> bool {
        profile.daily_is_quota && !self.unit_named && self.window == Some(Duration::from_secs(86_400))
    }

    /// When the bucket resets, where that can be told.
    pub(super) fn reset(&self, profile: &Profile, clock: &Clock<'_>) -> Option<(Advice, &HeaderName)> {
        let (_, reset, name) = self.reset?;
        Some((clock.advice(self.stated(reset, profile)?)?, name))
    }

    /// How long that is from receipt.
    #[inline]
    pub(super) fn wait(&self, profile: &Profile, clock: &Clock<'_>) -> Option<Duration> {
        match &self.reset {
            None => None,
            Some((_, Reset::Stated(stated), _)) => Some(clock.wait(*stated)),
            Some((_, Reset::Bare(number, unit), _)) => {
                self.bare(*number, *unit, profile).map(|stated| clock.wait(stated))
            }
        }
    }

    fn stated(&self, reset: Reset, profile: &Profile) -> Option<Stated> {
        match reset {
            Reset::Stated(stated) => Some(stated),
            Reset::Bare(number, unit) => self.bare(number, unit, profile),
        }
    }

    #[inline(never)]
    fn bare(&self, number: Decimal, unit: BareUnit, profile: &Profile) -> Option<Stated> {
        // Azure's Responses API sends -1 counters beside a reset of 0: all of it unknown.
        if number.nanos() == 0 && self.is_sentinel() {
            return None;
        }
        Stated::number(number, self.bare_unit(profile, number, unit)?).within_bounds()
    }

    /// The unit of a bare reset. Azure OpenAI sends seconds on some deployments and milliseconds on others under one
    /// name; the time to full that limit, remaining and renewal period imply decides.
    fn bare_unit(&self, profile: &Profile, number: Decimal, named: BareUnit) -> Option<BareUnit> {
        if named == BareUnit::Milliseconds {
            return Some(named);
        }
        let period =
            self.window_source.filter(|name| name.as_str().contains("renewalperiod")).and(self.window);
        match (profile.bare_reset, period, self.limit, self.remaining) {
            (_, Some(period), Some(limit), Some(remaining)) if self.has_real_limit() => {
                let used = u128::from(limit.whole().saturating_sub(remaining.whole()));
                let full =
                    used.saturating_mul(period.as_nanos()).checked_div(u128::from(limit.whole().max(1)))?;
                let seconds = number.nanos();
                let millis = seconds.div_ceil(1_000);
                let closer = millis.abs_diff(full) < seconds.abs_diff(full);
                Some(if closer { BareUnit::Milliseconds } else { BareUnit::Seconds })
            }
            (BareReset::ByRenewalPeriod, ..) => None,
            (BareReset::Milliseconds, ..) => Some(BareUnit::Milliseconds),
            (BareReset::Seconds, ..) => Some(BareUnit::Seconds),
        }
    }
}

impl<'h> Bucket<'h> {
    /// A bucket of which nothing is known yet.
    pub(super) const fn new(key: u64, unit: QuotaUnit) -> Self {
        Self {
            key,
            unit,
            window: None,
            limit: None,
            remaining: None,
            reset: None,
            window_source: None,
            rejected: None,
            utilized: false,
            unit_named: false,
            family: false,
            healthy: false,
        }
    }

    /// Takes in a limit or what remains of it; of several the least counts.
    pub(super) fn note_count(&mut self, part: Part, count: Count) {
        let place = if part == Part::Limit { &mut self.limit } else { &mut self.remaining };
        if place.is_none_or(|known| known.min(count) != known) {
            *place = Some(count);
        }
    }

    pub(super) fn note_used(&mut self, used: Count, limit: Count) {
        self.limit = Some(limit);
        let left = limit.whole().saturating_sub(used.whole());
        self.remaining = Some(Count::of(left));
    }

    /// Marks the bucket as one of a rate-limit family.
    pub(in crate::reading) const fn set_family(&mut self) {
        self.family = true;
    }

    /// Takes in a reset; of two under one rank the later counts.
    #[inline]
    pub(in crate::reading) fn note_reset(
        &mut self,
        rank: u8,
        reset: Reset,
        name: &'h HeaderName,
        clock: &Clock<'_>,
    ) {
        let counts = match &self.reset {
            None => true,
            Some((known_rank, known, _)) => {
                rank < *known_rank || rank == *known_rank && is_later(*known, reset, clock)
            }
        };
        if counts {
            self.reset = Some((rank, reset, name));
        }
    }
}

/// Whether a reset is later than one known already, by an order that does not ask which of the two came first.
#[inline(never)]
fn is_later(known: Reset, new: Reset, clock: &Clock<'_>) -> bool {
    // What a bare number means may depend on the rest of the bucket; until then its name counts, and what states its
    // own unit is the surer one of two that say the same.
    let place = |reset| {
        let (stated, sure, number) = match reset {
            Reset::Stated(stated) => (Some(stated), 2, None),
            Reset::Bare(number, unit) => (
                Stated::number(number, unit).within_bounds(),
                u8::from(unit == BareUnit::Seconds),
                Some(number.nanos()),
            ),
        };
        (stated.and_then(|stated| clock.advice(stated)).map(|advice| advice.wait), sure, number)
    };
    place(new) > place(known)
}
