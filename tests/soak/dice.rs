//! Random choices of a known seed.

use super::log::Ms;
use super::random::Random;

/// One stream of random choices.
#[derive(Debug, Clone)]
pub(crate) struct Dice(Random);

impl Dice {
    /// The stream of one purpose under a seed.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        Self(Random::new(seed, purpose))
    }

    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.0.uniform() < share
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        (self.0.uniform() * length as f64) as usize
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    pub(crate) fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.0.uniform()
    }

    /// Whole milliseconds, with every order of magnitude as likely as any other.
    pub(crate) fn spread(&mut self, least: Ms, most: Ms) -> Ms {
        let (least, most) = (least.max(1) as f64, most as f64);
        (least * (most / least).powf(self.0.uniform())).round() as Ms
    }

    pub(crate) fn exponential(&mut self, mean: Ms) -> Ms {
        self.0.exponential(mean as f64).round() as Ms
    }
}
