use std::fs::{self, FileType};
use std::io;
use std::path::Path;

/// A name in a directory that a file may have that configures.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListedFile {
    pub(crate) name: String,
    /// Whether there is a file.
    pub(crate) is_file: bool,
    /// Whether it is a link, which may lead to another file without a change in the directory.
    pub(crate) is_link: bool,
}

/// Whether files of a name configure. Names that start with a dot are a volume's own (`..data`) or an editor's.
pub(crate) fn configures(name: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end)) && !name.starts_with('.')
}

/// The names of files that configure, sorted.
pub(crate) fn list(directory: &Path) -> io::Result<Vec<String>> {
    Ok(list_files(directory)?.into_iter().filter(|file| file.is_file).map(|file| file.name).collect())
}

/// Whatever has the name of a file that configures, sorted.
pub(crate) fn list_files(directory: &Path) -> io::Result<Vec<ListedFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if configures(&name) {
            files.push(ListedFile::new(directory, name, entry.file_type().ok()));
        }
    }
    files.sort();
    Ok(files)
}

/// The file of a name, if there is one.
pub(crate) fn find_file(directory: &Path, name: &str) -> io::Result<ListedFile> {
    match fs::symlink_metadata(directory.join(name)) {
        Ok(found) => Ok(ListedFile::new(directory, name.to_owned(), Some(found.file_type()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ListedFile::absent(name)),
        Err(error) => Err(error),
    }
}

impl ListedFile {
    fn new(directory: &Path, name: String, kind: Option<FileType>) -> Self {
        let is_link = kind.is_none_or(|kind| kind.is_symlink());
        // Links are followed: a mounted volume holds nothing else.
        let leads_to_file = || fs::metadata(directory.join(&name)).map_or(true, |found| found.is_file());
        let is_file = if is_link { leads_to_file() } else { kind.is_some_and(|kind| kind.is_file()) };
        Self { name, is_file, is_link }
    }

    /// A name that nothing has.
    pub(crate) fn absent(name: &str) -> Self {
        Self { name: name.to_owned(), is_file: false, is_link: false }
    }

    /// A file that is expected to be there, whatever it is.
    pub(crate) fn expected(name: &str) -> Self {
        Self { name: name.to_owned(), is_file: true, is_link: true }
    }
}
