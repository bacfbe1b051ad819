//! The listeners that a route attaches to.

use std::collections::HashMap;

use portcullis_gateway_api::{GATEWAY_API_GROUP, ParentReference};

use super::{JudgedRoute, SharedHosts};
use crate::condition::Rejection;
use crate::gateway::JudgedGateway;
use crate::host::HostPattern;
use crate::input::Inventory;
use crate::listener::{AllowingListeners, JudgedListener};

/// The listeners of one Gateway that a route's parent reference attaches to, each by its index with the shared host names.
pub(crate) type Attachment = Vec<(usize, Vec<HostPattern>)>;

/// The attachment of a route by one of its parent references, all by their indices.
pub(crate) struct ParentAttachment {
    pub(crate) route: usize,
    pub(crate) parent: usize,
    pub(crate) gateway: usize,
    pub(crate) listeners: Result<Attachment, Rejection>,
}

/// The Gateways to which parent references lead.
pub(crate) struct ParentGateways<'a, 'b> {
    /// By namespace and name, with their indices.
    by_name: HashMap<(&'a str, &'a str), (usize, &'a JudgedGateway<'b>)>,
    allowing: AllowingListeners<'a>,
    inventory: &'a Inventory,
}

impl<'a, 'b> ParentGateways<'a, 'b> {
    pub(crate) fn of(gateways: &'a [JudgedGateway<'b>], inventory: &'a Inventory) -> Self {
        let key = |gateway: &'a JudgedGateway<'b>| (gateway.name.namespace.as_str(), gateway.name.name.as_str());
        let by_name = gateways.iter().enumerate().map(|(index, gateway)| (key(gateway), (index, gateway))).collect();
        Self { by_name, allowing: AllowingListeners::default(), inventory }
    }

    /// The listeners that one of a route's parent references means and that allow the route, by the index of their Gateway and their own,
    /// if the Gateway is of these.
    pub(crate) fn allowed(
        &mut self,
        route: &JudgedRoute<'a>,
        parent: &ParentReference,
    ) -> Option<(usize, Result<Vec<usize>, Rejection>)> {
        let (index, gateway) = self.meant(parent, &route.name.namespace)?;
        Some((index, self.allowed_at(gateway, route, parent)))
    }

    /// Those of them that share a host name with the route.
    pub(crate) fn attached(
        &mut self,
        route: &JudgedRoute<'a>,
        parent: &ParentReference,
    ) -> Option<(usize, Result<Vec<usize>, Rejection>)> {
        let (index, gateway) = self.meant(parent, &route.name.namespace)?;
        let allowed = self.allowed_at(gateway, route, parent);
        Some((index, allowed.and_then(|allowed| attached_listeners(route, gateway, allowed))))
    }

    /// The Gateway that a parent reference of a route in `namespace` means.
    fn meant(&self, parent: &ParentReference, namespace: &str) -> Option<(usize, &'a JudgedGateway<'b>)> {
        let is_gateway = parent.group == GATEWAY_API_GROUP && parent.kind == "Gateway";
        let key = (parent.namespace.as_deref().unwrap_or(namespace), parent.name.as_str());
        is_gateway.then(|| self.by_name.get(&key).copied())?
    }

    fn allowed_at(
        &mut self,
        gateway: &'a JudgedGateway<'b>,
        route: &JudgedRoute<'a>,
        parent: &ParentReference,
    ) -> Result<Vec<usize>, Rejection> {
        let allowing = self.allowing.at(&gateway.name, &gateway.listeners, &route.metadata.namespace, self.inventory);
        allowed_listeners(route, parent, gateway, allowing)
    }
}

/// `allowing`: for each listener whether it allows routes of the namespace.
fn allowed_listeners(
    route: &JudgedRoute<'_>,
    parent: &ParentReference,
    gateway: &JudgedGateway<'_>,
    allowing: &[bool],
) -> Result<Vec<usize>, Rejection> {
    let is_meant = |listener: &JudgedListener<'_>| means(parent, &listener.spec.name, listener.spec.port);
    let mut meant = gateway.listeners.iter().enumerate().filter(|(_, listener)| is_meant(listener)).peekable();
    if meant.peek().is_none() {
        return Err(Rejection::new("NoMatchingParent", "the Gateway has no listener of this name and port"));
    }
    let allows = |(index, listener): &(usize, &JudgedListener<'_>)| {
        listener.kinds.contains(&route.kind) && allowing.get(*index).copied().unwrap_or_default()
    };
    let allowed: Vec<usize> = meant.filter(allows).map(|(index, _)| index).collect();
    if allowed.is_empty() {
        let message = format!("no listener allows {} from namespace {}", route.kind, route.name.namespace);
        return Err(Rejection::new("NotAllowedByListeners", message));
    }
    Ok(allowed)
}

/// Those of `allowed` that share a host name with the route.
fn attached_listeners(
    route: &JudgedRoute<'_>,
    gateway: &JudgedGateway<'_>,
    allowed: Vec<usize>,
) -> Result<Vec<usize>, Rejection> {
    let shared = SharedHosts::of(route);
    let judged = |index: usize| gateway.listeners.get(index);
    let is_shared = |index: &usize| judged(*index).is_some_and(|listener| shared.has_any(&listener.host));
    let attached: Vec<usize> = allowed.into_iter().filter(is_shared).collect();
    if attached.is_empty() {
        return Err(Rejection::new("NoMatchingListenerHostname", "no listener has a host name of the route"));
    }
    // Names are owned, and nothing can own all of them. Of plain HTTP no name leads on.
    let mut others = attached.iter().filter_map(|index| judged(*index)).filter(|one| !one.is_plain()).peekable();
    if others.peek().is_some() && others.all(|listener| shared.has_all(&listener.host)) {
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
