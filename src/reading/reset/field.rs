//! The values of limit, remaining and reset fields.

use std::time::Duration;

use super::super::names::{FieldName, Part};
use super::super::value::{BareUnit, Clock, Count, Decimal, Stated, Value, count, decimal};

/// The most members of a comma-joined value that are looked at.
pub(super) const MAX_MEMBERS: usize = 8;

/// A reset as it was sent; what a bare number means may depend on the rest of the bucket.
#[derive(Debug, Clone, Copy)]
pub(in crate::reading) enum Reset {
    Bare(Decimal, BareUnit),
    Stated(Stated),
}

/// The value of one field.
pub(super) enum ReadPart {
    Limit(Count, Option<Duration>),
    Used(Count, Count),
    Remaining(Count, Option<Duration>),
    Reset(u8, Reset),
    Window(Duration),
    Rejected(bool),
    Utilized(bool),
}

impl ReadPart {
    pub(super) fn of(field: &FieldName, value: &[u8], clock: &Clock<'_>) -> Option<Self> {
        let unit = if field.millis { BareUnit::Milliseconds } else { BareUnit::Seconds };
        Some(match field.part {
            Part::Limit => match used_of_limit(value) {
                Some((used, limit)) => Self::Used(used, limit),
                None => {
                    let (limit, window) = members(value).next()?;
                    let again =
                        || members(value).find_map(|(other, window)| window.filter(|_| other == limit));
                    let window = window.or_else(again);
                    Self::Limit(limit, window)
                }
            },
            Part::Remaining => {
                let (least, window) = members(value)
                    .reduce(|one, other| if one.0.min(other.0) == one.0 { one } else { other })?;
                Self::Remaining(least, window)
            }
            Part::ResetAfter => Self::Reset(0, read_reset(value, unit, clock)?),
            Part::Reset => Self::Reset(1, read_reset(value, unit, clock)?),
            Part::ResetAgain => Self::Reset(2, read_reset(value, unit, clock)?),
            Part::Window => match Stated::number(decimal(value)?, unit) {
                Stated::Delay(window) => Self::Window(window),
                Stated::At(_) | Stated::Beyond => return None,
            },
            Part::Status => Self::Rejected(value.eq_ignore_ascii_case(b"rejected")),
            Part::Utilization => Self::Utilized(decimal(value)?.nanos() >= 1_000_000_000),
        })
    }
}

/// The members of a count: one number, or a list with windows such as `10, 10;w=1, 50;w=60`
/// ([draft-ietf-httpapi-ratelimit-headers-06 §5](https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-06)).
fn members(value: &[u8]) -> impl Iterator<Item = (Count, Option<Duration>)> {
    value.split(|byte| *byte == b',').take(MAX_MEMBERS).filter_map(|member| {
        let mut parts = member.split(|byte| *byte == b';');
        let count = count(parts.next()?)?;
        let window = parts.take(MAX_MEMBERS).find_map(|part| {
            // WHOOP writes the word out.
            let part = part.trim_ascii();
            let seconds = count_of(part.strip_prefix(b"w=").or_else(|| part.strip_prefix(b"window="))?)?;
            (seconds > 0).then(|| Duration::from_secs(seconds))
        });
        Some((count, window))
    })
}

fn count_of(value: &[u8]) -> Option<u64> {
    count(value).map(Count::whole)
}

/// `used/limit`, as Shopify and Salesforce write it.
pub(super) fn used_of_limit(value: &[u8]) -> Option<(Count, Count)> {
    let mut parts = value.split(|byte| *byte == b'/');
    let (used, limit) = (count(parts.next()?)?, count(parts.next()?)?);
    parts.next().is_none().then_some((used, limit))
}

/// A reset that is the whole value. Merged into its callers like [`Value::read`].
#[inline(always)]
pub(super) fn whole_reset(value: &[u8], unit: BareUnit, clock: &Clock<'_>) -> Option<Reset> {
    Some(match Value::read(value, clock.received_at())? {
        Value::Bare(number) => Reset::Bare(number, unit),
        Value::Stated(stated) => Reset::Stated(stated.within_bounds()?),
    })
}

/// A reset: the whole value first, for dates contain commas, then the members of a list.
pub(in crate::reading) fn read_reset(value: &[u8], unit: BareUnit, clock: &Clock<'_>) -> Option<Reset> {
    let one = |value: &[u8]| whole_reset(value, unit, clock);
    let without_window = |value: &[u8]| value.split(|byte| *byte == b';').next().and_then(one);
    one(value).or_else(|| value.split(|byte| *byte == b',').take(MAX_MEMBERS).find_map(without_window))
}
