//! What is fuzzed: each target takes any bytes and panics if a promise does not hold.
//!
//! Inputs are messages as text, so that a corpus can be read and written by hand: a line of words, header lines, an empty
//! line, the body. No words, names or values are too strange to be tried.

mod message;
mod reading;
mod routes;
mod scope_keys;
mod stack;
mod tickets;

pub(crate) use reading::reading;
pub(crate) use routes::routes;
pub(crate) use scope_keys::scope_keys;
pub(crate) use tickets::tickets;

/// Stands in every place of a request or response that holds a secret, and must not show up in another.
const SECRET: &str = "s3cr3t-c4n4ry";
