use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::{PolicyInEffect, Settings};
use portcullis_attach::{Door, UnfitPolicy, behind_doors};
use portcullis_filter_config::ClusterConfig;
use serde_json::Value;

use super::OpenCluster;
use crate::check;
use crate::policy::cluster_config;

/// Clusters behind doors with policies, by the cluster and the doors that have policies, the widest first.
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

struct KnownTightening {
    document: Arc<Value>,
    policies: Vec<Arc<[PolicyInEffect]>>,
    made: Arc<Tightening>,
}

impl KnownTightenings {
    /// That of a cluster with a document behind doors with these policies, of before if nothing is other than then.
    pub(crate) fn of(
        &mut self,
        (cluster, doors): (&str, &[Door]),
        policies: Vec<Arc<[PolicyInEffect]>>,
        (document, open): (&Arc<Value>, &OpenCluster),
        settings: &Settings,
    ) -> Arc<Tightening> {
        let key = (cluster.to_owned(), doors.to_vec());
        if let Some(known) = self.0.get(&key)
            && (Arc::ptr_eq(&known.document, document) || known.document == *document)
            && known.policies == policies
        {
            return Arc::clone(&known.made);
        }
        let all = policies.iter().flat_map(|policies| policies.iter());
        let made = Arc::new(Tightening::of(document, open, all, settings));
        let known = KnownTightening { document: Arc::clone(document), policies, made: Arc::clone(&made) };
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
        let rules = match check(&tightened, name, settings, None) {
            (Some(cluster), _) => {
                // A shadow is an alternative to the cluster's own rules, and its differences are counted for these.
                let config = ClusterConfig { shadow: None, ..cluster_config(&cluster, &open.names, settings) };
                let bytes = serde_json::to_vec(&config).map_or(usize::MAX, |bytes| bytes.len());
                DoorRules::Tightened(Box::new(TightenedConfig { config, bytes }))
            }
            // It was good with each of them.
            (None, _) => DoorRules::Closed,
        };
        Self { rules, unfit }
    }
}
