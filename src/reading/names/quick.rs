//! What is cheap to know of a name: every field of every response passes here.

use super::{FieldName, Part, hash};
use crate::reading::marks::PROXY_ATTEMPTS;
use crate::units::QuotaUnit;

/// What a name may be.
pub(in crate::reading) enum Kind {
    /// One of the names that most responses with limits have.
    Frequent(&'static FieldName),
    /// That of one of the two IETF fields, without a prefix.
    Structured,
    /// One that states no part of a bucket, as [`states_nothing`] has it.
    Silent,
    /// That of another rate-limit field.
    Limit,
    /// That of a request id, of a mark of a native spill-over, or of the attempts of a proxy.
    Mark,
    Other,
}

impl Kind {
    /// What a name of at least four letters, in lower case, may be, without taking it apart.
    #[inline]
    pub(in crate::reading) fn of(name: &[u8]) -> Self {
        const X_RATELIMIT: u32 = u32::from_le_bytes(*b"x-ra");
        const ANTHROPIC: u32 = u32::from_le_bytes(*b"anth");
        const RATELIMIT: u32 = u32::from_le_bytes(*b"rate");
        const X_MS: u32 = u32::from_le_bytes(*b"x-ms");
        const CF_RAY: u32 = u32::from_le_bytes(*b"cf-r");
        const CONTENT: u32 = u32::from_le_bytes(*b"cont");
        const SERVER: u32 = u32::from_le_bytes(*b"serv");
        const CACHE: u32 = u32::from_le_bytes(*b"cach");
        const STRICT: u32 = u32::from_le_bytes(*b"stri");

        let Some((start, rest)) = name.split_first_chunk() else { return Self::Other };
        // A number, for the bytes of a pattern would be compared one by one.
        let start = u32::from_le_bytes(*start);
        let frequent = match start {
            X_RATELIMIT => rest.strip_prefix(b"telimit-").and_then(part_first),
            ANTHROPIC => rest.strip_prefix(b"ropic-ratelimit-").and_then(part_last),
            RATELIMIT => rest.strip_prefix(b"limit-").and_then(|part| part_of(&UNNAMED, part)),
            // Those that nearly all responses have need no closer look.
            CONTENT if rest == b"ent-type" || rest == b"ent-length" => return Self::Other,
            SERVER if rest == b"er" => return Self::Other,
            CACHE if rest == b"e-control" => return Self::Other,
            STRICT if rest == b"ct-transport-security" => return Self::Other,
            _ => None,
        };
        if let Some(field) = frequent {
            Self::Frequent(field)
        } else if start == RATELIMIT && (rest == b"limit" || rest == b"limit-policy") {
            Self::Structured
        } else if start == X_RATELIMIT && states_nothing(name) {
            Self::Silent
        } else if has_m(name)
            && let Some(kind) = with_m(name)
        {
            kind
        } else if start == ANTHROPIC && rest.starts_with(b"ropic-priority-") {
            Self::Limit
        } else if name.ends_with(b"d") || start == X_MS || start == CF_RAY {
            Self::Mark
        } else {
            Self::Other
        }
    }
}

/// The words behind `x-ratelimit-` that state no part of a bucket and are on many responses.
const NO_PARTS: [&[u8]; 6] = [b"used", b"resource", b"bucket", b"scope", b"global", b"type"];

/// Whether a name is known to state no part of a bucket.
pub(in crate::reading) fn states_nothing(name: &[u8]) -> bool {
    name.strip_prefix(b"x-ratelimit-").is_some_and(|rest| NO_PARTS.contains(&rest))
}

/// Whether a name that may be of a rate-limit field ends as the IETF fields do, `RateLimit` and `RateLimit-Policy`.
pub(in crate::reading) fn may_be_structured(name: &[u8]) -> bool {
    name.ends_with(b"ratelimit") || name.ends_with(b"ratelimit-policy")
}

/// The limit, what remains of it, and the reset of one bucket.
type Bucket = [FieldName; 3];

const fn bucket(family: u64, unit: Option<(QuotaUnit, u64)>) -> Bucket {
    let (unit, key, unit_named) = match unit {
        Some((unit, words)) => (unit, family.wrapping_add(words), true),
        None => (QuotaUnit::Requests, family, false),
    };
    let limit =
        FieldName { part: Part::Limit, unit, window: None, key, unit_named, millis: false, family: true };
    [limit, FieldName { part: Part::Remaining, ..limit }, FieldName { part: Part::Reset, ..limit }]
}

const REQUESTS: (QuotaUnit, u64) = (QuotaUnit::Requests, hash(b"requests"));
const TOKENS: (QuotaUnit, u64) = (QuotaUnit::Tokens, hash(b"tokens"));
const INPUT: (QuotaUnit, u64) = (QuotaUnit::InputTokens, hash(b"input").wrapping_add(TOKENS.1));
const OUTPUT: (QuotaUnit, u64) = (QuotaUnit::OutputTokens, hash(b"output").wrapping_add(TOKENS.1));
const X: u64 = hash(b"x").wrapping_add(hash(b"ratelimit"));
const ANTHROPIC: u64 = hash(b"anthropic").wrapping_add(hash(b"ratelimit"));

static UNNAMED: Bucket = bucket(hash(b"ratelimit"), None);
static X_UNNAMED: Bucket = bucket(X, None);
static X_REQUESTS: Bucket = bucket(X, Some(REQUESTS));
static X_TOKENS: Bucket = bucket(X, Some(TOKENS));
static ANTHROPIC_REQUESTS: Bucket = bucket(ANTHROPIC, Some(REQUESTS));
static ANTHROPIC_TOKENS: Bucket = bucket(ANTHROPIC, Some(TOKENS));
static ANTHROPIC_INPUT: Bucket = bucket(ANTHROPIC, Some(INPUT));
static ANTHROPIC_OUTPUT: Bucket = bucket(ANTHROPIC, Some(OUTPUT));

/// The field of a bucket that a word names. Slices are compared by `==`, as a pattern would be byte by byte.
#[inline]
fn part_of(bucket: &'static Bucket, part: &[u8]) -> Option<&'static FieldName> {
    let [limit, remaining, reset] = bucket;
    match part.len() {
        5 if part == b"limit" => Some(limit),
        5 if part == b"reset" => Some(reset),
        9 if part == b"remaining" => Some(remaining),
        _ => None,
    }
}

/// `limit-requests`, `remaining-tokens`, `reset`: what follows `x-ratelimit-`.
#[inline]
fn part_first(rest: &[u8]) -> Option<&'static FieldName> {
    match rest.len() {
        5 | 9 => part_of(&X_UNNAMED, rest),
        14 | 18 => part_of(&X_REQUESTS, rest.strip_suffix(b"-requests")?),
        12 | 16 => part_of(&X_TOKENS, rest.strip_suffix(b"-tokens")?),
        _ => None,
    }
}

/// `requests-limit`, `input-tokens-reset`: what follows `anthropic-ratelimit-`.
#[inline]
fn part_last(rest: &[u8]) -> Option<&'static FieldName> {
    match rest.first()? {
        b'r' => part_of(&ANTHROPIC_REQUESTS, rest.strip_prefix(b"requests-")?),
        b't' => part_of(&ANTHROPIC_TOKENS, rest.strip_prefix(b"tokens-")?),
        b'i' => part_of(&ANTHROPIC_INPUT, rest.strip_prefix(b"input-tokens-")?),
        b'o' => part_of(&ANTHROPIC_OUTPUT, rest.strip_prefix(b"output-tokens-")?),
        _ => None,
    }
}

/// Whether there is an `m`, as in `limit` and `remain`, and as most names do not have one.
#[inline]
fn has_m(name: &[u8]) -> bool {
    if name.len() >= 16 {
        return has_m_in_blocks(name);
    }
    // Two words, of which the second overlaps the first, so that no single bytes are left.
    if let (Some(first), Some(last)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        return has_m_in(u64::from_ne_bytes(*first)) | has_m_in(u64::from_ne_bytes(*last));
    }
    match (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            has_m_in(u64::from(u32::from_ne_bytes(*first)) << 32 | u64::from(u32::from_ne_bytes(*last)))
        }
        _ => false,
    }
}

/// The same of a long name. A block is compared at once, unless the function is merged into others that look at single
/// bytes.
#[inline(never)]
fn has_m_in_blocks(name: &[u8]) -> bool {
    let among = |block: &[u8; 16]| block.iter().fold(false, |found, byte| found | (*byte == b'm'));
    match (name.first_chunk::<16>(), name.last_chunk::<16>()) {
        (Some(first), Some(last)) => among(last) || among(first) || name.len() > 32 && name.contains(&b'm'),
        _ => false,
    }
}

/// Whether one of eight bytes is an `m`: the bit trick marks the bytes that are zero.
const fn has_m_in(word: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    const MS: u64 = 0x6d6d_6d6d_6d6d_6d6d;
    let difference = word ^ MS;
    difference.wrapping_sub(ONES) & !difference & TOPS != 0
}

/// What a name with an `m` may be for the sake of that.
#[inline(never)]
fn with_m(name: &[u8]) -> Option<Kind> {
    if names_limit(name) {
        Some(Kind::Limit)
    } else {
        (name == PROXY_ATTEMPTS.as_bytes()).then_some(Kind::Mark)
    }
}

/// Whether a name contains `limit` or `remain`. First whether it has an `l` or an `r` two letters before an `m`, as few
/// names have that do not.
fn names_limit(name: &[u8]) -> bool {
    if name.starts_with(b"x-ratelimit-") || name.starts_with(b"ratelimit") {
        return true;
    }
    let (Some((_, thirds)), Some((firsts, _))) = (name.split_at_checked(2), name.split_last_chunk::<2>())
    else {
        return false;
    };
    let pair = |first: &u8, third: &u8| (*third == b'm') & ((*first == b'l') | (*first == b'r'));
    let blocks = |firsts: &[u8; 16], thirds: &[u8; 16]| {
        firsts.iter().zip(thirds).fold(false, |found, (first, third)| found | pair(first, third))
    };
    let may = match (firsts.last_chunk::<16>(), thirds.last_chunk::<16>()) {
        (Some(first), Some(third)) => {
            blocks(first, third)
                || firsts.as_chunks().0.iter().zip(thirds.as_chunks().0).any(|(f, t)| blocks(f, t))
        }
        _ => firsts.iter().zip(thirds).any(|(first, third)| pair(first, third)),
    };
    may && (name.windows(5).any(|word| word == b"limit") || name.windows(6).any(|word| word == b"remain"))
}
