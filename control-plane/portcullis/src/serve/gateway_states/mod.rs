//! For one object, each gateway's acknowledgement and its reports of endpoint health: the input of the conditions, together
//! with the object's diagnosis.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Instant;

use portcullis_api::status::{Gateway, GatewayProgress, Health, Timestamp, UnhealthyServer};
use portcullis_filter_config::{Pool, TCP_POOL, without_generation};
use portcullis_translate::type_urls;
use portcullis_xds::{AckState, AckStates, Endpoints, HealthRegistry, NodeStatus, Refused, Registry, Snapshot, View};

use super::instance_views::is_lasting_view;

#[cfg(test)]
mod tests;

/// Endpoints by Envoy cluster, then by node.
pub(super) type EndpointHealth = BTreeMap<String, BTreeMap<String, Health>>;

/// The endpoint health that gateways reported lately about what is theirs in this snapshot: a former owner's last report ends with the
/// hand-over.
pub(super) fn reports(health: &HealthRegistry, snapshot: Option<&Snapshot>) -> EndpointHealth {
    let server = |one: portcullis_xds::UnhealthyServer| UnhealthyServer {
        server: one.server,
        reason: one.reason.as_str().to_owned(),
        since: Timestamp::from_seconds(one.since),
    };
    let health_of = |seen: Endpoints| Health {
        healthy: seen.healthy,
        total: seen.total,
        unhealthy: seen.unhealthy.into_iter().map(server).collect(),
    };
    let of_cluster = |(cluster, nodes): (String, BTreeMap<String, Endpoints>)| {
        (cluster, nodes.into_iter().map(|(node, seen)| (node, health_of(seen))).collect())
    };
    let own = snapshot.map(ReportedPools::of).unwrap_or_default();
    let counts = |views: Option<&[View]>, cluster: &str| own.may_report(views, cluster);
    health.all_of(Instant::now(), counts).into_iter().map(of_cluster).collect()
}

/// The pools about which gateways of each view may report.
#[derive(Default)]
struct ReportedPools<'a> {
    /// By view, without generations; empty as long as objects are not divided.
    by_view: BTreeMap<Option<&'a str>, HashSet<&'a str>>,
}

impl<'a> ReportedPools<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let clusters = type_urls::cluster();
        let pools = |view: &'a Snapshot| view.names(clusters).map(without_generation).collect();
        let of_instances = snapshot.views().filter(|(name, _)| is_lasting_view(name));
        let mut by_view: BTreeMap<_, _> = of_instances.map(|(name, view)| (Some(name), pools(view))).collect();
        if !by_view.is_empty() {
            by_view.insert(None, pools(snapshot));
        }
        Self { by_view }
    }

    fn may_report(&self, views: Option<&[View]>, pool: &str) -> bool {
        let Some(views) = views.filter(|_| !self.by_view.is_empty()) else { return true };
        let has = |view: &View| self.by_view.get(&view.0.as_deref()).is_some_and(|pools| pools.contains(pool));
        views.iter().any(has)
    }
}

/// The gateways' states, as of one moment.
pub(super) struct GatewayStates<'a> {
    registry: &'a Registry,
    nodes: Vec<NodeStatus>,
    snapshot: Option<Arc<Snapshot>>,
    reports: &'a EndpointHealth,
    /// The acknowledgements of gateways that follow another replica, by node.
    answers: BTreeMap<String, Arc<AckStates>>,
    /// Those that keep their last configuration, and the reason.
    frozen: BTreeMap<String, String>,
    /// The views about which each gateway may report whose agent does; `None` are all.
    reported: BTreeMap<String, Option<Vec<View>>>,
}

impl<'a> GatewayStates<'a> {
    pub(super) fn new(
        registry: &'a Registry,
        health: &HealthRegistry,
        snapshot: Option<Arc<Snapshot>>,
        reports: &'a EndpointHealth,
    ) -> Self {
        let now = Instant::now();
        let (answers, frozen, reported) = (health.answers(now), registry.frozen(now), health.views(now));
        Self { registry, nodes: registry.nodes(), snapshot, reports, answers, frozen, reported }
    }

    /// Every node that was seen.
    pub(super) fn nodes(&self) -> &[NodeStatus] {
        &self.nodes
    }

    /// Every gateway that is connected or reports, and what it makes of an `UpstreamCluster`. `content_hash` is that of
    /// what is served of it.
    pub(super) fn gateways(&self, owner: &str, content_hash: &str) -> Vec<Gateway<'_>> {
        let Some(snapshot) = &self.snapshot else { return Vec::new() };
        let mut progresses = self.registry.progress(snapshot, owner);
        let health = self.health(snapshot, owner);
        let mut gateways: Vec<Gateway<'_>> = Vec::new();
        for node in self.nodes.iter().filter(|node| node.connected) {
            // A node with two streams occurs twice, and its progress is that of both.
            let Some(progress) = progresses.remove(&node.id) else { continue };
            gateways.push(health.gateway(&node.id, self::progress(progress, node)));
        }
        let is_here = |name: &str| self.nodes.iter().any(|node| node.connected && node.id == name);
        let reporting =
            health.all.into_iter().flat_map(BTreeMap::keys).chain(self.answers.keys()).chain(self.frozen.keys());
        let mut elsewhere: BTreeSet<&String> = reporting.filter(|name| !is_here(name)).collect();
        if !elsewhere.is_empty() {
            let is_free = is_free(snapshot, owner);
            let reports_it = |name: &String| health.all.is_some_and(|all| all.contains_key(name));
            elsewhere.retain(|name| self.may_have(name, (snapshot, owner), is_free) || reports_it(name));
        }
        let key = (owner.to_owned(), content_hash.to_owned());
        gateways.extend(elsewhere.into_iter().map(|name| health.gateway(name, self.elsewhere(name, &key))));
        gateways
    }

    /// Whether a gateway that follows another replica may have an object: it may report about a view with it. One that may report about
    /// all, or of which that is not known, is taken for one of no instance.
    fn may_have(&self, node: &str, (snapshot, owner): (&Snapshot, &str), is_free: bool) -> bool {
        let has = |view: &View| snapshot.view(view).is_some_and(|view| owns(view, owner));
        match self.reported.get(node) {
            Some(Some(views)) => views.iter().any(|view| if view.0.is_none() { is_free } else { has(view) }),
            Some(None) | None => is_free,
        }
    }

    /// The state of a gateway that follows another replica, from the reports of its agent.
    fn elsewhere(&self, node: &str, version: &(String, String)) -> GatewayProgress {
        let Some(answers) = self.answers.get(node) else {
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
            let Some(reports) = self.reports.get(pool) else { continue };
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
    all: Option<&'a BTreeMap<String, Health>>,
    /// Those of policies with a subset or a strategy of their own.
    others: Vec<&'a BTreeMap<String, Health>>,
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

/// The state of a node. An object that is pending because the node refuses the shared listener would wait in vain: it counts as
/// refused.
fn progress(progress: GatewayProgress, node: &NodeStatus) -> GatewayProgress {
    let is_shared = |refused: &&Refused| refused.owner.is_none() && !refused.is_optional;
    match node.refused.iter().find(is_shared).filter(|_| progress == GatewayProgress::Pending) {
        Some(refused) => GatewayProgress::Refused { message: format!("{}: {}", refused.name, refused.message) },
        None => progress,
    }
}
