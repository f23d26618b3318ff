//! The service limits that a response states.

use std::time::Duration;

use arrayvec::ArrayVec;

use crate::units::QuotaUnit;

/// One service limit as a response states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceLimit {
    /// What is counted.
    pub unit: QuotaUnit,
    /// The time window, if it is stated.
    pub window: Option<Duration>,
    /// The service limit, in units per window.
    pub limit: Option<u64>,
    /// What is left; 0 if the server says that it is overdrawn.
    pub remaining: Option<u64>,
    /// The time until the window resets or the bucket is full, counted from receipt.
    pub reset: Option<Duration>,
    /// Whether nothing comes back before `reset` and then all of it does, as in a fixed window. Assumed if the fields
    /// name no unit; services that count requests and tokens apart refill all the time.
    pub resets_at_once: bool,
}

/// The service limits of one reading; further ones are left out.
pub(crate) type Limits = ArrayVec<ServiceLimit, 12>;
