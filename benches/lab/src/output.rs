//! What the lab prints, and how it speaks of files.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Prints a result. That the reader has seen enough and gone is no error: what is checked is checked all the same.
///
/// # Errors
///
/// Where the output cannot be written.
pub(crate) fn print(text: impl Display) -> io::Result<()> {
    print_to(&mut io::stdout().lock(), text)
}

pub(crate) fn print_to(output: &mut impl Write, text: impl Display) -> io::Result<()> {
    // What stays in a buffer until the program ends would be lost without a word.
    match write!(output, "{text}").and_then(|()| output.flush()) {
        Err(problem) if problem.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(problem) => Err(io::Error::new(problem.kind(), format!("the output: {problem}"))),
        Ok(()) => Ok(()),
    }
}

/// Says something beside the results, if anybody listens.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// An error of the file system that says of which file.
pub(crate) fn about(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    move |problem| io::Error::new(problem.kind(), format!("{}: {problem}", path.display()))
}
