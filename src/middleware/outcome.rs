//! What came of one attempt.

use std::time::{Duration, Instant};

use http::StatusCode;
use reqwest::Response;

use super::replay::Failed;
use crate::body::{LastResponse, Peeked};
use crate::decision::Failure;
use crate::gate::{Permit, Place};
use crate::jitter::Draw;
use crate::reading::Reading;

/// What came of one attempt, if not a success.
pub(super) enum AttemptOutcome {
    /// A response that may be a refusal and has not been read.
    Unread(Response),
    /// A response that may be a refusal.
    Read(Box<(Peeked, Reading)>),
    Failed(Failed),
    /// No response head by the deadline.
    CutOff,
}

/// An attempt that is to be decided about.
pub(super) struct Tried {
    pub(super) outcome: AttemptOutcome,
    /// When it came back.
    pub(super) at: Instant,
    /// The random draw of the decision about it, however often it is decided.
    pub(super) draw: Draw,
    /// Until the gate learns of the outcome, or the response's body ends.
    pub(super) permit: Option<Permit>,
    /// The right to return to the front of the queue.
    pub(super) place: Option<Place>,
}

/// The last response of earlier attempts.
pub(super) struct Earlier {
    pub(super) response: LastResponse,
    /// The response itself, if the policy hands it to the caller.
    pub(super) whole: Option<Box<Peeked>>,
    pub(super) belongs_to: Position,
}

/// The number of an attempt, and the target that it was sent to, if not to the primary.
pub(super) type Position = (u32, Option<usize>);

/// A wait that has been announced, until it is over.
pub(super) struct Waiting {
    pub(super) since: Instant,
    pub(super) planned: Duration,
}

impl AttemptOutcome {
    /// Whether the deployment said no, or nothing was sent to it: a call of any method may then go elsewhere.
    pub(super) const fn is_refusal(&self) -> bool {
        match self {
            Self::Read(_) => true,
            Self::Failed(failed) => failed.is_unsent,
            Self::Unread(_) | Self::CutOff => false,
        }
    }

    pub(super) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Unread(response) => Some(response.status()),
            _ => self.reading().map(Reading::status),
        }
    }

    pub(super) const fn failure(&self) -> Option<Failure> {
        match self {
            Self::Failed(failed) => Some(failed.failure),
            Self::CutOff => Some(Failure::Unknown),
            Self::Unread(_) | Self::Read(_) => None,
        }
    }

    /// Whether the server may or may not have processed the request.
    pub(super) fn is_unclear(&self) -> bool {
        match self {
            Self::Read(read) => read.1.is_failure(),
            _ => self.failure() == Some(Failure::Unknown),
        }
    }

    pub(super) fn reading(&self) -> Option<&Reading> {
        if let Self::Read(read) = self { Some(&read.1) } else { None }
    }
}
