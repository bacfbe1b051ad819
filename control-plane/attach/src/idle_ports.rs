//! Host names at ports where nothing leads on for now, because their Gateway is of no class of this controller, or the listener that has
//! them of no protocol or mode that is served: a `GatewayClass` that is deleted and made anew, or a typing error in a listener, must not
//! leave them to the oldest routes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use portcullis_gateway_api::{GATEWAY_API_GROUP, Gateway};

use crate::claim_rights::ClaimRights;
use crate::claims::ListenerHosts;
use crate::gateway::JudgedGateway;
use crate::holders::{FormerHolders, HeldName};
use crate::host::HostPattern;
use crate::input::GatewayObjects;
use crate::name::{ObjectName, RouteKind};
use crate::name_budget::{MAX_IN_ALL, MAX_OF_NAMESPACE};
use crate::route::{JudgedRoute, means};

/// The host names of before at such ports, as far as their routes go on to claim them.
pub(crate) struct KeptNames<'a> {
    /// In the order in which they have room.
    names: Vec<HeldName<'a>>,
    by_gateway: BTreeMap<&'a ObjectName, Vec<KeptAt<'a>>>,
}

/// A port, a host name there, and its route by the index.
pub(crate) type KeptAt<'a> = (u16, &'a HostPattern, usize);

impl<'a> KeptNames<'a> {
    pub(crate) fn of(objects: &GatewayObjects, rights: &ClaimRights<'a, '_>) -> Self {
        let mut kept = Self { names: Vec::new(), by_gateway: BTreeMap::new() };
        let idle = idle_ports(objects, rights.gateways);
        let is_wanted =
            |gateway: &ObjectName, port: u16| idle.get(gateway).is_some_and(|ports| ports.names.contains_key(&port));
        let before = rights.past.at_ports(is_wanted);
        if before.iter().all(Vec::is_empty) {
            return kept;
        }
        let judged = idle.iter().filter_map(|(gateway, ports)| Some((gateway, JudgedPorts::of(ports.judged?))));
        let judged: BTreeMap<&ObjectName, JudgedPorts<'_, '_>> = judged.collect();
        let routes = rights.routes.iter().enumerate();
        let routes: BTreeMap<(RouteKind, &ObjectName), (usize, &JudgedRoute<'_>)> =
            routes.map(|(index, route)| ((route.kind, &route.name), (index, route))).collect();
        let keeper = |name: &HeldName<'_>| {
            let ((kind, route), (gateway, port, host)) = (name.route, name.place);
            let (index, route) = routes.get(&(*kind, route))?;
            let is_idle = judged.get(gateway).is_none_or(|ports| ports.is_idle(port, host));
            (is_idle && still_claims(route, name, idle.get(gateway)?)).then_some(*index)
        };
        let mut places = HashSet::new();
        for names in before {
            let mut names: Vec<(usize, HeldName<'a>)> =
                names.into_iter().filter_map(|name| Some((keeper(&name)?, name))).collect();
            // Of two routes the one that a judgement would take.
            names.sort_by_key(|(index, _)| *index);
            for (index, name) in names {
                let (gateway, port, host) = name.place;
                if places.insert(name.place) {
                    kept.by_gateway.entry(gateway).or_default().push((port, host, index));
                    kept.names.push(name);
                }
            }
        }
        kept
    }

    /// Those at a Gateway.
    pub(crate) fn at(&self, gateway: &ObjectName) -> &[KeptAt<'a>] {
        self.by_gateway.get(gateway).map(Vec::as_slice).unwrap_or_default()
    }

    /// The holders of a judgement with these, as far as there is room beside them.
    pub(crate) fn added_to(&self, mut holders: FormerHolders) -> FormerHolders {
        if self.names.is_empty() {
            return holders;
        }
        let mut room = Room::beside(&holders);
        for name in &self.names {
            if room.take(&name.route.1.namespace) {
                holders.add_name(name);
            }
        }
        holders
    }
}

/// The ports of a Gateway that have a listener which does not lead on.
struct IdlePorts<'a, 'b> {
    /// The names of all listeners at each of them.
    names: BTreeMap<u16, BTreeSet<&'a str>>,
    /// `None`: the Gateway is not judged.
    judged: Option<&'a JudgedGateway<'b>>,
}

/// The listeners of a Gateway at all of its ports.
struct JudgedPorts<'a, 'b> {
    hosts: ListenerHosts<'a, 'b>,
    /// The host names of those that lead on, by port.
    leading: BTreeSet<(u16, &'a HostPattern)>,
    /// Those of others.
    idle: BTreeMap<u16, BTreeSet<&'a HostPattern>>,
}

/// The Gateways that have such ports.
fn idle_ports<'a, 'b>(
    objects: &'a GatewayObjects,
    gateways: &'a [JudgedGateway<'b>],
) -> BTreeMap<ObjectName, IdlePorts<'a, 'b>> {
    let judged: BTreeMap<&ObjectName, &JudgedGateway<'b>> =
        gateways.iter().map(|gateway| (&gateway.name, gateway)).collect();
    let of_gateway = |gateway: &'a Gateway| {
        let name = ObjectName::of(&gateway.metadata);
        let ports = IdlePorts::of(gateway, judged.get(&name).copied());
        (!ports.names.is_empty()).then_some((name, ports))
    };
    objects.gateways.iter().filter_map(of_gateway).collect()
}

impl<'a, 'b> IdlePorts<'a, 'b> {
    fn of(gateway: &'a Gateway, judged: Option<&'a JudgedGateway<'b>>) -> Self {
        let leads_on = |index: usize| judged.is_some_and(|judged| judged.leading_port(index).is_some());
        let listeners = &gateway.spec.listeners;
        let idle = listeners.iter().enumerate().filter(|(index, _)| !leads_on(*index));
        let idle: BTreeSet<u16> = idle.map(|(_, listener)| listener.port).collect();
        let mut names: BTreeMap<u16, BTreeSet<&str>> = BTreeMap::new();
        for listener in listeners.iter().filter(|one| idle.contains(&one.port)) {
            names.entry(listener.port).or_default().insert(&listener.name);
        }
        Self { names, judged }
    }
}

impl<'a, 'b> JudgedPorts<'a, 'b> {
    fn of(gateway: &'a JudgedGateway<'b>) -> Self {
        let mut leading = BTreeSet::new();
        let mut idle: BTreeMap<u16, BTreeSet<&HostPattern>> = BTreeMap::new();
        for (index, listener) in gateway.listeners.iter().enumerate() {
            match gateway.leading_port(index) {
                Some(port) => drop(leading.insert((port, &listener.host))),
                None => drop(idle.entry(listener.spec.port).or_default().insert(&listener.host)),
            }
        }
        Self { hosts: ListenerHosts::of(gateway), leading, idle }
    }

    /// Whether no route can have a name at its port now, and not because the place is gone: a listener that is removed, or has other host
    /// names, lets go. The narrowest listener has a name, as in a judgement.
    fn is_idle(&self, port: u16, host: &HostPattern) -> bool {
        let is_led = self.hosts.narrowest(port, host).is_some_and(|own| self.leading.contains(&(port, own)));
        let mut others = self.idle.get(&port).into_iter().flatten();
        !is_led && others.any(|own| own.covers(host))
    }
}

/// Whether a route goes on to claim a name that it held, by a parent reference to a listener of the port.
fn still_claims(route: &JudgedRoute<'_>, name: &HeldName<'_>, ports: &IdlePorts<'_, '_>) -> bool {
    let (gateway, port, host) = name.place;
    let listeners = || ports.names.get(&port).into_iter().flatten();
    let is_parent = route.parents.iter().any(|parent| {
        let namespace = parent.namespace.as_deref().unwrap_or(&route.name.namespace);
        (parent.group.as_str(), parent.kind.as_str()) == (GATEWAY_API_GROUP, "Gateway")
            && (namespace, parent.name.as_str()) == (gateway.namespace.as_str(), gateway.name.as_str())
            && listeners().any(|listener| means(parent, listener, port))
    });
    // `Any` is for all that a route claims: additions of an edit would not be seen.
    let has_name = || route.hosts.as_ref().is_none_or(|hosts| hosts.iter().any(|own| own.covers(host)));
    route.metadata.uid.as_deref() == name.uid && is_parent && *host != HostPattern::Any && has_name()
}

/// The rest of the bounds that host names have at Gateways which are judged. The author of a Gateway changes its class at will.
struct Room {
    of_namespaces: HashMap<String, usize>,
    in_all: usize,
}

impl Room {
    fn beside(holders: &FormerHolders) -> Self {
        let mut room = Self { of_namespaces: HashMap::new(), in_all: 0 };
        for name in holders.each() {
            room.take(&name.route.1.namespace);
        }
        room
    }

    /// Takes the place of a name of a namespace's route; false if there is none.
    fn take(&mut self, namespace: &str) -> bool {
        if !self.of_namespaces.contains_key(namespace) {
            self.of_namespaces.insert(namespace.to_owned(), 0);
        }
        let Some(used) = self.of_namespaces.get_mut(namespace) else { return false };
        let has_place = *used < MAX_OF_NAMESPACE && self.in_all < MAX_IN_ALL;
        let taken = usize::from(has_place);
        *used = used.saturating_add(taken);
        self.in_all = self.in_all.saturating_add(taken);
        has_place
    }
}
