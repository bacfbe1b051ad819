//! Reference pages that are written from the code and checked by its tests.

#![allow(clippy::panic, reason = "a helper of tests fails by a panic")]

use std::fs;
use std::path::Path;

/// Asserts that a page below `docs/reference` is `text`. With `UPDATE_DOCS=1` in the environment the page is written first.
///
/// # Panics
/// The page differs, or cannot be written.
pub fn assert_generated(page: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page);
    if std::env::var_os("UPDATE_DOCS").is_some()
        && let Err(error) = fs::write(&path, text)
    {
        panic!("{}: {error}", path.display());
    }
    let current = fs::read_to_string(&path).unwrap_or_default();
    assert!(current == text, "docs/reference/{page} is not up to date; run this test with UPDATE_DOCS=1");
}
