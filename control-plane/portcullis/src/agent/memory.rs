//! How much memory this program and Envoy may use together, by their cgroup.

use std::path::{Path, PathBuf};

/// Larger values are how version 1 says that there is no limit.
const UNLIMITED: u64 = 1 << 60;

/// Envoy's part of the limit: the rest is for this program, Envoy's code and stacks, and the kernel's buffers of sockets.
pub(super) fn heap_limit() -> Option<u64> {
    limit(|path| std::fs::read_to_string(path).ok()).map(|bytes| bytes / 10 * 9)
}

/// The smallest limit of the process's own group and of those around it, bytes; nothing without any.
fn limit(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let files = groups.lines().filter_map(file_of).flat_map(|(root, file, group)| {
        // Within a container its own group may stand at the root, whatever the path says.
        let around: Vec<PathBuf> = Path::new(group.trim_start_matches('/')).ancestors().map(Path::to_owned).collect();
        around.into_iter().map(move |group| Path::new(root).join(group).join(file))
    });
    files.filter_map(|path| read(&path)?.trim().parse().ok()).filter(|bytes| *bytes < UNLIMITED).min()
}

/// The file with the memory limit of a line of /proc/self/cgroup: root, file and group.
fn file_of(line: &str) -> Option<(&'static str, &'static str, &str)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
    if controllers.is_empty() {
        return Some(("/sys/fs/cgroup", "memory.max", group));
    }
    let is_memory = controllers.split(',').any(|controller| controller == "memory");
    is_memory.then_some(("/sys/fs/cgroup/memory", "memory.limit_in_bytes", group))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_with(files: Files<'_>) -> Option<u64> {
        limit(|path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned()))
    }

    type Files<'a> = &'a [(&'a str, &'a str)];

    #[test]
    fn smallest_limit_of_all_groups_around_counts() {
        let cgroup = |text| ("/proc/self/cgroup", text);
        let cases: &[(&str, Files<'_>, Option<u64>)] = &[
            ("nothing to read", &[], None),
            ("version 2", &[cgroup("0::/a/b\n"), ("/sys/fs/cgroup/a/b/memory.max", "1000\n")], Some(1000)),
            (
                "a group around",
                &[
                    cgroup("0::/a/b\n"),
                    ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
                    ("/sys/fs/cgroup/a/memory.max", "500\n"),
                ],
                Some(500),
            ),
            ("no limit", &[cgroup("0::/a\n"), ("/sys/fs/cgroup/a/memory.max", "max\n")], None),
            ("in a container", &[cgroup("0::/\n"), ("/sys/fs/cgroup/memory.max", "700\n")], Some(700)),
            (
                "version 1",
                &[
                    cgroup("5:cpu,memory:/pod/one\n0::/\n"),
                    ("/sys/fs/cgroup/memory/pod/one/memory.limit_in_bytes", "900\n"),
                    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ],
                Some(900),
            ),
            (
                "version 1 without a limit",
                &[cgroup("5:memory:/\n"), ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")],
                None,
            ),
            (
                "version 1, seen from within",
                &[cgroup("5:memory:/docker/x\n"), ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "800\n")],
                Some(800),
            ),
        ];
        for (case, files, expected) in cases {
            assert_eq!(limit_with(files), *expected, "{case}");
        }
    }
}
