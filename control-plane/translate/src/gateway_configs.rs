//! The filter's configurations at a Gateway: which there are, and for which of them there is room.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use portcullis_attach::{
    BoundRoute, Door, HostPattern, HostTable, ListenerRole, ObjectName, ServedGateway, ServedListener,
};

use crate::backend::{ConfigSize, JudgedClusters, KnownPolicySizes, OpenCluster, Tightenings};
use crate::gateway_secrets::GatewaySecrets;
use crate::listener::{ConfigKey, ConfigRoom, RoomOfAll, UNRESOLVED, host_bytes, is_unresolved, only_cluster};

/// The configurations of a Gateway beside those of its clusters themselves.
#[derive(Debug, Default)]
pub(crate) struct GatewayConfigs {
    /// Clusters behind doors with policies.
    pub(crate) tightened: Tightenings,
    /// Those for which there is no room, with those of the clusters themselves.
    pub(crate) refused: BTreeSet<ConfigKey>,
}

/// The configurations that the routes of a Gateway want, by its own room alone.
#[derive(Debug)]
pub(crate) struct GatewayPlan {
    /// Those for which it has room, with the namespaces of the routes, in the order of [`wanted_configs`].
    wanted: Vec<PlannedConfig>,
    refused: BTreeSet<ConfigKey>,
}

#[derive(Debug)]
struct PlannedConfig {
    key: ConfigKey,
    namespace: String,
    bytes: usize,
    /// Host names of one namespace close no route of another one.
    hosts: ConfigKey,
    bytes_of_hosts: usize,
}

/// A configuration that a route wants.
struct WantedConfig<'a> {
    key: ConfigKey,
    /// That of the key and the namespace among those of its listener.
    number: usize,
    /// The cluster; `None` of routes without a backend that can be used.
    open: Option<&'a OpenCluster>,
    namespace: &'a str,
    bytes_of_hosts: usize,
}

impl GatewayPlan {
    /// That of a Gateway. Whatever it needs is of the Gateway, its clusters and its certificates: as long as these are the same, it is.
    pub(crate) fn of(
        gateway: &ServedGateway,
        clusters: &JudgedClusters,
        secrets: &GatewaySecrets,
        sizes: &mut KnownPolicySizes,
    ) -> Self {
        let wanted = wanted_configs(gateway, clusters, secrets);
        let mut room = ConfigRoom::default();
        let (mut planned, mut known) = (Vec::new(), BTreeSet::new());
        for one in &wanted {
            if !known.insert((&one.key, one.namespace)) {
                continue;
            }
            let policies = gateway.policies.of_doors(&one.key.doors, &one.key.cluster);
            let all = || policies.iter().flat_map(|policies| policies.iter());
            let size: ConfigSize = all().map(|policy| sizes.of(policy)).chain(one.open.map(|open| open.size)).sum();
            let bytes = size.room().saturating_mul(ConfigSize::times(all().count()));
            let bytes = one.key.room(bytes, one.open.map_or(0, OpenCluster::bytes_of_more_groups));
            let (key, hosts, namespace) = (one.key.clone(), one.key.of_hosts(one.namespace), one.namespace.to_owned());
            room.want(key.clone(), one.namespace, bytes);
            room.want(hosts.clone(), one.namespace, one.bytes_of_hosts);
            planned.push(PlannedConfig { key, namespace, bytes, hosts, bytes_of_hosts: one.bytes_of_hosts });
        }
        let refused = room.refused();
        planned.retain(|one| one.has_room(&refused));
        Self { wanted: planned, refused }
    }

    /// Wants what it has room for among all Gateways.
    pub(crate) fn want<'a>(&'a self, gateway: &'a ObjectName, all: &mut RoomOfAll<'a>) {
        for one in &self.wanted {
            all.want(gateway, &one.key, &one.namespace, one.bytes);
            all.want(gateway, &one.hosts, &one.namespace, one.bytes_of_hosts);
        }
    }

    /// The configurations with policies for which there is room.
    pub(crate) fn tightened<'a>(&'a self, refused: &'a BTreeSet<ConfigKey>) -> impl Iterator<Item = &'a ConfigKey> {
        self.wanted.iter().filter(|one| !one.key.doors.is_empty() && one.has_room(refused)).map(|one| &one.key)
    }

    /// Those for which there is none, with these.
    pub(crate) fn refused_with(&self, of_all: Option<&BTreeSet<ConfigKey>>) -> BTreeSet<ConfigKey> {
        self.refused.iter().chain(of_all.into_iter().flatten()).cloned().collect()
    }
}

impl PlannedConfig {
    fn has_room(&self, refused: &BTreeSet<ConfigKey>) -> bool {
        !refused.contains(&self.key) && !refused.contains(&self.hosts)
    }
}

/// The configurations that routes want, in the order of listeners and host names. None is wanted where connections are closed anyway.
///
/// Names of routes without a backend that can be used come last: they take nothing from what their namespaces have served.
fn wanted_configs<'a>(
    gateway: &'a ServedGateway,
    clusters: &'a JudgedClusters,
    secrets: &GatewaySecrets,
) -> Vec<WantedConfig<'a>> {
    let open = requested_tables(gateway).filter(|(listener, _)| secrets.closed_because(listener).is_none());
    let mut wanted: Vec<WantedConfig<'_>> =
        open.flat_map(|(listener, table)| wanted_at(gateway, (listener, table), clusters)).collect();
    wanted.sort_by_key(|one| one.open.is_none());
    wanted
}

fn wanted_at<'a>(
    gateway: &'a ServedGateway,
    (listener, table): (&'a ServedListener, &'a HostTable),
    clusters: &'a JudgedClusters,
) -> Vec<WantedConfig<'a>> {
    let (mut wanted, mut numbers) = (Vec::new(), BTreeMap::new());
    // A route may have thousands of host names.
    let mut known: BTreeMap<(&ObjectName, &str), Option<usize>> = BTreeMap::new();
    let mut owners: HashMap<&HostPattern, usize> = HashMap::new();
    for (host, route) in &table.routes {
        let cluster = if is_unresolved(route, clusters) { Some(UNRESOLVED) } else { only_cluster(route) };
        let Some(cluster) = cluster else { continue };
        let number = *known.entry((&route.route, cluster)).or_insert_with(|| {
            let open = clusters.get(cluster).and_then(|judged| judged.open());
            let key = match open {
                Some(_) => key(gateway, &listener.name, &route.route, cluster)?,
                None => ConfigKey::of_unresolved(&listener.name),
            };
            let (next, namespace) = (numbers.len(), route.route.namespace.as_str());
            let number = *numbers.entry((key.clone(), namespace)).or_insert(next);
            wanted.push(WantedConfig { key, number, open, namespace, bytes_of_hosts: 0 });
            Some(number)
        });
        owners.extend(number.map(|number| (host, number)));
    }
    let bytes = host_bytes(&owners, table);
    for one in &mut wanted {
        one.bytes_of_hosts = bytes.get(&one.number).copied().unwrap_or_default();
    }
    wanted
}

/// `None` if it is not known by which policies a route is judged.
fn key(gateway: &ServedGateway, listener: &str, route: &ObjectName, cluster: &str) -> Option<ConfigKey> {
    let (policies, name) = (&gateway.policies, &gateway.gateway);
    if policies.are_unread(name, listener, route, cluster) {
        return None;
    }
    let doors: Vec<Door> = policies.doors(name, listener, route, cluster);
    Some(ConfigKey { listener: listener.to_owned(), cluster: cluster.to_owned(), doors, hosts_of: None })
}

/// The routes for requests, each for every of its host names.
pub(crate) fn requested_routes(gateway: &ServedGateway) -> impl Iterator<Item = &BoundRoute> {
    requested_tables(gateway).flat_map(|(_, table)| table.routes.values())
}

fn requested_tables(gateway: &ServedGateway) -> impl Iterator<Item = (&ServedListener, &HostTable)> {
    gateway.listeners.iter().filter_map(|listener| match &listener.role {
        ListenerRole::Terminate { routes, .. } => Some((listener, routes)),
        ListenerRole::Passthrough(_) | ListenerRole::Redirect(_) => None,
    })
}
