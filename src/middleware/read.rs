//! Reading what came back: a possible refusal with its body, a success where somebody learns from it.

use std::time::Instant;

use reqwest::Response;

use super::call::LogicalCall;
use super::sent::Sent;
use crate::body::Peeked;
use crate::clock;
use crate::reading::{MAX_BODY, Reading};

impl LogicalCall<'_> {
    /// Reads a response that may be a refusal, with its body.
    pub(super) async fn read(&self, sent: Sent, at: Instant) -> Sent {
        let Sent::Unread(response) = sent else { return sent };
        let received_at = clock::wall_clock();
        let status = response.status();
        let profile = self.profile_of(&response);
        let peeked = if profile.inspects_body(status, response.headers()) {
            let patience = at.checked_add(self.policy().body_read_timeout()).unwrap_or(at);
            let patience = self.cut_off.map_or(patience, |end| patience.min(end));
            Peeked::read(response, MAX_BODY, patience).await
        } else {
            Peeked::unread(response)
        };
        let headers = &peeked.head().headers;
        let reading = Reading::with_profile(&profile, status, headers, Some(peeked.text()), received_at);
        Sent::Read(Box::new((peeked, reading)))
    }

    /// Looks into the body of a success of a server that refuses so. Whether it is a refusal; the response is whole again.
    pub(super) async fn look_inside(&self, response: Response, at: Instant) -> (Response, bool) {
        let profile = self.profile_of(&response);
        let status = response.status();
        if !profile.inspects_body(status, response.headers()) {
            return (response, false);
        }
        let patience = at.checked_add(self.policy().body_read_timeout()).unwrap_or(at);
        let patience = self.cut_off.map_or(patience, |end| patience.min(end));
        let peeked = Peeked::read(response, MAX_BODY, patience).await;
        let headers = &peeked.head().headers;
        let reading =
            Reading::with_profile(&profile, status, headers, Some(peeked.text()), clock::wall_clock());
        (peeked.into_response(), reading.is_throttled())
    }

    /// Whether the one that answers may refuse inside of a success, as its profile says; hardly any does.
    pub(super) fn may_refuse_inside(&self) -> bool {
        self.target().map_or(self.shared.refuses_inside, |target| target.profile.refuses_inside())
    }

    /// Reads a success, where somebody learns from it.
    #[inline]
    pub(super) fn read_success(&self, response: &Response) -> Option<Reading> {
        if self.entry.is_none() && self.seen_as.is_none() {
            return None;
        }
        let (status, headers) = (response.status(), response.headers());
        let profile = self.profile_of(response);
        Some(Reading::with_profile(&profile, status, headers, None, clock::wall_clock()))
    }
}
