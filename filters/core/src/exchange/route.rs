//! Configurations as a proxy hands them over, compiled.

use std::sync::{Arc, Weak};
use std::time::Duration;

use portcullis_filter_config::{ClusterConfig, FairQueueConfig, FilterConfig, PeerSource, Servers};

use super::compiled::{CompiledClusters, CompiledEdition};
use super::door_hosts::DoorHosts;
use super::route_judge::{RouteJudge, digest_of_door};
use crate::cluster::{Cluster, CompileError, CompiledCluster};
use crate::fair::FairQueue;
use crate::gateway::Gateway;
use crate::long_streams::{Edition, EditionLoad, LoadNumber, StreamJudge, StreamOwners, StreamRegistry};
use crate::moment::Moment;
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

/// Streams to look through, and the uptime at which.
pub type StreamCall<T> = (Arc<StreamRegistry<T>>, Duration);

/// A cluster's configuration as a route carries it, with the cluster's long-running streams.
#[derive(Debug)]
pub struct RouteConfig<T> {
    /// The cluster's name.
    pub name: String,
    /// The compiled configuration, under this route's host names.
    pub cluster: Cluster,
    /// Outlives the configuration: streams of an earlier one hear of what was edited.
    pub streams: Arc<StreamRegistry<T>>,
    /// Alive for as long as the proxy keeps the configuration, under whichever host names.
    pub edition: Arc<Edition>,
    /// That of its streams.
    pub(super) load: LoadNumber,
    /// The listener that it is of; empty if it names none.
    pub(super) listener: Arc<str>,
    /// For loads that come later.
    _compiled: Arc<CompiledEdition>,
    _load: Option<EditionLoad>,
    /// For the judge of running streams.
    _hosts: Option<Arc<DoorHosts>>,
}

/// The changes that a configuration makes to requests which run or wait already. Until [`RouteUpdate::apply`] there are none: a proxy may
/// refuse what it has compiled.
#[derive(Debug)]
#[must_use]
pub struct RouteUpdate<T> {
    name: String,
    object: String,
    edition: Weak<Edition>,
    load: LoadNumber,
    streams: Weak<StreamRegistry<T>>,
    servers: Option<Servers>,
    session_limit: Option<Duration>,
    queues: Vec<(Arc<FairQueue>, FairQueueConfig)>,
    judge: Weak<CompiledCluster>,
    denials: [u8; 64],
    variant: Box<str>,
    listener: Box<str>,
    /// The host names of a variant.
    hosts: Weak<DoorHosts>,
    kept: Option<KeptLoad<T>>,
    /// The proxy uses another load of the object in its place, which says what servers and limits there are: this one only judges.
    pub(super) is_replaced: bool,
}

/// The place of a load: another load in it replaces the one before.
pub(super) type RoutePlace = (String, Box<str>, Box<str>);

/// A configuration that is applied although the proxy uses the next one already.
#[derive(Debug)]
struct KeptLoad<T> {
    _edition: Option<Arc<Edition>>,
    _streams: Option<Arc<StreamRegistry<T>>>,
    _cluster: Option<Arc<CompiledCluster>>,
    _hosts: Option<Arc<DoorHosts>>,
}

impl<T> RouteUpdate<T> {
    /// The number of the load.
    pub(super) fn number(&self) -> u64 {
        self.load.get()
    }

    /// The same for all loads of one route configuration, once that is in use.
    pub(super) fn raise_number(&self, to: u64) {
        self.load.raise(to);
    }

    /// The cluster's name and the listener. `None` if that is not known.
    pub(super) fn table(&self) -> Option<(&str, &str)> {
        (!self.listener.is_empty()).then(|| (&*self.name, &*self.listener))
    }

    pub(super) fn variant(&self) -> &str {
        &self.variant
    }

    /// Whether both are of one object.
    pub(super) fn has_same_streams(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.streams, &other.streams)
    }

    pub(super) fn place(&self) -> RoutePlace {
        (self.name.clone(), self.variant.clone(), self.listener.clone())
    }

    /// Keeps the configuration until it is applied, as far as the proxy has it when it loads the next one in its place. Not for one that
    /// is the same but for its load: the next one keeps it, if that is used.
    pub(super) fn keep_beside(&mut self, next: &Self) {
        if !Weak::ptr_eq(&self.edition, &next.edition) || self.denials != next.denials {
            self.keep_parts();
        }
    }

    /// Keeps the configuration until it is applied. False if the proxy has refused it.
    pub(super) fn keep(&mut self) -> bool {
        let is_used = self.load.is_shared();
        if is_used {
            self.keep_parts();
        }
        is_used || self.kept.is_some()
    }

    fn keep_parts(&mut self) {
        self.kept.get_or_insert_with(|| KeptLoad {
            _edition: self.edition.upgrade(),
            _streams: self.streams.upgrade(),
            _cluster: self.judge.upgrade(),
            _hosts: self.hosts.upgrade(),
        });
    }

    /// Has the configuration be in use again, after others of its cluster: [`RouteUpdate::apply`] follows.
    pub(super) fn renew(&self) {
        self.load.renew();
    }

    /// Applies the changes, unless nothing uses the configuration under these host names: streams of servers that are gone, of another
    /// object that had the name, and of editions beyond the bound will end, and queues have the numbers of this configuration. Returns the
    /// streams on which [`StreamRegistry::expire`] has to be called because of that.
    pub fn apply(&self, owners: &StreamOwners<T>, at: Moment) -> Vec<StreamCall<T>> {
        let (Some(edition), Some(streams)) = (self.edition.upgrade(), self.streams.upgrade()) else {
            return Vec::new();
        };
        // An edition in use may have a load under other host names that the proxy refused. Its judge would take the place of one in use.
        if !self.variant.is_empty() && self.hosts.strong_count() == 0 {
            return Vec::new();
        }
        let uptime = at.uptime;
        for (queue, config) in self.queues.iter().filter(|_| !self.is_replaced) {
            queue.configure(config);
        }
        let on_servers = self.servers.as_ref().filter(|_| !self.is_replaced).and_then(|servers| {
            let names = servers.names.iter().map(String::as_str);
            streams.set_servers(names, Duration::from_secs(servers.drain_seconds), edition.id(), uptime)
        });
        let by_limit = (!self.is_replaced).then(|| streams.limit_sessions(self.session_limit)).flatten();
        let judge: Arc<dyn StreamJudge> = Arc::new(RouteJudge {
            cluster: Weak::clone(&self.judge),
            digest: self.denials,
            variant: self.variant.clone(),
            listener: self.listener.clone(),
            hosts: Weak::clone(&self.hosts),
        });
        let load = self.load.get();
        let by_denial = streams.judge(&judge, edition.id(), load, at);
        let next = on_servers.into_iter().chain(by_limit).chain(by_denial).min();
        let others = owners.others(&self.name, &self.object).into_iter();
        // Of a former object, too: the lists are those of the name's owner now.
        let others = others.filter_map(|other| {
            let by_denial = other.judge(&judge, edition.id(), load, at);
            let next = other.close(uptime).into_iter().chain(by_denial).min()?;
            Some((other, next))
        });
        let of_ended = owners.use_edition(&self.name, &edition).into_iter().map(|streams| (streams, uptime));
        next.map(|at| (streams, at)).into_iter().chain(others).chain(of_ended).collect()
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
        Ok(RouteConfig::of(&config, streams, compiled, |digest| clusters.hosts(digest, &config)))
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
        Ok(RouteConfig::of(config, streams, (compiled, None), |_| Arc::new(DoorHosts::of(config))))
    }

    fn of(
        config: &ClusterConfig,
        streams: Arc<StreamRegistry<T>>,
        (compiled, load): (Arc<CompiledEdition>, Option<EditionLoad>),
        hosts: impl FnOnce([u8; 64]) -> Arc<DoorHosts>,
    ) -> (Self, RouteUpdate<T>) {
        let cluster = Cluster::named(&config.authorities, Arc::clone(&compiled.cluster));
        let (edition, number) = (Arc::clone(&compiled.edition), LoadNumber::newest());
        let denials = digest_of_door(compiled.denials, config);
        let hosts = (!config.variant.is_empty()).then(|| hosts(denials));
        let update = RouteUpdate {
            name: config.name.clone(),
            object: config.object.clone(),
            edition: Arc::downgrade(&edition),
            load: number.clone(),
            streams: Arc::downgrade(&streams),
            servers: config.servers.clone(),
            session_limit: config.max_session_duration_seconds.map(Duration::from_secs),
            judge: Arc::downgrade(&compiled.cluster),
            denials,
            variant: config.variant.as_str().into(),
            listener: config.listener.as_str().into(),
            hosts: hosts.as_ref().map(Arc::downgrade).unwrap_or_default(),
            kept: None,
            is_replaced: false,
            queues: cluster.queues().cloned().zip(config.fair_queues.iter().cloned()).collect(),
        };
        let (name, listener) = (config.name.clone(), config.listener.as_str().into());
        let route = RouteConfig {
            name,
            cluster,
            streams,
            edition,
            load: number,
            listener,
            _compiled: compiled,
            _load: load,
            _hosts: hosts,
        };
        (route, update)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

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
            edition: &first.edition,
            load: first.load.get(),
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
            edition: &first.edition,
            load: first.load.get(),
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
        assert_eq!((owners.ended(), first.edition.is_ended()), (0, false));
        let _newer = load("a.test", Some(1));
        let again = load("a.test", None);
        assert!(!Arc::ptr_eq(&again.edition, &first.edition), "what the newer one set is set again");
        let kept: Vec<_> = (2..300).map(|limit| load("a.test", Some(limit))).collect();
        assert!(first.edition.is_ended() && !kept.last().unwrap().edition.is_ended(), "edits of anything else");
    }
}
