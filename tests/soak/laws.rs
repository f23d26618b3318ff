//! The laws of DESIGN.md, checked against the log alone.

use super::log::Line;
use super::world::Rule;

mod advice;
mod budget;
mod closings;
mod neighbours;
mod permits;
#[cfg(test)]
mod tests;

pub(crate) use closings::Closings;

/// A line of the log that breaks a law.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) law: u8,
    /// Where the line is in the log.
    pub(crate) line: usize,
    pub(crate) what: String,
}

/// The lines of one scope, each with its place in the log.
pub(crate) type Lines = [(usize, Line)];

/// All that breaks a law, in the order of the log.
pub(crate) fn violations(log: &[Line], rules: &[Rule]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (rule, lines) in rules.iter().zip(by_scope(log, rules.len())) {
        let closings = Closings::of(&lines, *rule);
        advice::check(&lines, &closings, &mut found);
        budget::check(&lines, &closings, &mut found);
        match *rule {
            Rule::Free => neighbours::check(&lines, &mut found),
            Rule::Limited(most) => permits::check(&lines, most, &mut found),
            Rule::AdvisesAll | Rule::AdvisesOne => {}
        }
    }
    found.sort_by_key(|violation| violation.line);
    found
}

pub(crate) fn by_scope(log: &[Line], scopes: usize) -> Vec<Vec<(usize, Line)>> {
    let mut split = vec![Vec::new(); scopes];
    for (number, line) in log.iter().enumerate() {
        split[line.scope].push((number, *line));
    }
    split
}

/// The lines of the same scope around a violation.
pub(crate) fn around(log: &[Line], violation: &Violation) -> String {
    const BEFORE: usize = 25;
    const AFTER: usize = 8;
    let scope = log[violation.line].scope;
    let lines: Vec<_> = log.iter().enumerate().filter(|(_, line)| line.scope == scope).collect();
    let place = lines.partition_point(|(number, _)| *number < violation.line);
    let shown = &lines[place.saturating_sub(BEFORE)..lines.len().min(place + AFTER)];
    let text = |(number, line): &(usize, &Line)| {
        let mark = if *number == violation.line { ">" } else { " " };
        format!("{mark} {:>10} ms  call {:<7} {:?}\n", line.at, line.call, line.what)
    };
    shown.iter().map(text).collect()
}
