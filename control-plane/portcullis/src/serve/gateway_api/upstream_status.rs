//! The condition `Ready` of `KubernetesUpstreams`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::status::unhealthy_at;
use portcullis_api::upstream_key;
use portcullis_attach::{
    ConditionVerdict, ListenerRole, ObjectName, RouteClosure, RouteClosures, ServedBackend, ServedGateway,
    UpstreamVerdict,
};

use super::super::gateway_health::HealthAtGateways;
use super::super::gateway_views::ProgrammedState;

/// The most Gateways that a message names.
const MAX_NAMED: usize = 8;

/// The routes to upstreams, by the keys of these.
pub(super) type LedBy<'a> = BTreeMap<&'a str, LeadingRoutes<'a>>;

/// The routes to one upstream.
#[derive(Default)]
pub(super) struct LeadingRoutes<'a> {
    /// The Gateways at which they lead requests there.
    gateways: BTreeSet<&'a ObjectName>,
    /// Those where Envoys refuse neither all of their ports nor all of these routes.
    serving: BTreeSet<&'a ObjectName>,
    /// The first one whose connections are closed, and why.
    closed: Option<(&'a ObjectName, &'a RouteClosure)>,
}

pub(super) fn led_by<'a>(
    served: &'a [Arc<ServedGateway>],
    closures: &'a RouteClosures,
    programmed_states: &BTreeMap<ObjectName, ProgrammedState>,
) -> LedBy<'a> {
    let closed = closures.iter().flat_map(|((kind, route), all)| {
        all.iter().map(move |closure| ((&closure.gateway, closure.listener.as_str(), *kind, route), closure))
    });
    let closed: BTreeMap<_, &RouteClosure> = closed.collect();
    let mut led_by = LedBy::new();
    for gateway in served {
        let state = programmed_states.get(&gateway.gateway);
        for listener in &gateway.listeners {
            let ListenerRole::Terminate { routes: table, .. } = &listener.role else { continue };
            for route in table.routes.values() {
                let place = (&gateway.gateway, listener.name.as_str(), route.kind, &route.route);
                let closure = closed.get(&place).copied();
                for backend in route.backends.iter().filter(|one| one.weight > 0) {
                    let ServedBackend::Cluster(key) = &backend.backend else { continue };
                    let leading = led_by.entry(key).or_default();
                    match closure {
                        Some(closure) => {
                            leading.closed.get_or_insert((&route.route, closure));
                        }
                        None => {
                            leading.gateways.insert(&gateway.gateway);
                            if state.is_some_and(|state| state.serves(listener.port, (route.kind, &route.route))) {
                                leading.serving.insert(&gateway.gateway);
                            }
                        }
                    }
                }
            }
        }
    }
    led_by
}

/// The conditions of an upstream, with `Ready`. One Gateway that finds a healthy server, or says nothing, is enough: others may be of
/// other tenants, and say what they like.
pub(super) fn conditions(
    upstream: &UpstreamVerdict,
    led_by: &LedBy<'_>,
    programmed_states: &BTreeMap<ObjectName, ProgrammedState>,
    health: &HealthAtGateways,
) -> Vec<ConditionVerdict> {
    let key = upstream_key(&upstream.name.namespace, &upstream.name.name);
    let leading = led_by.get(key.as_str());
    let is_serving = |gateway: &ObjectName| leading.is_some_and(|leading| leading.serving.contains(gateway));
    let is_programmed = |gateway: &ObjectName| {
        is_serving(gateway) && programmed_states.get(gateway).is_some_and(|state| state.refusal_of(&key).is_none())
    };
    let gateways = leading.map(|leading| &leading.gateways).filter(|gateways| !gateways.is_empty());
    let ready = gateways.into_iter().flatten().copied().filter(|gateway| is_programmed(gateway));
    let ready: Vec<&ObjectName> = ready.collect();
    let names: BTreeSet<String> = ready.iter().map(ToString::to_string).collect();
    let found: Vec<_> =
        health.get(&key).into_iter().flatten().filter(|one| names.contains(one.name())).cloned().collect();
    let dead = found.iter().filter(|one| one.is_dead()).count();
    let (status, reason, message) = match gateways {
        _ if upstream.conditions.iter().any(|one| !one.status) => (false, "Invalid", "it cannot be used".to_owned()),
        None => match leading.and_then(|leading| leading.closed) {
            Some((route, closure)) => (false, closure.reason, closed_message(&upstream.name, route, closure)),
            None => (false, "NoRoute", "no accepted HTTPRoute leads there at a Gateway".to_owned()),
        },
        Some(gateways) if ready.is_empty() => {
            (false, "Pending", format!("not programmed yet: {}", named(gateways.iter().copied())))
        }
        Some(_) => {
            let (at, unhealthy) = (named(ready.iter().copied()), unhealthy_at(&found));
            if dead == ready.len() {
                (false, "NoHealthyEndpoints", format!("no server is healthy at Gateways {at}{unhealthy}"))
            } else {
                (true, "Ready", format!("served at Gateways {at}{unhealthy}"))
            }
        }
    };
    let ready = ConditionVerdict { kind: "Ready", status, reason, message };
    upstream.conditions.iter().cloned().chain([ready]).collect()
}

/// The words about an upstream without an open route. Those about a route are for its own namespace.
fn closed_message(upstream: &ObjectName, route: &ObjectName, closure: &RouteClosure) -> String {
    let RouteClosure { gateway, listener, message, .. } = closure;
    let all = "connections of all HTTPRoutes that lead there are closed";
    if route.namespace == upstream.namespace {
        format!("{all}; of {route} at Gateway {gateway}, listener {listener}: {message}")
    } else {
        format!("{all}; of one of another namespace at Gateway {gateway}")
    }
}

fn named<'a>(gateways: impl ExactSizeIterator<Item = &'a ObjectName>) -> String {
    let more = gateways.len().saturating_sub(MAX_NAMED);
    let names: Vec<String> = gateways.take(MAX_NAMED).map(ToString::to_string).collect();
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{rest}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::super::gateway_views::ServedParts;
    use portcullis_api::status::{GatewayHealth, Health, UnhealthyServer};
    use portcullis_attach::{
        BoundRoute, DoorPolicies, HostPattern, HostTable, RouteKind, ServedListener, WeightedBackend,
    };

    use super::*;

    fn served(name: &str, key: &str, weight: u32) -> Arc<ServedGateway> {
        let route = BoundRoute {
            kind: RouteKind::Http,
            route: ObjectName::new("team-a", "r"),
            backends: vec![WeightedBackend { backend: ServedBackend::Cluster(key.to_owned()), weight }],
            refused_weight: 0,
        };
        let routes = [(HostPattern::parse("a.test").unwrap(), route)].into();
        let role = ListenerRole::Terminate {
            certificates: Vec::new(),
            client_ca: None,
            routes: HostTable { routes, ..HostTable::default() },
        };
        let listener = ServedListener { name: "l".to_owned(), port: 443, host: HostPattern::Any, role };
        Arc::new(ServedGateway {
            gateway: ObjectName::new("infra", name),
            addresses: Vec::new(),
            settings: None,
            listeners: vec![listener],
            policies: DoorPolicies::default(),
        })
    }

    fn ready(served: &[Arc<ServedGateway>], programmed: &[&str], is_accepted: bool) -> String {
        ready_with(served, programmed, is_accepted, (&HealthAtGateways::new(), &RouteClosures::new()))
    }

    fn ready_with(
        served: &[Arc<ServedGateway>],
        programmed: &[&str],
        is_accepted: bool,
        (health, closures): (&HealthAtGateways, &RouteClosures),
    ) -> String {
        let condition = |kind, status| ConditionVerdict { kind, status, reason: "r", message: String::new() };
        let upstream = UpstreamVerdict {
            name: ObjectName::new("team-a", "prod"),
            generation: Some(1),
            conditions: vec![condition("Accepted", is_accepted), condition("ResolvedRefs", true)],
        };
        let programmed = programmed
            .iter()
            .map(|name| (ObjectName::new("infra", *name), ProgrammedState::programmed(BTreeSet::new())))
            .collect();
        let found = conditions(&upstream, &led_by(served, closures, &programmed), &programmed, health);
        let last = found.last().unwrap();
        assert_eq!((found.len(), last.kind), (3, "Ready"));
        format!("{} {} {}", last.status, last.reason, last.message)
    }

    #[test]
    fn upstream_is_ready_where_a_programmed_gateway_leads_there() {
        let one = || served("edge", "team-a/prod", 1);
        assert_eq!(ready(&[one()], &["edge"], true), "true Ready served at Gateways infra/edge");
        assert_eq!(ready(&[one()], &[], true), "false Pending not programmed yet: infra/edge");
        assert_eq!(ready(&[one()], &["edge"], false), "false Invalid it cannot be used");
        for (key, weight) in [("prod", 1), ("team-b/prod", 1), ("team-a/prod", 0)] {
            let found = ready(&[served("edge", key, weight)], &["edge"], true);
            assert!(found.starts_with("false NoRoute"), "{key} {weight}: {found}");
        }
        let many: Vec<Arc<ServedGateway>> =
            (0..10).map(|index| served(&format!("e{index}"), "team-a/prod", 1)).collect();
        let names: Vec<String> = (0..10).map(|index| format!("e{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = ready(&many, &names, true);
        assert!(found.ends_with("infra/e7 and 2 more"), "{found}");
    }

    #[test]
    fn upstream_is_not_ready_where_envoys_refuse_what_leads_there() {
        let gateways = [served("edge", "team-a/prod", 1)];
        let ready = |parts: ServedParts| {
            let states = [(ObjectName::new("infra", "edge"), ProgrammedState::Programmed(parts))].into();
            let condition = |kind| ConditionVerdict { kind, status: true, reason: "r", message: String::new() };
            let upstream = UpstreamVerdict {
                name: ObjectName::new("team-a", "prod"),
                generation: Some(1),
                conditions: vec![condition("Accepted"), condition("ResolvedRefs")],
            };
            let closures = RouteClosures::new();
            let led_by = led_by(&gateways, &closures, &states);
            conditions(&upstream, &led_by, &states, &HealthAtGateways::new()).last().unwrap().status
        };
        let owner = |owner: &str| ServedParts {
            refused_owners: [(owner.to_owned(), "no".to_owned())].into(),
            ..ServedParts::default()
        };
        let port = |port| ServedParts { refused_ports: [(port, "no".to_owned())].into(), ..ServedParts::default() };
        for (parts, expected) in [
            (ServedParts::default(), true),
            (owner("KubernetesUpstream team-a/prod"), false),
            (owner("KubernetesUpstream team-b/prod"), true),
            (owner("HTTPRoute team-a/r"), false),
            (owner("HTTPRoute team-b/r"), true),
            (port(443), false),
            (port(80), true),
        ] {
            assert_eq!(ready(parts.clone()), expected, "{parts:?}");
        }
    }

    #[test]
    fn upstream_is_not_ready_while_all_its_routes_are_closed() {
        let gateways = [served("edge", "team-a/prod", 1), served("other", "team-a/prod", 1)];
        let closure = |gateway: &str, listener: &str| RouteClosure {
            gateway: ObjectName::new("infra", gateway),
            listener: listener.to_owned(),
            reason: "TooManyConfigurations",
            message: "no room".into(),
        };
        let closed = |closures: Vec<RouteClosure>| {
            let closures = RouteClosures::from([((RouteKind::Http, ObjectName::new("team-a", "r")), closures)]);
            ready_with(&gateways, &["edge", "other"], true, (&HealthAtGateways::new(), &closures))
        };
        let all = "false TooManyConfigurations connections of all HTTPRoutes that lead there are closed";
        assert_eq!(
            closed(vec![closure("edge", "l"), closure("other", "l")]),
            format!("{all}; of team-a/r at Gateway infra/edge, listener l: no room")
        );
        assert_eq!(closed(vec![closure("edge", "l")]), "true Ready served at Gateways infra/other");
        let elsewhere = closed(vec![closure("edge", "m"), closure("third", "l")]);
        assert_eq!(elsewhere, "true Ready served at Gateways infra/edge, infra/other");
        let (upstream, closure) = (ObjectName::new("team-b", "prod"), closure("edge", "l"));
        let found = closed_message(&upstream, &ObjectName::new("team-a", "r"), &closure);
        assert!(!found.contains("no room") && !found.contains("team-a"), "{found}");
    }

    #[test]
    fn upstream_has_no_healthy_server_only_if_all_gateways_say_so() {
        let gateways = [served("edge", "team-a/prod", 1), served("other", "team-a/prod", 1)];
        let at = |gateway: &str, healthy: u32| {
            let server = UnhealthyServer { server: "10.0.0.1:6443".to_owned(), ..UnhealthyServer::default() };
            let unhealthy = if healthy < 2 { vec![server] } else { Vec::new() };
            let mut found = GatewayHealth::new(gateway.to_owned());
            found.add(&Health { healthy, total: 2, unhealthy }, true);
            found
        };
        let both = "served at Gateways infra/edge, infra/other";
        for (reports, expected) in [
            (vec![], format!("true Ready {both}")),
            (vec![at("infra/edge", 2), at("infra/other", 2)], format!("true Ready {both}")),
            (vec![at("infra/edge", 0)], format!("true Ready {both}; unhealthy at Gateway infra/edge: 10.0.0.1:6443")),
            (
                vec![at("infra/edge", 0), at("infra/other", 1)],
                format!("true Ready {both}; unhealthy at Gateway infra/edge: 10.0.0.1:6443"),
            ),
            (
                vec![at("infra/edge", 0), at("infra/other", 0)],
                "false NoHealthyEndpoints no server is healthy at Gateways infra/edge, infra/other; ".to_owned(),
            ),
            // One that no route leads through says nothing, whatever it reports.
            (vec![at("infra/edge", 0), at("infra/stranger", 0)], format!("true Ready {both}; unhealthy at Gateway")),
            (vec![at("infra/stranger", 0)], format!("true Ready {both}")),
        ] {
            let has_news = expected.contains(';');
            let health = HealthAtGateways::from([("team-a/prod".to_owned(), reports)]);
            let found = ready_with(&gateways, &["edge", "other"], true, (&health, &RouteClosures::new()));
            assert!(found.starts_with(&expected) && found.contains(';') == has_news, "{found}");
            assert!(!found.contains("stranger"), "{found}");
        }
        let alone = HealthAtGateways::from([("team-a/prod".to_owned(), vec![at("infra/edge", 0)])]);
        let found = ready_with(&gateways, &["edge"], true, (&alone, &RouteClosures::new()));
        assert!(found.starts_with("false NoHealthyEndpoints no server is healthy at Gateways infra/edge;"), "{found}");
    }
}
