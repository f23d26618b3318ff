//! What the figures vary by from seed to seed, as measured.

use std::fmt::Write as _;

use crate::targets::Check;

/// Lines of `case, figure, spread`, between tabs, as `--noise` prints them.
const MEASURED: &str = include_str!("noise.tsv");

/// What a mean over so many seeds may miss a target by, where chance alone is at work: two standard errors. None where
/// nothing was measured.
pub(crate) fn tolerance(case: &str, what: &str, seeds: usize) -> Option<f64> {
    let spread: f64 = MEASURED
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .find(|fields| fields.starts_with(&[case, what]))?
        .get(2)?
        .parse()
        .ok()?;
    Some(2.0 * spread / (seeds as f64).sqrt())
}

/// The standard deviation; none of a single value.
pub(crate) fn spread(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    if count < 2.0 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / count;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt()
}

/// The table that [`tolerance`] reads: for each target the spread over seeds of what it is reached by, the mean of
/// that, and the least.
pub(crate) fn measured(checks: &[Check]) -> String {
    let mut text = String::from("case\tfigure\tspread\tmean margin\tleast margin\tseeds\n");
    for Check { case, what, margins, .. } in checks {
        let count = margins.len();
        let mean = margins.iter().sum::<f64>() / count as f64;
        let least = margins.iter().copied().fold(f64::INFINITY, f64::min);
        let _ = writeln!(text, "{case}\t{what}\t{:.7}\t{mean:.7}\t{least:.7}\t{count}", spread(margins));
    }
    text
}
