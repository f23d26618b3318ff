//! The parts of the soak.

mod body;
mod callers;
mod dice;
mod failures;
mod laws;
mod log;
mod origin;
#[path = "../model/random.rs"]
#[allow(dead_code, reason = "the model uses more of it")]
mod random;
#[path = "../support/failures.rs"]
mod real_errors;
mod server;
mod style;
mod tally;
mod world;

pub(crate) use callers::{Played, play};
pub(crate) use laws::{around, violations};
pub(crate) use server::{HOUR, MINUTE};
pub(crate) use tally::Tally;
