//! Tokens that go to kube-apiserver as they are: who is rejected there ends nothing of who is not.

use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{ClientPool, H2Client, Outgoing};
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::wait;
use serde_json::json;

use crate::fixture::{Identities, KubeFixture, NAME};

const WATCHES: usize = 200;
/// Streams of one connection, as kube-apiserver allows.
const SHARING: usize = 50;
const STRANGERS: usize = 600;
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const SOON: Duration = Duration::from_secs(20);

/// With tokens reviewed here, and with tokens that only kube-apiserver judges.
#[test]
fn storm_of_strangers_ends_no_watch() {
    let options = (&KubeOptions::default(), &GatewayOptions::default());
    let Some(fixture) = KubeFixture::forwarding(Identities::RequestHeader, "strangers", options.0, options.1) else {
        return;
    };
    fixture.admin(&["create", "serviceaccount", "robot"]);
    fixture.admin(&[
        "create",
        "rolebinding",
        "robot",
        "--clusterrole=system:aggregate-to-view",
        "--serviceaccount=default:robot",
    ]);
    let token = format!("Bearer {}", fixture.admin(&["create", "token", "robot"]).trim());
    for reviews in [true, false] {
        let fields = json!({"requestHeader": {"tokenReview": reviews}});
        fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", fixture.portcullis(fields))).unwrap();
        outlast(&fixture, &token, &format!("reviewed-{reviews}"));
    }
}

fn outlast(fixture: &KubeFixture, token: &str, object: &str) {
    let target = fixture.gateway.target(NAME).timeout(SOON);
    let crowd = ClientPool::new(2).unwrap();
    let clients: Vec<_> = (0..WATCHES / SHARING).map(|_| crowd.connect(&target).unwrap()).collect();
    let path = format!("{CONFIGMAPS}?watch=1");
    let headers = [("authorization", token.as_bytes())];
    let mut watches: Vec<_> = clients
        .iter()
        .flat_map(|client| (0..SHARING).map(|_| client.open("GET", &path, &headers, b"").unwrap()))
        .collect();
    assert!(watches.iter().all(|watch| watch.response.status == 200), "every watch is open");

    let strangers = crowd.connect(&target).unwrap();
    let stranger = |number: usize| match number % 3 {
        0 => Outgoing::get(CONFIGMAPS, &[]),
        _ => Outgoing::get(CONFIGMAPS, &[("authorization", &format!("Bearer {object}-{number}"))]),
    };
    let mut refused = 0;
    for answer in strangers.burst((0..STRANGERS).map(stranger).collect(), 60) {
        let status = answer.unwrap().status;
        assert!(matches!(status, 401 | 403 | 429), "{status}");
        refused += 1;
    }
    assert_eq!(refused, STRANGERS);

    a_revoked_token_is_rejected_there(fixture, &strangers, object);
    fixture.admin(&["create", "configmap", object]);
    let name = format!("\"name\":\"{object}\"");
    for (number, watch) in watches.iter_mut().enumerate() {
        let mut seen = String::new();
        while !seen.contains(&name) {
            let chunk = watch.next_chunk(SOON).unwrap();
            let chunk = chunk.unwrap_or_else(|| panic!("watch {number} of {object} has ended"));
            seen += &String::from_utf8_lossy(&chunk);
        }
    }
}

/// Known here as good, it shares a connection with the others, and kube-apiserver closes that connection to new requests.
fn a_revoked_token_is_rejected_there(fixture: &KubeFixture, client: &H2Client, object: &str) {
    let leaver = format!("leaver-{object}");
    fixture.admin(&["create", "serviceaccount", &leaver]);
    let token = format!("Bearer {}", fixture.admin(&["create", "token", &leaver]).trim());
    let headers = [("authorization", token.as_str())];
    assert_eq!(client.get("/api", &headers).unwrap().status, 200);
    fixture.admin(&["delete", "serviceaccount", &leaver]);
    let rejected = || (client.get("/api", &headers).ok()?.status == 401).then_some(());
    wait::until("kube-apiserver rejects the token", SOON, rejected).unwrap();
}
