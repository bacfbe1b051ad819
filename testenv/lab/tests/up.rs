//! `make up`: what it prints works, and a signal to it ends everything that it started.

#![cfg(test)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use portcullis_harness::agent::is_alive;
use portcullis_harness::process::{Process, Signal, Spec};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, project_root, wait};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);

/// `make up` with a directory of its own, in which nothing is installed or built anew.
struct Up {
    make: Process,
    dir: PathBuf,
    _run: RunDir,
}

impl Up {
    /// Starts it and waits until it says that the lab stands.
    fn start(test: &str) -> Self {
        Self::begin(test).stand()
    }

    fn stand(self) -> Self {
        let up = self;
        let said = |text: &str| text.contains("Ctrl-C stops everything");
        up.make.wait_ready("the lab", SOON, || if said(&up.make.log()) { Ok(()) } else { Err("not yet") }).unwrap();
        up
    }

    fn begin(test: &str) -> Self {
        Self::begin_with(test, "#!/bin/sh\n", &[])
    }

    /// Starts it with a cargo of the test's own, and with more variables of make.
    fn begin_with(test: &str, cargo: &str, variables: &[&str]) -> Self {
        deps::module_dir().unwrap();
        let run = RunDir::new(test).unwrap();
        let tools = run.make_dir("tools").unwrap();
        let nothing = "#!/bin/sh\n";
        for (name, text) in
            [("cargo", cargo), ("require", nothing), ("install-envoy", nothing), ("build-kube", nothing)]
        {
            let tool = run.write(&format!("tools/{name}"), text).unwrap();
            std::fs::set_permissions(tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
        let lab = run.join("lab");
        let make = Spec::new("make", "make", run.path())
            .args(["-C", project_root().to_str().unwrap(), "up"])
            .args([format!("SCRIPTS={}", tools.display()), format!("LAB={}", lab.display())])
            .arg(format!("BUILT={}", Path::new(env!("CARGO_BIN_EXE_portcullis-lab")).parent().unwrap().display()))
            .args(variables)
            .env("PATH", path)
            // Of a make that runs this test.
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL");
        Self { make: Process::start(make).unwrap(), dir: lab, _run: run }
    }

    fn report(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.dir.join("lab.json")).unwrap()).unwrap()
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.join(name)).unwrap()
    }

    /// The commands that it prints for people to try.
    fn commands(&self) -> Vec<String> {
        let log = self.make.log();
        let lines = log.lines().skip_while(|line| *line != "Try:").skip(1);
        lines.take_while(|line| line.starts_with("  ")).map(|line| line.trim().to_owned()).collect()
    }

    /// The response to a client of alice's by a name, or by an address, which it does not send.
    fn get_as_alice(&self, name: &str) -> String {
        let address = self.report()["gateway"]["address"].as_str().unwrap().to_owned();
        let output = Command::new("python3").args(["-c", CLIENT, &address, name]).arg(&self.dir).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    /// All processes that it started, with their parents and children.
    fn processes(&self) -> Vec<u32> {
        let mut family = vec![self.make.pid()];
        let all: Vec<(u32, u32)> = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(|pid| Some((pid, parent_of(pid)?)))
            .collect();
        let mut known = 0;
        while known < family.len() {
            let parent = family[known];
            family.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
            known += 1;
        }
        family
    }
}

/// Asks for the lab's namespaces: address, name, the lab's directory.
const CLIENT: &str = r#"
import http.client, socket, ssl, sys
address, name, lab = sys.argv[1:]
host, port = address.rsplit(":", 1)
context = ssl.create_default_context(cafile=lab + "/gateway-ca.crt")
context.load_cert_chain(lab + "/users/alice.crt", lab + "/users/alice.key")
connection = http.client.HTTPSConnection(name, int(port), context=context)
connection.sock = context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=name)
connection.request("GET", "/api/v1/namespaces")
print(connection.getresponse().status)
"#;

/// The parent of a process.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Runs a line as a person would.
fn shell(line: &str) -> Output {
    Command::new("sh").args(["-c", line]).current_dir(project_root()).output().unwrap()
}

/// Waits until none of them is alive.
fn wait_gone(processes: &[u32]) {
    wait::until_ok("the end of all processes", SOON, || {
        let left: Vec<&u32> = processes.iter().filter(|pid| is_alive(**pid)).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?} are alive")) }
    })
    .unwrap();
}

#[test]
fn lab_prints_commands_that_work() {
    let up = Up::start("lab-commands");
    let commands = up.commands();
    for needle in [" status --address ", " explain -f ", " check -f "] {
        assert!(commands.iter().any(|line| line.contains(needle)), "{needle} in {commands:#?}");
    }
    for line in &commands {
        let (output, bob) = (shell(line), line.contains("# bob may not") || line.contains("anonymous may not"));
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if line.starts_with("curl") {
            assert!(said.contains(if bob { "\"code\":403" } else { "\"kind\":\"NamespaceList\"" }), "{line}: {said}");
            continue;
        }
        assert_eq!(output.status.success(), !bob, "{line}: {said}");
        if bob {
            assert_eq!(said.lines().count(), 1, "{line}: {said}");
            assert!(said.starts_with("Error from server (Forbidden): ") && said.contains("\"bob\""), "{line}: {said}");
        }
        if line.contains(" status ") {
            let row = said.lines().find(|row| row.contains("prod.lab")).unwrap();
            assert_eq!(row.matches("True").count(), 3, "accepted, programmed and ready: {said}");
        }
        if line.contains(" check ") {
            assert!(!said.contains("warning:"), "{said}");
        }
    }
    let console = up.make.log().lines().find_map(|line| line.strip_prefix("Console: ").map(str::to_owned));
    assert_eq!(console, up.report()["controlPlane"]["http"].as_str().map(|address| format!("http://{address}/ui/")));
}

#[test]
fn lab_serves_objects_of_a_store_that_init_lays_out() {
    if deps::kube_or_skip("lab-store").unwrap().is_none() {
        return;
    }
    let up = Up::begin_with("lab-store", "#!/bin/sh\n", &["STORE=apiserver"]).stand();
    assert_eq!(up.get_as_alice("prod.lab").trim(), "200");
    let line = up.commands().into_iter().find(|line| line.contains("store/admin.kubeconfig")).unwrap();
    let ready = || {
        let said = String::from_utf8(shell(&line).stdout).unwrap();
        let row = said.lines().find(|row| row.contains("prod.lab"));
        if row.is_some_and(|row| row.matches("True").count() == 3) { Ok(()) } else { Err(format!("{line}: {said}")) }
    };
    up.make.wait_ready("status of the object in the store", SOON, ready).unwrap();
    let processes = up.processes();
    up.make.stop();
    wait_gone(&processes);
}

#[test]
fn lab_serves_its_name_localhost_and_the_address() {
    let up = Up::start("lab-names");
    for name in ["prod.lab", "localhost", "127.0.0.1"] {
        assert_eq!(up.get_as_alice(name).trim(), "200", "{name}");
    }
}

#[test]
fn lab_manifests_are_yaml_that_refers_to_files() {
    let up = Up::start("lab-manifests");
    for name in ["settings.yaml", "prod.lab.yaml"] {
        let text = up.file(&format!("manifests/{name}"));
        assert!(text.lines().any(|line| line.starts_with("apiVersion: ")), "{text}");
        assert!(!text.contains("Data:") && text.contains("file:"), "{text}");
    }
}

#[test]
fn lab_ends_with_make_on_sigterm() {
    let up = Up::start("lab-sigterm");
    let processes = up.processes();
    // make, the lab, the control plane, the agent and Envoy.
    assert!(processes.len() >= 5, "{processes:?}");
    up.make.signal(Signal::Term).unwrap();
    wait_gone(&processes);
}

#[test]
fn builds_end_with_make_on_sigterm() {
    let up = Up::begin_with("lab-builds", "#!/bin/sh\nsleep 600\n", &[]);
    // make, the script, two builds, and what each of them runs.
    let started = || if up.processes().len() >= 6 { Ok(()) } else { Err(format!("{:?}", up.processes())) };
    up.make.wait_ready("both builds", SOON, started).unwrap();
    let processes = up.processes();
    up.make.signal(Signal::Term).unwrap();
    wait_gone(&processes);
}

#[test]
fn lab_ends_with_make_on_sigterm_while_it_starts() {
    let up = Up::begin("lab-early");
    let started = || if up.processes().len() >= 3 { Ok(()) } else { Err("no process of the lab yet") };
    up.make.wait_ready("the lab's first processes", SOON, started).unwrap();
    let processes = up.processes();
    up.make.signal(Signal::Term).unwrap();
    wait_gone(&processes);
}

#[test]
fn lab_ends_on_ctrl_c() {
    let up = Up::start("lab-ctrl-c");
    let processes = up.processes();
    // As a terminal does: to make and what it runs in its own process group.
    let group = rustix::process::Pid::from_raw(up.make.pid().cast_signed()).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
    wait_gone(&processes);
    assert!(up.make.log().contains("stopping"), "in order: {}", up.make.log());
}
