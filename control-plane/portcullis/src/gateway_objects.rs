//! Objects of the Gateway API in files.

use std::collections::BTreeSet;

use portcullis_attach::{CONTROLLER_NAME, GatewayObjects};
use portcullis_gateway_api::{GatewayApiObject, GatewayClass, GatewayClassSpec, ObjectMeta, OtherFields, read_object};
use portcullis_sources::ObjectSet;
use serde_json::Value;

/// Why a class may not have parameters that are there.
pub(crate) const NOT_USED: &str = "the control plane uses the object that --settings-name names, and no other";

/// The objects, and a class of ours for each Gateway whose class is not among them.
pub(crate) fn gateway_objects(documents: impl IntoIterator<Item = GatewayApiObject>) -> GatewayObjects {
    let mut objects = GatewayObjects::default();
    documents.into_iter().for_each(|object| objects.add(object));
    let known: BTreeSet<String> = objects.classes.iter().map(|class| class.metadata.name.clone()).collect();
    let named: BTreeSet<String> =
        objects.gateways.iter().map(|gateway| gateway.spec.gateway_class_name.clone()).collect();
    objects.classes.extend(named.difference(&known).map(|name| assumed_class(name)));
    objects
}

/// Those of files. One that cannot be read is left out.
pub(crate) fn gateway_objects_of(objects: &ObjectSet) -> GatewayObjects {
    gateway_objects(objects.others.iter().filter_map(|document| read_object(document).ok()))
}

/// The numbers of a Service's ports.
pub(crate) fn service_ports(document: &Value) -> BTreeSet<u16> {
    let ports = document.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
    ports.filter_map(|port| u16::try_from(port.get("port")?.as_u64()?).ok()).collect()
}

fn assumed_class(name: &str) -> GatewayClass {
    let spec = GatewayClassSpec {
        controller_name: CONTROLLER_NAME.to_owned(),
        parameters_ref: None,
        description: None,
        other: OtherFields::default(),
    };
    GatewayClass { metadata: ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() }, spec }
}
