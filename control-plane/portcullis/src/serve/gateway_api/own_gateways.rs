//! The Gateways of this controller, from one judgement to the next: one whose GatewayClass is deleted stays its own until the class is
//! another controller's. Nothing else says whose it was.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_attach::{Attached, CONTROLLER_NAME, GatewayObjects, ObjectName, has_own_conditions};
use portcullis_sources::{ObjectKey, StoredStatuses, WatchedKind};
use serde_json::Value;

/// The Gateways of the judgement before, with their UIDs.
#[derive(Debug, Default)]
pub(super) struct OwnGateways {
    /// None before the first.
    judged: Option<BTreeMap<ObjectName, Option<String>>>,
}

impl OwnGateways {
    /// Those whose class is gone. Before the first judgement statuses say which they are: the entries of their routes, and conditions of
    /// this controller's own domain.
    pub(super) fn orphans(&self, objects: &GatewayObjects, statuses: &StoredStatuses) -> BTreeSet<ObjectName> {
        let without_class: Vec<(ObjectName, &Option<String>)> =
            objects.without_class().map(|one| (ObjectName::of(&one.metadata), &one.metadata.uid)).collect();
        if without_class.is_empty() {
            return BTreeSet::new();
        }
        let named = if self.judged.is_none() { named_by_routes(statuses) } else { BTreeSet::new() };
        let is_own = |(name, uid): &(ObjectName, &Option<String>)| match &self.judged {
            Some(judged) => judged.get(name) == Some(*uid),
            None => named.contains(name) || is_marked(name, uid.as_deref(), statuses),
        };
        without_class.into_iter().filter(is_own).map(|(name, _)| name).collect()
    }

    /// Takes the Gateways of a judgement.
    pub(super) fn remember(&mut self, attached: &Attached, uid: impl Fn(&ObjectName) -> Option<String>) {
        self.judged = Some(attached.gateways.iter().map(|one| (one.name.clone(), uid(&one.name))).collect());
    }
}

/// The Gateways in the entries of this controller in statuses of routes.
fn named_by_routes(statuses: &StoredStatuses) -> BTreeSet<ObjectName> {
    let routes = [WatchedKind::HttpRoute, WatchedKind::TlsRoute].into_iter().flat_map(|kind| statuses.of(kind));
    let of_route = |(key, stored): (&ObjectKey, &portcullis_sources::StoredStatus)| {
        let entries = stored.status.get("parents").and_then(Value::as_array).into_iter().flatten();
        let own = entries.filter(|one| one.get("controllerName").and_then(Value::as_str) == Some(CONTROLLER_NAME));
        let gateway = |entry: &Value| {
            let field = |field: &str| entry.get("parentRef")?.get(field)?.as_str();
            Some(ObjectName::new(field("namespace").unwrap_or(&key.namespace), field("name")?))
        };
        own.filter_map(gateway).collect::<Vec<_>>()
    };
    routes.flat_map(of_route).collect()
}

fn is_marked(gateway: &ObjectName, uid: Option<&str>, statuses: &StoredStatuses) -> bool {
    let (kind, namespace, name) = (WatchedKind::Gateway, gateway.namespace.clone(), gateway.name.clone());
    let stored = statuses.get(&ObjectKey { kind, namespace, name }).filter(|stored| stored.uid.as_deref() == uid);
    stored.is_some_and(|stored| has_own_conditions(&stored.status))
}

#[cfg(test)]
mod tests {
    use portcullis_attach::{Inventory, attach};
    use portcullis_gateway_api::read_object;
    use portcullis_sources::StoredStatus;
    use serde_json::json;

    use super::*;

    fn object(kind: &str, (namespace, name): (&str, &str), uid: &str, spec: &Value) -> Value {
        let metadata = json!({"name": name, "namespace": namespace, "uid": uid});
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
    }

    /// A Gateway with this UID, and its class if that has a controller.
    fn objects(uid: &str, controller: Option<&str>) -> GatewayObjects {
        let class = |controller| object("GatewayClass", ("", "c"), "c", &json!({"controllerName": controller}));
        let listeners = json!([{"name": "l", "port": 443, "protocol": "TLS", "tls": {"mode": "Passthrough"}}]);
        let gateway = object("Gateway", ("infra", "g"), uid, &json!({"gatewayClassName": "c", "listeners": listeners}));
        let mut objects = GatewayObjects::default();
        let all: Vec<Value> = controller.map(class).into_iter().chain([gateway]).collect();
        all.iter().for_each(|document| objects.add(read_object(document).unwrap()));
        objects
    }

    #[test]
    fn gateway_stays_the_own_one_until_its_class_is_anothers() {
        let none = StoredStatuses::default();
        let (mut own, mut uid_of) = (OwnGateways::default(), "1".to_owned());
        // Each step with a class or without, the Gateway's UID, and whether it is an orphan then.
        for (why, controller, uid, expected) in [
            ("before the first judgement", None, "1", false),
            ("of this controller", Some(CONTROLLER_NAME), "1", false),
            ("the class is gone", None, "1", true),
            ("and stays so", None, "1", true),
            ("another Gateway of its name", None, "2", false),
            ("it is back", Some(CONTROLLER_NAME), "2", false),
            ("of another controller", Some("example.com/other"), "2", false),
            ("its class is gone, too", None, "2", false),
        ] {
            uid_of.clear();
            uid_of.push_str(uid);
            let mut objects = objects(uid, controller);
            objects.orphans = own.orphans(&objects, &none);
            assert_eq!(!objects.orphans.is_empty(), expected, "{why}");
            own.remember(&attach(&objects, &Inventory::default()), |_| Some(uid_of.clone()));
        }
    }

    #[test]
    fn first_judgement_finds_orphans_by_statuses() {
        let entry = |controller: &str, name: &str| json!({"parents": [{"controllerName": controller, "parentRef": {"name": name, "namespace": "infra"}}]});
        let own_domain = json!({"conditions": [{"type": "portcullis.dev/DispatchPolicyAffected"}]});
        let (route, gateway) = (WatchedKind::TlsRoute, WatchedKind::Gateway);
        for (why, kind, namespace, uid, status, expected) in [
            ("an entry of a route", route, "apps", "r", entry(CONTROLLER_NAME, "g"), true),
            ("of another controller", route, "apps", "r", entry("example.com/other", "g"), false),
            ("of another Gateway", route, "apps", "r", entry(CONTROLLER_NAME, "h"), false),
            ("an own condition", gateway, "infra", "1", own_domain.clone(), true),
            ("of a Gateway before it", gateway, "infra", "0", own_domain, false),
            ("no own condition", gateway, "infra", "1", json!({"conditions": [{"type": "Accepted"}]}), false),
        ] {
            let key = ObjectKey { kind, namespace: namespace.to_owned(), name: "g".to_owned() };
            let stored = StoredStatus { uid: Some(uid.to_owned()), status, ..StoredStatus::default() };
            let statuses: StoredStatuses = [(key, stored)].into_iter().collect();
            let found = OwnGateways::default().orphans(&objects("1", None), &statuses);
            assert_eq!(found.contains(&ObjectName::new("infra", "g")), expected, "{why}");
            assert!(
                OwnGateways::default().orphans(&objects("1", Some(CONTROLLER_NAME)), &statuses).is_empty(),
                "{why}"
            );
        }
    }
}
