//! What the words of a name say is counted, and over which window.

use std::time::Duration;

use super::super::value::count;
use crate::units::QuotaUnit;

const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;

/// The window that a word names, for example `minute`, `24hour`, `5h`, or the two words `10-second`.
pub(super) fn window_of(previous: &[u8], word: &[u8]) -> Option<Duration> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = word.split_at_checked(digits)?;
    let seconds = match unit {
        b"second" | b"seconds" | b"secondly" | b"sec" => 1,
        b"minute" | b"minutes" | b"minutely" | b"min" => MINUTE,
        b"hour" | b"hours" | b"hourly" => HOUR,
        b"day" | b"days" | b"daily" => DAY,
        b"week" | b"weekly" => 7 * DAY,
        b"month" | b"monthly" => 30 * DAY,
        b"s" if digits > 0 => 1,
        b"m" if digits > 0 => MINUTE,
        b"h" if digits > 0 => HOUR,
        b"d" if digits > 0 => DAY,
        _ => return None,
    };
    let whole = |text: &[u8]| {
        text.first().filter(|byte| byte.is_ascii_digit()).and(count(text)).map(|count| count.whole())
    };
    let number = if digits > 0 { whole(number)? } else { whole(previous).unwrap_or(1) };
    number.checked_mul(seconds).filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// What a word says is counted, and how far it outranks the other words of its name.
pub(super) fn counts(word: &[u8]) -> Option<(u8, QuotaUnit)> {
    Some(match word {
        b"requests" | b"request" | b"req" | b"reqs" | b"call" | b"calls" | b"rpm" | b"rpd" => {
            (1, QuotaUnit::Requests)
        }
        b"tokens" | b"token" | b"tpm" | b"tpd" | b"ratelimitbysize" => (2, QuotaUnit::Tokens),
        b"output" | b"generated" | b"completion" => (3, QuotaUnit::OutputTokens),
        b"input" | b"prompt" => (4, QuotaUnit::InputTokens),
        b"concurrent" | b"concurrency" | b"connections" | b"parallel" | b"simultaneous" => {
            (5, QuotaUnit::Concurrency)
        }
        b"images" | b"image" | b"audio" | b"bytes" | b"cost" | b"points" | b"credits" | b"complexity"
        | b"spend" | b"unified" => (6, QuotaUnit::Quota),
        _ => return None,
    })
}
