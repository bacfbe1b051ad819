use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::place::Way;

pub(super) fn files_are_the_same_on_both_sides(way: &Way<'_>) {
    let here = way.file("tree");
    fs::create_dir_all(here.join("sub")).unwrap();
    fs::write(here.join("noise"), noise(3 << 20)).unwrap();
    fs::write(here.join("empty"), "").unwrap();
    fs::write(here.join("sub/a name, with blanks"), "text\n").unwrap();
    let back = there_and_back(way, &here, Duration::from_secs(30));
    for file in ["noise", "empty", "sub/a name, with blanks"] {
        assert!(fs::read(here.join(file)).unwrap() == fs::read(back.join(file)).unwrap(), "{way}: {file}");
    }
}

/// Copies into the pod and out again; gives where to.
pub(super) fn there_and_back(way: &Way<'_>, here: &Path, timeout: Duration) -> PathBuf {
    let back = here.with_extension("back");
    let there = format!("{}:copied", way.pod);
    for (from, to) in [(here.to_str().unwrap(), &*there), (&*there, back.to_str().unwrap())] {
        let copied = way.kubectl(["cp", from, to]).timeout(timeout).run().unwrap();
        assert!(copied.success() && copied.stderr.is_empty(), "{way}: {copied:?}");
    }
    back
}

pub(super) fn noise(length: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::open("/dev/urandom").unwrap().take(length).read_to_end(&mut bytes).unwrap();
    bytes
}
