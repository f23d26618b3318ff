//! What a caller has learned elsewhere than from a response of its client.

use std::time::{Duration, Instant};

use super::entry;
use crate::gate::{Gate, ScopeKey};
use crate::ownership::invites_retry;
use crate::pace::{Cost, TokenEstimate};
use crate::reading::Reading;

impl Gate {
    /// Does to a scope what this reading would do in a response to one of its calls, received at `now`.
    ///
    /// For what a caller learns of a limit elsewhere: from a body that it has parsed itself, an event on a websocket, the
    /// status of a batch job, a call through another client. A refusal closes the scope for its hint, by maximum with
    /// what holds already, and re-opens it paced; a success teaches its limits. A [terminal](Reading::terminal) refusal
    /// changes nothing, except that a directive not to repeat closes the scope until the moment it names; nor does a failure
    /// of the server. What is out of all proportion is bounded likewise.
    ///
    /// Without effect if the gate can hold no more scopes. Other processes of a fleet do not learn of it.
    ///
    /// ```
    /// use std::time::{Duration, Instant, SystemTime};
    ///
    /// use http::{HeaderMap, StatusCode};
    /// use reqwest_admission::Reading;
    /// use reqwest_admission::gate::{Gate, ScopeKey};
    /// use reqwest_admission::reading::HintSource;
    ///
    /// let (gate, scope) = (Gate::default(), ScopeKey::new("https://api.example.com"));
    /// // An event that came over a websocket, as it is
    /// let event = br#"{"error":{"code":"rate_limit_exceeded","message":"Please try again in 20s."}}"#;
    /// let status = StatusCode::TOO_MANY_REQUESTS;
    /// let reading = Reading::from_parts(status, &HeaderMap::new(), Some(event), SystemTime::now());
    /// gate.report(&scope, &reading, Instant::now());
    /// // Or one that somebody else has understood
    /// let parsed = Reading::from_parts(StatusCode::OK, &HeaderMap::new(), None, SystemTime::now())
    ///     .refused(true)
    ///     .with_wait(Duration::from_secs(30), HintSource::Body("status.retry_in".into()));
    /// gate.report(&scope, &parsed, Instant::now());
    /// # let closed = gate.snapshot(Instant::now()).scopes.iter().all(|scope| scope.closed_for_seconds > 29.0);
    /// # assert!(closed);
    /// ```
    pub fn report(&self, scope: &ScopeKey, reading: &Reading, now: Instant) {
        let refused = reading.is_refused_unprocessed();
        if !refused && invites_retry(reading.status()) {
            return;
        }
        // The limits of a success hold whatever has been spent; a refused call counts as an average one.
        let cost = if refused { Cost::request() } else { Cost::tokens(TokenEstimate::new(0, 0)) };
        let Some(mut permit) = self.sent_unasked(scope, cost, now) else { return };
        if refused {
            drop(entry::refused(permit, reading, Duration::ZERO, now));
        } else {
            permit.observe(entry::own_limits(reading), now);
        }
    }
}
