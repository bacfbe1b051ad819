//! The order of new claims to host names: a name that a route let go of passes on within its namespace, as far as another route there
//! claims it.

use std::collections::HashMap;

use crate::claim_rights::{ClaimRights, Site};
use crate::holders::HolderNamespaces;
use crate::host::HostPattern;
use crate::host_index::HostIndex;
use crate::name::ObjectName;
use crate::past::PastHolders;

/// The turn of a new claim. The first of these is the first to be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClaimTurn {
    /// A route of the claim's namespace held the name. A wildcard above it that is another namespace's had no request of it, and gets
    /// none.
    Inherited,
    /// A route of the claim's namespace held the narrowest wildcard above the name. A wider one that is another namespace's had no request
    /// of it either, and gets none.
    InheritedBelow,
    /// Neither.
    Free,
    /// A route of another namespace held the name or the narrowest wildcard above it, and one of that namespace claims a wildcard above
    /// the name now: it goes on to have the clients.
    Covered,
}

/// A claim to a host name by a route, by its index, which did not hold it.
pub(crate) struct NewClaim {
    pub(crate) turn: ClaimTurn,
    pub(crate) route: usize,
    pub(crate) site: Site,
}

/// Claims by their turns; those of one turn in the order that they have, which is that of age.
pub(crate) fn in_turn(claims: Vec<(usize, Site)>, rights: ClaimRights<'_, '_>) -> Vec<NewClaim> {
    let claims = turns(&claims, rights).into_iter().zip(claims);
    let mut claims: Vec<NewClaim> = claims.map(|(turn, (route, site))| NewClaim { turn, route, site }).collect();
    claims.sort_by_key(|claim| claim.turn);
    claims
}

fn turns(claims: &[(usize, Site)], rights: ClaimRights<'_, '_>) -> Vec<ClaimTurn> {
    // It takes time by all names that are held.
    let last = if claims.is_empty() { LastHolders::default() } else { LastHolders::of(rights.past) };
    let namespace = |route: usize| rights.routes.get(route).map(|route| route.name.namespace.as_str());
    let mut wildcards: HashMap<(&str, usize, usize), Vec<&HostPattern>> = HashMap::new();
    for (route, (gateway, listener, host)) in claims {
        if let (HostPattern::Wildcard(_), Some(namespace)) = (host, namespace(*route)) {
            wildcards.entry((namespace, *gateway, *listener)).or_default().push(host);
        }
    }
    let wildcards: HashMap<_, HostIndex<&HostPattern>> =
        wildcards.into_iter().map(|(at, hosts)| (at, HostIndex::of(hosts))).collect();
    let turn = |route: usize, (gateway, listener, host): &Site| {
        let judged = rights.gateways.get(*gateway)?;
        let (holder, is_same) = last.holder(&judged.name, judged.leading_port(*listener)?, host)?;
        if Some(holder) == namespace(route) {
            return Some(if is_same { ClaimTurn::Inherited } else { ClaimTurn::InheritedBelow });
        }
        let above = wildcards.get(&(holder, *gateway, *listener)).and_then(|wildcards| wildcards.narrowest_above(host));
        above.map(|_| ClaimTurn::Covered)
    };
    claims.iter().map(|(route, site)| turn(*route, site).unwrap_or(ClaimTurn::Free)).collect()
}

/// The namespaces of the routes that held names until this settlement: by lists, which go before, and by the settlement before.
#[derive(Default)]
struct LastHolders<'a> {
    namespaces: [HolderNamespaces<'a>; 2],
    /// The wildcards of both, by Gateway and port.
    wildcards: HashMap<(&'a ObjectName, u16), HostIndex<&'a HostPattern>>,
}

impl<'a> LastHolders<'a> {
    fn of(past: PastHolders<'a>) -> Self {
        let namespaces = past.namespaces();
        let mut wildcards: HashMap<(&ObjectName, u16), Vec<&HostPattern>> = HashMap::new();
        for (gateway, ports) in namespaces.iter().flatten() {
            for (port, names) in ports {
                // `Any` is no name: it is there for all that a route claims, and not for those that it has let go.
                let of_port = names.keys().copied().filter(|host| matches!(host, HostPattern::Wildcard(_)));
                wildcards.entry((*gateway, *port)).or_default().extend(of_port);
            }
        }
        let wildcards = wildcards.into_iter().map(|(at, hosts)| (at, HostIndex::of(hosts))).collect();
        Self { namespaces, wildcards }
    }

    /// That of a name, or of the narrowest wildcard above it; and whether it is that of the name itself.
    fn holder(&self, gateway: &ObjectName, port: u16, host: &HostPattern) -> Option<(&'a str, bool)> {
        let at_port = || self.namespaces.iter().filter_map(|all| all.get(gateway)?.get(&port));
        let holder = |host: &HostPattern| at_port().find_map(|names| names.get(host).copied());
        if let Some(own) = holder(host) {
            return Some((own, true));
        }
        let above = self.wildcards.get(&(gateway, port))?.narrowest_above(host)?;
        Some((holder(above)?, false))
    }
}
