//! Reading the logs of processes for error messages.

use std::path::Path;

const TAIL_LINES: usize = 30;

pub(super) fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

pub(super) fn tail(name: &str, path: &Path) -> String {
    let text = read(path);
    let lines: Vec<&str> = text.lines().rev().take(TAIL_LINES).collect();
    let last: Vec<&str> = lines.into_iter().rev().collect();
    format!("\n--- last lines of {name} ({}):\n{}", path.display(), last.join("\n"))
}
