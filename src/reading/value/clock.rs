//! The clock that a response's instants are measured against, and what statements amount to by it.

use std::cell::OnceCell;
use std::time::{Duration, SystemTime};

use http::header::{AGE, DATE};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::super::types::Hint;
use super::{BareUnit, MAX_DELAY, Stated, count, date};

/// A statement turned into a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::reading) struct Advice {
    pub(in crate::reading) wait: Duration,
    pub(in crate::reading) at: Option<SystemTime>,
}

/// The clock that a response's instants are measured against: its `Date` plus its `Age`
/// ([RFC 9110 §6.6.1], [RFC 9111 §5.1]), where it has none the moment of receipt.
///
/// [RFC 9110 §6.6.1]: https://www.rfc-editor.org/rfc/rfc9110#section-6.6.1
/// [RFC 9111 §5.1]: https://www.rfc-editor.org/rfc/rfc9111#section-5.1
pub(in crate::reading) struct Clock<'h> {
    headers: &'h HeaderMap,
    received_at: SystemTime,
    /// The first `Date` and `Age` that were noted, and whether these are all there are: to look them up costs more.
    date: Option<&'h HeaderValue>,
    age: Option<&'h HeaderValue>,
    all_noted: bool,
    /// In nanoseconds since the epoch. A `Date` is read only where an instant needs it, so that the usual response does
    /// not pay for it.
    server_now: OnceCell<u64>,
}

impl<'h> Clock<'h> {
    /// The longest name of its fields.
    pub(in crate::reading) const LONGEST_NAME: usize = 4;

    pub(in crate::reading) const fn new(headers: &'h HeaderMap, received_at: SystemTime) -> Self {
        Self { headers, received_at, date: None, age: None, all_noted: false, server_now: OnceCell::new() }
    }

    /// Takes in a field line of any name.
    pub(in crate::reading) fn note(&mut self, name: &HeaderName, value: &'h HeaderValue) {
        if *name == DATE {
            self.date.get_or_insert(value);
        } else if *name == AGE {
            self.age.get_or_insert(value);
        }
    }

    /// All lines of its fields have been noted.
    pub(in crate::reading) const fn all_are_noted(&mut self) {
        self.all_noted = true;
    }

    pub(in crate::reading) const fn received_at(&self) -> SystemTime {
        self.received_at
    }

    #[inline]
    fn server_now(&self) -> u64 {
        *self.server_now.get_or_init(|| {
            let Some(date) = self.date() else {
                // A clock that shows a time before 1970 has not been set; one beyond the year 2554 is as good as another.
                let received = self.received_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                return u64::try_from(received.as_nanos()).unwrap_or(u64::MAX);
            };
            let age = if self.all_noted { self.age } else { self.headers.get(AGE) };
            let age = age.and_then(|value| count(value.as_bytes())).map_or(0, |age| age.whole());
            date.saturating_add(age.min(MAX_DELAY.as_secs()).saturating_mul(1_000_000_000))
        })
    }

    /// The first `Date` that can be read.
    fn date(&self) -> Option<u64> {
        if self.all_noted
            && let date = self.date?
            && let Some(nanos) = date::imf_fixdate(date.as_bytes())
        {
            return Some(nanos);
        }
        self.headers.get_all(DATE).iter().take(super::super::MAX_LINES).find_map(|value| {
            match date::http_date(value.as_bytes().trim_ascii(), self.received_at).map(Stated::at)? {
                Stated::At(at) => Some(at),
                Stated::Delay(_) | Stated::Beyond => None,
            }
        })
    }

    /// The wait that a statement amounts to, in whole milliseconds, rounded up; an instant in the past is a wait of zero.
    #[inline]
    pub(in crate::reading) fn wait(&self, stated: Stated) -> Duration {
        match stated {
            Stated::Delay(wait) => wait,
            Stated::At(at) => {
                let ahead = at.saturating_sub(self.server_now());
                Duration::from_millis(ahead.div_ceil(1_000_000)).min(Hint::LONGEST_WAIT)
            }
            Stated::Beyond => Hint::LONGEST_WAIT,
        }
    }

    /// The same, with the instant where it is one.
    pub(in crate::reading) fn advice(&self, stated: Stated) -> Option<Advice> {
        let at = match stated {
            Stated::Delay(_) | Stated::Beyond => None,
            Stated::At(at) => Some(SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(at))?),
        };
        Some(Advice { wait: self.wait(stated), at })
    }

    /// [`Stated::parse`] and [`Clock::advice`] in one.
    pub(in crate::reading) fn read(&self, value: &[u8], unit: BareUnit) -> Option<Advice> {
        Stated::parse(value, unit, self.received_at).and_then(|stated| self.advice(stated))
    }
}
