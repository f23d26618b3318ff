//! What a run consisted of, so that nobody takes a run for a proof in which nothing happened.

use std::fmt;

use super::Played;
use super::laws::{Closings, by_scope};
use super::log::{Answer, End, What};
use super::world::Rule;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) calls: usize,
    pub(crate) sends: usize,
    /// Refusals, those with advice, and those of them that closed a scope for all.
    pub(crate) refused: usize,
    pub(crate) advised: usize,
    pub(crate) closings: usize,
    pub(crate) lost: usize,
    /// Attempts that were dropped before they had an answer.
    pub(crate) abandoned: usize,
    pub(crate) answered: usize,
    pub(crate) spilled_over: usize,
    pub(crate) cancelled: usize,
    pub(crate) failed: usize,
    /// Calls that waited before their first attempt, by scopes that are limited, and by others.
    pub(crate) held: [usize; 2],
}

impl Tally {
    pub(crate) fn of(played: &Played) -> Self {
        let mut tally = Self::default();
        for (rule, lines) in played.rules.iter().zip(by_scope(&played.log, played.rules.len())) {
            tally.closings += Closings::of(&lines, *rule).count();
            let mut unsent = std::collections::HashMap::new();
            for (_, line) in lines {
                match line.what {
                    What::Began { .. } => {
                        unsent.insert(line.call, line.at);
                    }
                    What::Sent { .. } => {
                        let held = unsent.remove(&line.call).is_some_and(|began| began < line.at);
                        tally.held[usize::from(!matches!(rule, Rule::Limited(_)))] += usize::from(held);
                    }
                    _ => {}
                }
                tally.count(line.what);
            }
        }
        tally
    }

    fn count(&mut self, what: What) {
        match what {
            What::Began { .. } => self.calls += 1,
            What::Sent { .. } => self.sends += 1,
            What::Heard(Answer::Refused { wait, .. }) => {
                self.refused += 1;
                self.advised += usize::from(wait.is_some());
            }
            What::Heard(Answer::Lost) => self.lost += 1,
            What::Heard(Answer::Taken) | What::BodyOver => {}
            What::Abandoned => self.abandoned += 1,
            What::Ended(End::Answered) => self.answered += 1,
            What::Ended(End::SpilledOver) => self.spilled_over += 1,
            What::Ended(End::Cancelled) => self.cancelled += 1,
            What::Ended(End::Failed) => self.failed += 1,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [limited, others] = self.held;
        write!(
            f,
            "{} calls ({} answered, {} spilled over, {} cancelled, {} failed), {} sends, {} lost, {} abandoned, \
             {} refused, {} of them with advice, {} for a whole scope; held before the first send: {limited} by a \
             concurrency limit, {others} by what was refused",
            self.calls,
            self.answered,
            self.spilled_over,
            self.cancelled,
            self.failed,
            self.sends,
            self.lost,
            self.abandoned,
            self.refused,
            self.advised,
            self.closings,
        )
    }
}
