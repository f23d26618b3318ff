//! Laws 1 and 7: nothing is sent in an advised time, by the refused call or by any other of its scope.

use std::collections::HashMap;

use super::{Closings, Lines, Violation};
use crate::soak::log::{Answer, Ms, What};

pub(super) fn check(lines: &Lines, closings: &Closings, found: &mut Vec<Violation>) {
    let mut closed_until: Ms = 0;
    let mut own: HashMap<usize, Ms> = HashMap::new();
    for (number, line) in lines {
        match line.what {
            What::Heard(Answer::Refused { wait: Some(wait), .. }) => {
                own.insert(line.call, line.at + wait);
                closed_until = closed_until.max(closings.by(*number).unwrap_or(0));
            }
            What::Sent { .. } => {
                let own = own.get(&line.call).copied().unwrap_or(0);
                if line.at < own {
                    let what = format!("sent again {} ms before the moment it was told", own - line.at);
                    found.push(Violation { law: 1, line: *number, what });
                } else if line.at < closed_until {
                    let what = format!("sent {} ms before its scope opens again", closed_until - line.at);
                    found.push(Violation { law: 1, line: *number, what });
                }
            }
            What::Ended(_) => {
                own.remove(&line.call);
            }
            _ => {}
        }
    }
}
