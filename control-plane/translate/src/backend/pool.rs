use std::sync::Arc;

use portcullis_api::{Cidr, Settings};

use super::{Passage, ServicePort, ServiceServers};
use crate::cluster;
use crate::names::{ALL, ResourceNames};
use crate::resource::Resource;

/// The Envoy cluster of a server behind a route. One without a name is reached by no connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BackendPool {
    /// Its name.
    pub(crate) name: Option<String>,
    /// Client addresses that may connect; empty is all.
    pub(crate) client_addresses: Vec<Cidr>,
    /// The cluster and its endpoints.
    pub(crate) resources: Vec<Arc<Resource>>,
}

impl BackendPool {
    /// The same that an object has which says `transport: TLSPassthrough` itself.
    pub(crate) fn of_cluster(passage: &Passage, settings: &Settings) -> Self {
        let Passage::Open(cluster) = passage else { return Self::default() };
        let names = ResourceNames::of(cluster, settings);
        let mut resources = Vec::new();
        cluster::emit_tcp_pool(cluster, &names, settings, &mut resources);
        Self {
            name: Some(names.tcp_pool(ALL)),
            client_addresses: cluster.client_addresses.clone(),
            resources: resources.into_iter().map(Arc::new).collect(),
        }
    }

    pub(crate) fn of_service(port: &ServicePort, servers: &ServiceServers, settings: &Settings) -> Self {
        let (names, group) = (ResourceNames::of_service(&settings.instance, &port.service, &servers.uid), port.group());
        let mut resources = Vec::new();
        cluster::emit_service_pool(&servers.servers, &group, &names, settings, &mut resources);
        Self {
            name: Some(names.tcp_pool(&group)),
            client_addresses: Vec::new(),
            resources: resources.into_iter().map(Arc::new).collect(),
        }
    }
}

impl ServicePort {
    /// The name of its servers in resource names.
    fn group(&self) -> String {
        format!("port-{}", self.port)
    }
}
