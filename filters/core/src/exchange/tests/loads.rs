//! Route tables that streams keep whole, as a proxy has them: a stream of one route keeps the configurations of all others beside it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use portcullis_filter_config::ClusterConfig;

use super::*;
use crate::gateway::tests::plain_config;
use crate::long_streams::{StreamGuard, StreamOwners, StreamStart};
use crate::state_store::EphemeralState;
use crate::testing::moment;

/// The cluster's own configuration, and those of two tenants' routes.
const VARIANTS: [&str; 3] = ["", "https/team/a", "https/other/b"];

type RouteTable = Rc<Vec<RouteConfig<u64>>>;

/// A listener of a Gateway, with the streams that run there.
#[derive(Default)]
struct Listener {
    owners: StreamOwners<u64>,
    clusters: CompiledClusters,
    pending: PendingUpdates<u64>,
    /// The uptime at which changes apply that no turn has settled.
    applied_after: Duration,
    /// By what the configuration of each variant differs from its other editions.
    editions: [u64; 3],
    /// All tables that the proxy has had.
    tables: Vec<Weak<Vec<RouteConfig<u64>>>>,
    streams: BTreeMap<u64, (StreamGuard<u64>, RouteTable)>,
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Listener {
    /// Has all variants compiled anew, as a proxy does at an edit of one.
    fn compile(&mut self) -> RouteTable {
        let mut table = Vec::new();
        for (variant, edition) in VARIANTS.iter().zip(self.editions) {
            let config = ClusterConfig {
                variant: (*variant).to_owned(),
                listener: "https".to_owned(),
                max_session_duration_seconds: Some(1_000_000 + edition),
                ..plain_config(None)
            };
            let text = serde_json::to_vec(&config).unwrap();
            let loaded = RouteConfig::load(&text, &EphemeralState([7; 32]), &self.owners, &self.clusters);
            let (route, update) = loaded.unwrap();
            self.pending.add(update, self.applied_after);
            table.push(route);
        }
        let table = Rc::new(table);
        self.tables.push(Rc::downgrade(&table));
        table
    }

    /// Applies what is due, and returns the streams that end because of it.
    fn apply(&mut self, uptime: u64) -> Vec<u64> {
        let ended = RefCell::new(Vec::new());
        while let Some(update) = self.pending.take_due(at(uptime)) {
            for (streams, due) in update.apply(&self.owners, moment(at(uptime))) {
                streams.expire(due, |stream, why| {
                    assert_eq!(why, TerminationReason::ConfigurationReplaced);
                    ended.borrow_mut().push(*stream);
                });
            }
        }
        let ended = ended.into_inner();
        ended.iter().for_each(|stream| _ = self.streams.remove(stream));
        ended
    }

    /// Has the proxy use a new table. Returns the streams that end because of it.
    fn edit(&mut self, uptime: u64) -> (RouteTable, Vec<u64>) {
        let table = self.compile();
        assert!(self.pending.settle(at(uptime)).is_empty());
        let ended = self.apply(uptime);
        (table, ended)
    }

    /// Begins a stream of a variant, which runs on.
    fn begin(&mut self, number: u64, table: &RouteTable, variant: usize) {
        let route = &table[variant];
        let start = StreamStart {
            server: None,
            is_session: false,
            is_answer: false,
            kept: &route.load,
            load: route.load.number(),
            received: Duration::ZERO,
            origin: None,
        };
        let (guard, _) = route.streams.register(start, number, moment(Duration::ZERO));
        self.streams.insert(number, (guard, Rc::clone(table)));
    }

    fn tables(&self) -> usize {
        self.tables.iter().filter(|table| table.strong_count() > 0).count()
    }
}

/// The streams are of a route that is not edited: an edition of the edited route whose streams end would be kept by them.
#[test]
fn edits_of_one_route_keep_few_tables_by_streams_of_another() {
    let mut listener = Listener::default();
    let (quiet, _) = listener.edit(0);
    listener.begin(0, &quiet, 2);
    let mut in_use = quiet;
    for edit in 1..=1_000 {
        listener.editions[1] = edit;
        let (next, ended) = listener.edit(3_600 + edit);
        in_use = next;
        assert!(ended.iter().all(|stream| stream + 200 < edit), "{edit}: {ended:?} are the oldest of the storm");
        listener.begin(edit, &in_use, 2);
        let tables = listener.tables();
        assert!(tables <= 256, "{edit}: {tables} tables");
    }
    assert!(listener.streams.contains_key(&0), "a stream of the quiet hour before goes on");
    assert_eq!((listener.streams.len(), listener.tables()), (256, 256));
    assert!(in_use.iter().chain(&*listener.streams[&0].1).all(|route| !route.is_ended()));
    listener.streams.clear();
    assert_eq!(listener.tables(), 1, "nothing else keeps them");
}

/// An upload or a request that waits is in no registry: its worker finds it by its group.
#[test]
fn streams_of_all_routes_of_an_ended_load_are_found() {
    let mut listener = Listener::default();
    let mut tables = Vec::new();
    for edit in 0..300 {
        listener.editions[1] = edit;
        tables.push(listener.edit(edit).0);
    }
    let ended = listener.owners.ended_loads(0);
    for (number, table) in tables.iter().enumerate() {
        for route in table.iter() {
            assert_eq!(
                (route.is_ended(), ended.contains(route.stream_group())),
                (number < 44, number < 44),
                "{number}"
            );
        }
    }
    assert!(!ended.contains(0) && !ended.contains(u64::MAX));
}

#[test]
fn refused_tables_count_for_nothing() {
    let mut listener = Listener::default();
    let mut kept = Vec::new();
    for edit in 0..250 {
        listener.editions[1] = edit;
        kept.push(listener.edit(edit).0);
        // Of host names alone, and of something else.
        for further in [0, 1_000] {
            listener.editions[1] = edit + further;
            drop(listener.compile());
            assert_eq!(listener.pending.settle(at(edit)).len(), 3);
            assert_eq!(listener.apply(edit), [0; 0]);
        }
    }
    assert_eq!((listener.tables(), listener.owners.ended()), (250, 0));
}

/// No turn shows the loads of one update if no filter configuration is there that could be woken.
#[test]
fn tables_without_a_turn_are_kept_whole() {
    let mut listener = Listener { applied_after: at(1), ..Listener::default() };
    let mut tables = Vec::new();
    for edit in 0..300 {
        listener.editions = [edit; 3];
        tables.push(listener.compile());
        listener.apply(edit + 1);
    }
    for (number, table) in tables.iter().enumerate() {
        assert!(table.iter().all(|route| route.is_ended() == (number < 44)), "{number}");
    }
}

/// The proxy has the load as a route still, as where its worker is late: not all requests under it must be reset.
#[test]
fn request_under_an_ended_load_goes_on() {
    let fixture = fixture();
    let (owners, clusters) = (StreamOwners::<()>::default(), CompiledClusters::default());
    let load = |limit: u64| {
        let config =
            ClusterConfig { max_session_duration_seconds: Some(limit), ..plain_config(Some(fixture.ca.pem())) };
        let text = serde_json::to_vec(&config).unwrap();
        let (route, update) = RouteConfig::load(&text, &EphemeralState([7; 32]), &owners, &clusters).unwrap();
        drop(update.apply(&owners, moment(at(limit))));
        route
    };
    let routes: Vec<_> = (1..=300).map(load).collect();
    assert!(routes[0].is_ended());
    let mut host = proxy(&fixture, WATCH, &[]);
    let mut exchange = Exchange::default();
    assert_eq!(exchange.request_headers(&fixture.gateway, Some(&routes[0]), &mut host), Next::Continue);
    assert!(!routes[0].is_ended());
    let _later: Vec<_> = (301..=400).map(load).collect();
    assert!(!routes[0].is_ended() && routes[1].is_ended(), "in use until now, it is no load of a moment");
}
