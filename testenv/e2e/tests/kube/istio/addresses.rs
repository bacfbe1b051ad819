//! Which address of a client the audit log lists first behind an ingress gateway of Istio's.

use std::cell::Cell;
use std::time::Duration;

use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::kube::RealKube;
use serde_json::{Value, json};

use super::effect::{eventually, manager, nothing_was_refused};
use super::fixture::{Build, MeshFixture, NAME, Setup};

const SOON: Duration = Duration::from_secs(30);
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The address of the client of these tests, and of Envoy.
pub(super) const CONNECTION: &str = "127.0.0.1";
/// Forged, but for the last entry of the last `x-forwarded-for` where a proxy in front is trusted.
const FORGED: [(&str, &str); 4] = [
    ("x-forwarded-for", "192.0.2.66"),
    ("x-forwarded-for", "192.0.2.67, 192.0.2.68"),
    ("x-real-ip", "192.0.2.69"),
    ("forwarded", "for=192.0.2.70"),
];

/// `sourceIPs` of the audit event of a request with forged headers, whatever becomes of it.
pub(super) fn listed_by(kube: &RealKube, target: &TlsTarget, case: &str) -> Value {
    let path = format!("{CONFIGMAPS}?case={case}");
    H2Client::connect(target).unwrap().get(&path, &FORGED).unwrap();
    let is_it = |event: &Value| event["requestURI"] == *path;
    kube.apiservers()[0].wait_audit(case, SOON, is_it).unwrap()["sourceIPs"].clone()
}

fn listed(fixture: &MeshFixture, case: &str) -> Value {
    listed_by(&fixture.kube, &fixture.target().identity(&fixture.alice), case)
}

/// As long as the mesh trusts no proxy in front, which is Istio's default.
pub(super) fn no_forged_address_is_listed(fixture: &MeshFixture) {
    assert_eq!(listed(fixture, "untrusted"), json!([CONNECTION]));
}

#[test]
fn audit_event_follows_trusted_proxies_of_the_mesh() {
    let Some(fixture) = MeshFixture::start("istio-addresses", &Setup::new(Build::Module)) else { return };
    no_forged_address_is_listed(&fixture);
    for (number, address) in [(1, json!(["192.0.2.68", CONNECTION])), (2, json!(["192.0.2.67", CONNECTION]))] {
        fixture.trust_proxies(number);
        eventually("the mesh trusts proxies", || {
            let trusted = manager(&fixture.mesh, NAME)["xff_num_trusted_hops"].clone();
            if trusted == number { Ok(()) } else { Err(trusted.to_string()) }
        });
        let asked = Cell::new(0);
        // A worker may act by the listener of before for a moment longer.
        eventually("the trusted entry is listed", || {
            asked.set(asked.get() + 1);
            let found = listed(&fixture, &format!("trusted-{number}-{}", asked.get()));
            if found == address { Ok(()) } else { Err(found.to_string()) }
        });
    }
    nothing_was_refused(&fixture.mesh);
}
