use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::Peers;
use super::common_room::CommonRest;
use super::connection::Connection;
use super::quota::{QuotaBounds, QuotaTable};
use crate::limits::{Limits, Rejection};
use crate::metrics::OptionalMetrics;
use crate::peer::Peer;

fn peer(node: &str, instances: &[&str]) -> Peer {
    let domains = instances.iter().map(|name| format!("{name}.instance.portcullis.dev"));
    Peer::Certificate(std::iter::once(node.to_owned()).chain(domains).collect())
}

fn peers() -> Arc<Peers> {
    let limits = Limits {
        connections: 3,
        instances: 2,
        connections_per_instance: 4,
        streams_per_instance: 5,
        exchanges_per_instance: 2,
        unread_per_instance: 4 << 10,
        work_per_instance: Duration::from_secs(6),
        ..Limits::default()
    };
    Peers::new(limits, OptionalMetrics::default())
}

/// Opens as many connections as there are, each of another peer.
fn all(peers: &Arc<Peers>, instances: &[&str]) -> Vec<Arc<Connection>> {
    let open = |number: usize| peers.connect(peer(&format!("envoy-{number}"), instances)).ok();
    (0..100).map_while(open).collect()
}

#[test]
fn connections_of_an_instance_leave_those_of_others() {
    let peers = peers();
    let of_a = all(&peers, &["a"]);
    assert_eq!(of_a.len(), 4);
    assert_eq!(peers.connect(peer("late", &["a"])).err(), Some(Rejection::Connections));
    assert_eq!(all(&peers, &["b"]).len(), 4);
    let free = all(&peers, &[]);
    assert_eq!(free.len(), 3, "those of none have the rest");
    assert_eq!(peers.connect(peer("late", &[])).err(), Some(Rejection::Connections));
    drop(of_a);
    assert_eq!(all(&peers, &["a"]).len(), 4, "what ends is free again, and those of none have not used it");
    assert!(peers.connect(Peer::Local).is_ok());
}

#[test]
fn instances_beyond_the_number_share_one_part() {
    let peers = peers();
    let (a, both) = (all(&peers, &["a"]), all(&peers, &["b", "a"]));
    assert_eq!((a.len(), both.len()), (4, 4), "a certificate of two is neither's");
    let rest = all(&peers, &["c"]);
    assert_eq!(rest.len(), 4);
    assert_eq!(all(&peers, &["d"]).len(), 0);
    drop(both);
    assert_eq!(all(&peers, &["e"]).len(), 4, "a part that nobody uses goes to another one");
}

/// The sum of all instances' bytes is bounded, and each goes on with its own part.
#[test]
fn unread_bytes_of_all_instances_leave_each_its_part() {
    let limits = Limits {
        instances: 9,
        unread_per_instance: 60 << 10,
        unread_of_instances: 200 << 10,
        unread_kept_per_instance: 10 << 10,
        ..Limits::default()
    };
    let peers = Peers::new(limits, OptionalMetrics::default());
    let stream = |instance: &str| peers.connect(peer("one", &[instance])).unwrap().open_stream().ok().unwrap();
    let mut held = Vec::new();
    for instance in ["a", "b", "c", "d"] {
        let stream = stream(instance);
        while let Some(room) = stream.unread(10 << 10).now_or_never() {
            held.push(room);
        }
    }
    assert_eq!(held.len(), 4 + 10, "their own parts, and the rest");
    let quiet = stream("quiet");
    let own = quiet.unread(10 << 10).now_or_never();
    assert!(own.is_some());
    assert!(quiet.unread(1 << 10).now_or_never().is_none());
}

/// Between the look for a share and its first use another connection may come.
#[test]
fn share_that_is_held_is_the_only_one_of_its_instance() {
    let (table, limits) = (QuotaTable::default(), Limits::default());
    let rest = CommonRest::of(&limits);
    let share = |instance: &str| table.get(&instance.to_owned(), 2, || QuotaBounds::of_instance(&limits, &rest));
    let held = share("a").unwrap();
    assert!(share("b").is_some());
    assert!(Arc::ptr_eq(&held, &share("a").unwrap()));
    drop(held);
    assert!(share("c").is_some() && share("d").is_some(), "those that nobody has make room");
}

#[test]
fn streams_and_exchanges_of_an_instance_leave_those_of_others() {
    let peers = peers();
    let [one, two, other] = [("one", "a"), ("two", "a"), ("one", "b")]
        .map(|(node, instance)| peers.connect(peer(node, &[instance])).unwrap());
    let streams: Vec<_> = (0..5).map(|_| one.open_stream().ok().unwrap()).collect();
    assert_eq!(two.open_stream().err(), Some(Rejection::Streams));
    assert!(other.open_stream().is_ok());
    drop(streams);
    assert!(two.open_stream().is_ok());
    let exchanges = [&one, &two].map(|connection| connection.open_exchange().ok().unwrap());
    assert_eq!(one.open_exchange().err(), Some(Rejection::Exchanges));
    assert!(other.open_exchange().is_ok());
    drop(exchanges);
    assert!(one.open_exchange().is_ok());
}

#[test]
fn unread_bytes_and_work_of_an_instance_leave_those_of_others() {
    let peers = peers();
    let streams = [("one", "a"), ("two", "a"), ("one", "b")]
        .map(|(node, instance)| peers.connect(peer(node, &[instance])).unwrap().open_stream().ok().unwrap());
    let [one, two, other] = &streams;
    let room = one.unread(64 << 10).now_or_never();
    assert!(room.is_some_and(|room| room.len() == 3), "one that is larger than all room goes alone");
    let room = one.unread(4 << 10).now_or_never().unwrap();
    assert!(two.unread(1).now_or_never().is_none());
    assert!(other.unread(4 << 10).now_or_never().is_some());
    drop(room);
    assert!(two.unread(1).now_or_never().is_some());
    // Each within its own five seconds, and both beyond the six of all.
    assert_eq!(one.worked(Duration::from_secs(4)), Duration::ZERO);
    assert!(two.worked(Duration::from_secs(4)) > Duration::from_secs(3), "half of the time makes up for it");
    assert_eq!(other.worked(Duration::from_secs(4)), Duration::ZERO);
}

#[test]
fn names_of_no_resource_have_room_in_the_instances_share() {
    let limits = Limits { name_bytes: 40 << 10, name_bytes_per_instance: 64 << 10, ..Limits::default() };
    let peers = Peers::new(limits, OptionalMetrics::default());
    let [one, same, two, other] = [("one", "a"), ("one", "a"), ("two", "a"), ("one", "b")]
        .map(|(node, instance)| peers.connect(peer(node, &[instance])).unwrap().open_stream().ok().unwrap());
    assert!(one.may_name(0) && one.may_name(10 << 10) && one.may_name(30 << 10), "what it has counts once");
    assert!(!same.may_name(20 << 10), "of one peer");
    assert!(two.may_name(30 << 10));
    assert!(!two.may_name(36 << 10), "of one instance");
    assert!(other.may_name(30 << 10));
    drop(one);
    assert!(same.may_name(20 << 10));
}
