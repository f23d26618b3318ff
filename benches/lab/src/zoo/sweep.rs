//! What a constant of the pace does, and what each of its rules is worth.
//!
//! The lab plays the quick zoo in processes of its own, with [`VARIABLE`] in their environment: `NAME=0.5` multiplies a
//! constant, `NAME=off` leaves a rule out. A crate that is built with `RUSTFLAGS="--cfg sweep"` obeys it; any other does not, and
//! the lab says so instead of printing a table of equal lines.

use std::error::Error;
use std::fmt::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::args::Args;

/// The variable that the crate's hook reads.
pub(crate) const VARIABLE: &str = "REQWEST_ADMISSION_SWEEP";
/// A constant is multiplied by each of these.
const FACTORS: [&str; 5] = ["0.25", "0.5", "1", "2", "4"];
/// A rule that is worth fewer cells than this is to go.
const WORTH: i64 = 3;

/// What one setting came to.
#[derive(Clone, Debug, PartialEq)]
struct Sum {
    cells: i64,
    met: i64,
    lowest: f64,
    goodput: f64,
    refused: f64,
    /// Everything that was printed, by which two settings are told apart.
    all: String,
}

/// Prints what came of the factors of a constant.
///
/// # Errors
///
/// If a process cannot be run, or no factor makes a difference.
pub(crate) fn constant(args: &Args, name: &str) -> Result<String, Box<dyn Error>> {
    let settings: Vec<String> = FACTORS.iter().map(|factor| format!("{name}={factor}")).collect();
    let sums = settings.iter().map(|setting| play(args, setting)).collect::<Result<Vec<Sum>, _>>()?;
    if sums.windows(2).all(|pair| pair[0] == pair[1]) {
        return Err(unheard(name).into());
    }
    let mut text = format!("\n#### {name}\n\n{HEAD}");
    for (factor, sum) in FACTORS.iter().zip(&sums) {
        line(&mut text, &format!("x {factor}"), sum);
    }
    Ok(text)
}

/// Prints what each rule is worth in cells.
///
/// # Errors
///
/// If a process cannot be run, or a rule makes no difference.
pub(crate) fn rules(args: &Args, names: &[String]) -> Result<String, Box<dyn Error>> {
    let whole = play(args, "nothing=1")?;
    let mut text = format!("\n#### What each rule is worth\n\n{HEAD}");
    line(&mut text, "all rules", &whole);
    for name in names {
        let without = play(args, &format!("{name}=off"))?;
        if without == whole {
            return Err(unheard(name).into());
        }
        let worth = whole.met - without.met;
        let verdict = if worth < WORTH { ", to go" } else { "" };
        line(&mut text, &format!("without {name} ({worth} cells{verdict})"), &without);
    }
    Ok(text)
}

const HEAD: &str = "| setting | cells met | lowest goodput | mean goodput | mean 429s per success |\n|---|---|---|---|---|\n";

fn line(text: &mut String, name: &str, sum: &Sum) {
    let Sum { cells, met, lowest, goodput, refused, .. } = sum;
    let _ = writeln!(text, "| {name} | {met} of {cells} | {lowest:.2} | {goodput:.3} | {refused:.4} |");
}

fn unheard(name: &str) -> String {
    format!(
        "{name} makes no difference to any cell: it is no constant or rule of the pace, or this build does not listen; \
         build with RUSTFLAGS=\"--cfg sweep\" and a --target-dir of its own"
    )
}

/// The zoo once, in a process of its own.
fn play(args: &Args, setting: &str) -> Result<Sum, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--zoo", "--json", "--strategy", "admission", "--scenario", "zoo"]);
    command.args(["--seed", &args.seed.to_string()]);
    if args.quick {
        command.arg("--quick");
    }
    if let Some(part) = &args.cells {
        command.args(["--cells", part]);
    }
    let output = command.env(VARIABLE, setting).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the lab with {setting} has failed: {}", output.status).into());
    }
    Ok(sum(String::from_utf8(output.stdout)?))
}

fn sum(all: String) -> Sum {
    let rows: Vec<Value> = all.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let figures = |name: &str| rows.iter().filter_map(|row| row[name].as_f64()).collect::<Vec<f64>>();
    let mean = |figures: &[f64]| figures.iter().sum::<f64>() / (figures.len() as f64).max(1.0);
    let goodputs = figures("goodput");
    Sum {
        cells: rows.len() as i64,
        met: rows.iter().filter(|row| row["met"] == true).count() as i64,
        lowest: goodputs.iter().copied().fold(f64::INFINITY, f64::min),
        goodput: mean(&goodputs),
        refused: mean(&figures("rejections_per_success")),
        all,
    }
}
