#!/usr/bin/env bash
# What this crate costs its user to build, beside reqwest-middleware with reqwest-retry: crates, and processor time of a
# clean debug build, both with `.json(..)` as the README installs it. ROUNDS=1 is quicker. Fails above 1.3 times the time or 8 crates more. Needs `cargo fetch` once, and no network after it.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A crate that uses nothing but $2.
user() {
    mkdir -p "$folder/$1/src"
    printf '[package]\nname = "user"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n[dependencies]\n%s\n' "$2" \
        >"$folder/$1/Cargo.toml"
    printf 'fn main() {}\n' >"$folder/$1/src/main.rs"
    cp "$repository/Cargo.lock" "$folder/$1/Cargo.lock"
}
common='reqwest = { version = "0.13", default-features = false }
reqwest-middleware = { version = "0.5", features = ["json"] }'
user ours "$common
reqwest-admission = { path = \"$repository\" }"
user theirs "$common
reqwest-retry = { version = \"0.9\", default-features = false }"

crates() {
    cargo tree --offline --quiet --manifest-path "$folder/$1/Cargo.toml" --edges normal,build --prefix none \
        --format '{p}' | sed 's/ (.*//' | grep -v '^user ' | sort -u
}
# User time of a clean build, the smallest of several, in seconds.
seconds() {
    for _ in $(seq "${ROUNDS:-3}"); do
        rm -rf "$folder/target"
        (TIMEFORMAT=%U; time CARGO_TARGET_DIR="$folder/target" cargo build --offline --quiet \
            --manifest-path "$folder/$1/Cargo.toml") 2>&1
    done | sort -n | head -n 1
}

more=$(comm -23 <(crates ours) <(crates theirs) | grep -v '^reqwest-admission ')
count=$(grep -c . <<<"$more")
printf 'crates beyond those of reqwest-middleware and reqwest-retry: %s (at most 8)\n%s\n' "$count" "$more"
[[ ${1:-} == --crates ]] && exit "$((count > 8))"
ours=$(seconds ours) theirs=$(seconds theirs)
awk -v ours="$ours" -v theirs="$theirs" -v count="$count" 'BEGIN {
    printf "a clean debug build: %.1f s of processor time, theirs %.1f s: %.2f times (at most 1.30)\n", ours, theirs, ours / theirs
    exit ours > 1.3 * theirs || count > 8
}'
