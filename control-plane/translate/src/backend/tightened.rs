use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::{PolicyInEffect, Settings, behind_door};
use portcullis_attach::{Door, UnfitPolicy};
use portcullis_filter_config::ClusterConfig;
use serde_json::Value;

use super::OpenCluster;
use crate::check;
use crate::policy::cluster_config;

/// What policies of doors make of clusters, by the cluster and the doors that have policies, the widest first.
pub(crate) type Tightenings = BTreeMap<(String, Vec<Door>), Arc<Tightening>>;

/// What the policies of some doors make of a cluster for the requests that come by these.
#[derive(Debug, Default)]
pub(crate) struct Tightening {
    /// None if it is good with none of them: then requests are judged as by any other door.
    pub(crate) config: Option<TightenedConfig>,
    /// The policies that are left out, and why.
    pub(crate) unfit: BTreeMap<UnfitPolicy, String>,
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

    /// Forgets all but these.
    pub(crate) fn keep(&mut self, wanted: &Tightenings) {
        self.0.retain(|key, _| wanted.contains_key(key));
    }
}

impl Tightening {
    /// A policy with which the cluster would be refused is left out, as at the cluster itself: nobody else holds up the owner's edits.
    fn of<'a>(
        document: &Arc<Value>,
        open: &OpenCluster,
        policies: impl Iterator<Item = &'a PolicyInEffect>,
        settings: &Settings,
    ) -> Self {
        let name = open.cluster.name.as_str();
        let mut tightening = Self::default();
        let mut document = Arc::clone(document);
        let mut cluster = None;
        for policy in policies {
            let tightened = behind_door(&document, policy).map_err(|error| error.to_string());
            let checked = tightened.and_then(|newer| match check(&newer, name, settings, None) {
                (Some(cluster), _) => Ok((newer, cluster)),
                (None, diagnosis) => {
                    Err(format!("UpstreamCluster {name} would be refused with it: {}", diagnosis.message))
                }
            });
            match checked {
                Ok((newer, tightened)) => (document, cluster) = (newer, Some(tightened)),
                Err(why) => {
                    let (cluster, kind, policy) = (name.to_owned(), policy.kind, policy.policy.clone());
                    tightening.unfit.insert(UnfitPolicy { cluster, kind, policy }, why);
                }
            }
        }
        tightening.config = cluster.map(|cluster| {
            // A shadow is an alternative to the cluster's own rules, and its differences are counted for these.
            let config = ClusterConfig { shadow: None, ..cluster_config(&cluster, &open.names, settings) };
            let bytes = serde_json::to_vec(&config).map_or(usize::MAX, |bytes| bytes.len());
            TightenedConfig { config, bytes }
        });
        tightening
    }
}
