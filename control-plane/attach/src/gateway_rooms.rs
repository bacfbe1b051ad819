//! The room that routes have at each Gateway, and at all of them together. Namespaces share both.

use std::collections::{BTreeMap, BTreeSet};

use crate::shared_room::{SharedRoom, sort_by_places};

/// A route at a Gateway, by their indices.
pub(crate) type RouteAtGateway = (usize, usize);

/// The room that a route wants at a Gateway.
pub(crate) struct WantedRoom<'a> {
    pub(crate) at: RouteAtGateway,
    /// The namespace of the route.
    pub(crate) namespace: &'a str,
    pub(crate) size: usize,
}

/// The sizes of the rooms.
#[derive(Clone, Copy)]
pub(crate) struct RoomBounds {
    /// The most of the routes of one namespace at one Gateway.
    pub(crate) of_namespace_at_gateway: usize,
    /// The most of one namespace.
    pub(crate) of_namespace: usize,
    /// The most at one Gateway.
    pub(crate) at_gateway: usize,
    /// The most of all routes.
    pub(crate) in_all: usize,
}

/// Routes at Gateways for which there is no room.
#[derive(Default)]
pub(crate) struct WithoutRoom {
    /// At the Gateway itself.
    pub(crate) at_gateways: BTreeSet<RouteAtGateway>,
    /// In the room of all Gateways.
    pub(crate) in_all: BTreeSet<RouteAtGateway>,
}

impl RoomBounds {
    /// Those for which there is no room, of routes in the order of their creation.
    ///
    /// In the room of all Gateways a route is refused at those for which there is none: it is there for what the author of a Gateway
    /// multiplies.
    pub(crate) fn refused(self, mut wanted: Vec<WantedRoom<'_>>) -> WithoutRoom {
        let mut rooms: BTreeMap<usize, SharedRoom<'_, RouteAtGateway>> = BTreeMap::new();
        for one in &wanted {
            let room = || SharedRoom::new(self.at_gateway, self.of_namespace_at_gateway);
            rooms.entry(one.at.1).or_insert_with(room).want(one.at, one.namespace, one.size);
        }
        let at_gateways: BTreeSet<RouteAtGateway> = rooms.into_values().flat_map(SharedRoom::refused).collect();
        wanted.retain(|one| !at_gateways.contains(&one.at));
        sort_by_places(&mut wanted, |one| (one.at.1, one.namespace, one.size));
        let mut in_all = SharedRoom::new(self.in_all, self.of_namespace);
        wanted.iter().for_each(|one| in_all.want(one.at, one.namespace, one.size));
        WithoutRoom { at_gateways, in_all: in_all.refused() }
    }

    /// The bounds of one Gateway in words.
    pub(crate) fn words_at_gateway(self) -> String {
        let Self { of_namespace_at_gateway, at_gateway, .. } = self;
        format!("{of_namespace_at_gateway} of the routes of one namespace at one Gateway, or {at_gateway} of all")
    }

    /// Those of all Gateways.
    pub(crate) fn words_in_all(self) -> String {
        let Self { of_namespace, in_all, .. } = self;
        format!("{of_namespace} of the routes of one namespace, or {in_all} of all")
    }
}
