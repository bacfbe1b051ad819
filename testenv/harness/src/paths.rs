//! Paths in the project.

use std::path::{Path, PathBuf};

/// The project's root directory: `PORTCULLIS_ROOT` if set, else found from this crate's directory.
pub fn project_root() -> PathBuf {
    if let Some(root) = std::env::var_os("PORTCULLIS_ROOT") {
        return PathBuf::from(root);
    }
    // At run time cargo sets the crate under test; it has the same root. Compiled-in as the last resort.
    let run_time = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    run_time
        .as_deref()
        .and_then(find_root)
        .or_else(|| find_root(Path::new(env!("CARGO_MANIFEST_DIR"))))
        .unwrap_or_else(|| PathBuf::from("."))
}

fn find_root(start: &Path) -> Option<PathBuf> {
    start.ancestors().find(|dir| dir.join("testenv/scripts/versions.env").is_file()).map(Path::to_owned)
}

/// The directory that cargo builds into, found from the running executable (`<target>/<profile>/deps/<test>` or
/// `<target>/<profile>/<binary>`).
pub(crate) fn profile_dir() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    let dir = exe.parent()?;
    if dir.ends_with("deps") { dir.parent().map(Path::to_owned) } else { Some(dir.to_owned()) }
}
