//! Configurations as a proxy hands them over, compiled.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use portcullis_filter_config::{ClusterConfig, FilterConfig, PeerSource};

use crate::cluster::{Cluster, CompileError};
use crate::gateway::Gateway;
use crate::long_streams::{StreamOwners, StreamRegistry};
use crate::state_store::StateStore;
use crate::x509::hex_digest;

/// Time after which a cached configuration is forgotten that no request asks for.
const IDLE_TTL: Duration = Duration::from_secs(600);

/// A configuration that cannot be used, the control plane's fault. Its text is for the proxy's log.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Not the JSON that was expected.
    #[error("portcullis: the configuration does not parse: {0}")]
    Parse(#[from] serde_json::Error),
    /// The listener's configuration.
    #[error("portcullis: {0}")]
    Filter(#[from] CompileError),
    /// A source of certificates that this host does not have.
    #[error("portcullis: this filter does not take certificates by peerSource {0:?}")]
    PeerSource(PeerSource),
    /// A cluster's configuration, with the cluster's name.
    #[error("portcullis: {0}: {1}")]
    Cluster(String, CompileError),
    /// A configuration and a digest of another one.
    #[error("portcullis: a cluster's configuration and its digest do not belong together")]
    Digest,
}

impl Gateway {
    /// Compiles the listener's configuration from JSON, for a host that has these sources of certificates.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(text: &[u8], peer_sources: &[PeerSource]) -> Result<Self, LoadError> {
        let config: FilterConfig = serde_json::from_slice(text)?;
        if !peer_sources.contains(&config.peer_source) {
            return Err(LoadError::PeerSource(config.peer_source));
        }
        Ok(Gateway::compile(&config)?)
    }
}

/// Streams to look through, and the uptime at which.
pub type StreamCall<T> = (Arc<StreamRegistry<T>>, Duration);

/// A cluster's configuration as a route carries it, with the cluster's long-running streams.
#[derive(Debug)]
pub struct RouteConfig<T> {
    /// The cluster's name.
    pub name: String,
    /// The compiled configuration.
    pub cluster: Cluster,
    /// Outlives the configuration: streams of an earlier one hear of what was edited.
    pub streams: Arc<StreamRegistry<T>>,
}

impl<T: Clone> RouteConfig<T> {
    /// Compiles a configuration from JSON ([`RouteConfig::compile`]). Streams of another object that had the name end when those
    /// of a removed server do. Also returns the uptimes at which [`StreamRegistry::expire`] has to be called because of that.
    ///
    /// # Errors
    /// [`LoadError`]; all streams are as before.
    pub fn load(
        text: &[u8],
        memory: &impl StateStore,
        streams: &StreamOwners<T>,
        uptime: Duration,
    ) -> Result<(Self, Vec<StreamCall<T>>), LoadError> {
        let config: ClusterConfig = serde_json::from_slice(text)?;
        let (name, object) = (config.name.as_str(), config.object.as_str());
        let (route, next) = RouteConfig::compile(&config, memory, streams.of(name, object), uptime)
            .map_err(|error| LoadError::Cluster(name.to_owned(), error))?;
        let others = streams.others(name, object).into_iter();
        let others = others.filter_map(|other| other.close(uptime).map(|at| (other, at)));
        let calls = next.map(|at| (Arc::clone(&route.streams), at)).into_iter().chain(others).collect();
        Ok((route, calls))
    }

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
        let by_limit = streams.limit_sessions(config.max_session_duration_seconds.map(Duration::from_secs));
        Ok((RouteConfig { name: config.name.clone(), cluster, streams }, next.into_iter().chain(by_limit).min()))
    }
}

/// The clusters' configurations that a worker has met, for a proxy that has no configuration by route: a virtual host carries the
/// text and a digest of it, so that no request has to read the text.
#[derive(Debug)]
pub struct RouteCache<T>(HashMap<Vec<u8>, CachedRoute<T>>);

#[derive(Debug)]
struct CachedRoute<T> {
    /// `None` for a configuration that cannot be used.
    route: Option<Rc<RouteConfig<T>>>,
    used: Duration,
}

impl<T> Default for RouteCache<T> {
    fn default() -> Self {
        RouteCache(HashMap::new())
    }
}

impl<T> RouteCache<T> {
    /// The configuration of the current request. `None` if there is none that can be used: the request fails closed.
    ///
    /// # Errors
    /// [`LoadError`], at the first request.
    pub fn get(
        &mut self,
        digest: Option<Vec<u8>>,
        text: impl FnOnce() -> Option<Vec<u8>>,
        uptime: Duration,
        load: impl FnOnce(&[u8]) -> Result<RouteConfig<T>, LoadError>,
    ) -> Result<Option<Rc<RouteConfig<T>>>, LoadError> {
        let given = digest.filter(|digest| !digest.is_empty());
        if let Some(cached) = given.as_ref().and_then(|digest| self.0.get_mut(digest)) {
            cached.used = uptime;
            return Ok(cached.route.clone());
        }
        let Some(text) = text() else { return Ok(None) };
        let digest = hex_digest(&text).to_vec();
        if given.is_some_and(|given| given != digest) {
            return Err(LoadError::Digest);
        }
        // Without a digest in the metadata this one may have been met before, too.
        if let Some(cached) = self.0.get_mut(&digest) {
            cached.used = uptime;
            return Ok(cached.route.clone());
        }
        let loaded = load(&text).map(Rc::new);
        let name = loaded.as_ref().ok().map(|route| route.name.as_str());
        self.forget(name, uptime);
        self.0.insert(digest, CachedRoute { route: loaded.as_ref().ok().cloned(), used: uptime });
        loaded.map(Some)
    }

    /// Forgets earlier configurations of the cluster, and those of clusters that no request asks for.
    fn forget(&mut self, name: Option<&str>, uptime: Duration) {
        self.0.retain(|_, cached| {
            let is_same = cached.route.as_ref().is_some_and(|route| Some(route.name.as_str()) == name);
            !is_same && uptime.saturating_sub(cached.used) < IDLE_TTL
        });
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use portcullis_filter_config::Servers;

    use super::*;
    use crate::gateway::tests::plain_config;
    use crate::long_streams::{StreamConfiguration, StreamStart, TerminationReason};
    use crate::state_store::EphemeralState;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn sessions_of_a_former_owner_keep_their_limit_and_end_with_its_servers() {
        let owners = StreamOwners::default();
        let load = |object: &str, limit, drain_seconds, now| {
            let config = ClusterConfig {
                object: object.to_owned(),
                max_session_duration_seconds: limit,
                servers: Some(Servers { names: vec!["a".into()], drain_seconds }),
                ..plain_config(None)
            };
            let text = serde_json::to_vec(&config).unwrap();
            RouteConfig::load(&text, &EphemeralState([7; 32]), &owners, at(now)).unwrap()
        };
        let ended = |route: &RouteConfig<u32>, now| {
            let ended = RefCell::new(Vec::new());
            let next = route.streams.expire(at(now), |stream, why| ended.borrow_mut().push((*stream, why)));
            (ended.into_inner(), next)
        };
        let configuration = StreamConfiguration::default();
        let session = StreamStart { server: Some("a"), is_session: true, configuration };
        let (first, calls) = load("1", None, 60, 0);
        assert!(calls.is_empty());
        let (_running, _) = first.streams.register(session, 1, at(0));
        let (second, calls) = load("2", Some(5), 600, 100);
        let calls: Vec<_> = calls.iter().map(|(streams, at)| (Arc::ptr_eq(streams, &first.streams), *at)).collect();
        assert_eq!(calls, [(true, at(160))], "the drain period of its own object");
        let (_young, _) = second.streams.register(session, 2, at(100));
        assert_eq!(ended(&second, 105), (vec![(2, TerminationReason::SessionLimit)], None));
        assert_eq!(ended(&first, 159), (vec![], Some(at(160))), "no limit of the next owner");
        assert_eq!(ended(&first, 160), (vec![(1, TerminationReason::ServerRemoved)], None));
        let (edited, calls) = load("2", Some(5), 600, 200);
        assert!(Arc::ptr_eq(&edited.streams, &second.streams) && calls.is_empty(), "an edit of the same object");
    }
}
