//! What a refused call plans for itself.

use std::time::Duration;

/// The wait that a refused call plans for itself, jitter included, and how much longer it could be.
///
/// A call that has its scope to itself is held to its plan. Only where it is refused again and again, so that others that
/// cannot be seen must wake when it does, is it kept waiting beyond, by chance and never past
/// [`at_most`](Self::at_most). A plan without any jitter is kept exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    pub(crate) wait: Duration,
    pub(crate) at_most: Duration,
}

impl Planned {
    /// The longest wait that the call has time for; without it, `wait` is.
    #[must_use]
    pub const fn at_most(self, longest: Duration) -> Self {
        Self { at_most: longest, ..self }
    }
}

impl From<Duration> for Planned {
    fn from(wait: Duration) -> Self {
        Self { wait, at_most: wait }
    }
}
