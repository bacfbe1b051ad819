use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::access::{Access, Denied, LoginPolicy, ObjectNames, ReadKind, Reader};
use super::data::ConsoleData;
use super::fleet_part::part_of_fleet;
use super::question::{Explained, Question, QuestionError};
use crate::explain::ExplainedObjects;
use crate::serve::fleet::view::{ClusterView, FleetView};
use crate::serve::status::StatusBody;
use crate::serve::turns::without_turn;

/// The number of streams of events: of all readers, and of one who has a name.
const MAX_STREAMS: usize = 32;
const MAX_STREAMS_OF_READER: usize = 4;
/// The number of explanations that are made at a time: each compiles the policies of an object.
const MAX_EXPLANATIONS: usize = 2;
/// The answer where an explanation panicked.
const FAILED: &str = "the request cannot be explained: report this";
/// The name under which requests that reached no cluster are counted. No object has it.
const NO_CLUSTER: &str = "-";

/// The state of the console, shared by its requests.
#[derive(Clone)]
pub(in crate::serve) struct Console {
    pub(super) data: Arc<dyn ConsoleData>,
    pub(super) access: Arc<Access>,
    pub(super) streams: Arc<Semaphore>,
    readers: Arc<Mutex<BTreeMap<String, Arc<Semaphore>>>>,
    explanations: Arc<Semaphore>,
    /// The objects of the newest explanation.
    known: Arc<Mutex<Option<Arc<ExplainedObjects>>>>,
}

/// The place of a stream of events, among all and among those of its reader.
pub(super) struct StreamPlace {
    _of_all: OwnedSemaphorePermit,
    _of_reader: Option<OwnedSemaphorePermit>,
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

/// A part of the status.
#[derive(Clone, Copy)]
pub(super) enum StatusPart<'a> {
    All,
    /// An `Instance`, with its clusters and Envoys.
    Instance(&'a str),
    /// An `UpstreamCluster`.
    Cluster(&'a str),
}

impl StatusPart<'_> {
    /// The part, if there is such an object.
    fn of(self, status: &Arc<StatusBody>, sees_all: bool) -> Option<Arc<StatusBody>> {
        let part = match self {
            StatusPart::All => return Some(Arc::clone(status)),
            StatusPart::Instance(name) if sees_all => status.part_of_instance(name),
            StatusPart::Instance(name) => status.part_of_tenant(name),
            StatusPart::Cluster(name) if sees_all => status.part_of_cluster(name),
            StatusPart::Cluster(name) => status.part_of_object(name),
        };
        part.map(Arc::new)
    }
}

/// The names of the objects in a view.
fn names_in(view: &FleetView) -> ObjectNames {
    let clusters = view.clusters.iter().map(|cluster| &cluster.name).filter(|name| *name != NO_CLUSTER);
    let instances = view.instances.iter().map(|instance| instance.name.clone());
    ObjectNames { clusters: clusters.cloned().collect(), instances: instances.collect() }
}

impl Console {
    pub(in crate::serve) fn new(data: impl ConsoleData + 'static, login: &LoginSettings) -> Self {
        let access = Access::new(login.policy.clone(), login.behind_tls_proxy, login.review_interval);
        Self {
            data: Arc::new(data),
            access: Arc::new(access),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            readers: Arc::default(),
            explanations: Arc::new(Semaphore::new(MAX_EXPLANATIONS)),
            known: Arc::default(),
        }
    }

    /// A place for a stream of a reader, if there is one.
    pub(super) fn stream_place(&self, reader: &Reader) -> Option<StreamPlace> {
        let of_reader = match reader.name() {
            // On loopback readers have no names.
            None => None,
            Some(name) => {
                let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
                readers.retain(|_, places| places.available_permits() < MAX_STREAMS_OF_READER);
                let places = readers.entry(name.to_owned());
                let places = places.or_insert_with(|| Arc::new(Semaphore::new(MAX_STREAMS_OF_READER)));
                Some(Arc::clone(places).try_acquire_owned().ok()?)
            }
        };
        let of_all = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        Some(StreamPlace { _of_all: of_all, _of_reader: of_reader })
    }

    /// Reviews sessions until it is dropped.
    pub(in crate::serve) async fn review_sessions(self) {
        self.access.review_sessions().await;
    }

    /// Looks through the newest objects, once: not to be called on a thread of the runtime.
    pub(super) fn known_objects(&self) -> impl FnOnce() -> Arc<ExplainedObjects> + use<> {
        let (known, newest) = (Arc::clone(&self.known), self.data.objects());
        move || {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            match &*known {
                Some(known) if known.is_of(&newest) => Arc::clone(known),
                _ => Arc::clone(known.insert(Arc::new(ExplainedObjects::new(newest)))),
            }
        }
    }

    /// The names of all objects.
    pub(super) fn object_names(&self) -> ObjectNames {
        names_in(&self.data.fleet())
    }

    /// The fleet, without what the reader may not see.
    pub(super) async fn fleet(&self, reader: &Reader, now: Instant) -> Result<VisibleFleet, Denied> {
        let view = self.data.fleet();
        if self.access.sees_all(reader, now).await? {
            return Ok(VisibleFleet { view, sees_all: true });
        }
        let ObjectNames { clusters, instances } = names_in(&view);
        let clusters = self.access.visible(reader, (ReadKind::Cluster, clusters), now).await?;
        let instances = self.access.visible(reader, (ReadKind::Instance, instances), now).await?;
        Ok(VisibleFleet { view: Arc::new(part_of_fleet(&view, &clusters, &instances)), sees_all: false })
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
            self.access.sees(reader, (ReadKind::Cluster, name), now).await?
        };
        if !may {
            return Err(Denied::Forbidden);
        }
        let view = self.data.cluster(name);
        // Gateways are the matter of others.
        let sees_all = self.access.sees_all(reader, now).await?;
        Ok(if sees_all { view } else { view.map(ClusterView::without_gateway_names) })
    }

    /// A part of the status; `None` if there is no such object, which only a reader who may see everything learns.
    pub(super) async fn status(
        &self,
        reader: &Reader,
        part: StatusPart<'_>,
        now: Instant,
    ) -> Result<Option<Arc<StatusBody>>, Denied> {
        let sees_all = self.access.sees_all(reader, now).await?;
        let may = match part {
            _ if sees_all => true,
            StatusPart::All => false,
            StatusPart::Instance(name) => self.access.sees(reader, (ReadKind::Instance, name), now).await?,
            StatusPart::Cluster(name) => self.access.sees(reader, (ReadKind::Cluster, name), now).await?,
        };
        if !may {
            return Err(Denied::Forbidden);
        }
        // Behind the review, which takes a while: the owners are those of now.
        match part.of(&self.data.status(), sees_all) {
            None if !sees_all => Err(Denied::Forbidden),
            found => Ok(found),
        }
    }

    /// The instances of a cluster as the control plane has them, its holder first; `None` if it is not known yet.
    fn instances_of(&self, cluster: &str) -> Option<Vec<String>> {
        self.data.status().objects.cluster(cluster).map(|object| object.instances.clone())
    }

    /// The answer to a question about a cluster that the reader may see, or why there is none.
    pub(super) async fn answer(
        &self,
        reader: &Reader,
        question: &Question,
        now: Instant,
    ) -> Result<Result<Explained, String>, Denied> {
        // Ten thousand objects, and the policies of one, take a while.
        let place = without_turn(Arc::clone(&self.explanations).acquire_owned()).await;
        let (objects, question) = (self.known_objects(), question.clone());
        let work = tokio::task::spawn_blocking(move || {
            let objects = objects();
            let asked = question.read(&objects);
            drop(place);
            (objects, asked)
        });
        let Ok((objects, asked)) = work.await else { return Ok(Err(FAILED.to_owned())) };
        let asked = match asked {
            Ok(asked) => asked,
            // Readers without a right to all do not learn which hosts are served.
            Err(QuestionError::UnknownHost(_)) if !self.access.sees_all(reader, now).await? => {
                return Err(Denied::Forbidden);
            }
            Err(error) => return Ok(Err(error.to_string())),
        };
        if !self.access.sees(reader, (ReadKind::Cluster, &asked.cluster), now).await? {
            return Err(Denied::Forbidden);
        }
        let instances = self.instances_of(&asked.cluster);
        let place = without_turn(Arc::clone(&self.explanations).acquire_owned()).await;
        let work = tokio::task::spawn_blocking(move || {
            // It goes on when the reader has gone.
            let _place = place;
            asked.answer(&objects, instances.as_deref()).map_err(|error| error.to_string())
        });
        Ok(work.await.unwrap_or_else(|_| Err(FAILED.to_owned())))
    }
}
