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
        let peeked = if profile.inspects_body_of(status) {
            let patience = at.checked_add(self.policy().body_read_timeout()).unwrap_or(at);
            let patience = self.cut_off.map_or(patience, |end| patience.min(end));
            let mut peeked = Peeked::unread(response);
            peeked.read(MAX_BODY, patience).await;
            peeked
        } else {
            Peeked::unread(response)
        };
        let headers = &peeked.head().headers;
        let text = peeked.text(MAX_BODY);
        let reading = Reading::with_profile(profile, status, headers, Some(&text), received_at);
        Sent::Read(Box::new((peeked, reading)))
    }

    /// Reads a success, where somebody learns from it.
    #[inline]
    pub(super) fn read_success(&self, response: &Response) -> Option<Reading> {
        if self.entry.is_none() && self.seen_as.is_none() {
            return None;
        }
        let (status, headers) = (response.status(), response.headers());
        let profile = self.profile_of(response);
        Some(Reading::with_profile(profile, status, headers, None, clock::wall_clock()))
    }
}
