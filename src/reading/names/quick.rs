//! What is cheap to know of a name: every field of every response passes here.

use super::{FieldName, Part, hash};
use crate::units::QuotaUnit;

/// Whether a name may be one of these; cheap, for every field of every response passes here.
#[inline]
pub(in crate::reading) fn may_be_limit(name: &str) -> bool {
    if name.starts_with("x-ratelimit-") {
        return true;
    }
    // Both `limit` and `remaining` have an `m`, and most names have none.
    if has_m(name.as_bytes()) {
        let mut rest = name.as_bytes();
        while let [first, tail @ ..] = rest {
            if matches!(
                (first, tail),
                (b'l', [b'i', b'm', b'i', b't', ..]) | (b'r', [b'e', b'm', b'a', b'i', b'n', ..])
            ) {
                return true;
            }
            rest = tail;
        }
    }
    name.starts_with("anthropic-priority-")
}

/// Whether there is an `m` (eight bytes at a time: the bit trick marks the bytes that are zero).
fn has_m(name: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let in_word = |word: &[u8; 8]| {
        let difference = u64::from_ne_bytes(*word) ^ (ONES.wrapping_mul(0x6d));
        difference.wrapping_sub(ONES) & !difference & TOPS != 0
    };
    let (words, rest) = name.as_chunks::<8>();
    match name.last_chunk::<8>() {
        // The last word overlaps the one before it, so that no single bytes are left.
        Some(last) => in_word(last) || words.iter().any(in_word),
        None => rest.contains(&b'm'),
    }
}

/// The names that most responses with limits have, without taking them apart.
#[inline]
pub(in crate::reading) fn frequent_name(name: &[u8]) -> Option<FieldName> {
    const FAMILY: u64 = hash(b"x").wrapping_add(hash(b"ratelimit"));
    const REQUESTS: (QuotaUnit, u64, bool) =
        (QuotaUnit::Requests, FAMILY.wrapping_add(hash(b"requests")), true);
    const TOKENS: (QuotaUnit, u64, bool) = (QuotaUnit::Tokens, FAMILY.wrapping_add(hash(b"tokens")), true);
    const UNNAMED: (QuotaUnit, u64, bool) = (QuotaUnit::Requests, FAMILY, false);

    let (part, rest) = match name.strip_prefix(b"x-ratelimit-")? {
        [b'l', b'i', b'm', b'i', b't', rest @ ..] => (Part::Limit, rest),
        [b'r', b'e', b'm', b'a', b'i', b'n', b'i', b'n', b'g', rest @ ..] => (Part::Remaining, rest),
        [b'r', b'e', b's', b'e', b't', rest @ ..] => (Part::Reset, rest),
        _ => return None,
    };
    let (unit, key, unit_named) = match rest {
        b"-requests" => REQUESTS,
        b"-tokens" => TOKENS,
        b"" => UNNAMED,
        _ => return None,
    };
    Some(FieldName { part, unit, window: None, key, unit_named, millis: false, family: true })
}
