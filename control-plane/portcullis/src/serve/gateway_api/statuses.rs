//! Verdicts about objects of the Gateway API as their statuses.

use std::collections::BTreeMap;
use std::rc::Rc;

use portcullis_attach::{
    Attached, CONTROLLER_NAME, ClosedRoutes, ConditionVerdict, GatewayVerdict, ListenerVerdict, ObjectGenerations,
    ObjectName, RouteClosures, RouteKind, RouteVerdict, ServedGateway, conditions, route_parents,
    without_own_conditions,
};
use portcullis_gateway_api::GATEWAY_API_GROUP;
use portcullis_sources::{ObjectKey, StoredStatus, StoredStatuses, WatchedKind};
use serde_json::{Value, json};

use super::super::gateway_health::HealthAtGateways;
use super::super::gateway_views::{ClosedListeners, ProgrammedState};
use super::programmed::Programmed;
use super::refused_routes::RefusedRoutes;
use super::upstream_status;

/// `metadata.uid` of the objects that were judged.
pub(super) type JudgedUids = BTreeMap<ObjectKey, String>;

/// Verdicts, and the state of Gateways at their Envoys.
#[derive(Clone, Copy)]
pub(super) struct Judged<'a> {
    /// Whether classes alone get a status.
    pub(super) are_of_classes_alone: bool,
    pub(super) attached: &'a Attached,
    pub(super) uids: &'a JudgedUids,
    pub(super) programmed_states: &'a BTreeMap<ObjectName, ProgrammedState>,
    /// The health of servers at Gateways.
    pub(super) health: &'a HealthAtGateways,
    pub(super) closed_listeners: &'a ClosedListeners,
    pub(super) closures: &'a RouteClosures,
}

/// The accepted parts of Gateways.
pub(super) type ServedByName<'a> = BTreeMap<&'a ObjectName, &'a ServedGateway>;

impl<'a> Judged<'a> {
    /// The accepted part of each Gateway.
    pub(super) fn served(&self) -> ServedByName<'a> {
        self.attached.served.iter().map(|one| (&one.gateway, one.as_ref())).collect()
    }

    /// A Gateway at its Envoys.
    pub(super) fn programmed(&self, gateway: &ObjectName, served: &ServedByName<'a>) -> Programmed<'a> {
        let (served, state) = (served.get(gateway).copied(), self.programmed_states.get(gateway));
        Programmed::of(served, state, self.closed_listeners.get(gateway))
    }

    /// The routes some of whose connections are closed.
    pub(super) fn closed(&self) -> ClosedRoutes {
        ClosedRoutes::of(self.attached, self.closures)
    }
}

/// The wanted status of each object that has one of this controller, by `now` in RFC 3339. `supported` is the condition of classes
/// about the version of the definitions. An object that took the place of a judged one has none. A Gateway whose class is another
/// controller's by now loses the conditions of this controller's own domain, and keeps everything else.
pub(super) fn statuses<'a>(
    judged: Judged<'a>,
    supported: Option<&'a ConditionVerdict>,
    stored: &'a StoredStatuses,
    now: &'a str,
) -> impl Iterator<Item = (ObjectKey, Value)> + 'a {
    let Judged { attached, uids, programmed_states, health, closures, .. } = judged;
    let status = move |key: &ObjectKey| stored.get(key).filter(|stored| stored.uid.as_ref() == uids.get(key));
    let served = judged.served();
    let classes = attached.classes.iter().filter_map(move |class| {
        let key = key(WatchedKind::GatewayClass, &ObjectName::new("", class.name.as_str()));
        let verdicts: Vec<ConditionVerdict> = class.conditions.iter().chain(supported).cloned().collect();
        let stored = status(&key)?;
        let generations = ObjectGenerations { judged: class.generation, newest: stored.generation };
        let conditions = conditions(before(stored, "conditions"), &verdicts, generations, now);
        Some((key, json!({"conditions": conditions})))
    });
    let closed = Rc::new(judged.closed());
    let of_gateways = Rc::clone(&closed);
    let refused = RefusedRoutes::of(&served, programmed_states);
    let gateways = attached.gateways.iter().filter_map(move |gateway| {
        let key = key(WatchedKind::Gateway, &gateway.name);
        let programmed = judged.programmed(&gateway.name, &served);
        let written = gateway_status(&of_gateways.gateway(gateway), programmed, status(&key)?, now);
        Some((key, written))
    });
    let left = attached.foreign.iter().filter_map(move |name| {
        let key = key(WatchedKind::Gateway, name);
        let lists = without_own_conditions(&status(&key)?.status)?;
        Some((key, lists))
    });
    let routes = attached.routes.iter().filter_map(move |route| {
        let key = key(watched_kind(route.kind), &route.name);
        let stored = status(&key)?;
        let written = route_status(&refused.told(closed.route(route)), stored, now)?;
        Some((key, written))
    });
    let led_by = upstream_status::led_by(&attached.served, closures, programmed_states);
    let upstreams = attached.upstreams.iter().filter_map(move |upstream| {
        let key = key(WatchedKind::KubernetesUpstream, &upstream.name);
        let stored = status(&key)?;
        let verdicts = upstream_status::conditions(upstream, &led_by, programmed_states, health);
        let generations = ObjectGenerations { judged: upstream.generation, newest: stored.generation };
        let conditions = conditions(before(stored, "conditions"), &verdicts, generations, now);
        Some((key, json!({"conditions": conditions})))
    });
    let others = gateways.chain(left).chain(routes).chain(upstreams);
    classes.chain(others.take(if judged.are_of_classes_alone { 0 } else { usize::MAX }))
}

/// The kind of a route among those that are watched.
pub(super) fn watched_kind(kind: RouteKind) -> WatchedKind {
    match kind {
        RouteKind::Http => WatchedKind::HttpRoute,
        RouteKind::Tls => WatchedKind::TlsRoute,
    }
}

fn key(kind: WatchedKind, name: &ObjectName) -> ObjectKey {
    ObjectKey { kind, namespace: name.namespace.clone(), name: name.name.clone() }
}

fn before<'a>(stored: &'a StoredStatus, field: &str) -> &'a [Value] {
    stored.status.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn gateway_status(gateway: &GatewayVerdict, programmed: Programmed<'_>, stored: &StoredStatus, now: &str) -> Value {
    let known = before(stored, "listeners");
    let generations = ObjectGenerations { judged: gateway.generation, newest: stored.generation };
    let listener = |listener: &ListenerVerdict| {
        let known = known.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(&listener.name));
        let known = known.and_then(|one| one.get("conditions")?.as_array()).map_or(&[][..], Vec::as_slice);
        let kind = |kind: &RouteKind| json!({"group": GATEWAY_API_GROUP, "kind": kind.as_str()});
        json!({
            "name": listener.name,
            "supportedKinds": listener.supported_kinds.iter().map(kind).collect::<Vec<_>>(),
            "attachedRoutes": listener.attached_routes,
            "conditions": conditions(known, &programmed.listener(listener), generations, now),
        })
    };
    let known_addresses = before(stored, "addresses");
    let addresses = programmed.addresses(known_addresses);
    let own = programmed.gateway(&gateway.conditions, !addresses.is_empty());
    let mut status = json!({
        "conditions": conditions(before(stored, "conditions"), &own, generations, now),
        "listeners": gateway.listeners.iter().map(listener).collect::<Vec<_>>(),
    });
    if !(addresses.is_empty() && known_addresses.is_empty()) {
        status.as_object_mut().and_then(|fields| fields.insert("addresses".to_owned(), json!(addresses)));
    }
    status
}

/// None for a route that never was at a Gateway of this controller.
fn route_status(route: &RouteVerdict, stored: &StoredStatus, now: &str) -> Option<Value> {
    let known = before(stored, "parents");
    let is_ours = |entry: &Value| entry.get("controllerName").and_then(Value::as_str) == Some(CONTROLLER_NAME);
    if route.parents.is_empty() && !known.iter().any(is_ours) {
        return None;
    }
    Some(json!({"parents": route_parents(known, route, stored.generation, now).parents}))
}

#[cfg(test)]
mod tests {
    use portcullis_attach::{GatewayObjects, Inventory, RouteClosure, attach};
    use portcullis_gateway_api::read_object;

    use super::super::super::gateway_views::ServedParts;
    use super::super::condition_counts::counts;
    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn object(kind: &str, namespace: &str, spec: &Value) -> Value {
        let mut metadata = json!({"name": "x", "generation": 3});
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
    }

    fn attached() -> Attached {
        attach(&objects(), &inventory())
    }

    fn inventory() -> Inventory {
        let clusters = [("c".to_owned(), [].into())].into();
        Inventory { is_complete: true, home_namespace: "infra".to_owned(), clusters, ..Inventory::default() }
    }

    fn objects() -> GatewayObjects {
        let listeners = json!([
            {"name": "a", "port": 443, "protocol": "TLS", "tls": {"mode": "Passthrough"}},
            {"name": "b", "port": 80, "protocol": "UDP"},
        ]);
        let rules =
            json!([{"backendRefs": [{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": "c"}]}]);
        let parents = json!([{"name": "x"}]);
        let documents = [
            object("GatewayClass", "", &json!({"controllerName": CONTROLLER_NAME})),
            object("Gateway", "infra", &json!({"gatewayClassName": "x", "listeners": listeners})),
            object("TLSRoute", "infra", &json!({"parentRefs": parents, "hostnames": ["a.test"], "rules": rules})),
            object("TLSRoute", "other", &json!({"parentRefs": parents, "hostnames": ["b.test"], "rules": rules})),
        ];
        let mut objects = GatewayObjects::default();
        documents.iter().for_each(|document| objects.add(read_object(document).unwrap()));
        objects
    }

    fn stored(status: &Value) -> StoredStatuses {
        keys().map(|key| (key, one_stored(status.clone()))).collect()
    }

    fn keys() -> impl Iterator<Item = ObjectKey> {
        let kinds = [WatchedKind::GatewayClass, WatchedKind::Gateway, WatchedKind::TlsRoute];
        let of_kind = |kind| ["", "infra", "other"].map(|namespace| key(kind, &ObjectName::new(namespace, "x")));
        kinds.into_iter().flat_map(of_kind)
    }

    fn judged() -> JudgedUids {
        keys().map(|key| (key, "u".to_owned())).collect()
    }

    fn no_envoy<'a>(attached: &'a Attached, uids: &'a JudgedUids) -> Judged<'a> {
        static NONE: BTreeMap<ObjectName, ProgrammedState> = BTreeMap::new();
        static NO_REPORT: HealthAtGateways = HealthAtGateways::new();
        static OPEN: ClosedListeners = ClosedListeners::new();
        static NO_CLOSURE: RouteClosures = RouteClosures::new();
        let (programmed_states, health, closed_listeners) = (&NONE, &NO_REPORT, &OPEN);
        Judged {
            are_of_classes_alone: false,
            attached,
            uids,
            programmed_states,
            health,
            closed_listeners,
            closures: &NO_CLOSURE,
        }
    }

    fn one_stored(status: Value) -> StoredStatus {
        StoredStatus { uid: Some("u".to_owned()), status, ..StoredStatus::default() }
    }

    #[test]
    fn successor_of_a_judged_object_gets_no_verdict_of_it() {
        let attached = attached();
        let successor = key(WatchedKind::Gateway, &ObjectName::new("infra", "x"));
        let uid = |key: &ObjectKey| Some(if *key == successor { "v" } else { "u" }.to_owned());
        let stored: StoredStatuses =
            keys().map(|key| (key.clone(), StoredStatus { uid: uid(&key), ..StoredStatus::default() })).collect();
        let found: Vec<_> =
            statuses(no_envoy(&attached, &judged()), None, &stored, NOW).map(|(key, _)| key.kind).collect();
        assert_eq!(found, [WatchedKind::GatewayClass, WatchedKind::TlsRoute]);
        assert_eq!(statuses(no_envoy(&attached, &JudgedUids::new()), None, &stored, NOW).count(), 0);
    }

    #[test]
    fn conditions_say_that_no_envoy_has_it() {
        let (attached, stored) = (attached(), stored(&Value::Null));
        let supported = ConditionVerdict {
            kind: "SupportedVersion",
            status: true,
            reason: "SupportedVersion",
            message: String::new(),
        };
        let found: Vec<(ObjectKey, Value)> =
            statuses(no_envoy(&attached, &judged()), Some(&supported), &stored, NOW).collect();
        let kinds: Vec<WatchedKind> = found.iter().map(|(key, _)| key.kind).collect();
        // The second route has no parent of this controller.
        assert_eq!(kinds, [WatchedKind::GatewayClass, WatchedKind::Gateway, WatchedKind::TlsRoute]);
        let reason = |conditions: &Value, kind: &str| {
            let found = conditions.as_array().unwrap().iter().find(|one| one["type"] == kind).unwrap();
            format!("{} {}", found["status"].as_str().unwrap(), found["reason"].as_str().unwrap())
        };
        assert_eq!(reason(&found[0].1["conditions"], "SupportedVersion"), "True SupportedVersion");
        let gateway = &found[1].1;
        assert_eq!(reason(&gateway["conditions"], "Programmed"), "False Pending");
        assert_eq!(reason(&gateway["listeners"][0]["conditions"], "Programmed"), "False Pending");
        assert_eq!(reason(&gateway["listeners"][1]["conditions"], "Programmed"), "False Invalid");
        assert_eq!(gateway["listeners"][0]["attachedRoutes"], 1);
        assert_eq!(reason(&found[2].1["parents"][0]["conditions"], "Accepted"), "True Accepted");
    }

    #[test]
    fn gateway_of_an_absent_class_is_not_programmed() {
        let mut objects = objects();
        objects.classes.clear();
        objects.orphans = [ObjectName::new("infra", "x")].into();
        let (attached, stored) =
            (attach(&objects, &inventory()), stored(&json!({"addresses": [{"value": "192.0.2.1"}]})));
        let uids = judged();
        let judged = no_envoy(&attached, &uids);
        let found: Vec<(ObjectKey, Value)> = statuses(judged, None, &stored, NOW).collect();
        assert_eq!(found[0].0.kind, WatchedKind::Gateway, "no class has a status");
        let told = |part: &Value| {
            let all = part["conditions"].as_array().unwrap().iter();
            let own = all.filter(|one| one["type"] == "Programmed" || one["reason"] == "Pending");
            own.map(|one| format!("{} {} {}", one["type"], one["status"], one["message"]).replace('"', "")).collect()
        };
        let at_gateway: Vec<String> = told(&found[0].1);
        let why = "GatewayClass x is not there";
        assert_eq!(at_gateway, [format!("Accepted Unknown {why}"), format!("Programmed False {why}")]);
        let at_listener: Vec<String> = told(&found[0].1["listeners"][0]);
        assert_eq!(at_listener, ["Programmed False nothing of its Gateway is served"]);
        assert_eq!(found[0].1["addresses"], json!([]));
        assert!(counts(judged).listed().contains(&"Gateway Accepted 1".to_owned()), "{:?}", counts(judged).listed());
    }

    #[test]
    fn gateway_of_another_controller_loses_own_conditions_alone() {
        let mut objects = objects();
        objects.classes[0].spec.controller_name = "example.com/other".to_owned();
        let attached = attach(&objects, &inventory());
        let (own, other) = (json!({"type": "portcullis.dev/DispatchPolicyAffected"}), json!({"type": "Accepted"}));
        let uids = judged();
        let written = |status: &Value| -> Vec<(ObjectKey, Value)> {
            statuses(no_envoy(&attached, &uids), None, &stored(status), NOW).collect()
        };
        let found = written(&json!({"conditions": [own, other], "listeners": [{"name": "a", "conditions": [other]}]}));
        let gateway = key(WatchedKind::Gateway, &ObjectName::new("infra", "x"));
        assert_eq!(found, [(gateway, json!({"conditions": [other]}))]);
        assert_eq!(written(&json!({"conditions": [other]})), []);
    }

    #[test]
    fn route_whose_connections_are_closed_is_not_accepted() {
        let (attached, stored) = (attached(), stored(&Value::Null));
        let closure = RouteClosure {
            gateway: ObjectName::new("infra", "x"),
            listener: "a".to_owned(),
            reason: "TooManyClientAddresses",
            message: "no room".into(),
        };
        let closures = [((RouteKind::Tls, ObjectName::new("infra", "x")), vec![closure])].into();
        let uids = judged();
        let judged = Judged { closures: &closures, ..no_envoy(&attached, &uids) };
        let (_, route) = statuses(judged, None, &stored, NOW).last().unwrap();
        let accepted = &route["parents"][0]["conditions"][0];
        assert_eq!((&accepted["type"], &accepted["status"]), (&json!("Accepted"), &json!("False")), "{route}");
        assert_eq!(accepted["reason"], "TooManyClientAddresses");
        assert_eq!(accepted["message"], "connections at listener a are closed: no room");
        let gateway = statuses(judged, None, &stored, NOW).find(|(key, _)| key.kind == WatchedKind::Gateway).unwrap().1;
        assert_eq!(gateway["listeners"][0]["attachedRoutes"], 0, "{gateway}");
        let counted = counts(judged).listed();
        assert!(counted.contains(&"TLSRoute Accepted 1".to_owned()), "{counted:?}");
    }

    #[test]
    fn route_that_envoys_refuse_says_so_and_stays_accepted() {
        let (attached, stored) = (attached(), stored(&Value::Null));
        let uids = judged();
        for (owner, expected) in [
            ("TLSRoute infra/x", "its Envoys refuse the newest version: e: no"),
            ("UpstreamCluster c", "its Envoys refuse the newest version of UpstreamCluster c"),
            ("UpstreamCluster d", ""),
            ("HTTPRoute infra/x", ""),
        ] {
            let parts = ServedParts {
                refused_owners: [(owner.to_owned(), "e: no".to_owned())].into(),
                ..ServedParts::default()
            };
            let states = [(ObjectName::new("infra", "x"), ProgrammedState::Programmed(parts))].into();
            let judged = Judged { programmed_states: &states, ..no_envoy(&attached, &uids) };
            let (_, route) = statuses(judged, None, &stored, NOW).last().unwrap();
            let accepted = &route["parents"][0]["conditions"][0];
            assert_eq!((&accepted["status"], &accepted["message"]), (&json!("True"), &json!(expected)), "{owner}");
        }
    }

    #[test]
    fn status_stays_and_entries_of_a_lost_parent_go() {
        let attached = attached();
        let of_other = json!({"parentRef": {"name": "y"}, "controllerName": "example.com/other", "conditions": []});
        let first: Vec<_> =
            statuses(no_envoy(&attached, &judged()), None, &stored(&json!({"parents": [of_other]})), NOW)
                .map(|(key, status)| (key, one_stored(status)))
                .collect();
        let route = &first.iter().find(|(key, _)| key.kind == WatchedKind::TlsRoute).unwrap().1.status;
        assert_eq!(route["parents"][0], of_other, "{route}");
        let stored: StoredStatuses = first.iter().cloned().collect();
        let again: Vec<_> = statuses(no_envoy(&attached, &judged()), None, &stored, "2027-01-01T00:00:00Z").collect();
        assert_eq!(again.len(), first.len());
        assert!(again.iter().zip(&first).all(|((_, status), (_, before))| *status == before.status));
        let mut gone = attached.clone();
        gone.routes.iter_mut().for_each(|route| route.parents.clear());
        let last: Vec<_> = statuses(no_envoy(&gone, &judged()), None, &stored, NOW).collect();
        assert_eq!(last.last().unwrap().1, json!({"parents": [of_other]}));
    }
}
