//! The ranges that settings are held to, and the error that names one which is out of its range.

use std::time::Duration;

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(super) const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A setting out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}, allowed is {allowed}")]
pub struct PolicyError {
    field: &'static str,
    value: String,
    allowed: String,
}

impl PolicyError {
    pub(crate) fn new(field: &'static str, value: impl ToString, allowed: impl ToString) -> Self {
        Self { field, value: value.to_string(), allowed: allowed.to_string() }
    }

    /// The field's name, with dots for nested ones, as in a configuration file.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        self.field
    }

    /// The value that was refused.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The range that is allowed.
    #[must_use]
    pub fn allowed(&self) -> &str {
        &self.allowed
    }
}

pub(super) fn within(
    field: &'static str,
    value: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), PolicyError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(PolicyError::new(field, written(value), format!("{} to {}", written(least), written(most))))
}

pub(super) fn share_within(field: &'static str, value: f64, most: f64) -> Result<(), PolicyError> {
    if (0.0..=most).contains(&value) {
        return Ok(());
    }
    Err(PolicyError::new(field, value, format!("0 to {most}")))
}

/// A duration as a configuration file has it.
pub(crate) fn written(duration: Duration) -> String {
    jiff::fmt::friendly::SpanPrinter::new()
        .designator(jiff::fmt::friendly::Designator::Compact)
        .unsigned_duration_to_string(&duration)
}
