//! Admission control for reqwest.
#![deny(clippy::disallowed_methods)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod reading;
pub mod units;
