//! istiod's handling of the patches of an EnvoyFilter: the operations that `envoy/gardener` uses, on JSON.

use serde_json::{Value, json};

use super::objects::{list, of_kind, text};

/// The configuration that the patches change.
#[derive(Debug, Default)]
pub(super) struct Resources {
    /// Of the listener on port 9443.
    pub(super) chains: Vec<Value>,
    pub(super) listeners: Vec<Value>,
    pub(super) clusters: Vec<Value>,
}

impl Resources {
    /// Applies all patches of the objects, in their order.
    ///
    /// # Panics
    /// If a patch is not known here, or does not find what it is for.
    pub(super) fn patch(&mut self, objects: &[Value]) {
        for patch in of_kind(objects, "EnvoyFilter").flat_map(|filter| list(&filter["spec"]["configPatches"])) {
            let found = self.apply(patch);
            assert!(found > 0, "a patch without effect: {patch:#}");
        }
    }

    /// How many places a patch was applied at.
    fn apply(&mut self, patch: &Value) -> usize {
        let (value, found) = (&patch["patch"]["value"], &patch["match"]);
        match (text(&patch["applyTo"]), text(&patch["patch"]["operation"])) {
            ("CLUSTER", "ADD") => add(&mut self.clusters, value),
            ("CLUSTER", "MERGE") => self.clusters_of(&found["cluster"], |cluster| merge(cluster, value)),
            ("LISTENER", "ADD") => add(&mut self.listeners, value),
            ("HTTP_FILTER", "INSERT_BEFORE") => self.managers(found, |manager| {
                let filters = manager["http_filters"].as_array_mut();
                if let Some(filters) = filters {
                    let router = filters.iter().position(|filter| filter["name"] == "envoy.filters.http.router");
                    filters.insert(router.unwrap_or_default(), value.clone());
                }
            }),
            ("NETWORK_FILTER", "MERGE") => self.managers(found, |manager| merge(manager, &value["typed_config"])),
            ("ROUTE_CONFIGURATION", "MERGE") => {
                self.managers(found, |manager| merge(&mut manager["route_config"], value))
            }
            ("VIRTUAL_HOST", "ADD") => self.managers(found, |manager| {
                let hosts = json!({"virtual_hosts": [value]});
                merge(&mut manager["route_config"], &hosts);
            }),
            ("HTTP_ROUTE", "INSERT_FIRST") => self.managers(found, |manager| {
                for host in manager["route_config"]["virtual_hosts"].as_array_mut().into_iter().flatten() {
                    if let Some(routes) = host["routes"].as_array_mut() {
                        routes.insert(0, value.clone());
                    }
                }
            }),
            (place, operation) => panic!("nobody knows here how to {operation} a {place}"),
        }
    }

    /// Changes the Envoy clusters of a subset that a match finds.
    fn clusters_of(&mut self, found: &Value, change: impl Fn(&mut Value)) -> usize {
        let end = format!("|{}|{}", text(&found["subset"]), text(&found["service"]));
        let matching = self.clusters.iter_mut().filter(|cluster| text(&cluster["name"]).ends_with(&end));
        matching.map(change).count()
    }

    /// Changes the HTTP connection managers that a match finds, by a name of their chain or by their Gateway.
    fn managers(&mut self, found: &Value, change: impl Fn(&mut Value)) -> usize {
        let sni = &found["listener"]["filterChain"]["sni"];
        let gateway = text(&found["routeConfiguration"]["gateway"]);
        let gateway = gateway.split_once('/').map(|(namespace, name)| format!(".{name}.{namespace}"));
        let mut count = 0;
        for chain in &mut self.chains {
            let by_name = list(&chain["filter_chain_match"]["server_names"]).any(|name| name == sni);
            let manager = &mut chain["filters"][0]["typed_config"];
            let by_gateway = gateway.as_ref().is_some_and(|end| text(&manager["stat_prefix"]).ends_with(end));
            if by_name || by_gateway {
                change(manager);
                count += 1;
            }
        }
        count
    }
}

fn add(resources: &mut Vec<Value>, value: &Value) -> usize {
    resources.push(value.clone());
    1
}

/// As protobuf merges messages: lists grow.
fn merge(target: &mut Value, more: &Value) {
    match (target, more) {
        (Value::Object(target), Value::Object(more)) => {
            for (key, value) in more {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(target), Value::Array(more)) => target.extend(more.iter().cloned()),
        (target, more) => *target = more.clone(),
    }
}
