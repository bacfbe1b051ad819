//! Configurations as a proxy hands them over, compiled.

use std::collections::HashMap;
use std::rc::{self, Rc};
use std::sync::{Arc, Weak};
use std::time::Duration;

use portcullis_filter_config::{ClusterConfig, FairQueueConfig, FilterConfig, PeerSource, Servers};

use super::route_judge::{RouteJudge, digest_of_denials};
use crate::cluster::{Cluster, CompileError};
use crate::fair::FairQueue;
use crate::gateway::Gateway;
use crate::long_streams::{Edition, StreamJudge, StreamOwners, StreamRegistry};
use crate::moment::Moment;
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
    pub cluster: Arc<Cluster>,
    /// Outlives the configuration: streams of an earlier one hear of what was edited.
    pub streams: Arc<StreamRegistry<T>>,
    /// Alive for as long as the proxy keeps the configuration.
    pub edition: Arc<Edition>,
}

/// The changes that a configuration makes to requests which run or wait already. Until [`RouteUpdate::apply`] there are none: a proxy may
/// refuse what it has compiled.
#[derive(Debug)]
#[must_use]
pub struct RouteUpdate<T> {
    name: String,
    object: String,
    edition: Weak<Edition>,
    streams: Weak<StreamRegistry<T>>,
    servers: Option<Servers>,
    session_limit: Option<Duration>,
    queues: Vec<(Arc<FairQueue>, FairQueueConfig)>,
    judge: Weak<Cluster>,
    denials: [u8; 64],
}

impl<T> RouteUpdate<T> {
    /// Applies the changes, unless nothing uses the configuration: streams of servers that are gone, of another object that had the
    /// name, and of editions beyond the bound will end, and queues have the numbers of this configuration. Returns the streams on
    /// which [`StreamRegistry::expire`] has to be called because of that.
    pub fn apply(&self, owners: &StreamOwners<T>, at: Moment) -> Vec<StreamCall<T>> {
        let (Some(edition), Some(streams)) = (self.edition.upgrade(), self.streams.upgrade()) else {
            return Vec::new();
        };
        let uptime = at.uptime;
        for (queue, config) in &self.queues {
            queue.configure(config);
        }
        let on_servers = self.servers.as_ref().and_then(|servers| {
            let names = servers.names.iter().map(String::as_str);
            streams.set_servers(names, Duration::from_secs(servers.drain_seconds), edition.id(), uptime)
        });
        let by_limit = streams.limit_sessions(self.session_limit);
        let judge: Arc<dyn StreamJudge> =
            Arc::new(RouteJudge { cluster: Weak::clone(&self.judge), digest: self.denials });
        let by_denial = streams.judge(&judge, edition.id(), at);
        let next = on_servers.into_iter().chain(by_limit).chain(by_denial).min();
        let others = owners.others(&self.name, &self.object).into_iter();
        // Of a former object, too: the lists are those of the name's owner now.
        let others = others.filter_map(|other| {
            let by_denial = other.judge(&judge, edition.id(), at);
            let next = other.close(uptime).into_iter().chain(by_denial).min()?;
            Some((other, next))
        });
        let of_ended = owners.use_edition(&self.name, &edition).into_iter().map(|streams| (streams, uptime));
        next.map(|at| (streams, at)).into_iter().chain(others).chain(of_ended).collect()
    }
}

impl<T> RouteConfig<T> {
    /// Compiles a configuration from JSON ([`RouteConfig::compile`]).
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(
        text: &[u8],
        memory: &impl StateStore,
        owners: &StreamOwners<T>,
    ) -> Result<(Self, RouteUpdate<T>), LoadError> {
        let config: ClusterConfig = serde_json::from_slice(text)?;
        let streams = owners.of(&config.name, &config.object);
        RouteConfig::compile(&config, memory, streams, text.len())
            .map_err(|error| LoadError::Cluster(config.name.clone(), error))
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
        let cluster = Arc::new(Cluster::compile(config, memory)?);
        let edition = Arc::new(Edition::new(cluster.series().id(), text, cluster.entries()));
        let update = RouteUpdate {
            name: config.name.clone(),
            object: config.object.clone(),
            edition: Arc::downgrade(&edition),
            streams: Arc::downgrade(&streams),
            servers: config.servers.clone(),
            session_limit: config.max_session_duration_seconds.map(Duration::from_secs),
            judge: Arc::downgrade(&cluster),
            denials: digest_of_denials(config, edition.id()),
            queues: cluster.queues().cloned().zip(config.fair_queues.iter().cloned()).collect(),
        };
        Ok((RouteConfig { name: config.name.clone(), cluster, streams, edition }, update))
    }
}

/// The clusters' configurations that a worker has met, for a proxy that has no configuration by route: a virtual host carries the
/// text and a digest of it, so that no request has to read the text.
#[derive(Debug)]
pub struct RouteCache<T> {
    routes: HashMap<Vec<u8>, CachedRoute<T>>,
    /// Those that were forgotten while streams kept them: the same text is the same edition again.
    kept: HashMap<Vec<u8>, KeptRoute<T>>,
}

#[derive(Debug)]
struct CachedRoute<T> {
    /// `None` for a configuration that cannot be used.
    route: Option<(Rc<RouteConfig<T>>, RouteUpdate<T>)>,
    used: Duration,
}

#[derive(Debug)]
struct KeptRoute<T> {
    route: rc::Weak<RouteConfig<T>>,
    update: RouteUpdate<T>,
}

impl<T> CachedRoute<T> {
    fn route(&self) -> Option<Rc<RouteConfig<T>>> {
        self.route.as_ref().map(|(route, _)| Rc::clone(route))
    }
}

impl<T> Default for RouteCache<T> {
    fn default() -> Self {
        RouteCache { routes: HashMap::new(), kept: HashMap::new() }
    }
}

impl<T> RouteCache<T> {
    /// The configuration of the current request. `None` if there is none that can be used: the request fails closed. `apply` gets the
    /// changes of a configuration that comes into use.
    ///
    /// # Errors
    /// [`LoadError`], at the first request.
    pub fn get(
        &mut self,
        digest: Option<Vec<u8>>,
        text: impl FnOnce() -> Option<Vec<u8>>,
        uptime: Duration,
        load: impl FnOnce(&[u8]) -> Result<(RouteConfig<T>, RouteUpdate<T>), LoadError>,
        apply: impl FnOnce(&RouteUpdate<T>),
    ) -> Result<Option<Rc<RouteConfig<T>>>, LoadError> {
        let given = digest.filter(|digest| !digest.is_empty());
        if let Some(cached) = given.as_ref().and_then(|digest| self.routes.get_mut(digest)) {
            cached.used = uptime;
            return Ok(cached.route());
        }
        let Some(text) = text() else { return Ok(None) };
        let digest = hex_digest(&text).to_vec();
        if given.is_some_and(|given| given != digest) {
            return Err(LoadError::Digest);
        }
        // Without a digest in the metadata this one may have been met before, too.
        if let Some(cached) = self.routes.get_mut(&digest) {
            cached.used = uptime;
            return Ok(cached.route());
        }
        let loaded = match self.revive(&digest) {
            Some(kept) => Ok(kept),
            None => load(&text).map(|(route, update)| (Rc::new(route), update)),
        };
        let name = loaded.as_ref().ok().map(|(route, _)| route.name.as_str());
        self.forget(name, uptime);
        if let Ok((_, update)) = &loaded {
            apply(update);
        }
        let (route, error) = match loaded {
            Ok(route) => (Some(route), None),
            Err(error) => (None, Some(error)),
        };
        let cached = CachedRoute { route, used: uptime };
        let found = cached.route();
        self.routes.insert(digest, cached);
        error.map_or(Ok(found), Err)
    }

    /// A configuration that streams have kept, unless they have to end.
    fn revive(&mut self, digest: &[u8]) -> Option<(Rc<RouteConfig<T>>, RouteUpdate<T>)> {
        let kept = self.kept.remove(digest)?;
        let route = kept.route.upgrade().filter(|route| !route.edition.is_ended())?;
        Some((route, kept.update))
    }

    /// Forgets earlier configurations of the cluster, and those of clusters that no request asks for.
    fn forget(&mut self, name: Option<&str>, uptime: Duration) {
        let is_old = |_: &Vec<u8>, cached: &mut CachedRoute<T>| {
            let is_same = cached.route.as_ref().is_some_and(|(route, _)| Some(route.name.as_str()) == name);
            is_same || uptime.saturating_sub(cached.used) >= IDLE_TTL
        };
        self.kept.retain(|_, kept| kept.route.strong_count() > 0);
        for (digest, cached) in self.routes.extract_if(is_old) {
            let in_use = cached.route.filter(|(route, _)| Rc::strong_count(route) > 1);
            let kept = in_use.map(|(route, update)| KeptRoute { route: Rc::downgrade(&route), update });
            self.kept.extend(kept.map(|kept| (digest, kept)));
        }
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
        let owners = StreamOwners::default();
        let load = |object: &str, limit, drain_seconds, now| {
            let config = ClusterConfig {
                object: object.to_owned(),
                max_session_duration_seconds: limit,
                servers: Some(Servers { names: vec!["a".into()], drain_seconds }),
                ..plain_config(None)
            };
            let text = serde_json::to_vec(&config).unwrap();
            let (route, update) = RouteConfig::load(&text, &EphemeralState([7; 32]), &owners).unwrap();
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
            let (refused, update) = RouteConfig::load(&text(object), &EphemeralState([7; 32]), &owners).unwrap();
            drop(refused);
            assert!(update.apply(&owners, moment(at(150))).is_empty());
        }
        assert_eq!(ended(&second, 150), (vec![], None), "what the proxy refuses ends nothing");
        let (edited, calls) = load("2", Some(5), 600, 200);
        assert!(Arc::ptr_eq(&edited.streams, &second.streams) && calls.is_empty(), "an edit of the same object");
    }

    #[test]
    fn text_that_streams_keep_is_one_edition() {
        let owners = StreamOwners::<u32>::default();
        let mut cache = RouteCache::default();
        let mut seen = |name: &str, limit: u64| {
            let config = ClusterConfig {
                name: name.to_owned(),
                max_session_duration_seconds: Some(limit),
                ..plain_config(None)
            };
            let text = serde_json::to_vec(&config).unwrap();
            let load = |text: &[u8]| RouteConfig::load(text, &EphemeralState([7; 32]), &owners);
            let apply = |update: &RouteUpdate<u32>| drop(update.apply(&owners, moment(at(0))));
            cache.get(None, || Some(text), at(0), load, apply).unwrap().unwrap()
        };
        // A stream of each of two editions, which take turns.
        let (first, second) = (seen("a", 1), seen("a", 2));
        for _ in 0..1_000 {
            assert!(Rc::ptr_eq(&first, &seen("a", 1)) && Rc::ptr_eq(&second, &seen("a", 2)));
        }
        let session =
            StreamStart { server: None, is_session: true, is_answer: false, edition: &first.edition, origin: None };
        assert_eq!(first.streams.register(session, 1, moment(at(0))).1, Some(at(2)), "the limit of the newest");
        seen("a", 1);
        assert_eq!(first.streams.expire(at(0), |_, _| ()), None);
        assert_eq!((owners.ended(), first.edition.is_ended()), (0, false));
        let weak = Rc::downgrade(&second);
        drop(second);
        assert_eq!(weak.strong_count(), 0, "nothing else keeps it");
        let kept: Vec<_> = (10..300).map(|limit| seen("a", limit)).collect();
        assert!(first.edition.is_ended() && !kept.last().unwrap().edition.is_ended());
        assert!(!Rc::ptr_eq(&first, &seen("a", 1)), "its streams have to end: requests get one of their own");
    }
}
