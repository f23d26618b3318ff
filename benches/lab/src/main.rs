//! A laboratory of rate limits: the middleware beside what others do, against a model of a service, in virtual time.
//!
//! ```text
//! cargo run --release -p lab -- --quick
//! ```
//!
//! `--quick` (the default) takes less than two minutes on two cores; `--full` measures longer and over five seeds, with
//! an hour and a half of processor time. `--strategy NAME` and `--scenario NAME` (both may be repeated) leave the others out, `--seed N` starts from
//! another seed, and `--json` prints one object per scenario and strategy instead of the tables. With `--journal FILE`
//! every run is written down as it ends, and the next call with the same file goes on from there.
//!
//! `--check` fails where a target is missed by more than the noise that was measured, and where there was nothing to
//! compare a target with. `--noise` measures that noise anew and prints what belongs into `noise.tsv`.
//!
//! `--report` draws the plots instead, into `target/lab/report.html`, and `--plots FOLDER` those of the README.
//! `--results` writes the tables into `benches/RESULTS.md`, the README's comparison, and its plots.
//!
//! `--zoo` plays the zoo: limiters of all kinds, as real ones are, limits that change, fleets. `--hold-out` plays the tenth of its
//! cells that is kept aside; `--servers` plays real servers that are on this machine; `--scale`, `--sweep` and `--without` are
//! for whoever works on the gate, and described in `benches/README.md`.
//!
//! `--sockets` plays a part of it in real time over loopback instead, beside the same minute in virtual time, which takes
//! a few minutes (`--seconds N` makes the minute shorter); there `--check` fails where the two contradict each other.
//!
//! The server is a leaky bucket that refuses with the time to the line; callers think, call, and repeat. All calls go
//! through the real middleware stack of reqwest-middleware, whose innermost layer is the model. Tokio's clock is paused,
//! so that half an hour takes seconds and the same seed gives the same figures (except for reqwest-retry, which draws
//! its own jitter).

mod args;
mod aws;
mod cases;
mod chart;
mod journal;
mod model;
mod noise;
mod origin;
mod output;
mod peers;
mod plots;
mod recorded;
mod report;
mod results;
mod runs;
mod servers;
mod sockets;
mod strategy;
mod targets;
#[cfg(test)]
mod tests;
mod zoo;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use args::{Args, USAGE};
use output::{print, say};
use runs::in_parallel;

fn main() -> ExitCode {
    let args = match Args::read(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(problem) => {
            say(problem);
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            say(problem);
            ExitCode::FAILURE
        }
    }
}

/// Does what is asked for; false where a check fails.
fn run(args: &Args) -> Result<bool, Box<dyn Error>> {
    if args.help {
        print(format_args!("{USAGE}\n"))?;
        return Ok(true);
    }
    if args.zoo {
        return zoo::run(args);
    }
    if args.report {
        let path = plots::report(args.seed, Path::new("target/lab"))?;
        print(format_args!("{}\n", path.display()))?;
        return Ok(true);
    }
    if let Some(folder) = &args.plots {
        for path in plots::for_readme(args.seed, folder)? {
            print(format_args!("{}\n", path.display()))?;
        }
        return Ok(true);
    }
    if args.servers {
        return servers::run(args);
    }
    if args.sockets {
        return sockets::run(args);
    }
    let rows = runs::measure(args)?;
    let mut checks = targets::checks(&rows, args.quick);
    checks.extend(zoo::checks(args));
    if args.noise {
        print(noise::measured(&checks))?;
        return Ok(true);
    }
    if args.json {
        for row in rows.iter().filter(|row| row.is_shown) {
            print(format_args!("{}\n", row.json()))?;
        }
        report::notes(&rows).iter().for_each(say);
    } else {
        for note in report::notes(&rows) {
            print(format_args!("{note}\n"))?;
        }
        print(format_args!("{}{}\n", report::tables(&rows), targets::table(&checks)))?;
    }
    if args.results {
        results::write(&rows, &checks, args.seed)?;
    }
    let complaints = targets::complaints(&checks);
    if args.check {
        complaints.iter().for_each(|complaint| say(format_args!("MISSED {complaint}")));
        say(targets::summary(&checks));
    }
    Ok(!args.check || complaints.is_empty())
}
