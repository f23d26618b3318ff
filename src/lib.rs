//! Admission control for reqwest.
#![deny(clippy::disallowed_methods)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod body;
pub mod budget;
mod client;
mod clock;
pub mod decision;
pub mod jitter;
mod middleware;
pub mod observe;
mod ownership;
pub mod policy;
pub mod reading;
mod spill;
pub mod units;

pub use budget::LatencyBudget;
pub use decision::{Decision, Reason, decide};
pub use client::{AdmissionClient, AdmissionClientBuilder, ClientBuildError};
pub use middleware::{Admission, AdmissionBuilder, BuildError};
pub use observe::CallReport;
pub use ownership::{ConflictKind, RetryConflict};
pub use policy::AdmissionPolicy;
pub use reading::Reading;
pub use spill::SpillOver;
