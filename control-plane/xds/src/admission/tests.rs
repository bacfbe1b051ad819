use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use http_body_util::StreamBody;
use hyper::body::Frame;
use portcullis_report::ReportRequest;
use prost::Message;
use tokio::sync::oneshot;
use tonic::Status;
use tonic::body::Body;

use super::Peers;
use super::common_room::CommonRest;
use super::connection::{Admission, Connection};
use super::quota::{QuotaBounds, QuotaTable};
use super::receiving::bounded;
use crate::limits::{Limits, Rejection};
use crate::message_reader::MessageReader;
use crate::metrics::OptionalMetrics;
use crate::peer::Peer;

impl Admission {
    /// A stream of the Unix socket, with these bounds.
    pub(crate) fn local(limits: Limits) -> Arc<Self> {
        Self::of_peer(Peer::Local, limits)
    }

    /// A stream of a client whose certificate has these names, with these bounds.
    pub(crate) fn of_certificate(names: &[&str], limits: Limits) -> Arc<Self> {
        Self::of_peer(Peer::Certificate(names.iter().map(|name| (*name).to_owned()).collect()), limits)
    }

    /// The fault for which its connection would end.
    pub(crate) fn overdue(&self, now: Instant) -> Option<Rejection> {
        self.connection.overdue(now)
    }

    fn of_peer(peer: Peer, limits: Limits) -> Arc<Self> {
        let peers = Peers::new(limits, OptionalMetrics::default());
        peers.connect(peer).ok().and_then(|connection| connection.open_stream().ok()).unwrap()
    }
}

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

/// As owners of their own, the sets of a few names would have a share each.
#[test]
fn certificates_with_several_instances_share_one_part() {
    let peers = peers();
    let both = all(&peers, &["b", "a"]);
    assert_eq!(both.len(), 4);
    for names in [&["a", "c"][..], &["c", "b", "a"]] {
        assert_eq!(all(&peers, names).len(), 0, "{names:?}");
    }
    assert_eq!(all(&peers, &["a"]).len(), 4, "nothing is taken from an instance");
}

#[test]
fn connections_of_gateways_leave_those_of_others() {
    let limits = Limits { connections: 20, connections_of_gateways: 50, ..Limits::default() };
    let peers = Peers::new(Limits { connections_per_namespace: 30, ..limits }, OptionalMetrics::default());
    let of = |namespace: &str| {
        let name = |number: usize| format!("edge-{number}.{namespace}.gateway.portcullis.dev");
        (0..200).map_while(|number| peers.connect(Peer::Certificate([name(number)].into())).ok()).collect::<Vec<_>>()
    };
    let of_a = of("a");
    assert_eq!((of_a.len(), of("a").len()), (30, 0), "the part of a namespace");
    assert_eq!(all(&peers, &[]).len(), 20, "those of the operator are not touched");
    let of_b = of("b");
    assert_eq!((of_b.len(), of("c").len()), (20, 0), "no more of all Gateways");
    drop(of_a);
    assert_eq!(of("c").len(), 30, "those that end are free again");
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
    let larger = one.unread(64 << 10).now_or_never().unwrap();
    let room = one.unread(4 << 10).now_or_never().unwrap();
    assert!(two.unread(1).now_or_never().is_none());
    assert!(other.unread(4 << 10).now_or_never().is_some());
    assert!(one.has_unread() && !other.has_unread());
    drop((larger, room));
    assert!(!one.has_unread());
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
    assert!(one.may_name(0, 0) && one.may_name(10 << 10, 0) && one.may_name(30 << 10, 0), "what it has counts once");
    assert!(!same.may_name(20 << 10, 0), "of one peer");
    assert!(two.may_name(30 << 10, 0));
    assert!(!two.may_name(36 << 10, 0), "of one instance");
    assert!(other.may_name(30 << 10, 0));
    drop(one);
    assert!(same.may_name(20 << 10, 0));
}

/// A free part for each stream would have no bound in sum but that of streams.
#[test]
fn free_names_are_of_as_many_streams_as_nodes_need() {
    let limits = Limits { name_bytes: 1 << 10, connections_per_peer: 3, ..Limits::default() };
    let peers = Peers::new(limits, OptionalMetrics::default());
    for (name, most) in [("one", 2), ("*.gateways", 3)] {
        let connection = peers.connect(peer(name, &["a"])).unwrap();
        let mut streams: Vec<_> = (0..5).map(|_| connection.open_stream().ok().unwrap()).collect();
        let may_name = |stream: &Arc<Admission>| stream.may_name(100 << 10, 100 << 10);
        assert!(streams.iter().all(|stream| stream.may_name(0, 100 << 10)), "without names it has no part");
        assert_eq!(streams.iter().filter(|stream| may_name(stream)).count(), most, "{name}");
        assert!(may_name(&streams[0]) && !streams[0].may_name(102 << 10, 100 << 10), "{name}");
        streams.remove(0);
        assert!(may_name(&streams[3]), "{name}: it has that of one that has ended");
    }
}

#[test]
fn large_messages_of_a_namespace_leave_room_for_others() {
    let limits =
        Limits { receiving: 1 << 20, receiving_per_instance: 2 << 20, receiving_of_all: 4 << 20, ..Limits::default() };
    let peers = Peers::new(limits, OptionalMetrics::default());
    let stream = |namespace: &str, number: usize| {
        let names = [format!("envoy-{number}"), format!("edge-{number}.{namespace}.gateway.portcullis.dev")];
        peers.connect(Peer::Certificate(names.into())).unwrap().open_stream().ok().unwrap()
    };
    let streams: Vec<_> = (0..5).map(|number| stream("a", number)).collect();
    let held: Vec<_> = streams.iter().filter_map(|one| one.receive(1 << 20).now_or_never()).collect();
    assert_eq!(held.len(), 2);
    assert!(stream("b", 0).receive(1 << 20).now_or_never().is_some());
    drop(held);
    assert!(streams[4].receive(1 << 20).now_or_never().is_some());
}

#[test]
fn work_is_made_up_for_in_a_bounded_time() {
    let peers = peers();
    let [one, two] = ["one", "two"].map(|node| peers.connect(peer(node, &["a"])).unwrap());
    let [stream, other] = [&one, &two].map(|connection| connection.open_stream().ok().unwrap());
    let waits = stream.worked(Duration::from_secs(3_600));
    assert!(waits > Duration::from_secs(19) && waits <= Duration::from_secs(20), "{waits:?}");
    assert!(stream.owes_work() && other.owes_work(), "it is its instance's work");
    assert_eq!(one.open_stream().err(), Some(Rejection::Streams));
    assert!(two.open_stream().is_ok(), "another Envoy of the instance is let in, and waits");
}

/// A stream that has sent the first byte of two messages of this size, and sends the others when its gate opens.
fn gated(stream: &Arc<Admission>, size: usize) -> (MessageReader<ReportRequest>, oneshot::Sender<()>) {
    let message = ReportRequest { node: "n".repeat(size), ..ReportRequest::default() };
    let length = u32::try_from(message.encoded_len()).unwrap().to_be_bytes();
    let framed = [&[0][..], &length, &message.encode_to_vec()].concat();
    let frame = |data: &[u8]| Ok::<_, Status>(Frame::data(Bytes::copy_from_slice(data)));
    let mut later: Vec<_> = [&framed[1..], &framed].concat().chunks(10_000).map(frame).collect();
    let (open, gate) = oneshot::channel();
    let later = gate.into_stream().flat_map(move |_| stream::iter(std::mem::take(&mut later)));
    let body = Body::new(StreamBody::new(stream::iter([frame(&framed[..1])]).chain(later)));
    (MessageReader::new(bounded(body, Arc::clone(stream), usize::MAX), 1 << 20, None, Arc::clone(stream)), open)
}

/// Each stream of a peer that rests would otherwise have one in memory.
#[tokio::test]
async fn large_message_has_room_until_it_is_decoded() {
    let limits = Limits { receiving: 1 << 20, work: Duration::from_millis(50), ..Limits::default() };
    let connection = Peers::new(limits, OptionalMetrics::default()).connect(peer("one", &[])).unwrap();
    let stream = connection.open_stream().ok().unwrap();
    let has_room = || stream.receive(1 << 20).now_or_never().is_some();
    let (mut messages, gate) = gated(&stream, 600_000);
    assert!(messages.next().now_or_never().is_none());
    stream.worked(Duration::from_secs(60));
    gate.send(()).unwrap();
    assert!(messages.next().now_or_never().is_none() && !has_room(), "it is whole, and its reader rests");
    for _ in 0..2 {
        assert!(messages.next().await.unwrap().is_ok() && has_room());
    }
    assert!(messages.next().await.is_none());
}
