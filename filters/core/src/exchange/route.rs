//! Configurations as a proxy hands them over, compiled.

use std::sync::Arc;

use portcullis_filter_config::{ClusterConfig, FilterConfig, PeerSource};

use super::compiled::{CompiledClusters, CompiledEdition};
use super::door_hosts::DoorHosts;
use super::route_config::RouteConfig;
use super::route_judge::digest_of_door;
use super::route_update::RouteUpdate;
use crate::cluster::{Cluster, CompileError};
use crate::gateway::Gateway;
use crate::long_streams::{RouteLoad, StreamOwners, StreamRegistry};
use crate::state_store::StateStore;

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

impl<T> RouteConfig<T> {
    /// Compiles a configuration from JSON ([`RouteConfig::compile`]), unless it is the cluster's newest one but for its host names.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(
        text: &[u8],
        memory: &impl StateStore,
        owners: &StreamOwners<T>,
        clusters: &CompiledClusters,
    ) -> Result<(Self, RouteUpdate<T>), LoadError> {
        let mut config: ClusterConfig = serde_json::from_slice(text)?;
        let streams = owners.of(&config.name, &config.object);
        let compiled = clusters.get(&mut config, memory, text.len());
        let compiled = compiled.map_err(|error| LoadError::Cluster(config.name.clone(), error))?;
        Ok(RouteConfig::of(&config, streams, compiled, text.len(), |digest| clusters.hosts(digest, &config)))
    }

    /// Compiles a configuration with a text of that many bytes. Also returns the changes that it makes to what runs already.
    ///
    /// # Errors
    /// [`CompileError`], the control plane's fault.
    pub fn compile(
        config: &ClusterConfig,
        memory: &impl StateStore,
        streams: Arc<StreamRegistry<T>>,
        text: usize,
    ) -> Result<(Self, RouteUpdate<T>), CompileError> {
        let compiled = CompiledEdition::compile(config, memory, text, None)?;
        Ok(RouteConfig::of(config, streams, compiled, text, |_| Arc::new(DoorHosts::of(config))))
    }

    fn of(
        config: &ClusterConfig,
        streams: Arc<StreamRegistry<T>>,
        compiled: Arc<CompiledEdition>,
        text: usize,
        hosts: impl FnOnce([u8; 64]) -> Arc<DoorHosts>,
    ) -> (Self, RouteUpdate<T>) {
        let cluster = Cluster::named(&config.authorities, Arc::clone(&compiled.cluster));
        let edition = Arc::clone(&compiled.edition);
        let denials = digest_of_door(compiled.denials, config);
        let route = RouteConfig {
            name: config.name.clone(),
            cluster,
            streams,
            load: RouteLoad::newest(&edition),
            edition,
            listener: config.listener.as_str().into(),
            compiled,
            hosts: (!config.variant.is_empty()).then(|| hosts(denials)),
        };
        let update = RouteUpdate::of(config, &route, denials, text);
        (route, update)
    }

    /// The group of its streams, by which a host finds them when they have to end ([`StreamOwners::ended_loads`]).
    pub fn stream_group(&self) -> u64 {
        self.load.id()
    }

    /// Whether its streams have to end, whatever they are doing: those of its cluster's name keep too much of what was replaced.
    pub fn is_ended(&self) -> bool {
        self.load.is_ended()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use portcullis_filter_config::Servers;

    use super::*;
    use crate::gateway::tests::plain_config;
    use crate::long_streams::{StreamStart, TerminationReason};
    use crate::state_store::EphemeralState;
    use crate::testing::moment;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn sessions_of_a_former_owner_keep_their_own_limit() {
        let (owners, clusters) = (StreamOwners::default(), CompiledClusters::default());
        let load = |object: &str, limit, drain_seconds, now| {
            let config = ClusterConfig {
                object: object.to_owned(),
                max_session_duration_seconds: limit,
                servers: Some(Servers { names: vec!["a".into()], drain_seconds }),
                ..plain_config(None)
            };
            let text = serde_json::to_vec(&config).unwrap();
            let (route, update) = RouteConfig::load(&text, &EphemeralState([7; 32]), &owners, &clusters).unwrap();
            (route, update.apply(&owners, moment(at(now))))
        };
        let ended = |route: &RouteConfig<u32>, now| {
            let ended = RefCell::new(Vec::new());
            let next = route.streams.expire(at(now), |stream, why| ended.borrow_mut().push((*stream, why)));
            (ended.into_inner(), next)
        };
        let (first, calls) = load("1", None, 60, 0);
        assert!(calls.is_empty());
        let session = StreamStart {
            server: Some("a"),
            is_session: true,
            is_answer: false,
            kept: &first.load,
            load: first.load.number(),
            received: at(0),
            origin: None,
        };
        let (_running, _) = first.streams.register(session, 1, moment(at(0)));
        let (second, calls) = load("2", Some(5), 600, 100);
        let calls: Vec<_> = calls.iter().map(|(streams, at)| (Arc::ptr_eq(streams, &first.streams), *at)).collect();
        assert_eq!(calls, [(true, at(160))], "the drain period of its own object");
        let (_young, _) = second.streams.register(session, 2, moment(at(100)));
        assert_eq!(ended(&second, 105), (vec![(2, TerminationReason::SessionLimit)], None));
        assert_eq!(ended(&first, 159), (vec![], Some(at(160))), "no limit of the next owner");
        assert_eq!(ended(&first, 160), (vec![(1, TerminationReason::ServerRemoved)], None));
        let text = |object: &str| {
            let servers = Some(Servers { names: vec!["b".into()], drain_seconds: 0 });
            serde_json::to_vec(&ClusterConfig { object: object.to_owned(), servers, ..plain_config(None) }).unwrap()
        };
        for object in ["2", "3"] {
            let (refused, update) =
                RouteConfig::load(&text(object), &EphemeralState([7; 32]), &owners, &clusters).unwrap();
            drop(refused);
            assert!(update.apply(&owners, moment(at(150))).is_empty());
        }
        assert_eq!(ended(&second, 150), (vec![], None), "what the proxy refuses ends nothing");
        let (edited, calls) = load("2", Some(5), 600, 200);
        assert!(Arc::ptr_eq(&edited.streams, &second.streams) && calls.is_empty(), "an edit of the same object");
    }

    #[test]
    fn edits_of_host_names_end_no_stream() {
        let (owners, clusters) = (StreamOwners::<u32>::default(), CompiledClusters::default());
        let load = |name: &str, limit| {
            let config = ClusterConfig {
                authorities: vec![name.to_owned()],
                max_session_duration_seconds: limit,
                ..plain_config(None)
            };
            let text = serde_json::to_vec(&config).unwrap();
            let (route, update) = RouteConfig::load(&text, &EphemeralState([7; 32]), &owners, &clusters).unwrap();
            drop(update.apply(&owners, moment(at(0))));
            route
        };
        let first = load("a.test", None);
        let watch = StreamStart {
            server: None,
            is_session: false,
            is_answer: false,
            kept: &first.load,
            load: first.load.number(),
            received: at(0),
            origin: None,
        };
        let (_foreign, _) = first.streams.register(watch, 1, moment(at(0)));
        // Each is kept, as by a stream.
        let edited: Vec<_> = (0..300).map(|number| load(&format!("{number}.test"), None)).collect();
        for (number, route) in edited.iter().enumerate() {
            assert!(std::ptr::eq(&*route.cluster, &*first.cluster), "{number}: not compiled again");
            let (own, others) = (format!("{number}.test"), format!("{}.test", number + 1));
            let accepts = |name: &str| route.cluster.authorities.accept(name.as_bytes());
            assert!(accepts(&own) && !accepts(&others) && !accepts("a.test"), "{number}: names are each load's own");
            assert!(Arc::ptr_eq(&route.edition, &first.edition), "{number}");
        }
        assert_eq!(first.streams.expire(at(0), |_, _| panic!("no stream ends")), None);
        assert_eq!((owners.ended(), first.is_ended()), (0, false));
        let _newer = load("a.test", Some(1));
        let again = load("a.test", None);
        assert!(!Arc::ptr_eq(&again.edition, &first.edition), "what the newer one set is set again");
        let kept: Vec<_> = (2..300).map(|limit| load("a.test", Some(limit))).collect();
        assert!(first.is_ended() && !kept.last().unwrap().is_ended(), "edits of anything else");
    }
}
