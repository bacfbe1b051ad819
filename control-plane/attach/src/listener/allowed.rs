//! The routes that may attach to a listener.

use std::collections::{BTreeMap, HashMap};

use portcullis_api::{MAX_SELECTOR_TERMS, MAX_SELECTOR_VALUES};
use portcullis_gateway_api::{GATEWAY_API_GROUP, LabelSelector, Listener, NAMESPACE_NAME_LABEL, NamespacesFrom};

use super::{JudgedListener, ListenerProtocol};
use crate::condition::Rejection;
use crate::input::Inventory;
use crate::name::{ObjectName, RouteKind};

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

/// The listeners of Gateways that allow routes of a namespace. Each selector is compared once with a namespace, however many routes that
/// has.
#[derive(Default)]
pub(crate) struct AllowingListeners<'a>(HashMap<(&'a ObjectName, &'a str), Vec<bool>>);

impl<'a> AllowingListeners<'a> {
    /// For each of a Gateway's listeners whether it allows routes of this namespace.
    pub(crate) fn at(
        &mut self,
        gateway: &'a ObjectName,
        listeners: &[JudgedListener<'_>],
        namespace: &'a str,
        inventory: &Inventory,
    ) -> &[bool] {
        self.0.entry((gateway, namespace)).or_insert_with(|| {
            let allows =
                |one: &JudgedListener<'_>| allows_namespace(one.spec, &gateway.namespace, namespace, inventory);
            listeners.iter().map(allows).collect()
        })
    }
}

/// Whether routes of a namespace may attach to a listener of a Gateway in namespace `own`.
fn allows_namespace(spec: &Listener, own: &str, namespace: &str, inventory: &Inventory) -> bool {
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

/// A namespace whose labels are not known is selected by its name alone, which each has as a label. A selector beyond the bounds, with
/// which its listener is refused, is not compared with any.
fn selects(selector: &LabelSelector, namespace: &str, inventory: &Inventory) -> bool {
    #[cfg(test)]
    crate::tests::steps::count(crate::tests::steps::Step::Selector);
    if excess(selector).is_some() {
        return false;
    }
    match inventory.namespaces.get(namespace) {
        Some(labels) => selector.selects(labels),
        None => {
            let name = BTreeMap::from([(NAMESPACE_NAME_LABEL.to_owned(), namespace.to_owned())]);
            inventory.has_unseen_namespaces() && selector.is_about(NAMESPACE_NAME_LABEL) && selector.selects(&name)
        }
    }
}

/// The part of a selector of which there is too much, and how much.
fn excess(selector: &LabelSelector) -> Option<String> {
    let terms = selector.match_labels.len().saturating_add(selector.match_expressions.len());
    if terms > MAX_SELECTOR_TERMS {
        return Some(format!(" with {terms} requirements, more than {MAX_SELECTOR_TERMS},"));
    }
    let mut values = selector.match_expressions.iter().map(|one| one.values.len()).enumerate();
    let (index, values) = values.find(|(_, values)| *values > MAX_SELECTOR_VALUES)?;
    Some(format!(".matchExpressions[{index}].values with {values} entries, more than {MAX_SELECTOR_VALUES},"))
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
    paths.extend(namespaces.selector.iter().filter_map(excess).map(|excess| format!("{selector}{excess}")));
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
