//! Running requests, and the first denial of a door that comes after them.

use std::cell::Cell;

use portcullis_filter_config::{AccessEntry, AccessLists, AccessScope, ClusterConfig};

use super::*;
use crate::gateway::tests::plain_config;
use crate::long_streams::StreamOwners;
use crate::state_store::EphemeralState;
use crate::testing::moment;

const ADDRESS: &str = "10.0.0.1:443";

struct Doors {
    fixture: Fixture,
    owners: StreamOwners<()>,
    clusters: CompiledClusters,
}

/// A variant of the cluster's configuration at a listener.
#[derive(Clone, Copy)]
struct DoorVariant<'a> {
    variant: &'a str,
    listener: &'a str,
    names: &'a [&'a str],
    narrower: &'a [&'a str],
}

impl<'a> DoorVariant<'a> {
    fn new(variant: &'a str, names: &'a [&'a str]) -> Self {
        DoorVariant { variant, listener: "https", names, narrower: &[] }
    }
}

impl Doors {
    fn new() -> Self {
        Doors { fixture: fixture(), owners: StreamOwners::default(), clusters: CompiledClusters::default() }
    }

    fn compile(&self, door: DoorVariant<'_>, denies: bool) -> (RouteConfig<()>, RouteUpdate<()>) {
        let everything = AccessLists { scope: AccessScope::Cluster, deny: vec![AccessEntry::default()], allow: vec![] };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let config = ClusterConfig {
            variant: door.variant.to_owned(),
            listener: door.listener.to_owned(),
            authorities: names(door.names),
            narrower_authorities: names(door.narrower),
            access: denies.then_some(everything).into_iter().collect(),
            ..plain_config(Some(self.fixture.ca.pem()))
        };
        let text = serde_json::to_vec(&config).unwrap();
        RouteConfig::load(&text, &EphemeralState([7; 32]), &self.owners, &self.clusters).unwrap()
    }

    /// Has streams judged by a configuration that is in use. Whether some are to be judged.
    fn apply(&self, update: &RouteUpdate<()>) -> bool {
        !update.apply(&self.owners, moment(Duration::ZERO)).is_empty()
    }

    /// Puts a variant of the cluster's configuration into use.
    fn load(&self, door: DoorVariant<'_>, denies: bool) -> RouteConfig<()> {
        let (route, update) = self.compile(door, denies);
        self.apply(&update);
        route
    }

    /// A watch for an authority, by a connection for a server name. Its answer has not begun.
    fn watch(
        &self,
        route: &RouteConfig<()>,
        authority: &str,
        server_name: Option<&'static str>,
    ) -> (Exchange<()>, Proxy) {
        let mut host = self.client(authority, server_name);
        let exchange = self.begin(route, &mut host);
        (exchange, host)
    }

    fn client(&self, authority: &str, server_name: Option<&'static str>) -> Proxy {
        let mut host = proxy(&self.fixture, WATCH, &[]);
        host.headers.retain(|(name, _)| name != b":authority");
        host.headers.push((b":authority".to_vec(), authority.as_bytes().to_vec()));
        (host.server_name, host.status, host.server) = (server_name, Some("200"), Some("a".to_owned()));
        host
    }

    fn begin(&self, route: &RouteConfig<()>, host: &mut Proxy) -> Exchange<()> {
        let mut exchange = Exchange::default();
        assert_eq!(exchange.request_headers(&self.fixture.gateway, Some(route), host), Next::Continue);
        exchange
    }
}

/// A connection may be for each of a listener's names, and an address as authority does not say for which.
#[test]
fn first_denial_of_a_door_ends_requests_by_address() {
    let route = DoorVariant::new("*/team/a", &["a.test"]);
    let gateway = DoorVariant::new("*", &["a.test", "b.test", "*.wide.test"]);
    let open = DoorVariant { narrower: &["a.test"], ..DoorVariant::new("*/team/b", &["*"]) };
    let table = [
        (ADDRESS, Some("a.test"), route, true),
        ("[::1]:443", Some("A.test"), route, true),
        (ADDRESS, Some("b.test"), route, false),
        ("a.test", Some("b.test"), route, true),
        ("b.test:443", Some("a.test"), route, false),
        (ADDRESS, Some("b.test"), gateway, true),
        (ADDRESS, Some("x.y.wide.test"), gateway, true),
        // A proxy finds a filter chain for these, too.
        (ADDRESS, Some("x:y.wide.test"), gateway, true),
        (ADDRESS, Some("[x.wide.test"), gateway, true),
        // Without a server name it found the chain of a route that has no names.
        (ADDRESS, Some(""), gateway, false),
        (ADDRESS, None, gateway, false),
        (ADDRESS, None, route, false),
        (ADDRESS, None, open, true),
        (ADDRESS, Some("a.test"), open, false),
    ];
    for (authority, server_name, door, is_ended) in table {
        for answers_later in [false, true] {
            let doors = Doors::new();
            let own = doors.load(DoorVariant::new("", gateway.names), false);
            let (mut exchange, mut host) = doors.watch(&own, authority, server_name);
            if !answers_later {
                exchange.response_headers(&mut host);
            }
            let _tight = doors.load(door, true);
            if answers_later {
                exchange.response_headers(&mut host);
            }
            let case = (authority, server_name, door.variant, answers_later);
            assert_eq!(ended(&own), is_ended, "{case:?}");
        }
    }
}

/// Routes of several tenants may lead to one cluster, at one listener and at several.
#[test]
fn denial_of_a_route_ends_no_requests_by_another() {
    let wide = DoorVariant {
        narrower: &["x.wide.test", "*.deep.wide.test"],
        ..DoorVariant::new("*/team/a", &["*.wide.test"])
    };
    let names = ["x.wide.test", "y.wide.test", "z.deep.wide.test"];
    let table = [
        ("https", "y.wide.test", Some("y.wide.test"), true),
        ("https", "x.wide.test", Some("x.wide.test"), false),
        ("https", ADDRESS, Some("y.wide.test"), true),
        ("https", ADDRESS, Some("a.y.wide.test"), true),
        ("https", ADDRESS, Some("x.wide.test"), false),
        ("https", "z.deep.wide.test", Some("z.deep.wide.test"), false),
        ("https", ADDRESS, Some("z.deep.wide.test"), false),
        ("other", "y.wide.test", Some("y.wide.test"), false),
        ("other", ADDRESS, Some("y.wide.test"), false),
        ("other", ADDRESS, None, false),
        // The listener of a configuration of before is not known.
        ("", "y.wide.test", Some("y.wide.test"), true),
    ];
    for (listener, authority, server_name, is_ended) in table {
        for answers_later in [false, true] {
            let doors = Doors::new();
            let own = doors.load(DoorVariant { listener, ..DoorVariant::new("", &names) }, false);
            let (mut exchange, mut host) = doors.watch(&own, authority, server_name);
            if !answers_later {
                exchange.response_headers(&mut host);
            }
            // At each edit.
            let _edits = [doors.load(wide, true), doors.load(wide, false), doors.load(wide, true)];
            if answers_later {
                exchange.response_headers(&mut host);
            }
            assert_eq!(ended(&own), is_ended, "{listener} {authority} {server_name:?} {answers_later}");
        }
    }
}

/// A proxy compiles all doors of a listener at an edit of one, and frees the former ones before the new ones count.
#[test]
fn doors_that_an_edit_leaves_alone_judge_nothing_again() {
    let doors = Doors::new();
    let both = [DoorVariant::new("*/team/a", &["a.test"]), DoorVariant::new("*/team/b", &["b.test"])];
    let first = both.map(|door| doors.load(door, false));
    let kept = first.each_ref().map(|route| {
        let (mut exchange, mut host) = doors.watch(route, ADDRESS, None);
        exchange.response_headers(&mut host);
        exchange
    });
    let again = both.map(|door| doors.compile(door, false));
    drop(first);
    assert_eq!(again.each_ref().map(|(_, update)| doors.apply(update)), [false; 2]);
    let [(_one, _), (other, _)] = again;
    drop(other);
    let (_back, update) = doors.compile(both[1], false);
    assert!(doors.apply(&update), "the route had no policy in between");
    drop(kept);
}

/// A watch that was begun under the denial keeps what it is of. A request by the cluster's own names shows that no route had them.
#[test]
fn denial_that_comes_back_ends_requests_of_the_time_between() {
    for answers_later in [false, true] {
        let doors = Doors::new();
        let door = DoorVariant::new("*/team/a", &["a.test"]);
        let _kept = doors.load(door, true);
        let own = doors.load(DoorVariant::new("", &["a.test"]), false);
        let mut host = doors.client("a.test", None);
        host.moment = Some(moment(Duration::from_secs(5)));
        let mut exchange = doors.begin(&own, &mut host);
        if !answers_later {
            exchange.response_headers(&mut host);
        }
        let (_back, update) = doors.compile(door, true);
        drop(update.apply(&doors.owners, moment(Duration::from_secs(9))));
        if answers_later {
            exchange.response_headers(&mut host);
        }
        assert!(ended(&own), "{answers_later}");
    }
}

/// The cluster's own configuration is not loaded while each door has policies. Its denials may move to these doors meanwhile, and back.
#[test]
fn denial_of_a_cluster_that_comes_back_ends_requests() {
    for answers_later in [false, true] {
        let doors = Doors::new();
        let _kept = doors.load(DoorVariant::new("", &["a.test"]), true);
        let gateway = doors.load(DoorVariant::new("*", &["a.test"]), false);
        let mut host = doors.client("a.test", None);
        host.moment = Some(moment(Duration::from_secs(5)));
        let mut exchange = doors.begin(&gateway, &mut host);
        if !answers_later {
            exchange.response_headers(&mut host);
        }
        let (_back, update) = doors.compile(DoorVariant::new("", &["a.test"]), true);
        drop(update.apply(&doors.owners, moment(Duration::from_secs(9))));
        if answers_later {
            exchange.response_headers(&mut host);
        }
        assert!(ended(&gateway), "{answers_later}");
    }
}

/// Workers use a configuration once the proxy has compiled all routes beside it, which may take longer than until its changes apply.
#[test]
fn denial_that_workers_use_late_ends_requests() {
    let at = Duration::from_secs;
    for (begun, is_ended) in [(1, true), (5, true), (100, false)] {
        let doors = Doors::new();
        let own = doors.load(DoorVariant::new("", &["a.test"]), false);
        let (_tight, update) = doors.compile(DoorVariant::new("*/team/a", &["a.test"]), true);
        drop(update.apply(&doors.owners, moment(at(1))));
        let mut host = doors.client("a.test", None);
        host.moment = Some(moment(at(begun)));
        let mut exchange = doors.begin(&own, &mut host);
        exchange.response_headers(&mut host);
        assert_eq!(ended(&own), is_ended, "{begun}");
    }
}

/// A denial may apply when its route is gone, and another one has the name.
#[test]
fn denial_ends_no_requests_of_the_next_owner_of_a_name() {
    let at = Duration::from_secs;
    for is_known in [false, true] {
        let doors = Doors::new();
        let door = DoorVariant::new("*/team/a", &["a.test"]);
        let _before = is_known.then(|| doors.load(door, true));
        let (_tight, update) = doors.compile(door, true);
        let own = doors.load(DoorVariant::new("", &["a.test"]), false);
        let mut host = doors.client("a.test", None);
        host.moment = Some(moment(at(5)));
        let mut exchange = doors.begin(&own, &mut host);
        exchange.response_headers(&mut host);
        drop(update.apply(&doors.owners, moment(at(9))));
        assert!(!ended(&own), "{is_known}");
    }
}

/// A tenant may edit the policies of a route faster than changes are applied.
#[test]
fn denial_that_an_edit_replaces_soon_ends_requests() {
    let door = DoorVariant::new("*/team/a", &["a.test"]);
    let gateway = DoorVariant::new("*", &["a.test", "b.test"]);
    // (what follows, whether the proxy has refused what was before, whether that ends requests)
    let table = [
        (door, true, false, true),
        (door, false, false, true),
        (gateway, false, true, false),
        (door, false, true, false),
        (door, true, true, false),
    ];
    for (next, denies, is_refused, is_ended) in table {
        let doors = Doors::new();
        let own = doors.load(DoorVariant::new("", &["a.test"]), false);
        let (mut exchange, mut host) = doors.watch(&own, "a.test", None);
        exchange.response_headers(&mut host);
        let at = |milliseconds| Duration::from_millis(milliseconds);
        let mut pending = PendingUpdates::default();
        let (route, update) = doors.compile(DoorVariant { names: &["a.test", "c.test"], ..door }, true);
        pending.add(update, at(1_000));
        let in_use = (!is_refused).then_some(route);
        let (_next, update) = doors.compile(next, denies);
        pending.add(update, at(1_300));
        // The proxy uses the next one.
        drop(in_use);
        let due = pending.take_due(at(1_000)).unwrap();
        assert_eq!(pending.next(), Some(at(1_300)));
        doors.apply(&due);
        drop(due);
        assert_eq!(ended(&own), is_ended, "{} {denies} {is_refused}", next.variant);
    }
}

/// A tenant may also attach and detach a policy, by which the cluster's own denials are now in one configuration and now in another.
#[test]
fn denial_that_was_in_use_ends_requests_whatever_follows() {
    let at = |milliseconds| Duration::from_millis(milliseconds);
    for is_refused in [false, true] {
        let doors = Doors::new();
        let own = doors.load(DoorVariant::new("", &["a.test"]), false);
        let (mut exchange, mut host) = doors.watch(&own, "a.test", None);
        exchange.response_headers(&mut host);
        let mut pending = PendingUpdates::default();
        let (route, update) = doors.compile(DoorVariant::new("", &["a.test"]), true);
        pending.add(update, at(60_000));
        let in_use = (!is_refused).then_some(route);
        assert!(pending.take_due(at(2_000)).is_none(), "the proxy may refuse it yet");
        assert_eq!(pending.settle(at(3_000)).len(), usize::from(is_refused));
        let (_next, update) = doors.compile(DoorVariant::new("*/team/a", &["a.test"]), false);
        pending.add(update, at(60_400));
        drop(in_use);
        assert!(!pending.is_settled());
        assert!(pending.settle(at(3_400)).is_empty() && pending.is_settled());
        std::iter::from_fn(|| pending.take_due(at(3_000))).for_each(|update| _ = doors.apply(&update));
        assert_eq!((ended(&own), pending.next()), (!is_refused, Some(at(3_400))));
    }
}

/// One route configuration may have a load twice.
#[test]
fn refused_configuration_that_is_loaded_twice_ends_nothing() {
    let doors = Doors::new();
    let own = doors.load(DoorVariant::new("", &["a.test"]), false);
    let (mut exchange, mut host) = doors.watch(&own, "a.test", None);
    exchange.response_headers(&mut host);
    let mut pending = PendingUpdates::default();
    let loads = [0, 1].map(|_| doors.compile(DoorVariant::new("*/team/a", &["a.test"]), true));
    let refused = loads.map(|(route, update)| {
        pending.add(update, Duration::ZERO);
        route
    });
    drop(refused);
    std::iter::from_fn(|| pending.take_due(Duration::ZERO)).for_each(|update| _ = doors.apply(&update));
    assert!(!ended(&own));
}

/// The proxy compiles all routes of a listener before it refuses one of them: other names of a route may be gone again, and its denials
/// are in use under the former ones.
#[test]
fn refused_edit_of_names_leaves_the_judge_of_the_former() {
    let doors = Doors::new();
    let door = DoorVariant::new("*/team/a", &["a.test"]);
    let own = doors.load(DoorVariant::new("", &["a.test"]), false);
    let _in_use = doors.load(door, true);
    let (refused, update) = doors.compile(DoorVariant { names: &["a.test", "c.test"], ..door }, true);
    drop(refused);
    doors.apply(&update);
    let (mut exchange, mut host) = doors.watch(&own, "a.test", None);
    exchange.response_headers(&mut host);
    assert!(ended(&own));
}

/// Whether a denial has ended a request.
pub(super) fn ended(route: &RouteConfig<()>) -> bool {
    let ended = Cell::new(false);
    route.streams.expire(Duration::ZERO, |(), why| ended.set(why == TerminationReason::NewlyDenied));
    ended.get()
}
