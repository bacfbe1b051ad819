//! Names the commit for `portcullis --version`: PORTCULLIS_COMMIT, else the commit of this source tree according to git, else
//! `unknown`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PORTCULLIS_COMMIT");
    let is_repository = is_repository();
    if is_repository
        && let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo:rerun-if-changed={log}");
    }
    let given = std::env::var("PORTCULLIS_COMMIT").ok().filter(|commit| is_word(commit));
    let of_git = || git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| is_repository);
    // Always set: without it the compiler would read the variable of its own environment, whatever its value.
    let commit = given.or_else(of_git).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=PORTCULLIS_COMMIT={commit}");
}

/// Whether the workspace is the root of a repository. An unpacked archive may lie inside another project's repository, whose
/// commit says nothing about it.
fn is_repository() -> bool {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let root = Path::new(&package).join("../..").canonicalize().ok();
    let of_git = git(&["rev-parse", "--show-toplevel"]).and_then(|path| Path::new(&path).canonicalize().ok());
    root.is_some() && root == of_git
}

/// The output of git; none without git, and outside of a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let answer = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!answer.is_empty()).then_some(answer)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}
