//! The buckets of the named limit / remaining / reset families: which are spent, and when they reset.

mod field;
mod special;

use std::time::Duration;

use arrayvec::ArrayVec;
use http::{HeaderName, HeaderValue};

use field::{ReadPart, whole_reset};
pub(super) use field::{Reset, read_reset};

use super::names::{FieldName, Part, any_name, states_nothing};
use super::value::{Advice, BareUnit, Clock, Count, Decimal, Stated, plain_count};
use super::vendor::{BareReset, Profile};
use super::{MAX_LIMITS, ServiceLimit};
use crate::units::{QuotaUnit, QuotaUnits};

/// The most buckets of one response that are told apart; further ones are left out.
const MAX_BUCKETS: usize = 16;

/// One bucket: the fields that belong together.
#[derive(Debug)]
pub(super) struct Bucket<'h> {
    pub(super) key: u64,
    pub(super) unit: QuotaUnit,
    pub(super) window: Option<Duration>,
    pub(super) limit: Option<Count>,
    pub(super) remaining: Option<Count>,
    /// The notation with the lowest rank counts: a time from now, an instant, the same instant again.
    reset: Option<(u8, Reset, &'h HeaderName)>,
    window_source: Option<&'h HeaderName>,
    rejected: Option<bool>,
    utilized: bool,
    unit_named: bool,
    family: bool,
    /// The server leaves `remaining` out while there is plenty.
    pub(super) healthy: bool,
}

impl Bucket<'_> {
    /// Whether the bucket is spent; `None` where it does not say.
    fn is_spent(&self) -> Option<bool> {
        if self.rejected.is_some() {
            return self.rejected;
        }
        match self.remaining {
            // The sentinel for "unknown", unless a real limit shows that the bucket is overdrawn by one.
            Some(remaining) if remaining.is_minus_one() && !self.has_real_limit() => None,
            Some(remaining) => Some(remaining.is_zero_or_less()),
            None => self.utilized.then_some(true),
        }
    }

    fn has_real_limit(&self) -> bool {
        self.limit.is_some_and(|limit| !limit.is_zero_or_less())
    }

    fn is_sentinel(&self) -> bool {
        [self.limit, self.remaining].into_iter().flatten().any(Count::is_minus_one)
            && self.is_spent().is_none()
    }

    fn unit(&self, profile: &Profile) -> QuotaUnit {
        match profile.zero_limit {
            Some(unit) if self.limit.is_some_and(Count::is_zero_or_less) => unit,
            _ if self.is_daily_quota(profile) => QuotaUnit::Quota,
            _ => self.unit,
        }
    }

    fn is_daily_quota(&self, profile: &Profile) -> bool {
        profile.daily_is_quota && !self.unit_named && self.window == Some(Duration::from_secs(86_400))
    }

    /// When the bucket resets, where that can be told.
    #[inline]
    fn reset(&self, profile: &Profile, clock: &Clock<'_>) -> Option<(Advice, &HeaderName)> {
        match self.reset? {
            (_, Reset::Stated(Stated::Delay(wait)), name) => Some((Advice { wait, at: None }, name)),
            (_, reset, name) => Some((self.advice(reset, profile, clock)?, name)),
        }
    }

    #[inline(never)]
    fn advice(&self, reset: Reset, profile: &Profile, clock: &Clock<'_>) -> Option<Advice> {
        let stated = match reset {
            Reset::Stated(stated) => stated,
            // Azure's Responses API sends -1 counters beside a reset of 0: all of it unknown.
            Reset::Bare(number, _) if number.nanos() == 0 && self.is_sentinel() => return None,
            Reset::Bare(number, unit) => Stated::number(number, self.bare_unit(profile, number, unit)?)?,
        };
        clock.advice(stated)
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

/// All buckets of one response.
#[derive(Debug, Default)]
pub(super) struct Buckets<'h>(ArrayVec<Bucket<'h>, MAX_BUCKETS>);

impl<'h> Buckets<'h> {
    /// The bucket of that key, made where there is none yet; `None` where there is no room for one.
    pub(super) fn bucket(&mut self, key: u64, unit: QuotaUnit) -> Option<&mut Bucket<'h>> {
        let at = match self.0.iter().position(|bucket| bucket.key == key) {
            Some(at) => at,
            None => {
                let bucket = Bucket {
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
                };
                self.0.try_push(bucket).ok()?;
                self.0.len().checked_sub(1)?
            }
        };
        self.0.get_mut(at)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Bucket<'h>> {
        self.0.iter_mut()
    }

    /// Takes in a field of a frequent name. Its usual value, a bare count or a reset of one piece and without white space
    /// around it, is none of the special ones.
    #[inline]
    pub(super) fn note_frequent(
        &mut self,
        field: &'static FieldName,
        name: &'h HeaderName,
        value: &HeaderValue,
        clock: &Clock<'_>,
    ) {
        let noted = match field.part {
            Part::Reset => self.note_whole_reset(field, name, value.as_bytes(), clock),
            _ => self.note_plain_count(field, value.as_bytes()),
        };
        if noted.is_none() {
            self.note_unusual(Some(field), name, value, clock);
        }
    }

    #[inline(never)]
    fn note_plain_count(&mut self, field: &FieldName, value: &[u8]) -> Option<()> {
        let count = plain_count(value)?;
        if let Some(bucket) = self.named_bucket(field) {
            bucket.note_count(field.part, count);
        }
        Some(())
    }

    #[inline(never)]
    fn note_whole_reset(
        &mut self,
        field: &FieldName,
        name: &'h HeaderName,
        value: &[u8],
        clock: &Clock<'_>,
    ) -> Option<()> {
        if value.len() > super::MAX_FIELD {
            return None;
        }
        let reset = whole_reset(value, BareUnit::Seconds, clock)?;
        if let Some(bucket) = self.named_bucket(field) {
            bucket.note_reset(1, reset, name, clock);
        }
        Some(())
    }

    /// Takes in a field of any name, taken apart already where it is a frequent one.
    #[inline(never)]
    pub(super) fn note_unusual(
        &mut self,
        frequent: Option<&FieldName>,
        name: &'h HeaderName,
        value: &HeaderValue,
        clock: &Clock<'_>,
    ) {
        let text = name.as_str();
        let value = value.as_bytes().trim_ascii();
        if self.note_special(name, text, value, clock).is_some() {
            return;
        }
        if frequent.is_none() && states_nothing(text.as_bytes()) {
            return;
        }
        let Some(field) = frequent.copied().or_else(|| any_name(text)) else { return };
        // A word in common with the families means something only beside a number.
        if value.len() > super::MAX_FIELD {
            return;
        }
        self.note_field(&field, name, value, clock);
    }

    /// The bucket that a field's name says it belongs to.
    fn named_bucket(&mut self, field: &FieldName) -> Option<&mut Bucket<'h>> {
        let bucket = self.bucket(field.key, field.unit)?;
        bucket.unit_named |= field.unit_named;
        bucket.family |= field.family || field.part != Part::Limit;
        if field.window.is_some() && bucket.window.is_none() {
            bucket.window = field.window;
        }
        Some(bucket)
    }

    fn note_field(
        &mut self,
        field: &FieldName,
        name: &'h HeaderName,
        value: &[u8],
        clock: &Clock<'_>,
    ) -> Option<()> {
        let read = ReadPart::of(field, value, clock)?;
        let bucket = self.named_bucket(field)?;
        match read {
            ReadPart::Limit(limit, window) => {
                bucket.note_count(Part::Limit, limit);
                bucket.window = bucket.window.or(window);
            }
            ReadPart::Used(used, limit) => bucket.note_used(used, limit),
            ReadPart::Remaining(remaining, window) => {
                bucket.note_count(Part::Remaining, remaining);
                bucket.window = bucket.window.or(window);
            }
            ReadPart::Reset(rank, reset) => bucket.note_reset(rank, reset, name, clock),
            ReadPart::Window(window) => {
                bucket.window = Some(window);
                bucket.window_source = Some(name);
            }
            ReadPart::Rejected(rejected) => {
                bucket.rejected = Some(bucket.rejected.unwrap_or(false) || rejected)
            }
            ReadPart::Utilized(utilized) => bucket.utilized |= utilized,
        }
        Some(())
    }
}

impl<'h> Bucket<'h> {
    /// Takes in a limit or what remains of it; of several the least counts.
    fn note_count(&mut self, part: Part, count: Count) {
        let place = if part == Part::Limit { &mut self.limit } else { &mut self.remaining };
        *place = Some(place.map_or(count, |known| known.min(count)));
    }

    fn note_used(&mut self, used: Count, limit: Count) {
        self.limit = Some(limit);
        let left = limit.whole().saturating_sub(used.whole());
        self.remaining = Some(Count::of(left));
    }

    /// Marks the bucket as one of a rate-limit family.
    pub(super) const fn set_family(&mut self) {
        self.family = true;
    }

    /// Takes in a reset; of two under one rank the later counts.
    pub(super) fn note_reset(&mut self, rank: u8, reset: Reset, name: &'h HeaderName, clock: &Clock<'_>) {
        let later = |known: Reset| match (known, reset) {
            (Reset::Bare(known, _), Reset::Bare(new, _)) => new > known,
            (Reset::Stated(known), Reset::Stated(new)) => {
                clock.advice(new).map(|new| new.wait) > clock.advice(known).map(|known| known.wait)
            }
            _ => false,
        };
        match self.reset {
            Some((known_rank, known, _)) if rank > known_rank || (rank == known_rank && !later(known)) => {}
            _ => self.reset = Some((rank, reset, name)),
        }
    }
}

/// What the buckets advise.
#[derive(Debug)]
pub(super) struct ResetAdvice<'b> {
    pub(super) advice: Advice,
    pub(super) source: &'b HeaderName,
}

/// What the buckets say together.
#[derive(Debug)]
pub(super) struct Summary<'b> {
    pub(super) spent: QuotaUnits,
    /// Whether a bucket is known to be spent: then only the spent ones' resets count.
    pub(super) any_spent: bool,
    /// Whether a long-lived quota without a usable reset is spent.
    pub(super) daily_spent: bool,
    pub(super) advice: Option<ResetAdvice<'b>>,
}

fn keep<'b>(latest: &mut Option<ResetAdvice<'b>>, advice: Advice, source: &'b HeaderName) {
    if latest.as_ref().is_none_or(|known| advice.wait > known.advice.wait) {
        *latest = Some(ResetAdvice { advice, source });
    }
}

impl Buckets<'_> {
    /// The service limits, in the order that they came in, put where they belong, for they are large to be moved; and
    /// what is spent, as [`Buckets::spent`] has it.
    pub(super) fn state_limits(
        &self,
        profile: &Profile,
        clock: &Clock<'_>,
        limits: &mut ArrayVec<ServiceLimit, MAX_LIMITS>,
    ) -> QuotaUnits {
        let mut all_spent = QuotaUnits::EMPTY;
        for bucket in &self.0 {
            let is_spent = bucket.is_spent() == Some(true);
            if is_spent {
                all_spent = all_spent.with(bucket.unit(profile));
            }
            let is_counted = bucket.limit.is_some() || bucket.remaining.is_some();
            if !(bucket.family && is_counted || bucket.reset.is_some()) {
                continue;
            }
            let known = |count: Option<Count>| count.filter(|count| !count.is_minus_one()).map(Count::whole);
            let limit = ServiceLimit {
                unit: bucket.unit(profile),
                window: bucket.window,
                limit: known(bucket.limit),
                remaining: if is_spent { Some(0) } else { known(bucket.remaining) },
                reset: bucket.reset(profile, clock).map(|(advice, _)| advice.wait),
                resets_at_once: !bucket.unit_named,
            };
            // Further ones are left out, but count as spent.
            let _ = limits.try_push(limit);
        }
        all_spent
    }

    /// What is spent, whatever the response's status.
    pub(super) fn spent(&self, profile: &Profile) -> QuotaUnits {
        let spent = self.0.iter().filter(|bucket| bucket.is_spent() == Some(true));
        spent.map(|bucket| bucket.unit(profile)).collect()
    }

    /// What a refusal's buckets advise. Spent buckets decide alone, the latest of them. Where none is known to be
    /// spent, the ones `violated` names; else those of the shortest window, for a wrong short wait costs one more
    /// refusal and a wrong long one hours; else the latest of all.
    pub(super) fn summary(&self, profile: &Profile, clock: &Clock<'_>, violated: &[u64]) -> Summary<'_> {
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
    pub(super) fn units_of(&self, violated: &[u64], profile: &Profile) -> QuotaUnits {
        self.0
            .iter()
            .filter(|bucket| violated.contains(&bucket.key))
            .map(|bucket| bucket.unit(profile))
            .collect()
    }
}
