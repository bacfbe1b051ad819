//! The UpstreamCluster and what it refers to, in files.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use portcullis_api::SecretBytes;

use super::error::OnboardError;
use super::object::{Material, Pair, Plan, ReferenceForm};
use super::progress::say_outcome;
use crate::arguments::ManifestOutput;

/// The root of references below the directory.
pub(crate) const REFERENCES: &str = "references";

/// The content of a file of the command line.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, OnboardError> {
    std::fs::read(path).map_err(|error| OnboardError::Read(path.to_owned(), error))
}

/// The manifest of an UpstreamCluster.
pub(crate) fn manifest(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.yaml"))
}

/// The directory of what an UpstreamCluster refers to.
pub(crate) fn references(dir: &Path, name: &str) -> PathBuf {
    dir.join(REFERENCES).join(name)
}

/// A certificate and its key that an earlier run has written: `client` or `serving`.
pub(super) fn pair(dir: &Path, name: &str, usage: &str) -> Option<Pair> {
    let read = |file: &str| fs::read(references(dir, name).join(file)).ok().filter(|bytes| !bytes.is_empty());
    let (certificate, key) = read(&format!("{usage}.crt")).zip(read(&format!("{usage}.key")))?;
    Some((certificate, SecretBytes::new(key)))
}

/// The manifest's content. One that is there with another content is only replaced if it is asked for.
pub(super) fn manifest_text(dir: &Path, plan: &Plan, parts: &[Material], force: bool) -> Result<String, OnboardError> {
    let path = manifest(dir, &plan.name);
    let text = ManifestOutput::Yaml.text(&plan.document(parts, ReferenceForm::Files, true))?;
    let before = fs::read_to_string(&path).ok();
    if before.as_ref().is_some_and(|before| *before != text) && !force {
        return Err(OnboardError::Edited(path));
    }
    Ok(text)
}

/// Writes the files.
pub(super) fn write(dir: &Path, plan: &Plan, parts: &[Material], force: bool) -> Result<(), OnboardError> {
    let text = manifest_text(dir, plan, parts, force)?;
    for (file, entry) in parts.iter().flat_map(|part| part.files(&plan.name)) {
        put(&dir.join(REFERENCES).join(file), entry.bytes.expose(), 0o600)?;
    }
    put(&manifest(dir, &plan.name), text.as_bytes(), 0o644)
}

/// Writes a file with a mode, by renaming a finished one into its place.
fn put(path: &Path, content: &[u8], mode: u32) -> Result<(), OnboardError> {
    let is_new = fs::read(path).ok().as_deref() != Some(content);
    let written = match is_new {
        true => replace(path, content, mode).map(|()| true),
        // An edit of the mode of what is no key is the operator's.
        false if is_of_keys(path) => tighten(path, mode),
        false => Ok(false),
    };
    let directory = path.parent().filter(|_| is_of_keys(path)).map_or(Ok(false), |parent| tighten(parent, 0o700));
    let changed = written.and_then(|written| Ok(directory? || written));
    let changed = changed.map_err(|error| OnboardError::Write(path.to_owned(), error))?;
    say_outcome(&path.display().to_string(), changed, false);
    Ok(())
}

/// Whether a file is below the root of references.
fn is_of_keys(path: &Path) -> bool {
    path.parent().and_then(Path::parent).and_then(Path::file_name).is_some_and(|name| name == REFERENCES)
}

/// Takes the rights of others away; whether there were any.
fn tighten(path: &Path, mode: u32) -> io::Result<bool> {
    let is_open = fs::metadata(path)?.permissions().mode() & 0o777 & !mode != 0;
    if is_open {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    Ok(is_open)
}

fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    // Directories with keys are for this user alone.
    fs::DirBuilder::new().recursive(true).mode(if is_of_keys(path) { 0o700 } else { 0o755 }).create(parent)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let hidden = parent.join(format!(".{name}.partial"));
    // An interrupted run may have left it with another mode.
    if let Err(error) = fs::remove_file(&hidden)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&hidden)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&hidden, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_with_keys_are_private_and_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(REFERENCES).join("a.test").join("client.key");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        put(&path, b"one", 0o600).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        put(&path, b"two", 0o600).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"two".to_vec(), 0o600));
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        // Files of an earlier run may be open to others.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        put(&path, b"two", 0o600).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }
}
