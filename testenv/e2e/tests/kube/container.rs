//! A container without a container runtime: a command in a mount namespace of its own.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use portcullis_harness::process::{Process, Spec};
use portcullis_harness::{deps, project_root};

/// The program of a container, and its environment.
#[derive(Clone, Default)]
pub(crate) struct Container {
    pub(crate) name: String,
    /// The command with its arguments.
    pub(crate) command: Vec<String>,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// `SOURCE:TARGET` of what can be read only, and of what can be written.
    pub(crate) files: Vec<String>,
    pub(crate) shared: Vec<String>,
    /// Volumes that begin empty.
    pub(crate) empty: Vec<String>,
}

/// Whether this machine lets us make mount namespaces; if not, that is said loudly, for it cannot be installed.
pub(crate) fn possible(test: &str) -> bool {
    let made = Command::new("unshare").args(unshare()).args(["mount", "--make-rprivate", "/"]).output();
    let is_possible = made.as_ref().is_ok_and(|output| output.status.success());
    if !is_possible {
        eprintln!("*** SKIPPED {test}: this machine allows no mount namespaces: {made:?} ***");
    }
    is_possible
}

/// Whether containers can have users of their own.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

fn unshare() -> &'static [&'static str] {
    if is_root() { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] }
}

impl Container {
    /// Starts it, with its log and its root below `home`.
    pub(crate) fn start(&self, home: &Path) -> Process {
        Process::start(self.spec(home)).unwrap()
    }

    pub(crate) fn spec(&self, home: &Path) -> Spec {
        let root = home.join("root");
        fs::create_dir_all(&root).unwrap();
        let id = |id: u32| if is_root() { id } else { 0 };
        Spec::new(&self.name, "env", home)
            .args(["-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"])
            .args(self.variables.iter().map(|(name, value)| format!("{name}={value}")))
            .arg(format!("CONTAINER_ROOT={}", root.display()))
            .arg(format!("CONTAINER_USER={}", id(self.user)))
            .arg(format!("CONTAINER_GROUP={}", id(self.group)))
            .arg(format!("CONTAINER_FILES={}", self.files.join(" ")))
            .arg(format!("CONTAINER_SHARED={}", self.shared.join(" ")))
            .arg(format!("CONTAINER_EMPTY={}", self.empty.join(" ")))
            .arg("unshare")
            .args(unshare())
            .arg("sh")
            .arg(project_root().join("testenv/e2e/tests/kube/run-container.sh"))
            .args(&self.command)
    }
}

/// The files that the Dockerfile copies into the images `control-plane` and `gateway`, as `SOURCE:TARGET`.
pub(crate) fn image() -> Vec<String> {
    let module = deps::module_dir().unwrap().join("libportcullis.so");
    let files = [
        (deps::portcullis().unwrap(), "bin/portcullis"),
        (deps::envoy().unwrap(), "bin/envoy"),
        (module, "lib/portcullis/libportcullis.so"),
    ];
    files.map(|(source, target)| format!("{}:/usr/local/{target}", source.canonicalize().unwrap().display())).to_vec()
}

/// A line of the kernel's account of a process.
pub(crate) fn account(pid: u32, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}
