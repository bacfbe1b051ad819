//! The changes that end something, and what they leave alone.

use std::net::SocketAddr;
use std::time::Duration;

use portcullis_harness::client::{ClientPool, H2Client, LoadProfile, Protocol, TlsTarget, Watches};
use portcullis_harness::{ports, wait};
use serde_json::{Value, json};

use super::changes::other;
use super::site::{Site, encode};

const SOON: Duration = Duration::from_secs(30);
const WATCHED: &str = "/api/v1/namespaces/default/secrets";
const NEIGHBOUR: &str = "other.example.org";
/// Watches on each cluster.
const EACH: usize = 4;

/// The connections that end: none, the cluster's own, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    None,
    Own,
    All,
}

type Edit = (&'static str, Ends, fn(&mut Site));

/// Of a cluster; in docs/operations.md.
const OF_A_CLUSTER: &[Edit] = &[
    ("serverNames", Ends::Own, |site| site.change("/spec/secureServing/serverNames", json!(["more.example.com"]))),
    ("virtualIPs", Ends::None, |site| site.change("/spec/portcullis/virtualIPs", json!(["127.1.0.1"]))),
    ("clientCertificateVerification", Ends::None, |site| {
        site.change("/spec/portcullis/clientCertificateVerification", json!("Handshake"));
    }),
    ("the default certificate in place of its own", Ends::Own, |site| {
        for field in ["certData", "keyData"] {
            site.set(&format!("/spec/secureServing/{field}"), json!(""));
        }
        site.gateway.apply(&site.manifest).unwrap();
    }),
    ("its own certificate in place of the default one", Ends::Own, |site| {
        let identity = site.gateway.serving_identity(crate::fixture::NAME).unwrap();
        site.set("/spec/secureServing/keyData", encode(&identity.key_pem()));
        site.change("/spec/secureServing/certData", encode(&identity.pem()));
    }),
];

/// Of the gateway; in docs/operations.md.
const OF_THE_GATEWAY: &[Edit] = &[
    ("accessLog.destination", Ends::All, |site| settings(site, "/accessLog", json!({"destination": "stderr"}))),
    ("limits.maxConcurrentStreams", Ends::All, |site| settings(site, "/limits", json!({"maxConcurrentStreams": 99}))),
    ("requestHeaderNames", Ends::All, |site| settings(site, "/requestHeaderNames", json!({"user": "X-Auth-User"}))),
    ("listener.trustedHops", Ends::All, |site| settings(site, "/listener/trustedHops", json!(1))),
    ("a port for proxies", Ends::None, |site| proxies(site, "127.0.0.0/8")),
    ("trustedProxies", Ends::None, |site| proxies(site, "127.0.0.0/9")),
    ("a port for tunnels", Ends::None, |site| tunnel(site, json!([]))),
    ("trustedSources", Ends::None, |site| tunnel(site, json!(["127.0.0.0/8"]))),
    ("rebalance", Ends::None, |site| settings(site, "/rebalance", json!({"chance": 0.000_001}))),
    ("listener.tls", Ends::All, |site| settings(site, "/listener/tls", json!({"minimumVersion": "TLSv1_3"}))),
    ("the first of listener.additionalAddresses", Ends::All, |site| more_ports(site)),
    ("another in its place", Ends::All, |site| more_ports(site)),
    ("none of listener.additionalAddresses", Ends::All, |site| {
        settings(site, "/listener/additionalAddresses", json!([]));
    }),
    ("listener.address", Ends::All, |site| settings(site, "/listener/address", json!("0.0.0.0"))),
    ("instance", Ends::All, |site| settings(site, "/instance", json!("renamed"))),
];

fn settings(site: &Site, pointer: &str, value: Value) {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    site.gateway.change_settings(|spec| spec.pointer_mut(parent).unwrap()[field] = value).unwrap();
}

/// A port of their own; its clients are the only ones to notice.
fn proxies(site: &Site, range: &str) {
    let port = ports::free_address().unwrap().port();
    settings(site, "/listener/proxyProtocol", json!({"port": port, "trustedProxies": [range]}));
}

fn more_ports(site: &Site) {
    let port = ports::free_address().unwrap().port();
    settings(site, "/listener/additionalAddresses", json!([{"port": port}]));
}

/// A port of its own, too.
fn tunnel(site: &Site, sources: Value) {
    let port = ports::free_address().unwrap().port();
    settings(site, "/listener/tunnel", json!({"port": port, "trustedSources": sources}));
}

fn watches(site: &Site, crowd: &ClientPool, name: &str) -> Watches {
    watches_at(site, crowd, site.gateway.address(), name)
}

fn watches_at(site: &Site, crowd: &ClientPool, address: SocketAddr, name: &str) -> Watches {
    // The default certificate does not carry the cluster's name.
    let target = TlsTarget::new(address).sni(name).timeout(SOON).identity(&site.pki.alice);
    let of = |protocol| (LoadProfile::new(format!("{name}, {protocol:?}"), &target, protocol), EACH / 2);
    let lanes = [of(Protocol::Http2), of(Protocol::Http1)];
    crowd.watches(&lanes, &format!("{WATCHED}?watch=true&resourceVersion=0")).unwrap()
}

/// Creates the object of that number; a watch gets the events of all of them.
fn tell(site: &Site, watches: &Watches, number: u64) {
    let client = H2Client::connect(&site.gateway.target(NEIGHBOUR).identity(&site.pki.admin)).unwrap();
    let object =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("told-{number}")}}).to_string();
    let headers = [("content-type", &b"application/json"[..])];
    assert_eq!(client.request("POST", WATCHED, &headers, object.as_bytes()).unwrap().status, 201);
    let told = || (watches.events() == (number, number)).then_some(());
    wait::until("watches that go on are told", SOON, told).unwrap();
}

/// Whether nothing drains any more.
fn is_drained(site: &Site) -> Option<()> {
    let of = |name: &str| site.gateway.envoy().admin().stat(name);
    let chains = of("listener_manager.total_filter_chains_draining").ok()?;
    (chains + of("listener_manager.total_listeners_draining").ok()? == 0).then_some(())
}

fn make(edits: &[Edit], site: &mut Site) {
    site.gateway.apply(&other(site)).unwrap();
    let crowd = ClientPool::new(2).unwrap();
    for ((name, ends, edit), number) in edits.iter().zip(1..) {
        let own = watches(site, &crowd, crate::fixture::NAME);
        let neighbours = watches(site, &crowd, NEIGHBOUR);
        edit(site);
        let all_ended = |watches: &Watches, which: &str| {
            let ended = || (watches.ended().len() == EACH).then_some(());
            wait::until(&format!("{name}: {which} watches end"), SOON, ended).unwrap();
        };
        if *ends != Ends::None {
            all_ended(&own, "the cluster's own");
        }
        wait::until(&format!("{name}: all is drained"), SOON, || is_drained(site)).unwrap();
        if *ends == Ends::All {
            all_ended(&neighbours, "the neighbours'");
        }
        let again = watches(site, &crowd, crate::fixture::NAME);
        tell(site, if *ends == Ends::All { &again } else { &neighbours }, number);
        let ended = (own.ended().len(), neighbours.ended().len());
        let expected = match ends {
            Ends::None => (0, 0),
            Ends::Own => (EACH, 0),
            Ends::All => (EACH, EACH),
        };
        assert_eq!(ended, expected, "{name}");
    }
}

#[test]
fn cluster_edit_that_drains_ends_only_its_own_connections() {
    make(OF_A_CLUSTER, &mut Site::start("ends"));
}

#[test]
fn gateway_edit_that_drains_ends_the_listed_connections() {
    make(OF_THE_GATEWAY, &mut Site::start("ends-all"));
}

/// All of them share a filter chain.
#[test]
fn edit_of_virtual_ips_ends_what_came_by_them_and_nothing_else() {
    let mut site = Site::start("ends-addresses");
    site.gateway.apply(&other(&site)).unwrap();
    settings(&site, "/listener/address", json!("0.0.0.0"));
    let crowd = ClientPool::new(2).unwrap();
    let [own, neighbours] = [crate::fixture::NAME, NEIGHBOUR].map(|name| watches(&site, &crowd, name));
    for addresses in [json!(["127.1.0.1"]), json!(["127.1.0.1", "127.1.0.2"]), json!(["127.1.0.2"])] {
        let is_first = site.manifest.get("/spec/portcullis/virtualIPs").is_null();
        let by = SocketAddr::from(([127, 1, 0, 1], site.gateway.address().port()));
        let came = (!is_first).then(|| watches_at(&site, &crowd, by, crate::fixture::NAME));
        site.change("/spec/portcullis/virtualIPs", addresses);
        if let Some(came) = came {
            wait::until("watches by the address end", SOON, || (came.ended().len() == EACH).then_some(())).unwrap();
        }
    }
    wait::until("all is drained", SOON, || is_drained(&site)).unwrap();
    tell(&site, &neighbours, 1);
    wait::until("the cluster's own are told", SOON, || (own.events() == (1, 1)).then_some(())).unwrap();
    assert_eq!((own.ended().len(), neighbours.ended().len()), (0, 0));
}
