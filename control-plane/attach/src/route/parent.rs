//! The listeners that a route attaches to.

use std::collections::HashMap;

use portcullis_gateway_api::{GATEWAY_API_GROUP, ParentReference};

use super::JudgedRoute;
use crate::condition::Rejection;
use crate::gateway::JudgedGateway;
use crate::host::HostPattern;
use crate::input::Inventory;
use crate::listener::{AllowingListeners, JudgedListener};

/// The listeners of one Gateway that a route's parent reference attaches to, each by its index with the shared host names.
pub(crate) type Attachment = Vec<(usize, Vec<HostPattern>)>;

/// Gateways by namespace and name, with their indices.
pub(crate) struct GatewaysByName<'a, 'b>(HashMap<(&'a str, &'a str), (usize, &'a JudgedGateway<'b>)>);

impl<'a, 'b> GatewaysByName<'a, 'b> {
    pub(crate) fn of(gateways: &'a [JudgedGateway<'b>]) -> Self {
        let key = |gateway: &'a JudgedGateway<'b>| (gateway.name.namespace.as_str(), gateway.name.name.as_str());
        Self(gateways.iter().enumerate().map(|(index, gateway)| (key(gateway), (index, gateway))).collect())
    }

    /// The Gateway that a parent reference of a route in `namespace` means.
    fn meant(&self, parent: &ParentReference, namespace: &str) -> Option<(usize, &'a JudgedGateway<'b>)> {
        let is_gateway = parent.group == GATEWAY_API_GROUP && parent.kind == "Gateway";
        let key = (parent.namespace.as_deref().unwrap_or(namespace), parent.name.as_str());
        is_gateway.then(|| self.0.get(&key).copied())?
    }
}

/// Attaches a route to the Gateway that one of its parent references means, if it is of these. The Gateway comes by its index.
pub(crate) fn attach_parent<'a>(
    route: &JudgedRoute<'a>,
    parent: &ParentReference,
    gateways: &GatewaysByName<'a, '_>,
    (allowing, inventory): (&mut AllowingListeners<'a>, &Inventory),
) -> Option<(usize, Result<Attachment, Rejection>)> {
    let (index, gateway) = gateways.meant(parent, &route.name.namespace)?;
    let allowing = allowing.at(&gateway.name, &gateway.listeners, &route.metadata.namespace, inventory);
    Some((index, attachment(route, parent, gateway, allowing)))
}

/// `allowing`: for each listener whether it allows routes of the namespace.
fn attachment(
    route: &JudgedRoute<'_>,
    parent: &ParentReference,
    gateway: &JudgedGateway<'_>,
    allowing: &[bool],
) -> Result<Attachment, Rejection> {
    let is_meant = |listener: &JudgedListener<'_>| means(parent, &listener.spec.name, listener.spec.port);
    let meant: Vec<_> = gateway.listeners.iter().enumerate().filter(|(_, listener)| is_meant(listener)).collect();
    if meant.is_empty() {
        return Err(Rejection::new("NoMatchingParent", "the Gateway has no listener of this name and port"));
    }
    let allows = |(index, listener): &(usize, &JudgedListener<'_>)| {
        listener.kinds.contains(&route.kind) && allowing.get(*index).copied().unwrap_or_default()
    };
    let allowing: Vec<_> = meant.into_iter().filter(allows).collect();
    if allowing.is_empty() {
        let message = format!("no listener allows {} from namespace {}", route.kind, route.name.namespace);
        return Err(Rejection::new("NotAllowedByListeners", message));
    }
    let shared = |(index, listener): (usize, &JudgedListener<'_>)| {
        let hosts = shared_hosts(&listener.host, route.hosts.as_deref());
        (!hosts.is_empty()).then_some((index, hosts))
    };
    let attached: Attachment = allowing.iter().copied().filter_map(shared).collect();
    if attached.is_empty() {
        return Err(Rejection::new("NoMatchingListenerHostname", "no listener has a host name of the route"));
    }
    let is_plain = |index: usize| gateway.listeners.get(index).is_none_or(JudgedListener::is_plain);
    // Names are owned, and nothing can own all of them. Of plain HTTP no name leads on.
    let mut others = attached.iter().filter(|(index, _)| !is_plain(*index)).peekable();
    if others.peek().is_some() && others.all(|(_, hosts)| hosts.contains(&HostPattern::Any)) {
        let message = "spec.hostnames: a host name is required, of the route or of its listener";
        return Err(Rejection::new("UnsupportedValue", message));
    }
    Ok(attached)
}

/// Whether a parent reference means a listener of its Gateway, by name and port.
pub(crate) fn means(parent: &ParentReference, name: &str, port: u16) -> bool {
    let section = parent.section_name.as_deref().filter(|section| !section.is_empty());
    section.is_none_or(|section| section == name) && parent.port.is_none_or(|asked| asked == port)
}

/// The host names of both; without any of its own a route has the listener's.
fn shared_hosts(listener: &HostPattern, route: Option<&[HostPattern]>) -> Vec<HostPattern> {
    let Some(route) = route else { return vec![listener.clone()] };
    let mut shared: Vec<HostPattern> = route.iter().filter_map(|host| host.intersection(listener)).collect();
    shared.sort();
    shared.dedup();
    shared
}
