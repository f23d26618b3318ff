//! Code of the user's that a call runs into.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the user's. A panic in it ends that code and nothing else: the call goes on without an answer.
pub(crate) fn unharmed<T>(theirs: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(theirs)).ok()
}
