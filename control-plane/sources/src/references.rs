use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use portcullis_api::{ReferencedData, SecretBytes, referenced_files, resolve_settings};

use crate::files::FileChanges;
use crate::object_set::ObjectSet;

/// Most bytes of a file that is referred to, as of a Secret.
const MAX_REFERENCED: u64 = 1024 * 1024;

/// The directory below which files may be referred to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// The root at `directory`. Links are resolved at every reading, because volumes swap links.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether a path leads to something at or below it, or that is not known.
    pub(crate) fn may_hold(&self, path: &Path) -> bool {
        match (self.0.canonicalize(), path.canonicalize()) {
            (Ok(root), Ok(path)) => path.starts_with(root),
            _ => true,
        }
    }

    /// The content of a file; `None` for any file that cannot be read, so that the reason is not revealed. Links are followed
    /// as long as the file itself is below the root.
    fn read(&self, path: &str) -> Option<SecretBytes> {
        let root = self.0.canonicalize().ok()?;
        let found = root.join(path).canonicalize().ok()?;
        if !found.starts_with(&root) || !found.metadata().ok()?.is_file() {
            return None;
        }
        let file = File::open(&found).ok()?;
        // The path may have been swapped since: what counts is the file that was opened.
        if !is_at(&file, &found)? {
            return None;
        }
        read_bounded(file).ok().map(SecretBytes::new)
    }
}

fn is_at(file: &File, path: &Path) -> Option<bool> {
    use std::os::fd::AsRawFd;
    let opened = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    Some(opened == path && file.metadata().ok()?.is_file())
}

fn read_bounded(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_REFERENCED + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).map_or(true, |length| length > MAX_REFERENCED) {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(bytes)
}

/// Reads every file to which documents of a set refer, and puts them into it. Blocks.
pub fn read_references(set: &mut ObjectSet, root: &Root) {
    let shared = set.clusters.iter().chain(&set.instance_settings).map(AsRef::as_ref);
    let documents = shared.chain(&set.settings);
    let paths: BTreeSet<String> = documents.flat_map(referenced_files).collect();
    set.referenced_data = ReferencedData::files(paths.into_iter().map(|path| {
        let content = root.read(&path);
        (path, content)
    }));
    put_in_settings(set);
}

/// Settings have what they refer to put in at once: they come from files, whatever the source of all else.
pub(crate) fn put_in_settings(set: &mut ObjectSet) {
    let of_instances = set.instance_settings.iter_mut().map(Arc::make_mut);
    set.settings.iter_mut().chain(of_instances).for_each(|document| resolve_settings(document, &set.referenced_data));
}

/// The files to which documents refer, as they were read last.
#[derive(Debug, Default)]
pub(crate) struct ReferencesRead {
    /// The number of references to each.
    counts: BTreeMap<String, usize>,
    files: Arc<BTreeMap<String, Option<SecretBytes>>>,
}

impl ReferencesRead {
    /// Takes what changed documents refer to, and referred to before. These files are read again, or all of them. Returns whether any
    /// is another one.
    pub(crate) fn reread(&mut self, changes: &FileChanges, root: &Root, is_all: bool) -> bool {
        for path in changes.referenced_now() {
            let count = self.counts.entry(path.clone()).or_default();
            *count = count.saturating_add(1);
        }
        for path in changes.referenced_before() {
            if let Some(count) = self.counts.get_mut(path) {
                *count = count.saturating_sub(1);
            }
        }
        let gone = self.counts.extract_if(.., |_, count| *count == 0);
        let gone: Vec<String> = gone.map(|(path, _)| path).collect();
        let mut is_other = false;
        for path in &gone {
            is_other |= Arc::make_mut(&mut self.files).remove(path).is_some();
        }
        let named: BTreeSet<&String> =
            if is_all { self.counts.keys().collect() } else { changes.referenced_now().collect() };
        for path in named {
            let content = root.read(path);
            if self.files.get(path) != Some(&content) {
                Arc::make_mut(&mut self.files).insert(path.clone(), content);
                is_other = true;
            }
        }
        is_other
    }

    /// The material for the documents' references.
    pub(crate) fn data(&self) -> ReferencedData {
        ReferencedData::Files(Arc::clone(&self.files))
    }

    /// The paths of the files after one of them, in their order; all for an empty one.
    pub(crate) fn paths_after<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a String> {
        let range = (Bound::Excluded(path), Bound::Unbounded);
        self.counts.range::<str, _>(range).map(|(path, _)| path)
    }

    /// Whether a file is the one that was read.
    pub(crate) fn is_current(&self, path: &str, root: &Root) -> bool {
        self.files.get(path) == Some(&root.read(path))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_read_only_below_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("below");
        fs::create_dir_all(root.join("..one")).unwrap();
        fs::create_dir_all(root.join("dir")).unwrap();
        fs::create_dir_all(dir.path().join("below-beside")).unwrap();
        let write = |path: &str, text: &str| fs::write(dir.path().join(path), text).unwrap();
        write("secret", "TOPSECRET");
        write("below-beside/secret", "TOPSECRET");
        write("below/..one/token", "good");
        write("below/plain", "good");
        fs::write(root.join("large"), vec![b'x'; 1024 * 1024 + 1]).unwrap();
        // As a volume of Kubernetes is laid out.
        symlink("..one", root.join("..data")).unwrap();
        symlink("..data/token", root.join("token")).unwrap();
        symlink(dir.path().join("secret"), root.join("absolute")).unwrap();
        symlink("../secret", root.join("relative")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink(&root, dir.path().join("link")).unwrap();
        for root in [root.clone(), dir.path().join("link")] {
            let read = |path: &str| Root::new(&root).read(path).map(|bytes| bytes.expose().to_vec());
            for good in ["plain", "token", "..data/token", "up/below/plain"] {
                assert_eq!(read(good).as_deref(), Some(&b"good"[..]), "{good}");
            }
            for bad in [
                "absolute",
                "relative",
                "up/secret",
                "../secret",
                "../below-beside/secret",
                "loop",
                "dir",
                "large",
                "no",
            ] {
                assert_eq!(read(bad), None, "{bad}");
            }
            assert_eq!(read(dir.path().join("secret").to_str().unwrap()), None);
        }
        assert_eq!(Root::new("/nowhere/at/all").read("plain"), None);
    }
}
