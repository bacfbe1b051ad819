use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_attach::{Attached, ListenerRole, ObjectName, ServedListener};
use portcullis_instances::labels_of;
use portcullis_sources::{GatewayApiObjects, WatchedKind};
use portcullis_translate::ServicePort;
use serde_json::Value;

use super::super::gateway_views::{GatewayDemand, ServiceIdentity};
use super::super::instance_views::GatewayMember;
use super::name_of;
use super::secrets::GatewayContents;
use super::upstreams::KnownUpstreams;

/// The part of the verdicts that decides about what is served.
pub(super) fn demand(
    attached: &Attached,
    objects: &GatewayApiObjects,
    contents: &GatewayContents,
    upstreams: &KnownUpstreams,
) -> GatewayDemand {
    let documents: BTreeMap<ObjectName, &Arc<Value>> =
        objects.of(WatchedKind::Service).map(|document| (name_of(document), document)).collect();
    let wanted = attached.served.iter().flat_map(|gateway| gateway.services());
    let service = |(service, port): (&ObjectName, u16)| {
        let identity = identity(documents.get(service)?, port)?;
        Some((ServicePort { service: service.clone(), port }, identity))
    };
    GatewayDemand {
        served: Arc::new(attached.served.clone()),
        passed_clusters: attached.passed_clusters.clone(),
        services: wanted.filter_map(service).collect(),
        requested_clusters: attached.requested_clusters.clone(),
        upstreams: upstreams.resolved(|key| attached.requested_clusters.contains(key)),
        certificates: needed(attached, contents.serving(), |listener| match &listener.role {
            ListenerRole::Terminate { certificates, .. } => certificates.iter().collect(),
            ListenerRole::Redirect(_) | ListenerRole::Passthrough(_) => Vec::new(),
        }),
        gateways: Some(gateways(attached, objects)),
        client_authorities: needed(attached, contents.authorities(), |listener| match &listener.role {
            ListenerRole::Terminate { client_ca, .. } => client_ca.iter().flat_map(|ca| &ca.config_maps).collect(),
            ListenerRole::Redirect(_) | ListenerRole::Passthrough(_) => Vec::new(),
        }),
    }
}

/// The Gateways that verdicts are about, with their labels.
fn gateways(attached: &Attached, objects: &GatewayApiObjects) -> BTreeMap<ObjectName, GatewayMember> {
    let judged: BTreeSet<&ObjectName> = attached.gateways.iter().map(|verdict| &verdict.name).collect();
    let member = |document: &Arc<Value>| {
        let name = name_of(document);
        let uid = document.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned);
        judged.contains(&name).then(|| (name, GatewayMember { uid, labels: labels_of(document) }))
    };
    objects.of(WatchedKind::Gateway).filter_map(member).collect()
}

/// Those that a served listener has.
fn needed<T>(
    attached: &Attached,
    mut all: BTreeMap<ObjectName, T>,
    of_listener: impl Fn(&ServedListener) -> Vec<&ObjectName>,
) -> BTreeMap<ObjectName, T> {
    let listeners = attached.served.iter().flat_map(|gateway| &gateway.listeners);
    let needed: BTreeSet<&ObjectName> = listeners.flat_map(of_listener).collect();
    all.retain(|name, _| needed.contains(name));
    all
}

/// None of a Service whose UID is not known: it may be beyond those that are watched, and pools of two of its name would be one.
///
/// EndpointSlices have the name of a Service's port, not its number.
fn identity(document: &Value, port: u16) -> Option<ServiceIdentity> {
    let ports = document.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
    let is_it = |one: &&Value| one.get("port").and_then(Value::as_u64) == Some(port.into());
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let named = ports.filter(is_it).max_by_key(|one| one.get("protocol").is_none_or(|protocol| protocol == "TCP"));
    let uid = text(document.pointer("/metadata/uid"));
    let port_name = text(named.and_then(|one| one.get("name")));
    (!uid.is_empty()).then_some(ServiceIdentity { uid, port_name })
}

#[cfg(test)]
mod tests {
    use portcullis_attach::{ContentKind, ContentName, DoorPolicies, HostPattern, HostTable, ServedGateway};
    use serde_json::json;
    use tokio::time::Instant;

    use super::super::content_documents::{made_secret, read_document};
    use super::super::secrets::{ContentAnswer, referred};
    use super::*;

    #[test]
    fn port_of_a_service_is_known_by_its_name() {
        let document = json!({"metadata": {"uid": "u"}, "spec": {"ports": [
            {"name": "dns", "port": 443, "protocol": "UDP"}, {"name": "https", "port": 443, "protocol": "TCP"}, {"name": "x", "port": 1},
        ]}});
        let found = |port| identity(&document, port).unwrap().port_name;
        assert_eq!([found(443), found(1), found(2)], ["https", "x", ""]);
        assert_eq!(identity(&document, 1).unwrap().uid, "u");
    }

    #[test]
    fn service_without_a_known_uid_gets_no_connection() {
        let document = |uid: &str| json!({"metadata": {"uid": uid}, "spec": {"ports": [{"port": 443}]}});
        assert!(identity(&document("u"), 443).is_some());
        assert_eq!(identity(&document(""), 443), None);
        assert_eq!(identity(&json!({}), 443), None);
    }

    #[test]
    fn keys_are_those_of_served_listeners_alone() {
        let mut contents = GatewayContents::default();
        contents.follow(&referred(&["used", "unused"]));
        let now = Instant::now();
        let [used, unused] = ["used", "unused"].map(|name| ObjectName::new("infra", name));
        for object in [&used, &unused] {
            let name = ContentName { kind: ContentKind::Secret, object: object.clone() };
            contents.take(&name, ContentAnswer::Found(read_document(ContentKind::Secret, &made_secret())), now);
        }
        let role = ListenerRole::Terminate {
            certificates: vec![used.clone(), ObjectName::new("infra", "unread")],
            client_ca: None,
            routes: HostTable::default(),
        };
        let listener = ServedListener { name: "l".to_owned(), port: 443, host: HostPattern::Any, role };
        let gateway = ObjectName::new("infra", "edge");
        let served = ServedGateway {
            gateway,
            addresses: Vec::new(),
            settings: None,
            listeners: vec![listener],
            policies: DoorPolicies::default(),
        };
        let attached = Attached { served: vec![Arc::new(served)], ..Attached::default() };
        let found = demand(&attached, &GatewayApiObjects::default(), &contents, &KnownUpstreams::default());
        assert_eq!(found.certificates.keys().collect::<Vec<_>>(), [&used]);
        assert!(!format!("{found:?}").contains("PRIVATE"), "no key is shown");
        assert_eq!(contents.serving().len(), 2, "{unused} is read, too");
    }
}
