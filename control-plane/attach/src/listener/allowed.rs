//! The routes that may attach to a listener.

use std::collections::BTreeMap;

use portcullis_gateway_api::{GATEWAY_API_GROUP, LabelSelector, Listener, NAMESPACE_NAME_LABEL, NamespacesFrom};

use super::ListenerProtocol;
use crate::condition::Rejection;
use crate::input::Inventory;
use crate::name::RouteKind;

/// The kinds of routes of a listener.
pub(super) struct Kinds {
    pub(super) allowed: Vec<RouteKind>,
    /// Why a kind that is listed is not among them.
    pub(super) unresolved: Option<Rejection>,
}

/// The kinds that a listener lists and its protocol can serve.
pub(super) fn kinds(spec: &Listener, protocol: Option<ListenerProtocol>) -> Kinds {
    let servable: &[RouteKind] = match protocol {
        Some(ListenerProtocol::Http | ListenerProtocol::Https) => &[RouteKind::Http],
        Some(ListenerProtocol::Passthrough) => &[RouteKind::Tls],
        None => &[],
    };
    let listed = &spec.allowed_routes.kinds;
    let is_listed = |kind: &RouteKind| {
        listed.iter().any(|listed| listed.group == GATEWAY_API_GROUP && listed.kind == kind.as_str())
    };
    let allowed: Vec<RouteKind> =
        servable.iter().copied().filter(|kind| listed.is_empty() || is_listed(kind)).collect();
    let is_servable = |group: &str, kind: &str| {
        group == GATEWAY_API_GROUP && servable.iter().any(|servable| servable.as_str() == kind)
    };
    let others = listed.iter().filter(|one| !is_servable(&one.group, &one.kind));
    let others: Vec<&str> = others.map(|one| one.kind.as_str()).collect();
    let unresolved = (!others.is_empty()).then(|| {
        let message = format!("allowedRoutes.kinds: {} cannot attach to protocol {}", others.join(", "), spec.protocol);
        Rejection::new("InvalidRouteKinds", message)
    });
    Kinds { allowed, unresolved }
}

/// Whether routes of a namespace may attach to a listener of a Gateway in namespace `own`.
pub(crate) fn allows_namespace(spec: &Listener, own: &str, namespace: &str, inventory: &Inventory) -> bool {
    let namespaces = &spec.allowed_routes.namespaces;
    let is_selected = || namespaces.selector.as_ref().is_some_and(|selector| selects(selector, namespace, inventory));
    let is_known = spec.allowed_routes.other.is_empty() && namespaces.other.is_empty();
    is_known
        && match namespaces.from {
            NamespacesFrom::All => true,
            NamespacesFrom::Same => namespace == own,
            NamespacesFrom::Selector => is_selected(),
            NamespacesFrom::Other(_) => false,
        }
}

/// A namespace whose labels are not known is selected by its name alone, which each has as a label.
fn selects(selector: &LabelSelector, namespace: &str, inventory: &Inventory) -> bool {
    match inventory.namespaces.get(namespace) {
        Some(labels) => selector.selects(labels),
        None => {
            let name = BTreeMap::from([(NAMESPACE_NAME_LABEL.to_owned(), namespace.to_owned())]);
            inventory.has_unseen_namespaces() && selector.is_about(NAMESPACE_NAME_LABEL) && selector.selects(&name)
        }
    }
}

/// The fields of `allowedRoutes` that are set and not served.
pub(super) fn unsupported(spec: &Listener, path: &str) -> Vec<String> {
    let path = format!("{path}.allowedRoutes");
    let namespaces = &spec.allowed_routes.namespaces;
    let at_namespaces = format!("{path}.namespaces");
    let selector = format!("{at_namespaces}.selector");
    let mut paths: Vec<String> = spec.allowed_routes.other.paths(&path).collect();
    paths.extend(namespaces.other.paths(&at_namespaces));
    paths.extend(namespaces.selector.iter().flat_map(|one| one.other.paths(&selector)));
    let requirements = namespaces.selector.iter().flat_map(|one| one.match_expressions.iter().enumerate());
    for (index, requirement) in requirements {
        paths.extend(requirement.other.paths(&format!("{selector}.matchExpressions[{index}]")));
    }
    match &namespaces.from {
        NamespacesFrom::Other(from) => paths.push(format!("{at_namespaces}.from {from}")),
        NamespacesFrom::Selector if namespaces.selector.is_none() => paths.push(format!("{selector}: none")),
        _ => {}
    }
    paths
}
