use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::{Cluster, PolicyInEffect, Settings, check_upstream_behind_doors, parse_upstream};
use portcullis_attach::{Door, UnfitPolicy, behind_doors, upstream_behind_doors};
use portcullis_filter_config::ClusterConfig;
use serde_json::Value;

use super::{OpenCluster, ResolvedUpstream};
use crate::check;
use crate::policy::cluster_config;

/// Clusters and upstreams behind doors with policies, by the name or key and the doors that have policies, the widest first.
pub(crate) type Tightenings = BTreeMap<(String, Vec<Door>), Arc<Tightening>>;

/// A cluster for the requests that come by some doors with policies.
#[derive(Debug)]
pub(crate) struct Tightening {
    pub(crate) rules: DoorRules,
    /// The policies that are left out, and why.
    pub(crate) unfit: BTreeMap<UnfitPolicy, String>,
}

/// The rules by which requests that come by a door are judged.
#[derive(Debug)]
pub(crate) enum DoorRules {
    /// The cluster's own: it is good with none of the policies.
    Own,
    /// Those with policies of the door.
    Tightened(Box<TightenedConfig>),
    /// None: all connections are closed.
    Closed,
}

/// The filter's configuration of a cluster with policies of doors. Pools, credentials and the generation are the cluster's.
#[derive(Debug)]
pub(crate) struct TightenedConfig {
    /// With the cluster's own host names.
    pub(crate) config: ClusterConfig,
    /// Its size.
    pub(crate) bytes: usize,
}

/// The tightenings of the last translation.
#[derive(Default)]
pub(crate) struct KnownTightenings(BTreeMap<(String, Vec<Door>), KnownTightening>);

/// An object whose requests are judged.
#[derive(Clone, Debug)]
pub(crate) enum RequestedObject {
    /// The document of an `UpstreamCluster`.
    Cluster(Arc<Value>),
    /// A `KubernetesUpstream`.
    Upstream(Arc<ResolvedUpstream>),
}

struct KnownTightening {
    object: RequestedObject,
    policies: Vec<Arc<[PolicyInEffect]>>,
    made: Arc<Tightening>,
}

impl RequestedObject {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cluster(one), Self::Cluster(other)) => Arc::ptr_eq(one, other) || one == other,
            (Self::Upstream(one), Self::Upstream(other)) => Arc::ptr_eq(one, other) || one == other,
            (Self::Cluster(_), Self::Upstream(_)) | (Self::Upstream(_), Self::Cluster(_)) => false,
        }
    }
}

impl KnownTightenings {
    /// That of an object behind doors with these policies, of before if nothing is other than then.
    pub(crate) fn of(
        &mut self,
        (cluster, doors): (&str, &[Door]),
        policies: Vec<Arc<[PolicyInEffect]>>,
        (object, open): (&RequestedObject, &OpenCluster),
        settings: &Settings,
    ) -> Arc<Tightening> {
        let key = (cluster.to_owned(), doors.to_vec());
        if let Some(known) = self.0.get(&key)
            && known.object.is_same(object)
            && known.policies == policies
        {
            return Arc::clone(&known.made);
        }
        let all = policies.iter().flat_map(|policies| policies.iter());
        let made = Arc::new(match object {
            RequestedObject::Cluster(document) => Tightening::of(document, open, all, settings),
            RequestedObject::Upstream(upstream) => Tightening::of_upstream(upstream, open, all, settings),
        });
        let known = KnownTightening { object: object.clone(), policies, made: Arc::clone(&made) };
        self.0.insert(key, known);
        made
    }

    /// Forgets all but these of Gateways.
    pub(crate) fn keep<'a>(&mut self, wanted: impl Iterator<Item = &'a Tightenings> + Clone) {
        self.0.retain(|key, _| wanted.clone().any(|of_gateway| of_gateway.contains_key(key)));
    }

    /// Their number.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

impl Tightening {
    fn of<'a>(
        document: &Arc<Value>,
        open: &OpenCluster,
        policies: impl Iterator<Item = &'a PolicyInEffect>,
        settings: &Settings,
    ) -> Self {
        let name = open.cluster.name.as_str();
        let (tightened, unfit) = behind_doors(document, name, policies);
        if Arc::ptr_eq(&tightened, document) {
            return Self { rules: DoorRules::Own, unfit };
        }
        // It was good with each of them.
        let (cluster, _) = check(&tightened, name, settings, None);
        Self { rules: DoorRules::of(cluster, open, settings), unfit }
    }

    fn of_upstream<'a>(
        upstream: &ResolvedUpstream,
        open: &OpenCluster,
        policies: impl Iterator<Item = &'a PolicyInEffect>,
        settings: &Settings,
    ) -> Self {
        let ResolvedUpstream { document, material } = upstream;
        let Ok(raw) = parse_upstream(document) else {
            return Self { rules: DoorRules::Closed, unfit: BTreeMap::new() };
        };
        let (denials, unfit) = upstream_behind_doors(&raw, material, policies);
        if denials.is_empty() {
            return Self { rules: DoorRules::Own, unfit };
        }
        let checked = check_upstream_behind_doors(&raw, material, &denials, settings.allow_loopback_upstreams);
        Self { rules: DoorRules::of(checked.outcome.ok(), open, settings), unfit }
    }
}

impl DoorRules {
    /// Those of a tightened cluster; none if it is refused.
    fn of(tightened: Option<Cluster>, open: &OpenCluster, settings: &Settings) -> Self {
        let Some(cluster) = tightened else { return Self::Closed };
        // A shadow is an alternative to the cluster's own rules, and its differences are counted for these.
        let config = ClusterConfig { shadow: None, ..cluster_config(&cluster, &open.names, settings) };
        let bytes = serde_json::to_vec(&config).map_or(usize::MAX, |bytes| bytes.len());
        Self::Tightened(Box::new(TightenedConfig { config, bytes }))
    }
}
