//! Instants, in all the forms that servers print: HTTP-dates, RFC 3339, JavaScript's `Date`, and those of sentences. All
//! as the time since the epoch; an earlier instant is the epoch itself.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::Clock;

const WEEKDAYS: &str = "monday tuesday wednesday thursday friday saturday sunday";
const MONTHS: &str = "january february march april may june july august september october november december";
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Whether a word is one of some names, in full or by its first three letters.
fn named(word: &[u8], names: &str) -> Option<usize> {
    names.split(' ').position(|name| {
        let name = name.as_bytes();
        word.eq_ignore_ascii_case(name) || name.get(..3).is_some_and(|short| word.eq_ignore_ascii_case(short))
    })
}

/// Whether a word is the name of a weekday, in full or by its first three letters.
pub(in crate::reading) fn is_weekday(word: &[u8]) -> bool {
    named(word, WEEKDAYS).is_some()
}

/// An instant that is the whole value: the three forms of an HTTP-date ([RFC 9110 §5.6.7]), [RFC 3339], what JavaScript
/// prints.
///
/// Tolerated beyond the grammars, because the instant stays exact: a real weekday that is not the date's own, `UTC`
/// and numeric offsets, a day without its zero, seconds left out, the leap second (POSIX time maps it to the next second).
///
/// [RFC 9110 §5.6.7]: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7
/// [RFC 3339]: https://www.rfc-editor.org/rfc/rfc3339#section-5.6
pub(super) fn instant(value: &[u8], clock: &Clock<'_>) -> Option<Duration> {
    // In a header a month's name without a weekday is in no grammar.
    let starts_whole = value.first()?.is_ascii_alphabetic() || matches!(value, [_, _, _, _, b'-' | b'/', ..]);
    let weekday = value.split(|byte| !byte.is_ascii_alphabetic()).next().is_some_and(is_weekday);
    if !starts_whole || value.first()?.is_ascii_alphabetic() && !weekday {
        return None;
    }
    match scan_instant(value, clock)? {
        (at, []) => Some(at),
        _ => None,
    }
}

/// The instant that a text begins with, and what follows it.
pub(in crate::reading) fn scan_instant<'t>(
    text: &'t [u8],
    clock: &Clock<'_>,
) -> Option<(Duration, &'t [u8])> {
    let mut rest = Cursor(text);
    let date = rest.date(clock)?;
    rest.between();
    let time = rest.time()?;
    let year = match date.year {
        Some(year) => year,
        // asctime has the year at its end, and is in UTC.
        None => {
            // `date` of Unix names the zone before it.
            rest.maybe(|rest| is_utc(rest.word()).then_some(()));
            rest.skip(b" ");
            rest.digits(4, 4)?
        }
    };
    let zone = match rest.zone(date.numeric)? {
        Some(zone) => zone,
        None if date.year.is_none() => 0,
        None => clock.zone?,
    };
    let leap = time.second == 60;
    let civil = DateTime::new(
        i16::try_from(year).ok()?,
        date.month,
        i8::try_from(date.day).ok()?,
        i8::try_from(time.hour).ok()?,
        i8::try_from(time.minute).ok()?,
        i8::try_from(if leap { 59 } else { time.second }).ok()?,
        0,
    );
    let seconds = civil.ok()?.duration_since(EPOCH).as_secs();
    let seconds = seconds.checked_add(i64::from(leap))?.checked_sub(i64::from(zone))?;
    let since_epoch = Duration::from_secs(u64::try_from(seconds.max(0)).ok()?);
    Some((since_epoch.saturating_add(time.fraction), rest.0))
}

fn is_utc(zone: &[u8]) -> bool {
    ["gmt", "utc", "ut", "z"].iter().any(|utc| zone.eq_ignore_ascii_case(utc.as_bytes()))
}

struct Date {
    /// Where it does not stand behind the time.
    year: Option<u32>,
    month: i8,
    day: u32,
    /// `2024-06-03`, and not with the month's name.
    numeric: bool,
}

struct Time {
    hour: u32,
    minute: u32,
    second: u32,
    fraction: Duration,
}

struct Cursor<'t>(&'t [u8]);

impl<'t> Cursor<'t> {
    fn skip(&mut self, any: &[u8]) -> bool {
        let before = self.0.len();
        while let [byte, tail @ ..] = self.0
            && any.contains(byte)
        {
            self.0 = tail;
        }
        self.0.len() < before
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    /// A number of so many digits, and no more behind them.
    fn digits(&mut self, least: usize, most: usize) -> Option<u32> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at_checked(count).filter(|_| (least..=most).contains(&count))?;
        self.0 = rest;
        str::from_utf8(digits).ok()?.parse().ok()
    }

    fn letters(&mut self) -> &'t [u8] {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (word, rest) = self.0.split_at_checked(count).unwrap_or((b"", self.0));
        self.0 = rest;
        word
    }

    fn word(&mut self) -> &'t [u8] {
        self.skip(b" ");
        self.letters()
    }

    fn month(&mut self) -> Option<i8> {
        i8::try_from(named(self.letters(), MONTHS)?).ok()?.checked_add(1)
    }

    /// What `read` makes of the text, which is as before if that is nothing.
    fn maybe<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let before = self.0;
        let read = read(self);
        if read.is_none() {
            self.0 = before;
        }
        read
    }

    /// A day of the month: `1`, `01`, `1st`.
    fn day(&mut self) -> Option<u32> {
        let day = self.digits(1, 2)?;
        self.maybe(|rest| matches!(rest.letters(), b"st" | b"nd" | b"rd" | b"th").then_some(()));
        Some(day)
    }

    fn date(&mut self, clock: &Clock<'_>) -> Option<Date> {
        self.maybe(|rest| is_weekday(rest.letters()).then(|| rest.skip(b", ")));
        match self.0 {
            [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', ..] => {
                let year = self.digits(4, 4)?;
                let separator = *self.0.first().filter(|byte| matches!(byte, b'-' | b'/'))?;
                self.eat(separator)?;
                let month = match self.0.first()? {
                    b'0'..=b'9' => i8::try_from(self.digits(2, 2)?).ok()?,
                    _ => self.month()?,
                };
                self.eat(separator)?;
                Some(Date { year: Some(year), month, day: self.digits(2, 2)?, numeric: true })
            }
            [b'0'..=b'9', ..] => {
                let day = self.day()?;
                let hyphens = self.0.first() == Some(&b'-');
                let between: &[u8] = if hyphens { b"-" } else { b" ,." };
                self.skip(between);
                let month = self.month()?;
                self.skip(between);
                let year = match self.digits(4, 4) {
                    Some(year) => year,
                    None => full_year(self.digits(2, 2).filter(|_| hyphens)?, clock.received_at)?,
                };
                Some(Date { year: Some(year), month, day, numeric: false })
            }
            _ => {
                let month = self.month()?;
                self.skip(b" .");
                let day = self.day()?;
                let year = self.maybe(|rest| {
                    rest.skip(b" ,");
                    rest.digits(4, 4)
                });
                Some(Date { year, month, day, numeric: false })
            }
        }
    }

    /// What stands between a date and a time.
    fn between(&mut self) {
        if let [b'T' | b't', tail @ ..] = self.0 {
            self.0 = tail;
            return;
        }
        self.skip(b" ,");
        self.0 = self.0.strip_prefix(b"at ").unwrap_or(self.0);
    }

    fn time(&mut self) -> Option<Time> {
        let hour = self.digits(2, 2)?;
        self.eat(b':')?;
        let minute = self.digits(2, 2)?;
        let (mut second, mut fraction) = (0, Duration::ZERO);
        if self.eat(b':').is_some() {
            second = self.digits(2, 2)?;
            if matches!(self.0, [b'.', b'0'..=b'9', ..]) {
                (fraction, self.0) = super::scan_number(self.0)?;
            }
        }
        let half = self.maybe(|rest| {
            let half = rest.word();
            [(b"am", 0), (b"pm", 12)]
                .iter()
                .find(|(name, _)| half.eq_ignore_ascii_case(*name) && hour <= 12)
                .map(|(_, more)| *more)
        });
        let hour = half.map_or(Some(hour), |more: u32| hour.checked_rem(12)?.checked_add(more))?;
        Some(Time { hour, minute, second, fraction })
    }

    /// The seconds that a zone is ahead of UTC; the inner `None` where there is none. A named zone other than UTC is not
    /// in use in HTTP, and stands for several at times.
    fn zone(&mut self, numeric: bool) -> Option<Option<i32>> {
        let before = self.0;
        let named = self.word();
        let is_utc = is_utc(named);
        if !named.is_empty() && !is_utc {
            self.0 = before;
            return Some(None);
        }
        let [sign @ (b'+' | b'-'), tail @ ..] = self.0 else {
            if !is_utc {
                self.0 = before;
            }
            return Some(is_utc.then_some(0));
        };
        self.0 = tail;
        let (hours, minutes) = match self.0 {
            [_, _, b':', ..] if numeric => {
                let hours = self.digits(2, 2)?;
                self.eat(b':')?;
                (hours, self.digits(2, 2)?)
            }
            _ => {
                let both = self.digits(4, 4)?;
                (both.checked_div(100)?, both.checked_rem(100)?)
            }
        };
        if hours > 23 || minutes > 59 {
            return None;
        }
        let seconds = i32::try_from(hours.checked_mul(3_600)?.checked_add(minutes.checked_mul(60)?)?).ok()?;
        if is_utc {
            // JavaScript: `GMT+0000 (Coordinated Universal Time)`. Only where it is UTC: the table of cases has others ignored.
            if let Some((b" (", tail)) = self.0.split_at_checked(2)
                && let Some(end) = tail.iter().position(|byte| *byte == b')')
            {
                self.0 = tail.get(end.saturating_add(1)..).unwrap_or_default();
            }
            return (seconds == 0).then_some(Some(0));
        }
        self.maybe(|rest| rest.word().eq_ignore_ascii_case(b"utc").then_some(()));
        Some(Some(if *sign == b'-' { seconds.checked_neg()? } else { seconds }))
    }
}

/// RFC 9110 §5.6.7: a year that appears to be more than 50 years ahead is the most recent past year that ends so.
fn full_year(short: u32, received_at: SystemTime) -> Option<u32> {
    let now = Timestamp::try_from(received_at).ok()?;
    let now = u32::try_from(Offset::UTC.to_datetime(now).year()).ok()?;
    let year = now.checked_sub(now.checked_rem(100)?)?.checked_add(short)?;
    Some(if year > now.saturating_add(50) {
        year.saturating_sub(100)
    } else if year.saturating_add(50) <= now {
        year.saturating_add(100)
    } else {
        year
    })
}
