//! Requests of HTTPRoutes go on with the gateway's credential: whose Envoys get it is permitted to their Gateway.

use portcullis_gateway_api::ReferenceGrant;
use serde_json::json;

use super::world::{HOME, INFRA, class, gateway, http_route, inventory, lines, listener, read, tls_route};
use crate::{GatewayObjects, Inventory, attach};

fn outcome(objects: &GatewayObjects, inventory: &Inventory) -> String {
    lines(&attach(objects, inventory)).join("\n")
}

/// One with a route of the control plane's own namespace, which may lead to all clusters.
fn objects() -> GatewayObjects {
    let listeners = json!([listener("h", 443, "HTTPS", "*.h.test"), listener("t", 8443, "TLS", "*.t.test")]);
    read(&[
        class(),
        gateway(&listeners),
        http_route("judged", &["a.h.test"], &["c2"]),
        tls_route("passed", &["a.t.test"], &["c2"]),
    ])
}

#[test]
fn gateway_needs_a_grant_for_the_credential_of_a_cluster() {
    let granted = objects();
    let [grant] = granted.grants.as_slice() else { panic!("{:?}", granted.grants) };
    let open = ["bound h a.h.test judged -> c2*1", "bound t a.t.test passed -> c2*1", "route judged ResolvedRefs True"];
    let closed = [
        "bound h a.h.test judged -> refused*1",
        "bound t a.t.test passed -> c2*1",
        "route judged ResolvedRefs False RefNotPermitted",
        "route judged Accepted True",
        "route passed ResolvedRefs True",
    ];
    let edited = |edit: fn(&mut ReferenceGrant)| {
        let mut grant = grant.clone();
        edit(&mut grant);
        vec![grant]
    };
    for (case, grants, expected) in [
        ("granted", vec![grant.clone()], &open[..]),
        ("none", Vec::new(), &closed),
        ("in another namespace", edited(|grant| grant.metadata.namespace = INFRA.to_owned()), &closed),
        ("for another namespace", edited(|grant| grant.spec.from[0].namespace = "team-a".to_owned()), &closed),
        ("for routes", edited(|grant| grant.spec.from[0].kind = "HTTPRoute".to_owned()), &closed),
        ("for another cluster", edited(|grant| grant.spec.to[0].name = Some("c1".to_owned())), &closed),
        ("for this cluster", edited(|grant| grant.spec.to[0].name = Some("c2".to_owned())), &open),
    ] {
        let found = outcome(&GatewayObjects { grants, ..granted.clone() }, &inventory());
        for line in expected {
            assert!(found.lines().any(|one| one.starts_with(line)), "{case}: {line} in\n{found}");
        }
    }
    let mut own = granted.clone();
    own.gateways.iter_mut().for_each(|gateway| gateway.metadata.namespace = HOME.to_owned());
    own.http_routes.iter_mut().for_each(|route| route.spec.parent_refs[0].namespace = Some(HOME.to_owned()));
    let mut known = inventory();
    known.secrets.insert(crate::ObjectName::new(HOME, "cert"), crate::Usability::Usable);
    let found = outcome(&GatewayObjects { grants: Vec::new(), ..own }, &known);
    assert!(
        found.contains("bound h a.h.test judged -> c2*1"),
        "a Gateway of the control plane's own namespace\n{found}"
    );
}

#[test]
fn cluster_that_is_passed_on_refuses_an_httproute_alone() {
    let why = "spec.portcullis.transport: its connections are passed on";
    let passing_clusters = [("c2".to_owned(), why.to_owned())].into();
    let found = outcome(&objects(), &Inventory { passing_clusters, ..inventory() });
    for line in [
        "bound h a.h.test judged -> refused*1",
        "route judged ResolvedRefs False TerminationRefused",
        "bound t a.t.test passed -> c2*1",
        "route passed ResolvedRefs True",
    ] {
        assert!(found.lines().any(|one| one.starts_with(line)), "{line} in\n{found}");
    }
    let attached = attach(&objects(), &inventory());
    assert_eq!(attached.requested_clusters, ["c2".to_owned()].into());
}
