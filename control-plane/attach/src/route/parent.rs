//! The listeners that a route attaches to.

use portcullis_gateway_api::{GATEWAY_API_GROUP, ParentReference};

use super::JudgedRoute;
use crate::condition::Rejection;
use crate::gateway::JudgedGateway;
use crate::host::HostPattern;
use crate::input::Inventory;
use crate::listener::{JudgedListener, ListenerProtocol, allows_namespace};

/// The listeners of one Gateway that a route's parent reference attaches to, each by its index with the shared host names.
pub(crate) type Attachment = Vec<(usize, Vec<HostPattern>)>;

/// Whether a parent reference of a route in `namespace` means a Gateway.
fn means(parent: &ParentReference, namespace: &str, gateway: &JudgedGateway<'_>) -> bool {
    parent.group == GATEWAY_API_GROUP
        && parent.kind == "Gateway"
        && parent.name == gateway.name.name
        && parent.namespace.as_deref().unwrap_or(namespace) == gateway.name.namespace
}

/// Attaches a route to the Gateway that one of its parent references means, if it is of these. The Gateway comes by its index.
pub(crate) fn attach_parent(
    route: &JudgedRoute<'_>,
    parent: &ParentReference,
    gateways: &[JudgedGateway<'_>],
    inventory: &Inventory,
) -> Option<(usize, Result<Attachment, Rejection>)> {
    let found = gateways.iter().enumerate().find(|(_, gateway)| means(parent, &route.name.namespace, gateway));
    found.map(|(index, gateway)| (index, attachment(route, parent, gateway, inventory)))
}

fn attachment(
    route: &JudgedRoute<'_>,
    parent: &ParentReference,
    gateway: &JudgedGateway<'_>,
    inventory: &Inventory,
) -> Result<Attachment, Rejection> {
    let is_meant = |listener: &JudgedListener<'_>| {
        let section = parent.section_name.as_deref().filter(|name| !name.is_empty());
        section.is_none_or(|name| name == listener.spec.name)
            && parent.port.is_none_or(|port| port == listener.spec.port)
    };
    let meant: Vec<_> = gateway.listeners.iter().enumerate().filter(|(_, listener)| is_meant(listener)).collect();
    if meant.is_empty() {
        return Err(Rejection::new("NoMatchingParent", "the Gateway has no listener of this name and port"));
    }
    let namespace = &route.name.namespace;
    let allows = |listener: &JudgedListener<'_>| {
        listener.kinds.contains(&route.kind)
            && allows_namespace(listener.spec, &gateway.name.namespace, namespace, inventory)
    };
    let allowing: Vec<_> = meant.into_iter().filter(|(_, listener)| allows(listener)).collect();
    if allowing.is_empty() {
        let message = format!("no listener allows {} from namespace {namespace}", route.kind);
        return Err(Rejection::new("NotAllowedByListeners", message));
    }
    let shared = |(index, listener): (usize, &JudgedListener<'_>)| {
        let hosts = shared_hosts(&listener.host, route.hosts.as_deref());
        (!hosts.is_empty()).then_some((index, hosts))
    };
    let mut attached: Attachment = allowing.iter().copied().filter_map(shared).collect();
    if attached.is_empty() {
        return Err(Rejection::new("NoMatchingListenerHostname", "no listener has a host name of the route"));
    }
    let is_plain = |index: usize| {
        let listener = gateway.listeners.get(index);
        listener.is_none_or(|listener| listener.protocol == Some(ListenerProtocol::Http))
    };
    if attached.iter().all(|(index, _)| is_plain(*index)) {
        let message = "plain HTTP never leads to a kube-apiserver: attach the route to an HTTPS listener";
        return Err(Rejection::new("UnsupportedValue", message));
    }
    // Names are owned, and nothing can own all of them.
    attached.retain(|(index, hosts)| is_plain(*index) || !hosts.contains(&HostPattern::Any));
    if attached.iter().all(|(index, _)| is_plain(*index)) {
        let message = "spec.hostnames: a host name is required, of the route or of its listener";
        return Err(Rejection::new("UnsupportedValue", message));
    }
    Ok(attached)
}

/// The host names of both; without any of its own a route has the listener's.
fn shared_hosts(listener: &HostPattern, route: Option<&[HostPattern]>) -> Vec<HostPattern> {
    let Some(route) = route else { return vec![listener.clone()] };
    let mut shared: Vec<HostPattern> = route.iter().filter_map(|host| host.intersection(listener)).collect();
    shared.sort();
    shared.dedup();
    shared
}
