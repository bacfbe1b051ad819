//! Requests of HTTPRoutes go on with the gateway's credential: whose Envoys get it is permitted to their Gateway.

use portcullis_gateway_api::ReferenceGrant;
use portcullis_instances::{MemberHolder, MemberName, Ownership, Settlement};
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

#[test]
fn gateway_of_an_instance_leads_to_its_clusters_alone() {
    let of = |name: &str| MemberHolder::Instance(name.to_owned());
    let gateway = MemberName::gateway(format!("{INFRA}/g"));
    let owners = |of_gateway: MemberHolder, of_cluster: MemberHolder| {
        let owned = |holder| Ownership { holder, next: None };
        let owners = [(gateway.clone(), owned(of_gateway)), (MemberName::cluster("c2"), owned(of_cluster))].into();
        Settlement { owners, ..Settlement::default() }
    };
    for (case, settled, is_open) in [
        ("of one instance", owners(of("a"), of("a")), true),
        ("of none", owners(MemberHolder::Free, MemberHolder::Free), true),
        ("of two instances", owners(of("a"), of("b")), false),
        ("cluster of an instance", owners(MemberHolder::Free, of("a")), false),
        ("cluster of none", owners(of("a"), MemberHolder::Free), false),
    ] {
        let attached = attach(&objects(), &Inventory { owners: settled, ..inventory() });
        let found = lines(&attached).join("\n");
        let lines = match is_open {
            true => {
                ["bound h a.h.test judged -> c2*1", "bound t a.t.test passed -> c2*1", "route judged ResolvedRefs True"]
            }
            false => [
                "bound h a.h.test judged -> refused*1",
                "bound t a.t.test passed -> refused*1",
                "route judged ResolvedRefs False RefNotPermitted",
            ],
        };
        for line in lines {
            assert!(found.lines().any(|one| one.starts_with(line)), "{case}: {line} in\n{found}");
        }
        let conditions = attached.routes.iter().flat_map(|route| &route.parents).flat_map(|parent| &parent.conditions);
        let told = conditions.filter(|one| one.message.contains("belongs to")).count();
        assert_eq!(told, if is_open { 0 } else { 2 }, "{case}");
        // The reconciler has the newest owners, and leaves the same out.
        let attached = attach(&objects(), &inventory());
        let [served] = attached.served.as_slice() else { panic!("one Gateway") };
        let without = served.without_clusters(|cluster| cluster != "c2").unwrap();
        assert_eq!(without.passed_on_backends().count(), 0);
        assert_eq!(served.without_clusters(|_| true), None);
    }
}
