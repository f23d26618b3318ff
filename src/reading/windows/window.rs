//! One window: what its fields state, whether it is spent, when it resets.

use std::time::Duration;

use http::HeaderName;

use super::super::profile::{BareReset, Rules};
use super::super::value::{Advice, Clock, Count, Stated, TimeUnit, Value};
use super::Reset;
use super::field::ReadPart;
use crate::units::QuotaUnit;

#[derive(Debug, Default)]
pub(in crate::reading) struct Window<'h> {
    pub(in crate::reading) key: u64,
    /// Its place in fields that state several, from 1 on; 0 for fields that state one.
    pub(super) place: u8,
    pub(in crate::reading) unit: QuotaUnit,
    pub(in crate::reading) window: Option<Duration>,
    /// The longest of several that apply to it.
    pub(super) longest: Option<Duration>,
    pub(in crate::reading) limit: Option<Count>,
    pub(in crate::reading) remaining: Option<Count>,
    /// The notation with the lowest rank counts.
    pub(super) reset: Option<(u8, Reset, &'h HeaderName)>,
    pub(super) window_source: Option<&'h HeaderName>,
    pub(super) rejected: Option<bool>,
    pub(super) utilized: bool,
    pub(super) unit_named: bool,
    /// Whether the names are those of a rate-limit family.
    pub(in crate::reading) family: bool,
    /// Whether the server leaves `remaining` out while there is plenty.
    pub(in crate::reading) healthy: bool,
}

impl<'h> Window<'h> {
    /// Takes in a part; of several counts the least counts, of several resets under one rank the later.
    pub(super) fn note(&mut self, part: ReadPart, name: &'h HeaderName, clock: &Clock<'_>) {
        let least = |known: Option<Count>, new: Count| Some(known.map_or(new, |known| known.min(new)));
        match part {
            ReadPart::Limit(limit, window) => {
                self.limit = least(self.limit, limit);
                self.window = self.window.or(window);
            }
            ReadPart::Used(used, limit) => self.note_used(used, limit),
            ReadPart::Remaining(left, window) => {
                self.remaining = least(self.remaining, left);
                self.window = self.window.or(window);
            }
            ReadPart::Reset(rank, reset) => self.note_reset(rank, reset, name, clock),
            ReadPart::Window(window) => {
                self.window = Some(window);
                self.window_source = Some(name);
            }
            ReadPart::Rejected(rejected) => self.rejected = Some(self.rejected.unwrap_or(false) || rejected),
            ReadPart::Utilized(utilized) => self.utilized |= utilized,
        }
    }

    pub(super) fn note_used(&mut self, used: Count, limit: Count) {
        self.limit = Some(limit);
        self.remaining = Some(Count::of(limit.whole().saturating_sub(used.whole())));
    }

    pub(in crate::reading) fn note_reset(
        &mut self,
        rank: u8,
        reset: Reset,
        name: &'h HeaderName,
        clock: &Clock<'_>,
    ) {
        let counts = self.reset.as_ref().is_none_or(|(known_rank, known, _)| {
            rank < *known_rank || rank == *known_rank && order(reset, clock) > order(*known, clock)
        });
        if counts {
            self.reset = Some((rank, reset, name));
        }
    }

    pub(super) fn complete(&mut self, single: &Self, clock: &Clock<'_>) {
        self.window = self.window.or(single.window);
        self.limit = self.limit.or(single.limit);
        self.remaining = self.remaining.or(single.remaining);
        if let Some((rank, reset, name)) = single.reset {
            self.note_reset(rank, reset, name, clock);
        }
        self.rejected = self.rejected.or(single.rejected);
        self.family |= single.family;
        self.unit_named |= single.unit_named;
    }
}

/// Places resets in an order that does not ask which of them came first. What a bare number means may depend on the rest of
/// the window; until then its name counts, and what states its own unit is the surer one of two that say the same.
fn order(reset: Reset, clock: &Clock<'_>) -> (Option<Duration>, u8, Option<Duration>) {
    let wait = reset.value.stated(reset.unit).within_bounds().map(|stated| clock.wait(stated));
    match reset.value {
        Value::Stated(_) => (wait, 2, None),
        Value::Bare(number) => (wait, u8::from(reset.unit == TimeUnit::Seconds), Some(number)),
    }
}

impl Window<'_> {
    /// Whether the window is spent; `None` if it does not say.
    pub(super) fn is_spent(&self) -> Option<bool> {
        if self.rejected.is_some() {
            return self.rejected;
        }
        let Some(remaining) = self.remaining else { return self.utilized.then_some(true) };
        if !remaining.is_zero_or_less() {
            return Some(false);
        }
        // Where there is no limit, nothing of it remains: Tyk sends -1, 0 and 0. A remainder of -1 is the sentinel for
        // "unknown", unless a real limit shows that the window is overdrawn by one.
        let unknown = self.is_unlimited() || remaining.is_minus_one() && !self.has_real_limit();
        (!unknown).then_some(true)
    }

    fn is_unlimited(&self) -> bool {
        self.limit.is_some_and(Count::is_minus_one)
    }

    /// What remains, if there is a limit that it may remain of.
    pub(super) fn known_remaining(&self) -> Option<u64> {
        let known = self.remaining.and_then(Count::known);
        known.filter(|left| *left > 0 || !self.is_unlimited())
    }

    /// Whether the limit is 0: a server that accepts a call at such a limit does not apply it.
    pub(super) fn is_limited_to_nothing(&self) -> bool {
        self.limit.is_some_and(Count::is_zero_or_less)
    }

    fn has_real_limit(&self) -> bool {
        self.limit.is_some_and(|limit| !limit.is_zero_or_less())
    }

    /// Whether the window is a reset alone, whose name says neither what resets nor over which window.
    pub(super) const fn is_lone_reset(&self) -> bool {
        let named = self.window.is_some() && self.window_source.is_none() || self.unit_named;
        self.remaining.is_none() && self.rejected.is_none() && !named
    }

    pub(super) fn unit(&self, rules: &Rules) -> QuotaUnit {
        match rules.zero_limit {
            Some(unit) if self.is_limited_to_nothing() => unit,
            _ if self.is_daily_quota(rules) => QuotaUnit::Quota,
            _ => self.unit,
        }
    }

    pub(super) const fn states_limit(&self) -> bool {
        self.reset.is_some() || self.family && (self.limit.is_some() || self.remaining.is_some())
    }

    pub(super) fn is_daily_quota(&self, rules: &Rules) -> bool {
        rules.daily_is_quota && !self.unit_named && self.window == Some(Duration::from_secs(86_400))
    }

    /// Whether its reset is an epoch to a fraction of a second, which nothing has rounded.
    pub(super) fn resets_to_the_fraction(&self) -> bool {
        matches!(self.reset, Some((_, Reset { value: Value::Bare(at), unit: TimeUnit::Seconds }, _))
            if at.subsec_nanos() > 0 && matches!(Stated::bare(at, TimeUnit::Seconds), Stated::At(_)))
    }

    /// When the window resets, if that can be told, and the field that says so.
    pub(super) fn reset(&self, rules: &Rules, clock: &Clock<'_>) -> Option<(Advice, &HeaderName)> {
        let (_, reset, name) = self.reset?;
        let stated = match reset.value {
            Value::Stated(stated) => stated,
            Value::Bare(number) => Stated::bare(number, self.bare_unit(number, reset.unit, rules)?),
        };
        Some((clock.advice(stated.within_bounds()?), name))
    }

    /// The unit of a bare reset: that of its name, else the one by which it is plausible, else the profile's.
    fn bare_unit(&self, number: Duration, named: TimeUnit, rules: &Rules) -> Option<TimeUnit> {
        // Azure's Responses API sends -1 counters beside a reset of 0: all of it unknown.
        let sentinel = [self.limit, self.remaining].into_iter().flatten().any(Count::is_minus_one);
        if number.is_zero() && sentinel && self.is_spent().is_none() {
            return None;
        }
        if named != TimeUnit::Seconds {
            return Some(named);
        }
        if let Some(unit) = self.unit_by_renewal(number) {
            return Some(unit);
        }
        match rules.bare_reset {
            BareReset::ByRenewalPeriod => None,
            BareReset::Milliseconds => Some(TimeUnit::Milliseconds),
            // No window is longer than itself; twice, for some are rounded.
            BareReset::Seconds => {
                let millis = self.longest.max(self.window).is_some_and(|window| {
                    let is_delay = matches!(Stated::bare(number, TimeUnit::Seconds), Stated::Delay(_));
                    is_delay && number > window.saturating_mul(2) && number <= window.saturating_mul(1_000)
                });
                Some(if millis { TimeUnit::Milliseconds } else { TimeUnit::Seconds })
            }
        }
    }

    /// Azure OpenAI sends seconds on some deployments and milliseconds on others under one name; the time to full that
    /// limit, remaining and renewal period imply decides.
    fn unit_by_renewal(&self, number: Duration) -> Option<TimeUnit> {
        self.window_source.filter(|name| name.as_str().contains("renewalperiod"))?;
        let (period, limit, left) = (self.window?, self.limit?, self.remaining?);
        let used = u128::from(limit.whole().saturating_sub(left.whole()));
        let full = used.saturating_mul(period.as_nanos()).checked_div(u128::from(limit.whole()))?;
        let (seconds, millis) = (number.as_nanos(), number.as_nanos() / 1_000);
        let closer = millis.abs_diff(full) < seconds.abs_diff(full);
        Some(if closer { TimeUnit::Milliseconds } else { TimeUnit::Seconds })
    }
}
