//! A line for each step, on standard error: standard output is for objects and checks.

use std::io::Write;

/// Prints a step.
pub(crate) fn say(text: &str) {
    // A closed standard error has no reader.
    let _ = std::io::stderr().write_all(format!("{}\n", crate::display_text::one_line(text)).as_bytes());
}

/// Prints what became of an object.
pub(crate) fn say_outcome(what: &str, changed: bool, dry_run: bool) {
    let outcome = match (changed, dry_run) {
        (false, _) => "unchanged",
        (true, true) => "would be done",
        (true, false) => "done",
    };
    say(&format!("{what}: {outcome}"));
}
