//! Each law on logs made by hand: what breaks it is found, and what does not is not.

use super::*;
use crate::soak::log::{Answer, End, Ms, What};

const ADMITTED: What = What::Sent { admitted: true };
const TURNED_DOWN: What = What::Sent { admitted: false };
const TAKEN: What = What::Heard(Answer::Taken);
const ENDED: What = What::Ended(End::Answered);

const fn began(budget: Ms) -> What {
    What::Began { budget, batch: false }
}

const fn refused(wait: Ms) -> What {
    What::Heard(Answer::Refused { wait: Some(wait), body: 0 })
}

/// The laws that are broken by the lines of one scope.
fn broken(rule: Rule, lines: &[(Ms, usize, What)]) -> Vec<(u8, usize)> {
    let line = |(at, call, what): &(Ms, usize, What)| Line { at: *at, scope: 0, call: *call, what: *what };
    let found = violations(&lines.iter().map(line).collect::<Vec<_>>(), &[rule]);
    found.iter().map(|violation| (violation.law, violation.line)).collect()
}

/// One call is refused for a second, and both calls are sent at these moments.
fn two_calls(again: Ms, other: Ms) -> Vec<(Ms, usize, What)> {
    let mut lines = vec![
        (0, 1, began(9_000)),
        (0, 1, TURNED_DOWN),
        (10, 1, refused(1_000)),
        (20, 2, began(9_000)),
        (again, 1, ADMITTED),
        (again, 1, TAKEN),
        (again, 1, What::BodyOver),
        (again, 1, ENDED),
        (other, 2, ADMITTED),
        (other, 2, TAKEN),
        (other, 2, What::BodyOver),
        (other, 2, ENDED),
    ];
    lines.sort_by_key(|(at, ..)| *at);
    lines
}

#[test]
fn nothing_is_sent_in_an_advised_time() {
    assert_eq!(broken(Rule::AdvisesAll, &two_calls(1_010, 1_010)), []);
    assert_eq!(broken(Rule::AdvisesAll, &two_calls(1_009, 1_010)), [(1, 4)]);
    assert_eq!(broken(Rule::AdvisesAll, &two_calls(1_010, 1_009)), [(1, 4)]);
    assert_eq!(broken(Rule::AdvisesOne, &two_calls(1_010, 20)), []);
    assert_eq!(broken(Rule::AdvisesOne, &two_calls(1_009, 1_010)), [(1, 4)]);
}

#[test]
fn a_call_that_is_refused_again_while_others_go_through_binds_itself_alone() {
    let refused_again = |admitted: bool| {
        let first = if admitted { ADMITTED } else { TURNED_DOWN };
        let answer = if admitted { TAKEN } else { refused(10) };
        [
            (0, 1, began(90_000)),
            (0, 1, TURNED_DOWN),
            (0, 1, refused(100)),
            (100, 2, began(90_000)),
            (100, 2, first),
            (100, 2, answer),
            (110, 1, TURNED_DOWN),
            (110, 1, refused(1_000)),
            (200, 3, began(90_000)),
            (200, 3, ADMITTED),
            (200, 3, What::BodyOver),
            (200, 3, ENDED),
            (210, 2, ENDED),
            (210, 1, ENDED),
        ]
    };
    assert_eq!(broken(Rule::AdvisesAll, &refused_again(true)), []);
    assert_eq!(broken(Rule::AdvisesAll, &refused_again(false)), [(1, 9)]);
}

#[test]
fn no_call_ends_after_its_budget_or_is_sent_after_its_end() {
    let ends = |at| [(0, 1, began(1_000)), (0, 1, ADMITTED), (at, 1, What::Abandoned), (at, 1, ENDED)];
    assert_eq!(broken(Rule::AdvisesAll, &ends(1_000)), []);
    assert_eq!(broken(Rule::AdvisesAll, &ends(1_001)), [(2, 3)]);
    let cancelled = [(0, 1, began(1_000)), (5, 1, What::Ended(End::Cancelled)), (6, 1, ADMITTED)];
    assert_eq!(broken(Rule::AdvisesAll, &cancelled), [(2, 2)]);
    assert_eq!(broken(Rule::AdvisesAll, &[(0, 1, began(1_000))]), [(2, 0)]);
}

#[test]
fn a_wait_that_is_too_long_is_told_at_once() {
    // To the refused call, to one that comes later, and to one that waits already.
    let own = |end| [(0, 1, began(500)), (0, 1, TURNED_DOWN), (10, 1, refused(491)), (end, 1, ENDED)];
    assert_eq!(broken(Rule::AdvisesOne, &own(10)), []);
    assert_eq!(broken(Rule::AdvisesOne, &own(11)), [(2, 3)]);
    let others = |budget, end| {
        [
            (0, 1, began(9_000)),
            (0, 1, TURNED_DOWN),
            (0, 2, began(9_000)),
            (0, 2, TURNED_DOWN),
            (10, 1, refused(100)),
            (20, 3, began(budget)),
            (30, 2, refused(1_000)),
            (end, 3, ENDED),
            (2_000, 2, ENDED),
            (2_000, 1, ENDED),
        ]
    };
    assert_eq!(broken(Rule::AdvisesAll, &others(1_010, 900)), []);
    assert_eq!(broken(Rule::AdvisesAll, &others(1_009, 30)), []);
    assert_eq!(broken(Rule::AdvisesAll, &others(1_009, 31)), [(2, 7)]);
    assert_eq!(broken(Rule::AdvisesAll, &others(50, 21)), [(2, 7)]);
    assert_eq!(broken(Rule::AdvisesOne, &others(1_009, 900)), []);
}

#[test]
fn without_a_budget_nothing_waits() {
    assert_eq!(broken(Rule::AdvisesOne, &[(0, 1, began(0)), (1, 1, ENDED)]), [(2, 1)]);
    let twice = [(0, 1, began(0)), (0, 1, ADMITTED), (9, 1, ADMITTED), (9, 1, ENDED)];
    assert_eq!(broken(Rule::AdvisesOne, &twice), [(2, 2)]);
}

#[test]
fn a_free_scope_holds_nobody_back() {
    let sent = |at| [(5, 1, began(900)), (at, 1, ADMITTED), (at, 1, ENDED)];
    assert_eq!(broken(Rule::Free, &sent(5)), []);
    assert_eq!(broken(Rule::Free, &sent(6)), [(7, 1)]);
    assert_eq!(broken(Rule::Free, &[(5, 1, began(900)), (5, 1, ENDED)]), [(7, 1)]);
}

#[test]
fn permits_are_neither_invented_nor_lost() {
    let second = |began_at, sent_at| {
        let mut lines = vec![
            (0, 1, began(900)),
            (0, 1, ADMITTED),
            (10, 1, TAKEN),
            (10, 1, ENDED),
            (50, 1, What::BodyOver),
            (began_at, 2, began(900)),
            (sent_at, 2, ADMITTED),
            (sent_at, 2, What::Abandoned),
            (sent_at, 2, ENDED),
        ];
        lines.sort_by_key(|(at, ..)| *at);
        lines
    };
    assert_eq!(broken(Rule::Limited(1), &second(20, 50)), []);
    assert_eq!(broken(Rule::Limited(1), &second(20, 49)), [(8, 5)]);
    assert_eq!(broken(Rule::Limited(1), &second(20, 51)), [(8, 5)]);
    assert_eq!(broken(Rule::Limited(2), &second(20, 49)), [(8, 4)]);
    let kept = [(0, 1, began(900)), (0, 1, ADMITTED), (0, 1, TAKEN), (0, 1, ENDED)];
    assert_eq!(broken(Rule::Limited(1), &kept), [(8, 3)]);
}
