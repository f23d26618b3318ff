//! Conversions between counts, durations and the `f64` that the arithmetic runs in; all total, all saturating.

use std::time::Duration;

/// Waits shorter than this are none: a timer could not tell them, and would cost a whole tick.
pub(super) const ROUNDING: Duration = Duration::from_micros(5);

/// The longest wait that is ever told or kept; what is longer is as good as never.
pub(crate) const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A wait below this many seconds is rounding noise.
const NOISE: f64 = 1e-6;

const TWO_POW_32: f64 = 4_294_967_296.0;

/// The lower of two numbers, where `most` is one: a comparison and no more, while [`f64::min`] asks of both whether they are.
#[inline]
pub(crate) const fn at_most(number: f64, most: f64) -> f64 {
    if number < most { number } else { most }
}

/// The higher of two numbers, where `least` is one.
#[inline]
pub(crate) const fn at_least(number: f64, least: f64) -> f64 {
    if number > least { number } else { least }
}

/// A count as a float, exact up to 2⁵³.
#[inline]
pub(crate) fn float(count: u64) -> f64 {
    if let Ok(count) = u32::try_from(count) {
        return f64::from(count);
    }
    let high = u32::try_from(count >> 32).unwrap_or(u32::MAX);
    let low = u32::try_from(count & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    f64::from(high) * TWO_POW_32 + f64::from(low)
}

/// The whole part of a float, saturating at both ends; not-a-number is 0.
#[inline]
pub(crate) fn whole(value: f64) -> u64 {
    if value >= 1.0 {
        Duration::try_from_secs_f64(value).map_or(u64::MAX, |whole| whole.as_secs())
    } else {
        0
    }
}

/// Seconds as a duration in whole microseconds, rounded down: a wait that rounding has made longer than a deadline by a
/// nanosecond is in time. What a timer set by it comes too early is below [`NOISE`], so that a wait that is over by the
/// clock is over by the arithmetic.
pub(crate) fn duration(seconds: f64) -> Duration {
    if seconds > NOISE {
        Duration::from_micros(whole(seconds.min(LONGEST.as_secs_f64()) * 1e6))
    } else {
        Duration::ZERO
    }
}

/// Seconds as a duration in whole microseconds, rounded up: a wait that is told to somebody else must not be too short.
pub(crate) fn wait_of(seconds: f64) -> Duration {
    let micros = seconds.min(LONGEST.as_secs_f64()) * 1e6;
    // What is below a nanosecond is the rounding of the arithmetic.
    Duration::from_micros(whole((micros - 1e-3).ceil()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_total() {
        assert!((float(1 << 40) - 1_099_511_627_776.0).abs() < f64::EPSILON);
        assert!(float(u64::MAX) > 1.8e19);
        assert_eq!(float(41), 41.0);
        assert_eq!(float(u64::from(u32::MAX) + 1), 4_294_967_296.0);
        assert_eq!((at_most(2.0, 1.0), at_most(0.5, 1.0), at_most(f64::NAN, 1.0)), (1.0, 0.5, 1.0));
        assert_eq!((at_least(2.0, 1.0), at_least(0.5, 1.0), at_least(f64::NAN, 1.0)), (2.0, 1.0, 1.0));
        assert_eq!(whole(f64::NAN), 0);
        assert_eq!(whole(-3.0), 0);
        assert_eq!(whole(f64::INFINITY), u64::MAX);
        assert_eq!(whole(41.9), 41);
        assert_eq!(duration(f64::NAN), Duration::ZERO);
        assert_eq!(duration(f64::INFINITY), LONGEST);
        assert_eq!(duration(-1.0), Duration::ZERO);
        assert!(duration(0.25) >= Duration::from_millis(250));
    }
}
