//! Which refusals close their scope for every call, by the log alone.
//!
//! Law 7 has two exceptions, and the server of a scope that advises all gives cause for only one of them. There are no
//! witnesses against its advice, since it admits nothing between a refused request and the advised moment. But a call that is refused
//! *again* although others went through since says nothing of the scope; such a refusal binds that call alone.

use std::collections::HashMap;

use super::Lines;
use crate::soak::log::{Answer, Ms, What};
use crate::soak::world::Rule;

/// The refusals that close a scope: by the place of their lines in the log, until when.
#[derive(Debug, Default)]
pub(crate) struct Closings(HashMap<usize, Ms>);

impl Closings {
    pub(crate) fn of(lines: &Lines, rule: Rule) -> Self {
        let mut closings = Self::default();
        if rule != Rule::AdvisesAll {
            return closings;
        }
        let mut last_admitted = None;
        let mut refused_before = HashMap::new();
        let mut last_sent = HashMap::new();
        for (number, line) in lines {
            match line.what {
                What::Sent { admitted: true } => last_admitted = Some(*number),
                What::Sent { admitted: false } => {
                    if let Some(sent) = last_sent.insert(line.call, *number) {
                        refused_before.insert(line.call, sent);
                    }
                }
                What::Heard(Answer::Refused { wait: Some(wait), .. }) => {
                    let earlier: Option<&usize> = refused_before.get(&line.call);
                    if earlier.is_none_or(|earlier| last_admitted < Some(*earlier)) {
                        closings.0.insert(*number, line.at + wait);
                    }
                }
                What::Ended(_) => {
                    refused_before.remove(&line.call);
                    last_sent.remove(&line.call);
                }
                _ => {}
            }
        }
        closings
    }

    /// Until when a line closes the scope, if it does.
    pub(crate) fn by(&self, line: usize) -> Option<Ms> {
        self.0.get(&line).copied()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}
