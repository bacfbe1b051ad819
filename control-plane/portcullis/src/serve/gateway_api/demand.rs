use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_attach::{Attached, ObjectName};
use portcullis_sources::{GatewayApiObjects, WatchedKind};
use portcullis_translate::ServicePort;
use serde_json::Value;

use super::super::gateway_views::{GatewayDemand, ServiceIdentity};
use super::name_of;

/// The part of the verdicts that decides about what is served.
pub(super) fn demand(attached: &Attached, objects: &GatewayApiObjects) -> GatewayDemand {
    let documents: BTreeMap<ObjectName, &Arc<Value>> =
        objects.of(WatchedKind::Service).map(|document| (name_of(document), document)).collect();
    let wanted = attached.served.iter().flat_map(|gateway| gateway.services());
    let service = |(service, port): (&ObjectName, u16)| {
        let identity = documents.get(service).map(|document| identity(document, port)).unwrap_or_default();
        (ServicePort { service: service.clone(), port }, identity)
    };
    GatewayDemand {
        served: Arc::new(attached.served.clone()),
        passed_clusters: attached.passed_clusters.clone(),
        services: wanted.map(service).collect(),
    }
}

/// EndpointSlices have the name of a Service's port, not its number.
fn identity(document: &Value, port: u16) -> ServiceIdentity {
    let ports = document.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
    let is_it = |one: &&Value| one.get("port").and_then(Value::as_u64) == Some(port.into());
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let named = ports.filter(is_it).max_by_key(|one| one.get("protocol").is_none_or(|protocol| protocol == "TCP"));
    ServiceIdentity {
        uid: text(document.pointer("/metadata/uid")),
        port_name: text(named.and_then(|one| one.get("name"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn port_of_a_service_is_known_by_its_name() {
        let document = json!({"metadata": {"uid": "u"}, "spec": {"ports": [
            {"name": "dns", "port": 443, "protocol": "UDP"}, {"name": "https", "port": 443, "protocol": "TCP"}, {"name": "x", "port": 1},
        ]}});
        let found = |port| identity(&document, port).port_name;
        assert_eq!([found(443), found(1), found(2)], ["https", "x", ""]);
        assert_eq!(identity(&document, 1).uid, "u");
    }
}
