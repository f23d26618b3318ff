//! What the turns of one stack took, by the clock and by the client's processor.

use std::time::Duration;

/// One stack's figures, in microseconds a call.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// One figure for each round.
    rounds: Vec<f64>,
    /// The turns of this round.
    turns: Vec<f64>,
    /// Processor time and calls of all turns.
    processor: Duration,
    calls: u32,
}

impl Times {
    pub(crate) fn add_turn(&mut self, time: Duration, processor: Duration, calls: u32) {
        self.turns.push(a_call(time, calls));
        self.processor += processor;
        self.calls += calls;
    }

    /// A round is as fast as the slowest of its fastest tenth of turns: the very fastest is too much a matter of luck.
    pub(crate) fn end_round(&mut self) {
        self.turns.sort_by(f64::total_cmp);
        self.rounds.extend(self.turns.get(self.turns.len() / 10));
        self.rounds.sort_by(f64::total_cmp);
        self.turns.clear();
    }

    pub(crate) fn minimum(&self) -> f64 {
        self.rounds.first().copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn median(&self) -> f64 {
        self.rounds.get(self.rounds.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The mean processor time of the client; NaN where the system does not tell.
    pub(crate) fn processor(&self) -> f64 {
        if self.processor.is_zero() { f64::NAN } else { a_call(self.processor, self.calls) }
    }
}

fn a_call(time: Duration, calls: u32) -> f64 {
    time.as_secs_f64() * 1e6 / f64::from(calls)
}

/// The processor time that this thread has had so far. Linux tells, to within a tick of its scheduler.
pub(crate) fn processor_time() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = told.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
