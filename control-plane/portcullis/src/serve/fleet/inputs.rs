use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use portcullis_api::CLUSTER_KIND;
use portcullis_api::status::UnhealthyServer;

use super::activity::GatewayActivity;
use super::fleet_time::FleetTime;
use super::served_objects::{ServedObject, ServedObjects};
use super::view::GatewaySummary;
use crate::serve::endpoint_reports::HealthByNode;
use crate::serve::object_status::ObjectStatus;
use crate::serve::status::StatusBody;

/// The inputs of the views, as of one moment.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) status: &'a StatusBody,
    pub(super) served: &'a ServedObjects,
    pub(super) activity: &'a GatewayActivity,
    pub(super) now: FleetTime,
}

/// The part of a pool's name that holds all servers of a cluster.
const ALL_SERVERS: &str = "all.h2";

impl<'a> Inputs<'a> {
    /// The objects, one of each name: of those that share it, the one that is served.
    pub(super) fn objects(&self) -> BTreeMap<&'a str, &'a ObjectStatus> {
        let mut objects: BTreeMap<&str, &ObjectStatus> = BTreeMap::new();
        for object in self.status.objects.iter().map(AsRef::as_ref).filter(|one| one.diagnosis.kind == CLUSTER_KIND) {
            match objects.entry(&object.diagnosis.name) {
                Entry::Vacant(entry) => drop(entry.insert(object)),
                Entry::Occupied(mut entry) if object.diagnosis.accepted => drop(entry.insert(object)),
                Entry::Occupied(_) => {}
            }
        }
        objects
    }

    /// The parts of an object that is served.
    pub(super) fn served(&self, name: &str) -> Option<&'a ServedObject> {
        self.served.by_name.get(name).map(AsRef::as_ref)
    }

    /// The health of all servers of each cluster.
    pub(super) fn health(&self) -> BTreeMap<&'a str, &'a HealthByNode> {
        self.pools().filter(|(_, part, _)| *part == ALL_SERVERS).map(|(name, _, nodes)| (name, nodes)).collect()
    }

    /// The servers of a cluster that are not healthy in any of its pools, by node and server, since when each was first so:
    /// a policy's own pool has health checks of its own, and may notice before the pool of all servers does.
    pub(super) fn unhealthy(&self, name: &str) -> BTreeMap<(&'a str, &'a str), &'a UnhealthyServer> {
        let mut unhealthy: BTreeMap<(&str, &str), &UnhealthyServer> = BTreeMap::new();
        let nodes = self.pools().filter(|(owner, _, _)| *owner == name).flat_map(|(_, _, nodes)| nodes);
        for (node, one) in nodes.flat_map(|(node, health)| health.unhealthy.iter().map(move |one| (node, one))) {
            let first = unhealthy.entry((node, &one.server)).or_insert(one);
            if one.since < first.since {
                *first = one;
            }
        }
        unhealthy
    }

    /// The reports of each Envoy cluster, by the object's name and the part: their names are `<instance>/-/<name>/<part>`.
    fn pools(&self) -> impl Iterator<Item = (&'a str, &'a str, &'a HealthByNode)> {
        self.status.endpoints.iter().filter_map(|(pool, nodes)| {
            let (owner, part) = pool.rsplit_once('/')?;
            let (_, name) = owner.rsplit_once('/')?;
            Some((name, part, &**nodes))
        })
    }

    /// Every gateway, by node: those of this replica, and those that only report, because they follow another one. Without
    /// numbers.
    pub(super) fn gateways(&self) -> Vec<GatewaySummary> {
        let out_of_sync = self.out_of_sync();
        let gateway = |node: &str, connected: bool| GatewaySummary {
            node: node.to_owned(),
            connected,
            // One that follows another replica: no object shows that it refuses or waits.
            in_sync: !connected || !out_of_sync.contains(node),
            ..GatewaySummary::default()
        };
        let mut gateways: BTreeMap<&str, GatewaySummary> = BTreeMap::new();
        for node in self.status.nodes.iter() {
            // A node has two streams for a moment after a reconnect.
            let summary = gateways.entry(&node.id).or_insert_with(|| gateway(&node.id, false));
            summary.connected |= node.connected;
            summary.in_sync &= node.in_sync;
        }
        let reporting = self.activity.reporting(self.now).map(|(node, _, _)| node);
        let judging = self.status.endpoints.values().flat_map(|nodes| nodes.keys()).map(String::as_str);
        for node in judging.chain(reporting) {
            gateways.entry(node).or_insert_with(|| gateway(node, true)).connected = true;
        }
        for (node, gateway) in self.activity.gateways() {
            let Some(summary) = gateways.get_mut(node) else { continue };
            summary.reported_seconds_ago = gateway.reported().map(|reported| self.now.since(reported).as_secs());
            summary.uptime_seconds = gateway.uptime_seconds(self.now);
        }
        gateways.into_values().collect()
    }

    /// The gateways that refuse a part of an object, or have yet to take it.
    fn out_of_sync(&self) -> BTreeSet<&'a str> {
        let entries = self.status.objects.iter().flat_map(|object| &object.status.gateways);
        entries.filter(|one| one.state == "Pending" || one.state == "Refused").map(|one| one.name.as_str()).collect()
    }
}
