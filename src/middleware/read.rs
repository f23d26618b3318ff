//! The third verb of a call: it reads what came back. The gate learns of a refusal from its head, so that no other call is
//! sent into the advised window while the body is on its way, and even if this call is dropped meanwhile.

use std::time::{Duration, Instant, SystemTime};

use reqwest::Response;

use super::call::LogicalCall;
use super::entry::Entry;
use super::outcome::{AttemptOutcome, Tried};
use crate::body::Peeked;
use crate::clock;
use crate::decision::{Decision, Outcome};
use crate::gate::{Permit, Place};
use crate::jitter::Draw;
use crate::ownership::invites_retry;
use crate::reading::{Hint, HintKind, MAX_BODY, Profile, Reading};

/// A response whose body is on its way. Dropped half way, it still teaches the gate what has arrived of it.
struct Arriving<'a> {
    /// Taken out once it has been read.
    peeked: Option<Peeked>,
    /// Given up once the gate has learned of the refusal.
    permit: Option<Permit>,
    place: Option<Place>,
    entry: Option<&'a Entry<'a>>,
    profile: Profile,
    received_at: SystemTime,
    at: Instant,
}

impl Arriving<'_> {
    /// What the response says by its head, and by what is there of its body if that is to count.
    fn reading(&self, peeked: &Peeked, with_body: bool) -> Reading {
        let (status, headers) = (peeked.head().status, &peeked.head().headers);
        let text = with_body.then(|| peeked.text(MAX_BODY));
        Reading::with_profile(&self.profile, status, headers, text.as_deref(), self.received_at)
    }
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        if let (Some(peeked), Some(permit), Some(entry)) = (&self.peeked, self.permit.take(), self.entry) {
            let reading = self.reading(peeked, true);
            if reading.is_refused_unprocessed() {
                drop(entry.refused(permit, &reading, Duration::ZERO, self.at));
            }
        }
    }
}

impl LogicalCall<'_> {
    /// Reads a response that may be a refusal, with as much of its body as the decision needs.
    pub(super) async fn read(
        &self,
        outcome: AttemptOutcome,
        permit: Option<Permit>,
        replayable: bool,
    ) -> Box<Tried> {
        let (at, draw) = (clock::now(), self.shared.chance.draw());
        let AttemptOutcome::Unread(response) = outcome else {
            return Box::new(Tried { outcome, at, draw, permit, place: None });
        };
        let mut arriving = Arriving {
            profile: self.profile_of(&response),
            peeked: Some(Peeked::unread(response)),
            permit,
            place: None,
            entry: self.entry.as_ref(),
            received_at: clock::wall_clock(),
            at,
        };
        let body_counts = self.read_body(&mut arriving, draw, replayable).await;
        let outcome = match arriving.peeked.take() {
            Some(peeked) => {
                let reading = arriving.reading(&peeked, body_counts);
                AttemptOutcome::Read(Box::new((peeked, reading)))
            }
            None => AttemptOutcome::CutOff,
        };
        Box::new(Tried { outcome, at, draw, permit: arriving.permit.take(), place: arriving.place.take() })
    }

    /// Reads the body, unless the head decides alone. Returns whether what is there of it counts.
    async fn read_body(&self, arriving: &mut Arriving<'_>, draw: Draw, replayable: bool) -> bool {
        let Some(peeked) = &mut arriving.peeked else { return false };
        if !arriving.profile.inspects_body(peeked.head().status, &peeked.head().headers) {
            return false;
        }
        // A short body often comes with the head, which then need not be judged without it.
        peeked.read_arrived(MAX_BODY).await;
        if peeked.is_read(MAX_BODY) {
            return true;
        }
        let patience = arriving.at.checked_add(self.policy().body_read_timeout()).unwrap_or(arriving.at);
        let patience = self.cut_off.map_or(patience, |end| patience.min(end));
        if self.teach_head(arriving, draw, patience, replayable).await {
            return false;
        }
        if let Some(peeked) = &mut arriving.peeked {
            peeked.read(MAX_BODY, patience).await;
        }
        true
    }

    /// Teaches the gate what the head says. Returns whether the head has decided that the call leaves, whatever the body says.
    async fn teach_head(
        &self,
        arriving: &mut Arriving<'_>,
        draw: Draw,
        patience: Instant,
        replayable: bool,
    ) -> bool {
        let Some(peeked) = &arriving.peeked else { return false };
        let (reading, at) = (arriving.reading(peeked, false), arriving.at);
        if !reading.is_refused_unprocessed() {
            return false;
        }
        let explicit = |hint: &Hint| hint.kind() == HintKind::RetryAfter;
        if reading.terminal().is_none() && !reading.hint().is_some_and(explicit) {
            // The body may know better than the reset of a window. So the reset holds only until the body is read.
            if let (Some(entry), Some(hint)) = (&self.entry, reading.hint()) {
                entry.close(hint.wait().min(patience.saturating_duration_since(at)), at);
            }
            return false;
        }
        let decision = self.plan(Outcome::Response(&reading), at, draw, replayable, true);
        if let Some(permit) = arriving.permit.take() {
            self.teach_refusal(permit, &reading, &decision, at, &mut arriving.place).await;
        }
        matches!(decision, Decision::SpillOver(_))
    }

    /// Teaches the gate what came of an attempt, and the fleet a refusal, unless they have learned it from the head.
    pub(super) async fn teach_gate(&self, tried: &mut Tried, decision: &Decision) {
        let Some(mut permit) = tried.permit.take() else { return };
        let AttemptOutcome::Read(read) = &tried.outcome else { return };
        if read.1.is_refused_unprocessed() {
            return self.teach_refusal(permit, &read.1, decision, tried.at, &mut tried.place).await;
        }
        if let Some(entry) = &self.entry {
            let reading = (!invites_retry(read.1.status())).then_some(&read.1);
            entry.taken(&mut permit, reading, || self.profile_of_host(read.0.host()), tried.at);
        }
        tried.permit = Some(permit);
    }

    /// The gate learns of a refusal at once, the fleet when its store is asked.
    async fn teach_refusal(
        &self,
        permit: Permit,
        reading: &Reading,
        decision: &Decision,
        at: Instant,
        place: &mut Option<Place>,
    ) {
        let Some(entry) = &self.entry else { return };
        let booked = entry.booking(&permit);
        let planned = match decision {
            Decision::Wait { until, .. } => until.saturating_duration_since(at),
            Decision::Admit | Decision::SpillOver(_) => Duration::ZERO,
        };
        *place = entry.refused(permit, reading, planned, at);
        if let Some(booked) = booked {
            let advised = reading.hint().map(Hint::wait).unwrap_or_default();
            entry.publish(booked, advised.saturating_sub(clock::since(at))).await;
        }
    }

    /// Looks into the body of a success of a server that refuses so. Whether it is a refusal; the response is whole again.
    pub(super) async fn look_inside(&self, response: Response) -> (Response, bool) {
        let (profile, status) = (self.profile_of(&response), response.status());
        if !profile.inspects_body(status, response.headers()) {
            return (response, false);
        }
        let (now, received_at) = (clock::now(), clock::wall_clock());
        let patience = now.checked_add(self.policy().body_read_timeout()).unwrap_or(now);
        let patience = self.cut_off.map_or(patience, |end| patience.min(end));
        let mut peeked = Peeked::unread(response);
        peeked.read(MAX_BODY, patience).await;
        let (headers, text) = (&peeked.head().headers, peeked.text(MAX_BODY));
        let reading = Reading::with_profile(&profile, status, headers, Some(&text), received_at);
        (peeked.into_response(), reading.is_throttled())
    }

    /// Whether the one that answers may refuse inside of a success, as its profile says; hardly any does.
    pub(super) fn may_refuse_inside(&self) -> bool {
        self.target().map_or(self.shared.refuses_inside, |target| target.profile.refuses_inside())
    }

    /// Reads a success, if somebody learns from it.
    pub(super) fn read_success(&self, response: &Response) -> Option<Reading> {
        if self.entry.is_none() && self.seen_as.is_none() {
            return None;
        }
        let (status, headers) = (response.status(), response.headers());
        Some(Reading::with_profile(&self.profile_of(response), status, headers, None, clock::wall_clock()))
    }
}
