//! The corpus of the fuzz targets, replayed in the ordinary test run, and random changes of it.
//!
//! `tests/fuzz/Cargo.toml` says how to fuzz.
#![cfg(test)]

#[path = "fuzz/targets/mod.rs"]
mod targets;

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 4] = [
    ("reading", targets::reading),
    ("scope_keys", targets::scope_keys),
    ("routes", targets::routes),
    ("tickets", targets::tickets),
];

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target);
    let mut files: Vec<_> = directory.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn every_input_of_the_corpus_keeps_the_promises() {
    for (name, target) in TARGETS {
        let inputs = corpus(name);
        assert!(inputs.len() >= 10, "the corpus of {name} has {} inputs", inputs.len());
        inputs.iter().for_each(|input| target(input));
    }
}

/// An input with some bytes overwritten, left out or put twice.
fn changed(mut input: Vec<u8>, changes: &[(Index, u8, u8)]) -> Vec<u8> {
    for (at, kind, byte) in changes {
        if input.is_empty() {
            break;
        }
        let at = at.index(input.len());
        match kind % 4 {
            0 => input[at] = *byte,
            1 => drop(input.remove(at)),
            2 => input.insert(at, *byte),
            _ => input.extend_from_within(at..),
        }
    }
    input
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changes_of_the_corpus_keep_the_promises(
        chosen in any::<Index>(), changes in prop::collection::vec(any::<(Index, u8, u8)>(), 1..6),
    ) {
        for (name, target) in TARGETS {
            let inputs = corpus(name);
            target(&changed(chosen.get(&inputs).clone(), &changes));
        }
    }
}
