//! The first verb of a call: it asks the gate for the permit to send, and waits for it.

use std::time::{Duration, Instant};

use super::call::LogicalCall;
use super::entry::Entry;
use super::outcome::Waiting;
use crate::clock;
use crate::gate::{Permit, Place, Refusal, RefusalReason, Reserve};

impl LogicalCall<'_> {
    /// Waits until the gate grants the permit, or until it is certain that it will not in time. Without a gate, and if the
    /// gate can hold no more scopes, there is no permit and none is needed.
    pub(super) async fn acquire(&mut self, place: Option<Place>) -> Result<Option<Permit>, Refusal> {
        let mut acquired = Ok(None);
        if let Some(mut entry) = self.entry.take() {
            acquired = self.permit(&mut entry, place).await;
            self.entry = Some(entry);
        }
        if let Some(Waiting { since, planned }) = self.waiting.take() {
            self.count_wait(planned, clock::since(since));
        }
        acquired
    }

    async fn permit(
        &mut self,
        entry: &mut Entry<'_>,
        mut place: Option<Place>,
    ) -> Result<Option<Permit>, Refusal> {
        let mut must_ask_fleet = entry.is_of_a_fleet();
        loop {
            let now = clock::now();
            let (permit, mut has_waited) = match entry.reserve(place.take(), self.deadline, now) {
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
            // Between the grant and this task's turn another call may have been refused: then the scope is closed to this
            // one, too. So it is if that happened while the fleet was asked; what is reserved there stays reserved.
            if must_ask_fleet && !(has_waited && entry.is_overtaken(&permit, clock::now())) {
                Box::pin(entry.reserve_in_store(&permit, self.deadline)).await?;
                (must_ask_fleet, has_waited) = (false, true);
            }
            if !has_waited || !entry.is_overtaken(&permit, clock::now()) {
                return Ok(Some(permit));
            }
            place = Some(permit.step_back());
        }
    }

    /// A wait at the gate begins, unless it is the one that a refusal has been answered with.
    fn begin_wait(&mut self, planned: Duration, now: Instant) {
        if self.waiting.is_none() {
            self.emit_queued(planned);
            self.waiting = Some(Waiting { since: now, planned });
        }
    }
}
