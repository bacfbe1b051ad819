//! The objects of `envoy/gardener` in front of a real kube-apiserver, which says whom it takes a client for.

use std::time::{Duration, Instant};

use crate::fixture::{BareKube, odd_alice};
use portcullis_e2e::{Ingress, ShootSetup};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, H2Stream, Outgoing, Response, TlsTarget};
use portcullis_harness::kube::{KubeOptions, RealKube};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{project_root, wait};
use serde_json::{Value, json};

const FRONT: &str = "system:istio-gateway";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEW: &[u8] = br#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
const SOON: Duration = Duration::from_secs(20);

struct Fixture {
    ingress: Ingress,
    kube: RealKube,
    front_ca: Ca,
    alice: Identity,
    token: String,
    run: RunDir,
}

impl Fixture {
    /// With a front-proxy certificate that is valid for so long, on connections that live for so long.
    fn start(test: &str, validity: Duration, life: &str) -> Option<Self> {
        let server_names = vec!["kubernetes.default.svc.cluster.local".to_owned()];
        let options = KubeOptions { server_names, ..KubeOptions::default() };
        let BareKube { kube, front_ca, run, .. } = BareKube::believing(Some(FRONT), test, options)?;
        let admin = |args: &[&str]| kube.admin_kubectl().unwrap().args(args).run_ok().unwrap();
        let rights = project_root().join("envoy/gardener/rbac.yaml");
        admin(&["apply", "-f", rights.to_str().unwrap()]);
        admin(&["create", "serviceaccount", "robot"]);
        let token = admin(&["create", "token", "robot"]).trim().to_owned();
        let start = || {
            let issued = Instant::now();
            let front_proxy = front_ca.issue(&CertSpec::client(FRONT, [""; 0]).valid_for(validity)).unwrap();
            let setup = ShootSetup {
                name: "one",
                servers: kube.apiservers().iter().map(|server| server.address()).collect(),
                cluster_ca: kube.server_ca(),
                client_ca: kube.client_ca(),
                front_proxy: &front_proxy,
            };
            let ingress = Ingress::start(&run, &[setup], |options| replace(&mut options.bootstrap, "86400s", life));
            Some(ingress.unwrap()).filter(|_| issued.elapsed() < validity / 3)
        };
        let ingress = wait::retry_if_slow("the certificate is good for a while yet", start).unwrap();
        Some(Fixture { ingress, alice: odd_alice(&kube), kube, front_ca, token, run })
    }

    /// Straight to kube-apiserver, by the ingress's own name, and through the nodes' proxy.
    fn targets(&self) -> [TlsTarget; 3] {
        let shoot = &self.ingress.shoots()[0];
        let direct = TlsTarget::new(self.kube.apiservers()[0].address()).trust(self.kube.server_ca()).sni("localhost");
        [direct, self.ingress.target(shoot), self.ingress.tunnel(&shoot.socket(), shoot)]
    }
}

fn replace(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text == from => to.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, from, to)),
        Value::Object(fields) => {
            // Requests may take a day whatever their connection may.
            let lives = fields.iter_mut().filter(|(name, _)| *name != "timeout" && *name != "idle_timeout");
            lives.for_each(|(_, field)| replace(field, from, to));
        }
        _ => {}
    }
}

type Headers<'a> = &'a [(&'a str, &'a [u8])];

fn review(client: &H2Client, more: Headers<'_>) -> Response {
    let headers: Vec<_> = more.iter().copied().chain([("content-type", &b"application/json"[..])]).collect();
    client.request("POST", REVIEWS, &headers, REVIEW).unwrap()
}

/// Status, and the user or the reason of the refusal.
fn reviewed_user(target: &TlsTarget, headers: Headers<'_>) -> (u16, Value) {
    let response = review(&H2Client::connect(target).unwrap(), headers);
    let mut body = response.json().unwrap();
    let is_review = response.status == 201;
    (response.status, if is_review { body["status"]["userInfo"].take() } else { body["reason"].take() })
}

#[test]
fn kube_apiserver_sees_the_same_users_as_directly() {
    let Some(fixture) = Fixture::start("kube-gardener", Duration::from_secs(3600), "86400s") else { return };
    let token = format!("Bearer {}", fixture.token);
    let [direct, ways @ ..] = fixture.targets();
    let with = |target: &TlsTarget, is_alice: bool| {
        if is_alice { target.clone().identity(&fixture.alice) } else { target.clone() }
    };
    let robot: Headers<'_> = &[("authorization", token.as_bytes())];
    let unheard_of: Headers<'_> = &[("authorization", b"Bearer unheard-of")];
    let forged: [Headers<'_>; 6] = [
        &[("x-remote-user", b"admin")],
        &[("x-remote-user", b"admin"), ("x-remote-group", b"system:masters")],
        &[("x-remote-uid", b"0"), ("x-remote-extra-scopes", b"all")],
        &[("x_remote_user", b"admin"), ("x_remote_group", b"system:masters")],
        &[("x-forwarded-client-cert", b"Hash=00;Subject=\"CN=admin,O=system:masters\"")],
        &[("x-gardener-destination", b"elsewhere")],
    ];
    for (case, is_alice, credential) in [
        ("certificate", true, &[][..]),
        ("token", false, robot),
        ("both", true, robot),
        ("nobody", false, &[]),
        ("rejected", false, unheard_of),
    ] {
        let expected = reviewed_user(&with(&direct, is_alice), credential);
        for way in &ways {
            let target = with(way, is_alice);
            assert_eq!(reviewed_user(&target, credential), expected, "{case}");
            for forgery in forged {
                let headers: Vec<_> = credential.iter().chain(forgery).copied().collect();
                assert_eq!(reviewed_user(&target, &headers), expected, "{case}, {forgery:?}");
            }
        }
    }
    let as_dave: Headers<'_> = &[("impersonate-user", b"dave")];
    let admin = fixture.kube.admin();
    let expected = reviewed_user(&direct.clone().identity(admin), as_dave);
    assert_eq!(expected.1["username"], "dave");
    for way in &ways {
        assert_eq!(reviewed_user(&way.clone().identity(admin), as_dave), expected);
        assert_eq!(reviewed_user(&way.clone().identity(&fixture.alice), as_dave), (403, json!("Forbidden")));
    }
    strangers_end_no_watch(&fixture, &ways[0]);
}

/// kube-apiserver closes an HTTP/2 connection on which it rejected a client.
fn strangers_end_no_watch(fixture: &Fixture, target: &TlsTarget) {
    let view = "--clusterrole=system:aggregate-to-view";
    let made = |args: &[&str]| fixture.kube.admin_kubectl().unwrap().args(args).run_ok().unwrap();
    made(&["create", "rolebinding", "robot", view, "--serviceaccount=default:robot"]);
    let path = "/api/v1/namespaces/default/configmaps";
    let token = format!("Bearer {}", fixture.token);
    let ways: [(TlsTarget, Headers<'_>); 2] = [
        (target.clone().identity(fixture.kube.admin()), &[]),
        (target.clone(), &[("authorization", token.as_bytes())]),
    ];
    let clients = ways.map(|(target, headers)| (H2Client::connect(&target).unwrap(), headers));
    let path_of_watch = format!("{path}?watch=1");
    let mut watches: Vec<H2Stream<'_>> = Vec::new();
    for (client, headers) in &clients {
        watches.extend((0..10).map(|_| client.open("GET", &path_of_watch, headers, b"").unwrap()));
    }
    assert!(watches.iter().all(|watch| watch.response.status == 200));
    let shared = format!("cluster.{}.upstream_cx_total", fixture.ingress.shoots()[0].cluster("passthrough"));
    let connections = || fixture.ingress.envoy().admin().stat(&shared).unwrap();
    let before = connections();
    let strangers = H2Client::connect(target).unwrap();
    let stranger = |number: usize| match number % 2 {
        0 => Outgoing::get(path, &[]),
        _ => Outgoing::get(path, &[("authorization", &format!("Bearer unheard-of-{number}"))]),
    };
    for answer in strangers.burst((0..60).map(stranger).collect(), 20) {
        assert!(matches!(answer.unwrap().status, 401 | 403));
    }
    assert_eq!(connections(), before, "none came near the connections of confirmed tokens");
    made(&["create", "configmap", "still-seen"]);
    for watch in &mut watches {
        let mut seen = String::new();
        while !seen.contains("still-seen") {
            seen += &String::from_utf8_lossy(&watch.next_chunk(SOON).unwrap().expect("a watch has ended"));
        }
    }
}

#[test]
fn expired_front_proxy_certificate_is_the_gateways_fault() {
    let Some(fixture) = Fixture::start("kube-gardener-expiry", Duration::from_secs(9), "13s") else { return };
    let [_, target, _] = fixture.targets();
    let alice = H2Client::connect(&target.clone().identity(&fixture.alice)).unwrap();
    let robot = H2Client::connect(&target).unwrap();
    let token = format!("Bearer {}", fixture.token);
    let headers: Headers<'_> = &[("authorization", token.as_bytes())];
    assert_eq!(review(&alice, &[]).status, 201);
    assert_eq!(review(&robot, headers).status, 201);

    // kube-apiserver looks at it for each request, also on the connection that was made while it was valid.
    let refused = || {
        let response = review(&alice, &[]);
        (response.status != 201).then_some(response)
    };
    let refused = wait::until("the front-proxy certificate has expired", SOON, refused).unwrap();
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.text().contains("gateway credential refused"), "{}", refused.text());
    assert_eq!(review(&robot, headers).status, 201, "a remembered token needs nothing of the gateway's");

    let renewed = fixture.front_ca.issue(&CertSpec::client(FRONT, [""; 0])).unwrap();
    fixture.ingress.shoots()[0].renew(&fixture.run, &renewed).unwrap();
    let works = || (review(&alice, &[]).status == 201).then_some(());
    wait::until("the new one is shown on new connections", SOON, works).unwrap();
    assert!(!alice.is_closed() && !robot.is_closed(), "the clients' connections have seen nothing of it");
}
