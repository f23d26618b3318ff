//! How far what headers state is believed: as far as it came true.

/// What came true, of all, from which on calls are held back: one failure needs four.
const TRUST: f64 = 0.8;
/// The last eight verdicts count.
const MEMORY: f64 = 1.0 / 8.0;
/// What has neither failed nor come true yet is believed for so many seconds; for so many if it is odd.
const AT_FIRST: f64 = 60.0;
const IF_ODD: f64 = 10.0;
/// Calls are held back at most so many times as long as it ever came true.
const FURTHER: f64 = 2.0;

/// See the [module](self).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trust {
    came_true: f64,
    failed: f64,
    longest: f64,
}

impl Trust {
    pub(super) fn holds(&self) -> bool {
        self.came_true >= TRUST * (self.came_true + self.failed)
    }

    /// Whether anything came true.
    pub(super) fn is_proven(&self) -> bool {
        self.came_true > 0.0
    }

    pub(super) fn score(&mut self, came_true: bool) {
        self.came_true *= 1.0 - MEMORY;
        self.failed *= 1.0 - MEMORY;
        *(if came_true { &mut self.came_true } else { &mut self.failed }) += 1.0;
    }

    /// Calls were rightly held back for so many seconds.
    pub(super) fn lasted(&mut self, seconds: f64) {
        self.longest = self.longest.max(seconds);
    }

    /// The longest time that calls are held back before one of them tests it.
    pub(super) fn longest(&self, is_odd: bool) -> f64 {
        let at_first = match is_odd {
            _ if self.failed > 0.0 => 0.0,
            true => IF_ODD,
            false => AT_FIRST,
        };
        (FURTHER * self.longest).max(at_first)
    }

    /// The same, once a call was refused after `seconds`.
    pub(super) fn longest_after(&self, seconds: f64) -> f64 {
        FURTHER * self.longest.max(seconds)
    }
}
