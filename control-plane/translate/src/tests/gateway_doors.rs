//! Clusters behind Gateways, listeners and routes with policies of their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
use envoy_types::pb::envoy::extensions::filters::http::dynamic_modules::v3::DynamicModuleFilterPerRoute;
use envoy_types::pb::google::protobuf::StringValue;
use portcullis_api::{PolicyInEffect, PolicyKind, PolicyRole};
use portcullis_attach::{BoundRoute, Door, DoorPolicies, ObjectName, ServedGateway};
use portcullis_filter_config::names::HTTP_FILTER;
use prost::Message;
use serde_json::{Value, json};

use super::fixture::Pki;
use super::gateway_https::{edge, https, is_closed, route, world};
use super::gateway_upstreams::{KEY, add};
use super::gateway_world::{NAME, OTHER, chain_of, cluster};
use crate::GatewayTranslator;
use crate::resource::{Resource, type_urls};

pub(super) fn policy(kind: PolicyKind, name: &str, fields: Value) -> PolicyInEffect {
    let (policy, why) = (name.to_owned(), "overrides".to_owned());
    PolicyInEffect { kind, policy, uid: None, role: PolicyRole::Tightens, why, fields: Ok(Arc::new(fields)) }
}

/// Denies a path.
pub(super) fn denies(name: &str, path: &str) -> PolicyInEffect {
    let rules = json!([{"verbs": ["*"], "nonResourceURLs": [path]}]);
    policy(
        PolicyKind::Dispatch,
        name,
        json!({"dispatchPolicies": [{"rules": rules, "portcullis": {"action": "Deny"}}]}),
    )
}

pub(super) fn of_route(name: &str) -> Door {
    Door::Route(ObjectName::new("team", name))
}

pub(super) fn at_listener() -> Door {
    Door::Listener(ObjectName::new("infra", "edge"), "https".to_owned())
}

pub(super) fn to(name: &str) -> BoundRoute {
    route(name, vec![cluster(NAME, 1)], 0)
}

/// A listener with a route for each host name, and policies at doors.
pub(super) fn served(routes: Vec<(&str, BoundRoute)>, policies: Vec<(Door, Vec<PolicyInEffect>)>) -> ServedGateway {
    ServedGateway { policies: DoorPolicies::new(policies), ..edge(vec![https("https", routes, &[])]) }
}

fn routes_to(group: &[Arc<Resource>], cluster: &str) -> RouteConfiguration {
    let name = format!("lab/infra/edge/https/{cluster}/routes");
    let one = group.iter().find(|one| *one.name == name).unwrap();
    RouteConfiguration::decode(one.value.as_slice()).unwrap()
}

fn config_of(host: &VirtualHost) -> Option<Value> {
    let config = &host.typed_per_filter_config[HTTP_FILTER];
    // Other names have the filter switched off, or no configuration.
    if !config.type_url.ends_with("DynamicModuleFilterPerRoute") {
        return None;
    }
    let config = DynamicModuleFilterPerRoute::decode(config.value.as_slice()).unwrap().filter_config?;
    Some(serde_json::from_str(&StringValue::decode(config.value.as_slice()).unwrap().value).unwrap())
}

/// The variant, the first policy's denied paths and the host names of each virtual host with a configuration, and its first domain.
fn shown(routes: &RouteConfiguration) -> Vec<String> {
    let text = |host: &VirtualHost| {
        let Some(config) = config_of(host) else { return format!("421: {}", host.domains.join(" ")) };
        let denied: Vec<&str> = config["policies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|policy| policy.get("deny").is_some())
            .flat_map(|policy| policy["rules"][0]["nonResourceURLs"].as_array().unwrap())
            .map(|path| path.as_str().unwrap())
            .collect();
        let variant = config.get("variant").and_then(Value::as_str).unwrap_or("own");
        format!("{variant} denies {denied:?} for {}: {}", config["authorities"], host.domains[0])
    };
    routes.virtual_hosts.iter().map(text).collect()
}

#[test]
fn route_with_a_policy_has_a_configuration_of_its_own() {
    let pki = Pki::new();
    let policies = vec![(of_route("a"), vec![denies("team/x", "/metrics")])];
    let group = world(&pki).one(served(vec![("a.test", to("a")), ("b.test", to("b"))], policies));
    let routes = routes_to(&group, NAME);
    let mut text = String::new();
    for host in &routes.virtual_hosts {
        let mut config = config_of(host).unwrap();
        for hidden in ["identity", "clientCa"] {
            config[hidden] = json!("<hidden>");
        }
        let keys: Vec<_> = host.typed_per_filter_config.keys().collect();
        text +=
            &format!("{} {:?} {keys:?}\n{}\n", host.name, host.domains, serde_json::to_string_pretty(&config).unwrap());
    }
    insta::assert_snapshot!("gateway_doors", pki.hide(&text));
    assert!(routes.ignore_port_in_host_matching);
    let [own, tightened] = routes.virtual_hosts.as_slice() else { panic!("{routes:?}") };
    assert!(own.matcher.is_some() && own.matcher == tightened.matcher, "the pools are the cluster's");
}

#[test]
fn policies_of_wider_doors_hold_for_all_that_is_below() {
    let pki = Pki::new();
    let world = world(&pki);
    let both = || vec![("a.test", to("a")), ("*.b.test", to("b"))];
    let (wide, at_https, narrow) = (denies("infra/x", "/x"), denies("infra/y", "/y"), denies("team/z", "/z"));
    let gateway = Door::Gateway(ObjectName::new("infra", "edge"));
    for (routes, policies, expected) in [
        (both(), vec![], vec![r#"own denies [] for ["a.test","*.b.test"]: *"#]),
        (both(), vec![(gateway.clone(), vec![wide.clone()])], vec![r#"* denies ["/x"] for ["a.test","*.b.test"]: *"#]),
        (
            both(),
            vec![
                (gateway.clone(), vec![wide.clone()]),
                (at_listener(), vec![at_https.clone()]),
                (of_route("a"), vec![narrow.clone()]),
            ],
            vec![
                r#"https denies ["/y", "/x"] for ["*.b.test"]: *"#,
                r#"https/team/a denies ["/z", "/y", "/x"] for ["a.test"]: a.test"#,
            ],
        ),
        // Of the only configuration it is known which one an address as authority means.
        (
            vec![("a.test", to("a"))],
            vec![(of_route("a"), vec![narrow.clone()])],
            vec![r#"*/team/a denies ["/z"] for ["a.test"]: *"#],
        ),
        (
            both(),
            vec![(of_route("a"), vec![narrow.clone()]), (of_route("b"), vec![at_https.clone()])],
            vec![
                r#"*/team/a denies ["/z"] for ["a.test"]: a.test"#,
                r#"*/team/b denies ["/y"] for ["*.b.test"]: *.b.test"#,
                "421: *",
            ],
        ),
    ] {
        let group = world.one(served(routes, policies));
        assert_eq!(shown(&routes_to(&group, NAME)), expected);
    }
}

/// A denial of the route that has a wildcard must not end what runs by the routes of others below it.
#[test]
fn variant_has_its_listener_and_the_names_of_others() {
    let pki = Pki::new();
    let world = world(&pki);
    let routes = vec![
        ("*.wide.test", to("a")),
        ("x.wide.test", to("b")),
        ("o.wide.test", route("o", vec![cluster(OTHER, 1)], 0)),
        ("*.deep.wide.test", to("b")),
        ("y.deep.wide.test", to("c")),
    ];
    let policies = vec![(of_route("a"), vec![denies("team/x", "/x")]), (of_route("c"), vec![denies("team/y", "/y")])];
    let mut gateway = served(routes, policies);
    gateway.listeners.push(https("other", vec![("x.wide.test", to("a"))], &[]));
    let group = world.one(gateway);
    let of_routes = |routes: &RouteConfiguration| -> Vec<String> {
        let configs = routes.virtual_hosts.iter().filter_map(config_of);
        let shown =
            |config: Value| format!("{} {} {}", config["variant"], config["listener"], config["narrowerAuthorities"]);
        configs.map(shown).collect()
    };
    assert_eq!(
        of_routes(&routes_to(&group, NAME)),
        [
            r#"null "https" null"#,
            r#""*/team/a" "https" ["*.deep.wide.test","o.wide.test","x.wide.test"]"#,
            r#""*/team/c" "https" null"#,
        ]
    );
    let other = group.iter().find(|one| *one.name == format!("lab/infra/edge/other/{NAME}/routes")).unwrap();
    let other = RouteConfiguration::decode(other.value.as_slice()).unwrap();
    assert_eq!(of_routes(&other), [r#""*/team/a" "other" null"#]);
}

#[test]
fn lower_limit_of_a_route_counts_what_the_cluster_counts() {
    let pki = Pki::new();
    let mut world = world(&pki);
    let schema = |max: i32| json!({"flowControl": {"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": max}}]}});
    world.edit(NAME, "/spec/flowControl", schema(9)["flowControl"].clone());
    let policies = vec![(of_route("a"), vec![policy(PolicyKind::FlowControl, "team/x", schema(3))])];
    let group = world.one(served(vec![("a.test", to("a")), ("b.test", to("b"))], policies));
    let configs: Vec<Value> = routes_to(&group, NAME).virtual_hosts.iter().filter_map(config_of).collect();
    let max = |config: &Value| config["flowControlSchemas"][0]["limit"]["maxRequestsInflight"].as_u64();
    assert_eq!([max(&configs[0]), max(&configs[1])], [Some(9), Some(3)]);
    for field in ["name", "object", "identity", "reviews", "upstreamIdentity"] {
        assert_eq!(configs[0][field], configs[1][field], "{field}");
    }
}

#[test]
fn lowered_limit_of_all_gateways_bounds_the_part_of_a_route() {
    let pki = Pki::new();
    let mut world = world(&pki);
    let shared = json!({"flowControlSchemas": [{"name": "few", "strategy": "globalCount", "maxRequestsInflight": {"max": 9},
        "globalMaxRequestsInflight": {"max": 30}}]});
    world.edit(NAME, "/spec/flowControl", shared);
    let lower = json!({"flowControl": {"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": 3}}]}});
    let policies = vec![
        (of_route("a"), vec![policy(PolicyKind::FlowControl, "team/x", lower)]),
        (of_route("b"), vec![denies("team/y", "/b")]),
    ];
    let group = world.one(served(vec![("a.test", to("a")), ("b.test", to("b")), ("c.test", to("c"))], policies));
    let configs: Vec<Value> = routes_to(&group, NAME).virtual_hosts.iter().filter_map(config_of).collect();
    let mut bounds: Vec<_> = configs
        .iter()
        .map(|config| {
            let schema = &config["flowControlSchemas"][0];
            (schema["atMost"].as_u64(), schema["global"]["limit"]["maxRequestsInflight"].as_u64())
        })
        .collect();
    bounds.sort_unstable();
    assert_eq!(bounds, [(None, Some(30)), (None, Some(30)), (Some(3), Some(30))], "of that route alone");
    let names: Vec<_> = configs.iter().map(|config| (&config["name"], &config["object"])).collect();
    assert!(names.iter().all(|name| *name == names[0]), "the part is one: {names:?}");
}

#[test]
fn edit_of_a_policy_turns_no_connection_away() {
    let pki = Pki::new();
    let (world, mut translator) = (world(&pki), GatewayTranslator::default());
    let mut made = |policies| {
        let gateway = Arc::new(served(vec![("a.test", to("a")), ("b.test", to("b"))], policies));
        world.translate(&mut translator, &[gateway]).into_values().next().unwrap()
    };
    let before = made(vec![]);
    let after = made(vec![(of_route("a"), vec![denies("team/x", "/x")])]);
    let without_routes = |group: &[Arc<Resource>]| {
        let others = group.iter().filter(|one| one.type_url != type_urls::route_configuration());
        others.map(|one| (one.name.clone(), one.value.clone(), one.common.clone())).collect::<Vec<_>>()
    };
    assert_eq!(without_routes(&before), without_routes(&after), "chains and pools are what they were");
    assert_ne!(shown(&routes_to(&before, NAME)), shown(&routes_to(&after, NAME)));
    let again = made(vec![]);
    assert_eq!(
        shown(&routes_to(&before, NAME)),
        shown(&routes_to(&again, NAME)),
        "without the policy nothing is left of it"
    );
}

#[test]
fn policy_that_a_cluster_cannot_have_is_named_and_left_out() {
    let pki = Pki::new();
    let (mut world, mut translator) = (world(&pki), GatewayTranslator::default());
    // As many policies as an object may have.
    let one = world.clusters[NAME]["spec"]["dispatchPolicies"][1].clone();
    world.edit(NAME, "/spec/dispatchPolicies", json!(vec![one; 20_000]));
    let policies = vec![(of_route("a"), vec![denies("team/x", "/x")])];
    let gateway = served(vec![("a.test", to("a")), ("o.test", route("o", vec![cluster(OTHER, 1)], 0))], policies);
    let group = world.translate(&mut translator, &[Arc::new(gateway)]).into_values().next().unwrap();
    let refused = translator.refused([], [], &world.input(&[]));
    let unfit: Vec<_> = refused.policies.keys().map(|one| (one.cluster.as_str(), one.policy.as_str())).collect();
    assert_eq!(unfit, [(NAME, "team/x")]);
    assert!(chain_of(&group, "a.test").transport_socket.is_some(), "the route is served as without it");
}

#[test]
fn denials_of_doors_hold_for_an_upstream() {
    let pki = Pki::new();
    let (mut world, mut translator) = (world(&pki), GatewayTranslator::default());
    add(&mut world, &pki, "team-a", "prod", |_| {});
    let to = |name: &str| route(name, vec![cluster(KEY, 1)], 0);
    let limit = json!({"flowControl": {"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": 1}}]}});
    let limit = policy(PolicyKind::FlowControl, "team/few", limit);
    let gateway = Door::Gateway(ObjectName::new("infra", "edge"));
    for (policies, expected) in [
        (vec![(of_route("a"), vec![limit])], vec![r#"own denies [] for ["a.test","b.test"]: *"#]),
        (
            vec![(of_route("a"), vec![denies("team/x", "/x")]), (gateway, vec![denies("infra/y", "/y")])],
            vec![r#"* denies ["/y"] for ["b.test"]: *"#, r#"*/team/a denies ["/x", "/y"] for ["a.test"]: a.test"#],
        ),
    ] {
        let gateway = Arc::new(served(vec![("a.test", to("a")), ("b.test", to("b"))], policies));
        let group = world.translate(&mut translator, &[Arc::clone(&gateway)]).into_values().next().unwrap();
        assert_eq!(shown(&routes_to(&group, KEY)), expected);
        assert!(translator.closures().is_empty());
        let again = world.translate(&mut translator, &[gateway]).into_values().next().unwrap();
        assert!(Arc::ptr_eq(&group, &again));
    }
}

/// The upstream's author would lift by one field what a Gateway's operator denies. No entry of the policy has to be by the user for that.
#[test]
fn policy_that_does_not_fit_an_upstream_closes_its_routes() {
    let deny = |rule: Value| json!({"rules": [rule], "portcullis": {"action": "Deny"}});
    let contractors = json!({"verbs": ["*"], "nonResourceURLs": ["/x"], "userGroups": ["contractors"]});
    let fields =
        json!({"dispatchPolicies": [deny(json!({"verbs": ["*"], "nonResourceURLs": ["/y"]})), deny(contractors)]});
    let gateway = Door::Gateway(ObjectName::new("infra", "edge"));
    for (door, name) in [(gateway, "infra/denials"), (at_listener(), "infra/denials"), (of_route("a"), "team/denials")]
    {
        let pki = Pki::new();
        let (mut world, mut translator) = (world(&pki), GatewayTranslator::default());
        add(&mut world, &pki, "team-a", "other", |_| {});
        let mut made = |identity: &str| {
            add(&mut world, &pki, "team-a", "prod", |document| document["spec"]["upstreamIdentity"] = json!(identity));
            let routes = [("a.test", "a", KEY), ("b.test", "b", "team-a/other"), ("c.test", "c", NAME)];
            let routes = routes.map(|(host, name, to)| (host, route(name, vec![cluster(to, 1)], 0)));
            let policies = vec![(door.clone(), vec![policy(PolicyKind::Dispatch, name, fields.clone())])];
            let gateway = Arc::new(served(routes.into(), policies));
            let group = world.translate(&mut translator, &[gateway]).into_values().next().unwrap();
            let closed = ["a.test", "b.test", "c.test"].map(|host| is_closed(&chain_of(&group, host)));
            let unfit = translator.refused([], [], &world.input(&[])).policies;
            let unfit: Vec<_> = unfit.into_keys().map(|one| (one.cluster, one.policy)).collect();
            (closed, translator.closures(), unfit)
        };
        let (closed, closures, unfit) = made("Impersonate");
        assert_eq!((closed, closures.len(), unfit), ([false; 3], 0, vec![]), "{door}");
        // The servers find out users.
        let (closed, closures, unfit) = made("RequestHeader");
        assert_eq!(closed, [true, false, false], "{door}");
        assert_eq!(unfit, [(KEY.to_owned(), name.to_owned())], "{door}");
        let found: Vec<_> = closures.values().flatten().map(|one| (one.reason, &*one.message)).collect();
        let [("UnsupportedPolicies", message)] = found[..] else { panic!("{door}: {found:?}") };
        let why = format!("DispatchPolicy {name}: KubernetesUpstream {KEY} would be refused with it: spec.");
        assert!(message.contains(&why), "{door}: {message}");
    }
}

/// One that was left out may deny.
#[test]
fn doors_of_a_namespace_with_unread_policies_are_closed() {
    let pki = Pki::new();
    let (world, mut translator) = (world(&pki), GatewayTranslator::default());
    let other = BoundRoute { route: ObjectName::new("other", "b"), ..to("b") };
    let second = route("u", vec![cluster(OTHER, 1)], 0);
    for (unread, closed) in [("team", &["a", "u"][..]), ("infra", &["a", "b", "u"]), ("nobody", &[])] {
        let routes = vec![("a.test", to("a")), ("b.test", other.clone()), ("u.test", second.clone())];
        let mut gateway = served(routes, vec![(of_route("a"), vec![denies("team/x", "/x")])]);
        gateway.policies = gateway.policies.with_unread(&[unread.to_owned()].into());
        let group = world.translate(&mut translator, &[Arc::new(gateway)]).into_values().next().unwrap();
        for name in ["a", "b", "u"] {
            assert_eq!(
                is_closed(&chain_of(&group, &format!("{name}.test"))),
                closed.contains(&name),
                "{unread} {name}"
            );
        }
        let closures = translator.closures();
        let found: BTreeSet<_> =
            closures.iter().map(|((_, route), all)| (route.name.as_str(), all[0].reason)).collect();
        assert_eq!(found, closed.iter().map(|name| (*name, "TooManyPolicies")).collect(), "{unread}");
    }
}
