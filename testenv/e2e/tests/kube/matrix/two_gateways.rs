//! A gateway behind another one: what a client lists in `Connection` takes nothing away that the first one wrote for the second.

use portcullis_e2e::{Gateway, GatewayOptions, Manifest};
use portcullis_harness::certs::CertSpec;
use portcullis_harness::client::TlsTarget;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::rundir::RunDir;
use serde_json::{Value, json};

use super::client::Credential;
use super::{Sender, grant, senders};
use crate::fixture::{Identities, KubeFixture, NAME};

/// As whom the first gateway comes to the second one. It may do everything there, so that a request that loses its user shows.
const OUTER: &str = "outer";

/// The values of `Connection` by which a client asks the next hop to remove headers, and headers to go with them.
const LISTED: [&str; 15] = [
    "Impersonate-User",
    "impersonate-user, impersonate-group, impersonate-uid",
    "close, IMPERSONATE-USER",
    "keep-alive, Impersonate-Group",
    "Impersonate-Extra-Authentication.kubernetes.io%2fCredential-Id",
    "X-Remote-User",
    "x-remote-user, x-remote-group, x-remote-uid",
    "close, x-remote-group",
    "X-Remote-Extra-Scopes",
    "X-Forwarded-Client-Cert",
    "Via",
    "X-Forwarded-For, X-Real-Ip, Forwarded",
    "TE, Trailer, Transfer-Encoding",
    "Authorization",
    "Host, Content-Length",
];

/// Status, and as whom kube-apiserver took the request.
type Outcome = (u16, Value);

fn send(target: &TlsTarget, credential: &Credential, more: &str, is_upgrade: bool) -> Outcome {
    let target = match credential {
        Credential::Certificate(identity) => target.clone().identity(identity),
        _ => target.clone(),
    };
    let authorization = match credential {
        Credential::Token(token) => format!("Authorization: Bearer {token}\r\n"),
        _ => String::new(),
    };
    let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let (path, body) = match is_upgrade {
        true => ("/api/v1/namespaces/default/pods/none/exec?command=x", ""),
        false => ("/apis/authentication.k8s.io/v1/selfsubjectreviews", review),
    };
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         {authorization}{more}\r\n{body}",
        body.len()
    );
    let mut connection = target.connect().unwrap();
    connection.write(request.as_bytes()).unwrap();
    let response = connection.read_response(false).unwrap();
    let mut body = response.json().unwrap_or_default();
    let told = if response.status == 201 { body["status"]["userInfo"].take() } else { body["message"].take() };
    (response.status, told)
}

/// A gateway whose server is the fixture's own gateway.
fn outer(fixture: &KubeFixture, run: &RunDir) -> Gateway {
    let options = GatewayOptions { instance: Some(OUTER.to_owned()), ..GatewayOptions::default() };
    let gateway = Gateway::start(run, &options).unwrap();
    let identity = fixture.kube.client_ca().issue(&CertSpec::client(OUTER, [""; 0])).unwrap();
    fixture.admin(&["create", "clusterrolebinding", OUTER, "--clusterrole=cluster-admin", &format!("--user={OUTER}")]);
    let manifest = Manifest::new(NAME, [fixture.gateway.address()])
        .upstream(&identity, fixture.gateway.serving_ca(), NAME)
        .serving(&gateway.serving_identity(NAME).unwrap(), fixture.kube.client_ca());
    gateway.apply(&manifest).unwrap();
    gateway
}

fn compare(one: &TlsTarget, two: &TlsTarget, Sender { name, credential }: &Sender) {
    let own = send(one, credential, "Connection: close\r\n", false);
    let own_upgrade = send(one, credential, "Connection: Upgrade\r\nUpgrade: websocket\r\n", true);
    assert_eq!(send(two, credential, "Connection: close\r\n", false), own, "{name}");
    for listed in LISTED {
        for (own, upgrade, is_upgrade) in [(&own, "", false), (&own_upgrade, "Upgrade, ", true)] {
            let lines = format!("Connection: {upgrade}{listed}\r\nUpgrade: websocket\r\n");
            let lines = if is_upgrade { lines } else { format!("Connection: {listed}\r\n") };
            let told = send(two, credential, &lines, is_upgrade);
            assert!(told == *own || is_refused(&told), "{name}, {listed}: {told:?} instead of {own:?}");
        }
    }
}

/// A message with two readings ends at the first gateway, and a credential that the client itself has taken out is none.
fn is_refused((status, told): &Outcome) -> bool {
    matches!(status, 400 | 401) || (*status == 403 && told.to_string().contains("system:anonymous"))
}

#[test]
fn connection_header_takes_no_identity_between_two_gateways() {
    for identities in Identities::ALL {
        let options = (&KubeOptions::default(), &GatewayOptions::default());
        let Some(fixture) = KubeFixture::forwarding(identities, "two-gateways", options.0, options.1) else { return };
        grant(&fixture);
        // Reviews name no cluster: each kube-apiserver answers to this name.
        let more = fixture.portcullis(json!({"extraAuthorities": ["kubernetes.default.svc"]}));
        fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", more)).unwrap();
        let run = RunDir::new("two-gateways-outer").unwrap();
        let outer = outer(&fixture, &run);
        let (one, two) = (fixture.target(), outer.target(NAME));
        let alice = Credential::Certificate(Box::new(fixture.alice.clone()));
        let user = json!({"username": "alice", "groups": ["dev", "system:authenticated"]});
        let (status, told) = send(&two, &alice, "Connection: close\r\n", false);
        assert_eq!((status, &told["username"], &told["groups"]), (201, &user["username"], &user["groups"]));
        std::thread::scope(|scope| {
            let senders = senders(&fixture);
            let (one, two) = (&one, &two);
            let asking: Vec<_> =
                senders.into_iter().map(|sender| scope.spawn(move || compare(one, two, &sender))).collect();
            asking.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
