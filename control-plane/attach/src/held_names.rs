//! The host names that a route claims and has held, found by its past: they are bounded, and what it claims at all its Gateways is not.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::claims::ListenerHosts;
use crate::host::HostPattern;
use crate::past::{PastHolders, PastNames};
use crate::route::{JudgedRoute, ParentGateways, SharedHosts};

/// A host name that a route has held: the indices of the parent reference, of its Gateway and of the listener that has the name, and the
/// name. They are in the order in which they are charged.
pub(crate) type ListedName<'a> = (usize, usize, usize, &'a HostPattern);

/// Listeners by their host names, each with the index of the first parent reference that leads there.
type FirstListeners<'a> = HashMap<&'a HostPattern, (usize, usize)>;

/// Those of a route. A name is held once at a port, by the listener that has it: at the wider ones, which an author of a Gateway adds at
/// will, it is a copy, and so it is where a later parent reference leads to the same listener.
pub(crate) fn held_names<'r, 'g: 'r>(
    route: &'r JudgedRoute<'g>,
    parents: &mut ParentGateways<'g, '_>,
    gateways: &[ListenerHosts<'g, '_>],
    past: PastHolders<'r>,
) -> BTreeSet<ListedName<'r>> {
    let mut held = BTreeSet::new();
    if !past.has_any(route) {
        return held;
    }
    let shared = SharedHosts::of(route);
    for (gateway, ports) in first_listeners(route, parents, gateways) {
        let Some(hosts) = gateways.get(gateway) else { continue };
        let past = past.claims(route, hosts.gateway);
        for (port, listeners) in ports {
            let names: Vec<&HostPattern> = match past.names(port) {
                PastNames::These(names) => names,
                PastNames::All => shared.of_route().chain(listeners.keys().copied()).collect(),
            };
            // Nothing can own all names.
            for host in names.into_iter().filter(|host| **host != HostPattern::Any) {
                let Some(listener) = hosts.narrowest(port, host) else { continue };
                if let Some((parent, index)) = listeners.get(listener).filter(|_| shared.has(listener, host)) {
                    held.insert((*parent, gateway, *index, host));
                }
            }
        }
    }
    held
}

/// The listeners that lead on and that a route may attach to, by Gateway and port.
fn first_listeners<'g>(
    route: &JudgedRoute<'g>,
    parents: &mut ParentGateways<'g, '_>,
    gateways: &[ListenerHosts<'g, '_>],
) -> BTreeMap<usize, BTreeMap<u16, FirstListeners<'g>>> {
    let mut first: BTreeMap<usize, BTreeMap<u16, FirstListeners<'_>>> = BTreeMap::new();
    for (at, parent) in route.parents.iter().enumerate() {
        let Some((index, Ok(allowed))) = parents.allowed(route, parent) else { continue };
        let Some(gateway) = gateways.get(index).map(|hosts| hosts.gateway) else { continue };
        for listener in allowed {
            let (Some(port), Some(judged)) = (gateway.leading_port(listener), gateway.listeners.get(listener)) else {
                continue;
            };
            let listeners = first.entry(index).or_default().entry(port).or_default();
            listeners.entry(&judged.host).or_insert((at, listener));
        }
    }
    first
}
