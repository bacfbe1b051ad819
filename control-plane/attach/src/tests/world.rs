//! Objects for tests, and outcomes as lines of text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_gateway_api::read_object;
use serde_json::{Value, json};

use crate::condition::ConditionVerdict;
use crate::policy::DoorPolicies;
use crate::served::HostTable;
use crate::{
    Attached, CONTROLLER_NAME, FormerCertificates, GatewayObjects, HostPattern, Inventory, ListenerRole, ObjectName,
    ServedBackend, UnseenKinds, Usability, attach,
};

/// The namespace of Gateways, and of routes unless a test says otherwise.
pub(super) const INFRA: &str = "infra";
/// The control plane's own namespace.
pub(super) const HOME: &str = "portcullis";

pub(super) fn object(kind: &str, namespace: &str, name: &str, spec: &Value) -> Value {
    let mut metadata = json!({"name": name, "generation": 3});
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
}

pub(super) fn created(mut object: Value, year: u32) -> Value {
    object["metadata"]["creationTimestamp"] = json!(format!("{year}-01-01T00:00:00Z"));
    object
}

pub(super) fn class() -> Value {
    object("GatewayClass", "", "portcullis", &json!({"controllerName": CONTROLLER_NAME}))
}

/// A Gateway `g` with a class of this controller.
pub(super) fn gateway(listeners: &Value) -> Value {
    object("Gateway", INFRA, "g", &json!({"gatewayClassName": "portcullis", "listeners": listeners}))
}

/// A listener that all routes may attach to. An empty host name is none.
pub(super) fn listener(name: &str, port: u16, protocol: &str, host: &str) -> Value {
    let mut listener = json!({
        "name": name, "port": port, "protocol": protocol, "allowedRoutes": {"namespaces": {"from": "All"}},
    });
    if !host.is_empty() {
        listener["hostname"] = json!(host);
    }
    match protocol {
        "HTTPS" => listener["tls"] = json!({"certificateRefs": [{"name": "cert"}]}),
        "TLS" => listener["tls"] = json!({"mode": "Passthrough"}),
        _ => {}
    }
    listener
}

pub(super) fn backends(names: &[&str]) -> Value {
    let cluster = |name: &&str| json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": name});
    names.iter().map(cluster).collect()
}

/// A route of the control plane's namespace, which may lead to every cluster.
pub(super) fn tls_route(name: &str, hosts: &[&str], clusters: &[&str]) -> Value {
    let spec = json!({
        "parentRefs": [{"name": "g", "namespace": INFRA}], "hostnames": hosts,
        "rules": [{"backendRefs": backends(clusters)}],
    });
    object("TLSRoute", HOME, name, &spec)
}

/// A route of the control plane's namespace, which may lead to every cluster.
pub(super) fn http_route(name: &str, hosts: &[&str], clusters: &[&str]) -> Value {
    let spec = json!({
        "parentRefs": [{"name": "g", "namespace": INFRA}], "hostnames": hosts,
        "rules": [{"backendRefs": backends(clusters)}],
    });
    object("HTTPRoute", HOME, name, &spec)
}

/// The objects, and a grant by which Gateways of [`INFRA`] may lead requests to all clusters.
pub(super) fn read(documents: &[Value]) -> GatewayObjects {
    let mut objects = GatewayObjects::default();
    let from = json!([{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": INFRA}]);
    let to = json!([{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster"}]);
    let grant = object("ReferenceGrant", HOME, "gateways", &json!({"from": from, "to": to}));
    documents.iter().chain([&grant]).for_each(|document| objects.add(read_object(document).unwrap()));
    objects
}

/// A certificate, a CA, a Service, and the clusters `c1` and `c2`, of which `c1` owns `c1.own` and `*.c1.own`.
pub(super) fn inventory() -> Inventory {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    Inventory {
        is_complete: true,
        unseen: UnseenKinds::default(),
        home_namespace: HOME.to_owned(),
        secrets: [
            (ObjectName::new(INFRA, "cert"), Usability::Usable),
            (ObjectName::new("other", "cert"), Usability::Usable),
            (ObjectName::new(INFRA, "bad"), Usability::Malformed("tls.key is missing".to_owned())),
        ]
        .into(),
        config_maps: [
            (ObjectName::new(INFRA, "ca"), Usability::Usable),
            (ObjectName::new("other", "ca"), Usability::Usable),
        ]
        .into(),
        services: [
            (ObjectName::new(INFRA, "svc"), BTreeSet::from([443])),
            (ObjectName::new("other", "svc"), BTreeSet::from([443])),
        ]
        .into(),
        namespaces: [
            ("team-a".to_owned(), [("team".to_owned(), "a".to_owned())].into()),
            ("team-b".to_owned(), [("team".to_owned(), "b".to_owned())].into()),
        ]
        .into(),
        clusters: [("c1".to_owned(), names(&["c1.own", "*.c1.own"])), ("c2".to_owned(), names(&[]))].into(),
        judging_clusters: BTreeMap::new(),
        passing_clusters: BTreeMap::new(),
        upstreams: BTreeMap::new(),
        owners: portcullis_instances::Settlement::default(),
        settings: [
            ("default".to_owned(), Usability::Usable),
            ("other".to_owned(), Usability::Malformed("is not used".to_owned())),
        ]
        .into(),
        former_certificates: FormerCertificates::new(),
        former_holders: Arc::default(),
        listed_holders: Arc::default(),
        door_policies: DoorPolicies::default(),
        upstream_policies: crate::UpstreamPolicies::new(),
        unfit_policies: BTreeMap::new(),
    }
}

/// Attaches objects with a class of this controller, and yields the outcome as lines.
pub(super) fn outcome(documents: &[Value]) -> Vec<String> {
    let mut all = vec![class()];
    all.extend_from_slice(documents);
    lines(&attach(&read(&all), &inventory()))
}

/// Checks that each line is among those of an outcome. A line ends where the expected one does, or goes on with a message.
pub(super) fn assert_lines(why: &str, documents: &[Value], expected: &[&str]) {
    assert_among(why, &outcome(documents), expected);
}

/// The same of the lines of an outcome.
pub(super) fn assert_among(why: &str, lines: &[String], expected: &[&str]) {
    for wanted in expected {
        let is_there = match wanted.strip_prefix("no ") {
            Some(absent) => !lines.iter().any(|line| line.starts_with(absent)),
            None => lines.iter().any(|line| line.starts_with(wanted)),
        };
        assert!(is_there, "{why}: {wanted:?} in\n{}", lines.join("\n"));
    }
}

pub(super) fn lines(attached: &Attached) -> Vec<String> {
    let mut lines = Vec::new();
    for class in &attached.classes {
        add(&mut lines, &format!("class {}", class.name), &class.conditions);
    }
    for gateway in &attached.gateways {
        add(&mut lines, &format!("gateway {}", gateway.name.name), &gateway.conditions);
        lines.extend(gateway.notes.iter().map(|note| format!("note {}: {}", note.path, note.message)));
        for listener in &gateway.listeners {
            let kinds: Vec<&str> = listener.supported_kinds.iter().map(|kind| kind.as_str()).collect();
            lines.push(format!(
                "listener {} kinds {} routes {}",
                listener.name,
                kinds.join(","),
                listener.attached_routes
            ));
            add(&mut lines, &format!("listener {}", listener.name), &listener.conditions);
        }
    }
    for route in &attached.routes {
        lines
            .extend(route.notes.iter().map(|note| format!("note {} {}: {}", route.name.name, note.path, note.message)));
        for parent in &route.parents {
            let section = parent.parent.section_name.as_deref().map(|name| format!("#{name}")).unwrap_or_default();
            add(&mut lines, &format!("route {}{section}", route.name.name), &parent.conditions);
        }
    }
    for gateway in &attached.served {
        for listener in &gateway.listeners {
            let at = format!("served {}:{} {}", listener.name, listener.port, listener.host);
            match &listener.role {
                ListenerRole::Redirect(table) => {
                    lines.push(format!("{at} redirect"));
                    lines.extend(table.ports.iter().map(|(host, port)| format!("redirect {host} to {port}")));
                    let owned = table.owned.values().flat_map(|hosts| hosts.iter());
                    let owned = owned.filter(|host| !table.ports.contains_key(*host));
                    let withheld: BTreeSet<&HostPattern> = table.withheld.iter().chain(owned).collect();
                    lines.extend(withheld.into_iter().map(|host| format!("withheld {} {host}", listener.name)));
                }
                ListenerRole::Terminate { certificates, client_ca, routes } => {
                    let certificates: Vec<String> = certificates.iter().map(ToString::to_string).collect();
                    let mode = client_ca.as_ref().map(|ca| format!(" {:?}", ca.mode)).unwrap_or_default();
                    lines.push(format!("{at} terminate {}{mode}", certificates.join(",")));
                    table(&mut lines, &listener.name, routes);
                }
                ListenerRole::Passthrough(routes) => {
                    lines.push(format!("{at} passthrough"));
                    table(&mut lines, &listener.name, routes);
                }
            }
        }
    }
    lines
}

fn table(lines: &mut Vec<String>, listener: &str, table: &HostTable) {
    for (host, bound) in &table.routes {
        let backend = |backend: &ServedBackend| match backend {
            ServedBackend::Cluster(name) => name.clone(),
            ServedBackend::Service { name, port } => format!("{name}:{port}"),
        };
        let mut to: Vec<String> =
            bound.backends.iter().map(|one| format!("{}*{}", backend(&one.backend), one.weight)).collect();
        to.extend((bound.refused_weight > 0).then(|| format!("refused*{}", bound.refused_weight)));
        lines.push(format!("bound {listener} {host} {} -> {}", bound.route.name, to.join(" ")));
    }
    let owned = table.owned.values().flat_map(|hosts| hosts.iter()).filter(|host| !table.routes.contains_key(*host));
    let withheld: BTreeSet<&HostPattern> = table.withheld.iter().chain(owned).collect();
    lines.extend(withheld.into_iter().map(|host| format!("withheld {listener} {host}")));
}

fn add(lines: &mut Vec<String>, of: &str, conditions: &[ConditionVerdict]) {
    for one in conditions {
        lines.push(format!("{of} {} {} {}: {}", one.kind, one.written_status(), one.reason, one.message));
    }
}
