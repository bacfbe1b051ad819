//! Host names at Gateways that are there, but of no class of this controller for now: a `GatewayClass` that is deleted and made anew must
//! not leave all names of its Gateways to the oldest routes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use portcullis_gateway_api::GATEWAY_API_GROUP;

use crate::claims::ClaimRights;
use crate::holders::{FormerHolders, HeldName};
use crate::host::HostPattern;
use crate::input::GatewayObjects;
use crate::name::{ObjectName, RouteKind};
use crate::name_budget::{MAX_IN_ALL, MAX_OF_NAMESPACE};
use crate::route::JudgedRoute;

/// The holders of a judgement with those of before at such Gateways, as far as their routes go on to claim the names.
pub(crate) fn with_kept(
    mut holders: FormerHolders,
    objects: &GatewayObjects,
    rights: &ClaimRights<'_, '_>,
) -> FormerHolders {
    let judged: BTreeSet<&ObjectName> = rights.gateways.iter().map(|gateway| &gateway.name).collect();
    let names = objects.gateways.iter().map(|gateway| ObjectName::of(&gateway.metadata));
    let unclassed: BTreeSet<ObjectName> = names.filter(|name| !judged.contains(name)).collect();
    if unclassed.is_empty() {
        return holders;
    }
    let before = rights.past.at_gateways(|gateway| unclassed.contains(gateway));
    if before.iter().all(FormerHolders::is_empty) {
        return holders;
    }
    let routes: BTreeMap<(RouteKind, &ObjectName), &JudgedRoute<'_>> =
        rights.routes.iter().map(|route| ((route.kind, &route.name), route)).collect();
    let goes_on = |name: &HeldName<'_>| {
        let (kind, route) = name.route;
        routes.get(&(*kind, route)).is_some_and(|route| still_claims(route, name))
    };
    let mut room = Room::beside(&holders);
    for name in before.iter().flat_map(FormerHolders::each).filter(goes_on) {
        if !holders.has(&name) && room.take(&name.route.1.namespace) {
            holders.add_name(&name);
        }
    }
    holders
}

/// Whether a route goes on to claim a name that it held. The listeners of its Gateway are not judged.
fn still_claims(route: &JudgedRoute<'_>, name: &HeldName<'_>) -> bool {
    let (gateway, port, host) = name.place;
    let is_parent = route.parents.iter().any(|parent| {
        let namespace = parent.namespace.as_deref().unwrap_or(&route.name.namespace);
        (parent.group.as_str(), parent.kind.as_str()) == (GATEWAY_API_GROUP, "Gateway")
            && (namespace, parent.name.as_str()) == (gateway.namespace.as_str(), gateway.name.as_str())
            && parent.port.is_none_or(|asked| asked == port)
    });
    // `Any` is for all that a route claims: of an edit nobody would see what it has added.
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
