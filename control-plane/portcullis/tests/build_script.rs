//! The commit that the build script finds, in source trees with and without git.

#![cfg(test)]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The build script as a program of its own: it needs no other crate.
fn compiled(dir: &Path) -> PathBuf {
    let program = dir.join("build-script");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let status = Command::new(rustc).args(["--edition", "2024", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(status.success());
    program
}

/// A source tree, and its package in it.
fn tree(root: &Path) -> PathBuf {
    let package = root.join("control-plane/portcullis");
    fs::create_dir_all(&package).unwrap();
    package
}

/// The commit that the package would be built with.
fn commit(script: &Path, package: &Path, told: Option<&str>, path: &OsStr) -> String {
    let mut command = Command::new(script);
    command.current_dir(package).env_clear().env("PATH", path).env("CARGO_MANIFEST_DIR", package);
    command.envs(told.map(|told| ("PORTCULLIS_COMMIT", told)));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let set: Vec<_> =
        lines.lines().filter_map(|line| line.strip_prefix("cargo:rustc-env=PORTCULLIS_COMMIT=")).collect();
    assert_eq!(set.len(), 1, "{lines}");
    set.concat()
}

/// A repository with one commit; gives the commit.
fn repository(root: &Path, path: &OsStr) -> String {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(root).env_clear().env("PATH", path).env("HOME", root).args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--quiet"]);
    git(&["-c", "user.name=test", "-c", "user.email=test@test", "commit", "--quiet", "--allow-empty", "-m", "first"]);
    git(&["rev-parse", "--short=12", "HEAD"])
}

#[test]
fn commit_is_unknown_where_neither_git_nor_the_builder_says_it() {
    let dir = tempfile::tempdir().unwrap();
    let (script, path) = (compiled(dir.path()), std::env::var_os("PATH").unwrap());
    let archive = tree(&dir.path().join("archive"));
    let no_programs = OsStr::new("/nonexistent");
    for path in [no_programs, &path] {
        assert_eq!(commit(&script, &archive, None, path), "unknown", "an unpacked archive");
        assert_eq!(commit(&script, &archive, Some("1.2.3-rc.1"), path), "1.2.3-rc.1");
        for wrong in ["", "a b", "x\nargo:rustc-env=A=B"] {
            assert_eq!(commit(&script, &archive, Some(wrong), path), "unknown", "{wrong:?}");
        }
    }
}

#[test]
fn commit_is_that_of_the_source_trees_own_repository() {
    let path = std::env::var_os("PATH").unwrap();
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("left out: there is no git");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = compiled(dir.path());
    let own = tree(&dir.path().join("own"));
    let first = repository(&dir.path().join("own"), &path);
    assert_eq!(commit(&script, &own, None, &path), first);
    assert_eq!(commit(&script, &own, Some("told"), &path), "told");
    assert_eq!(commit(&script, &own, None, OsStr::new("/nonexistent")), "unknown", "git is not installed");
    let inside = tree(&dir.path().join("own/vendor/portcullis"));
    assert_eq!(commit(&script, &inside, None, &path), "unknown", "an archive inside of another repository");
}
