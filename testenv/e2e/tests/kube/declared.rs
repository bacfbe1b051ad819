//! Files for other programs, checked by the parsers of these programs (testenv/declared).

use std::path::Path;
use std::process::Command;

use portcullis_harness::deps;

/// The problems of a file, a line each; `None`, with a warning, where the parsers are not built.
pub(crate) fn parsed(kind: &str, path: &Path) -> Option<Vec<String>> {
    let program = deps::or_skip(kind, deps::declared()).unwrap()?;
    let output = Command::new(program).arg(kind).arg(path).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let found: Vec<String> = told.lines().map(str::to_owned).collect();
    assert_eq!(output.status.code(), Some(i32::from(!found.is_empty())), "{told}{:?}", output.stderr);
    Some(found)
}

/// A file with a change that its parser must notice.
pub(crate) fn is_noticed(kind: &str, text: &str, from: &str, to: &str) {
    let file = tempfile(kind, &text.replace(from, to));
    assert!(text.contains(from) && !parsed(kind, &file.join("file.yml")).unwrap().is_empty(), "{from} as {to}");
}

fn tempfile(kind: &str, text: &str) -> portcullis_harness::rundir::RunDir {
    let run = portcullis_harness::rundir::RunDir::new(kind).unwrap();
    run.write("file.yml", text).unwrap();
    run
}
