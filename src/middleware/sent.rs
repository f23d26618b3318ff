//! What came of one attempt.

use http::StatusCode;
use reqwest::Response;
use reqwest_middleware::Error;

use super::replay;
use crate::body::Peeked;
use crate::decision::Failure;
use crate::reading::Reading;

/// What came of one attempt, if not a success.
pub(super) enum Sent {
    /// A response that may be a refusal, not looked at yet.
    Unread(Response),
    /// A response that may be a refusal.
    Read(Box<(Peeked, Reading)>),
    Failed(Error),
    /// Cut off at the deadline.
    CutOff,
}

impl Sent {
    /// What is worth keeping of a failed attempt during a wait; not its connection.
    pub(super) fn detached(self) -> Option<Self> {
        match self {
            Self::Read(mut read) => {
                read.0.give_up();
                Some(Self::Read(read))
            }
            Self::Failed(error) => Some(Self::Failed(error)),
            Self::Unread(_) | Self::CutOff => None,
        }
    }

    /// Whether the deployment said no, or nothing was sent to it: a call of any method may then go elsewhere.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Read(_)) || self.failure() == Some(Failure::Connect)
    }

    pub(super) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Unread(response) => Some(response.status()),
            Self::Read(read) => Some(read.1.status()),
            Self::Failed(_) | Self::CutOff => None,
        }
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        match self {
            Self::Failed(error) => Some(replay::failure(error)),
            Self::CutOff => Some(Failure::Unknown),
            Self::Unread(_) | Self::Read(_) => None,
        }
    }

    /// Whether the server may or may not have processed the request.
    pub(super) fn is_unclear(&self) -> bool {
        match self {
            Self::Unread(_) => false,
            Self::Read(read) => read.1.leaves_outcome_open(),
            Self::Failed(error) => replay::failure(error) == Failure::Unknown,
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
