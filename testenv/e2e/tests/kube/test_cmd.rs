//! Kubernetes' own scripts test/cmd, straight at a kube-apiserver and through the gateway in both modes: each group has to end as
//! it ends directly.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use portcullis_e2e::{GatewayOptions, encode};
use portcullis_harness::kube::{KubeOptions, RealKube};
use portcullis_harness::process::{Process, Spec};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, project_root};
use serde_json::{Value, json};

use crate::fixture::{BareKube, Identities, KubeFixture};

/// All groups of one run.
const LIMIT: Duration = Duration::from_secs(2_400);
/// The scripts' own authority, which signs and verifies users' certificates there.
const AUTHORITY: &str = "hack/testdata/ca/ca.crt";
const RESULTS: &str = "docs/reference/test-cmd.json";

/// The exit status of each group.
type Groups = BTreeMap<String, i64>;

/// The flags of the scripts' own kube-apiserver.
fn options(tree: &Path) -> KubeOptions {
    let flags = [
        "--authorization-mode=AlwaysAllow".to_owned(),
        "--enable-admission-plugins=LimitRanger,ResourceQuota".to_owned(),
        "--disable-admission-plugins=DefaultStorageClass,DefaultTolerationSeconds,MutatingAdmissionWebhook".to_owned(),
        "--disable-admission-plugins=ValidatingAdmissionWebhook,StorageObjectInUseProtection".to_owned(),
        format!("--token-auth-file={}", tree.join("hack/testdata/auth-tokens.csv").display()),
    ];
    KubeOptions { flags: flags.to_vec(), more_client_cas: authority(tree), ..KubeOptions::default() }
}

fn authority(tree: &Path) -> String {
    std::fs::read_to_string(tree.join(AUTHORITY)).unwrap()
}

/// Runs the scripts at a port of loopback, or only the groups that are named by WHAT.
fn run(tree: &Path, port: u16, kube: &RealKube, what: Option<&str>) -> Groups {
    let direct = kube.address(0).unwrap().port();
    // Their own kube-apiserver would have left its certificate there.
    std::fs::write(tree.join("temporary/apiserver.crt"), kube.server_ca().pem()).unwrap();
    let results = tree.join("results");
    let script = project_root().join("testenv/test-cmd/run");
    let mut spec = Spec::new("test-cmd", script, tree).arg(tree).arg(&results);
    spec = spec.env("SECURE_API_PORT", port.to_string()).env("DIRECT_PORT", direct.to_string());
    spec = spec.env("TMPDIR", tree.join("temporary"));
    let spec = what.into_iter().fold(spec, |spec, what| spec.env("WHAT", what));
    let process = Process::start(spec).unwrap();
    let status = process.wait_exit(LIMIT).unwrap();
    let text = std::fs::read_to_string(results.join("groups")).unwrap_or_default();
    let line = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let name = words.next()?.trim_start_matches("run_").trim_end_matches("_tests").to_owned();
        Some((name, words.next()?.parse().ok()?))
    };
    let mut groups: Groups = text.lines().filter_map(line).collect();
    // Checks between the groups end the script.
    groups.insert("between the groups".to_owned(), i64::from(status.code().unwrap_or(-1)));
    groups
}

/// A writable copy of the scripts with the binaries.
fn tree(dir: &Path, kube: &deps::KubeBinaries, built: &Path) {
    let copied = std::process::Command::new("cp").arg("-r").arg(built.join("tree/.")).arg(dir).status().unwrap();
    assert!(copied.success());
    let bin = dir.join("_output/bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::create_dir_all(dir.join("temporary")).unwrap();
    let own = ["kube-controller-manager", "kubectl-convert"].map(|name| built.join("bin").join(name));
    for path in own.iter().chain([&kube.kubectl, &kube.kube_apiserver]) {
        std::os::unix::fs::symlink(path.canonicalize().unwrap(), bin.join(path.file_name().unwrap())).unwrap();
    }
}

/// Past the gateway.
fn directly(tree: &Path, what: Option<&str>) -> Groups {
    let bare = BareKube::start("test-cmd-directly", options(tree)).unwrap();
    let port = bare.kube.address(0).unwrap().port();
    run(tree, port, &bare.kube, what)
}

/// Through the gateway, which serves the cluster at 127.0.0.1 without a name in the handshake, and at localhost, as
/// the scripts ask for it.
fn through(tree: &Path, identities: Identities, names: &str, what: Option<&str>) -> Groups {
    let test = format!("test-cmd-{identities:?}");
    let listener = json!({"virtualIPs": ["127.0.0.1/32"]});
    let gateway = GatewayOptions { listener, ..GatewayOptions::default() };
    let fixture = KubeFixture::forwarding(identities, &test, &options(tree), &gateway).unwrap();
    if names != "Sent" {
        fixture.gateway.change_settings(|spec| spec["clientCANames"] = json!(names)).unwrap();
    }
    let client_cas = fixture.kube.client_ca().pem() + &authority(tree);
    let manifest = fixture.manifest().set("/spec/secureServing/clientCAData", json!(encode(&client_cas)));
    let manifest = manifest.set("/spec/secureServing/serverNames", json!(["localhost"]));
    let own = fixture.portcullis(json!({"virtualIPs": ["127.0.0.1"]}));
    fixture.gateway.apply(&manifest.set("/spec/portcullis", own)).unwrap();
    run(tree, fixture.gateway.address().port(), &fixture.kube, what)
}

/// A fresh tree of scripts for each run.
fn with_tree<T>(name: &str, act: impl FnOnce(&Path) -> T) -> Option<T> {
    let built = deps::test_cmd_or_skip("test-cmd").unwrap()?;
    let run = RunDir::new(&format!("test-cmd-tree-{name}")).unwrap();
    let dir = run.make_dir("tree").unwrap();
    tree(&dir, &deps::kube().unwrap(), &built);
    Some(act(&dir))
}

fn failed(groups: &Groups) -> Vec<&String> {
    groups.iter().filter(|(_, status)| **status != 0).map(|(name, _)| name).collect()
}

#[test]
fn groups_of_test_cmd_end_as_they_do_directly() {
    if deps::test_cmd_or_skip("test-cmd").unwrap().is_none() {
        return;
    }
    // Side by side: the scripts mostly wait.
    let ways: BTreeMap<String, Groups> = std::thread::scope(|scope| {
        let direct = scope.spawn(|| with_tree("directly", |tree| directly(tree, None)));
        let modes = Identities::ALL.map(|identities| {
            let mode = format!("{identities:?}");
            scope.spawn(move || {
                (mode.clone(), with_tree(&mode, |tree| through(tree, identities, "Sent", None)).unwrap())
            })
        });
        let mut ways: BTreeMap<String, Groups> = modes.into_iter().map(|way| way.join().unwrap()).collect();
        ways.insert("directly".to_owned(), direct.join().unwrap().unwrap());
        ways
    });
    for (way, groups) in &ways {
        eprintln!("{way}: {} groups, failed: {:?}", groups.len(), failed(groups));
    }
    let direct = &ways["directly"];
    assert!(direct.len() > 80 && failed(direct).is_empty(), "{direct:?}");
    for (way, groups) in &ways {
        assert_eq!(groups, direct, "{way}");
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let mut results = json!(ways);
        results["kubernetes"] = json!(deps::pinned("KUBERNETES_VERSION"));
        std::fs::write(project_root().join(RESULTS), serde_json::to_string_pretty(&results).unwrap() + "\n").unwrap();
    }
}

/// The group that looks for its authority in the handshake fails where the handshake names none.
#[test]
fn group_of_exec_credentials_needs_the_names_of_authorities() {
    let group = Some("exec_credentials");
    for (names, expected) in [("Sent", 0), ("Omitted", 1)] {
        for identities in Identities::ALL {
            let groups = with_tree(names, |tree| through(tree, identities, names, group));
            let Some(groups) = groups else { return };
            assert_eq!(groups.get("exec_credentials"), Some(&expected), "{identities:?}, {names}: {groups:?}");
        }
    }
}

#[test]
fn results_of_test_cmd_are_on_the_page() {
    let read = |name: &str| std::fs::read_to_string(project_root().join(name)).unwrap();
    let results: Value = serde_json::from_str(&read(RESULTS)).unwrap();
    let page = read("docs/compatibility.md");
    assert_eq!(results["kubernetes"], deps::pinned("KUBERNETES_VERSION").unwrap(), "UPDATE_DOCS=1 make test-cmd");
    for way in ["directly", "RequestHeader", "Impersonate"] {
        let groups: Groups = serde_json::from_value(results[way].clone()).unwrap();
        let row = format!("| {way} | {} of {} |", groups.len() - failed(&groups).len(), groups.len());
        assert!(page.contains(&row), "docs/compatibility.md lacks: {row}");
    }
}
