//! Counts the instructions of a bench's cases: the bench runs itself under valgrind's callgrind for each of them.
//!
//! Every case is run twice with different numbers of rounds, so that the start cancels out. Without valgrind it says so
//! and counts nothing.

use std::error::Error;
use std::process::Command;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

const FEW: u32 = 200;
const MANY: u32 = 1_200;

/// Does what the bench is called for: prints `table`, or runs one case for [`per_round`]. `cargo test` only sees
/// that all `cases` run.
pub(crate) fn main<'a>(
    cases: impl IntoIterator<Item = &'a str>,
    run: impl Fn(&str, u32) -> Result<()>,
    table: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments {
        ["--case", case, rounds] => run(case, rounds.parse()?),
        _ if !arguments.contains(&"--bench") => cases.into_iter().try_for_each(|case| run(case, 1)),
        _ if is_there() => table(),
        _ => {
            println!("valgrind is not there, so no instructions are counted; install it to run this bench");
            Ok(())
        }
    }
}

fn is_there() -> bool {
    let found = Command::new("valgrind").arg("--version").output();
    found.is_ok_and(|found| found.status.success())
}

/// The instructions of one round of a case.
pub(crate) fn per_round(case: &str) -> Result<f64> {
    let (few, many) = (instructions(case, FEW)?, instructions(case, MANY)?);
    Ok((many - few) / f64::from(MANY.saturating_sub(FEW)))
}

fn instructions(case: &str, rounds: u32) -> Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["--case", case, &rounds.to_string()])
        .output()?;
    let log = String::from_utf8_lossy(&output.stderr);
    let collected = log.lines().find_map(|line| line.split_once("Collected : "));
    match collected {
        Some((_, count)) if output.status.success() => Ok(count.trim().parse()?),
        _ => Err(log.into_owned().into()),
    }
}
