//! A newcomer who has nothing but the README: its blocks are copied into a fresh crate outside of the repository, which is
//! built and run against servers on loopback.
//!
//! Slow, since it builds everything once more, so the plain run leaves it out:
//! `cargo test --test newcomer -- --ignored`. It needs no network, only what `cargo fetch` has fetched.
#![cfg(test)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const README: &str = include_str!("../README.md");
const SERVICE: &str = include_str!("newcomer/service.rs");
const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

/// The README's blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    README.split(&fence).skip(1).filter_map(|rest| rest.split_once("```")).map(|(block, _)| block).collect()
}

/// The one block with this text in it.
fn block(text: &str) -> &'static str {
    let found: Vec<_> = blocks("rust").into_iter().filter(|block| block.contains(text)).collect();
    assert_eq!(found.len(), 1, "README.md must have exactly one block with `{text}`");
    found[0]
}

/// The README's dependencies, with this checkout in place of the release. The servers here speak no TLS.
fn manifest() -> String {
    let install = blocks("toml").into_iter().find(|block| block.contains("[dependencies]")).unwrap();
    let line = |line: &str| match line.split(" = ").next() {
        Some("reqwest-admission") => format!("reqwest-admission = {{ path = {REPOSITORY:?} }}"),
        Some("reqwest") => "reqwest = { version = \"0.13\", default-features = false }".to_owned(),
        _ => line.to_owned(),
    };
    let dependencies: Vec<_> = install.lines().map(line).collect();
    format!(
        "[package]\nname = \"newcomer\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n{}\n\n[workspace]\n",
        dependencies.join("\n")
    )
}

/// A folder outside of the repository, which is removed again.
struct Fresh(PathBuf);

impl Fresh {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("newcomer-{}", std::process::id()));
        assert!(!folder.starts_with(REPOSITORY), "{} is inside of the repository", folder.display());
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::create_dir_all(folder.join("tests")).unwrap();
        Self(folder)
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.0.join(path), text).unwrap();
    }

    fn cargo(&self, command: &str) -> String {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("newcomer");
        let output = Command::new(env!("CARGO"))
            .args([command, "--offline", "--quiet"])
            .current_dir(&self.0)
            .env("CARGO_TARGET_DIR", target)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .output()
            .expect("cargo cannot be started");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(
            output.status.success(),
            "the newcomer's `cargo {command}` failed.\nIf a crate is missing, run `cargo fetch` in the repository once: this \
             test uses no network.\n{stdout}\n{stderr}"
        );
        stdout
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
#[ignore = "builds a crate with all its dependencies; .ci/run runs it"]
fn the_readme_is_enough_for_a_service() {
    let fresh = Fresh::new();
    fresh.write("Cargo.toml", &manifest());
    fs::copy(Path::new(REPOSITORY).join("Cargo.lock"), fresh.0.join("Cargo.lock")).unwrap();
    fresh.write("src/main.rs", SERVICE);
    fresh.write("src/client.rs", block("pub fn client("));
    fresh.write("src/handler.rs", block("pub async fn items("));
    fresh.write("src/models.rs", block("pub async fn complete("));
    fresh.write("tests/readme.rs", block("#[tokio::test]"));

    let seen = fresh.cargo("run");
    for line in [
        "429 then 200: waited and served",
        "spilled over to the standby, with its own token",
        "over budget: ",
        "503 with Retry-After to the service's own caller",
        "parked, and resumed with a fresh token",
    ] {
        assert!(seen.contains(line), "{line} is missing in\n{seen}");
    }
    assert!(fresh.cargo("test").contains("1 passed"));
}

#[test]
fn the_readme_is_short_and_has_every_block_once() {
    assert!(README.lines().count() <= 150, "{} lines", README.lines().count());
    assert_eq!(blocks("rust").len(), 4);
    let _ = ["pub fn client(", "pub async fn items(", "pub async fn complete(", "#[tokio::test]"].map(block);
    let first = README.lines().skip(1).find(|line| !line.is_empty()).unwrap();
    assert!(first.to_lowercase().contains("rate limit"), "{first}");
}

/// The registry's page and a checkout show the same: what is relative is a file of the repository.
#[test]
fn what_the_readme_points_at_is_there() {
    let links = README.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
    let images = README.split("src=\"").skip(1).filter_map(|rest| rest.split_once('"')).map(|(link, _)| link);
    let mut count = 0;
    for link in links.chain(images) {
        count += 1;
        let is_there = link.starts_with("https://") || Path::new(REPOSITORY).join(link).exists();
        assert!(is_there, "{link}");
    }
    assert!(count > 6, "{count}");
}
