//! Edits at HTTPS listeners of Gateways while requests run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::envoy::Envoy;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::gateway_api::CLUSTER;
use super::gateway_https::{HttpsSite, JUDGED};
use super::steady_requests::SteadyRequests;

/// The other cluster of a route.
const OTHER: &str = "b.example.com";
/// The path of requests that the former cluster's user makes.
const PROBE: &str = "/api/v1/namespaces/default/configmaps/probe";
const EDGE: [&str; 2] = ["--gateway", "infra/edge"];

/// Waits until new connections see this certificate.
fn wait_shown(target: &TlsTarget, expected: &Identity) {
    let is_shown = || {
        target.connect().ok()?.server_certificates().first().is_some_and(|der| der == expected.leaf_der()).then_some(())
    };
    wait::until("the listener shows the certificate", SOON, is_shown).unwrap();
}

#[test]
fn renewed_and_other_certificates_of_a_listener_fail_no_request() {
    let Some(gateway) = HttpsSite::start("gateway-rotation") else { return };
    let _edge = gateway.envoy("edge", &EDGE);
    gateway.wait_status(JUDGED, Some(200));
    let target = gateway.target(JUDGED);
    let requests = SteadyRequests::start(&target);
    requests.wait_for(20);
    let renewed = gateway.certificate("cert");
    wait_shown(&target, &renewed);
    requests.wait_for(20);
    requests.none_failed();
    let requests = SteadyRequests::on_new_connections(&target);
    let other = gateway.certificate("other-cert");
    gateway.edge("other-cert", &json!({}));
    wait_shown(&target, &other);
    requests.wait_for(20);
    requests.none_failed();
    // One that is not there closes the listener, and says so.
    gateway.edge("absent", &json!({}));
    gateway.site.wait(["gateways", "infra", "edge"], "/listeners/0", &["ResolvedRefs False InvalidCertificateRef"]);
    gateway.wait_status(JUDGED, None);
}

/// Events about the probe at a kube-apiserver, by the user who was impersonated.
fn probes(gateway: &HttpsSite, apiserver: usize, user: &str) -> usize {
    let events = gateway.site.fixture.kube.apiserver(apiserver).unwrap().audit_events_for(PROBE).unwrap();
    let of_user = |event: &&Value| event["impersonatedUser"]["username"] == user || event["user"]["username"] == user;
    events.iter().filter(of_user).count()
}

#[test]
fn route_to_another_cluster_takes_no_identity_along() {
    let options = KubeOptions { apiservers: 2, ..KubeOptions::default() };
    let Some(gateway) = HttpsSite::of("gateway-turn", &options, &[]) else { return };
    let fixture = &gateway.site.fixture;
    // Each cluster has a kube-apiserver and a client CA of its own.
    let others = Ca::new("users of the other cluster").unwrap();
    let bob = others.issue(&CertSpec::client("bob", ["dev"])).unwrap();
    let server = |index: usize| json!([{"endpoint": format!("https://{}", fixture.kube.address(index).unwrap())}]);
    fixture.apply(&fixture.manifest(CLUSTER).set("/spec/servers", server(0)).to_text());
    let other = fixture.manifest(OTHER).serving(&fixture.serving(OTHER), &others);
    fixture.apply(&other.set("/spec/servers", server(1)).to_text());
    let _edge = gateway.envoy("edge", &EDGE);
    gateway.wait_status(JUDGED, Some(200));

    let ended = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..3).map(|_| probing(&gateway.target(JUDGED), &ended)).collect();
    let of_alice = |least: usize| {
        wait::until("alice reaches her cluster", SOON, || (probes(&gateway, 0, "alice") > least).then_some(()))
            .unwrap();
    };
    let of_bob = TlsTarget::new(gateway.address).sni(JUDGED).trust(&fixture.serving_ca).identity(&bob);
    for round in 0..3 {
        of_alice(probes(&gateway, 0, "alice"));
        gateway.route_to(OTHER, "route", JUDGED, &json!({}));
        let is_turned =
            || H2Client::connect(&of_bob).ok()?.get("/version", &[]).is_ok_and(|one| one.status == 200).then_some(());
        wait::until(&format!("bob reaches the other cluster, {round}"), SOON, is_turned).unwrap();
        gateway.route("route", JUDGED, &json!({}));
        gateway.wait_status(JUDGED, Some(200));
    }
    ended.store(true, Ordering::Relaxed);
    let statuses: Vec<u16> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    assert!(statuses.contains(&403), "alice has no right to it: {statuses:?}");
    let unexpected: Vec<_> = statuses.iter().filter(|status| ![401, 403, 421, 503].contains(status)).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    assert_eq!(probes(&gateway, 1, "alice"), 0, "no request with the former cluster's user at the other one");
}

/// Asks for the probe as alice, on one connection for as long as it is good, until the end.
fn probing(target: &TlsTarget, ended: &Arc<AtomicBool>) -> std::thread::JoinHandle<Vec<u16>> {
    let (target, ended) = (target.clone(), Arc::clone(ended));
    std::thread::spawn(move || {
        let mut statuses = Vec::new();
        while !ended.load(Ordering::Relaxed) {
            let Ok(client) = H2Client::connect(&target) else { continue };
            while let Ok(answer) = client.get(PROBE, &[]) {
                statuses.push(answer.status);
                if answer.status == 421 || ended.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        statuses
    })
}

#[test]
fn frozen_cluster_is_frozen_at_its_gateway() {
    let Some(gateway) = HttpsSite::start("gateway-freeze") else { return };
    let _edge = gateway.envoy("edge", &EDGE);
    gateway.wait_status(JUDGED, Some(200));
    let open = H2Client::connect(&gateway.target(JUDGED)).unwrap();
    let manifest = gateway.site.fixture.manifest(CLUSTER);
    let frozen = manifest.clone().merge(&json!({"metadata": {"annotations": {"portcullis.dev/profile": "frozen"}}}));
    gateway.site.fixture.apply(&frozen.to_text());
    gateway.wait_status(JUDGED, Some(429));
    assert_eq!(open.get("/version", &[]).unwrap().status, 429, "on open connections, too");
    gateway.site.fixture.apply(&manifest.to_text());
    gateway.wait_status(JUDGED, Some(200));
    assert_eq!(open.get("/version", &[]).unwrap().status, 200, "none has ended");
}

#[test]
fn restart_of_the_control_plane_fails_no_request_at_a_gateway() {
    let Some(mut gateway) = HttpsSite::start("gateway-restart") else { return };
    let _edge = gateway.envoy("edge", &EDGE);
    gateway.wait_status(JUDGED, Some(200));
    let requests = SteadyRequests::start(&gateway.target(JUDGED));
    requests.wait_for(20);
    gateway.site.plane.process().kill();
    requests.wait_for(20);
    gateway.site.plane.restart().unwrap();
    let edge = ["gateways", "infra", "edge"];
    gateway.site.wait(edge, "", &["Programmed True Programmed"]);
    requests.wait_for(20);
    // It follows its objects again.
    let renewed = gateway.certificate("cert");
    wait_shown(&gateway.target(JUDGED), &renewed);
    requests.none_failed();
    gateway.grant("team", &[("HTTPRoute", "team")]);
    gateway.wait_status(JUDGED, Some(500));
}

/// The access log's lines of the Gateway, by their reason.
fn lines(edge: &Envoy, reason: &str) -> Vec<Value> {
    let text = edge.process().stdout();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["reason"] == reason && line["gateway"] == "infra/edge").collect()
}

/// The specification has 500 for all requests of such a route; a closed connection is an `EOF` without a word.
#[test]
fn route_without_a_backend_answers_500_and_reaches_nothing() {
    let Some(gateway) = HttpsSite::start("gateway-unresolved") else { return };
    let edge = gateway.envoy("edge", &EDGE);
    gateway.wait_status(JUDGED, Some(200));
    let before = H2Client::connect(&gateway.target(JUDGED)).unwrap().authority(JUDGED);
    let (gone, served) = ("gone.wide.example.com", "served.wide.example.com");
    gateway.route_to("absent.example.com", "gone", "*.wide.example.com", &json!({}));
    gateway.route("served", served, &json!({}));
    gateway.site.wait(["httproutes", "team", "gone"], "/parents/0", &["Accepted True Accepted"]);
    gateway.wait_status(gone, Some(500));
    gateway.wait_status(served, Some(200));

    let token = "abcdef.0123456789abcdef";
    let bearer = format!("Bearer {token}");
    let get = |authority: &str| {
        let client = H2Client::connect(&gateway.target(gone)).unwrap().authority(authority);
        client.get("/api/v1/secrets", &[("authorization", bearer.as_str())]).unwrap()
    };
    for authority in [gone.to_owned(), format!("{gone}:443"), "192.0.2.7:6443".to_owned(), "[2001:db8::1]".to_owned()] {
        let answer = get(&authority);
        assert_eq!(answer.status, 500, "{authority}");
        assert_eq!(answer.header("content-type").as_deref(), Some("application/json"), "{authority}");
        let body: Value = serde_json::from_str(&answer.text()).unwrap();
        let shown = ["kind", "status", "reason"].map(|field| body[field].as_str().unwrap_or_default().to_owned());
        assert_eq!(shown, ["Status", "Failure", "InternalError"], "{authority}");
        assert_eq!(body["code"], 500, "{authority}");
        assert!(!answer.text().contains("absent") && !answer.text().contains("team"), "{}", answer.text());
    }
    // The backend may be there again: no client keeps a connection that would answer 500 for the drain time.
    let kept = H2Client::connect(&gateway.target(gone)).unwrap().authority(gone);
    assert_eq!(kept.get("/version", &[]).unwrap().status, 500);
    wait::until("the connection ends", SOON, || kept.get("/version", &[]).is_err().then_some(())).unwrap();
    // A browser has one connection for all names of a certificate.
    for authority in [served, JUDGED] {
        assert_eq!(get(authority).status, 421, "{authority}");
    }
    let has_lines = || (lines(&edge, "unresolved").len() > 3 && lines(&edge, "misdirected").len() > 1).then_some(());
    wait::until("a line for each", SOON, has_lines).unwrap();
    assert!(!edge.process().stdout().contains(token), "no credential is logged");
    assert_eq!(lines(&edge, "unresolved")[0]["sni"], gone);

    // The backend of a route that is served goes, and comes back.
    let requests = SteadyRequests::on_new_connections(&gateway.target(served));
    requests.wait_for(20);
    gateway.route_to("absent.example.com", "route", JUDGED, &json!({}));
    gateway.wait_status(JUDGED, Some(500));
    let is_turned_away = || before.get("/version", &[]).map_or(true, |answer| answer.status == 421).then_some(());
    wait::until("connections of before lead nowhere", SOON, is_turned_away).unwrap();
    gateway.route("route", JUDGED, &json!({}));
    gateway.wait_status(JUDGED, Some(200));
    requests.wait_for(20);
    requests.none_failed();
}

#[test]
fn request_for_a_name_of_others_has_a_line_in_the_log() {
    let Some(gateway) = HttpsSite::start("gateway-misdirected") else { return };
    let (open, held) = ("open.wide.example.com", "held.wide.example.com");
    gateway.route("wide", "*.wide.example.com", &json!({}));
    // A refused route keeps its name, so that the wildcard has none of its requests.
    let path = json!({"matches": [{"path": {"type": "PathPrefix", "value": "/api"}}]});
    gateway.route("held", held, &path);
    let edge = gateway.envoy("edge", &EDGE);
    gateway.wait_status(open, Some(200));
    let client = H2Client::connect(&gateway.target(open)).unwrap().authority(held);
    wait::until("the name is another's", SOON, || (client.get("/version", &[]).ok()?.status == 421).then_some(()))
        .unwrap();
    let line = wait::until("its line", SOON, || lines(&edge, "misdirected").pop()).unwrap();
    assert_eq!(
        (&line["code"], &line["sni"], &line["decision"]),
        (&json!(421), &json!(open), &json!("refused")),
        "{line}"
    );
}
