use std::sync::Arc;

use portcullis_api::{Cluster, Settings, Transport};
use portcullis_filter_config::ClusterConfig;
use serde_json::Value;

use crate::names::{Group, ResourceNames, groups};
use crate::policy::cluster_config;
use crate::resource::Resource;
use crate::{check, cluster, secrets};

/// An `UpstreamCluster` behind routes for requests: checked, forwarded to and judged as under its own names.
#[derive(Debug)]
pub(crate) enum JudgedCluster {
    /// It is served.
    Open(Box<OpenCluster>),
    /// It is not, and why.
    Refused(String),
}

/// The parts of a cluster that do not depend on the route that leads there.
#[derive(Debug)]
pub(crate) struct OpenCluster {
    pub(crate) cluster: Cluster,
    pub(crate) names: ResourceNames,
    pub(crate) groups: Vec<Group>,
    /// The filter's configuration, with the cluster's own host names.
    pub(crate) config: ClusterConfig,
    /// Its size.
    pub(crate) config_bytes: usize,
    /// The gateway's credential at the servers, the CAs, the pools and their endpoints.
    pub(crate) resources: Vec<Arc<Resource>>,
}

impl JudgedCluster {
    pub(crate) fn of(document: &Value, name: &str, settings: &Settings) -> Self {
        match check(document, name, settings, None) {
            (Some(cluster), _) if cluster.transport == Transport::Passthrough => Self::Refused(
                "spec.portcullis.transport: its connections are passed on, and a TLSRoute leads there".to_owned(),
            ),
            (Some(cluster), _) => Self::Open(Box::new(OpenCluster::of(cluster, settings))),
            (None, diagnosis) => Self::Refused(diagnosis.message),
        }
    }

    pub(crate) fn open(&self) -> Option<&OpenCluster> {
        match self {
            Self::Open(open) => Some(open),
            Self::Refused(_) => None,
        }
    }
}

impl OpenCluster {
    fn of(cluster: Cluster, settings: &Settings) -> Self {
        let names = ResourceNames::of(&cluster, settings);
        let (config, groups) = (cluster_config(&cluster, &names, settings), groups(&cluster));
        let mut resources = Vec::new();
        secrets::emit_credentials(&cluster, &names, settings, &mut resources);
        for group in &groups {
            cluster::emit_clusters(&cluster, group, &names, settings, &mut resources);
        }
        let owner = Some(owner(&cluster.name));
        resources.iter_mut().for_each(|resource| resource.owner.clone_from(&owner));
        let resources = resources.into_iter().map(Arc::new).collect();
        let config_bytes = serde_json::to_vec(&config).map_or(usize::MAX, |bytes| bytes.len());
        Self { resources, cluster, names, groups, config, config_bytes }
    }
}

/// The owner of a cluster's resources at a Gateway. It is no name of an object: an Envoy of a Gateway says nothing about
/// `UpstreamClusters`.
pub(crate) fn owner(cluster: &str) -> String {
    format!("UpstreamCluster {cluster}")
}
