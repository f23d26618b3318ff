//! Single retry ownership: for one logical call the wire sees at most our own attempts.
//!
//! Two layers that both retry multiply: 5 × 3 attempts are 15 requests. What can be seen of another layer is refused
//! with a [`RetryConflict`] that says how to mend it; what cannot be seen is prevented by [sealing](seal) each
//! attempt, so that nothing below can send it twice.

mod conflict;
mod guard;
mod run;
mod sealed;
mod state;
mod verify;

pub use conflict::{ConflictKind, RetryConflict};
pub(crate) use guard::{Guard, invites_retry};
pub(crate) use run::{Attempt, Entered, Run, RunEnd};
pub(crate) use sealed::{explain_copy, seal};
pub(crate) use state::CallState;
pub(crate) use verify::Probe;
pub use verify::{SoleOwnerReport, SoleOwnerVerdict, verify_sole_owner};
