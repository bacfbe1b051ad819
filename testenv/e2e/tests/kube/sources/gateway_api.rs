//! Objects of the Gateway API, with the release's own definitions: their statuses are written.

use std::time::{Duration, Instant};

use portcullis_harness::client::plain;
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::fixture::{NAMESPACE, SourceFixture, USER, printed};

pub(super) const CLASS: &str = "portcullis";
pub(super) const CLUSTER: &str = "a.example.com";
pub(super) const GROUP: &str = "gateway.networking.k8s.io";
/// The time within which requests are refused after the end of the ReferenceGrant that permitted them, as docs/gateway-api.md has it.
const GRANT_END: Duration = Duration::from_secs(1);

/// The API group and version of a kind, by the name of its resource or its own.
fn version_of(kind: &str) -> String {
    let is_ours = kind.to_lowercase().starts_with("kubernetesupstream");
    if is_ours { "portcullis.dev/v1alpha1".to_owned() } else { format!("{GROUP}/v1") }
}

/// Fails unless the first request was refused, just now, within the promised time of the end of a grant.
pub(super) fn assert_refused_in_time(what: &str, ended: Instant) {
    let took = ended.elapsed();
    eprintln!("the {what} was gone {} ms after the grant", took.as_millis());
    assert!(took <= GRANT_END * wait::deadline_factor(), "the {what} was reached for {took:?} after the grant's end");
}

/// A Kubernetes with the release's definitions, and a control plane that follows it.
pub(crate) struct Site {
    pub(crate) fixture: SourceFixture,
    pub(super) plane: ControlPlane,
}

impl Site {
    /// With definitions, rights and a control plane; none without the definitions.
    pub(crate) fn start(test: &str) -> Option<Self> {
        Self::of(test, &KubeOptions::default())
    }

    /// As [`Site::start`], with the right to read certificates in these namespaces, which need not be there before.
    pub(crate) fn start_with(test: &str, secret_namespaces: &[&str]) -> Option<Self> {
        let site = Self::start(test)?;
        for namespace in secret_namespaces {
            let name = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            site.fixture.apply(&name.to_string());
            site.grant_secrets(namespace);
        }
        Some(site)
    }

    /// Permits the control plane to read certificates of Gateways in a namespace.
    pub(crate) fn grant_secrets(&self, namespace: &str) {
        let flags = ["rbac", "--control-plane", "--namespace", NAMESPACE, "--user", USER, "--gateway-api"];
        self.fixture.apply(&printed(&[&flags[..], &["--gateway-secrets", namespace]].concat()));
    }

    pub(crate) fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// The same, of kube-apiservers like these.
    pub(super) fn of(test: &str, options: &KubeOptions) -> Option<Self> {
        Self::with_flags(test, options, &[])
    }

    /// The same, with further flags of the control plane.
    pub(super) fn with_flags(test: &str, options: &KubeOptions, more: &[&str]) -> Option<Self> {
        let found = deps::definitions().map(|dir| dir.join("gateway-api"));
        let definitions = deps::or_skip("the Gateway API", found).unwrap()?;
        let fixture = SourceFixture::of(test, options)?;
        let rights = ["rbac", "--control-plane", "--namespace", NAMESPACE, "--user", USER, "--gateway-api"];
        fixture.apply(&printed(&rights));
        let definitions = definitions.to_str().unwrap();
        fixture.kubectl(&["apply", "--server-side", "-f", definitions]).run_ok().unwrap();
        for kind in ["gatewayclasses", "gateways", "httproutes", "tlsroutes", "referencegrants"] {
            let kind = format!("{kind}.{GROUP}");
            wait::until("the kind is served", SOON, || {
                fixture.kubectl(&["get", &kind, "-A"]).run().unwrap().success().then_some(())
            })
            .unwrap();
        }
        fixture.apply(&fixture.manifest(CLUSTER).to_text());
        let flags = fixture.kubernetes_flags(&fixture.settings.display().to_string());
        let flags: Vec<&str> =
            flags.iter().map(String::as_str).chain(["--gateway-api"]).chain(more.iter().copied()).collect();
        let plane = ControlPlane::start_from(&fixture.run.make_dir("plane").unwrap(), &flags).unwrap();
        Some(Site { fixture, plane })
    }

    pub(crate) fn apply(&self, kind: &str, namespace: &str, name: &str, spec: &Value) {
        let mut metadata = json!({"name": name});
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        let object = json!({"apiVersion": version_of(kind), "kind": kind, "metadata": metadata, "spec": spec});
        self.fixture.apply(&object.to_string());
    }

    pub(super) fn get(&self, plural: &str, namespace: &str, name: &str) -> Value {
        let of = if namespace.is_empty() { String::new() } else { format!("namespaces/{namespace}/") };
        self.fixture.kube.get(&format!("/apis/{}/{of}{plural}/{name}", version_of(plural))).unwrap()
    }

    /// Waits until an object's status has these conditions of its newest version, as `Type Status Reason`, at a place.
    pub(super) fn wait(&self, object: [&str; 3], place: &str, expected: &[&str]) -> Value {
        wait::until_ok(&format!("{object:?} {place}: {expected:?}"), SOON, || {
            let found = self.get(object[0], object[1], object[2]);
            let listed = found.pointer(&format!("/status{place}/conditions")).and_then(Value::as_array).cloned();
            let newest = |one: &Value| one["observedGeneration"] == found["metadata"]["generation"];
            let text = |one: &Value| {
                let part = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
                format!("{} {} {}", part("type"), part("status"), part("reason"))
            };
            let listed: Vec<String> = listed.iter().flatten().filter(|one| newest(one)).map(text).collect();
            let has_all = expected.iter().all(|one| listed.iter().any(|known| known == one));
            if has_all { Ok(found) } else { Err(format!("{:#}", found["status"])) }
        })
        .unwrap()
    }

    /// Waits until the metrics page has these samples of objects of the Gateway API.
    fn wait_counted(&self, samples: &[&str]) {
        wait::until_ok(&format!("{samples:?}"), SOON, || {
            let page = plain::get(self.plane.http_address(), "/metrics").unwrap().text();
            let known: Vec<&str> = page.lines().filter_map(|one| one.strip_prefix("portcullis_gateway_api_")).collect();
            if samples.iter().all(|sample| known.contains(sample)) { Ok(()) } else { Err(known.join("\n")) }
        })
        .unwrap();
    }

    /// A TLSRoute at the Gateway, to a Service of its namespace.
    pub(super) fn route_of(&self, [_, namespace, name]: [&str; 3], hosts: &[&str]) {
        let spec = json!({
            "parentRefs": [{"name": "edge", "namespace": "infra"}],
            "hostnames": hosts, "rules": [{"backendRefs": [{"name": "server", "port": 443}]}],
        });
        self.apply("TLSRoute", namespace, name, &spec);
    }

    fn route(&self, cluster: &str) {
        let backends = json!([{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": cluster}]);
        let spec = json!({
            "parentRefs": [{"name": "edge", "namespace": "infra"}],
            "hostnames": ["b.example.com"], "rules": [{"backendRefs": backends}],
        });
        self.apply("TLSRoute", "team", "b", &spec);
    }
}

#[test]
fn statuses_of_the_gateway_api_are_written() {
    let Some(site) = Site::start("gateway-api") else { return };
    for namespace in ["infra", "team"] {
        site.fixture.admin(&["create", "namespace", namespace]);
    }
    let parameters = json!({"group": "portcullis.dev", "kind": "GatewaySettings", "name": "edge"});
    let class = json!({"controllerName": "portcullis.dev/gateway-controller", "parametersRef": parameters});
    site.apply("GatewayClass", "", CLASS, &class);
    site.apply("GatewayClass", "", "foreign", &json!({"controllerName": "example.com/other"}));
    let classes = ["gatewayclasses", "", CLASS];
    site.wait(classes, "", &["Accepted False InvalidParameters", "SupportedVersion True SupportedVersion"]);
    site.fixture.apply(
        &json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "edge"}, "spec": {}})
            .to_string(),
    );
    // The control plane uses settings of a file.
    let is_told = || site.get(classes[0], "", CLASS)["status"].to_string().contains("--settings-name").then_some(());
    wait::until("the class says that it has no choice of settings", SOON, is_told).unwrap();
    site.wait(classes, "", &["Accepted False InvalidParameters"]);
    site.apply("GatewayClass", "", CLASS, &json!({"controllerName": "portcullis.dev/gateway-controller"}));
    site.wait(classes, "", &["Accepted True Accepted"]);
    // The foreign class is none of these.
    let accepted = "false_conditions{kind=\"GatewayClass\",condition=\"Accepted\"} 0";
    site.wait_counted(&["objects{kind=\"GatewayClass\"} 1", accepted]);

    let selector = json!({"from": "Selector", "selector": {"matchLabels": {"tenant": "yes"}}});
    let listener = json!({
        "name": "tls", "port": 443, "protocol": "TLS", "tls": {"mode": "Passthrough"},
        "allowedRoutes": {"namespaces": selector},
    });
    site.apply("Gateway", "infra", "edge", &json!({"gatewayClassName": CLASS, "listeners": [listener]}));
    let gateway = ["gateways", "infra", "edge"];
    let found = site.wait(gateway, "", &["Accepted True Accepted", "Programmed False Pending"]);
    let conditions = found["status"]["conditions"].to_string();
    assert!(conditions.contains("no Envoy that belongs to this Gateway"), "{conditions}");
    site.wait(gateway, "/listeners/0", &["Accepted True Accepted", "Programmed False Pending"]);
    let programmed = "false_conditions{kind=\"Gateway\",condition=\"Programmed\"} 1";
    site.wait_counted(&["objects{kind=\"Gateway\"} 1", programmed]);

    site.route(CLUSTER);
    let route = ["tlsroutes", "team", "b"];
    site.wait(route, "/parents/0", &["Accepted False NotAllowedByListeners"]);
    let refused = |count: u8| format!("false_conditions{{kind=\"TLSRoute\",condition=\"Accepted\"}} {count}");
    site.wait_counted(&["objects{kind=\"TLSRoute\"} 1", &refused(1)]);
    site.fixture.admin(&["label", "namespace", "team", "tenant=yes"]);
    site.wait(route, "/parents/0", &["Accepted True Accepted", "ResolvedRefs False RefNotPermitted"]);
    let unresolved = "false_conditions{kind=\"TLSRoute\",condition=\"ResolvedRefs\"} 1";
    site.wait_counted(&[&refused(0), unresolved]);
    let from = json!([{"group": GROUP, "kind": "TLSRoute", "namespace": "team"}]);
    let to = json!([{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster"}]);
    site.apply("ReferenceGrant", NAMESPACE, "team", &json!({"from": from, "to": to}));
    site.wait(route, "/parents/0", &["Accepted True Accepted", "ResolvedRefs True ResolvedRefs"]);
    let attached = || site.get("gateways", "infra", "edge")["status"]["listeners"][0]["attachedRoutes"] == 1;
    wait::until("the route is counted", SOON, || attached().then_some(())).unwrap();

    others_are_left_alone(&site, route);
    site.fixture.admin(&["delete", "referencegrants", "team", "-n", NAMESPACE]);
    site.wait(route, "/parents/1", &["ResolvedRefs False RefNotPermitted"]);
}

#[test]
fn edited_route_takes_no_host_name_over_a_restart() {
    let Some(mut site) = Site::start("gateway-holders") else { return };
    for namespace in ["infra", "team"] {
        site.fixture.admin(&["create", "namespace", namespace]);
    }
    site.apply("GatewayClass", "", CLASS, &json!({"controllerName": "portcullis.dev/gateway-controller"}));
    let listener = json!({
        "name": "tls", "port": 443, "protocol": "TLS", "tls": {"mode": "Passthrough"},
        "allowedRoutes": {"namespaces": {"from": "All"}},
    });
    site.apply("Gateway", "infra", "edge", &json!({"gatewayClassName": CLASS, "listeners": [listener]}));
    // Within a second the first by namespace and name counts as older.
    let (old, young) = (["tlsroutes", "infra", "old"], ["tlsroutes", "team", "young"]);
    let (held, lost) = ("portcullis.dev/HostnamesHeld True Held", "portcullis.dev/HostnamesHeld False HeldByOthers");
    site.route_of(old, &["x.example.org"]);
    site.wait(old, "/parents/0", &["Accepted True Accepted", held]);
    site.route_of(young, &["held.example.org"]);
    site.wait(young, "/parents/0", &["Accepted True Accepted", held]);

    site.route_of(old, &["held.example.org", "x.example.org"]);
    let found = site.wait(old, "/parents/0", &["Accepted True Accepted", lost]).to_string();
    assert!(found.contains("held.example.org belongs to TLSRoute team/young, which had it before"), "{found}");
    site.plane.restart().unwrap();
    site.route_of(old, &["held.example.org", "*.other.example.org"]);
    site.wait(old, "/parents/0", &["Accepted True Accepted", lost]);
    site.wait(young, "/parents/0", &["Accepted True Accepted", held]);
    site.route_of(young, &["let-go.example.org"]);
    site.wait(young, "/parents/0", &["Accepted True Accepted", held]);
    site.wait(old, "/parents/0", &["Accepted True Accepted", held]);
}

/// Another controller's entry in the same status stays, and so does its class.
fn others_are_left_alone(site: &Site, route: [&str; 3]) {
    let mut parents = site.get(route[0], route[1], route[2])["status"]["parents"].as_array().unwrap().clone();
    let condition = json!({
        "type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let parent = json!({"group": GROUP, "kind": "Gateway", "name": "y"});
    let other = json!({"parentRef": parent, "controllerName": "example.com/other", "conditions": [condition]});
    parents.insert(0, other.clone());
    let path = format!("/apis/{GROUP}/v1/namespaces/{}/{}/{}", route[1], route[0], route[2]);
    site.fixture.kube.patch_status(&path, &json!({"parents": parents})).unwrap();
    site.route(CLUSTER);
    let spec = json!([{"op": "replace", "path": "/spec/hostnames", "value": ["c.example.com"]}]).to_string();
    site.fixture.admin(&["patch", "tlsroute", route[2], "-n", route[1], "--type=json", "-p", &spec]);
    let found = site.wait(route, "/parents/1", &["Accepted True Accepted"]);
    assert_eq!(found["status"]["parents"][0], other);
    let foreign = site.get("gatewayclasses", "", "foreign");
    let conditions = foreign["status"]["conditions"].as_array().cloned().unwrap_or_default();
    assert!(conditions.iter().all(|one| one["reason"] == "Pending"), "{foreign:#}");
}
