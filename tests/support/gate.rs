//! What tests of the gate alone need: permits, and numbers of a known seed.
#![allow(dead_code, reason = "each test file uses its part of this")]

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest_admission::gate::{Permit, Refusal, Reserve};

/// The permit of a reservation, however long it takes.
pub(crate) async fn granted(reserve: Reserve) -> Result<Permit, Refusal> {
    match reserve {
        Reserve::Granted(permit) => Ok(permit),
        Reserve::Queued(ticket) => ticket.await,
        Reserve::Refused(refusal) => Err(refusal),
    }
}

/// Random numbers of a known seed.
#[derive(Debug)]
pub(crate) struct Random(StdRng);

impl Random {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(StdRng::seed_from_u64(seed << 32 | stream))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.random()
    }
}
