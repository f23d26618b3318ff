//! Law 7, the other half: what closes one scope holds back no call of another.

use std::collections::HashMap;

use super::{Lines, Violation};
use crate::soak::log::What;

/// Checks a scope whose server never refuses anything: its calls go out in the moment in which they are made.
pub(super) fn check(lines: &Lines, found: &mut Vec<Violation>) {
    let mut unsent = HashMap::new();
    for (number, line) in lines {
        let mut report = |what: &str| found.push(Violation { law: 7, line: *number, what: what.to_owned() });
        match line.what {
            What::Began { .. } => {
                unsent.insert(line.call, line.at);
            }
            What::Sent { .. } if unsent.remove(&line.call).is_some_and(|began| began < line.at) => {
                report("held back although nothing was ever refused in its scope");
            }
            What::Ended(_) if unsent.remove(&line.call).is_some() => {
                report("turned away although nothing was ever refused in its scope");
            }
            _ => {}
        }
    }
}
