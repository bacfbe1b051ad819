//! Messages to an agent: what its gateway answered here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::service::health::v3::HealthCheckSpecifier;
use envoy_types::pb::google::protobuf;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use super::Answers;
use super::relay::{answers, entries};
use crate::{QueuedResponse, Registry, Snapshot};

/// The interval at which an agent is to report.
pub(super) const INTERVAL: protobuf::Duration = protobuf::Duration { seconds: 5, nanos: 0 };

/// The served snapshot. Reports about clusters that are not in it are not kept.
pub(super) type Snapshots = watch::Receiver<Option<Arc<Snapshot>>>;

/// How often it is looked for news. An agent reports at most once a second.
const TURN: Duration = Duration::from_secs(2);

/// Says to one agent what its gateway answered at this replica, whenever that has changed.
pub(super) struct AnswerSender {
    nodes: Arc<Registry>,
    snapshots: Snapshots,
    /// Hashes by owner, of one version of the snapshot.
    hashes: (String, BTreeMap<String, String>),
}

impl AnswerSender {
    pub(super) fn new(nodes: Arc<Registry>, snapshots: Snapshots) -> Self {
        Self { nodes, snapshots, hashes: Default::default() }
    }

    /// Ends when nobody listens any more. Nothing is said before the stream has a node's id in `named`.
    pub(super) async fn say(
        &mut self,
        mut named: watch::Receiver<String>,
        sender: &mpsc::Sender<QueuedResponse<HealthCheckSpecifier>>,
    ) {
        let Ok(node) = named.wait_for(|node| !node.is_empty()).await.map(|node| node.clone()) else {
            return std::future::pending().await;
        };
        let mut said = Answers::new();
        let mut turns = interval(TURN);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            let news = self.look(&node);
            if news == said {
                continue;
            }
            let cluster_health_checks = entries(&news);
            let message = HealthCheckSpecifier { cluster_health_checks, interval: Some(INTERVAL) };
            if sender.send(QueuedResponse { content: Ok(message), room: None }).await.is_err() {
                return;
            }
            said = news;
        }
    }

    fn look(&mut self, node: &str) -> Answers {
        let Some(snapshot) = self.snapshots.borrow().clone() else { return Answers::new() };
        let standings = self.nodes.standings_of(&snapshot, node);
        if standings.is_empty() {
            return Answers::new();
        }
        if self.hashes.0 != snapshot.version() {
            let hash = |owner: &str| Some((owner.to_owned(), snapshot.version_of(owner)?));
            self.hashes = (snapshot.version().to_owned(), snapshot.owners().into_iter().filter_map(hash).collect());
        }
        answers(standings, |owner| self.hashes.1.get(owner).cloned())
    }
}
