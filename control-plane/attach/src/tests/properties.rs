//! Properties of all outcomes.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{HOME, INFRA, class, created, inventory, listener, object, read};
use crate::{
    Attached, BoundRoute, GatewayObjects, HostPattern, ListenerRole, ObjectName, RouteKind, ServedBackend,
    ServedListener, attach,
};

const HOSTS: [&str; 8] = ["", "a.test", "*.test", "x.a.test", "*.a.test", "c1.own", "*.own", "x.c1.own"];
const NAMESPACES: [&str; 4] = [INFRA, "team-a", "other", HOME];
const TARGETS: [(&str, &str); 3] = [("Service", "svc"), ("UpstreamCluster", "c1"), ("UpstreamCluster", "c2")];

/// A listener: port, protocol, host name, and whether all namespaces may attach.
type DrawnListener = (usize, usize, usize, bool);
/// A route: whether it is for connections, namespace, year, host names, servers with their namespaces, section, an error.
type DrawnRoute = (bool, usize, u32, Vec<usize>, Vec<(usize, usize)>, Option<usize>, bool);
/// A grant: its namespace, whether it is for connections, from which namespace, to what, and whether to that name alone.
type DrawnGrant = (usize, bool, usize, usize, bool);

fn drawn_listener((port, protocol, host, all): DrawnListener, index: usize) -> Value {
    let protocol = ["HTTPS", "TLS", "HTTPS", "TLS", "HTTP", "TCP"][protocol];
    let mut listener = listener(&format!("l{index}"), [443, 8443][port], protocol, HOSTS[host]);
    if !all {
        listener["allowedRoutes"] = json!({});
    }
    listener
}

fn drawn_route((is_tls, namespace, year, hosts, targets, section, is_wrong): &DrawnRoute, index: usize) -> Value {
    let backend = |(target, namespace): &(usize, usize)| match TARGETS[*target] {
        ("Service", name) => json!({"name": name, "namespace": NAMESPACES[*namespace], "port": 443}),
        (kind, name) => json!({"group": "proxy.kubegateway.io", "kind": kind, "name": name}),
    };
    let mut parent = json!({"name": "g", "namespace": INFRA});
    if let Some(section) = section {
        parent["sectionName"] = json!(format!("l{section}"));
    }
    let hosts: Vec<&str> = hosts.iter().map(|host| HOSTS[*host]).filter(|host| !host.is_empty()).collect();
    let mut rule =
        json!({"backendRefs": targets.iter().take(if *is_tls { 2 } else { 1 }).map(backend).collect::<Vec<_>>()});
    if *is_wrong {
        rule["timeouts"] = json!({"request": "1s"});
    }
    let spec = json!({"parentRefs": [parent], "hostnames": hosts, "rules": [rule]});
    let kind = if *is_tls { "TLSRoute" } else { "HTTPRoute" };
    created(object(kind, NAMESPACES[*namespace], &format!("r{index}"), &spec), 2020 + year)
}

fn drawn_grant((namespace, is_tls, from, target, is_named): DrawnGrant, index: usize) -> Value {
    let (kind, name) = TARGETS[target];
    let group = if kind == "Service" { "" } else { "proxy.kubegateway.io" };
    let mut to = json!({"group": group, "kind": kind});
    if is_named {
        to["name"] = json!(name);
    }
    let from = json!({
        "group": "gateway.networking.k8s.io", "kind": if is_tls { "TLSRoute" } else { "HTTPRoute" },
        "namespace": NAMESPACES[from],
    });
    // Mostly where it has an effect.
    let namespace = if kind == "Service" || index.is_multiple_of(4) { NAMESPACES[namespace] } else { HOME };
    object("ReferenceGrant", namespace, &format!("grant{index}"), &json!({"from": [from], "to": [to]}))
}

fn documents() -> impl Strategy<Value = Vec<Value>> {
    let listener = (0..2_usize, 0..6_usize, 0..HOSTS.len(), prop::bool::weighted(0.9));
    let targets = prop::collection::vec((0..TARGETS.len(), 0..NAMESPACES.len()), 1..3);
    let hosts = prop::collection::vec(0..HOSTS.len(), 1..4);
    let section = prop::option::weighted(0.15, 0..4_usize);
    let namespace = 0..NAMESPACES.len();
    let route = (any::<bool>(), namespace.clone(), 0..3_u32, hosts, targets, section, prop::bool::weighted(0.1));
    let grant = (namespace.clone(), any::<bool>(), namespace, 0..TARGETS.len(), any::<bool>());
    let parts = (
        prop::collection::vec(listener, 1..4),
        prop::collection::vec(route, 0..7),
        prop::collection::vec(grant, 0..12),
    );
    parts.prop_map(|(listeners, routes, grants)| {
        let listeners: Vec<Value> =
            listeners.into_iter().enumerate().map(|(index, one)| drawn_listener(one, index)).collect();
        let spec = json!({"gatewayClassName": "portcullis", "listeners": listeners});
        let mut all = vec![class(), object("Gateway", INFRA, "g", &spec)];
        all.extend(routes.iter().enumerate().map(|(index, one)| drawn_route(one, index)));
        all.extend(grants.into_iter().enumerate().map(|(index, one)| drawn_grant(one, index)));
        all
    })
}

/// All routes that are served, with listener and host name.
fn bound(attached: &Attached) -> Vec<(String, HostPattern, BoundRoute)> {
    let listeners = attached.served.iter().flat_map(|gateway| &gateway.listeners);
    let routes = listeners.flat_map(|listener| {
        let table = match &listener.role {
            ListenerRole::Terminate { routes, .. } | ListenerRole::Passthrough(routes) => Some(routes),
            ListenerRole::Redirect(_) => None,
        };
        let routes = table.into_iter().flat_map(|table| &table.routes);
        routes.map(|(host, route)| (listener.name.clone(), host.clone(), route.clone()))
    });
    routes.collect()
}

/// Whether a grant permits a route's server, written anew and as simply as can be.
fn is_granted(objects: &GatewayObjects, route: &BoundRoute, backend: &ServedBackend) -> bool {
    let (group, kind, target) = match backend {
        ServedBackend::Cluster(name) => {
            ("proxy.kubegateway.io", "UpstreamCluster", ObjectName::new(HOME, name.as_str()))
        }
        ServedBackend::Service { name, .. } => ("", "Service", name.clone()),
    };
    let permits = |grant: &portcullis_gateway_api::ReferenceGrant| {
        let mut pairs = grant.spec.from.iter().flat_map(|from| grant.spec.to.iter().map(move |to| (from, to)));
        grant.metadata.namespace == target.namespace
            && pairs.any(|(from, to)| {
                (from.kind.as_str(), from.namespace.as_str()) == (route.kind.as_str(), route.route.namespace.as_str())
                    && (to.group.as_str(), to.kind.as_str()) == (group, kind)
                    && to.name.as_ref().is_none_or(|name| *name == target.name)
            })
    };
    let is_permitted = route.route.namespace == target.namespace || objects.grants.iter().any(permits);
    // That of the Gateway's namespace.
    let to_gateway = |grant: &portcullis_gateway_api::ReferenceGrant| {
        grant.metadata.namespace == HOME && grant.spec.from.iter().any(|from| from.kind == "Gateway")
    };
    is_permitted && (route.kind == RouteKind::Tls || objects.grants.iter().any(to_gateway))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_of_objects_makes_no_difference(
        (documents, shuffled) in documents().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
    ) {
        prop_assert_eq!(attach(&read(&documents), &inventory()), attach(&read(&shuffled), &inventory()));
    }

    #[test]
    fn servers_are_granted_and_names_have_one_route(documents in documents()) {
        let objects = read(&documents);
        let attached = attach(&objects, &inventory());
        for (listener, host, route) in bound(&attached) {
            for one in &route.backends {
                prop_assert!(is_granted(&objects, &route, &one.backend), "{listener} {host}: {route:?}");
            }
            let is_own = matches!(host, HostPattern::Exact(ref name) | HostPattern::Wildcard(ref name) if name.ends_with("c1.own"));
            if is_own {
                let only = route.backends.iter().all(|one| one.backend == ServedBackend::Cluster("c1".to_owned()));
                prop_assert!(only && route.refused_weight == 0, "{host} of another: {route:?}");
            }
            let verdict = attached.routes.iter().find(|one| (one.kind, &one.name) == (route.kind, &route.route)).unwrap();
            let is_accepted = verdict.parents.iter().any(|one| one.conditions[0].status);
            prop_assert!(is_accepted, "served and not accepted: {verdict:?}");
        }
        // At one port a name leads to one listener's route.
        let mut seen = BTreeSet::new();
        for gateway in &attached.served {
            for listener in &gateway.listeners {
                let hosts = bound(&attached).into_iter().filter(|(name, _, _)| *name == listener.name);
                for (_, host, _) in hosts {
                    prop_assert!(seen.insert((listener.port, host.clone())), "{host} twice at {}", listener.port);
                }
            }
        }
    }

    #[test]
    fn narrower_listeners_and_older_wildcards_keep_their_names(documents in documents()) {
        let objects = read(&documents);
        let attached = attach(&objects, &inventory());
        let listeners: Vec<_> = attached.served.iter().flat_map(|gateway| &gateway.listeners).collect();
        for listener in &listeners {
            let (ListenerRole::Terminate { routes: table, .. } | ListenerRole::Passthrough(table)) = &listener.role else {
                continue;
            };
            let is_narrower = |other: &&&ServedListener| {
                other.port == listener.port && other.host != listener.host && listener.host.covers(&other.host)
            };
            for other in listeners.iter().filter(is_narrower) {
                let is_covered = table.routes.keys().any(|host| host.covers(&other.host));
                prop_assert!(!is_covered || table.withheld.contains(&other.host), "{} of {}", other.host, other.name);
                prop_assert!(!table.routes.keys().any(|host| other.host.covers(host)), "{} of {}", other.host, other.name);
            }
        }
        // A refused route's names have an owner that is not seen here.
        prop_assume!(!format!("{attached:?}").contains("timeouts"));
        let order = |route: &BoundRoute| {
            attached.routes.iter().position(|one| (one.kind, &one.name) == (route.kind, &route.route))
        };
        for (listener, host, route) in bound(&attached) {
            let is_own = |host: &HostPattern| host.to_string().ends_with("c1.own");
            let mut older: Vec<_> = bound(&attached)
                .into_iter()
                .filter(|(at, wider, _)| *at == listener && *wider != host && wider.covers(&host) && !is_own(wider))
                .filter(|(_, _, wide)| order(wide) < order(&route))
                .collect();
            older.sort_by_key(|(_, wider, _)| wider.to_string().len());
            let nearest = older.last().filter(|_| !is_own(&host));
            let is_foreign = nearest.is_some_and(|(_, _, wide)| wide.route.namespace != route.route.namespace);
            prop_assert!(!is_foreign, "{host} of {nearest:?} goes to {route:?}");
        }
    }

    #[test]
    fn deleted_grant_removes_what_needed_it(documents in documents(), which in any::<prop::sample::Index>()) {
        let objects = read(&documents);
        prop_assume!(!objects.grants.is_empty());
        let mut fewer = objects.clone();
        fewer.grants.remove(which.index(objects.grants.len()));
        let (before, after) = (bound(&attach(&objects, &inventory())), bound(&attach(&fewer, &inventory())));
        for (listener, host, route) in &before {
            let kept: Vec<_> =
                route.backends.iter().filter(|one| is_granted(&fewer, route, &one.backend)).cloned().collect();
            let gone: u32 = route.backends.iter().map(|one| one.weight).sum::<u32>() - kept.iter().map(|one| one.weight).sum::<u32>();
            let now = after.iter().find(|(other, name, _)| (other, name) == (listener, host)).map(|(_, _, route)| route);
            let is_of_cluster = host.to_string().ends_with("c1.own");
            if gone == 0 || !is_of_cluster {
                let wanted = BoundRoute { backends: kept, refused_weight: route.refused_weight + gone, ..route.clone() };
                prop_assert_eq!(now, Some(&wanted), "{} {}", listener, host);
            } else if let Some(first) = now.and_then(|now| now.backends.first()) {
                // Another route that leads to the owner of the name.
                prop_assert_eq!(&first.backend, &ServedBackend::Cluster("c1".to_owned()));
            }
        }
        for (listener, host, route) in &after {
            let was = before.iter().any(|(other, name, _)| (other, name) == (listener, host));
            prop_assert!(was, "{listener} {host} has gained {route:?}");
        }
    }
}

/// The properties meet what they are about: served routes, refused shares, grants that are needed, withheld names.
#[test]
fn properties_meet_every_end() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut served, mut refused, mut granted, mut withheld, mut lost) = (0, 0, 0, 0, 0);
    for _ in 0..1_000 {
        let objects = read(&documents().new_tree(&mut runner).unwrap().current());
        let attached = attach(&objects, &inventory());
        let without = attach(&GatewayObjects { grants: Vec::new(), ..objects }, &inventory());
        served += bound(&attached).len();
        refused += bound(&attached).iter().filter(|(_, _, route)| route.refused_weight > 0).count();
        granted += usize::from(bound(&attached) != bound(&without));
        let verdicts = format!("{attached:?}");
        withheld += usize::from(verdicts.contains("withheld: {Exact") || verdicts.contains("withheld: {Wildcard"));
        lost += usize::from(verdicts.contains("HostnameConflict"));
    }
    let counts = [served, refused, granted, withheld, lost];
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
}

proptest! {
    /// Clients may keep a redirect.
    #[test]
    fn redirect_leads_to_where_a_name_is_served(documents in documents()) {
        let attached = attach(&read(&documents), &inventory());
        let listeners: Vec<_> = attached.served.iter().flat_map(|gateway| &gateway.listeners).collect();
        for listener in &listeners {
            let ListenerRole::Redirect(table) = &listener.role else { continue };
            for name in ["c1.own", "x.c1.own", "y.c1.own", "z.x.c1.own", "b.own"] {
                let owned = table.owned.values().flat_map(|hosts| hosts.iter());
                let withheld: BTreeSet<&HostPattern> = table.withheld.iter().chain(owned).collect();
                let (port, _) = narrowest(name, |host| {
                    let port = table.ports.get(host).map(|port| Some(*port));
                    port.or_else(|| withheld.contains(host).then_some(None))
                });
                let Some(Some(port)) = port else { continue };
                let at_port = listeners.iter().filter(|one| one.port == port);
                let tables: Vec<_> = at_port.filter_map(|one| match &one.role {
                    ListenerRole::Terminate { routes, .. } => Some(routes),
                    _ => None,
                }).collect();
                let (is_served, host) = narrowest(name, |host| {
                    let is_closed = tables.iter().any(|table| {
                        table.withheld.contains(host) || table.owned.values().any(|hosts| hosts.contains(host))
                    });
                    let is_served = tables.iter().any(|table| table.routes.contains_key(host));
                    (is_served || is_closed).then_some(is_served)
                });
                prop_assert!(is_served == Some(true), "{name} is redirected to {port}, where {host:?} is closed");
            }
        }
    }
}

/// The finding for the narrowest host names above one for which there is any.
fn narrowest<T>(name: &str, find: impl Fn(&HostPattern) -> Option<T>) -> (Option<T>, HostPattern) {
    let exact = HostPattern::parse(name).unwrap();
    let mut chain = std::iter::once(exact.clone()).chain(exact.wider());
    let found = chain.find_map(|host| Some((find(&host)?, host)));
    found.map_or((None, exact.clone()), |(found, host)| (Some(found), host))
}
