//! The release's own definitions of the Gateway API beside our types: every field is served, refused by its name, or listed here.

#![cfg(test)]

mod schema;
mod world;

use std::collections::BTreeSet;

use serde_json::Value;

use schema::{Definition, with_defaults};
use world::{Seen, World};

/// Fields that are refused by their names, with all that is in them; of some only another value than the usual ones.
const REFUSED: [&str; 18] = [
    "Gateway spec.addresses[].type",
    "Gateway spec.addresses[].value",
    "Gateway spec.infrastructure.parametersRef",
    "Gateway spec.listeners[].protocol",
    "Gateway spec.listeners[].tls.mode",
    "Gateway spec.listeners[].tls.options",
    "Gateway spec.tls.backend",
    "Gateway spec.tls.frontend.default.validation.caCertificateRefs",
    "GatewayClass spec.parametersRef",
    "HTTPRoute spec.rules[].backendRefs[].filters[]",
    "HTTPRoute spec.rules[].backendRefs[].port",
    "HTTPRoute spec.rules[].filters[]",
    "HTTPRoute spec.rules[].matches[].headers",
    "HTTPRoute spec.rules[].matches[].method",
    "HTTPRoute spec.rules[].matches[].path",
    "HTTPRoute spec.rules[].matches[].queryParams",
    "HTTPRoute spec.rules[].timeouts",
    "TLSRoute spec.rules[].backendRefs[].port",
];

/// Fields that change nothing: they are for people, or need another field beside them.
const WITHOUT_EFFECT: [&str; 7] = [
    "Gateway spec.listeners[].allowedRoutes.namespaces.selector.matchExpressions[].key",
    "Gateway spec.listeners[].allowedRoutes.namespaces.selector.matchExpressions[].operator",
    "Gateway spec.listeners[].allowedRoutes.namespaces.selector.matchExpressions[].values",
    "Gateway spec.listeners[].allowedRoutes.namespaces.selector.matchLabels",
    "GatewayClass spec.description",
    "HTTPRoute spec.rules[].name",
    "TLSRoute spec.rules[].name",
];

#[test]
fn fields_of_the_release_are_served_or_refused_or_listed() {
    let Some(definitions) = schema::definitions() else { return };
    let (mut refused, mut without_effect, mut served) = (BTreeSet::new(), BTreeSet::new(), 0);
    let world = World::new();
    for definition in &definitions {
        for field in definition.fields() {
            match world.seen(definition, &field) {
                Seen::Refused(name) => drop(refused.insert(format!("{} {name}", definition.kind))),
                Seen::Nowhere => drop(without_effect.insert(format!("{} {}", definition.kind, field.path))),
                Seen::Served => served += 1,
            }
        }
    }
    assert_eq!(refused.iter().collect::<Vec<_>>(), REFUSED);
    assert_eq!(without_effect.iter().collect::<Vec<_>>(), WITHOUT_EFFECT);
    assert!(served > 40, "{served}");
}

/// An object without the optional fields is one with the release's defaults, which an API server fills in.
#[test]
fn defaults_are_those_of_the_release() {
    let Some(definitions) = schema::definitions() else { return };
    let mut filled = 0;
    for definition in &definitions {
        for document in World::minimal_objects(&definition.kind) {
            let defaulted = with_defaults(&definition.schema, &document);
            filled += usize::from(defaulted != document);
            let read = |document: &Value| portcullis_gateway_api::read_object(document).unwrap();
            assert_eq!(read(&document), read(&defaulted), "{defaulted:#}");
        }
    }
    assert!(filled >= 3, "{filled}");
}

#[test]
fn definitions_are_of_the_pinned_release() {
    let Some(definitions) = schema::definitions() else { return };
    let pinned = portcullis_harness::deps::pinned("GATEWAY_API_VERSION").unwrap();
    assert_eq!(definitions.len(), 5);
    for Definition { kind, bundle_version, .. } in &definitions {
        assert_eq!(*bundle_version, format!("v{pinned}"), "{kind}");
    }
}
