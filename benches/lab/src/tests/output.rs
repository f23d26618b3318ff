//! Printing ends quietly where nobody reads on, and says so where the output is lost.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use crate::journal::Journal;
use crate::output::{about, print_to};

struct Failing(ErrorKind);

impl Write for Failing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_may_go_but_a_full_disk_is_an_error() {
    assert!(print_to(&mut Failing(ErrorKind::BrokenPipe), "text\n").is_ok());
    let problem = print_to(&mut Failing(ErrorKind::StorageFull), "text\n").unwrap_err();
    assert_eq!(problem.kind(), ErrorKind::StorageFull);
    // A buffer keeps what it is given, and only its flush fails.
    assert!(print_to(&mut BufWriter::new(Failing(ErrorKind::StorageFull)), "text\n").is_err());
    let mut text = Vec::new();
    print_to(&mut text, format_args!("{}\n", 1)).unwrap();
    assert_eq!(text, b"1\n");
}

#[test]
fn an_error_of_a_file_names_it() {
    let problem = about(Path::new("some/file"))(ErrorKind::NotFound.into());
    assert_eq!(problem.kind(), ErrorKind::NotFound);
    assert!(problem.to_string().starts_with("some/file: "), "{problem}");
    // A folder is no journal.
    let folder = std::env::temp_dir();
    let problem = Journal::open(&folder).unwrap_err();
    assert!(problem.to_string().starts_with(&folder.display().to_string()), "{problem}");
}
