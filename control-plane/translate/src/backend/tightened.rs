use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{Cluster, PolicyInEffect, Settings, check_upstream, parse_upstream};
use portcullis_attach::{Door, UnfitPolicy, behind_doors, upstream_behind_doors};
use portcullis_filter_config::ClusterConfig;
use serde_json::Value;

use super::lowered::bounded;
use super::{OpenCluster, ResolvedUpstream};
use crate::check;
use crate::policy::cluster_config;

/// Clusters and upstreams behind doors with policies, by the name or key and the doors that have policies, the widest first.
pub(crate) type Tightenings = BTreeMap<(String, Vec<Door>), Arc<Tightening>>;

/// A cluster for the requests that come by some doors with policies.
#[derive(Debug)]
pub(crate) struct Tightening {
    pub(crate) rules: DoorRules,
    /// The policies that do not fit, and why.
    pub(crate) unfit: BTreeMap<UnfitPolicy, String>,
}

/// The rules by which requests that come by a door are judged.
#[derive(Debug)]
pub(crate) enum DoorRules {
    /// The cluster's own: it is good with none of the policies.
    Own,
    /// Those with policies of the door, and the cluster's own host names. Pools, credentials and the generation are the cluster's.
    Tightened(Box<ClusterConfig>),
    /// None: all connections are closed, because of these policies; without any the object cannot be judged with them.
    Closed(Arc<str>),
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
    pub(crate) fn keep<'a>(&mut self, wanted: impl Iterator<Item = &'a Tightenings>) {
        let wanted: BTreeSet<&(String, Vec<Door>)> = wanted.flat_map(BTreeMap::keys).collect();
        self.0.retain(|key, _| wanted.contains(key));
    }

    /// Their number.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The bytes of their configurations' texts.
    #[cfg(test)]
    pub(crate) fn text(&self) -> usize {
        let text = |known: &KnownTightening| match &known.made.rules {
            DoorRules::Tightened(config) => serde_json::to_vec(config).unwrap().len(),
            DoorRules::Own | DoorRules::Closed(_) => 0,
        };
        self.0.values().map(text).sum()
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
        let ResolvedUpstream { document, material, rules } = upstream;
        let Ok(raw) = parse_upstream(document) else {
            return Self { rules: DoorRules::Closed(Arc::default()), unfit: BTreeMap::new() };
        };
        let (tightened, unfit) = upstream_behind_doors(&raw, material, rules, policies);
        // Served without it, its author could lift what a Gateway denies, by a field that the denial does not fit to.
        if !unfit.is_empty() {
            return Self { rules: DoorRules::Closed(in_words(&unfit).into()), unfit };
        }
        // A limit that is lowered may not be there.
        if tightened.get("spec") == rules.get("spec") {
            return Self { rules: DoorRules::Own, unfit };
        }
        let checked = check_upstream(&raw, material, &tightened, settings.allow_loopback_upstreams);
        Self { rules: DoorRules::of(checked.outcome.ok(), open, settings), unfit }
    }
}

fn in_words(unfit: &BTreeMap<UnfitPolicy, String>) -> String {
    let one = |(UnfitPolicy { kind, policy, .. }, why): (&UnfitPolicy, &String)| format!("{kind} {policy}: {why}");
    unfit.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl DoorRules {
    /// Those of a tightened cluster; none if it is refused.
    fn of(tightened: Option<Cluster>, open: &OpenCluster, settings: &Settings) -> Self {
        let Some(cluster) = tightened else { return Self::Closed(Arc::default()) };
        // A shadow is an alternative to the cluster's own rules, and its differences are counted for these.
        let config = ClusterConfig { shadow: None, ..cluster_config(&cluster, &open.names, settings) };
        let flow_control_schemas = bounded(config.flow_control_schemas, &open.cluster.schemas);
        Self::Tightened(Box::new(ClusterConfig { flow_control_schemas, ..config }))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use portcullis_attach::ObjectName;

    use super::*;

    /// Each Gateway has up to thousands of them.
    #[test]
    fn gateways_are_gone_through_once_when_others_are_forgotten() {
        let made = || Arc::new(Tightening { rules: DoorRules::Own, unfit: BTreeMap::new() });
        let key = |index: usize| ("c".to_owned(), vec![Door::Route(ObjectName::new("team", format!("r{index}")))]);
        let known = |_| KnownTightening {
            object: RequestedObject::Cluster(Arc::new(Value::Null)),
            policies: Vec::new(),
            made: made(),
        };
        let mut all = KnownTightenings((0..100).map(|index| (key(index), known(index))).collect());
        let of_gateways: Vec<Tightenings> = (0..50).map(|index| [(key(index), made())].into()).collect();
        let looks = Cell::new(0);
        all.keep(of_gateways.iter().inspect(|_| looks.set(looks.get() + 1)));
        assert_eq!((all.count(), looks.get()), (50, 50));
        assert!((0..50).all(|index| all.0.contains_key(&key(index))));
    }
}
