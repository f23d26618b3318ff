//! Numbers and moments as servers write them.

use std::time::{Duration, SystemTime};

/// Rounded up, but not because of the last digit of a sum.
pub(super) fn up(number: f64) -> u64 {
    (number - 1e-6).ceil().max(0.0) as u64
}

/// A window as express-rate-limit names it.
pub(super) fn written(window: f64) -> String {
    if window >= 60.0 { format!("{}min", window / 60.0) } else { format!("{window}sec") }
}

fn time(epoch: f64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs_f64(epoch.max(0.0))
}

/// As in the header `Date`.
pub(super) fn date(epoch: f64) -> String {
    httpdate::fmt_http_date(time(epoch))
}

/// As JavaScript writes a `Date`.
pub(super) fn javascript(epoch: f64) -> String {
    let [name, day, month, year, clock] = parts(epoch);
    format!("{name} {month} {day} {year} {clock} GMT+0000 (Coordinated Universal Time)")
}

/// As LiteLLM writes a moment.
pub(super) fn universal(epoch: f64) -> String {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let [_, day, month, year, clock] = parts(epoch);
    let month = MONTHS.find(&month).map_or(0, |place| place / 3 + 1);
    format!("{year}-{month:02}-{day} {clock} UTC")
}

/// Name of the day, day, month, year, time of the day.
fn parts(epoch: f64) -> [String; 5] {
    let text = date(epoch).replace(',', "");
    let mut words = text.split(' ').map(str::to_owned);
    std::array::from_fn(|_| words.next().unwrap_or_default())
}
