//! The README's comparison says what the measured tables say.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a table that is not as expected fails the test"
)]

const README: &str = include_str!("../README.md");
const RESULTS: &str = include_str!("../benches/RESULTS.md");

/// The README's names of the strategies, and those of the tables.
const NAMES: [(&str, &str); 6] = [
    ("**this crate**", "admission"),
    ("reqwest-retry, 3 retries", "reqwest-retry (varies)"),
    ("a fixed wait of 1 s", "fixed-1s"),
    ("exactly what the header says", "header-exact"),
    ("the OpenAI SDK's rule", "openai-sdk"),
    ("the AWS SDK's adaptive mode", "aws-adaptive"),
];

/// The cells of all rows between two lines of text.
fn rows<'a>(text: &'a str, from: &str, to: &str) -> Vec<Vec<&'a str>> {
    let (_, rest) = text.split_once(from).expect("a beginning");
    let (table, _) = rest.split_once(to).expect("an end");
    let cells = |line: &'a str| line.trim_matches('|').split('|').map(str::trim).collect();
    table.lines().filter(|line| line.starts_with('|')).map(cells).skip(2).collect()
}

fn of<'a>(rows: &'a [Vec<&'a str>], name: &str) -> &'a [&'a str] {
    rows.iter().find(|row| row.first() == Some(&name)).map(|row| &row[1..]).expect(name)
}

#[test]
fn the_comparison_is_what_was_measured() {
    let shown = rows(README, "<!-- lab: comparison -->", "<!-- lab: end of comparison -->");
    let many = rows(RESULTS, "#### ptu, 64 callers, 32000 tokens/s, 3x\n", "\n#### ");
    let recorded = rows(RESULTS, "#### recorded, a lone caller\n", "\n#### ");
    assert_eq!(shown.len(), NAMES.len());
    for (in_readme, in_results) in NAMES {
        let (many, recorded) = (of(&many, in_results), of(&recorded, in_results));
        let (per_success, p99, failed) = (many[1], many[3], many[4]);
        let (early, over) = (recorded[7], recorded[8]);
        let expected = [
            per_success.to_owned(),
            format!("{failed} %"),
            format!("{p99} s"),
            early.to_owned(),
            over.to_owned(),
        ];
        assert_eq!(of(&shown, in_readme), expected, "{in_readme}");
    }
}

#[test]
fn the_plots_are_there_and_small() {
    for name in ["429s-per-success.svg", "herd-and-drip.svg"] {
        let path = format!("{}/benches/plots/{name}", env!("CARGO_MANIFEST_DIR"));
        let svg = std::fs::read_to_string(&path).expect("a plot");
        assert!(svg.starts_with("<svg") && svg.len() < 60_000, "{name}: {} bytes", svg.len());
        assert!(README.contains(&format!("benches/plots/{name}")), "{name} is not shown");
    }
}
