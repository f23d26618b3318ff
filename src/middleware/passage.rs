//! A call at the gate: it asks for its permit, waits for it, and tells what came of the attempt.

use std::ops::ControlFlow;
use std::time::Instant;

use super::call::LogicalCall;
use super::entry::{self, Entry, Left};
use super::sent::Sent;
use crate::clock;
use crate::decision::Decision;
use crate::gate::{Permit, Place, Refusal, RefusalReason, Reserve, StoreRequest, Ticket};
use crate::ownership::invites_retry;
use crate::reading::{Hint, Reading};

impl LogicalCall<'_> {
    /// Asks the gate, where there is one. Breaks with an answer that is not enough to send on at once.
    pub(super) fn enter(&self, place: Option<Place>, now: Instant) -> ControlFlow<Reserve, Option<Permit>> {
        match self.reserve(place, now) {
            None => ControlFlow::Continue(None),
            Some(Reserve::Granted(permit)) if !self.asks_a_fleet() => ControlFlow::Continue(Some(permit)),
            Some(answer) => ControlFlow::Break(answer),
        }
    }

    fn reserve(&self, place: Option<Place>, now: Instant) -> Option<Reserve> {
        Some(self.entry.as_ref()?.reserve(place, self.deadline, now))
    }

    /// Whether a permit of this process is not enough.
    fn asks_a_fleet(&self) -> bool {
        self.entry.as_ref().is_some_and(Entry::is_of_a_fleet)
    }

    /// Comes by what the gate has answered to the permit, waiting where it must; `now` becomes the moment at which that
    /// ends. No permit is needed where the gate can hold no more scopes.
    pub(super) async fn pass(
        &mut self,
        answer: Reserve,
        now: &mut Instant,
    ) -> Result<Option<Permit>, Refusal> {
        let permit = match answer {
            Reserve::Granted(permit) => Some(permit),
            Reserve::Refused(refusal) if refusal.reason == RefusalReason::TooManyScopes => None,
            Reserve::Refused(refusal) => return Err(refusal),
            Reserve::Queued(ticket) => self.queue(ticket, now).await?,
        };
        match permit {
            Some(permit) if self.asks_a_fleet() => self.book(permit, now).await,
            permit => Ok(permit),
        }
    }

    /// Waits at the gate; `now` becomes the moment at which that ends.
    async fn queue(&mut self, mut ticket: Ticket, now: &mut Instant) -> Result<Option<Permit>, Refusal> {
        self.tell_queued(ticket.predicted().time);
        let start = clock::now();
        let granted = loop {
            let granted = ticket.await;
            *now = clock::now();
            match granted {
                // Between the grant and this task's turn another call was refused: the scope is closed to this one, too.
                Ok(permit) if permit.is_overtaken(*now) => match self.ask_again(permit, *now) {
                    ControlFlow::Break(answer) => break answer,
                    ControlFlow::Continue(again) => ticket = again,
                },
                granted => break granted.map(Some),
            }
        };
        self.count_wait(now.saturating_duration_since(start));
        granted
    }

    /// Books a call, whose permit of this process is at hand, in the store of its fleet.
    async fn book(&mut self, permit: Permit, now: &mut Instant) -> Result<Option<Permit>, Refusal> {
        let Some(entry) = &self.entry else { return Ok(Some(permit)) };
        entry.book(&permit, self.deadline).await?;
        *now = clock::now();
        if !permit.is_overtaken(*now) {
            return Ok(Some(permit));
        }
        // While the fleet was asked, another call was refused. What is booked there stays booked.
        match self.ask_again(permit, *now) {
            ControlFlow::Break(answer) => answer,
            ControlFlow::Continue(ticket) => self.queue(ticket, now).await,
        }
    }

    /// Gives a permit back that a refusal has overtaken, and asks anew from its place. Goes on with the ticket to wait with.
    fn ask_again(
        &self,
        permit: Permit,
        now: Instant,
    ) -> ControlFlow<Result<Option<Permit>, Refusal>, Ticket> {
        match self.reserve(Some(permit.step_back()), now) {
            None => ControlFlow::Break(Ok(None)),
            Some(Reserve::Granted(permit)) => ControlFlow::Break(Ok(Some(permit))),
            Some(Reserve::Refused(refusal)) => ControlFlow::Break(Err(refusal)),
            Some(Reserve::Queued(ticket)) => ControlFlow::Continue(ticket),
        }
    }

    /// What a fleet is to be given back of an attempt.
    pub(super) fn booked(&self, permit: Option<&Permit>, sent: &Sent) -> Option<StoreRequest> {
        let is_refusal = sent.reading().is_some_and(Reading::is_refused_unprocessed);
        self.entry
            .as_ref()
            .zip(permit.filter(|_| is_refusal))
            .and_then(|(entry, permit)| entry.booking(permit))
    }

    /// Tells a fleet of a refusal, where there is one.
    pub(super) async fn publish(&self, booked: Option<StoreRequest>, sent: &Sent, at: Instant) {
        if let (Some(entry), Some(booked)) = (&self.entry, booked) {
            let advised = sent.reading().and_then(Reading::hint).map(Hint::wait).unwrap_or_default();
            entry.publish(booked, advised.saturating_sub(clock::since(at))).await;
        }
    }

    /// Tells the gate what came of an attempt.
    pub(super) fn leave(
        &self,
        permit: Option<Permit>,
        sent: &Sent,
        decision: &Decision,
        at: Instant,
    ) -> Left {
        let Some(permit) = permit else { return Left::default() };
        match sent {
            Sent::Read(read) if read.1.is_refused_unprocessed() => {
                entry::refused(permit, &read.1, decision, at)
            }
            Sent::Read(read) => {
                let mut permit = permit;
                let reading = (!invites_retry(read.1.status())).then_some(&read.1);
                entry::taken(&mut permit, reading, at);
                Left { permit: Some(permit), place: None }
            }
            Sent::Unread(_) | Sent::Failed(_) | Sent::CutOff => Left::default(),
        }
    }
}
