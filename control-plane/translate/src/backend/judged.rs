use std::sync::Arc;

use portcullis_api::{
    CLUSTER_KIND, Cluster, Problem, Settings, Transport, UPSTREAM_KIND, UpstreamMaterial, check_upstream,
    parse_upstream, upstream_of_key,
};
use portcullis_filter_config::ClusterConfig;
use serde_json::Value;

use super::config_size::ConfigSize;
use crate::names::{Group, ResourceNames, groups};
use crate::policy::cluster_config;
use crate::resource::Resource;
use crate::{check, cluster, secrets};

/// A `KubernetesUpstream` with the content of its references and its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedUpstream {
    /// Its document.
    pub document: Arc<Value>,
    /// The content of its references.
    pub material: UpstreamMaterial,
    /// Its [`portcullis_api::upstream_rules`].
    pub rules: Arc<Value>,
}

/// An `UpstreamCluster` behind routes for requests: checked, forwarded to and judged as under its own names. A `KubernetesUpstream` has
/// the same form, and is nowhere else.
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
    pub(crate) size: ConfigSize,
    /// The gateway's credential at the servers, the CAs, the pools and their endpoints.
    pub(crate) resources: Vec<Arc<Resource>>,
}

/// Why no request may be sent to an `UpstreamCluster` whose connections are passed on.
pub const NO_REQUESTS: &str = "spec.portcullis.transport: its connections are passed on, and a TLSRoute leads there";

impl JudgedCluster {
    pub(crate) fn of(document: &Value, name: &str, settings: &Settings) -> Self {
        match check(document, name, settings, None) {
            (Some(cluster), _) if cluster.transport == Transport::Passthrough => Self::Refused(NO_REQUESTS.to_owned()),
            (Some(cluster), _) => Self::Open(Box::new(OpenCluster::of(cluster, settings))),
            // Authors of routes read it, who may not read the object.
            (None, diagnosis) => Self::Refused(diagnosis.outline()),
        }
    }

    pub(crate) fn of_upstream(upstream: &ResolvedUpstream, settings: &Settings) -> Self {
        let all = |problems: Vec<Problem>| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let raw = match parse_upstream(&upstream.document) {
            Ok(raw) => raw,
            Err(problems) => return Self::Refused(all(problems)),
        };
        match check_upstream(&raw, &upstream.material, &upstream.rules, settings.allow_loopback_upstreams).outcome {
            Ok(cluster) => Self::Open(Box::new(OpenCluster::of(cluster, settings))),
            Err(problems) => Self::Refused(all(problems)),
        }
    }

    pub(crate) fn open(&self) -> Option<&OpenCluster> {
        match self {
            Self::Open(open) => Some(open),
            Self::Refused(_) => None,
        }
    }
}

/// Bytes of Envoy's routes to a group of servers: up to 16, one for each pool and class of requests.
const ROUTES_OF_GROUP: usize = 32 << 10;

impl OpenCluster {
    /// Bytes of Envoy's routes to all groups but the first. Each virtual host has routes of its own, however short its configuration is.
    pub(crate) fn bytes_of_more_groups(&self) -> usize {
        self.groups.len().saturating_sub(1).saturating_mul(ROUTES_OF_GROUP)
    }

    fn of(cluster: Cluster, settings: &Settings) -> Self {
        let names = ResourceNames::of(&cluster, settings);
        let (config, groups) = (cluster_config(&cluster, &names, settings), groups(&cluster));
        let mut resources = Vec::new();
        secrets::emit_credentials(&cluster, &names, settings, &mut resources);
        for group in &groups {
            cluster::emit_clusters(&cluster, group, &names, settings, &mut resources);
        }
        let owner = Some(owner_at_gateways(&cluster.name).into());
        resources.iter_mut().for_each(|resource| resource.owner.clone_from(&owner));
        let resources = resources.into_iter().map(Arc::new).collect();
        let size = ConfigSize::of(&config);
        Self { resources, cluster, names, groups, config, size }
    }
}

/// The owner of a cluster's resources at a Gateway. It is no name of an object: an Envoy of a Gateway says nothing about
/// `UpstreamClusters`.
pub fn owner_at_gateways(cluster: &str) -> String {
    let kind = if upstream_of_key(cluster).is_some() { UPSTREAM_KIND } else { CLUSTER_KIND };
    format!("{kind} {cluster}")
}
