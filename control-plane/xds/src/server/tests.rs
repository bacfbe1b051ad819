use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use prost::Message;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::ServerState;
use super::task::Task;
use crate::admission::{Admission, Peers, QueuedResponse};
use crate::chunk::ByteChunks;
use crate::kind::CDS;
use crate::limits::{Limits, Rejection};
use crate::metrics::OptionalMetrics;
use crate::node::OneView;
use crate::peer::Peer;
use crate::resource::Resource;
use crate::snapshot::Snapshot;

/// A stream that has asked for clusters.
struct Opened {
    admission: Arc<Admission>,
    snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    requests: mpsc::UnboundedSender<Result<DeltaDiscoveryRequest, tonic::Status>>,
    responses: mpsc::Receiver<QueuedResponse<ByteChunks>>,
}

fn of_edition(edition: usize) -> Option<Arc<Snapshot>> {
    let body = format!("{edition:03}").into_bytes();
    Some(Arc::new(Snapshot::new([(CDS.to_owned(), "c".to_owned(), Resource::new(body))])))
}

impl Opened {
    fn new(limits: Limits) -> Self {
        Self::of(Admission::of_certificate(&["one"], limits), watch::Sender::new(of_edition(0)))
    }

    fn of(admission: Arc<Admission>, snapshots: watch::Sender<Option<Arc<Snapshot>>>) -> Self {
        let opened = Self::silent(admission, snapshots);
        opened.says(String::new());
        opened
    }

    /// One that has not asked for anything yet.
    fn silent(admission: Arc<Admission>, snapshots: watch::Sender<Option<Arc<Snapshot>>>) -> Self {
        let (views, registry, newest) = (Arc::new(OneView), Arc::default(), snapshots.subscribe());
        let served = ServerState { snapshots: newest, registry, health: Arc::default(), views, reports: None };
        let (sender, responses) = mpsc::channel(1);
        let task = Task { served, admission: Arc::clone(&admission), responses: sender };
        let (requests, queued) = mpsc::unbounded_channel();
        tokio::spawn(task.run(UnboundedReceiverStream::new(queued)));
        Self { admission, snapshots, requests, responses }
    }

    fn says(&self, response_nonce: String) {
        let node = Some(Node { id: "one".to_owned(), ..Node::default() });
        let request = DeltaDiscoveryRequest { node, type_url: CDS.to_owned(), response_nonce, ..Default::default() };
        self.requests.send(Ok(request)).unwrap();
    }

    /// Reads the next response, and acknowledges it before it counts as read. Returns the edition of its cluster.
    async fn edition(&mut self) -> usize {
        let QueuedResponse { content, room } = self.responses.recv().await.unwrap();
        let response = DeltaDiscoveryResponse::decode(&content.unwrap().concat()[5..]).unwrap();
        self.says(response.nonce);
        drop(room);
        let body = &response.resources[0].resource.as_ref().unwrap().value;
        String::from_utf8_lossy(body).parse().unwrap()
    }
}

#[tokio::test]
async fn answer_that_has_come_is_not_missing() {
    let mut stream = Opened::new(Limits { answer: Duration::ZERO, ..Limits::default() });
    for edition in 0..50 {
        stream.snapshots.send_replace(of_edition(edition));
        assert_eq!(stream.edition().await, edition);
    }
}

#[tokio::test]
async fn newest_snapshot_follows_when_work_is_made_up_for() {
    // Made up for in a second.
    let mut stream = Opened::new(Limits { work: Duration::from_millis(250), ..Limits::default() });
    assert_eq!(stream.edition().await, 0);
    stream.admission.worked(Duration::from_secs(60));
    for edition in 1..4 {
        stream.snapshots.send_replace(of_edition(edition));
        all_wait().await;
    }
    assert_eq!(stream.edition().await, 3);
}

/// Lets all streams go on until they wait.
async fn all_wait() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

fn newest(snapshots: &watch::Sender<Option<Arc<Snapshot>>>) -> Weak<Snapshot> {
    Arc::downgrade(snapshots.borrow().as_ref().unwrap())
}

/// Each would have another one.
#[tokio::test]
async fn streams_that_wait_for_room_keep_no_old_snapshot() {
    let limits = Limits { unread: 64 << 10, ..Limits::default() };
    let peer = Peer::Certificate(["one".to_owned()].into());
    let connection = Peers::new(limits, OptionalMetrics::default()).connect(peer).unwrap();
    let stream = || connection.open_stream().ok().unwrap();
    let holder = stream();
    let held = holder.unread(64 << 10).await;
    let snapshots = watch::Sender::new(of_edition(0));
    let (mut streams, mut before) = (Vec::new(), Vec::new());
    for edition in 1..=20 {
        streams.push(Opened::of(stream(), snapshots.clone()));
        all_wait().await;
        before.push(newest(&snapshots));
        snapshots.send_replace(of_edition(edition));
        all_wait().await;
    }
    assert_eq!(before.iter().filter(|one| one.upgrade().is_some()).count(), 0);
    drop(held);
    for stream in &mut streams {
        assert_eq!(stream.edition().await, 20, "there is nothing else to send");
    }
}

#[tokio::test]
async fn stream_that_rests_keeps_no_old_snapshot() {
    // Made up for in a second.
    let mut stream = Opened::new(Limits { work: Duration::from_millis(250), ..Limits::default() });
    assert_eq!(stream.edition().await, 0);
    all_wait().await;
    stream.admission.worked(Duration::from_secs(60));
    let before = newest(&stream.snapshots);
    stream.snapshots.send_replace(of_edition(1));
    all_wait().await;
    assert!(before.upgrade().is_none());
    assert_eq!(stream.edition().await, 1);
}

/// Its requests do not end: nothing of them is read while a message waits for room.
#[tokio::test]
async fn stream_that_is_gone_ends_whatever_its_requests_do() {
    for is_silent in [true, false] {
        let admission = Admission::of_certificate(&["one"], Limits::default());
        let snapshots = watch::Sender::new(of_edition(0));
        let mut stream = Opened::silent(admission, snapshots);
        if !is_silent {
            stream.says(String::new());
            assert_eq!(stream.edition().await, 0);
        }
        all_wait().await;
        let Opened { admission, snapshots, requests, responses } = stream;
        drop(responses);
        all_wait().await;
        assert_eq!(Arc::strong_count(&admission), 1, "its task has ended: {is_silent}");
        drop((snapshots, requests));
    }
}

/// Else a peer keeps the room of all with messages that it begins, and an Envoy is ended that was not read.
#[tokio::test]
async fn large_message_has_its_time_while_its_stream_waits() {
    let hour = Duration::from_secs(3_600);
    let limits = Limits { unread: 64 << 10, reading: hour, ..Limits::default() };
    let Limits { message_time, message_wait, .. } = limits;
    let peer = Peer::Certificate(["one".to_owned()].into());
    let connection = Peers::new(limits, OptionalMetrics::default()).connect(peer).unwrap();
    let overdue_after = |time: Duration| connection.overdue(Instant::now() + time);
    let held = connection.open_stream().ok().unwrap().unread(64 << 10).await;
    let mut stream = Opened::of(connection.open_stream().ok().unwrap(), watch::Sender::new(of_edition(0)));
    all_wait().await;
    let room = stream.admission.receive(1 << 20).await;
    assert_eq!(overdue_after(message_time), None, "it is not read while a response waits");
    assert_eq!(overdue_after(message_wait), Some(Rejection::Message));
    drop(held);
    assert_eq!(stream.edition().await, 0);
    all_wait().await;
    assert_eq!(overdue_after(message_time), Some(Rejection::Message), "it is read again");
    drop(room);
    assert_eq!(overdue_after(message_wait), None);
}

#[tokio::test]
async fn large_message_has_its_time_while_nothing_is_served() {
    let admission = Admission::of_certificate(&["one"], Limits::default());
    let Limits { message_time, message_wait, .. } = *admission.limits();
    let stream = Opened::of(Arc::clone(&admission), watch::Sender::new(None));
    all_wait().await;
    let _room = admission.receive(1 << 20).await;
    let overdue_after = |time: Duration| admission.overdue(Instant::now() + time);
    assert_eq!(overdue_after(message_time), None);
    assert_eq!(overdue_after(message_wait), Some(Rejection::Message));
    drop(stream);
}
