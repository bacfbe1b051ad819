//! `KubernetesUpstreams` behind HTTPS listeners: served as a cluster with the same fields is, under names that no cluster has.

use std::collections::BTreeSet;
use std::sync::Arc;

use portcullis_api::{
    PolicyInEffect, PolicyKind, PolicyRole, PublicBytes, SecretBytes, UpstreamMaterial, is_allowed_server,
    upstream_key, upstream_rules,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{Pki, base64, set};
use super::gateway_https::{certificate, edge, https, is_closed, keys, names, route, routes_of, world};
use super::gateway_unresolved::is_unresolved;
use super::gateway_world::{NAME, World, chain_of, cluster, gateway};
use super::golden::hide_identity;
use super::render::render;
use crate::resource::{Resource, type_urls};
use crate::{GatewayTranslator, ResolvedUpstream, ResourceNames, place_of_routes};

pub(super) const KEY: &str = "team-a/prod";

fn document(namespace: &str, name: &str) -> Value {
    let in_secret = |name: &str| json!({"secret": {"name": name}});
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "KubernetesUpstream",
        "metadata": {"name": name, "namespace": namespace, "uid": "0000-1111", "creationTimestamp": "2025-01-01T00:00:00Z"},
        "spec": {
            "servers": [{"endpoint": "https://10.0.0.1:6443"}, {"endpoint": "https://10.0.0.2:6443", "disabled": false}],
            "serverName": "kubernetes",
            "references": {"upstreamCA": in_secret("ca"), "clientCA": in_secret("ca"), "client": in_secret("gateway")},
        },
    })
}

fn material(pki: &Pki) -> UpstreamMaterial {
    let public = |pem: &str| PublicBytes::new(pem.as_bytes().to_vec());
    UpstreamMaterial {
        upstream_ca: public(&pki.upstream_ca.cert),
        client_ca: public(&pki.client_ca.cert),
        certificate: public(&pki.client.cert),
        key: SecretBytes::new(pki.client.key.as_bytes().to_vec()),
        token: SecretBytes::default(),
    }
}

pub(super) fn add(world: &mut World, pki: &Pki, namespace: &str, name: &str, edit: impl FnOnce(&mut Value)) {
    let mut document = document(namespace, name);
    edit(&mut document);
    let rules = upstream_rules(&[]);
    let resolved = ResolvedUpstream { document: Arc::new(document), material: material(pki), rules };
    world.upstreams.insert(upstream_key(namespace, name), Arc::new(resolved));
}

fn to(name: &str) -> Vec<(&'static str, portcullis_attach::BoundRoute)> {
    vec![("a.test", route("a", vec![cluster(name, 1)], 0))]
}

#[test]
fn upstream_behind_an_https_listener() {
    let pki = Pki::new();
    let mut world = world(&pki);
    add(&mut world, &pki, "team-a", "prod", |_| {});
    let group = world.one(edge(vec![https("https", to(KEY), &[])]));
    let shown = |one: &&Arc<Resource>| one.type_url == type_urls::listener() || one.type_url.contains("RouteConfig");
    let mut resources: Vec<_> = group.iter().filter(shown).collect();
    resources.sort();
    let mut text: String = resources.into_iter().map(render).collect();
    let mut others: Vec<_> = group.iter().filter(|one| !shown(one)).map(|one| format!("# {}\n", one.name)).collect();
    others.sort();
    text.extend(others);
    insta::assert_snapshot!("gateway_upstream", hide_identity(&pki.hide(&text)));
}

/// The same configuration but for names: identities, reviews, policies, limits and pools are made by the same functions.
#[test]
fn upstream_is_served_as_a_cluster_with_its_fields() {
    let pki = Pki::new();
    let mut world = world(&pki);
    add(&mut world, &pki, "team-a", "prod", |_| {});
    let mut twin = pki.cluster(NAME);
    set(
        &mut twin,
        "/spec/dispatchPolicies",
        json!([{"rules": [{
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"],
        }]}]),
    );
    set(&mut twin, "/spec/secureServing/serverNames", json!([]));
    world.clusters.insert(NAME.to_owned(), Arc::new(twin));
    let shown = |name: &str, prefix: &str| {
        let group = world.one(edge(vec![https("https", to(name), &[])]));
        let mut all: Vec<String> = group
            .iter()
            .map(|one| {
                let is_secret = one.type_url.ends_with("Secret");
                let text = if is_secret { one.name.to_string() } else { render(one) };
                let text = text.replace(prefix, "lab/OBJECT").replace(&prefix.replace('.', "_"), "lab/OBJECT");
                hide_identity(&text.replace(name, "OBJECT").replace(&name.replace('.', "_"), "OBJECT"))
            })
            .collect();
        all.sort();
        all
    };
    let (upstream, cluster) = (shown(KEY, "lab/team-a/prod"), shown(NAME, "lab/-/prod.example.com"));
    assert!(upstream.len() > 8, "{}", upstream.len());
    assert_eq!(upstream, cluster);
}

/// Dispatch policies and limits of the upstream's namespace, by the same functions as a cluster's, and an edit of them renames nothing.
#[test]
fn policies_of_an_upstream_are_those_of_a_cluster() {
    let pki = Pki::new();
    let mut world = world(&pki);
    add(&mut world, &pki, "team-a", "prod", |_| {});
    let plain = world.one(edge(vec![https("https", to(KEY), &[])]));
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]}]);
    let denial = json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}], "portcullis": {"action": "Deny"}});
    let dispatch = json!([denial, {"rules": rules, "flowControlSchemaName": "few"}]);
    let flow = json!({"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": 5}}]});
    let policy = |kind: PolicyKind, fields: Value| {
        let (policy, why) = ("team-a/x".to_owned(), "overrides".to_owned());
        PolicyInEffect { kind, policy, uid: None, role: PolicyRole::Decides, why, fields: Ok(Arc::new(fields)) }
    };
    let policies = [
        policy(PolicyKind::Dispatch, json!({"dispatchPolicies": dispatch})),
        policy(PolicyKind::FlowControl, json!({"flowControl": flow})),
    ];
    let attach = |world: &mut World, policies: &[PolicyInEffect]| {
        let resolved = ResolvedUpstream { rules: upstream_rules(policies), ..world.upstreams[KEY].as_ref().clone() };
        world.upstreams.insert(KEY.to_owned(), Arc::new(resolved));
    };
    attach(&mut world, &policies);
    let limited = world.one(edge(vec![https("https", to(KEY), &[])]));
    assert_eq!(own_names(&plain), own_names(&limited), "who users are and where they go is the same");
    let mut twin = pki.cluster(NAME);
    set(&mut twin, "/spec/dispatchPolicies", dispatch);
    set(&mut twin, "/spec/flowControl", flow);
    world.clusters.insert(NAME.to_owned(), Arc::new(twin));
    let config = |name: &str| {
        let group = world.one(edge(vec![https("https", to(name), &[])]));
        let routes = group.iter().find(|one| one.type_url == type_urls::route_configuration()).unwrap();
        let config = routes_of(routes).1;
        (config["policies"].clone(), config["flowControlSchemas"].clone())
    };
    assert_eq!(config(KEY), config(NAME));
    assert!(config(KEY).0.as_array().is_some_and(|policies| policies.len() == 2), "{:?}", config(KEY));
    // A policy that is refused leaves nothing open.
    attach(&mut world, &policies[..1]);
    let group = world.one(edge(vec![https("https", to(KEY), &[])]));
    assert!(is_unresolved(&group, "a.test"));
}

#[test]
fn gateway_has_keys_of_upstreams_alone_that_its_routes_lead_to() {
    let pki = Pki::new();
    let mut world = world(&pki);
    add(&mut world, &pki, "team-a", "prod", |_| {});
    add(&mut world, &pki, "team-b", "prod", |_| {});
    let gateways = [
        edge(vec![https("https", to(KEY), &[])]),
        gateway("other", Vec::new(), vec![https("https", to("team-b/prod"), &[])]),
        gateway("none", Vec::new(), vec![https("https", Vec::new(), &[])]),
    ];
    let made = world.translate(&mut GatewayTranslator::default(), &gateways.map(Arc::new));
    for (name, own, foreign) in [("edge", "team-a", "team-b"), ("other", "team-b", "team-a")] {
        let group = &made[&portcullis_attach::ObjectName::new("infra", name)];
        let expected =
            [format!("lab/infra/{name}/certificate/infra/{}", certificate().name), format!("lab/{own}/prod/client")];
        assert_eq!(keys(group), expected);
        assert!(
            !group.iter().any(|one| String::from_utf8_lossy(&one.message()).contains(foreign)),
            "{name}: {foreign}"
        );
    }
    assert_eq!(keys(&made[&portcullis_attach::ObjectName::new("infra", "none")]), [""; 0]);
}

#[test]
fn upstream_that_cannot_be_used_is_reached_by_nothing() {
    let pki = Pki::new();
    let no_key = |world: &mut World| {
        let mut resolved = world.upstreams[KEY].as_ref().clone();
        resolved.material.key = SecretBytes::default();
        world.upstreams.insert(KEY.to_owned(), Arc::new(resolved));
    };
    let edited = |pointer: &'static str, value: Value| {
        let pki = &pki;
        move |world: &mut World| add(world, pki, "team-a", "prod", |document| set(document, pointer, value))
    };
    type Edit<'a> = Box<dyn FnOnce(&mut World) + 'a>;
    let cases: [(&str, Edit<'_>, &str); 6] = [
        ("no key", Box::new(no_key), "spec.references.client"),
        (
            "a loopback address",
            Box::new(edited("/spec/servers/0/endpoint", json!("https://127.0.0.1:9901"))),
            "loopback",
        ),
        (
            "a link-local address",
            Box::new(edited("/spec/servers/0/endpoint", json!("https://169.254.169.254"))),
            "link-local",
        ),
        ("a DNS name", Box::new(edited("/spec/servers/0/endpoint", json!("https://a.test"))), "IP address"),
        ("an unknown field", Box::new(edited("/spec/dispatchPolicies", json!([]))), "spec.dispatchPolicies"),
        ("another kind", Box::new(edited("/kind", json!("UpstreamCluster"))), "kind"),
    ];
    for (case, edit, why) in cases {
        let mut world = world(&pki);
        add(&mut world, &pki, "team-a", "prod", |_| {});
        edit(&mut world);
        let group = world.one(edge(vec![https("https", to(KEY), &[])]));
        assert!(is_unresolved(&group, "a.test"), "{case}");
        assert_eq!((group.len(), keys(&group).len()), (2, 1), "{case}: only the listener and its certificate");
        let refused = GatewayTranslator::default().refused([], [&KEY.to_owned()], &world.input(&[]));
        assert!(refused.requests[KEY].contains(why), "{case}: {:?}", refused.requests);
    }
    let absent = world(&pki).one(edge(vec![https("https", to(KEY), &[])]));
    assert!(is_unresolved(&absent, "a.test"));
    assert!(!is_allowed_server([127, 0, 0, 1].into(), false));
}

/// The platform's CA signs for its own users, and not for a tenant's.
#[test]
fn client_ca_of_the_settings_is_none_of_an_upstreams() {
    let pki = Pki::new();
    let mut world = world(&pki);
    world.settings.default_client_ca = Some(PublicBytes::new(pki.gateway.cert.as_bytes().to_vec()));
    let client_ca = |world: &World| {
        let group = world.one(edge(vec![https("https", to(KEY), &[])]));
        let routes = group.iter().find(|one| one.type_url == type_urls::route_configuration()).unwrap();
        routes_of(routes).1["clientCa"].clone()
    };
    add(&mut world, &pki, "team-a", "prod", |_| {});
    assert_eq!(client_ca(&world), pki.client_ca.cert.as_str());
    add(&mut world, &pki, "team-a", "prod", |document| {
        document["spec"]["references"].as_object_mut().unwrap().remove("clientCA");
    });
    let mut resolved = world.upstreams[KEY].as_ref().clone();
    resolved.material.client_ca = PublicBytes::default();
    world.upstreams.insert(KEY.to_owned(), Arc::new(resolved));
    assert_eq!(client_ca(&world), Value::Null);
}

#[test]
fn edit_of_one_upstream_leaves_other_gateways_as_they_are() {
    let pki = Pki::new();
    let mut world = world(&pki);
    add(&mut world, &pki, "team-a", "prod", |_| {});
    add(&mut world, &pki, "team-b", "prod", |_| {});
    let gateways = [
        edge(vec![https("https", to(KEY), &[])]),
        gateway("other", Vec::new(), vec![https("https", to("team-b/prod"), &[])]),
    ]
    .map(Arc::new);
    let mut translator = GatewayTranslator::default();
    let before = world.translate(&mut translator, &gateways);
    // Another object of the same name is another generation.
    add(&mut world, &pki, "team-a", "prod", |document| set(document, "/metadata/uid", json!("2222")));
    let after = world.translate(&mut translator, &gateways);
    for (name, is_same) in [("edge", false), ("other", true)] {
        let of = portcullis_attach::ObjectName::new("infra", name);
        assert_eq!(Arc::ptr_eq(&before[&of], &after[&of]), is_same, "{name}");
    }
    let of = portcullis_attach::ObjectName::new("infra", "edge");
    for url in [type_urls::cluster(), type_urls::assignment()] {
        assert!(names(&before[&of], url).is_disjoint(&names(&after[&of], url)), "{url}");
    }
}

/// All names of a cluster's or an upstream's resources, without the Gateway's own.
fn own_names(group: &[Arc<Resource>]) -> BTreeSet<(String, String)> {
    let is_own = |one: &&Arc<Resource>| one.owner.is_some();
    group.iter().filter(is_own).map(|one| (one.type_url.to_owned(), one.name.to_string())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// An upstream takes no name of a cluster, however both are called: of no resource, in no statistics.
    #[test]
    fn upstream_takes_no_name_of_a_cluster(
        namespace in "[a-z0-9]{1,3}(-[a-z0-9]{1,2})?", name in "[a-z0-9]{1,3}(-[a-z0-9]{1,2})?",
        parts in prop::collection::vec("[a-z]{1,3}", 1..4), is_alike in any::<bool>(),
    ) {
        let drawn = if is_alike { [format!("{namespace}.{name}"), format!("{name}.{namespace}"), format!("x{name}")] } else {
            [parts.join("."), parts.join("-"), format!("a{}", parts.join(""))]
        };
        let pki = Pki::new();
        let mut world = world(&pki);
        add(&mut world, &pki, &namespace, &name, |_| {});
        let key = upstream_key(&namespace, &name);
        let upstream = own_names(&world.one(edge(vec![https("https", to(&key), &[])])));
        let led_to = |names: &BTreeSet<(String, String)>| {
            let routes = names.iter().filter(|(url, _)| url == type_urls::route_configuration());
            routes.filter_map(|(_, name)| Some(place_of_routes(name)?.1.to_owned())).collect::<Vec<_>>()
        };
        prop_assert_eq!(led_to(&upstream), [key.as_str()]);
        for other in drawn {
            let mut document = pki.cluster(&other);
            set(&mut document, "/spec/secureServing/serverNames", json!([]));
            set(&mut document, "/spec/clientConfig/caData", json!(base64(&pki.upstream_ca.cert)));
            world.clusters.insert(other.clone(), Arc::new(document));
            let cluster = own_names(&world.one(edge(vec![https("https", to(&other), &[])])));
            prop_assert!(upstream.is_disjoint(&cluster), "{key} {other}");
            // One whose name cannot be is closed.
            prop_assert!(led_to(&cluster).iter().all(|name| *name == other), "{cluster:?}");
            let (own, of_cluster) = (ResourceNames::new("lab", &key), ResourceNames::new("lab", &other));
            prop_assert_ne!(own.chain(), of_cluster.chain());
            prop_assert_ne!(portcullis_filter_config::object_name(own.chain()), portcullis_filter_config::object_name(of_cluster.chain()));
        }
    }
}

/// Tenants make them, of any name, and each has a credential.
#[test]
fn upstream_that_is_gone_is_forgotten() {
    let pki = Pki::new();
    let (mut world, mut translator) = (world(&pki), GatewayTranslator::default());
    add(&mut world, &pki, "team-a", "prod", |_| {});
    let known = Arc::downgrade(&world.upstreams[KEY]);
    let gateway = |routes| Arc::new(edge(vec![https("https", routes, &[])]));
    let group = world.translate(&mut translator, &[gateway(to(KEY))]).into_values().next().unwrap();
    assert!(!is_closed(&chain_of(&group, "a.test")));
    // No route names it any more, so that nothing asks for it by its name.
    world.upstreams.clear();
    world.translate(&mut translator, &[gateway(Vec::new())]);
    assert!(known.upgrade().is_none(), "its token or key is in memory no longer");
}
