//! Objects of the Gateway API in files.

use std::collections::BTreeSet;

use portcullis_attach::{CONTROLLER_NAME, GatewayObjects};
use portcullis_gateway_api::{GatewayApiObject, GatewayClass, GatewayClassSpec, ObjectMeta, OtherFields, read_object};
use portcullis_sources::ObjectSet;

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

fn assumed_class(name: &str) -> GatewayClass {
    let spec = GatewayClassSpec {
        controller_name: CONTROLLER_NAME.to_owned(),
        parameters_ref: None,
        description: None,
        other: OtherFields::default(),
    };
    GatewayClass { metadata: ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() }, spec }
}
