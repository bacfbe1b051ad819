//! `tls.frontend` of a Gateway: who has no certificate of its CAs gets no connection, and who has one is named by the cluster's alone.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, Response, TlsTarget};
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::gateway_api::CLUSTER;
use super::gateway_https::{HttpsSite, JUDGED};

const GATEWAY: [&str; 3] = ["gateways", "infra", "edge"];
const ROUTE: [&str; 3] = ["httproutes", "team", "route"];
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Applies a `ConfigMap` with CAs to the Gateway's namespace.
fn config_map(gateway: &HttpsSite, name: &str, authorities: &[&Ca]) {
    let bundle: String = authorities.iter().map(|ca| ca.pem()).collect();
    let metadata = json!({"name": name, "namespace": "infra"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": bundle}});
    gateway.site.fixture.apply(&map.to_string());
}

/// The Gateway with these CAs.
fn validate(gateway: &HttpsSite, config_maps: &[&str], mode: &str) {
    let references: Vec<Value> =
        config_maps.iter().map(|name| json!({"group": "", "kind": "ConfigMap", "name": name})).collect();
    let validation = json!({"caCertificateRefs": references, "mode": mode});
    gateway.edge("cert", &json!({"tls": {"frontend": {"default": {"validation": validation}}}}));
}

/// The cluster with its client CA, and more fields of its own.
fn cluster(gateway: &HttpsSite, client_ca: &Ca, more: &Value) {
    let fixture = &gateway.site.fixture;
    let manifest = fixture.manifest(CLUSTER);
    let manifest = manifest.set("/spec/secureServing/clientCAData", json!(STANDARD.encode(client_ca.pem())));
    fixture.apply(&manifest.set("/spec/portcullis", more.clone()).to_text());
}

/// The answer to a request on a new connection, with a token if there is one; `None` where there is no connection.
fn ask(gateway: &HttpsSite, identity: Option<&Identity>, token: Option<&str>) -> Option<Response> {
    let target = TlsTarget::new(gateway.address).sni(JUDGED).trust(&gateway.site.fixture.serving_ca);
    let target = identity.into_iter().fold(target, |target, identity| target.identity(identity));
    let token = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = token.iter().map(|token| ("authorization", token.as_str())).collect();
    H2Client::connect(&target).ok()?.get(PODS, &headers).ok()
}

fn waits_for(what: &str, status: Option<u16>, found: impl Fn() -> Option<Response>) {
    wait::until_ok(what, SOON, || match found() {
        answer if answer.as_ref().map(|answer| answer.status) == status => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .unwrap();
}

#[test]
fn cas_of_a_gateway_hold_in_addition_to_the_clusters() {
    let Some(gateway) = HttpsSite::start("gateway-frontend") else { return };
    let site = &gateway.site;
    // Users of the cluster have certificates of an authority below the Gateway's; others of the Gateway's are of no cluster.
    let transport = Ca::new("transport").unwrap();
    let [users, devices] = ["users", "devices"].map(|name| transport.intermediate(&CertSpec::new(name)).unwrap());
    let alice = users.issue(&CertSpec::client("alice", ["dev"])).unwrap();
    let device = devices.issue(&CertSpec::client("alice", ["system:masters"])).unwrap();
    let stranger = Ca::new("strangers").unwrap().issue(&CertSpec::client("alice", ["dev"])).unwrap();
    cluster(&gateway, &users, &json!({}));
    let admin = ["create", "clusterrolebinding", "dev", "--clusterrole=system:aggregate-to-view", "--group=dev"];
    site.fixture.admin(&[&admin[..], &["--serviceaccount=default:robot"]].concat());
    site.fixture.admin(&["create", "serviceaccount", "robot"]);
    let token = site.fixture.admin(&["create", "token", "robot"]).trim().to_owned();
    let _edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    let with = |identity: Option<&Identity>, token: Option<&str>| ask(&gateway, identity, token);
    waits_for("without tls.frontend a token is enough", Some(200), || with(None, Some(&token)));

    config_map(&gateway, "transport", &[&transport]);
    validate(&gateway, &["transport"], "AllowValidOnly");
    waits_for("a certificate is needed", None, || with(None, Some(&token)));
    site.wait(GATEWAY, "/listeners/0", &["Accepted True Accepted", "Programmed True Programmed"]);
    for (case, identity, token, expected) in [
        ("both have signed it", Some(&alice), None, Some(200)),
        ("the Gateway's CA alone", Some(&device), None, Some(401)),
        ("the same beside a token", Some(&device), Some(token.as_str()), Some(200)),
        ("neither", Some(&stranger), Some(&token), None),
        ("the cluster's alone, without what leads to the Gateway's", Some(&alice.leaf_only()), Some(&token), None),
        ("another user of kube-apiserver", Some(&gateway.alice), Some(&token), None),
        ("none", None, None, None),
    ] {
        assert_eq!(with(identity, token).map(|answer| answer.status), expected, "{case}");
    }
    let itself = gateway.user(gateway.address, JUDGED, |kubeconfig| kubeconfig.identity(&alice));
    assert_eq!((&itself["username"], &itself["groups"][0]), (&json!("alice"), &json!("dev")));
    let robot = gateway.user(gateway.address, JUDGED, |kubeconfig| kubeconfig.identity(&device).token(&token));
    assert_eq!(robot["username"], "system:serviceaccount:default:robot", "the certificate names nobody here");

    // Another CA acts on new connections.
    config_map(&gateway, "transport", &[&Ca::new("other").unwrap()]);
    waits_for("the CA is gone", None, || with(Some(&alice), None));
    validate(&gateway, &["transport"], "AllowInsecureFallback");
    waits_for("no certificate is needed", Some(200), || with(None, Some(&token)));
    site.wait(GATEWAY, "", &["InsecureFrontendValidationMode True ConfigurationChanged"]);
    assert_eq!(with(Some(&alice), None).unwrap().status, 200, "the cluster decides");
    assert_eq!(with(Some(&device), None).unwrap().status, 401);
    assert_eq!(with(Some(&stranger), Some(&token)).unwrap().status, 200);
}

#[test]
fn two_cas_of_handshakes_close_a_route_unless_one_has_the_other() {
    let Some(gateway) = HttpsSite::start("gateway-frontend-handshake") else { return };
    let (site, users) = (&gateway.site, gateway.site.fixture.kube.client_ca());
    let transport = Ca::new("transport").unwrap();
    let guest = transport.issue(&CertSpec::client("guest", ["dev"])).unwrap();
    cluster(&gateway, users, &json!({"clientCertificateVerification": "Handshake"}));
    config_map(&gateway, "transport", &[&transport]);
    validate(&gateway, &["transport"], "AllowValidOnly");
    let _edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    site.wait(ROUTE, "/parents/0", &["Accepted False DifferentClientAuthorities"]);
    site.wait(GATEWAY, "/listeners/0", &["Programmed True Programmed"]);
    assert!(ask(&gateway, Some(&gateway.alice), None).is_none() && ask(&gateway, Some(&guest), None).is_none());
    config_map(&gateway, "transport", &[&transport, users]);
    site.wait(ROUTE, "/parents/0", &["Accepted True Accepted"]);
    gateway.wait_status(JUDGED, Some(200));
    assert!(ask(&gateway, Some(&guest), None).is_none(), "the cluster's own CA verifies handshakes, too");
    assert!(ask(&gateway, None, None).is_none());
}
