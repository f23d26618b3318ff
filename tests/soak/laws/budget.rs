//! Law 2: no call ends after its budget, and none waits when it can be told at once that the wait is too long.

use std::collections::HashMap;

use super::{Closings, Lines, Violation};
use crate::soak::log::{Answer, Ms, What};

struct Call {
    began: Ms,
    budget: Ms,
    sends: u32,
    refusals: u32,
    /// Whether it waits for the gate, and for nothing of its own.
    waits: bool,
    /// When it had to be told that the wait is too long, if it had to.
    told: Option<Ms>,
}

impl Call {
    fn deadline(&self) -> Ms {
        self.began + self.budget
    }

    /// What is wrong with an end at this moment.
    fn late(&self, now: Ms) -> Option<String> {
        if self.budget > 0 && now > self.deadline() {
            Some(format!("ended {} ms after its budget", now - self.deadline()))
        } else if self.sends == 0 && self.budget == 0 && now > self.began {
            Some("waited without a budget".to_owned())
        } else {
            let told = self.told.filter(|told| *told < now)?;
            Some(format!("waited {} ms for what was out of reach", now - told))
        }
    }

    /// The end of a refusal's body that takes so long; reading it ends with the budget, where there is one.
    fn after_reading(&self, now: Ms, body: Ms) -> Ms {
        if self.budget == 0 { now + body } else { (now + body).min(self.deadline()) }
    }
}

pub(super) fn check(lines: &Lines, closings: &Closings, found: &mut Vec<Violation>) {
    let mut calls: HashMap<usize, Call> = HashMap::new();
    let mut closed_until: Ms = 0;
    for (number, line) in lines {
        let (number, now) = (*number, line.at);
        let mut report = |what: String| found.push(Violation { law: 2, line: number, what });
        if let What::Began { budget, .. } = line.what {
            let told = (now + budget < closed_until).then_some(now);
            calls.insert(line.call, Call { began: now, budget, sends: 0, refusals: 0, waits: true, told });
            continue;
        }
        let Some(call) = calls.get_mut(&line.call) else {
            if matches!(line.what, What::Sent { .. }) {
                report("sent although its caller is no longer there".to_owned());
            }
            continue;
        };
        match line.what {
            What::Sent { .. } => {
                call.sends += 1;
                call.waits = false;
                if call.told.is_some() {
                    report("sent although the wait was longer than its budget".to_owned());
                } else if now > call.deadline() {
                    report(format!("sent {} ms after its budget", now - call.deadline()));
                } else if call.budget == 0 && call.sends > 1 {
                    report("sent again without a budget".to_owned());
                }
            }
            What::Heard(Answer::Refused { wait: Some(wait), body }) => {
                call.refusals += 1;
                // One that is refused again may be made to wait by itself.
                call.waits = call.refusals == 1;
                if now + wait > call.deadline() {
                    call.told = Some(call.after_reading(now, body));
                }
                closed_until = closed_until.max(closings.by(number).unwrap_or(0));
                for (known, call) in calls.iter_mut().filter(|(_, call)| call.waits && call.told.is_none()) {
                    if call.deadline() < closed_until {
                        let body = if *known == line.call { body } else { 0 };
                        call.told = Some(call.after_reading(now, body));
                    }
                }
            }
            What::Ended(_) => {
                if let Some(what) = call.late(now) {
                    report(what);
                }
                calls.remove(&line.call);
            }
            _ => {}
        }
    }
    if let (Some((line, _)), false) = (lines.last(), calls.is_empty()) {
        found.push(Violation { law: 2, line: *line, what: format!("{} calls never ended", calls.len()) });
    }
}
