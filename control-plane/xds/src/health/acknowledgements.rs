//! Acknowledgements of a gateway, from the replica that it follows to the others.
//!
//! A replica knows by xDS what its own gateways acknowledged. It sends that to their agents, and each agent repeats it in its
//! reports to the other replicas. An entry travels in messages of the health discovery protocol: `cluster_name` is a marked
//! owner, the locality's `region` the hash of the served version, and its `zone` the outcome.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::core::v3::Locality;
use envoy_types::pb::envoy::service::health::v3::{
    ClusterEndpointsHealth, ClusterHealthCheck, EndpointHealthResponse, HealthCheckSpecifier, LocalityEndpoints,
    LocalityEndpointsHealth,
};
use envoy_types::pb::google::protobuf;
use futures_util::FutureExt;
use prost::Message;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use super::answer_turns::{AnswerTurn, AnswerTurns};
use crate::admission::{Admission, QueuedResponse};
use crate::registry::Registry;
use crate::snapshot::{OwnerVersions, Snapshot};
use portcullis_api::status::GatewayProgress;

/// The interval at which an agent is to report.
pub(super) const REPORT_INTERVAL: protobuf::Duration = protobuf::Duration { seconds: 5, nanos: 0 };

/// The served snapshot. Reports about clusters that are not in it are not kept.
pub(super) type Snapshots = watch::Receiver<Option<Arc<Snapshot>>>;

/// The interval of looking for changes. An agent reports at most once a second.
const SEND_INTERVAL: Duration = Duration::from_secs(2);

/// Sends to one agent the answers of its gateway at this replica, whenever they have changed.
pub(super) struct AnswerSender {
    nodes: Arc<Registry>,
    snapshots: Snapshots,
    turns: Arc<AnswerTurns>,
    versions: OwnerVersions,
    admission: Arc<Admission>,
    /// The streams of the node at the last look, and how many events they had had.
    revisions: Vec<(u64, u64)>,
}

impl AnswerSender {
    pub(super) fn new(
        nodes: Arc<Registry>,
        snapshots: Snapshots,
        turns: Arc<AnswerTurns>,
        admission: Arc<Admission>,
    ) -> Self {
        Self { nodes, snapshots, turns, versions: OwnerVersions::default(), admission, revisions: Vec::new() }
    }

    /// Ends when the stream is closed. Sends nothing before `named` holds the node's id.
    pub(super) async fn run(
        &mut self,
        mut named: watch::Receiver<String>,
        sender: &mpsc::Sender<QueuedResponse<HealthCheckSpecifier>>,
    ) {
        let Ok(node) = named.wait_for(|node| !node.is_empty()).await.map(|node| node.clone()) else {
            return std::future::pending().await;
        };
        let turn = self.turns.begin(&node);
        let mut sent = AckStates::new();
        let mut ticks = interval(SEND_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if !self.look(&turn, &node, &mut sent, sender).await {
                return;
            }
        }
    }

    /// Sends the node's answers, if they are others than were sent last and no newer stream of the node sends them. Returns whether the
    /// stream is open.
    async fn look(
        &mut self,
        turn: &AnswerTurn,
        node: &str,
        sent: &mut AckStates,
        sender: &mpsc::Sender<QueuedResponse<HealthCheckSpecifier>>,
    ) -> bool {
        if !turn.is_newest() {
            // It may be so for as long as the stream lives.
            self.versions = OwnerVersions::default();
            self.revisions = Vec::new();
            return true;
        }
        without_snapshot(&mut self.versions, self.admission.rested()).await;
        let start = Instant::now();
        let news = self.news(node);
        self.admission.worked(start.elapsed());
        let Some(news) = news.filter(|news| news != sent) else { return true };
        let cluster_health_checks = entries(&news);
        let message = HealthCheckSpecifier { cluster_health_checks, interval: Some(REPORT_INTERVAL) };
        let room = without_snapshot(&mut self.versions, self.admission.unread(message.encoded_len())).await;
        let response = QueuedResponse { content: Ok(message), room };
        if without_snapshot(&mut self.versions, sender.send(response)).await.is_err() {
            return false;
        }
        *sent = news;
        true
    }

    /// The node's answers; `None` if they are those of the last look.
    fn news(&mut self, node: &str) -> Option<AckStates> {
        let snapshot = self.snapshots.borrow().clone();
        // First, so that an event after it is one of the next look.
        let revisions = self.nodes.revisions(node);
        let is_known = snapshot.as_ref().is_some_and(|snapshot| self.versions.is_of(snapshot));
        if is_known && !revisions.is_empty() && revisions == self.revisions {
            return None;
        }
        self.revisions = revisions;
        let of_node = snapshot.map(|snapshot| (self.nodes.standings_of(&snapshot, node), snapshot));
        let Some((progresses, snapshot)) = of_node.filter(|(progresses, _)| !progresses.is_empty()) else {
            // A snapshot is not kept for a gateway that follows another replica by now.
            self.versions = OwnerVersions::default();
            return Some(AckStates::new());
        };
        let versions = self.versions.of(&snapshot);
        Some(answers(progresses, |owner| versions.get(owner).cloned()))
    }
}

/// Waits for the peer. If that takes time, which the peer decides, no snapshot is kept meanwhile.
async fn without_snapshot<T>(versions: &mut OwnerVersions, wait: impl Future<Output = T>) -> T {
    let mut wait = pin!(wait);
    if let Some(output) = wait.as_mut().now_or_never() {
        return output;
    }
    *versions = OwnerVersions::default();
    wait.await
}

/// The prefix of an entry about an owner. No resource has such a name.
const OWNER_PREFIX: &str = "acknowledged:";
/// The zone of a version that is refused.
const REFUSED: &str = "refused";
/// Longest hash that is kept.
const MAX_HASH: usize = 128;
/// Most versions of one owner that are kept of a report. An agent repeats those of its replicas, which differ for the time of an edit.
const MAX_VERSIONS: usize = 4;
/// Most entries of one message; more are not read.
pub(super) const MAX_ENTRIES: usize = 20_000;

/// A gateway's answer to a version of an owner's resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckState {
    /// It has taken all of them.
    Acknowledged,
    /// It refuses at least one of them.
    Refused,
}

/// The answers of one gateway, by owner and by the hash of the served version, see [`Snapshot::version_of`].
pub type AckStates = BTreeMap<(String, String), AckState>;

/// The answers in progresses, without those that are pending.
pub(super) fn answers(
    progresses: BTreeMap<String, GatewayProgress>,
    hash: impl Fn(&str) -> Option<String>,
) -> AckStates {
    let answered = |(owner, progress): (String, GatewayProgress)| {
        let answer = match progress {
            GatewayProgress::Acknowledged => AckState::Acknowledged,
            GatewayProgress::Refused { .. } => AckState::Refused,
            GatewayProgress::Pending | GatewayProgress::Elsewhere => return None,
        };
        let hash = hash(&owner)?;
        Some(((owner, hash), answer))
    };
    progresses.into_iter().filter_map(answered).take(MAX_ENTRIES).collect()
}

/// The entries that carry answers from a replica to an agent.
pub(super) fn entries(answers: &AckStates) -> Vec<ClusterHealthCheck> {
    let entry = |((owner, hash), answer): (&(String, String), &AckState)| {
        let zone = if *answer == AckState::Refused { REFUSED } else { "" };
        let locality = Locality { region: hash.clone(), zone: zone.to_owned(), ..Locality::default() };
        ClusterHealthCheck {
            cluster_name: format!("{OWNER_PREFIX}{owner}"),
            locality_endpoints: vec![LocalityEndpoints { locality: Some(locality), ..Default::default() }],
            ..Default::default()
        }
    };
    answers.iter().map(entry).collect()
}

/// The entries that an agent repeats to other replicas, out of what a replica says.
pub fn repeated(sent: HealthCheckSpecifier) -> Vec<ClusterEndpointsHealth> {
    let marked = sent.cluster_health_checks.into_iter().filter(|one| one.cluster_name.starts_with(OWNER_PREFIX));
    let entry = |one: ClusterHealthCheck| ClusterEndpointsHealth {
        cluster_name: one.cluster_name,
        locality_endpoints_health: one
            .locality_endpoints
            .into_iter()
            .take(1)
            .map(|one| LocalityEndpointsHealth { locality: one.locality, endpoints_health: Vec::new() })
            .collect(),
    };
    marked.take(MAX_ENTRIES).map(entry).collect()
}

/// The answers of a report, about owners that are known.
pub(super) fn read(report: &EndpointHealthResponse, is_served: impl Fn(&str) -> bool) -> AckStates {
    let one = |entry: &ClusterEndpointsHealth| {
        let owner = entry.cluster_name.strip_prefix(OWNER_PREFIX)?;
        let locality = entry.locality_endpoints_health.first()?.locality.as_ref()?;
        let is_known = locality.region.len() <= MAX_HASH && is_served(owner);
        let answer = if locality.zone == REFUSED { AckState::Refused } else { AckState::Acknowledged };
        is_known.then(|| ((owner.to_owned(), locality.region.clone()), answer))
    };
    let mut answers = AckStates::new();
    let entries = report.cluster_endpoints_health.iter().take(2 * MAX_ENTRIES).filter_map(one);
    for (key, answer) in entries.take(MAX_ENTRIES) {
        let of_owner = answers.range((key.0.clone(), String::new())..).take_while(|((owner, _), _)| *owner == key.0);
        if of_owner.count() < MAX_VERSIONS {
            answers.insert(key, answer);
        }
    }
    answers
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::kind::CDS;
    use crate::limits::Limits;
    use crate::node::View;
    use crate::resource::Resource;
    use crate::testing::RegisteredStream;

    fn served() -> Snapshot {
        let one = |owner: &str| {
            let url = CDS.to_owned();
            (url, format!("{owner}/all"), Resource::new(vec![1]).owned_by(owner))
        };
        Snapshot::new(["a", "b"].map(one))
    }

    fn report(answers: &AckStates) -> EndpointHealthResponse {
        let sent = HealthCheckSpecifier { cluster_health_checks: entries(answers), ..Default::default() };
        EndpointHealthResponse { cluster_endpoints_health: repeated(sent), ..Default::default() }
    }

    fn answer(owner: &str, hash: &str, answer: AckState) -> ((String, String), AckState) {
        ((owner.to_owned(), hash.to_owned()), answer)
    }

    #[test]
    fn snapshot_is_not_kept_for_a_gateway_that_is_gone() {
        let served = Arc::new(served());
        let known = Arc::downgrade(&served);
        let (sender, snapshots) = watch::channel(Some(Arc::clone(&served)));
        let admission = Admission::local(Limits::default());
        let mut answers = AnswerSender::new(Arc::default(), snapshots, Arc::default(), admission);
        answers.versions.of(&served);
        assert_eq!(answers.news("gone"), Some(AckStates::new()));
        sender.send_replace(None);
        drop(served);
        assert!(known.upgrade().is_none());
    }

    /// A gateway that has acknowledged clusters, and the sender of its answers. The weak pointer is to the snapshot with these.
    struct Acknowledged {
        gateway: RegisteredStream,
        snapshots: watch::Sender<Option<Arc<Snapshot>>>,
        answers: AnswerSender,
        known: std::sync::Weak<Snapshot>,
    }

    impl Acknowledged {
        fn new(admission: Arc<Admission>) -> Self {
            let (nodes, served) = (Arc::default(), Arc::new(served()));
            let mut gateway = RegisteredStream::open(&nodes, "one", View(None), &served);
            while gateway.answer(false) {}
            let (snapshots, newest) = watch::channel(Some(Arc::clone(&served)));
            let answers = AnswerSender::new(nodes, newest, Arc::default(), admission);
            Self { gateway, snapshots, answers, known: Arc::downgrade(&served) }
        }
    }

    /// Serves others to the gateway.
    fn replace(gateway: &mut RegisteredStream, snapshots: &watch::Sender<Option<Arc<Snapshot>>>) {
        let newer = Arc::new(Snapshot::default());
        gateway.follow(&newer);
        snapshots.send_replace(Some(newer));
    }

    #[tokio::test]
    async fn superseded_stream_keeps_no_snapshot() {
        let Acknowledged { mut gateway, snapshots, mut answers, known } =
            Acknowledged::new(Admission::local(Limits::default()));
        let turns = Arc::clone(&answers.turns);
        let (sender, mut responses) = mpsc::channel(1);
        let (turn, mut sent) = (turns.begin("one"), AckStates::new());
        assert!(answers.look(&turn, "one", &mut sent, &sender).await);
        assert_eq!((sent.len(), responses.try_recv().is_ok()), (2, true));
        let newer = turns.begin("one");
        assert!(answers.look(&turn, "one", &mut sent, &sender).await);
        replace(&mut gateway, &snapshots);
        assert!(known.upgrade().is_none());
        drop(newer);
        assert!(answers.look(&turn, "one", &mut sent, &sender).await);
        assert_eq!((sent.len(), responses.try_recv().is_ok()), (0, true), "it goes on when the newer one has ended");
    }

    #[tokio::test]
    async fn snapshot_is_not_kept_while_answers_wait_for_room() {
        let limits = Limits { unread: 64 << 10, ..Limits::default() };
        let admission = Admission::of_certificate(&["one"], limits);
        let held = admission.unread(64 << 10).await;
        let Acknowledged { mut gateway, snapshots, mut answers, known } = Acknowledged::new(Arc::clone(&admission));
        let turn = answers.turns.begin("one");
        let (sender, mut responses) = mpsc::channel(1);
        let mut sent = AckStates::new();
        let mut look = Box::pin(answers.look(&turn, "one", &mut sent, &sender));
        assert!(look.as_mut().now_or_never().is_none());
        replace(&mut gateway, &snapshots);
        assert!(known.upgrade().is_none());
        drop(held);
        assert!(look.await && responses.try_recv().is_ok());
    }

    #[test]
    fn answers_arrive_as_they_were_said() {
        let sent = AckStates::from([answer("a", "1", AckState::Acknowledged), answer("b", "2", AckState::Refused)]);
        assert_eq!(read(&report(&sent), |owner| served().has_owner(owner)), sent);
    }

    #[test]
    fn answers_about_unknown_owners_or_long_hashes_are_not_kept() {
        let long = "f".repeat(MAX_HASH + 1);
        let sent =
            AckStates::from([answer("c", "1", AckState::Acknowledged), answer("a", &long, AckState::Acknowledged)]);
        assert!(read(&report(&sent), |owner| served().has_owner(owner)).is_empty());
    }

    /// Each has a hash of its own, as long as one may be.
    #[test]
    fn answers_about_invented_versions_are_bounded() {
        let all = (0..1_000).map(|number| answer("a", &format!("{number:0>128}"), AckState::Acknowledged));
        let sent = AckStates::from_iter(all.chain([answer("b", "1", AckState::Refused)]));
        let known = read(&report(&sent), |owner| served().has_owner(owner));
        assert_eq!((known.len(), known.get(&("b".to_owned(), "1".to_owned()))), (5, Some(&AckState::Refused)));
    }

    #[test]
    fn answers_leave_out_what_is_pending() {
        let progresses = [
            ("a", GatewayProgress::Acknowledged),
            ("b", GatewayProgress::Pending),
            ("c", GatewayProgress::Refused { message: "no".to_owned() }),
        ];
        let progresses = progresses.map(|(owner, progress)| (owner.to_owned(), progress)).into();
        let expected = [answer("a", "1", AckState::Acknowledged), answer("c", "1", AckState::Refused)];
        assert_eq!(answers(progresses, |_| Some("1".to_owned())), AckStates::from(expected));
    }
}
