//! `KubernetesUpstreams`: who may lead there, and how many there are.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{HOME, INFRA, class, created, gateway, inventory, lines, listener, object, read, tls_route};
use crate::{
    ContentKind, ContentName, FormerCertificates, GatewayObjects, Inventory, ObjectName, UpstreamObject, UpstreamState,
    attach, referred_contents,
};

const TEAM: &str = "team-a";

fn upstream(namespace: &str, name: &str, year: u32) -> UpstreamObject {
    let metadata = json!({"name": name, "namespace": namespace, "generation": 3});
    let document = created(json!({"metadata": metadata}), year);
    let secret =
        ContentName { kind: ContentKind::UpstreamSecret, object: ObjectName::new(namespace, format!("{name}-key")) };
    UpstreamObject { metadata: serde_json::from_value(document["metadata"].clone()).unwrap(), contents: vec![secret] }
}

fn reference(namespace: Option<&str>, name: &str) -> Value {
    let mut reference = json!({"group": "portcullis.dev", "kind": "KubernetesUpstream", "name": name});
    if let Some(namespace) = namespace {
        reference["namespace"] = json!(namespace);
    }
    reference
}

fn route(namespace: &str, name: &str, host: &str, backends: &[Value]) -> Value {
    let spec = json!({
        "parentRefs": [{"name": "g", "namespace": INFRA}], "hostnames": [host], "rules": [{"backendRefs": backends}],
    });
    object("HTTPRoute", namespace, name, &spec)
}

fn grant(namespace: &str, kind: &str, from: &str, name: Option<&str>) -> Value {
    let mut to = json!({"group": "portcullis.dev", "kind": "KubernetesUpstream"});
    if let Some(name) = name {
        to["name"] = json!(name);
    }
    let from = json!([{"group": "gateway.networking.k8s.io", "kind": kind, "namespace": from}]);
    object("ReferenceGrant", namespace, &format!("{kind}-{}", to["name"]), &json!({"from": from, "to": [to]}))
}

fn world(documents: &[Value], upstreams: Vec<UpstreamObject>) -> GatewayObjects {
    let listeners = json!([listener("h", 443, "HTTPS", ""), listener("t", 8443, "TLS", "")]);
    let mut all = vec![class(), gateway(&listeners)];
    all.extend_from_slice(documents);
    GatewayObjects { upstreams, ..read(&all) }
}

/// All of these upstreams can be used.
fn usable(objects: &GatewayObjects) -> Inventory {
    let state = |one: &UpstreamObject| (ObjectName::of(&one.metadata), UpstreamState::Usable);
    Inventory { upstreams: objects.upstreams.iter().map(state).collect(), ..inventory() }
}

fn outcome(objects: &GatewayObjects, inventory: &Inventory) -> String {
    lines(&attach(objects, inventory)).join("\n")
}

fn assert_line(case: &str, found: &str, line: &str) {
    assert!(found.lines().any(|one| one.starts_with(line)), "{case}: {line} in\n{found}");
}

#[test]
fn route_and_gateway_need_grants_in_the_upstreams_namespace() {
    let gateways = || grant(TEAM, "Gateway", INFRA, None);
    let open = ["bound h a.test r -> team-a/prod*1", "route r ResolvedRefs True"];
    let unrouted = [
        "bound h a.test r -> refused*1",
        "route r ResolvedRefs False RefNotPermitted: spec.rules[0].backendRefs[0]: no ReferenceGrant in namespace team-a permits KubernetesUpstream prod",
    ];
    let no_key = [
        "bound h a.test r -> refused*1",
        "route r ResolvedRefs False RefNotPermitted: no ReferenceGrant in namespace team-a permits Gateways of namespace infra to lead to KubernetesUpstream prod",
    ];
    let own = || route(TEAM, "r", "a.test", &[reference(None, "prod")]);
    let foreign = || route("team-b", "r", "a.test", &[reference(Some(TEAM), "prod")]);
    for (case, documents, expected) in [
        ("of its own namespace", vec![own(), gateways()], &open[..]),
        (
            "by its own namespace's name",
            vec![route(TEAM, "r", "a.test", &[reference(Some(TEAM), "prod")]), gateways()],
            &open,
        ),
        ("without one for the Gateway", vec![own()], &no_key),
        ("with one for a Gateway of another namespace", vec![own(), grant(TEAM, "Gateway", "team-b", None)], &no_key),
        ("with one for another upstream", vec![own(), grant(TEAM, "Gateway", INFRA, Some("test"))], &no_key),
        ("with one in the control plane's namespace", vec![own(), grant(HOME, "Gateway", INFRA, None)], &no_key),
        ("of another namespace", vec![foreign(), gateways()], &unrouted),
        (
            "of the control plane's namespace",
            vec![route(HOME, "r", "a.test", &[reference(Some(TEAM), "prod")]), gateways()],
            &unrouted,
        ),
        (
            "of another namespace with a grant",
            vec![foreign(), gateways(), grant(TEAM, "HTTPRoute", "team-b", Some("prod"))],
            &open,
        ),
        (
            "with a grant of its own namespace",
            vec![foreign(), gateways(), grant("team-b", "HTTPRoute", "team-b", None)],
            &unrouted,
        ),
        ("with a grant for TLSRoutes", vec![foreign(), gateways(), grant(TEAM, "TLSRoute", "team-b", None)], &unrouted),
    ] {
        let objects = world(&documents, vec![upstream(TEAM, "prod", 2024)]);
        let found = outcome(&objects, &usable(&objects));
        for line in expected {
            assert_line(case, &found, line);
        }
    }
}

/// A grant to refer to an upstream is none to read it.
#[test]
fn refusal_of_an_upstream_is_quoted_in_its_namespace_alone() {
    let of =
        |namespace: &str| route(namespace, namespace, &format!("{namespace}.test"), &[reference(Some(TEAM), "prod")]);
    let grants = [grant(TEAM, "Gateway", INFRA, None), grant(TEAM, "HTTPRoute", "team-b", None)];
    let documents: Vec<Value> = [of(TEAM), of("team-b")].into_iter().chain(grants).collect();
    let objects = world(&documents, vec![upstream(TEAM, "prod", 2024)]);
    let states = [
        (UpstreamState::Invalid("spec.servers: hidden-value".to_owned()), "Invalid"),
        (UpstreamState::Unresolved("Secret hidden-value".to_owned()), "RefNotResolved"),
    ];
    for (state, reason) in states {
        let inventory = Inventory { upstreams: [(ObjectName::new(TEAM, "prod"), state)].into(), ..inventory() };
        let found = outcome(&objects, &inventory);
        let lines: Vec<&str> = found.lines().filter(|line| line.contains("no request may be sent")).collect();
        let [own, foreign] = lines.as_slice() else { panic!("{found}") };
        assert!(own.starts_with("route team-a ") && own.contains("hidden-value"), "{own}");
        assert!(foreign.ends_with(&format!("KubernetesUpstream team-a/prod: {reason}")), "{foreign}");
    }
}

#[test]
fn state_of_an_upstream_is_that_of_its_routes() {
    let documents = [route(TEAM, "r", "a.test", &[reference(None, "prod")]), grant(TEAM, "Gateway", INFRA, None)];
    let objects = world(&documents, vec![upstream(TEAM, "prod", 2024)]);
    let name = ObjectName::new(TEAM, "prod");
    let with = |state: Option<UpstreamState>| Inventory {
        upstreams: state.map(|state| (name.clone(), state)).into_iter().collect(),
        ..inventory()
    };
    let conditions = |inventory: &Inventory| {
        let verdicts = attach(&objects, inventory).upstreams;
        let [verdict] = verdicts.as_slice() else { panic!("{verdicts:?}") };
        assert_eq!((&verdict.name, verdict.generation), (&name, Some(3)));
        verdict
            .conditions
            .iter()
            .map(|one| format!("{} {} {}", one.kind, one.status, one.reason))
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (case, inventory, expected) in [
        (
            "invalid",
            with(Some(UpstreamState::Invalid("w".to_owned()))),
            "Accepted false Invalid ResolvedRefs true ResolvedRefs",
        ),
        (
            "unresolved",
            with(Some(UpstreamState::Unresolved("w".to_owned()))),
            "Accepted true Accepted ResolvedRefs false RefNotResolved",
        ),
        ("not read", with(None), "Accepted true Accepted ResolvedRefs false RefNotResolved"),
        (
            "refused by the settings",
            Inventory {
                passing_clusters: [("team-a/prod".to_owned(), "w".to_owned())].into(),
                ..with(Some(UpstreamState::Usable))
            },
            "Accepted false Invalid ResolvedRefs true ResolvedRefs",
        ),
    ] {
        assert_eq!(conditions(&inventory), expected, "{case}");
        let attached = attach(&objects, &inventory);
        let found = lines(&attached).join("\n");
        assert_line(case, &found, "bound h a.test r -> refused*1");
        assert_line(case, &found, "route r ResolvedRefs False TerminationRefused");
        assert_eq!(attached.requested_clusters, ["team-a/prod".to_owned()].into(), "{case}: it is looked at again");
    }
    let usable = with(Some(UpstreamState::Usable));
    assert_eq!(conditions(&usable), "Accepted true Accepted ResolvedRefs true ResolvedRefs");
    let absent = GatewayObjects { upstreams: Vec::new(), ..objects.clone() };
    let found = outcome(&absent, &usable);
    assert_line("absent", &found, "route r ResolvedRefs False BackendNotFound");
    let found = outcome(&absent, &Inventory { is_complete: false, ..usable });
    assert_line("assumed", &found, "bound h a.test r -> team-a/prod*1");
}

#[test]
fn upstream_is_no_cluster_and_no_cluster_an_upstream() {
    let cluster = |name: &str| json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": name});
    let gateways = grant(TEAM, "Gateway", INFRA, None);
    let upstreams = || vec![upstream(TEAM, "prod", 2024), upstream(TEAM, "c1", 2024), upstream(HOME, "c1", 2024)];
    for (case, reference, is_complete, reason) in [
        ("a cluster by an upstream's key", cluster("team-a/prod"), true, "BackendNotFound"),
        ("offline", cluster("team-a/prod"), false, "BackendNotFound"),
        ("an upstream with a slash", reference(Some(HOME), "a/b"), true, "BackendNotFound"),
        ("offline", reference(Some(HOME), "a/b"), false, "BackendNotFound"),
        (
            "the group of clusters",
            json!({"group": "proxy.kubegateway.io", "kind": "KubernetesUpstream", "name": "c1"}),
            true,
            "InvalidKind",
        ),
    ] {
        let objects = world(&[route(HOME, "r", "a.test", &[reference]), gateways.clone()], upstreams());
        let found = outcome(&objects, &Inventory { is_complete, ..usable(&objects) });
        assert_line(case, &found, &format!("route r ResolvedRefs False {reason}"));
    }
    // An upstream with a cluster's name has none of its host names.
    let documents =
        [route(HOME, "r", "c1.own", &[reference(None, "c1")]), route(HOME, "w", "x.c1.own", &[reference(None, "c1")])];
    let objects = world(&documents, upstreams());
    let found = outcome(&objects, &usable(&objects));
    for route in ["r", "w"] {
        assert_line("a cluster's host name", &found, &format!("route {route} Accepted False HostnameConflict"));
    }
    let passed = {
        let mut passed = tls_route("t", &["a.test"], &[]);
        passed["spec"]["rules"][0]["backendRefs"] = json!([reference(None, "c1")]);
        passed
    };
    let objects = world(&[passed], upstreams());
    let why = "route t ResolvedRefs False InvalidKind: spec.rules[0].backendRefs[0]: no connection is passed on to a KubernetesUpstream";
    assert_line("a TLSRoute", &outcome(&objects, &usable(&objects)), why);
    let both = route(HOME, "r", "a.test", &[reference(None, "c1"), cluster("c1")]);
    let objects = world(&[both], upstreams());
    assert_line("shares", &outcome(&objects, &usable(&objects)), "route r Accepted False UnsupportedValue");
    let mut with_port = reference(None, "c1");
    with_port["port"] = json!(443);
    let objects = world(&[route(HOME, "r", "a.test", &[with_port])], upstreams());
    assert_line("a port", &outcome(&objects, &usable(&objects)), "route r Accepted False UnsupportedValue");
}

#[test]
fn oldest_upstreams_have_room_and_their_secrets_are_read() {
    let of = |namespace: &str, count: u32| {
        (0..count).map(|index| upstream(namespace, &format!("u{index}"), 2000 + index)).collect::<Vec<_>>()
    };
    let mut upstreams = of(TEAM, 18);
    upstreams.extend(of("team-b", 1));
    let objects = world(&[], upstreams);
    let attached = attach(&objects, &usable(&objects));
    let refused: Vec<String> = attached
        .upstreams
        .iter()
        .filter(|one| one.conditions.iter().any(|one| one.reason == "TooManyUpstreams"))
        .map(|one| one.name.to_string())
        .collect();
    assert_eq!(refused, ["team-a/u16", "team-a/u17"]);
    let contents = referred_contents(&objects, &FormerCertificates::new());
    let is_read = |namespace: &str, name: &str| {
        contents.contains(&ContentName { kind: ContentKind::UpstreamSecret, object: ObjectName::new(namespace, name) })
    };
    assert!(is_read(TEAM, "u15-key") && !is_read(TEAM, "u16-key") && is_read("team-b", "u0-key"));
    let many: Vec<UpstreamObject> = (0..40).flat_map(|index| of(&format!("n{index:02}"), 16)).collect();
    let objects = world(&[], many);
    assert_eq!(
        referred_contents(&objects, &FormerCertificates::new())
            .iter()
            .filter(|one| one.kind == ContentKind::UpstreamSecret)
            .count(),
        512
    );
}

/// A grant that is drawn: whether for a Gateway, in which namespace, for which, and for which upstream.
type DrawnGrant = (bool, usize, usize, Option<usize>);

proptest! {
    #[test]
    fn upstream_is_reached_with_both_grants_alone(
        routes in prop::collection::vec((0..3_usize, 0..3_usize, 0..2_usize), 1..6),
        grants in prop::collection::vec((any::<bool>(), 0..3_usize, 0..4_usize, prop::option::of(0..2_usize)), 0..10),
    ) {
        let (spaces, names) = ([TEAM, "team-b", HOME, INFRA], ["prod", "c1"]);
        let written = |(is_gateway, at, from, name): &DrawnGrant| {
            grant(spaces[*at], if *is_gateway { "Gateway" } else { "HTTPRoute" }, spaces[*from], name.map(|name| names[name]))
        };
        let mut documents: Vec<Value> = grants.iter().map(written).collect();
        documents.extend(routes.iter().enumerate().map(|(index, (from, to, name))| {
            route(spaces[*from], &format!("r{index}"), &format!("h{index}.test"), &[reference(Some(spaces[*to]), names[*name])])
        }));
        let upstreams = spaces.iter().take(3).flat_map(|space| names.iter().map(move |name| upstream(space, name, 2024))).collect();
        let objects = world(&documents, upstreams);
        let found = outcome(&objects, &usable(&objects));
        for (index, (from, to, name)) in routes.iter().enumerate() {
            let permits = |is_gateway: bool, from: usize| grants.iter().any(|(of_gateway, at, for_space, only)| {
                *of_gateway == is_gateway && at == to && *for_space == from && only.is_none_or(|only| only == *name)
            });
            let is_open = (from == to || permits(false, *from)) && permits(true, 3);
            let target = if is_open { format!("{}/{}", spaces[*to], names[*name]) } else { "refused".to_owned() };
            let line = format!("bound h h{index}.test r{index} -> {target}*1");
            prop_assert!(found.lines().any(|one| one == line), "{line} in\n{found}");
        }
    }
}
