//! Reading a response, and deciding about it.

use std::time::{Duration, Instant, SystemTime};

use http::{HeaderValue, StatusCode};
use reqwest_admission::decision::{Call, Decision, Outcome, decide};
use reqwest_admission::jitter::Draw;
use reqwest_admission::reading::Profile;
use reqwest_admission::{AdmissionPolicy, LatencyBudget, Reading};

use super::SECRET;
use super::message::Message;

/// The documented bound of a hint: 366 days as a delay, the year 2101 as an instant.
const LATEST: Duration = Duration::from_secs(4_133_980_800);

/// Words: status, profile, seconds of the clock, milliseconds of the budget, attempts so far.
pub(crate) fn reading(input: &[u8]) {
    let Some(mut message) = Message::read(input) else { return };
    let Ok(status) = StatusCode::from_u16(u16::try_from(message.number(0) % 900).unwrap_or_default() + 100)
    else {
        return;
    };
    let profile = Profile::named(message.word(1));
    let received_at = SystemTime::UNIX_EPOCH + Duration::from_secs(message.number(2) % 300_000_000_000);
    for name in ["set-cookie", "authorization", "www-authenticate", "location"] {
        message.headers.insert(name, HeaderValue::from_static(SECRET));
    }
    let start = Instant::now();
    let read = || Reading::with_profile(profile, status, &message.headers, Some(message.body), received_at);
    let reading = read();
    let debug = format!("{reading:?}");
    assert!(!debug.contains(SECRET), "{debug}");
    assert!(debug.len() < 8 * 1024, "{} bytes", debug.len());
    assert_eq!(debug, format!("{:?}", read()), "read in two ways");
    if let Some(hint) = reading.hint() {
        assert!(reading.is_throttled());
        assert!(hint.wait() <= LATEST);
        assert!(hint.source().to_string().len() <= 1024);
    }
    assert!(reading.request_id().is_none_or(|id| id.len() <= 128 && id.is_ascii()));
    for limit in reading.limits() {
        assert!(limit.reset.is_none_or(|reset| reset <= LATEST), "{limit:?} at {received_at:?}");
    }
    decisions(&reading, &message);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?} for {} bytes", start.elapsed(), input.len());
}

/// Never before the advice, never past the budget, whatever the draw.
fn decisions(reading: &Reading, message: &Message<'_>) {
    let at = Instant::now();
    let deadline =
        LatencyBudget::new(Duration::from_millis(message.number(3) % 100_000_000_000)).deadline(at);
    let attempts = u32::try_from(message.number(4) % 8).unwrap_or_default();
    for (draw, idempotent) in [(0.0, true), (0.5, false), (1.0, true)] {
        let call = Call::new(deadline).attempts(attempts).idempotent(idempotent);
        let policy = AdmissionPolicy::default();
        let decision = decide(&policy, Outcome::Response(reading), &call, at, Draw::new(draw));
        if let Decision::Wait { until, .. } = decision {
            assert!(reading.terminal().is_none(), "waits for what no wait mends");
            let advised = reading.hint().map(|hint| hint.wait()).unwrap_or_default();
            assert!(until >= at + advised, "{until:?} is before the advice");
            assert!(until <= deadline, "{until:?} is past the budget");
            assert!(reading.terminal().is_none() && attempts < policy.max_attempts());
        }
    }
}
