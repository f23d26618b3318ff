//! The clock that a response's instants are measured against, and what statements amount to by it.

use std::cell::OnceCell;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{AGE, DATE};

use super::super::hint::Hint;
use super::super::{MAX_FIELD, MAX_LINES};
use super::{Count, MAX_DELAY, Stated, TimeUnit, Value, count, date};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::reading) struct Advice {
    pub(in crate::reading) wait: Duration,
    pub(in crate::reading) at: Option<SystemTime>,
}

/// The clock that a response's instants are measured against: its `Date` plus its `Age`
/// ([RFC 9110 §6.6.1], [RFC 9111 §5.1]), or the moment of receipt if it has no `Date`.
///
/// [RFC 9110 §6.6.1]: https://www.rfc-editor.org/rfc/rfc9110#section-6.6.1
/// [RFC 9111 §5.1]: https://www.rfc-editor.org/rfc/rfc9111#section-5.1
pub(in crate::reading) struct Clock<'h> {
    headers: &'h HeaderMap,
    pub(super) received_at: SystemTime,
    /// How many seconds times without a zone are ahead of UTC, if that is known.
    pub(super) zone: Option<i32>,
    /// Since the epoch. Read only if an instant needs it: most responses have none.
    server_now: OnceCell<Duration>,
}

impl<'h> Clock<'h> {
    pub(in crate::reading) const fn new(
        headers: &'h HeaderMap,
        received_at: SystemTime,
        zone: Option<i32>,
    ) -> Self {
        Self { headers, received_at, zone, server_now: OnceCell::new() }
    }

    fn server_now(&self) -> Duration {
        *self.server_now.get_or_init(|| {
            let mut lines = self.headers.get_all(DATE).iter().take(MAX_LINES);
            let Some(date) = lines.find_map(|line| date::instant(line.as_bytes().trim_ascii(), self)) else {
                // A clock that shows a time before 1970 has not been set.
                return self.received_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            };
            let age = self.headers.get(AGE).and_then(|value| count(value.as_bytes()));
            date.saturating_add(Duration::from_secs(age.map_or(0, Count::whole)).min(MAX_DELAY))
        })
    }

    /// The wait that a statement amounts to, in whole milliseconds, rounded up; an instant in the past is a wait of zero.
    pub(in crate::reading) fn wait(&self, stated: Stated) -> Duration {
        let wait = match stated {
            Stated::Delay(wait) => wait,
            Stated::At(at) => at.saturating_sub(self.server_now()),
            Stated::Beyond => Hint::LONGEST_WAIT,
        };
        let millis = u64::from(wait.subsec_nanos().div_ceil(1_000_000));
        Duration::from_secs(wait.as_secs())
            .saturating_add(Duration::from_millis(millis))
            .min(Hint::LONGEST_WAIT)
    }

    /// The same, with the instant if it is one.
    pub(in crate::reading) fn advice(&self, stated: Stated) -> Advice {
        let at = match stated {
            Stated::At(at) => SystemTime::UNIX_EPOCH.checked_add(at),
            Stated::Delay(_) | Stated::Beyond => None,
        };
        Advice { wait: self.wait(stated), at }
    }

    pub(in crate::reading) fn read(&self, value: &[u8], unit: TimeUnit) -> Option<Advice> {
        if value.len() > MAX_FIELD {
            return None;
        }
        Value::read(value, self).map(|value| self.advice(value.stated(unit)))
    }
}
