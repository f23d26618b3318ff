//! What came of one attempt.

use std::time::Instant;

use http::StatusCode;
use reqwest::Response;

use super::replay::Failed;
use crate::body::{LastResponse, Peeked};
use crate::decision::Failure;
use crate::gate::{Permit, Place};
use crate::jitter::Draw;
use crate::reading::Reading;

/// How an attempt ended.
pub(super) enum AttemptOutcome {
    Success(Response),
    /// Anything that has to be decided about.
    Other(Sent),
}

/// What came of one attempt, if not a success.
pub(super) enum Sent {
    /// A response that may be a refusal, not looked at yet.
    Unread(Response),
    /// A response that may be a refusal.
    Read(Box<(Peeked, Reading)>),
    Failed(Failed),
    /// No response head by the deadline.
    CutOff,
}

/// An attempt that is to be decided about.
pub(super) struct Tried {
    pub(super) sent: Sent,
    /// When it came back.
    pub(super) at: Instant,
    /// The chance that the decision about it takes, however often it is looked at.
    pub(super) draw: Draw,
    /// Until the gate is told of the outcome, or the response's body ends.
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

impl Sent {
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
            Self::Read(read) => Some(read.1.status()),
            Self::Failed(_) | Self::CutOff => None,
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
            Self::Unread(_) => false,
            Self::Read(read) => read.1.is_failure(),
            Self::Failed(failed) => failed.failure == Failure::Unknown,
            Self::CutOff => true,
        }
    }

    pub(super) fn reading(&self) -> Option<&Reading> {
        match self {
            Self::Read(read) => Some(&read.1),
            Self::Unread(_) | Self::Failed(_) | Self::CutOff => None,
        }
    }
}
