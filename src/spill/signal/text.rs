//! What a signal prints: nothing of headers, body, query or credentials.

use std::fmt;

use super::SpillOver;

impl fmt::Display for SpillOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.attempts() {
            0 => write!(f, "spilled over without being sent: {}", self.reason())?,
            1 => write!(f, "spilled over after 1 attempt: {}", self.reason())?,
            attempts => write!(f, "spilled over after {attempts} attempts: {}", self.reason())?,
        }
        if let Some(status) = self.status().filter(|_| self.inner.facts.is_about_last) {
            write!(f, " (status {}", status.as_u16())?;
            if let Some(hint) = self.hint() {
                write!(f, ", {} advises {:?}", hint.source(), hint.wait())?;
            }
            write!(f, ")")?;
        }
        // What the service says about it stays with the accessor: it is the server's text.
        if self.native_spill_over().is_some_and(|native| native.error.is_some()) {
            write!(f, "; the service's own spill-over failed")?;
        }
        Ok(())
    }
}

impl std::error::Error for SpillOver {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.echo().map(|echo| -> &(dyn std::error::Error + 'static) { echo })
    }
}

impl fmt::Debug for SpillOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillOver")
            .field("reason", &self.reason())
            .field("attempts", &self.attempts())
            .field("waited", &self.waited())
            .field("status", &self.status().filter(|_| self.inner.facts.is_about_last))
            .field("advised_wait", &self.advised_wait())
            .field("request_id", &self.request_id().filter(|_| self.inner.facts.is_about_last))
            .finish_non_exhaustive()
    }
}
