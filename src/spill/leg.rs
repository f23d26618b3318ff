//! What one deployment did about a call, and what that cost.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::StatusCode;

use crate::decision::Reason;
use crate::pace::TokenEstimate;
use crate::reading::{Hint, NativeSpillOver, Reading};

/// What one deployment did about a call: one leg of its way.
#[derive(Debug, Clone, Default)]
pub struct LegReport {
    pub(crate) deployment: Arc<str>,
    pub(crate) reason: Option<Reason>,
    pub(crate) status: Option<StatusCode>,
    pub(crate) attempts: u32,
    pub(crate) waited: Duration,
    pub(crate) took: Duration,
    pub(crate) advised_wait: Option<Duration>,
    pub(crate) retry_at: Option<SystemTime>,
    pub(crate) estimate: Option<TokenEstimate>,
    pub(crate) native: Quiet,
}

impl LegReport {
    /// The deployment's name; `primary` for the one that the caller asked.
    #[must_use]
    pub fn deployment(&self) -> &str {
        &self.deployment
    }

    /// Why the call left, or was given up here; `None` for the leg that has the answer.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// The status of the last response here; `None` if there was none.
    #[must_use]
    pub const fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// How many times the request was sent here; 0 if the gate or a router said no before.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long the call waited here, between attempts and at the gate.
    #[must_use]
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// How much of the call's budget the leg took in all, waits included.
    #[must_use]
    pub const fn took(&self) -> Duration {
        self.took
    }

    /// The wait that the deployment asked for last, or that its gate expects, counted as [`retry_at`](Self::retry_at) is.
    #[must_use]
    pub const fn advised_wait(&self) -> Option<Duration> {
        self.advised_wait
    }

    /// The moment, by the local wall clock, at which the deployment takes the next request, if that is known.
    #[must_use]
    pub const fn retry_at(&self) -> Option<SystemTime> {
        self.retry_at
    }

    /// How many tokens one attempt was estimated to take.
    #[must_use]
    pub const fn estimate(&self) -> Option<TokenEstimate> {
        self.estimate
    }

    /// The marks of a service that spilled the call over by itself, or tried to.
    #[must_use]
    pub const fn native_spill_over(&self) -> Option<&NativeSpillOver> {
        self.native.0.as_ref()
    }

    /// Records the wait that the gate expects.
    pub(crate) fn expect(&mut self, wait: Option<Duration>, now: SystemTime) {
        self.advised_wait = wait;
        self.retry_at = wait.and_then(|wait| now.checked_add(wait));
    }

    /// Records what the deployment's last response here said.
    pub(crate) fn read(&mut self, reading: Option<&Reading>) {
        if let Some(reading) = reading {
            self.status = Some(reading.status());
            self.expect(reading.hint().map(Hint::wait), reading.received_at());
            self.native = Quiet(reading.native_spill_over().cloned());
        }
    }
}

/// What a server wrote, which no `Debug` text shows.
#[derive(Clone, Default)]
pub(crate) struct Quiet(pub(crate) Option<NativeSpillOver>);

impl fmt::Debug for Quiet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "set" } else { "none" })
    }
}
