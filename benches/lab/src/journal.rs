//! A file with one JSON object per run, written as each run ends, so that a long measurement that is cut goes on where
//! it was.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cases::Case;
use crate::model::Figures;
use crate::output::{about, say};
use crate::strategy::Strategy;

/// The runs that the file has, and the file.
#[derive(Debug)]
pub(crate) struct Journal {
    program: String,
    known: HashMap<String, Figures>,
    path: PathBuf,
    file: Mutex<File>,
}

/// One run that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Played<'a> {
    pub(crate) case: &'a Case,
    pub(crate) strategy: Strategy,
    pub(crate) figures: Figures,
    pub(crate) took: Duration,
}

impl Journal {
    /// Opens or makes the file. Runs of another build are left alone and not used.
    ///
    /// # Errors
    ///
    /// Where the file can neither be read nor made.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(about(folder))?;
        }
        let program = program()?;
        let mut known = HashMap::new();
        let mut others = 0_usize;
        let before = match std::fs::read_to_string(path) {
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => String::new(),
            before => before.map_err(about(path))?,
        };
        // The last line of a run that was killed may be half a line.
        for line in before.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let text = |name: &str| line.get(name).and_then(Value::as_str);
            match (text("run"), figures(&line)) {
                (Some(run), Some(figures)) if text("program") == Some(&program) => {
                    known.insert(run.to_owned(), figures);
                }
                _ => others += 1,
            }
        }
        if !known.is_empty() {
            say(format_args!("{} runs are in {} already", known.len(), path.display()));
        }
        if others > 0 {
            say(format_args!("{others} runs in {} are of another build and not used", path.display()));
        }
        let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(about(path))?;
        if !before.is_empty() && !before.ends_with('\n') {
            writeln!(file).map_err(about(path))?;
        }
        Ok(Self { program, known, path: path.to_owned(), file: Mutex::new(file) })
    }

    pub(crate) fn find(&self, case: &Case, strategy: Strategy) -> Option<Figures> {
        self.known.get(&name(case, strategy)).copied()
    }

    /// Writes a run down.
    ///
    /// # Errors
    ///
    /// Where the file cannot be written.
    pub(crate) fn add(&self, played: &Played<'_>) -> io::Result<()> {
        let Played { case, strategy, figures, took } = played;
        let Figures { goodput, rejections_per_success, p50, p99, failed, peak, refusal, makespan } = figures;
        let line = json!({
            "run": name(case, *strategy),
            "took_s": (1000.0 * took.as_secs_f64()).round() / 1000.0,
            "program": self.program,
            "figures": [goodput, rejections_per_success, p50, p99, failed, peak, refusal, makespan],
        });
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(file, "{line}").map_err(about(&self.path))
    }
}

fn figures(line: &Value) -> Option<Figures> {
    let mut values = line.get("figures")?.as_array()?.iter().filter_map(Value::as_f64);
    let mut next = || values.next();
    Some(Figures {
        goodput: next()?,
        rejections_per_success: next()?,
        p50: next()?,
        p99: next()?,
        failed: next()?,
        peak: next()?,
        refusal: next()?,
        makespan: next()?,
    })
}

/// All that a run depends on but the program.
fn name(case: &Case, strategy: Strategy) -> String {
    let scenario = case.scenario;
    format!(
        "{}, {strategy}, seed {}, {} s after {} s",
        case.title(),
        scenario.seed,
        scenario.seconds,
        scenario.warm_up
    )
}

/// Tells this build from others.
fn program() -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    let path = std::env::current_exe()?;
    std::fs::read(&path).map_err(about(&path))?.hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}
