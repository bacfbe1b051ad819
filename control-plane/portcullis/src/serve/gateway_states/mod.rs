//! For one object, each gateway's acknowledgement and its reports of endpoint health: the input of the conditions, together
//! with the object's diagnosis.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::status::{Gateway, GatewayProgress, Health};
use portcullis_filter_config::{Pool, TCP_POOL, without_generation};
use portcullis_translate::type_urls;
use portcullis_xds::{AckState, HealthReport, NodeStatus, OpenStreams, Refused, Registry, Snapshot};

use super::endpoint_reports::{EndpointHealth, HealthByNode};
use super::instance_views::is_lasting_view;

#[cfg(test)]
mod tests;

/// The gateways' states, as of one moment.
pub(super) struct GatewayStates<'a> {
    streams: OpenStreams,
    snapshot: Option<&'a Snapshot>,
    endpoints: &'a EndpointHealth,
    /// The nodes that are connected here.
    connected: Vec<&'a NodeStatus>,
    /// The newest reports of agents, by node.
    reports: &'a BTreeMap<String, Arc<HealthReport>>,
    /// Gateways that keep their last configuration, and the reason.
    frozen: &'a BTreeMap<String, String>,
    /// Those that are not connected here and have answered another replica, or are frozen.
    elsewhere: BTreeSet<&'a str>,
}

impl<'a> GatewayStates<'a> {
    pub(super) fn new(
        (registry, nodes): (&'a Registry, &'a [NodeStatus]),
        frozen: &'a BTreeMap<String, String>,
        reports: &'a BTreeMap<String, Arc<HealthReport>>,
        (snapshot, endpoints): (Option<&'a Snapshot>, &'a EndpointHealth),
    ) -> Self {
        let connected: Vec<&NodeStatus> = nodes.iter().filter(|node| node.connected).collect();
        let answering = reports.iter().filter(|(_, report)| !report.answers.is_empty()).map(|(node, _)| node);
        let mut elsewhere: BTreeSet<&str> = answering.chain(frozen.keys()).map(String::as_str).collect();
        elsewhere.retain(|name| connected.binary_search_by(|node| node.id.as_str().cmp(name)).is_err());
        Self { streams: registry.streams(), snapshot, endpoints, connected, reports, frozen, elsewhere }
    }

    /// Every gateway that is connected or reports, and what it makes of an `UpstreamCluster`. `content_hash` is that of
    /// what is served of it.
    pub(super) fn gateways(&self, owner: &str, content_hash: &str) -> Vec<Gateway<'_>> {
        let Some(snapshot) = self.snapshot else { return Vec::new() };
        let mut progresses = self.streams.progress(snapshot, owner);
        let health = self.health(snapshot, owner);
        let mut gateways: Vec<Gateway<'_>> = Vec::new();
        for node in &self.connected {
            // A node with two streams occurs twice, and its progress is that of both.
            let Some(progress) = progresses.remove(&node.id) else { continue };
            gateways.push(health.gateway(&node.id, self::progress(progress, node)));
        }
        let mut elsewhere: BTreeSet<&str> = BTreeSet::new();
        if !self.elsewhere.is_empty() {
            let is_free = is_free(snapshot, owner);
            let may_have = |name: &&str| self.may_have(name, (snapshot, owner), is_free);
            elsewhere.extend(self.elsewhere.iter().copied().filter(may_have));
        }
        let reporting = health.all.into_iter().flat_map(|all| all.keys()).map(String::as_str);
        elsewhere.extend(reporting.filter(|name| !self.is_here(name)));
        let key = (owner.to_owned(), content_hash.to_owned());
        gateways.extend(elsewhere.into_iter().map(|name| health.gateway(name, self.elsewhere(name, &key))));
        gateways
    }

    /// Whether a node is connected to this replica. They are sorted by name.
    fn is_here(&self, name: &str) -> bool {
        self.connected.binary_search_by(|node| node.id.as_str().cmp(name)).is_ok()
    }

    /// Whether a gateway that follows another replica may have an object: it may report about a view with it. One that may report about
    /// all, or of which that is not known, is taken for one of no instance.
    fn may_have(&self, node: &str, (snapshot, owner): (&Snapshot, &str), is_free: bool) -> bool {
        let has = |view| snapshot.view(view).is_some_and(|view| owns(view, owner));
        match self.reports.get(node).map(|report| &report.views) {
            Some(Some(views)) => views.iter().any(|view| if view.0.is_none() { is_free } else { has(view) }),
            Some(None) | None => is_free,
        }
    }

    /// The state of a gateway that follows another replica, from the reports of its agent.
    fn elsewhere(&self, node: &str, version: &(String, String)) -> GatewayProgress {
        let answers = self.reports.get(node).map(|report| &report.answers).filter(|answers| !answers.is_empty());
        let Some(answers) = answers else {
            let frozen = self.frozen.get(node).cloned();
            return frozen.map_or(GatewayProgress::Elsewhere, |message| GatewayProgress::Refused { message });
        };
        match answers.get(version) {
            Some(AckState::Acknowledged) => GatewayProgress::Acknowledged,
            Some(AckState::Refused) => refused_elsewhere(),
            None => GatewayProgress::Pending,
        }
    }

    /// The health of an object's groups of servers. Gateways report by the names of their statistics, which are the same for
    /// all generations of an object.
    fn health(&self, snapshot: &Snapshot, owner: &str) -> GroupHealth<'_> {
        let clusters = type_urls::cluster();
        let pools_of = |view: &Snapshot| -> BTreeSet<String> {
            let is_wanted = |(url, name): &(&str, &str)| {
                *url == clusters && view.get(url, name).is_some_and(|resource| !resource.lingers())
            };
            view.owned_by(owner).filter(is_wanted).map(|(_, name)| without_generation(name).to_owned()).collect()
        };
        // All views of an object have the same pools.
        let mut pools = pools_of(snapshot);
        if pools.is_empty() {
            let of_instances = snapshot.views().filter(|(name, _)| is_lasting_view(name));
            pools = of_instances.map(|(_, view)| pools_of(view)).find(|pools| !pools.is_empty()).unwrap_or_default();
        }
        let mut health = GroupHealth::default();
        for pool in &pools {
            let group = [Pool::Http2.as_str(), TCP_POOL].iter().find_map(|suffix| pool.strip_suffix(suffix));
            let Some(group) = group else { continue };
            let Some(reports) = self.endpoints.get(pool.as_str()).map(|nodes| &**nodes) else { continue };
            if group.ends_with("/all.") {
                health.all = Some(reports);
            } else {
                health.others.push(reports);
            }
        }
        health
    }
}

/// How gateways find the groups of servers of one object, by node.
#[derive(Debug, Default)]
struct GroupHealth<'a> {
    /// The endpoints that every request may go to.
    all: Option<&'a HealthByNode>,
    /// Those of policies with a subset or a strategy of their own.
    others: Vec<&'a HealthByNode>,
}

impl GroupHealth<'_> {
    fn gateway<'n>(&self, name: &'n str, progress: GatewayProgress) -> Gateway<'n> {
        let is_lost = |health: &&Health| health.healthy == 0;
        let lost = self.others.iter().filter_map(|reports| reports.get(name)).filter(is_lost);
        let health = self.all.and_then(|reports| reports.get(name)).cloned();
        Gateway { name, progress, health, lost_subsets: lost.cloned().collect() }
    }
}

/// A refusal at another replica, which alone knows the message.
pub(super) fn refused_elsewhere() -> GatewayProgress {
    GatewayProgress::Refused { message: "the replica that it follows shows why at /status".to_owned() }
}

/// Whether an object is for gateways that belong to no instance. One that is not served at all is.
fn is_free(snapshot: &Snapshot, owner: &str) -> bool {
    owns(snapshot, owner) || !snapshot.views().any(|(name, view)| is_lasting_view(name) && owns(view, owner))
}

fn owns(view: &Snapshot, owner: &str) -> bool {
    view.owned_by(owner).next().is_some()
}

/// The first resource of all objects that a node refuses.
pub(super) fn shared_refusal(node: &NodeStatus) -> Option<&Refused> {
    node.refused.iter().find(|refused| refused.owner.is_none() && !refused.is_optional)
}

/// The state of a node. An object that is pending because the node refuses the shared listener would wait in vain: it counts as
/// refused.
fn progress(progress: GatewayProgress, node: &NodeStatus) -> GatewayProgress {
    match shared_refusal(node).filter(|_| progress == GatewayProgress::Pending) {
        Some(refused) => GatewayProgress::Refused { message: format!("{}: {}", refused.name, refused.message) },
        None => progress,
    }
}
