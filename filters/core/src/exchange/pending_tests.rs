use portcullis_filter_config::{ClusterConfig, Servers};

use super::*;
use crate::exchange::{CompiledClusters, RouteConfig};
use crate::gateway::tests::plain_config;
use crate::long_streams::{Edition, RouteLoad, StreamOwners, StreamStart};
use crate::state_store::EphemeralState;
use crate::testing::moment;

/// The loads of a proxy, and the changes that they make.
#[derive(Default)]
struct Loads {
    owners: StreamOwners<u32>,
    clusters: CompiledClusters,
    pending: PendingUpdates<u32>,
}

impl Loads {
    /// Loads a configuration whose changes apply then, unless a turn says another time.
    fn load(&mut self, config: &ClusterConfig, at: Duration) -> RouteConfig<u32> {
        let text = serde_json::to_vec(config).unwrap();
        let loaded = RouteConfig::load(&text, &EphemeralState([7; 32]), &self.owners, &self.clusters);
        let (route, update) = loaded.unwrap();
        self.pending.add(update, at);
        route
    }

    /// Loads one with a limit of sessions.
    fn load_limit(&mut self, object: &str, limit: u64) -> RouteConfig<u32> {
        let config = ClusterConfig {
            object: object.to_owned(),
            max_session_duration_seconds: Some(limit),
            ..plain_config(None)
        };
        self.load(&config, Duration::ZERO)
    }

    /// Loads one of a variant at a listener.
    fn load_variant(&mut self, variant: &str, listener: &str) -> RouteConfig<u32> {
        let config = ClusterConfig { variant: variant.to_owned(), listener: listener.to_owned(), ..plain_config(None) };
        self.load(&config, Duration::ZERO)
    }

    /// Applies the first load that is due.
    fn apply_one(&mut self, uptime: Duration) -> bool {
        let Some(update) = self.pending.take_due(uptime) else { return false };
        drop(update.apply(&self.owners, moment(uptime)));
        true
    }

    /// The limit of an object's sessions, in seconds.
    fn session_limit(&self, object: &str) -> Option<u64> {
        let kept = RouteLoad::newest(&Edition::default());
        let session = StreamStart { is_session: true, ..watch(&kept, None) };
        let streams = self.owners.of(&plain_config(None).name, object);
        let (_guard, end) = streams.register(session, 0, moment(Duration::ZERO));
        end.map(|end| end.as_secs())
    }
}

fn watch<'a>(kept: &'a RouteLoad, server: Option<&'a str>) -> StreamStart<'a> {
    StreamStart {
        server,
        is_session: false,
        is_answer: false,
        kept,
        load: kept.number(),
        received: Duration::ZERO,
        origin: None,
    }
}

#[test]
fn pending_changes_are_taken_in_the_order_of_their_loads() {
    let mut loads = Loads::default();
    let routes = [("a", 1), ("b", 1), ("a", 2), ("c", 3)].map(|(variant, at)| {
        let config = ClusterConfig { variant: variant.to_owned(), ..plain_config(None) };
        loads.load(&config, Duration::from_secs(at))
    });
    let numbers = routes.each_ref().map(|route| route.load.number());
    let mut taken = |uptime| {
        let due: Vec<_> = std::iter::from_fn(|| loads.pending.take_due(Duration::from_secs(uptime))).collect();
        let next = loads.pending.next().map(|at| at.as_secs());
        (due.iter().map(RouteUpdate::number).collect::<Vec<_>>(), next, loads.pending.newest.len())
    };
    assert_eq!(taken(0), (vec![], Some(1), 3));
    assert_eq!(taken(1), (numbers[..2].to_vec(), Some(2), 2));
    assert_eq!(taken(9), (numbers[2..].to_vec(), None, 0));
}

#[test]
fn load_that_is_replaced_applies_the_values_in_use() {
    let mut loads = Loads::default();
    let now = Duration::ZERO;
    let mut routes = Vec::from([100, 200].map(|limit| loads.load_limit("a", limit)));
    assert!(loads.pending.settle(now).is_empty());
    routes.push(loads.load_limit("a", 300));
    assert!(loads.apply_one(now));
    assert_eq!(loads.session_limit("a"), Some(200), "the proxy may yet refuse the last one");
    assert!(loads.pending.settle(now).is_empty());
    for _ in 0..2 {
        assert!(loads.apply_one(now));
        assert_eq!(loads.session_limit("a"), Some(300));
    }
    assert!(!loads.apply_one(now));
    assert!(loads.pending.newest.is_empty() && loads.pending.settled.is_empty());
}

#[test]
fn load_that_no_turn_has_shown_applies_values_of_its_own() {
    let mut loads = Loads::default();
    let _routes = [100, 200].map(|limit| loads.load_limit("a", limit));
    for limit in [100, 200] {
        assert!(loads.apply_one(Duration::ZERO));
        assert_eq!(loads.session_limit("a"), Some(limit));
    }
}

/// Servers and the limit are the object's: a variant that is gone does not bring back those of before.
#[test]
fn load_of_a_place_that_is_gone_has_values_of_its_object() {
    let mut loads = Loads::default();
    let config = |variant: &str, limit: u64| ClusterConfig {
        object: "1".to_owned(),
        variant: variant.to_owned(),
        listener: "l".to_owned(),
        max_session_duration_seconds: Some(limit),
        ..plain_config(None)
    };
    let _first = [("", 10), ("v", 10)].map(|(variant, limit)| loads.load(&config(variant, limit), Duration::ZERO));
    assert!(loads.pending.settle(Duration::from_secs(1)).is_empty());
    let _next = loads.load(&config("", 20), Duration::ZERO);
    assert!(loads.pending.settle(Duration::from_secs(2)).is_empty());
    for _ in 0..2 {
        assert!(loads.apply_one(Duration::from_secs(1)));
        assert_eq!(loads.session_limit("1"), Some(20));
    }
    assert!(!loads.apply_one(Duration::from_secs(1)), "the next load is not due");
    assert!(loads.apply_one(Duration::from_secs(2)) && loads.pending.settled.is_empty());
    assert_eq!(loads.session_limit("1"), Some(20));
}

/// Servers of an object are taken away once they are known.
#[test]
fn load_of_another_object_gives_no_values_to_the_former() {
    let mut loads = Loads::default();
    let _routes = [("a", 100), ("b", 200)].map(|(object, limit)| loads.load_limit(object, limit));
    assert!(loads.pending.settle(Duration::ZERO).is_empty());
    for (object, limit) in [("a", 100), ("b", 200)] {
        assert!(loads.apply_one(Duration::ZERO));
        assert_eq!(loads.session_limit(object), Some(limit));
    }
}

/// An edit of any route loads all of its table. A tenant could keep an operator's servers and limits from holding.
#[test]
fn edits_faster_than_one_a_second_are_applied() {
    let mut loads = Loads::default();
    let mut in_use = None;
    for edit in 0..20 {
        let now = Duration::from_millis(500 * edit);
        in_use = Some(loads.load_limit("a", 1_000 - edit));
        assert!(loads.pending.settle(now + Duration::from_secs(1)).is_empty());
        while loads.apply_one(now) {}
        // Applied a second after the first was taken.
        let expected = (edit >= 2).then_some(1_000 - edit);
        assert_eq!(loads.session_limit("a"), expected, "{edit}");
    }
    drop(in_use);
}

#[test]
fn servers_in_use_are_those_of_their_own_edition() {
    let mut loads = Loads::default();
    let [_first, second] = [vec!["a".into(), "b".into()], vec!["a".into()]].map(|names| {
        let config = ClusterConfig { servers: Some(Servers { names, drain_seconds: 7 }), ..plain_config(None) };
        loads.load(&config, Duration::ZERO)
    });
    assert!(loads.pending.settle(Duration::ZERO).is_empty());
    assert!(loads.apply_one(Duration::ZERO));
    let (_guard, end) = second.streams.register(watch(&second.load, Some("b")), 0, moment(Duration::ZERO));
    assert_eq!(end, Some(Duration::from_secs(7)), "a stream of the second one is on a server that it has removed");
    assert!(loads.apply_one(Duration::from_secs(1)));
    assert_eq!(second.streams.expire(Duration::from_secs(6), |_, _| ()), Some(Duration::from_secs(7)), "once");
}

/// The proxy may send the next one in the turn in which it refuses one.
#[test]
fn refused_load_is_none_of_its_turn() {
    let mut loads = Loads::default();
    let now = Duration::ZERO;
    let of_table = |limit: u64, variant: &str| ClusterConfig {
        variant: variant.to_owned(),
        listener: "a".to_owned(),
        max_session_duration_seconds: Some(limit),
        ..plain_config(None)
    };
    let _first = loads.load(&of_table(100, ""), now);
    assert!(loads.pending.settle(now).is_empty());
    drop(loads.load(&of_table(200, ""), now));
    let next = ["", "v"].map(|variant| loads.load(&of_table(300, variant), now));
    let refused = loads.pending.settle(now);
    assert_eq!(refused.len(), 1);
    assert_eq!(next[0].load.number(), next[1].load.number(), "no other is beside them");
    assert!(loads.apply_one(now));
    assert_eq!(loads.session_limit(""), Some(300), "of the one in use");
}

#[test]
fn loads_that_are_used_together_have_one_number() {
    let mut loads = Loads::default();
    let mut numbers = |variants: &[(&str, &str)]| {
        let routes: Vec<_> = variants.iter().map(|(variant, listener)| loads.load_variant(variant, listener)).collect();
        assert!(loads.pending.settle(Duration::ZERO).is_empty());
        routes.iter().map(|route| route.load.number()).collect::<Vec<_>>()
    };
    let first = numbers(&[("", "a"), ("v", "a"), ("", "b"), ("w", "a")]);
    assert!(first[0] == first[3] && first[1] == first[3] && first[2] < first[3], "{first:?}");
    let next = numbers(&[("", "a"), ("v", "a")]);
    assert!(next[0] == next[1] && next[0] > first[3], "{next:?}");
    // Of two route configurations, or of unknown ones.
    for loads in [[("", "a"), ("v", "a"), ("", "a")], [("", ""), ("v", ""), ("w", "")]] {
        let numbers = numbers(&loads);
        assert!(numbers.is_sorted_by(|one, other| one < other), "{numbers:?}");
    }
}
