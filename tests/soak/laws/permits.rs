//! Law 8: a concurrency limit is never exceeded, and no permit is lost.

use std::collections::{HashMap, HashSet};

use super::{Lines, Violation};
use crate::soak::log::{Answer, What};

/// Checks a scope that has a concurrency limit of `most` and no other.
pub(super) fn check(lines: &Lines, most: usize, found: &mut Vec<Violation>) {
    let mut open: HashSet<usize> = HashSet::new();
    let mut waiting: HashMap<usize, usize> = HashMap::new();
    for (place, (number, line)) in lines.iter().enumerate() {
        match line.what {
            // A call of the lowest class may have to leave room for others.
            What::Began { batch, .. } => {
                if !batch {
                    waiting.insert(line.call, *number);
                }
            }
            What::Sent { .. } => {
                waiting.remove(&line.call);
                open.insert(line.call);
                if open.len() > most {
                    let what = format!("the {}th call at a time where {most} are allowed", open.len());
                    found.push(Violation { law: 8, line: *number, what });
                }
            }
            What::Heard(Answer::Lost) | What::Abandoned | What::BodyOver => {
                open.remove(&line.call);
            }
            What::Ended(_) => {
                waiting.remove(&line.call);
            }
            What::Heard(_) => {}
        }
        let is_last_of_its_moment = lines.get(place + 1).is_none_or(|(_, next)| next.at > line.at);
        if is_last_of_its_moment
            && open.len() < most
            && let Some(first) = waiting.values().min()
        {
            let what = format!("a call waits (since line {first}) while {} of {most} are open", open.len());
            found.push(Violation { law: 8, line: *number, what });
            waiting.clear();
        }
    }
    if !open.is_empty()
        && let Some((number, _)) = lines.last()
    {
        let what = format!("{} attempts never ended", open.len());
        found.push(Violation { law: 8, line: *number, what });
    }
}
