//! `portcullis copy`: `cp` for init containers of images that have none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

/// Copy a file into a directory, for init containers: the images have no `cp`.
///
///   portcullis copy /usr/local/lib/portcullis/libportcullis.so /portcullis/
///
/// The copy has the permissions of the file, and its name appears when it is complete.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Copy {
    /// File to copy.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Directory that is there; a file of the same name in it is replaced.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// The step of the copy that failed. The operator has to act.
#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error("{0} has no file name")]
    Name(PathBuf),
    #[error("cannot copy {0} to {1}")]
    Copy(PathBuf, PathBuf, #[source] io::Error),
    #[error("cannot rename to {0}")]
    Rename(PathBuf, #[source] io::Error),
}

pub(crate) fn run(arguments: &Copy) -> ExitCode {
    match copy(&arguments.file, &arguments.directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::fail(&error),
    }
}

fn copy(file: &Path, directory: &Path) -> Result<(), CopyError> {
    let name = file.file_name().ok_or_else(|| CopyError::Name(file.to_owned()))?;
    let target = directory.join(name);
    let mut partial = name.to_owned();
    partial.push(".partial");
    let partial = directory.join(partial);
    fs::copy(file, &partial).map_err(|error| CopyError::Copy(file.to_owned(), partial.clone(), error))?;
    fs::rename(&partial, &target).map_err(|error| CopyError::Rename(target, error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn copy_replaces_a_file_and_keeps_its_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("module.so");
        let target = directory.path().join("target");
        fs::create_dir(&target).unwrap();
        fs::write(&source, "new").unwrap();
        fs::set_permissions(&source, fs::Permissions::from_mode(0o750)).unwrap();
        fs::write(target.join("module.so"), "old, and longer").unwrap();
        copy(&source, &target).unwrap();
        assert_eq!(fs::read_to_string(target.join("module.so")).unwrap(), "new");
        assert_eq!(fs::metadata(target.join("module.so")).unwrap().permissions().mode() & 0o777, 0o750);
        assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
        assert!(matches!(copy(Path::new("/"), &target), Err(CopyError::Name(_))));
        assert!(matches!(copy(&source, Path::new("/nowhere")), Err(CopyError::Copy(..))));
    }
}
