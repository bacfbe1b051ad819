use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::access::{Access, Denied, LoginPolicy, Reader};
use super::data::ConsoleData;
use super::question::{Explained, Question, QuestionError};
use crate::serve::fleet::view::{ClusterSummary, ClusterView, FleetView};

/// The number of streams of events.
const MAX_STREAMS: usize = 32;
/// The name under which requests that reached no cluster are counted. No object has it.
const NO_CLUSTER: &str = "-";

/// The state of the console, shared by its requests.
#[derive(Clone)]
pub(in crate::serve) struct Console {
    pub(super) data: Arc<dyn ConsoleData>,
    pub(super) access: Arc<Access>,
    pub(super) streams: Arc<Semaphore>,
}

/// How readers log in.
#[derive(Clone)]
pub(in crate::serve) struct LoginSettings {
    pub(in crate::serve) policy: LoginPolicy,
    /// Whether a proxy in front of the address ends TLS.
    pub(in crate::serve) behind_tls_proxy: bool,
    /// The interval of the reviews of a session, and the age to which other credentials and rights are believed.
    pub(in crate::serve) review_interval: Duration,
}

/// The part of the fleet that a reader may see.
pub(super) struct VisibleFleet {
    pub(super) view: Arc<FleetView>,
    /// Whether that is all of it.
    pub(super) sees_all: bool,
}

impl Console {
    pub(in crate::serve) fn new(data: impl ConsoleData + 'static, login: &LoginSettings) -> Self {
        let access = Access::new(login.policy.clone(), login.behind_tls_proxy, login.review_interval);
        Self { data: Arc::new(data), access: Arc::new(access), streams: Arc::new(Semaphore::new(MAX_STREAMS)) }
    }

    /// Reviews sessions until it is dropped.
    pub(in crate::serve) async fn review_sessions(self) {
        self.access.review_sessions().await;
    }

    /// The fleet, without what the reader may not see.
    pub(super) async fn fleet(&self, reader: &Reader, now: Instant) -> Result<VisibleFleet, Denied> {
        let view = self.data.fleet();
        if self.access.sees_all(reader, now).await? {
            return Ok(VisibleFleet { view, sees_all: true });
        }
        let names = view.clusters.iter().map(|cluster| cluster.name.clone()).filter(|name| name != NO_CLUSTER);
        let visible: BTreeSet<String> = self.access.visible(reader, names.collect(), now).await?;
        let clusters = view.clusters.iter().filter(|cluster| visible.contains(&cluster.name));
        let clusters = clusters.map(|cluster| ClusterSummary { by_gateway: Vec::new(), ..cluster.clone() }).collect();
        let view =
            FleetView { clusters, gateways: Vec::new(), ..FleetView { time: view.time, ..FleetView::default() } };
        Ok(VisibleFleet { view: Arc::new(view), sees_all: false })
    }

    /// A cluster; `None` if there is none of that name, which only a reader with a right to it learns.
    pub(super) async fn cluster(
        &self,
        reader: &Reader,
        name: &str,
        now: Instant,
    ) -> Result<Option<ClusterView>, Denied> {
        let may = if name == NO_CLUSTER {
            self.access.sees_all(reader, now).await?
        } else {
            self.access.sees(reader, name, now).await?
        };
        if may { Ok(self.data.cluster(name)) } else { Err(Denied::Forbidden) }
    }

    /// The answer to a question about a cluster that the reader may see, or why there is none.
    pub(super) async fn answer(
        &self,
        reader: &Reader,
        question: &Question,
        now: Instant,
    ) -> Result<Result<Explained, String>, Denied> {
        let objects = self.data.objects();
        let asked = match question.read(&objects) {
            Ok(asked) => asked,
            // Readers without a right to all do not learn which hosts are served.
            Err(QuestionError::UnknownHost(_)) if !self.access.sees_all(reader, now).await? => {
                return Err(Denied::Forbidden);
            }
            Err(error) => return Ok(Err(error.to_string())),
        };
        if !self.access.sees(reader, &asked.cluster, now).await? {
            return Err(Denied::Forbidden);
        }
        // The objects of a fleet and their policies take a while.
        let work = tokio::task::spawn_blocking(move || asked.answer(&objects).map_err(|error| error.to_string()));
        Ok(work.await.unwrap_or_else(|_| Err("the request cannot be explained: report this".to_owned())))
    }
}
