//! A journal goes on where it was cut.

use std::time::Duration;

use crate::journal::{Journal, Played};
use crate::model::Figures;
use crate::strategy::Strategy;

#[test]
fn what_was_played_is_not_played_again() {
    let folder = std::env::temp_dir().join(format!("lab-journal-{}", std::process::id()));
    let path = folder.join("journal.jsonl");
    let case = super::short(1);
    let figures = Figures { goodput: 0.1 + 0.2, p99: 3.25, ..Figures::default() };
    let played = Played { case: &case, strategy: Strategy::Admission, figures, took: Duration::from_secs(1) };
    Journal::open(&path).and_then(|journal| journal.add(&played)).expect("a journal");

    // A line of another build, and one that was cut.
    let mut text = std::fs::read_to_string(&path).expect("a line");
    let other = text.replace("\"program\":\"", "\"program\":\"x").replace("admission", "oracle");
    text.push_str(&other);
    text.push_str(r#"{"run":"half a li"#);
    std::fs::write(&path, text).expect("a file");

    let journal = Journal::open(&path).expect("a journal");
    let found = journal.find(&case, Strategy::Admission).expect("the run");
    assert_eq!((found.goodput, found.p99), (figures.goodput, figures.p99));
    assert!(journal.find(&case, Strategy::Oracle).is_none(), "of another build");
    assert!(journal.find(&super::short(2), Strategy::Admission).is_none(), "another seed");

    // What is written now does not stick to the half line.
    let oracle = Played { strategy: Strategy::Oracle, ..played };
    journal.add(&oracle).expect("another line");
    assert!(Journal::open(&path).expect("a journal").find(&case, Strategy::Oracle).is_some());
    std::fs::remove_dir_all(folder).expect("no journal");
}
