//! The net below the pace: where it lets through less than half of what the cool-down alone would, it is given up.
//!
//! It goes by what was counted and by no estimate. Five minutes in which most calls were held back and many refused all the
//! same are suspicious: slower calls are meant to be refused less. Then calls go four times as fast for ten seconds. If
//! twice as much goes through, the scope is opened, for as long as that lasts; if not, or if clearly more are refused, the next
//! test waits for twice as long.

/// Goodput is judged over so many seconds.
const PERIOD: f64 = 300.0;
/// A test takes so many seconds.
const TEST: f64 = 10.0;
/// It has to bring so many times as much.
const BETTER: f64 = 2.0;
/// It goes at so many times the rate, and ends early with so many refusals beyond the share that there was.
const HASTE: f64 = 4.0;
const CREDIT: f64 = 32.0;
/// Suspicious is more than one refusal in so many admitted calls. At a limit the pace has one in thirty or fewer.
const REFUSED: f64 = 16.0;
/// The most periods between two tests: a day.
const MOST_PAUSE: u32 = 288;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum State {
    /// The pace holds.
    #[default]
    Watching,
    /// For a moment it does not, to see what would be admitted. With it, so much was, in calls a second, and so many calls
    /// were refused for each admitted one.
    Testing { paced: f64, refused: f64 },
    /// It is given up.
    Open { paced: f64 },
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub(super) struct Net {
    state: State,
    began: f64,
    admitted: f64,
    refused: f64,
    held_back: f64,
    /// Periods until the next test, and after it if that is vain.
    skip: u32,
    pause: u32,
    /// What was told last.
    told: bool,
}

impl Default for Net {
    fn default() -> Self {
        Self {
            state: State::Watching,
            began: 0.0,
            admitted: 0.0,
            refused: 0.0,
            held_back: 0.0,
            skip: 0,
            pause: 1,
            told: false,
        }
    }
}

impl Net {
    /// Whether refusals say nothing for now.
    pub(super) fn is_open(&self) -> bool {
        self.state != State::Watching
    }

    /// How many times faster calls go for now.
    pub(super) const fn haste(&self) -> f64 {
        if matches!(self.state, State::Testing { .. }) { HASTE } else { 1.0 }
    }

    /// Whether the pace is given up.
    pub(super) const fn has_opened(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Whether the pace is given up, if that has changed since this was asked last.
    pub(super) fn news(&mut self) -> Option<bool> {
        let is_news = self.told != self.has_opened();
        self.told = self.has_opened();
        is_news.then_some(self.told)
    }

    /// A call was answered. Presumed verdicts do not count: they come when somebody asks, and may be wrong.
    pub(super) fn admitted(&mut self, now: f64, held_back: bool) {
        self.admitted += 1.0;
        self.held_back += f64::from(u8::from(held_back));
        self.step(now);
    }

    pub(super) fn refused(&mut self, now: f64) {
        self.refused += 1.0;
        self.step(now);
    }

    fn step(&mut self, now: f64) {
        let span = now - self.began;
        let (length, most) = match self.state {
            State::Testing { refused, .. } => (TEST, refused * self.admitted + CREDIT),
            State::Watching | State::Open { .. } => (PERIOD, f64::INFINITY),
        };
        let is_vain = self.refused > most;
        if span < length && !is_vain {
            return;
        }
        let rate = self.admitted / span;
        let is_suspicious = self.held_back > 0.5 * self.admitted && REFUSED * self.refused > self.admitted;
        self.state = match self.state {
            State::Watching if self.skip > 0 => {
                self.skip = self.skip.saturating_sub(1);
                State::Watching
            }
            State::Watching if is_suspicious => {
                State::Testing { paced: rate, refused: self.refused / self.admitted.max(1.0) }
            }
            State::Watching => State::Watching,
            State::Testing { paced, .. } | State::Open { paced } if rate >= BETTER * paced && !is_vain => {
                State::Open { paced }
            }
            State::Testing { .. } | State::Open { .. } => {
                self.skip = self.pause;
                self.pause = self.pause.saturating_mul(2).min(MOST_PAUSE);
                State::Watching
            }
        };
        (self.began, self.admitted, self.refused, self.held_back) = (now, 0.0, 0.0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays `seconds` at `paced` calls a second, `open` where the net is open; one in `refused` calls is refused on top.
    fn play(net: &mut Net, from: f64, seconds: u32, paced: u32, open: u32, refused: u32) -> (f64, f64) {
        let (mut admitted, mut opened) = (0.0, 0.0);
        for second in 0..seconds {
            let now = from + f64::from(second);
            let calls = if net.is_open() { open } else { paced };
            let held_back = !net.is_open();
            (0..calls).for_each(|_| net.admitted(now, held_back));
            (0..calls / refused).for_each(|_| net.refused(now));
            admitted += f64::from(calls);
            opened += f64::from(u8::from(net.has_opened()));
        }
        (admitted, opened)
    }

    #[test]
    fn a_pace_that_costs_more_than_half_is_given_up_for_as_long_as_it_does() {
        let mut net = Net::default();
        let (first, _) = play(&mut net, 0.0, 300, 10, 100, 10);
        let (then, opened) = play(&mut net, 300.0, 600, 10, 100, 10);
        assert!(then >= 0.5 * 100.0 * 600.0 && opened > 500.0, "{first} {then} {opened}");
        let (_, opened) = play(&mut net, 900.0, 900, 10, 12, 10);
        assert!(opened < 400.0 && !net.has_opened(), "{opened}: it is taken up again");
    }

    #[test]
    fn a_pace_that_pays_is_hardly_ever_tested() {
        let mut net = Net::default();
        play(&mut net, 0.0, 24 * 3_600, 20, 20, 10);
        assert!(!net.is_open() && net.pause >= 128, "{net:?}");
        // Few refusals, or calls that nothing holds back, need no test.
        let mut net = Net::default();
        play(&mut net, 0.0, 3_600, 20, 200, 30);
        assert_eq!((net.pause, net.skip), (1, 0));
    }
}
