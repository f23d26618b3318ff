//! The example `explain` as a program of the package: `cargo install reqwest-admission --features explain`.

#[path = "../explain.rs"]
mod explain;

fn main() -> std::process::ExitCode {
    explain::main()
}
