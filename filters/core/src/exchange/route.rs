use std::sync::Arc;
use std::time::Duration;

use portcullis_filter_config::ClusterConfig;

use crate::cluster::{Cluster, CompileError};
use crate::long_streams::StreamRegistry;
use crate::state_store::StateStore;

/// A cluster's configuration as a route carries it, with the cluster's long-running streams.
#[derive(Debug)]
pub struct RouteConfig<T> {
    /// The compiled configuration.
    pub cluster: Cluster,
    /// Outlives the configuration: streams of an earlier one hear of what was edited.
    pub streams: Arc<StreamRegistry<T>>,
}

impl<T: Clone> RouteConfig<T> {
    /// Compiles a configuration and gives its servers and session limit to `streams`. Also returns the uptime at which
    /// [`StreamRegistry::expire`] has to be called because of that, if at all.
    ///
    /// # Errors
    /// [`CompileError`], the control plane's fault; `streams` are as before.
    pub fn compile(
        config: &ClusterConfig,
        memory: &impl StateStore,
        streams: Arc<StreamRegistry<T>>,
        uptime: Duration,
    ) -> Result<(Self, Option<Duration>), CompileError> {
        let cluster = Cluster::compile(config, memory)?;
        let mut next = None;
        if let Some(servers) = &config.servers {
            let names = servers.names.iter().map(String::as_str);
            next = streams.set_servers(names, Duration::from_secs(servers.drain_seconds), uptime);
        }
        let by_limit = streams.limit_sessions(config.session_limit_seconds.map(Duration::from_secs));
        Ok((RouteConfig { cluster, streams }, next.into_iter().chain(by_limit).min()))
    }
}
