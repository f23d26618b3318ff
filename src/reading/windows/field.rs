//! The values of limit, remaining and reset fields.

use std::time::Duration;

use arrayvec::ArrayVec;

use super::super::names::{FieldName, Part};
use super::super::value::{Clock, Count, Stated, TimeUnit, Value, count, number};

/// The most members of a comma-joined value that are read.
pub(super) const MAX_MEMBERS: usize = 8;

/// A reset as it was sent; what a bare number means may depend on the rest of the window.
#[derive(Debug, Clone, Copy)]
pub(in crate::reading) struct Reset {
    pub(in crate::reading) value: Value,
    pub(in crate::reading) unit: TimeUnit,
}

/// The value of one field, or of one place in it; a place that says nothing holds the others in theirs.
pub(super) enum ReadPart {
    Limit(Count, Option<Duration>),
    Used(Count, Count),
    Remaining(Count, Option<Duration>),
    /// With its rank among the notations.
    Reset(u8, Reset),
    Window(Duration),
    Rejected(bool),
    Utilized(bool),
}

/// Reads the value of a field, or its several values; none at all if it is no value.
pub(super) fn read(
    field: &FieldName,
    value: &[u8],
    clock: &Clock<'_>,
    parts: &mut ArrayVec<Option<ReadPart>, MAX_MEMBERS>,
) {
    // The whole value first, for dates contain commas.
    let whole = match field.part {
        Part::Limit => used_of_limit(value).map(|(used, limit)| ReadPart::Used(used, limit)),
        Part::Status if count(value).is_none() => {
            Some(ReadPart::Rejected(value.eq_ignore_ascii_case(b"rejected")))
        }
        Part::Utilization => number(value).map(|share| ReadPart::Utilized(share >= Duration::from_secs(1))),
        Part::Window => match Value::read(value, clock).map(|value| value.stated(field.time)) {
            Some(Stated::Delay(window)) => Some(ReadPart::Window(window)),
            _ => None,
        },
        Part::Reset | Part::ResetAfter | Part::ResetAgain => reset(field, value, clock),
        Part::Remaining | Part::Status => None,
    };
    if whole.is_some() {
        let _ = parts.try_push(whole);
    } else if !matches!(field.part, Part::Window | Part::Utilization) {
        let members = value.split(|byte| *byte == b',').take(MAX_MEMBERS);
        parts.extend(members.map(|member| read_member(field, member, clock)));
        if parts.iter().all(Option::is_none) {
            parts.clear();
        }
    }
}

/// A reset in one notation outranks the same in another: a time from now, an instant, the instant again.
fn reset(field: &FieldName, value: &[u8], clock: &Clock<'_>) -> Option<ReadPart> {
    let rank = match field.part {
        Part::ResetAfter => 0,
        Part::Reset => 1,
        _ => 2,
    };
    read_reset(value, field.time, clock).map(|reset| ReadPart::Reset(rank, reset))
}

/// One place of a list such as `10, 10;w=1, 50;w=60`
/// ([draft-ietf-httpapi-ratelimit-headers-06 §5](https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-06)).
fn read_member(field: &FieldName, member: &[u8], clock: &Clock<'_>) -> Option<ReadPart> {
    let mut parts = member.split(|byte| *byte == b';');
    let first = parts.next().unwrap_or_default();
    if !matches!(field.part, Part::Limit | Part::Remaining | Part::Status) {
        return reset(field, first, clock);
    }
    let number = count(first)?;
    let window = parts.take(MAX_MEMBERS).find_map(|part| {
        // WHOOP writes the word out.
        let part = part.trim_ascii();
        let seconds = part.strip_prefix(b"w=").or_else(|| part.strip_prefix(b"window="))?;
        count(seconds).map(Count::whole).filter(|seconds| *seconds > 0).map(Duration::from_secs)
    });
    let is_limit = field.part == Part::Limit;
    Some(if is_limit { ReadPart::Limit(number, window) } else { ReadPart::Remaining(number, window) })
}

/// `used/limit`, as Shopify and Salesforce write it.
pub(super) fn used_of_limit(value: &[u8]) -> Option<(Count, Count)> {
    let mut parts = value.split(|byte| *byte == b'/');
    let (used, limit) = (count(parts.next()?)?, count(parts.next()?)?);
    parts.next().is_none().then_some((used, limit))
}

pub(in crate::reading) fn read_reset(value: &[u8], unit: TimeUnit, clock: &Clock<'_>) -> Option<Reset> {
    let value = Value::read(value, clock)?;
    match value {
        Value::Stated(Stated::Beyond) => None,
        value => Some(Reset { value, unit }),
    }
}
