use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_e2e::{Manifest, default_certificate, encode, settings};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::TlsTarget;
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::{ports, wait};
use serde_json::{Value, json};

use super::fixture::{START, Store};

const NAME: &str = "prod.example.com";
const SOON: Duration = Duration::from_secs(30);

/// A gateway whose objects are in the store, in front of the store's own kube-apiserver.
pub(super) struct Served {
    pub(super) plane: ControlPlane,
    target: TlsTarget,
    pub(super) envoy: Envoy,
    ca: Ca,
}

impl Served {
    pub(super) fn start(store: &Store) -> Self {
        let ca = Ca::new("clients and gateway").unwrap();
        let address = ports::free_address().unwrap();
        let settings = settings("e2e", address, &default_certificate(&ca).unwrap());
        let settings = store.run.write("settings.yaml", settings).unwrap();
        let kubeconfig = store.first().dir.join("control-plane.kubeconfig");
        let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
        let (kubeconfig, settings) = (text(&kubeconfig), text(&settings));
        let flags = [
            "--source",
            "kubernetes",
            "--kubeconfig",
            &kubeconfig,
            "--namespace",
            "portcullis",
            "--settings",
            &settings,
        ];
        let dir = store.run.make_dir("plane").unwrap();
        let plane = ControlPlane::start_from(&dir, &flags).unwrap();
        let envoy = Envoy::start(&dir, "envoy", &EnvoyOptions::new(plane.bootstrap("envoy").unwrap())).unwrap();
        let alice = ca.issue(&CertSpec::client("alice", ["dev"])).unwrap();
        let target = TlsTarget::new(address).sni(NAME).trust(&ca).identity(&alice);
        let served = Self { plane, target, envoy, ca };
        served.add(store, NAME);
        served.envoy.wait_listening(address, SOON).unwrap();
        served
    }

    /// Writes an object to the store, and waits until Envoy has it.
    pub(super) fn add(&self, store: &Store, name: &str) {
        apply(store, &manifest(store, &self.ca, name));
        self.plane.wait_status("the object is served", START, |status| has(status, name)).unwrap();
        self.plane.wait_in_sync(1, SOON).unwrap();
    }

    /// Waits until the control plane has an object no more.
    pub(super) fn wait_without(&self, name: &str) {
        self.plane.wait_status("the object is gone", START, |status| !has(status, name)).unwrap();
    }

    /// Envoy never lost a cluster or a listener.
    pub(super) fn assert_nothing_removed(&self) {
        for what in ["cluster_manager.cluster_removed", "listener_manager.listener_removed"] {
            assert_eq!(self.envoy.admin().stat(what).unwrap(), 0, "{what}");
        }
    }

    /// The status and text of a request through the gateway.
    pub(super) fn get(&self, path: &str) -> Result<(u16, String), String> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
        let answer = self.target.raw_request(request.as_bytes()).map_err(|error| error.to_string())?;
        Ok((answer.status, answer.text()))
    }

    pub(super) fn wait_current(&self, is_current: bool) {
        let holds = |status: &Value| status["source"]["staleSince"].is_null() == is_current;
        self.plane.wait_status("the source's state", START, holds).unwrap();
    }

    pub(super) fn snapshot(&self) -> String {
        self.plane.status().unwrap()["snapshot"].as_str().unwrap().to_owned()
    }
}

fn has(status: &Value, name: &str) -> bool {
    let objects = status["objects"].as_array();
    objects.is_some_and(|all| all.iter().any(|one| one["name"] == name && one["accepted"] == true))
}

fn manifest(store: &Store, ca: &Ca, name: &str) -> Value {
    let gateway: Identity = store.identity(&store.admin_kubeconfig());
    let server_ca = std::fs::read(store.first().dir.join("pki/server-ca.crt")).unwrap();
    let client = json!({
        "certData": encode(&gateway.pem()), "keyData": encode(&gateway.key_pem()),
        "caData": STANDARD.encode(server_ca), "serverName": "kubernetes.default.svc",
    });
    let serving = ca.issue(&CertSpec::server(name, [name])).unwrap();
    let manifest = Manifest::new(name, [store.first().api_address]).serving(&serving, ca);
    serde_saphyr::from_str(&manifest.set("/spec/clientConfig", client).to_text()).unwrap()
}

pub(super) fn apply(store: &Store, object: &Value) {
    let file = store.run.next("applied");
    portcullis_harness::write_private(&file, object.to_string().as_bytes()).unwrap();
    store.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", file.to_str().unwrap()]).run_ok().unwrap();
}

/// A fresh store, from nothing to a request; then edits act, the status is written, and xDS goes on while the store is away.
#[test]
fn gateway_is_served_from_a_fresh_store() {
    let Some(mut store) = Store::start("store-serving", 1, &[]) else { return };
    let served = Served::start(&store);
    let answered = || match served.get("/version") {
        Ok((200, text)) if text.contains("gitVersion") => Ok(()),
        other => Err(format!("{other:?}")),
    };
    wait::until_ok("a request is answered", SOON, answered).unwrap();
    let programmed = || {
        let object = store.get(0, &format!("/apis/proxy.kubegateway.io/v1alpha1/upstreamclusters/{NAME}")).unwrap();
        let conditions = object.json().unwrap()["status"]["conditions"].clone();
        let is = |one: &Value| one["type"] == "Programmed" && one["status"] == "True";
        if conditions.as_array().is_some_and(|all| all.iter().any(is)) { Ok(()) } else { Err(conditions.to_string()) }
    };
    wait::until_ok("the status is written", START, programmed).unwrap();
    store.kubectl(&["explain", "upstreamcluster.spec.servers"]).run_ok().unwrap();

    let snapshot = served.snapshot();
    store.members[0].etcd.kill();
    store.members[0].apiserver.kill();
    served.wait_current(false);
    assert_eq!(served.snapshot(), snapshot);
    served.assert_nothing_removed();
    // The gateway itself answers: only its server is away.
    assert!(matches!(served.get("/version"), Ok((502..=504, _))), "{:?}", served.get("/version"));
    store.members[0].restart_etcd();
    store.members[0].restart_apiserver();
    store.wait_ready(0);
    served.wait_current(true);
    assert_eq!(served.snapshot(), snapshot);
    wait::until_ok("a request is answered", START, answered).unwrap();
}
