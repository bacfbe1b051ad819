use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use portcullis_e2e::documented_commands;
use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::process::{Process, Spec};
use portcullis_harness::{deps, ports, project_root, wait, write_private};
use serde_json::json;

use crate::fixture::BareKube;
use crate::sources::SOON;

/// The servers of the examples, which a reader replaces.
pub(super) const EXAMPLE_SERVERS: &str = "  - endpoint: https://10.0.0.10:6443\n  - endpoint: https://10.0.0.11:6443\n";
const STEP: Duration = Duration::from_secs(60);

/// A reader with an empty Kubernetes, its kubeconfig and an empty directory, who runs the commands of sections in order.
pub(super) struct Walkthrough {
    // Ended before the kube-apiserver.
    pub(super) running: Vec<Process>,
    commands: std::vec::IntoIter<String>,
    steps: u32,
    pages: [String; 2],
    pub(super) kube: BareKube,
}

impl Walkthrough {
    pub(super) fn start(test: &str) -> Option<Self> {
        let kube = BareKube::start(test, KubeOptions::default())?;
        for directory in ["home", "home/.kube", "bin", "here"] {
            kube.run.make_dir(directory).unwrap();
        }
        symlink(deps::kube().unwrap().kubectl, kube.run.join("bin/kubectl")).unwrap();
        symlink(deps::portcullis().unwrap(), kube.run.join("bin/portcullis")).unwrap();
        // The cluster that stores the objects is the one behind the gateway, too.
        let mut kubeconfig = kube.kube.kubeconfig().identity(kube.kube.admin()).to_json();
        let contexts = kubeconfig["contexts"].as_array_mut().unwrap();
        let mut prod = contexts[0].clone();
        prod["name"] = json!("prod");
        contexts.push(prod);
        write_private(&kube.run.join("home/.kube/config"), kubeconfig.to_string().as_bytes()).unwrap();
        let pages = [(); 2].map(|()| ports::free_address().unwrap().to_string());
        Some(Self { running: Vec::new(), commands: Vec::new().into_iter(), steps: 0, pages, kube })
    }

    /// A path in the directory in which the commands run.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.kube.run.join("here").join(name)
    }

    /// Opens a section, after the end of the one before. In its commands each text of the table is replaced by that of this machine,
    /// and has to be there.
    pub(super) fn open(&mut self, page: &str, heading: &str, replacements: &[(&str, &str)]) {
        self.end();
        let mut commands = documented_commands(page, heading).unwrap();
        for (written, here) in replacements {
            assert!(commands.iter().any(|command| command.contains(written)), "{page} does not write {written}");
            commands.iter_mut().for_each(|command| *command = command.replace(written, here));
        }
        self.commands = commands.into_iter();
    }

    /// The rest of the section, for a reader who follows a link first.
    pub(super) fn set_aside(&mut self) -> std::vec::IntoIter<String> {
        std::mem::replace(&mut self.commands, Vec::new().into_iter())
    }

    /// Goes on with a section, after the end of the one before.
    pub(super) fn take_up(&mut self, rest: std::vec::IntoIter<String>) {
        self.end();
        self.commands = rest;
    }

    /// Fails if the section has more commands.
    pub(super) fn end(&self) {
        assert!(self.commands.as_slice().is_empty(), "{:?} are not run", self.commands.as_slice());
    }

    /// Copies a file of the tree to here, with a reader's edits, each of which has to find its place.
    pub(super) fn copy(&self, from: &str, to: &str, edits: &[(&str, &str)]) {
        let mut text = std::fs::read_to_string(project_root().join(from)).unwrap();
        for (written, edited) in edits {
            assert!(text.contains(written), "{from} has no {written}");
            text = text.replace(written, edited);
        }
        let path = self.path(to);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Writes a certificate and its key.
    pub(super) fn pair(&self, name: &str, identity: &Identity) {
        identity.write_pem(&self.path(&format!("{name}.crt")), &self.path(&format!("{name}.key"))).unwrap();
    }

    /// Writes the files that docs/add-a-cluster.md asks for, besides the certificate that clients see.
    pub(super) fn cluster_files(&self) {
        let kube = &self.kube.kube;
        let client = kube.client_ca().issue(&CertSpec::client("system:portcullis", [""; 0])).unwrap();
        self.pair("client", &client);
        kube.client_ca().write_pem(&self.path("users.crt")).unwrap();
        kube.server_ca().write_pem(&self.path("servers.crt")).unwrap();
    }

    /// Writes alice's kubeconfig of the cluster itself.
    pub(super) fn user(&self) {
        let alice = self.kube.kube.client_ca().issue(&CertSpec::client("alice", ["dev"])).unwrap();
        self.kube.kube.kubeconfig().identity(&alice).write(&self.path("user.kubeconfig")).unwrap();
    }

    fn next(&mut self, words: &str) -> String {
        let command = self.commands.next().unwrap_or_else(|| panic!("the section has no {words}"));
        assert!(command.starts_with(words), "{command}");
        command
    }

    fn start_shell(&mut self, script: &str) -> (Process, String) {
        self.steps += 1;
        let run = &self.kube.run;
        let script = format!("cd '{}'; {script}", run.join("here").display());
        let path = format!("{}:{}", run.join("bin").display(), std::env::var("PATH").unwrap());
        let name = format!("step-{}", self.steps);
        let spec = Spec::new(&name, "bash", run.path())
            .args(["-o", "pipefail", "-ec", &script])
            .stdout_to(run.join(&format!("{name}.out")))
            .env("PATH", path)
            .env("HOME", run.join("home"))
            .env("KUBECACHEDIR", &self.kube.cache)
            .env("PORTCULLIS_HTTP_ADDRESS", &self.pages[0])
            .env("PORTCULLIS_AGENT_HTTP_ADDRESS", &self.pages[1]);
        let unset = ["KUBECONFIG", "LD_LIBRARY_PATH", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
        (Process::start(unset.iter().fold(spec, |spec, name| spec.env_remove(name))).unwrap(), script)
    }

    fn try_run(&mut self, command: &str) -> Result<String, String> {
        let (process, script) = self.start_shell(command);
        let status = process.wait_exit(STEP * wait::deadline_factor()).map_err(|error| error.to_string())?;
        if status.success() { Ok(process.stdout()) } else { Err(format!("{script}: {}", process.log())) }
    }

    /// Runs the next command, which begins with these words.
    pub(super) fn run(&mut self, words: &str) -> String {
        let command = self.next(words);
        self.try_run(&command).unwrap()
    }

    /// Runs the next command as often as it fails, for some time: a reader waits, and tries again.
    pub(super) fn run_soon(&mut self, words: &str) -> String {
        let command = self.next(words);
        wait::until_ok(&command, SOON * 2, || self.try_run(&command)).unwrap()
    }

    /// Starts the next command, which goes on until the end.
    pub(super) fn begin(&mut self, words: &str) {
        let command = self.next(words);
        let (process, _) = self.start_shell(&format!("exec {command}"));
        self.running.insert(0, process);
    }
}
