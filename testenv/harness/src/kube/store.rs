//! The store of a Kubernetes that has begun: roles, namespaces and flow schemas, which a kube-apiserver writes at its first
//! start. They are written once for each build of Kubernetes, and each further store begins as a copy: a third of the processor
//! time of a start.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{KubeOptions, RealKube, etcd};
use crate::deps::KubeBinaries;
use crate::error::{Error, Result};
use crate::rundir::RunDir;

/// The name beside the executables. Another content needs another name.
const NAME: &str = "store-1";

/// Keys that belong to the kube-apiservers that wrote them: their own leases, and the authorities that they trust.
const THEIR_OWN: [&str; 2] = ["/registry/leases/", "/registry/configmaps/"];

/// A store to copy, filled now if there is none. `None` while another process fills it.
pub(super) fn filled(binaries: &KubeBinaries) -> Result<Option<PathBuf>> {
    let home = binaries.etcd.canonicalize().map_err(Error::file("finding", &binaries.etcd))?;
    let home = home.parent().unwrap_or(Path::new("."));
    let (kept, lock) = (home.join(NAME), home.join("store.lock"));
    let held = File::create(&lock).map_err(Error::file("making", &lock))?;
    if !kept.is_dir() && held.try_lock().is_ok() && !kept.is_dir() {
        fill(binaries, home, &kept)?;
    }
    Ok(kept.is_dir().then_some(kept))
}

fn fill(binaries: &KubeBinaries, home: &Path, kept: &Path) -> Result<()> {
    let run = RunDir::new("store")?;
    let dir = run.make_dir("kube")?;
    drop(RealKube::begin(binaries.clone(), dir.clone(), "store", &KubeOptions::default())?);
    let (process, address) = etcd::start(&binaries.etcd, &dir, None)?;
    for prefix in THEIR_OWN {
        process.wait_ready("etcd", Duration::from_secs(30), || etcd::delete(address, prefix))?;
    }
    process.stop();
    // A rename, so that there is a whole store or none.
    let partial = tempfile::Builder::new().prefix("store.partial.").tempdir_in(home);
    let partial = partial.map_err(Error::file("making a directory in", home))?;
    copy(&etcd::data(&dir), partial.path())?;
    fs::rename(partial.keep(), kept).map_err(Error::file("making", kept))
}

/// Copies a store that no etcd uses. Files that etcd has made longer than they need to be stay so, but without the zeros on disk.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(Error::file("making", to))?;
    for entry in fs::read_dir(from).map_err(Error::file("listing", from))? {
        let source = entry.map_err(Error::file("listing", from))?.path();
        let Some(name) = source.file_name() else { continue };
        let target = to.join(name);
        if source.is_dir() {
            copy(&source, &target)?;
        } else if source.extension().is_none_or(|extension| extension != "tmp") {
            copy_file(&source, &target)?;
        }
    }
    Ok(())
}

fn copy_file(source: &Path, target: &Path) -> Result<()> {
    let content = fs::read(source).map_err(Error::file("reading", source))?;
    let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    fs::write(target, content.get(..end).unwrap_or_default()).map_err(Error::file("writing", target))?;
    let file = File::options().write(true).open(target).map_err(Error::file("opening", target))?;
    file.set_len(content.len() as u64).map_err(Error::file("writing", target))
}
