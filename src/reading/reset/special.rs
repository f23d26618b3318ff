//! The fields that state a whole bucket in one value.

use http::HeaderName;

use super::super::names::hash;
use super::super::value::{BareUnit, Clock, count};
use super::Buckets;
use super::field::{MAX_MEMBERS, read_reset, used_of_limit};
use crate::units::QuotaUnit;

impl<'h> Buckets<'h> {
    /// The length of the shortest such value, of names that say nothing by themselves.
    pub(in crate::reading) const SHORTEST_SPECIAL: usize = b"remaining=;".len();

    /// Takes in such a field; whether it was one.
    pub(super) fn note_special(
        &mut self,
        name: &'h HeaderName,
        text: &str,
        value: &[u8],
        clock: &Clock<'_>,
    ) -> Option<()> {
        if text == "sforce-limit-info" {
            // https://developer.salesforce.com: `api-usage=used/limit`, then per-application figures.
            let usage = value
                .split(|byte| matches!(byte, b';' | b','))
                .find_map(|part| part.trim_ascii().strip_prefix(b"api-usage="));
            let (used, limit) = used_of_limit(usage?)?;
            let bucket = self.bucket(hash(text.as_bytes()), QuotaUnit::Quota)?;
            bucket.family = true;
            bucket.note_used(used, limit);
            return Some(());
        }
        // https://developer.zendesk.com: `Zendesk-RateLimit-<endpoint>: total=100; remaining=0; resets=27`.
        if value.len() < Self::SHORTEST_SPECIAL
            || !value.contains(&b'=')
            || !value.contains(&b';')
            || !text.contains("ratelimit-")
        {
            return None;
        }
        let pairs = || {
            value.split(|byte| *byte == b';').take(MAX_MEMBERS).filter_map(|pair| {
                let at = pair.iter().position(|byte| *byte == b'=')?;
                Some((pair.get(..at)?.trim_ascii(), pair.get(at.checked_add(1)?..)?.trim_ascii()))
            })
        };
        if !pairs().any(|(key, _)| key.eq_ignore_ascii_case(b"remaining")) {
            return None;
        }
        let bucket = self.bucket(hash(text.as_bytes()), QuotaUnit::Requests)?;
        bucket.family = true;
        for (key, value) in pairs() {
            if key.eq_ignore_ascii_case(b"total") || key.eq_ignore_ascii_case(b"limit") {
                bucket.limit = count(value).or(bucket.limit);
            } else if key.eq_ignore_ascii_case(b"remaining") {
                bucket.remaining = count(value).or(bucket.remaining);
            } else if (key.eq_ignore_ascii_case(b"resets") || key.eq_ignore_ascii_case(b"reset"))
                && let Some(reset) = read_reset(value, BareUnit::Seconds, clock)
            {
                bucket.note_reset(1, reset, name, clock);
            }
        }
        Some(())
    }
}
