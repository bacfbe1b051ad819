//! `KubernetesUpstreams` of a tenant: users are there whom they are at an `UpstreamCluster`, and the tenant's namespace permits who leads
//! there.

use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_harness::client::H2Client;
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::gateway_api::{CLUSTER, GROUP, assert_refused_in_time};
use super::gateway_https::{HttpsSite, JUDGED, dump};
use super::gateway_policies::{apply_policy, wait_accepted};
use super::steady_requests::SteadyRequests;

pub(super) const UPSTREAM: [&str; 3] = ["kubernetesupstreams", "team", "prod"];
const OWN: &str = "tenant.example.com";
const FOREIGN: &str = "foreign.example.com";
/// The end of the name of the gateway's credential at the upstream's servers.
const CREDENTIAL: &str = "/team/prod/client";

pub(super) struct UpstreamSite(pub(super) HttpsSite);

impl UpstreamSite {
    /// A tenant's upstream with the same servers as the cluster, and a route of its namespace that leads there.
    pub(super) fn start(test: &str) -> Option<Self> {
        Self::start_with(test, &[])
    }

    /// The same, with further flags of the control plane, each with the rights for it.
    fn start_with(test: &str, flags: &[&str]) -> Option<Self> {
        let this = Self(HttpsSite::start_with(test, flags)?);
        let HttpsSite { site, .. } = &this.0;
        site.fixture.admin(&["create", "namespace", "other"]);
        site.grant_secrets("team");
        this.secret(Some("prod"));
        for (name, ca) in [("servers", site.fixture.kube.server_ca()), ("clients", site.fixture.kube.client_ca())] {
            this.apply_core("ConfigMap", name, &json!({"data": {"ca.crt": ca.pem()}}));
        }
        this.upstream();
        this.grant("gateways", "Gateway", "infra");
        this.route("team", OWN);
        Some(this)
    }

    fn apply_core(&self, kind: &str, name: &str, fields: &Value) {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "team"}});
        for (field, value) in fields.as_object().unwrap() {
            match value.as_object().filter(|_| field == "metadata") {
                Some(more) => object["metadata"].as_object_mut().unwrap().extend(more.clone()),
                None => object[field] = value.clone(),
            }
        }
        self.0.site.fixture.apply(&object.to_string());
    }

    /// The gateway's credential, with the label for an upstream or without.
    fn secret(&self, owner: Option<&str>) {
        let gateway = &self.0.site.fixture.gateway;
        let data = json!({"tls.crt": STANDARD.encode(gateway.pem()), "tls.key": STANDARD.encode(gateway.key_pem())});
        let labels = match owner {
            Some(owner) => json!({"portcullis.dev/kubernetes-upstream": owner}),
            None => json!({}),
        };
        self.apply_core("Secret", "gateway", &json!({"metadata": {"labels": labels}, "data": data}));
    }

    fn upstream(&self) {
        let servers = self.0.site.fixture.kube.apiservers().iter();
        let servers: Vec<Value> =
            servers.map(|one| json!({"endpoint": format!("https://{}", one.address())})).collect();
        let map = |name: &str| json!({"configMap": {"name": name}});
        let spec = json!({
            "servers": servers, "serverName": "kubernetes.default.svc",
            "references": {
                "upstreamCA": map("servers"), "clientCA": map("clients"), "client": {"secret": {"name": "gateway"}},
            },
        });
        self.0.site.apply("KubernetesUpstream", "team", "prod", &spec);
    }

    fn route(&self, namespace: &str, host: &str) {
        let backend =
            json!({"group": "portcullis.dev", "kind": "KubernetesUpstream", "namespace": "team", "name": "prod"});
        self.0.bind("HTTPRoute", [namespace, "upstream"], host, &json!([{"backendRefs": [backend]}]));
    }

    /// A permission of the tenant's.
    fn grant(&self, name: &str, kind: &str, namespace: &str) {
        let to = json!({"group": "portcullis.dev", "kind": "KubernetesUpstream", "name": "prod"});
        self.0.permit(["team", name], &[(kind, namespace)], &to);
    }

    fn revoke(&self, name: &str) {
        self.0.site.fixture.admin(&["delete", &format!("referencegrants.{GROUP}"), "-n", "team", name]);
    }
}

#[test]
fn users_of_a_tenants_upstream_are_those_of_the_cluster() {
    let Some(UpstreamSite(gateway)) = UpstreamSite::start("gateway-upstream") else { return };
    let site = &gateway.site;
    let ordinary = gateway.envoy("ordinary", &[]);
    let edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    ordinary.wait_listening(site.fixture.address, SOON).unwrap();
    site.wait(UPSTREAM, "", &["Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Ready True Ready"]);
    site.wait(["httproutes", "team", "upstream"], "/parents/0", &["ResolvedRefs True ResolvedRefs"]);
    gateway.wait_status(OWN, Some(200));
    gateway.wait_status(JUDGED, Some(200));

    site.fixture.admin(&["create", "serviceaccount", "robot"]);
    let token = site.fixture.admin(&["create", "token", "robot"]).trim().to_owned();
    type With<'a> = Box<dyn Fn(Kubeconfig) -> Kubeconfig + 'a>;
    let credentials: [With<'_>; 2] =
        [Box::new(|kubeconfig| kubeconfig.identity(&gateway.alice)), Box::new(|kubeconfig| kubeconfig.token(&token))];
    for with in &credentials {
        let of_cluster = gateway.user(site.fixture.address, CLUSTER, with);
        assert_eq!(gateway.user(gateway.address, OWN, with), of_cluster, "groups and extras included");
    }
    // Both are behind one Gateway, and neither takes a name of the other's.
    let of_edge = dump(&edge);
    assert!(of_edge.contains(CREDENTIAL) && of_edge.contains(&format!("/-/{CLUSTER}/client")));
    assert!(!dump(&ordinary).contains("/team/prod/"), "Envoys of UpstreamClusters have nothing of it");
    // The filter writes them once a second.
    let has_labels = || {
        let metrics = edge.admin().get("/stats/prometheus").ok()?.text();
        let labels = ["cluster=\"team/prod\"".to_owned(), format!("cluster=\"{CLUSTER}\"")];
        labels.iter().all(|label| metrics.contains(label)).then_some(())
    };
    wait::until("metrics of both", SOON, has_labels).unwrap();
}

#[test]
fn upstream_is_reached_as_long_as_its_namespace_grants_it() {
    let Some(upstream) = UpstreamSite::start("gateway-upstream-grants") else { return };
    let UpstreamSite(gateway) = &upstream;
    let site = &gateway.site;
    let edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    gateway.wait_status(OWN, Some(200));
    let foreign = ["httproutes", "other", "upstream"];
    upstream.route("other", FOREIGN);
    site.wait(foreign, "/parents/0", &["Accepted True Accepted", "ResolvedRefs False RefNotPermitted"]);
    gateway.wait_status(FOREIGN, Some(500));
    upstream.grant("routes", "HTTPRoute", "other");
    site.wait(foreign, "/parents/0", &["ResolvedRefs True ResolvedRefs"]);
    gateway.wait_status(FOREIGN, Some(200));
    let others = [
        SteadyRequests::start(&gateway.target(JUDGED)),
        // Connections of before keep their chain, whose names have changed, for the drain time.
        SteadyRequests::on_new_connections(&gateway.target(OWN)),
    ];
    others.iter().for_each(|requests| requests.wait_for(20));
    upstream.revoke("routes");
    let revoked = Instant::now();
    gateway.wait_status(FOREIGN, Some(500));
    assert_refused_in_time("upstream", revoked);
    others.iter().for_each(|requests| requests.wait_for(20));
    others.into_iter().for_each(SteadyRequests::none_failed);

    upstream.revoke("gateways");
    gateway.wait_status(OWN, Some(500));
    gateway.wait_status(JUDGED, Some(200));
    site.wait(["httproutes", "team", "upstream"], "/parents/0", &["ResolvedRefs False RefNotPermitted"]);
    site.wait(UPSTREAM, "", &["Accepted True Accepted", "Ready False NoRoute"]);
    // Connections of before keep their chain for the drain time, with the public CA of its clients.
    let is_gone = || (!dump(&edge).replace("/client-validation", "").contains(CREDENTIAL)).then_some(());
    wait::until("the credential is gone from the Gateway's Envoy", SOON, is_gone).unwrap();
}

#[test]
fn secret_without_a_label_is_shown_to_no_server() {
    let Some(upstream) = UpstreamSite::start("gateway-upstream-secret") else { return };
    let UpstreamSite(gateway) = &upstream;
    let site = &gateway.site;
    let _edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    gateway.wait_status(OWN, Some(200));
    for owner in [Some("another"), None] {
        upstream.secret(owner);
        site.wait(UPSTREAM, "", &["ResolvedRefs False RefNotResolved", "Ready False Invalid"]);
        gateway.wait_status(OWN, Some(500));
    }
    upstream.secret(Some("prod"));
    gateway.wait_status(OWN, Some(200));
    // Names are resolved too late, and each server is verified.
    for (field, value) in [("servers", json!([{"endpoint": "https://prod.example.com"}])), ("serverName", json!(""))] {
        let patch = json!({"spec": {field: value}}).to_string();
        let refused = ["patch", "kubernetesupstreams", "-n", "team", "prod", "--type", "merge", "-p", &patch];
        let refused = site.fixture.kubectl(&refused).run().unwrap();
        let is_here = field == "servers";
        assert_eq!(refused.success(), !is_here, "{field}: {}", refused.stderr);
    }
    site.wait(UPSTREAM, "", &["Accepted False Invalid"]);
    gateway.wait_status(OWN, Some(500));
}

/// Dispatch policies and limits of the tenant's namespace: in the filter, in conditions and in metrics as those of a cluster.
#[test]
fn policies_of_a_tenants_upstream_limit_its_requests() {
    let Some(upstream) = UpstreamSite::start_with("gateway-upstream-policies", &["--policies"]) else { return };
    let UpstreamSite(gateway) = &upstream;
    let edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    gateway.wait_status(OWN, Some(200));
    let target = json!({"group": "portcullis.dev", "kind": "KubernetesUpstream", "name": "prod"});
    let [limits, dispatch] = [["team", "limits"], ["team", "dispatch"]];
    let limit = |max: u32| json!({"flowControl": {"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": max}}]}});
    let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]}]);
    let denial =
        json!({"rules": [{"verbs": ["*"], "nonResourceURLs": ["/healthz"]}], "portcullis": {"action": "Deny"}});
    let policies = json!({"dispatchPolicies": [denial, {"rules": all, "flowControlSchemaName": "few"}]});

    // A limit that is not there takes the routes' backend away, and says so at each object.
    apply_policy(gateway, "DispatchPolicy", dispatch, &target, &policies);
    wait_accepted(gateway, "dispatchpolicies", dispatch, "False Invalid");
    gateway.site.wait(UPSTREAM, "", &["Accepted False Invalid"]);
    gateway.site.wait(["httproutes", "team", "upstream"], "/parents/0", &["ResolvedRefs False TerminationRefused"]);
    gateway.wait_status(OWN, Some(500));
    apply_policy(gateway, "FlowControlPolicy", limits, &target, &limit(1));
    wait_accepted(gateway, "flowcontrolpolicies", limits, "True Accepted");
    wait_accepted(gateway, "dispatchpolicies", dispatch, "True Accepted");
    gateway.wait_status(OWN, Some(200));
    let affected =
        ["Dispatch", "FlowControl"].map(|kind| format!("portcullis.dev/{kind}PolicyAffected True PolicyAffected"));
    gateway.site.wait(UPSTREAM, "", &affected.each_ref().map(String::as_str));

    let target_of_admin = gateway.target(OWN).identity(gateway.site.fixture.kube.admin());
    let client = H2Client::connect(&target_of_admin).unwrap().authority(OWN);
    assert_eq!(client.get("/healthz", &[]).unwrap().status, 403);
    let watch = client.open("GET", "/api/v1/namespaces/default/configmaps?watch=true", &[], b"").unwrap();
    assert_eq!(watch.response.status, 200);
    assert_eq!(client.get("/version", &[]).unwrap().status, 429, "one is in flight");
    // More room, and a door that takes it away again.
    apply_policy(gateway, "FlowControlPolicy", limits, &target, &limit(5));
    gateway.wait_status(OWN, Some(200));
    let route = json!({"group": GROUP, "kind": "HTTPRoute", "name": "upstream"});
    apply_policy(gateway, "FlowControlPolicy", ["team", "door"], &route, &limit(1));
    gateway.wait_status(OWN, Some(429));
    drop(watch);
    gateway.wait_status(OWN, Some(200));
    // The filter writes them once a second.
    let has_limit = || {
        let metrics = edge.admin().get("/stats/prometheus").ok()?.text();
        let is_it = |line: &str| line.contains("cluster=\"team/prod\"") && line.contains("schema=\"few\"");
        metrics.lines().any(is_it).then_some(())
    };
    wait::until("metrics of the limit", SOON, has_limit).unwrap();

    // The upstream alone decides about users.
    apply_policy(gateway, "UpstreamIdentityPolicy", ["team", "users"], &target, &json!({"allowAnonymous": false}));
    wait_accepted(gateway, "upstreamidentitypolicies", ["team", "users"], "False Invalid");
    // Connections are not passed on.
    let backend = json!({"group": "portcullis.dev", "kind": "KubernetesUpstream", "name": "prod"});
    gateway.bind("TLSRoute", ["team", "passed"], "passed.example.com", &json!([{"backendRefs": [backend]}]));
    gateway.site.wait(["tlsroutes", "team", "passed"], "/parents/0", &["ResolvedRefs False InvalidKind"]);
}
