#![doc = include_str!("walk.md")]

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The files that the page names in its tables.
    fn named() -> Vec<&'static str> {
        let rows = include_str!("walk.md").lines().filter(|line| line.starts_with('|'));
        rows.flat_map(|row| row.split('`')).filter(|word| word.ends_with(".rs")).collect()
    }

    #[test]
    fn every_file_of_the_walk_and_of_the_index_exists_and_the_walk_is_short() {
        for file in named() {
            // The published package has no tests of its own.
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            let is_there =
                root.join(file).exists() || file.starts_with("tests/") && !root.join("tests").exists();
            assert!(is_there, "{file}");
        }
        let stations: BTreeSet<_> = named().into_iter().filter(|file| file.starts_with("src/")).collect();
        assert!((20..=25).contains(&stations.len()), "{stations:?}");
    }

    #[test]
    fn every_law_has_a_test() {
        let laws = include_str!("walk.md").lines().filter(|line| line.contains("`tests/"));
        assert_eq!(laws.count(), 12);
    }
}
