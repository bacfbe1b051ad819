//! Room for Envoys that watch files: Linux gives each user 128 inotify instances, and an Envoy that gets none aborts.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::wait;

/// An Envoy whose secrets, routes and endpoints are all files takes 24.
const ROOM: usize = 48;

/// How long is waited at most: tests that wait for each other would wait for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until enough instances are free for one more Envoy, or for so long that Envoy itself may say what is missing.
pub(crate) fn wait_for_room() {
    let Some(limit) = limit().filter(|limit| *limit < 1_024) else { return };
    let _ = wait::until("inotify instances", PATIENCE, || (used().saturating_add(ROOM) <= limit).then_some(()));
}

fn limit() -> Option<usize> {
    fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").ok()?.trim().parse().ok()
}

/// Instances of all processes of this user. Those that end meanwhile do not count.
fn used() -> usize {
    let user = rustix::process::getuid().as_raw();
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let own = processes.flatten().filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == user));
    own.map(|entry| used_by(&entry.path())).sum()
}

fn used_by(process: &Path) -> usize {
    let Ok(files) = fs::read_dir(process.join("fd")) else { return 0 };
    let targets = files.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter(|target| target.as_os_str() == "anon_inode:inotify").count()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::used_by;

    #[test]
    fn instances_of_a_process_are_counted() {
        let own = Path::new("/proc/self");
        let before = used_by(own);
        let instance = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).unwrap();
        assert_eq!(used_by(own), before + 1);
        drop(instance);
        assert_eq!(used_by(own), before);
    }
}
