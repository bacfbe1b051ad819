//! Files of one idea: a longer one has two.

use std::fs;

use portcullis_harness::project_root;

use crate::texts::files;

const MAX_LINES: usize = 400;

#[test]
fn files_have_400_lines_at_most() {
    let (mut count, mut long) = (0, Vec::new());
    for path in ["control-plane", "filters", "fuzz", "testenv"].into_iter().flat_map(|folder| files(folder, &[".rs"])) {
        let name = path.strip_prefix(project_root()).unwrap().to_str().unwrap().to_owned();
        if name.contains("/target/") {
            continue;
        }
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        count += 1;
        if lines > MAX_LINES {
            long.push(format!("{name}: {lines} lines"));
        }
    }
    assert!(count > 700, "{count}");
    assert!(long.is_empty(), "{}", long.join("\n"));
}
