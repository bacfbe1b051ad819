//! The whole project, run as docker-compose.yml says it, each service in a container of ours at an address of its own.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::time::Duration;

use portcullis_harness::process::Process;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, project_root, wait};

use super::dockerfile::Dockerfile;
use super::project::{Project, Service, Source};
use crate::container::{Container, image, is_root, possible};

const SOON: Duration = Duration::from_secs(60);
const USER: u32 = 65532;

struct Compose {
    project: Project,
    dockerfile: Dockerfile,
    addresses: BTreeMap<String, String>,
    hosts: PathBuf,
    manifests: PathBuf,
    running: BTreeMap<String, Process>,
    run: RunDir,
}

impl Compose {
    fn new(test: &str) -> Option<Self> {
        deps::kube_or_skip(test).unwrap()?;
        if !possible(test) {
            return None;
        }
        let (project, dockerfile) = (Project::read(), Dockerfile::read());
        let run = RunDir::new(test).unwrap();
        fs::set_permissions(run.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // A network of our own in 127/8, so that ports stay as they are.
        let network = std::process::id();
        let address = |host: usize| format!("127.{}.{}.{host}", 1 + network % 250, network / 250 % 250);
        let names = project.services.keys().cloned().enumerate();
        let addresses: BTreeMap<String, String> = names.map(|(index, name)| (name, address(index + 1))).collect();
        let line = |(name, address): (&String, &String)| {
            let aliases = project.services[name].fields["networks"]["default"]["aliases"].as_array();
            let aliases = aliases.into_iter().flatten().map(|one| format!(" {}", one.as_str().unwrap()));
            format!("{address} {name}{}\n", aliases.collect::<String>())
        };
        let text: String = addresses.iter().map(line).collect();
        let hosts = run.join("hosts");
        fs::write(&hosts, format!("{text}127.0.0.1 localhost\n")).unwrap();
        let manifests = run.make_dir("manifests").unwrap();
        let compose = Compose { project, dockerfile, addresses, hosts, manifests, running: BTreeMap::new(), run };
        compose.write_manifests();
        Some(compose)
    }

    /// As they are, but that everything is loopback here.
    fn write_manifests(&self) {
        for entry in fs::read_dir(project_root().join("deploy/compose/manifests")).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap().replace("0.0.0.0", &self.addresses["gateway"]);
            let text = text.replace("\nspec:\n  listener:", "\nspec:\n  allowLoopbackUpstreams: true\n  listener:");
            fs::write(self.manifests.join(path.file_name().unwrap()), text).unwrap();
        }
    }

    fn container(&self, name: &str, command: Vec<String>) -> Container {
        let service = &self.project.services[name];
        let own = |text: &String| {
            let at = &self.addresses[name];
            text.replace("0.0.0.0", at).replace("127.0.0.1", at).replace("//localhost", &format!("//{at}"))
        };
        let mut container = Container {
            name: name.to_owned(),
            command: command.iter().map(own).collect(),
            variables: service.variables(),
            user: USER,
            group: USER,
            files: self.image(),
            empty: service.temporary(),
            ..Container::default()
        };
        self.mount(service, &mut container);
        container
    }

    /// All that the four images hold, and what the tools among them need of Debian.
    fn image(&self) -> Vec<String> {
        let kube = deps::kube().unwrap();
        let own = |path: PathBuf| {
            format!("{}:/usr/local/bin/{}", path.display(), path.file_name().unwrap().to_str().unwrap())
        };
        let scripts = ["make-certificates", "grant-rights"];
        let scripts = scripts.map(|name| own(project_root().join("deploy/compose").join(name)));
        let kube = [kube.etcd, kube.kube_apiserver, kube.kubectl].map(|path| {
            let name = path.file_name().unwrap().to_owned();
            format!("{}:/usr/local/bin/{}", path.canonicalize().unwrap().display(), name.to_str().unwrap())
        });
        let hosts = format!("{}:/etc/hosts", self.hosts.display());
        let system = ["/usr/bin:/usr/bin".to_owned(), "/etc/ssl/openssl.cnf:/etc/ssl/openssl.cnf".to_owned(), hosts];
        [image(), scripts.to_vec(), kube.to_vec(), system.to_vec()].concat()
    }

    fn mount(&self, service: &Service, container: &mut Container) {
        for mount in service.mounts() {
            let source = match &mount.source {
                Source::Path(path) if path == "deploy/compose/manifests" => self.manifests.clone(),
                Source::Path(path) => project_root().join(path),
                Source::Volume(volume) => self.volume(volume),
            };
            let pair = format!("{}:{}", source.display(), mount.target);
            if mount.read_only { &mut container.files } else { &mut container.shared }.push(pair);
        }
    }

    /// As Docker makes it from the image's directory: its owner's alone.
    fn volume(&self, name: &str) -> PathBuf {
        let path = self.run.make_dir(&format!("volumes/{name}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        if is_root() {
            chown(&path, Some(USER), Some(USER)).unwrap();
        }
        path
    }

    /// Starts a service when those are ready for whom it waits.
    fn up(&mut self, name: &str) {
        if self.running.contains_key(name) {
            return;
        }
        let service = self.project.services[name].clone();
        for (other, condition) in service.dependencies() {
            self.up(&other);
            if condition == "service_healthy" {
                self.wait_healthy(&other);
            } else {
                let process = &self.running[&other];
                assert!(process.wait_exit(SOON).unwrap().success(), "{other}: {}", process.log());
            }
        }
        let container = self.container(name, service.command(&self.dockerfile));
        let home = self.run.make_dir(&format!("services/{name}")).unwrap();
        self.running.insert(name.to_owned(), container.start(&home));
    }

    fn wait_healthy(&self, name: &str) {
        let check = self.project.services[name].health_check().unwrap();
        let home = self.run.make_dir(&format!("checks/{name}")).unwrap();
        let healthy = || {
            let process = self.container(name, check.clone()).start(&home);
            let status = process.wait_exit(SOON).map_err(|error| error.to_string())?;
            if status.success() { Ok(()) } else { Err(process.log_tail()) }
        };
        self.running[name].wait_ready(&format!("health of {name}"), SOON, healthy).unwrap();
    }
}

#[test]
fn project_comes_up_and_alice_is_alice() {
    let Some(mut compose) = Compose::new("compose") else { return };
    compose.up("kubectl");
    let kubectl = &compose.running["kubectl"];
    assert!(kubectl.wait_exit(SOON).unwrap().success(), "{}", kubectl.log());
    assert!(kubectl.log().contains("alice") && kubectl.log().contains("dev"), "{}", kubectl.log());
    // Both kube-apiservers, as those of the manifests.
    compose.up("apiserver-2");
    compose.wait_healthy("apiserver-2");
    let started: Vec<&String> = compose.running.keys().collect();
    // Those of the store run in `make test-images`.
    let is_of_the_store = |one: &Service| one.profile().is_some_and(|profile| profile.starts_with("store"));
    let others = compose.project.services.iter().filter(|(_, one)| !is_of_the_store(one)).map(|(name, _)| name);
    assert_eq!(started, others.collect::<Vec<_>>(), "every other service of the project ran");
    let create = ["kubectl", "create", "configmap", "first", "--from-literal=a=1"].map(str::to_owned).to_vec();
    let home = compose.run.make_dir("services/create").unwrap();
    let created = compose.container("kubectl", create).start(&home);
    assert!(created.wait_exit(SOON).unwrap().success(), "{}", created.log());
    the_certificates_stay(&compose);
    let gateway = &compose.running["gateway"];
    gateway.signal(portcullis_harness::process::Signal::Term).unwrap();
    gateway.wait_exit(Duration::from_secs(20)).unwrap();
}

/// A second `docker compose up` changes nothing.
fn the_certificates_stay(compose: &Compose) {
    let file = compose.volume("users-certs").join("alice.kubeconfig");
    let before = fs::read(&file).unwrap();
    let command = compose.project.services["certificates"].command(&compose.dockerfile);
    let home = compose.run.make_dir("services/again").unwrap();
    let again = compose.container("certificates", command).start(&home);
    assert!(again.wait_exit(SOON).unwrap().success(), "{}", again.log());
    assert_eq!(fs::read(&file).unwrap(), before);
    wait::until("no key of an authority is kept", SOON, || {
        let all = fs::read_dir(compose.run.join("volumes")).unwrap();
        all.flatten().all(|one| !one.path().join("users.key").exists()).then_some(())
    })
    .unwrap();
}
