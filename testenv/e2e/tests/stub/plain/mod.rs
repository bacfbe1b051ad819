//! Envoys that run from the files below `envoy/plain`, without a control plane, in both ways of forwarding users.

mod agreement;
mod counts;
mod envoy_gateway;
mod fixture;
mod forwarded;
mod limit_fleet;
mod names;
mod render;
mod reports;
mod shared_limits;

use std::process::Command;
use std::time::Duration;

use portcullis_e2e::PlainFiles;
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, project_root, wait};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, ROBOT};

pub(crate) use fixture::Plain;
use fixture::{EXEC, REVIEWED};

/// The folders of `envoy/plain`, and the second one with the line that is commented out there.
const MODES: [&str; 3] = ["impersonate", "request-header", REVIEWED];
const SOON: Duration = Duration::from_secs(20);

#[test]
fn each_credential_takes_its_own_way() {
    let versions = deps::envoy_versions();
    let newest = versions.last().unwrap();
    let older = versions.iter().filter(|version| *version != newest).map(|version| (REVIEWED, version));
    for (mode, version) in MODES.map(|mode| (mode, newest)).into_iter().chain(older) {
        let is_old = version.starts_with("1.38.");
        let plain = Plain::start(mode, Some(version.clone()), if is_old { for_1_38 } else { |_: &PlainFiles| {} });
        everybody_gets_through(&plain);
        nobody_gets_through_as_somebody_else(&plain);
    }
}

fn everybody_gets_through(plain: &Plain) {
    let (response, record) = plain.send(Some(&plain.pki.alice), &[]);
    assert_eq!(response.status, 200, "{}: {}", plain.mode, response.text());
    let record = record.unwrap();
    assert_eq!((record.version.as_str(), record.peer_common_name.as_deref()), ("HTTP/2.0", Some(plain.front())));
    assert_eq!(record.effective.unwrap().username, "alice");

    let authorization = format!("Bearer {ROBOT}");
    let (response, record) = plain.send(None, &[("authorization", &authorization)]);
    assert_eq!(response.status, 200, "{}: {}", plain.mode, response.text());
    let record = record.unwrap();
    assert_eq!(record.version, if plain.mode == "request-header" { "HTTP/1.1" } else { "HTTP/2.0" });
    assert_eq!(record.effective.as_ref().unwrap().username, "robot");
    // Only in front-proxy mode the token goes on, and then without the gateway's certificate.
    let goes_on = plain.mode != "impersonate";
    assert_eq!(record.header("authorization").is_some(), goes_on);
    assert_eq!(record.peer_common_name.is_none(), goes_on);

    let (response, record) = plain.send(None, &[]);
    assert_eq!(response.status, 403, "{}: the stub's own answer to nobody", plain.mode);
    let record = record.unwrap();
    assert_eq!((record.version.as_str(), record.peer_common_name.as_deref()), ("HTTP/1.1", None));
    assert_eq!(record.header_names_with_prefix("impersonate-"), [""; 0]);

    plain.stub.clear();
    let mut connection = plain.gateway.target().identity(&plain.pki.alice).connect().unwrap();
    let upgrade = format!("POST {EXEC} HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
    connection.write(upgrade.as_bytes()).unwrap();
    assert_eq!(connection.read_head().unwrap().status, 101, "{}", plain.mode);
    let record = plain.seen().unwrap();
    assert_eq!((record.version.as_str(), record.peer_common_name.as_deref()), ("HTTP/1.1", Some(plain.front())));
    assert_eq!(record.effective.unwrap().username, "alice");
}

fn nobody_gets_through_as_somebody_else(plain: &Plain) {
    let forged = [("x-remote-user", "admin"), ("x-remote-group", "system:masters"), ("x-remote-extra-a", "b")];
    let (_, record) = plain.send(None, &forged);
    assert!(record.is_some_and(|record| record.header_names_with_prefix("x-remote-").is_empty()), "{}", plain.mode);
    let xfcc = [("x-forwarded-client-cert", "Hash=00;Chain=\"x\";Subject=\"CN=admin,O=system:masters\"")];
    let (response, _) = plain.send(None, &xfcc);
    assert_eq!(response.status, 403, "{}: as nobody", plain.mode);
    let stranger = Ca::new("clients").unwrap().issue(&CertSpec::client("admin", ["system:masters"])).unwrap();
    let (response, record) = plain.send(Some(&stranger), &[]);
    assert_eq!((response.status, record.is_none()), (401, true), "{}", plain.mode);
    let (response, record) = plain.send(None, &[("authorization", "Bearer unheard-of")]);
    assert_eq!(response.status, 401, "{}", plain.mode);
    match (plain.mode, record) {
        ("request-header", Some(record)) => assert_eq!(record.peer_common_name, None),
        (mode, record) => assert!(record.is_none(), "{mode}: {record:?}"),
    }
    plain.stub.clear();
    let target = plain.gateway.target().identity(&plain.pki.alice);
    let response = H2Client::connect(&target).unwrap().authority("other.example.com").get(PODS, &[]).unwrap();
    assert_eq!(response.status, 421, "{}", plain.mode);
    assert!(plain.gateway.target().sni("other.example.com").connect().is_err(), "{}", plain.mode);
    assert!(plain.seen().is_none());
}

/// The changes for Envoy 1.38 of `envoy/README.md`.
pub(crate) fn for_1_38(files: &PlainFiles) {
    let listener = |text: String| {
        let (before, rest) = text.split_once("            # Takes any certificate").unwrap();
        let (_, after) = rest.split_once("    filters:\n").unwrap();
        let text = format!("{before}            trust_chain_verification: ACCEPT_UNTRUSTED\n    filters:\n{after}");
        text.replace(
            "forward_client_cert_details: SANITIZE\n",
            "forward_client_cert_details: SANITIZE_SET\n        set_current_client_cert_details: {chain: true}\n",
        )
        .replace(
            "                instance: portcullis\n",
            "                instance: portcullis\n                peerSource: ForwardedClientCert\n",
        )
    };
    files.edit("listener.yaml", listener).unwrap();
    let routes = |text: String| {
        let mut object: Value = serde_saphyr::from_str(&text).unwrap();
        let config = object
            .pointer_mut("/resources/0/virtual_hosts/0/typed_per_filter_config/portcullis/filter_config")
            .unwrap();
        let json = config["value"].to_string();
        *config = json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": json});
        object.to_string()
    };
    files.edit("routes.yaml", routes).unwrap();
}

/// A map that does not know the filter's word for a destination is one of the faults that keep the filter from deciding.
#[test]
fn request_without_a_decision_has_no_route() {
    for mode in MODES {
        let plain = Plain::start(mode, None, |files| {
            files.edit("routes.yaml", |text| text.replace("key: portcullis.destination", "key: elsewhere")).unwrap();
        });
        let (response, record) = plain.send(Some(&plain.pki.alice), &[]);
        assert_eq!((response.status, record.is_none()), (503, true));
        assert_eq!(response.json().unwrap()["message"], "the gateway made no decision about this request");
    }
}

#[test]
fn changed_file_takes_effect_and_ends_nothing() {
    let plain = Plain::start("impersonate", None, |_| {});
    let client = H2Client::connect(&plain.gateway.target().identity(&plain.pki.alice)).unwrap();
    let mut watch = client.open("GET", &format!("{PODS}?watch=1"), &[], b"").unwrap();
    assert_eq!(watch.response.status, 200);

    let narrower = |text: String| text.replace(r#"verbs: ["*"]"#, r#"verbs: ["get", "watch"]"#);
    plain.gateway.files().edit("routes.yaml", narrower).unwrap();
    let refused = || (client.get(PODS, &[]).ok()?.status == 403).then_some(());
    wait::until("the policy is in effect", SOON, refused).unwrap();

    let shown = || plain.gateway.target().connect().unwrap().server_certificates();
    let before = shown();
    let aside = plain.run.path().join("given-pki");
    let renewed = Ca::new("renewed").unwrap().issue(&CertSpec::server(NAME, [NAME])).unwrap();
    renewed.write_pem(&aside.join("new.crt"), &aside.join("new.key")).unwrap();
    for end in ["key", "crt"] {
        let (from, to) = (aside.join(format!("new.{end}")), plain.gateway.folder().join(format!("pki/serving.{end}")));
        std::fs::rename(from, to).unwrap();
    }
    let any = TlsTarget::new(plain.gateway.target().address()).sni(NAME);
    let rotated = || (any.connect().ok()?.server_certificates() != before).then_some(());
    wait::until("the new certificate is shown", SOON, rotated).unwrap();
    let silence = watch.next_chunk(Duration::from_millis(50)).unwrap_err().to_string();
    assert!(silence.contains("timeout"), "it goes on, and nothing has happened: {silence}");
}

/// The endpoints of these files have no metadata, so that the filter knows no name of a server.
#[test]
fn file_that_denies_ends_running_watches() {
    let plain = Plain::start("impersonate", None, |_| {});
    let bob = plain.pki.client_ca.issue(&CertSpec::client("bob", ["dev"])).unwrap();
    let [alice, bob] =
        [&plain.pki.alice, &bob].map(|identity| H2Client::connect(&plain.gateway.target().identity(identity)).unwrap());
    let [mut ended, mut other] =
        [&alice, &bob].map(|client| client.open("GET", &format!("{PODS}?watch=1"), &[], b"").unwrap());
    assert_eq!([ended.response.status, other.response.status], [200; 2]);

    let list = r#"access: [{scope: Cluster, deny: [{rules: [{users: [alice], verbs: ["*"], apiGroups: ["*"], resources: ["*"]}]}]}]"#;
    let indent = " ".repeat(12);
    let policies = format!("\n{indent}policies:\n");
    let denying = |text: String| text.replacen(&policies, &format!("\n{indent}{list}{policies}"), 1);
    plain.gateway.files().edit("routes.yaml", denying).unwrap();
    while ended.next_chunk(SOON).unwrap().is_some() {}
    assert_eq!(alice.get(PODS, &[]).unwrap().status, 403, "the connection goes on");
    let silence = other.next_chunk(Duration::from_millis(50)).unwrap_err().to_string();
    assert!(silence.contains("timeout"), "it goes on, and nothing has happened: {silence}");
}

#[test]
fn rights_are_those_that_the_control_plane_prints() {
    let manifest = r#"{"apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a"},
        "spec": {"portcullis": {"upstreamIdentity": "RequestHeader"}}}"#;
    let run = RunDir::new("rbac").unwrap();
    let proxied = run.write("proxied.yaml", manifest).unwrap();
    for (mode, arguments) in [("impersonate", vec![]), ("request-header", vec!["-f", proxied.to_str().unwrap()])] {
        let printed = Command::new(deps::portcullis().unwrap()).arg("rbac").args(arguments).output().unwrap();
        let printed = String::from_utf8(printed.stdout).unwrap();
        let stands = project_root().join("envoy/plain").join(mode).join("rbac.yaml");
        let stands = std::fs::read_to_string(stands).unwrap();
        let read = |text: &str| serde_saphyr::from_multiple::<Value>(text).unwrap();
        assert_eq!(read(&stands), read(&printed), "{mode}");
    }
}
