//! What the command line takes and what it does not.

use crate::args::Args;
use crate::strategy::Strategy;

fn read(line: &str) -> Result<Args, String> {
    Args::read(line.split_whitespace().map(str::to_owned))
}

#[test]
fn seconds_are_a_time_that_can_be_waited_for_and_for_sockets_alone() {
    for seconds in ["inf", "-inf", "NaN", "1e300", "3601", "0.5", "-1", "x", ""] {
        assert!(read(&format!("--sockets --seconds {seconds}")).is_err(), "{seconds}");
    }
    for (text, seconds) in [("1", 1.0), ("2.5", 2.5), ("3600", 3600.0)] {
        assert_eq!(read(&format!("--seconds {text} --sockets")).unwrap().seconds, Some(seconds));
    }
    assert!(read("--seconds 5").unwrap_err().contains("--sockets"));
}

#[test]
fn no_seed_is_too_large_to_go_on_from() {
    for seed in ["18446744073709551615", "18446744073709551616", "4294967296", "-1", "x"] {
        assert!(read(&format!("--seed {seed}")).is_err(), "{seed}");
    }
    let args = read("--seed 4294967295 --full").unwrap();
    assert_eq!(args.seeds(Strategy::Admission).count(), 5);
}

#[test]
fn help_is_no_error() {
    for line in ["--help", "-h", "--json -h", "--help --seed"] {
        assert!(read(line).unwrap().help, "{line}");
    }
    assert!(!read("--quick").unwrap().help);
    assert!(read("--halp").is_err());
}
