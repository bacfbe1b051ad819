use std::sync::{Arc, Weak};
use std::time::Duration;

use portcullis_filter_config::{ClusterConfig, FairQueueConfig, Servers};

use super::door_hosts::DoorHosts;
use super::route_config::RouteConfig;
use super::route_judge::RouteJudge;
use crate::cluster::CompiledCluster;
use crate::fair::FairQueue;
use crate::long_streams::{
    Edition, LoadPart, RouteLoad, StreamJudge, StreamOwners, StreamRegistry, TableLoad, TablePlace,
};
use crate::moment::Moment;

/// Streams to look through, and the uptime at which.
pub type StreamCall<T> = (Arc<StreamRegistry<T>>, Duration);

/// The changes that a configuration makes to requests which run or wait already. Until [`RouteUpdate::apply`] there are none: a proxy may
/// refuse what it has compiled.
#[derive(Debug)]
#[must_use]
pub struct RouteUpdate<T> {
    name: String,
    object: String,
    edition: Weak<Edition>,
    load: RouteLoad,
    /// The memory of the configuration in the load of its route table.
    part: LoadPart,
    streams: Weak<StreamRegistry<T>>,
    values: Arc<RunningValues>,
    judge: Weak<CompiledCluster>,
    denials: [u8; 64],
    variant: Box<str>,
    listener: Box<str>,
    /// The host names of a variant.
    hosts: Weak<DoorHosts>,
    kept: Option<KeptConfig<T>>,
}

/// The servers and numbers of an object by a configuration, which replace those of the one before.
#[derive(Debug)]
struct RunningValues {
    /// The edition that has them.
    edition: u64,
    servers: Option<Servers>,
    session_limit: Option<Duration>,
    queues: Vec<(Arc<FairQueue>, FairQueueConfig)>,
}

/// The place of a load: another load in it replaces the one before.
pub(super) type RoutePlace = (String, Box<str>, Box<str>);

/// A configuration that is applied although the proxy uses the next one already.
#[derive(Debug)]
struct KeptConfig<T> {
    _edition: Option<Arc<Edition>>,
    _streams: Option<Arc<StreamRegistry<T>>>,
    _cluster: Option<Arc<CompiledCluster>>,
    _hosts: Option<Arc<DoorHosts>>,
}

impl<T> RouteUpdate<T> {
    /// Those of a configuration with a text of that many bytes, and the digest of its denials.
    pub(super) fn of(config: &ClusterConfig, route: &RouteConfig<T>, denials: [u8; 64], text: usize) -> Self {
        let values = RunningValues {
            edition: route.edition.id(),
            servers: config.servers.clone(),
            session_limit: config.max_session_duration_seconds.map(Duration::from_secs),
            queues: route.cluster.queues().cloned().zip(config.fair_queues.iter().cloned()).collect(),
        };
        RouteUpdate {
            name: config.name.clone(),
            object: config.object.clone(),
            edition: Arc::downgrade(&route.edition),
            load: route.load.clone(),
            part: LoadPart::new(route.load.id(), &route.edition, text),
            streams: Arc::downgrade(&route.streams),
            values: Arc::new(values),
            judge: Arc::downgrade(&route.compiled.cluster),
            denials,
            variant: config.variant.as_str().into(),
            listener: config.listener.as_str().into(),
            hosts: route.hosts.as_ref().map(Arc::downgrade).unwrap_or_default(),
            kept: None,
        }
    }

    /// The number of the load.
    pub(super) fn number(&self) -> u64 {
        self.load.number()
    }

    /// The same for all loads of one route configuration, once that is in use.
    pub(super) fn raise_number(&self, to: u64) {
        self.load.raise(to);
    }

    /// The cluster's name and the listener; that is empty if it is not known.
    pub(super) fn table(&self) -> (&str, &str) {
        (&self.name, &self.listener)
    }

    /// Its memory in the load of its table.
    pub(super) fn part(&self) -> LoadPart {
        self.part
    }

    /// The load is one with others of its table, unless it is with some already.
    pub(super) fn join(&self, table: &Arc<TableLoad>) {
        self.load.table_or(|| Arc::clone(table));
    }

    /// Whether the proxy has it, and it is not known with which others of its table.
    pub(super) fn is_single(&self) -> bool {
        self.load.is_shared() && !self.load.has_table()
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

    /// Has [`RouteUpdate::apply`] set the servers and numbers of another load of the object, at whichever place: these are the object's.
    /// Judging stays its own.
    pub(super) fn take_values(&mut self, newer: &Self) {
        self.values = Arc::clone(&newer.values);
    }

    /// The cluster's name, and the word for its object.
    pub(super) fn owner(&self) -> (String, String) {
        (self.name.clone(), self.object.clone())
    }

    /// Keeps the configuration until it is applied, as far as the proxy has it when it loads the next one in its place. Not for one that
    /// is the same but for its load: the next one keeps it, if that is used.
    pub(super) fn keep_beside(&mut self, next: &Self) {
        let is_same = Weak::ptr_eq(&self.edition, &next.edition) && self.denials == next.denials;
        if self.load.is_shared() && !is_same {
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
        self.kept.get_or_insert_with(|| KeptConfig {
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
    /// object that had the name, and of loads beyond the bound will end, and queues have the numbers of this configuration. Returns the
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
        let values = &self.values;
        for (queue, config) in &values.queues {
            queue.configure(config);
        }
        let on_servers = values.servers.as_ref().and_then(|servers| {
            let names = servers.names.iter().map(String::as_str);
            streams.set_servers(names, Duration::from_secs(servers.drain_seconds), values.edition, uptime)
        });
        let by_limit = streams.limit_sessions(values.session_limit);
        let judge: Arc<dyn StreamJudge> = Arc::new(RouteJudge {
            cluster: Weak::clone(&self.judge),
            digest: self.denials,
            variant: self.variant.clone(),
            listener: self.listener.clone(),
            hosts: Weak::clone(&self.hosts),
        });
        let load = self.load.number();
        let by_denial = streams.judge(&judge, edition.id(), load, at);
        let next = on_servers.into_iter().chain(by_limit).chain(by_denial).min();
        let others = owners.others(&self.name, &self.object).into_iter();
        // Of a former object, too: the lists are those of the name's owner now.
        let others = others.filter_map(|other| {
            let by_denial = other.judge(&judge, edition.id(), load, at);
            let next = other.close(uptime).into_iter().chain(by_denial).min()?;
            Some((other, next))
        });
        let of_ended = self.use_table(owners, uptime).into_iter().map(|streams| (streams, uptime));
        next.map(|at| (streams, at)).into_iter().chain(others).chain(of_ended).collect()
    }

    /// Notes the load of the table as the newest, if the proxy has it still. Once for all that are loaded together: for the others nothing
    /// is left to do.
    fn use_table(&self, owners: &StreamOwners<T>, uptime: Duration) -> Vec<Arc<StreamRegistry<T>>> {
        if !self.load.is_shared() {
            return Vec::new();
        }
        let load = self.load.table_or(|| TableLoad::alone(uptime, self.part));
        let variant = (!load.is_whole()).then(|| self.variant.clone());
        owners.use_load(&self.name, TablePlace { listener: self.listener.clone(), variant }, load, uptime)
    }
}
