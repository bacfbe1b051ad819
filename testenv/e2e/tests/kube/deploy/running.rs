//! The manifests in operation: pods as declared, with the rights of their ServiceAccounts and nothing else.

use std::net::SocketAddr;
use std::time::Duration;

use portcullis_harness::certs::{Ca, CertSpec, Identity, Usage};
use portcullis_harness::client::plain;
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::process::Signal;
use portcullis_harness::{deps, ports, wait};
use serde_json::{Value, json};

use crate::container::{account, possible};

use super::apply::Cluster;
use super::chart::{Helm, Release};
use super::monitoring;
use super::pod::{Placed, Pod};
use super::rendered::{Naming, Rendered, documents, strings};

pub(super) const SOON: Duration = Duration::from_secs(30);
pub(super) const NAME: &str = "prod.example.com";

/// The addresses on loopback: two control planes at one port of two addresses, as behind one name.
pub(super) struct Place {
    xds: u16,
    pub(super) listener: SocketAddr,
    planes: [SocketAddr; 2],
    gateway: SocketAddr,
}

impl Place {
    fn new() -> Self {
        let free = || ports::free_address().unwrap();
        let second = SocketAddr::from(([127, 0, 0, 2], free().port()));
        Place { xds: free().port(), listener: free(), planes: [free(), second], gateway: free() }
    }

    fn hosts(&self, names: &Naming) -> String {
        let name = format!("{}.{}.svc", names.control_plane(), names.namespace);
        format!("127.0.0.1 localhost\n127.0.0.1 {name}\n127.0.0.2 {name}\n")
    }
}

pub(super) struct Fixture {
    pub(super) cluster: Cluster,
    pub(super) rendered: Rendered,
    pub(super) place: Place,
    pub(super) serving_ca: Ca,
}

impl Fixture {
    fn of_manifests(test: &str) -> Option<Self> {
        let complete = Rendered::of("overlays/complete")?;
        Self::start(test, Rendered::of("base")?, &complete)
    }

    /// Of a release whose name and namespace are not the default ones, with instances and policies.
    fn of_chart(test: &str) -> Option<Self> {
        let values = json!({"instances": {"enabled": true}, "policies": {"enabled": true}});
        Self::of_values(test, &values)
    }

    /// Of a release with these values, in a cluster with the definitions of the Gateway API.
    pub(super) fn of_values(test: &str, values: &Value) -> Option<Self> {
        let helm = Helm::find(test)?;
        let found = deps::definitions().map(|dir| dir.join("gateway-api"));
        let definitions = deps::or_skip("the Gateway API", found).unwrap()?;
        let release = Release { name: "edge", namespace: "gateways" };
        let mut with_certificates = values.clone();
        with_certificates["certManager"] = json!({"enabled": true});
        let complete = helm.render(release, &with_certificates);
        let fixture = Self::start(test, helm.render(release, values), &complete)?;
        let definitions = definitions.to_str().unwrap();
        fixture.cluster.kubectl(&["apply", "--server-side", "-f", definitions]).run_ok().unwrap();
        let kinds = ["referencegrants", "gateways", "httproutes", "instances", "flowcontrolpolicies"];
        kinds.iter().for_each(|kind| fixture.cluster.wait_kind(kind));
        Some(fixture)
    }

    /// `complete` has Certificates.
    fn start(test: &str, rendered: Rendered, complete: &Rendered) -> Option<Self> {
        let cluster = Cluster::start(test)?;
        if !possible(test) {
            return None;
        }
        cluster.make_namespace(&rendered.names.namespace);
        cluster.apply("rendered", &rendered.text);
        cluster.wait_kind("upstreamclusters");
        let serving_ca = Ca::new("gateway serving authority").unwrap();
        let fixture = Fixture { cluster, rendered, place: Place::new(), serving_ca };
        fixture.make_xds_certificates(complete);
        fixture.change_settings();
        Some(fixture)
    }

    /// As cert-manager would, by the Certificates of the component.
    fn make_xds_certificates(&self, complete: &Rendered) {
        let ca = Ca::new("portcullis-xds").unwrap();
        for wanted in complete.all("Certificate").filter(|one| one["spec"]["isCA"].is_null()) {
            let spec = &wanted["spec"];
            let usages = strings(&spec["usages"]).into_iter().map(|usage| match usage {
                "server auth" => Usage::Server,
                "client auth" => Usage::Client,
                other => panic!("{other}"),
            });
            let mut issued = CertSpec::new("").usages(usages);
            issued.common_names.clear();
            issued.dns = strings(&spec["dnsNames"]).into_iter().map(str::to_owned).collect();
            let identity = ca.issue(&issued).unwrap();
            self.secret(spec["secretName"].as_str().unwrap(), &identity, Some(&ca), None);
        }
    }

    /// A Secret, as `kubectl create secret` makes it.
    pub(super) fn secret(&self, name: &str, identity: &Identity, ca: Option<&Ca>, label: Option<&str>) {
        let mut data = json!({"tls.crt": identity.pem(), "tls.key": identity.key_pem()});
        if let Some(ca) = ca {
            data["ca.crt"] = json!(ca.pem());
        }
        self.object(name, "kubernetes.io/tls", &data, label);
    }

    fn object(&self, name: &str, kind: &str, data: &Value, label: Option<&str>) {
        let labels = label.map_or(json!({}), |name| json!({"portcullis.dev/upstream-cluster": name}));
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": kind, "stringData": data,
            "metadata": {"name": name, "namespace": self.rendered.names.namespace, "labels": labels},
        });
        self.cluster.apply(name, &secret.to_string());
    }

    /// Loopback in the place of a cluster's network.
    fn change_settings(&self) {
        let name = format!("{}-settings", self.rendered.names.prefix);
        let object = self.rendered.get("ConfigMap", &name);
        let text = object["data"]["settings.yaml"].as_str().unwrap();
        let mut settings: Value = serde_saphyr::from_str(text).unwrap();
        settings["spec"]["listener"] = json!({"address": "127.0.0.1", "port": self.place.listener.port()});
        settings["spec"]["allowLoopbackUpstreams"] = json!(true);
        let mut changed = object.clone();
        changed["data"]["settings.yaml"] = json!(settings.to_string());
        self.cluster.apply("settings", &changed.to_string());
    }

    pub(super) fn plane(&self, index: usize) -> Pod {
        let http = self.place.planes[index];
        let replaced = [
            ("0.0.0.0:9443".to_owned(), format!("{}:{}", http.ip(), self.place.xds)),
            ("0.0.0.0:9080".to_owned(), http.to_string()),
        ];
        let name = format!("plane-{index}");
        let placed = Placed { name: &name, replaced: &replaced, http, hosts: &self.place.hosts(&self.rendered.names) };
        Pod::start(&self.cluster, &self.rendered, &self.rendered.names.control_plane(), &placed)
    }

    fn gateway(&self) -> Pod {
        self.envoy(&self.rendered.names.gateway(), "gateway-0", self.place.gateway)
    }

    /// A pod of a Deployment of Envoys, with its health page at an address.
    pub(super) fn envoy(&self, deployment: &str, name: &str, http: SocketAddr) -> Pod {
        let admin = format!("--http-address={http}\n--admin-address={}", ports::free_address().unwrap());
        let replaced = [
            (".svc:9443".to_owned(), format!(".svc:{}", self.place.xds)),
            ("--http-address=0.0.0.0:9081".to_owned(), admin),
            // No load balancer has to notice.
            ("--shutdown-delay=10s".to_owned(), "--shutdown-delay=1s".to_owned()),
        ];
        let placed = Placed { name, replaced: &replaced, http, hosts: &self.place.hosts(&self.rendered.names) };
        Pod::start(&self.cluster, &self.rendered, deployment, &placed)
    }

    /// The example, with this Kubernetes as its servers, and the Secrets to which it refers.
    fn apply_example(&self) {
        self.apply_example_with(&json!({}));
    }

    /// The same, with labels.
    pub(super) fn apply_example_with(&self, labels: &Value) {
        let user = |name: &str| self.cluster.kube.client_ca().issue(&CertSpec::client(name, [""; 0])).unwrap();
        let serving = self.serving_ca.issue(&CertSpec::server(NAME, [NAME])).unwrap();
        self.secret("prod-serving", &serving, None, Some(NAME));
        self.secret("prod-client", &user("system:portcullis"), None, Some(NAME));
        let authority = |ca: &Ca| json!({"ca.crt": ca.pem()});
        self.object("prod-users", "Opaque", &authority(self.cluster.kube.client_ca()), Some(NAME));
        self.object("prod-servers", "Opaque", &authority(self.cluster.kube.server_ca()), Some(NAME));
        let path = portcullis_harness::project_root().join("deploy/kubernetes/examples/impersonate.yaml");
        let mut example = documents(&std::fs::read_to_string(path).unwrap()).remove(0);
        let server = format!("https://{}", self.cluster.kube.address(0).unwrap());
        example["spec"]["servers"] = json!([{"endpoint": server}]);
        example["metadata"]["labels"] = labels.clone();
        self.cluster.apply("example", &example.to_string());
        self.cluster.apply_rendered("target/impersonate");
    }

    fn has_flag(&self, flag: &str) -> bool {
        strings(&self.rendered.container(&self.rendered.names.control_plane())["args"]).contains(&flag)
    }

    fn condition(&self, kind: &str) -> String {
        let object = self.cluster.kubectl(&["get", "upstreamcluster", NAME]).json().unwrap();
        let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().find(|one| one["type"] == kind).map(ToString::to_string).unwrap_or_default()
    }

    pub(super) fn wait(&self, kind: &str, words: &[&str]) {
        wait::until_ok(kind, SOON, || {
            let told = self.condition(kind);
            if words.iter().any(|words| told.contains(words)) { Ok(()) } else { Err(told) }
        })
        .unwrap();
    }

    /// Instances and policies have a status.
    fn judges_instances_and_policies(&self) {
        let team = json!({"clustersSelector": {"matchLabels": {"team": "a"}}});
        let target = json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": "gone.example.com"});
        let fewer =
            json!({"flowControl": {"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": 1}}]}});
        for (kind, plural, spec, wanted) in [
            ("Instance", "instances", team, r#""reason":"NoEnvoys""#),
            (
                "FlowControlPolicy",
                "flowcontrolpolicies",
                json!({"targetRefs": [target], "overrides": fewer}),
                r#""reason":"TargetNotFound""#,
            ),
        ] {
            let mut object = json!({
                "apiVersion": "portcullis.dev/v1alpha1", "kind": kind, "metadata": {"name": "team-a"}, "spec": spec,
            });
            let namespace = &self.rendered.names.namespace;
            if kind != "Instance" {
                object["metadata"]["namespace"] = json!(namespace);
            }
            self.cluster.apply(plural, &object.to_string());
            wait::until_ok(kind, SOON, || {
                let stored = self.cluster.kubectl(&["get", plural, "team-a", "-n", namespace]).json().unwrap();
                let status = stored["status"].to_string();
                if status.contains(wanted) { Ok(()) } else { Err(status) }
            })
            .unwrap();
        }
    }

    fn whoami(&self) -> String {
        self.whoami_at(self.place.listener, NAME)
    }

    /// The user that the cluster sees when alice asks for it by a host name.
    pub(super) fn whoami_at(&self, address: SocketAddr, host: &str) -> String {
        let alice = self.cluster.kube.client_ca().issue(&CertSpec::client("alice", ["dev"])).unwrap();
        let server = format!("https://{address}");
        let kubeconfig = Kubeconfig::new(server).ca(&self.serving_ca).tls_server_name(host).identity(&alice);
        let path = kubeconfig.write(&self.cluster.run.join("alice")).unwrap();
        let told = self.cluster.kube.kubectl(&path).args(["auth", "whoami"]).json().unwrap();
        told["status"]["userInfo"]["username"].as_str().unwrap().to_owned()
    }
}

fn leads(address: SocketAddr) -> bool {
    let status: Value = plain::get(address, "/status").unwrap().json().unwrap();
    status["source"]["leader"] == true
}

#[test]
fn pods_of_the_manifests_serve_a_cluster() {
    let Some(fixture) = Fixture::of_manifests("pods") else { return };
    serves_a_cluster(&fixture);
}

#[test]
fn pods_of_the_chart_serve_a_cluster() {
    let Some(fixture) = Fixture::of_chart("chart-pods") else { return };
    serves_a_cluster(&fixture);
}

fn serves_a_cluster(fixture: &Fixture) {
    let planes = [fixture.plane(0), fixture.plane(1)];
    planes.iter().for_each(|plane| plane.wait("/readyz"));
    let one_leads = || (fixture.place.planes.map(leads).into_iter().filter(|leads| *leads).count() == 1).then_some(());
    wait::until("one of them leads", SOON, one_leads).unwrap();
    let gateway = fixture.gateway();
    gateway.wait("/readyz");
    for pod in planes.iter().chain([&gateway]) {
        is_confined(pod);
    }
    fixture.apply_example();
    fixture.wait("Accepted", &[r#""status":"True""#]);
    // Envoy may follow the replica that does not write: then the one that does knows of it by the agent's report alone.
    fixture.wait("Programmed", &[r#""status":"True""#, r#""reason":"OtherReplicas""#]);
    fixture.wait("Ready", &[r#""status":"True""#]);
    assert_eq!(fixture.whoami(), "alice");
    if fixture.has_flag("--instances") {
        fixture.judges_instances_and_policies();
    }
    metrics_are_complete(fixture.place.gateway);
    let plane = the_other_takes_over(fixture, planes);
    ends_in_order(&gateway, &plane);
}

/// The metrics that the dashboard and the alerts ask of a gateway exist; counts come with a second's delay, histograms with
/// five.
fn metrics_are_complete(address: SocketAddr) {
    wait::until_ok("all metrics are served", SOON, || {
        let missing = monitoring::missing(&plain::get(address, "/metrics").unwrap().text());
        if missing.is_empty() { Ok(()) } else { Err(missing.join(" ")) }
    })
    .unwrap();
}

pub(super) fn is_confined(pod: &Pod) {
    let account = |field: &str| account(pod.process.pid(), field);
    assert_eq!((account("CapEff"), account("NoNewPrivs")), ("0000000000000000".to_owned(), "1".to_owned()));
    assert_ne!(account("Uid").split(' ').next(), Some("0"));
    assert_eq!(pod.page("/healthz").unwrap(), 200);
}

/// The leader ends: the other replica takes Lease and gateway over.
fn the_other_takes_over(fixture: &Fixture, planes: [Pod; 2]) -> Pod {
    let [first, second] = planes;
    let first_leads = leads(fixture.place.planes[0]);
    let (leader, other, place) = if first_leads { (first, second, 1) } else { (second, first, 0) };
    leader.process.signal(Signal::Term).unwrap();
    assert!(leader.process.wait_exit(SOON).unwrap().success(), "{}", leader.process.log());
    wait::until("the other leads", SOON, || leads(fixture.place.planes[place]).then_some(())).unwrap();
    fixture.wait("Programmed", &[r#""status":"True""#]);
    other
}

fn ends_in_order(gateway: &Pod, plane: &Pod) {
    gateway.process.signal(Signal::Term).unwrap();
    let unready = || (gateway.page("/readyz").ok() == Some(503)).then_some(());
    wait::until("it is no longer ready", SOON, unready).unwrap();
    gateway.process.wait_exit(SOON * 2).unwrap();
    plane.process.signal(Signal::Term).unwrap();
    assert!(plane.process.wait_exit(SOON).unwrap().success(), "{}", plane.process.log());
}
