//! Objects that are accepted, and what one more field changes.

use portcullis_attach::{Attached, GatewayObjects, GatewayVerdict, Inventory, attach};
use portcullis_gateway_api::read_object;
use serde_json::{Value, json};

use crate::schema::{Definition, Field, sample};

/// The effect of a field.
pub(crate) enum Seen {
    /// Something is refused that was accepted without it, and a verdict names this part of its path.
    Refused(String),
    /// The outcome is another one.
    Served,
    /// The outcome is the same.
    Nowhere,
}

pub(crate) struct World {
    documents: Vec<Value>,
    before: Attached,
}

impl World {
    pub(crate) fn new() -> Self {
        let documents = documents();
        let before = outcome(&documents);
        assert_eq!(refusals(&before), Vec::<String>::new());
        Self { documents, before }
    }

    /// The objects of a kind.
    pub(crate) fn minimal_objects(kind: &str) -> Vec<Value> {
        documents().into_iter().filter(|document| document["kind"] == kind).collect()
    }

    /// The effect of a field of the first object of its kind, with the fields beside it that it needs.
    pub(crate) fn seen(&self, definition: &Definition, field: &Field) -> Seen {
        let mut documents = self.documents.clone();
        let document = documents.iter_mut().find(|document| document["kind"] == *definition.kind).unwrap();
        definition.set(document, &field.path, sample(&field.schema));
        let after = outcome(&documents);
        if after == self.before {
            return Seen::Nowhere;
        }
        let path = field.path.replace("[]", "[0]");
        let messages = refusals(&after);
        let words = messages.iter().flat_map(|message| message.split([' ', ',', ':']));
        // A verdict may also name a key of a map.
        let parts = words.map(|word| if word.starts_with(&path) { path.as_str() } else { word });
        let named =
            parts.filter(|word| word.starts_with("spec.") && path.starts_with(*word)).max_by_key(|word| word.len());
        named.map_or(Seen::Served, |name| Seen::Refused(name.replace("[0]", "[]")))
    }
}

fn object(kind: &str, namespace: &str, name: &str, spec: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": namespace});
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
}

/// Objects in which every reference is resolved by a grant.
fn documents() -> Vec<Value> {
    let cluster = json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": "c"});
    let parents = json!([{"name": "g", "namespace": "infra"}]);
    let listener = |name: &str, protocol: &str, tls: Value| {
        json!({
            "name": name, "port": 443, "protocol": protocol, "tls": tls, "hostname": format!("{name}.test"),
            "allowedRoutes": {"namespaces": {"from": "All"}},
        })
    };
    let listeners = json!([
        listener("http", "HTTPS", json!({"certificateRefs": [{"name": "cert", "namespace": "home"}]})),
        listener("tls", "TLS", json!({"mode": "Passthrough"})),
    ]);
    let from = |kind: &str| json!({"group": "gateway.networking.k8s.io", "kind": kind, "namespace": "infra"});
    let grant = |kind: &str, to: Value| json!({"from": [from(kind)], "to": [to]});
    let to_cluster = || json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster"});
    let validation = json!({"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]});
    let gateway = json!({
        "gatewayClassName": "portcullis", "listeners": listeners,
        "tls": {"frontend": {"default": {"validation": validation}}},
    });
    let class = json!({
        "controllerName": portcullis_attach::CONTROLLER_NAME,
        "parametersRef": {"group": "portcullis.dev", "kind": "GatewaySettings", "name": "default"},
    });
    let mut route = json!({"parentRefs": parents, "hostnames": ["http.test"], "rules": [{"backendRefs": [cluster]}]});
    let http = object("HTTPRoute", "infra", "http", &route);
    route["hostnames"] = json!(["tls.test"]);
    vec![
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "portcullis"},
            "spec": class,
        }),
        object("Gateway", "infra", "g", &gateway),
        http,
        object("TLSRoute", "infra", "tls", &route),
        object("ReferenceGrant", "home", "secrets", &grant("Gateway", json!({"group": "", "kind": "Secret"}))),
        object("ReferenceGrant", "home", "http", &grant("HTTPRoute", to_cluster())),
        object("ReferenceGrant", "home", "tls", &grant("TLSRoute", to_cluster())),
    ]
}

fn outcome(documents: &[Value]) -> Attached {
    let mut objects = GatewayObjects::default();
    documents.iter().for_each(|document| objects.add(read_object(document).unwrap()));
    let inventory = Inventory { home_namespace: "home".to_owned(), ..Inventory::default() };
    attach(&objects, &inventory)
}

/// The messages of all that is not accepted.
fn refusals(attached: &Attached) -> Vec<String> {
    let of_classes = attached.classes.iter().flat_map(|one| &one.conditions);
    let listeners = |gateway: &'_ GatewayVerdict| gateway.listeners.clone();
    let of_gateways = attached.gateways.iter().flat_map(|one| &one.conditions);
    let of_listeners: Vec<_> = attached.gateways.iter().flat_map(listeners).flat_map(|one| one.conditions).collect();
    let of_routes = attached.routes.iter().flat_map(|one| &one.parents).flat_map(|parent| &parent.conditions);
    let all = of_classes.chain(of_gateways).chain(&of_listeners).chain(of_routes);
    all.filter(|one| one.kind == "Accepted" && !one.status).map(|one| one.message.clone()).collect()
}
