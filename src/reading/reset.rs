//! The buckets of the named limit / remaining / reset families: which are spent, and when they reset.

mod bucket;
mod field;
mod special;
mod summary;

use arrayvec::ArrayVec;
use http::{HeaderName, HeaderValue};

use bucket::Bucket;
use field::{ReadPart, whole_reset};
pub(super) use field::{Reset, read_reset};
pub(super) use summary::Summary;

use super::ServiceLimit;
use super::names::{FieldName, Part, any_name, states_nothing};
use super::types::{Limits, MAX_LIMITS};
use super::value::{BareUnit, Clock, Count, plain_number};
use super::vendor::Profile;
use crate::units::{QuotaUnit, QuotaUnits};

/// The most buckets of one response that are told apart; further ones are left out.
const MAX_BUCKETS: usize = 16;

/// All buckets of one response.
#[derive(Debug, Default)]
pub(super) struct Buckets<'h>(ArrayVec<Bucket<'h>, MAX_BUCKETS>);

impl<'h> Buckets<'h> {
    /// The bucket of that key, made where there is none yet; `None` where there is no room for one.
    pub(super) fn bucket(&mut self, key: u64, unit: QuotaUnit) -> Option<&mut Bucket<'h>> {
        let at = match self.0.iter().position(|bucket| bucket.key == key) {
            Some(at) => at,
            None => {
                self.0.try_push(Bucket::new(key, unit)).ok()?;
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
        match field.part {
            Part::Reset => self.note_frequent_reset(field, name, value, clock),
            _ => self.note_frequent_count(field, name, value, clock),
        }
    }

    #[inline(always)]
    fn note_frequent_count(
        &mut self,
        field: &'static FieldName,
        name: &'h HeaderName,
        value: &HeaderValue,
        clock: &Clock<'_>,
    ) {
        let Some(count) = plain_number(value.as_bytes()) else {
            return self.note_unusual(Some(field), name, value, clock);
        };
        if let Some(bucket) = self.frequent_bucket(field) {
            bucket.note_count(field.part, Count::of(count));
        }
    }

    #[inline(never)]
    fn note_frequent_reset(
        &mut self,
        field: &'static FieldName,
        name: &'h HeaderName,
        value: &HeaderValue,
        clock: &Clock<'_>,
    ) {
        let text = value.as_bytes();
        if text.len() <= super::MAX_FIELD
            && let Some(reset) = whole_reset(text, BareUnit::Seconds, clock)
        {
            if let Some(bucket) = self.frequent_bucket(field) {
                bucket.note_reset(1, reset, name, clock);
            }
        } else {
            self.note_unusual(Some(field), name, value, clock);
        }
    }

    /// The bucket of a frequent name: each is of a family, and none states a window.
    #[inline]
    fn frequent_bucket(&mut self, field: &'static FieldName) -> Option<&mut Bucket<'h>> {
        let bucket = self.bucket(field.key, field.unit)?;
        bucket.unit_named |= field.unit_named;
        bucket.set_family();
        Some(bucket)
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

impl Buckets<'_> {
    /// The service limits, in the order that they came in, put where they belong, for they are large to be moved; and
    /// what is spent, as [`Buckets::spent`] has it; but where the call was accepted, no limit of 0 is.
    #[inline]
    pub(super) fn state_limits(
        &self,
        accepted: bool,
        profile: &Profile,
        clock: &Clock<'_>,
        limits: &mut Limits,
    ) -> QuotaUnits {
        if self.0.is_empty() {
            return QuotaUnits::EMPTY;
        }
        limits.make_room(self.0.len());
        // Further ones are left out, but count as spent.
        match limits {
            Limits::Usual(limits) => self.each_limit(accepted, profile, clock, |limit| {
                let _ = limits.try_push(limit);
            }),
            Limits::Many(limits) => self.each_limit(accepted, profile, clock, |limit| {
                if limits.len() < MAX_LIMITS {
                    limits.push(limit);
                }
            }),
        }
    }

    #[inline(never)]
    fn each_limit(
        &self,
        accepted: bool,
        profile: &Profile,
        clock: &Clock<'_>,
        mut state: impl FnMut(ServiceLimit),
    ) -> QuotaUnits {
        let mut all_spent = QuotaUnits::EMPTY;
        for bucket in &self.0 {
            let unit = bucket.unit(profile);
            let is_spent = bucket.is_spent() == Some(true) && !(accepted && bucket.is_limited_to_nothing());
            if is_spent {
                all_spent = all_spent.with(unit);
            }
            if bucket.states_limit() {
                state(ServiceLimit {
                    unit,
                    window: bucket.window,
                    limit: bucket.limit.and_then(Count::known),
                    remaining: if is_spent { Some(0) } else { bucket.known_remaining() },
                    reset: bucket.wait(profile, clock),
                    resets_at_once: !bucket.unit_named,
                });
            }
        }
        all_spent
    }

    /// What is spent, whatever the response's status.
    pub(super) fn spent(&self, profile: &Profile) -> QuotaUnits {
        let spent = self.0.iter().filter(|bucket| bucket.is_spent() == Some(true));
        spent.map(|bucket| bucket.unit(profile)).collect()
    }
}
