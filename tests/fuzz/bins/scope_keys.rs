#![no_main]

#[path = "../targets/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each binary has one of the targets")]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::scope_keys(input));
