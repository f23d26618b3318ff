//! Admission control for reqwest.
#![deny(clippy::disallowed_methods)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod budget;
pub mod decision;
pub mod jitter;
pub mod policy;
pub mod reading;
pub mod units;

pub use budget::LatencyBudget;
pub use decision::{Decision, Reason, decide};
pub use policy::AdmissionPolicy;
pub use reading::Reading;
