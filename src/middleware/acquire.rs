//! The first verb of a call: it asks the gate for the permit to send, and waits for it.

use std::time::{Duration, Instant};

use super::call::LogicalCall;
use super::entry::Entry;
use crate::clock;
use crate::gate::{Permit, Place, Refusal, RefusalReason, Reserve};

/// A wait that has been told of, until it is over.
pub(super) struct Waiting {
    pub(super) since: Instant,
    pub(super) planned: Duration,
}

impl LogicalCall<'_> {
    /// Waits until the gate lets the call go, or until it is certain that it will not in time. Without a gate, and if the
    /// gate can hold no more scopes, there is no permit and none is needed.
    pub(super) async fn acquire(&mut self, place: Option<Place>) -> Result<Option<Permit>, Refusal> {
        let Some(mut entry) = self.entry.take() else {
            self.end_wait();
            return Ok(None);
        };
        let acquired = self.permit(&mut entry, place).await;
        self.entry = Some(entry);
        self.end_wait();
        acquired
    }

    async fn permit(
        &mut self,
        entry: &mut Entry<'_>,
        mut place: Option<Place>,
    ) -> Result<Option<Permit>, Refusal> {
        let mut now = clock::now();
        let mut to_be_booked = entry.is_of_a_fleet();
        loop {
            let answer = entry.reserve(place.take(), self.deadline, now);
            let (permit, waits) = match answer {
                Reserve::Granted(permit) => (permit, false),
                Reserve::Refused(refusal) if refusal.reason == RefusalReason::TooManyScopes => {
                    return Ok(None);
                }
                Reserve::Refused(refusal) => return Err(refusal),
                Reserve::Queued(ticket) => {
                    self.begin_wait(ticket.predicted().time, now);
                    (ticket.await?, true)
                }
            };
            if waits {
                now = clock::now();
                // Between the grant and this task's turn another call was refused: the scope is closed to this one, too.
                if entry.is_overtaken(&permit, now) {
                    place = Some(permit.step_back());
                    continue;
                }
            }
            if !to_be_booked {
                return Ok(Some(permit));
            }
            Box::pin(entry.book(&permit, self.deadline)).await?;
            to_be_booked = false;
            now = clock::now();
            if !entry.is_overtaken(&permit, now) {
                return Ok(Some(permit));
            }
            // While the fleet was asked, another call was refused. What is booked there stays booked.
            place = Some(permit.step_back());
        }
    }

    /// A wait at the gate begins, unless it is the one that a refusal has been answered with.
    fn begin_wait(&mut self, expected: Duration, now: Instant) {
        if self.waiting.is_none() {
            self.tell_queued(expected);
            self.waiting = Some(Waiting { since: now, planned: expected });
        }
    }

    fn end_wait(&mut self) {
        if let Some(Waiting { since, planned }) = self.waiting.take() {
            self.count_wait(planned, clock::since(since));
        }
    }
}
