use std::path::{Path, PathBuf};
use std::process::Command;

use portcullis_harness::agent::Agent;
use portcullis_harness::certs::Identity;
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{Result, deps};
use serde_json::{Value, json};

use crate::apiservers::{Apiservers, POD};
use crate::{CLUSTER, LOCALHOST, Lab};

/// Writes `lab.json` and everything that it points to: kubeconfigs through the gateway and straight to an apiserver, and
/// the same people's certificates for clients that read no kubeconfig.
pub(crate) fn write(lab: &Lab, run: &RunDir) -> Result<PathBuf> {
    let ca = run.join("gateway-ca.crt");
    lab.gateway.write_ca(&ca)?;
    for (name, user) in people(lab) {
        user.write_pem(&run.join(&format!("users/{name}.crt")), &run.join(&format!("users/{name}.key")))?;
    }
    let through = lab.gateway.kubeconfig();
    let first = lab.apiservers.addresses().first().map(|address| format!("https://{address}")).unwrap_or_default();
    let direct = Kubeconfig::new(first).ca(lab.apiservers.server_ca());
    let apiservers: Vec<Value> = lab
        .apiservers
        .addresses()
        .iter()
        .map(|address| json!({"address": address.to_string(), "kind": lab.apiservers.kind()}))
        .collect();
    let agent = lab.gateway.agent();
    let report = json!({
        "gateway": {"address": lab.gateway.address().to_string(), "hostNames": [CLUSTER, LOCALHOST], "caFile": ca},
        "kubeconfigs": {
            "gateway": kubeconfigs(lab, run, "gateway", &through)?,
            "direct": kubeconfigs(lab, run, "direct", &direct)?,
        },
        "apiservers": apiservers,
        "controlPlane": {
            "xds": lab.gateway.plane().xds_socket(),
            "http": lab.gateway.plane().http_address().to_string(),
        },
        "gatewayPages": agent.map(|agent| agent.http_address().to_string()),
        "envoy": {
            "admin": agent.map(|agent| agent.admin().address().to_string()),
            "pid": agent.and_then(Agent::envoy_pid),
        },
        "manifests": lab.gateway.manifests(),
        "keys": lab.gateway.keys(),
    });
    run.write("lab.json", format!("{report:#}\n"))
}

fn people(lab: &Lab) -> [(&'static str, &Identity); 3] {
    [("alice", &lab.users.alice), ("bob", &lab.users.bob), ("admin", &lab.users.admin)]
}

fn kubeconfigs(lab: &Lab, run: &RunDir, way: &str, server: &Kubeconfig) -> Result<Value> {
    let path = |name: &str| run.join(&format!("kubeconfigs/{way}-{name}.kubeconfig"));
    let mut paths = serde_json::Map::new();
    for (name, user) in people(lab) {
        paths.insert(name.to_owned(), json!(server.clone().identity(user).write(&path(name))?));
    }
    paths.insert("token".to_owned(), json!(server.clone().token(&lab.token).write(&path("token"))?));
    Ok(Value::Object(paths))
}

/// Says what runs and what to try.
pub(crate) fn print(lab: &Lab, dir: &Path) {
    let count = lab.apiservers.addresses().len();
    let alice = dir.join("kubeconfigs/gateway-alice.kubeconfig");
    println!("\nThe lab stands: {count} x {} behind {}.", lab.apiservers.kind(), lab.gateway.address());
    println!("Kubeconfig of alice, through the gateway:\n  {}", alice.display());
    println!("Try:");
    match kubectl() {
        Some(kubectl) => {
            print_kubectl_lines(&kubectl.display().to_string(), dir, &alice);
            if matches!(lab.apiservers, Apiservers::Real(_)) {
                let kubectl = format!("{} --kubeconfig {}", kubectl.display(), alice.display());
                println!("  {kubectl} exec -it {POD} -- sh    # a shell on this machine, as you");
            }
        }
        None => print_curl_lines(lab, dir),
    }
    print_portcullis_lines(lab, dir);
    println!("Console: http://{}/ui/", lab.gateway.plane().http_address());
    match lab.gateway.store_kubeconfig() {
        Some(_) => println!("Edit the objects in the store and watch them take effect."),
        None => println!("Edit the manifests in {} and watch them take effect.", dir.join("manifests").display()),
    }
    println!("What runs where: {}. Ctrl-C stops everything.", dir.join("lab.json").display());
}

/// The product's own commands, on this lab.
fn print_portcullis_lines(lab: &Lab, dir: &Path) {
    // It is built with the lab; without it nothing would run.
    let Ok(portcullis) = deps::portcullis().map(|path| shorten(&path)) else { return };
    let manifests = dir.join("manifests").display().to_string();
    println!("  {portcullis} status --address {}", lab.gateway.plane().http_address());
    println!("  {portcullis} explain -f {manifests} GET /api/v1/namespaces/default/pods --user alice --group dev");
    println!("  {portcullis} check -f {manifests} --references-root {}", dir.join("keys").display());
    if let (Some(kubeconfig), Some(kubectl)) = (lab.gateway.store_kubeconfig(), kubectl()) {
        let (kubectl, kubeconfig) = (kubectl.display(), kubeconfig.display());
        println!("  {kubectl} --kubeconfig {kubeconfig} get upstreamclusters    # in the store, as its administrator");
    }
}

/// A path as it is written from the working directory.
fn shorten(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let below = here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    below.as_deref().unwrap_or(path).display().to_string()
}

fn print_kubectl_lines(kubectl: &str, dir: &Path, alice: &Path) {
    let bob = dir.join("kubeconfigs/gateway-bob.kubeconfig");
    println!("  {kubectl} --kubeconfig {} auth whoami", alice.display());
    println!("  {kubectl} --kubeconfig {} create configmap hello --from-literal=from=alice", alice.display());
    println!("  {kubectl} --kubeconfig {} get configmaps    # bob may not", bob.display());
}

fn print_curl_lines(lab: &Lab, dir: &Path) {
    let (address, port) = (lab.gateway.address().ip(), lab.gateway.address().port());
    let curl = format!("curl --cacert {} --resolve {CLUSTER}:{port}:{address}", dir.join("gateway-ca.crt").display());
    let user = |name: &str| {
        let file = |kind: &str| dir.join(format!("users/{name}.{kind}")).display().to_string();
        format!("--cert {} --key {}", file("crt"), file("key"))
    };
    println!("  {curl} {} https://{CLUSTER}:{port}/api/v1/namespaces", user("alice"));
    println!("  {curl} {} https://{CLUSTER}:{port}/api/v1/namespaces    # bob may not", user("bob"));
    println!("  {curl} https://{CLUSTER}:{port}/api/v1/namespaces    # without a certificate: anonymous may not");
}

/// A kubectl that knows `auth whoami` (1.28): the one on the machine, else the one that the tests built.
fn kubectl() -> Option<PathBuf> {
    let installed = PathBuf::from("kubectl");
    if minor_version(&installed).is_some_and(|minor| minor >= 28) {
        return Some(installed);
    }
    deps::kube().ok().map(|binaries| binaries.kubectl)
}

fn minor_version(kubectl: &Path) -> Option<u32> {
    let output = Command::new(kubectl).args(["version", "--client", "-o", "json"]).output().ok()?;
    let version: Value = serde_json::from_slice(&output.stdout).ok()?;
    let minor = version.pointer("/clientVersion/minor")?.as_str()?;
    minor.trim_end_matches('+').parse().ok()
}
