//! Instants, in all the forms that servers print: HTTP-dates, RFC 3339, JavaScript's `Date`, and those of sentences. All
//! as the time since the epoch; an earlier instant is the epoch itself.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::{Clock, scan_number};

/// Names in columns of ten letters.
const WEEKDAYS: &[u8] = b"monday    tuesday   wednesday thursday  friday    saturday  sunday";
const MONTHS: &[u8] =
    b"january   february  march     april     may       june      july      august    september \
    october   november  december";
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The place of a word among some names, in full or by its first three letters.
fn named(word: &[u8], names: &[u8]) -> Option<usize> {
    let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
    names
        .chunks(10)
        .position(|name| is(name.trim_ascii_end()) || word.len() == 3 && is(name.get(..3).unwrap_or(name)))
}

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
    let starts = matches!(value, [_, _, _, _, b'-' | b'/', ..]) && !value.first()?.is_ascii_alphabetic();
    if !starts && !is_weekday(Cursor(value).letters()) {
        return None;
    }
    scan_instant(value, clock).and_then(|(at, rest)| rest.is_empty().then_some(at))
}

/// The instant that a text begins with, and what follows it.
pub(in crate::reading) fn scan_instant<'t>(
    text: &'t [u8],
    clock: &Clock<'_>,
) -> Option<(Duration, &'t [u8])> {
    let mut rest = Cursor(text);
    let (date, is_numeric) = rest.date(clock.received_at)?;
    if rest.eat(b'T').or_else(|| rest.eat(b't')).is_none() {
        rest.skip(b" ,");
        rest.0 = rest.0.strip_prefix(b"at ").unwrap_or(rest.0);
    }
    let ([hour, minute, second], fraction) = rest.time()?;
    let year = match date.year {
        Some(year) => year,
        // asctime has the year at its end; `date` of Unix names the zone before it.
        None => {
            rest.utc();
            rest.skip(b" ");
            rest.digits(4, 4)?
        }
    };
    // asctime is in UTC.
    let zone = match rest.zone(is_numeric)? {
        Some(zone) => zone,
        None if date.year.is_none() => 0,
        None => clock.zone?,
    };
    let (leap, small) = (second == 60, |number: u32| i8::try_from(number).ok());
    let second = small(if leap { 59 } else { second })?;
    let day = small(date.day)?;
    let civil =
        DateTime::new(i16::try_from(year).ok()?, date.month, day, small(hour)?, small(minute)?, second, 0);
    let seconds = civil.ok()?.duration_since(EPOCH).as_secs();
    let seconds = seconds.checked_add(i64::from(leap))?.checked_sub(i64::from(zone))?;
    let since_epoch = Duration::from_secs(u64::try_from(seconds.max(0)).ok()?);
    Some((since_epoch.saturating_add(fraction), rest.0))
}

struct Date {
    /// `None` if it stands behind the time.
    year: Option<u32>,
    month: i8,
    day: u32,
}

struct Cursor<'t>(&'t [u8]);

impl<'t> Cursor<'t> {
    fn skip(&mut self, any: &[u8]) {
        while let [byte, tail @ ..] = self.0
            && any.contains(byte)
        {
            self.0 = tail;
        }
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

    fn day(&mut self) -> Option<u32> {
        let day = self.digits(1, 2)?;
        self.maybe(|rest| matches!(rest.letters(), b"st" | b"nd" | b"rd" | b"th").then_some(()));
        Some(day)
    }

    /// A date, and whether it is of the form `2024-06-03`.
    fn date(&mut self, received_at: SystemTime) -> Option<(Date, bool)> {
        self.maybe(|rest| is_weekday(rest.letters()).then(|| rest.skip(b", ")));
        if let [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', ..] = self.0 {
            let year = Some(self.digits(4, 4)?);
            let separator = *self.0.first().filter(|byte| matches!(byte, b'-' | b'/'))?;
            self.eat(separator)?;
            let month = match self.0.first()? {
                b'0'..=b'9' => i8::try_from(self.digits(2, 2)?).ok()?,
                _ => self.month()?,
            };
            self.eat(separator)?;
            return Some((Date { year, month, day: self.digits(2, 2)? }, true));
        }
        if self.0.first()?.is_ascii_digit() {
            let day = self.day()?;
            let hyphens = self.0.first() == Some(&b'-');
            let between: &[u8] = if hyphens { b"-" } else { b" ,." };
            self.skip(between);
            let month = self.month()?;
            self.skip(between);
            let year = match self.digits(4, 4) {
                Some(year) => year,
                None => full_year(self.digits(2, 2).filter(|_| hyphens)?, received_at)?,
            };
            return Some((Date { year: Some(year), month, day }, false));
        }
        let month = self.month()?;
        self.skip(b" .");
        let day = self.day()?;
        let year = self.maybe(|rest| {
            rest.skip(b" ,");
            rest.digits(4, 4)
        });
        Some((Date { year, month, day }, false))
    }

    /// Hour, minute and second, and the fraction of it.
    fn time(&mut self) -> Option<([u32; 3], Duration)> {
        let hour = self.digits(2, 2)?;
        self.eat(b':')?;
        let minute = self.digits(2, 2)?;
        let (mut second, mut fraction) = (0, Duration::ZERO);
        if self.eat(b':').is_some() {
            second = self.digits(2, 2)?;
            if matches!(self.0, [b'.', b'0'..=b'9', ..]) {
                (fraction, self.0) = scan_number(self.0)?;
            }
        }
        let half = self.maybe(|rest| named(rest.word(), b"am        pm").filter(|_| hour <= 12));
        let more = |half| u32::try_from(half).ok()?.checked_mul(12)?.checked_add(hour.checked_rem(12)?);
        Some(([half.map_or(Some(hour), more)?, minute, second], fraction))
    }

    fn utc(&mut self) -> Option<()> {
        let is = |word: &[u8]| {
            ["gmt", "utc", "ut", "z"].iter().any(|utc| word.eq_ignore_ascii_case(utc.as_bytes()))
        };
        self.maybe(|rest| is(rest.word()).then_some(()))
    }

    /// The seconds that a zone is ahead of UTC; the inner `None` if there is none. A named zone other than UTC is not in use
    /// in HTTP, and stands for several at times.
    fn zone(&mut self, colon: bool) -> Option<Option<i32>> {
        let before = self.0;
        let is_utc = self.utc().is_some();
        if !is_utc {
            self.skip(b" ");
        }
        let sign = match self.0 {
            [b'+', tail @ ..] => (1, tail),
            [b'-', tail @ ..] => (-1, tail),
            _ => {
                self.0 = if is_utc { self.0 } else { before };
                return Some(is_utc.then_some(0));
            }
        };
        self.0 = sign.1;
        let (hours, minutes) = match self.0 {
            [_, _, b':', ..] if colon => {
                let hours = self.digits(2, 2)?;
                self.eat(b':')?;
                (hours, self.digits(2, 2)?)
            }
            _ => {
                let both = self.digits(4, 4)?;
                (both / 100, both % 100)
            }
        };
        let seconds = hours.checked_mul(3_600)?.checked_add(minutes.checked_mul(60)?)?;
        let seconds = i32::try_from(seconds).ok()?;
        if hours > 23 || minutes > 59 || is_utc && seconds != 0 {
            return None;
        }
        if is_utc {
            // JavaScript: `GMT+0000 (Coordinated Universal Time)`. Only if it is UTC: the table of cases has others ignored.
            if let Some((b" (", tail)) = self.0.split_at_checked(2)
                && let Some(end) = tail.iter().position(|byte| *byte == b')')
            {
                self.0 = tail.get(end..).unwrap_or_default();
                self.eat(b')')?;
            }
        } else {
            self.maybe(|rest| rest.word().eq_ignore_ascii_case(b"utc").then_some(()));
        }
        seconds.checked_mul(sign.0).map(Some)
    }
}

/// RFC 9110 §5.6.7: a year that appears to be more than 50 years ahead is the most recent past year that ends so.
fn full_year(short: u32, received_at: SystemTime) -> Option<u32> {
    let now = Offset::UTC.to_datetime(Timestamp::try_from(received_at).ok()?).year();
    let now = u32::try_from(now).ok()?;
    // The first year from 49 years ago on that ends so.
    let first = now.checked_sub(49)?;
    let ahead = short.checked_add(100)?.checked_sub(first % 100)? % 100;
    first.checked_add(ahead)
}
