//! Vendor knowledge as data: one table of profiles.

/// What is known of one vendor's ways.
#[derive(Debug)]
pub struct Profile {
    pub(crate) name: &'static str,
}

static STANDARD: Profile = Profile { name: "standard" };

impl Profile {
    /// The profile for servers of which nothing is known.
    #[must_use]
    pub fn standard() -> &'static Self {
        &STANDARD
    }

    /// The profile's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}
