//! Why a call is spilled over, and what each reason is called.

use std::fmt;

/// Why a call is spilled over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The wait does not fit into what is left of the latency budget.
    BudgetExceeded,
    /// The server did not answer in time.
    NoResponse,
    /// The call has had all its attempts.
    AttemptsExhausted,
    /// Credit, spend cap or a long-lived quota is used up: no wait helps.
    QuotaExhausted,
    /// The request's body is a stream that cannot be sent twice.
    BodyNotReplayable,
    /// The client as a whole has re-sent its share.
    RetryBudgetSpent,
    /// The server says not to repeat the request.
    ServerDirective,
    /// The request is larger than the server's limit will ever take.
    RequestTooLarge,
    /// The gate's queue is full.
    QueueFull,
    /// The wait at the gate would be longer than the gate's own bound.
    QueueWaitExceeded,
    /// The deployment refused the call again after each of several waits in a row, and another one can take it.
    WaitsFailed,
    /// A router chose another deployment, or to give up.
    RouterChoice,
    /// The primary refused or failed, and it is not this call that finds out whether it takes calls again.
    AwaitingProbe,
    /// No connection to a deployment came about.
    Unreachable,
    /// The server answered with a failure of its own, or the connection was lost.
    ServerFailed,
    /// The deployment cannot take the request's path or body.
    NotForTarget,
    /// Another layer sends the call again as well, so that a repeat would multiply.
    RetryConflict,
}

impl Reason {
    /// The reason's name in snake case, as events and metrics have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BudgetExceeded => "budget_exceeded",
            Self::NoResponse => "no_response",
            Self::AttemptsExhausted => "attempts_exhausted",
            Self::QuotaExhausted => "quota_exhausted",
            Self::BodyNotReplayable => "body_not_replayable",
            Self::RetryBudgetSpent => "retry_budget_spent",
            Self::ServerDirective => "server_directive",
            Self::RequestTooLarge => "request_too_large",
            Self::QueueFull => "queue_full",
            Self::QueueWaitExceeded => "queue_wait_exceeded",
            Self::WaitsFailed => "waits_failed",
            Self::RouterChoice => "router_choice",
            Self::AwaitingProbe => "awaiting_probe",
            Self::Unreachable => "unreachable",
            Self::ServerFailed => "server_failed",
            Self::NotForTarget => "not_for_target",
            Self::RetryConflict => "retry_conflict",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BudgetExceeded => "the wait exceeds the latency budget",
            Self::NoResponse => "the server did not answer in time",
            Self::AttemptsExhausted => "all attempts are used",
            Self::QuotaExhausted => "the quota is exhausted",
            Self::BodyNotReplayable => "the request body cannot be sent again",
            Self::RetryBudgetSpent => "the retry budget is spent",
            Self::ServerDirective => "the server says not to repeat the request",
            Self::RequestTooLarge => "the request is larger than the limit",
            Self::QueueFull => "too many calls are waiting",
            Self::QueueWaitExceeded => "the wait at the gate exceeds its bound",
            Self::WaitsFailed => "the deployment refused again after every wait",
            Self::RouterChoice => "the router sent it elsewhere or gave it up",
            Self::AwaitingProbe => "the primary is being probed",
            Self::Unreachable => "the deployment cannot be reached",
            Self::ServerFailed => "the server failed",
            Self::NotForTarget => "the deployment cannot take the request",
            Self::RetryConflict => "another layer sends the call again as well",
        })
    }
}
