//! Names the commit for `portcullis --version`: that of PORTCULLIS_COMMIT, else the one that git tells, else none.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PORTCULLIS_COMMIT");
    // A source tree without git is built, too.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && std::path::Path::new(&log).exists()
    {
        println!("cargo:rerun-if-changed={log}");
    }
    let told = std::env::var("PORTCULLIS_COMMIT").ok();
    if let Some(commit) = told.filter(|commit| is_word(commit)).or_else(|| git(&["rev-parse", "--short=12", "HEAD"])) {
        println!("cargo:rustc-env=PORTCULLIS_COMMIT={commit}");
    }
}

/// What git answers; none without git, and outside of a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let answer = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!answer.is_empty()).then_some(answer)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}
