//! The changes that end something, and what they leave alone.

use std::time::Duration;

use portcullis_harness::client::{Crowd, H2Client, Lane, Protocol, TlsTarget, Watches};
use portcullis_harness::wait;
use serde_json::json;

use super::changes::other;
use super::site::Site;

const SOON: Duration = Duration::from_secs(30);
const WATCHED: &str = "/api/v1/namespaces/default/secrets";
const NEIGHBOUR: &str = "other.example.org";
/// Watches on each cluster.
const EACH: usize = 4;

/// Whose connections end: the cluster's own, or everybody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Own,
    All,
}

type Edit = (&'static str, Ends, fn(&mut Site));

/// In docs/operations.md.
const EDITS: &[Edit] = &[
    ("serverNames", Ends::Own, |site| site.change("/spec/secureServing/serverNames", json!(["more.example.com"]))),
    ("clientCertificateVerification", Ends::Own, |site| {
        site.change("/spec/portcullis/clientCertificateVerification", json!("Handshake"));
    }),
    ("the default certificate in place of its own", Ends::Own, |site| {
        for field in ["certData", "keyData"] {
            site.set(&format!("/spec/secureServing/{field}"), json!(""));
        }
        site.gateway.apply(&site.manifest).unwrap();
    }),
    ("accessLog.destination", Ends::All, |site| {
        site.gateway.change_settings(|spec| spec["accessLog"] = json!({"destination": "stderr"})).unwrap();
    }),
    ("limits.maxConcurrentStreams", Ends::All, |site| {
        site.gateway.change_settings(|spec| spec["limits"] = json!({"maxConcurrentStreams": 99})).unwrap();
    }),
];

fn watches(site: &Site, crowd: &Crowd, name: &str) -> Watches {
    // The default certificate does not carry the cluster's name.
    let target = TlsTarget::new(site.gateway.address()).sni(name).timeout(SOON).identity(&site.pki.alice);
    let of = |protocol| (Lane::new(format!("{name}, {protocol:?}"), &target, protocol), EACH / 2);
    let lanes = [of(Protocol::Http2), of(Protocol::Http1)];
    crowd.watches(&lanes, &format!("{WATCHED}?watch=true&resourceVersion=0")).unwrap()
}

/// Makes the so many-th object; a watch is told of all of them.
fn tell(site: &Site, watches: &Watches, number: u64) {
    let client = H2Client::connect(&site.gateway.target(NEIGHBOUR).identity(&site.pki.admin)).unwrap();
    let object =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("told-{number}")}}).to_string();
    let headers = [("content-type", &b"application/json"[..])];
    assert_eq!(client.request("POST", WATCHED, &headers, object.as_bytes()).unwrap().status, 201);
    let told = || (watches.events() == (number, number)).then_some(());
    wait::until("watches that go on are told", SOON, told).unwrap();
}

#[test]
fn what_drains_ends_only_what_is_listed() {
    let mut site = Site::start("ends");
    site.gateway.apply(&other(&site)).unwrap();
    let crowd = Crowd::new(2).unwrap();
    for ((name, ends, edit), number) in EDITS.iter().zip(1..) {
        let own = watches(&site, &crowd, crate::world::NAME);
        let neighbours = watches(&site, &crowd, NEIGHBOUR);
        edit(&mut site);
        let drained = || (own.ended().len() == EACH).then_some(());
        wait::until(&format!("{name}: the cluster's own watches end"), SOON, drained).unwrap();
        let admin = site.gateway.envoy().admin();
        let none_drains = || (admin.stat("listener_manager.total_filter_chains_draining").ok()? == 0).then_some(());
        wait::until(&format!("{name}: all is drained"), SOON, none_drains).unwrap();
        if *ends == Ends::Own {
            assert_eq!(neighbours.ended().len(), 0, "{name}");
        } else {
            let drained = || (neighbours.ended().len() == EACH).then_some(());
            wait::until(&format!("{name}: the neighbours' watches end"), SOON, drained).unwrap();
        }
        let again = watches(&site, &crowd, crate::world::NAME);
        tell(&site, if *ends == Ends::Own { &neighbours } else { &again }, number);
    }
}
