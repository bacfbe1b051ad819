//! Labels of routes that are edited all the time: the statuses of these routes are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::kube::RealKube;
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::fixture::USER;
use super::gateway_api::{CLASS, CLUSTER, GROUP, Site};

/// Most edits of a test.
const MAX_EDITS: usize = 20_000;

/// Edits of the labels of objects, one after the other without a pause, in a thread of their own.
struct LabelEdits {
    ended: Arc<AtomicBool>,
    made: Arc<AtomicUsize>,
    thread: JoinHandle<Option<String>>,
}

impl LabelEdits {
    fn start(kube: &RealKube, paths: Vec<String>) -> Self {
        let target = TlsTarget::new(kube.address(0).unwrap()).trust(kube.server_ca()).identity(kube.admin());
        let client = H2Client::connect(&target).unwrap();
        let (ended, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (end, count) = (Arc::clone(&ended), Arc::clone(&made));
        let thread = std::thread::spawn(move || {
            let headers = [("content-type", &b"application/merge-patch+json"[..])];
            for (edit, path) in paths.iter().cycle().take(MAX_EDITS).enumerate() {
                if end.load(Ordering::Relaxed) {
                    return None;
                }
                let patch = json!({"metadata": {"labels": {"edit": edit.to_string()}}}).to_string();
                match client.request("PATCH", path, &headers, patch.as_bytes()) {
                    Ok(answer) if answer.status == 200 => count.fetch_add(1, Ordering::Relaxed),
                    other => return Some(format!("{path}: {other:?}")),
                };
            }
            None
        });
        Self { ended, made, thread }
    }

    /// Waits for twenty edits more.
    fn wait_for_more(&self) {
        let wanted = self.made.load(Ordering::Relaxed) + 20;
        let has = || (self.made.load(Ordering::Relaxed) >= wanted).then_some(());
        wait::until("more edits of labels", SOON, has).unwrap();
    }

    /// Ends them; none may have failed.
    fn end(self) {
        self.ended.store(true, Ordering::Relaxed);
        assert_eq!(self.thread.join().unwrap(), None);
    }
}

fn path_of([plural, namespace, name]: [&str; 3]) -> String {
    format!("/apis/{GROUP}/v1/namespaces/{namespace}/{plural}/{name}")
}

/// Has the Gateway allow routes from these namespaces.
fn allow(site: &Site, from: &str) {
    let allowed = json!({"namespaces": {"from": from}});
    let listeners = json!([
        {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": allowed},
        {"name": "tls", "port": 443, "protocol": "TLS", "tls": {"mode": "Passthrough"}, "allowedRoutes": allowed},
    ]);
    site.apply("Gateway", "infra", "edge", &json!({"gatewayClassName": CLASS, "listeners": listeners}));
}

/// Adds another controller's entry in front of a status. It has characters that have two forms in JSON.
fn add_entry_of_another(site: &Site, route: [&str; 3]) -> Value {
    let condition = json!({
        "type": "Accepted", "status": "True", "reason": "Accepted", "message": "<1> & \"2\" \u{2028} …",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let parent = json!({"group": GROUP, "kind": "Gateway", "name": "y"});
    let other = json!({"parentRef": parent, "controllerName": "example.com/other", "conditions": [condition]});
    let mut parents = site.get(route[0], route[1], route[2])["status"]["parents"].as_array().unwrap().clone();
    parents.insert(0, other.clone());
    site.fixture.kube.patch_status(&path_of(route), &json!({"parents": parents})).unwrap();
    other
}

#[test]
fn statuses_are_written_while_labels_are_edited_all_the_time() {
    let Some(site) = Site::start("gateway-label-edits") else { return };
    for namespace in ["infra", "team"] {
        site.fixture.admin(&["create", "namespace", namespace]);
    }
    let (web, tls) = (["httproutes", "team", "web"], ["tlsroutes", "team", "tls"]);
    let backends = json!([{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": CLUSTER}]);
    let spec = json!({
        "parentRefs": [{"name": "edge", "namespace": "infra"}],
        "hostnames": ["web.example.org"], "rules": [{"backendRefs": backends}],
    });
    site.apply("HTTPRoute", web[1], web[2], &spec);
    site.route_of(tls, &["tls.example.org"]);
    // Before there is a status.
    let edits = LabelEdits::start(&site.fixture.kube, [web, tls].map(path_of).to_vec());
    edits.wait_for_more();
    site.apply("GatewayClass", "", CLASS, &json!({"controllerName": "portcullis.dev/gateway-controller"}));
    allow(&site, "All");
    let held = "portcullis.dev/HostnamesHeld True Held";
    site.wait(web, "/parents/0", &["Accepted True Accepted"]);
    site.wait(tls, "/parents/0", &["Accepted True Accepted", held]);
    edits.wait_for_more();

    let others = [web, tls].map(|route| add_entry_of_another(&site, route));
    allow(&site, "Same");
    for (route, other) in [web, tls].into_iter().zip(others) {
        let found = site.wait(route, "/parents/1", &["Accepted False NotAllowedByListeners"]);
        assert_eq!(found["status"]["parents"][0], other);
        let own = found["status"]["parents"][1].to_string();
        assert!(!own.contains("HostnamesHeld"), "a list that stays decides at the next start: {own}");
    }
    edits.wait_for_more();
    allow(&site, "All");
    site.wait(tls, "/parents/1", &["Accepted True Accepted", held]);
    edits.wait_for_more();
    edits.end();

    let apiserver = site.fixture.kube.apiserver(0).unwrap();
    for route in [web, tls] {
        let events = apiserver.audit_events_for(&format!("{}/status", path_of(route))).unwrap();
        let of_ours = events.iter().filter(|event| event["user"]["username"] == USER);
        let codes: Vec<u64> = of_ours.filter_map(|event| event["responseStatus"]["code"].as_u64()).collect();
        assert!(codes.contains(&200) && !codes.contains(&409), "{route:?}: {codes:?}");
    }
}
