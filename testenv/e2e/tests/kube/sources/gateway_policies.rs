//! Policies at Gateways, listeners and HTTPRoutes: what they deny is denied by that door alone.

use portcullis_harness::client::{H2Client, H2Stream, TlsTarget};
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::gateway_api::{CLUSTER, GROUP};
use super::gateway_https::{HttpsSite, JUDGED, NEIGHBOUR};

const KINDS: &str = "portcullis.dev/v1alpha1";
const WATCHED: &str = "/api/v1/namespaces/default/configmaps?watch=true";

struct DoorSite(HttpsSite);

/// Applies a policy with overrides.
pub(super) fn apply_policy(site: &HttpsSite, kind: &str, name: [&str; 2], target: &Value, fields: &Value) {
    let [namespace, name] = name;
    let metadata = json!({"name": name, "namespace": namespace});
    let spec = json!({"targetRefs": [target], "overrides": fields});
    let object = json!({"apiVersion": KINDS, "kind": kind, "metadata": metadata, "spec": spec});
    site.site.fixture.apply(&object.to_string());
}

/// Waits for the condition `Accepted` of a policy, as `Status Reason`.
pub(super) fn wait_accepted(site: &HttpsSite, plural: &str, name: [&str; 2], expected: &str) {
    let [namespace, name] = name;
    let path = format!("/apis/{KINDS}/namespaces/{namespace}/{plural}/{name}");
    wait::until_ok(&format!("{name} is {expected}"), SOON, || {
        let found = site.site.fixture.kube.get(&path).unwrap();
        let condition = &found["status"]["ancestors"][0]["conditions"][0];
        let part = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        let said = format!("{} {}", part("status"), part("reason"));
        if said == expected { Ok(()) } else { Err(format!("{:#}", found["status"])) }
    })
    .unwrap();
}

impl DoorSite {
    /// Two routes to the cluster, its Gateway's Envoy and an ordinary one.
    fn start(test: &str) -> Option<Self> {
        let site = HttpsSite::start_with(test, &["--policies"])?;
        site.route("neighbour", NEIGHBOUR, &json!({}));
        Some(Self(site))
    }

    fn denies(&self, (namespace, name): (&str, &str), target: &Value, path: &str) {
        let denial = json!({"rules": [{"verbs": ["*"], "nonResourceURLs": [path]}], "portcullis": {"action": "Deny"}});
        self.apply("DispatchPolicy", (namespace, name), target, &json!({"dispatchPolicies": [denial]}));
    }

    fn apply(&self, kind: &str, (namespace, name): (&str, &str), target: &Value, fields: &Value) {
        apply_policy(&self.0, kind, [namespace, name], target, fields);
    }

    fn delete(&self, (namespace, name): (&str, &str)) {
        self.0.site.fixture.admin(&["delete", "dispatchpolicies", name, "-n", namespace]);
    }

    fn accepted(&self, plural: &str, (namespace, name): (&str, &str), expected: &str) {
        wait_accepted(&self.0, plural, [namespace, name], expected);
    }

    /// Waits for the answers of both routes to `/version`. The cluster's own name is served as ever.
    fn answers(&self, judged: u16, neighbour: u16) {
        self.0.wait_status(JUDGED, Some(judged));
        self.0.wait_status(NEIGHBOUR, Some(neighbour));
        let fixture = &self.0.site.fixture;
        let itself = TlsTarget::new(fixture.address).sni(CLUSTER).trust(&fixture.serving_ca).identity(&self.0.alice);
        let answer = H2Client::connect(&itself).unwrap().get("/version", &[]).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    fn affected(&self, object: [&str; 3], place: &str) -> bool {
        let found = self.0.site.get(object[0], object[1], object[2]);
        found["status"].pointer(place).is_some_and(|part| part.to_string().contains("DispatchPolicyAffected"))
    }
}

#[test]
fn policy_at_a_door_denies_by_that_door_alone() {
    let Some(site) = DoorSite::start("gateway-policies") else { return };
    let ordinary = site.0.envoy("ordinary", &[]);
    let _edge = site.0.envoy("edge", &["--gateway", "infra/edge"]);
    ordinary.wait_listening(site.0.site.fixture.address, SOON).unwrap();
    site.answers(200, 200);
    let open = H2Client::connect(&site.0.target(JUDGED)).unwrap().authority(JUDGED);
    assert_eq!(open.get("/version", &[]).unwrap().status, 200);

    // The tenant's own route, without a grant.
    let (tenant, route) = (("team", "tight"), json!({"group": GROUP, "kind": "HTTPRoute", "name": "route"}));
    site.denies(tenant, &route, "/version");
    site.answers(403, 200);
    assert_eq!(open.get("/version", &[]).unwrap().status, 403, "on a connection of before, too");
    assert_eq!(open.get("/healthz", &[]).unwrap().status, 200);
    site.accepted("dispatchpolicies", tenant, "True Accepted");
    let routes = ["httproutes", "team", "route"];
    site.0.site.wait(routes, "/parents/0", &["portcullis.dev/DispatchPolicyAffected True PolicyAffected"]);
    assert!(!site.affected(["httproutes", "team", "neighbour"], "/parents/0"));
    site.delete(tenant);
    site.answers(200, 200);
    assert_eq!(open.get("/version", &[]).unwrap().status, 200);
    let gone = || (!site.affected(routes, "/parents/0")).then_some(());
    wait::until("nothing affects the route", SOON, gone).unwrap();

    // A listener, by the namespace of its Gateway.
    let operator = ("infra", "listener");
    let listener = |name: &str| json!({"group": GROUP, "kind": "Gateway", "name": "edge", "sectionName": name});
    site.denies(operator, &listener("none"), "/version");
    site.accepted("dispatchpolicies", operator, "False TargetNotFound");
    site.answers(200, 200);
    site.denies(operator, &listener("https"), "/version");
    site.answers(403, 403);
    site.accepted("dispatchpolicies", operator, "True Accepted");
    site.0.site.wait(
        ["gateways", "infra", "edge"],
        "/listeners/0",
        &["portcullis.dev/DispatchPolicyAffected True PolicyAffected"],
    );
    site.delete(operator);
    site.answers(200, 200);

    // About users the cluster alone decides.
    let users = ("infra", "users");
    let gateway = json!({"group": GROUP, "kind": "Gateway", "name": "edge"});
    site.apply("UpstreamIdentityPolicy", users, &gateway, &json!({"allowAnonymous": false}));
    site.accepted("upstreamidentitypolicies", users, "False Invalid");
    site.answers(200, 200);
}

/// A watch; its answer has begun.
fn watch(client: &H2Client) -> H2Stream<'_> {
    let open = || client.open("GET", WATCHED, &[], b"").ok().filter(|stream| stream.response.status == 200);
    wait::until("the watch is let in", SOON, open).unwrap()
}

/// Of `kubectl --tls-server-name` the authority is an address, which names no route.
#[test]
fn first_policy_of_a_door_ends_watches_by_address() {
    let Some(site) = DoorSite::start("gateway-watches") else { return };
    let _edge = site.0.envoy("edge", &["--gateway", "infra/edge"]);
    for host in [JUDGED, NEIGHBOUR] {
        site.0.wait_status(host, Some(200));
    }
    let fixture = &site.0.site.fixture;
    fixture.admin(&["create", "clusterrole", "watches", "--verb=watch", "--resource=configmaps"]);
    fixture.admin(&["create", "clusterrolebinding", "alice-watches", "--clusterrole=watches", "--user=alice"]);
    let address = site.0.address.to_string();
    let connect = |name, authority| H2Client::connect(&site.0.target(name)).unwrap().authority(authority);
    let [by_name, by_address, neighbour] =
        [connect(JUDGED, JUDGED), connect(JUDGED, &address), connect(NEIGHBOUR, &address)];
    let denied = json!({"verbs": ["watch"], "apiGroups": [""], "resources": ["configmaps"]});
    let fields = json!({"dispatchPolicies": [{"rules": [denied], "portcullis": {"action": "Deny"}}]});
    let read_end = |mut watch: H2Stream<'_>| while watch.next_chunk(SOON).unwrap().is_some() {};

    let watches = [&by_name, &by_address].map(watch);
    let mut others = watch(&neighbour);
    let (tenant, route) = (("team", "tight"), json!({"group": GROUP, "kind": "HTTPRoute", "name": "route"}));
    site.apply("DispatchPolicy", tenant, &route, &fields);
    watches.into_iter().for_each(read_end);
    assert_eq!(by_name.get(WATCHED, &[]).unwrap().status, 403);
    fixture.admin(&["create", "configmap", "news"]);
    let mut seen = String::new();
    while !seen.contains("\"news\"") {
        let chunk = others.next_chunk(SOON).unwrap().expect("the watch by another route's name goes on");
        seen.push_str(&String::from_utf8_lossy(&chunk));
    }

    let gateway = json!({"group": GROUP, "kind": "Gateway", "name": "edge"});
    site.apply("DispatchPolicy", ("infra", "all"), &gateway, &fields);
    read_end(others);
    assert_eq!(neighbour.get(WATCHED, &[]).unwrap().status, 403);
}
