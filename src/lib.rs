//! Admission control for reqwest.
#![deny(clippy::disallowed_methods)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod clock;
pub mod gate;
pub mod pace;
pub mod reading;
pub mod units;
