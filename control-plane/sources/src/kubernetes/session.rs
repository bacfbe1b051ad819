use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use portcullis_api::{CLUSTER_API_VERSION, CLUSTER_KIND, SECRET_LABEL};
use serde_json::Value;
use tokio::sync::watch;

use super::documents;
use super::health::Backoff;
use super::health::{reason, watch_reason};
use super::store::Store;
use super::{KubernetesAccess, SourceHealth};
use crate::object_set::{NoticedAt, ObjectSet};

/// Time to wait for the rest of a burst of changes.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// The interval of asking whether the API answers; a watch alone looks the same when it is silent and when it is dead.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of both lists.
const LISTS_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a watch lives, in seconds: then the server ends it and it is taken up again where it was. One that says
/// nothing for longer is dead, whatever the probe says, which may have met another server.
const WATCH: u32 = 60;

/// The output of the Kubernetes source.
pub struct KubernetesSets {
    /// Sets of objects, newest last; `None` until the first is complete.
    pub objects: watch::Receiver<Option<Arc<ObjectSet>>>,
    /// Whether the newest set is current.
    pub health: watch::Receiver<SourceHealth>,
    /// The `status` of each `UpstreamCluster` as the server has it, by name. It is no part of the sets, so that writing
    /// a status does not cause a new one.
    pub statuses: watch::Receiver<Arc<BTreeMap<String, Value>>>,
}

/// The receivers' other ends.
struct Senders {
    objects: watch::Sender<Option<Arc<ObjectSet>>>,
    health: watch::Sender<SourceHealth>,
    statuses: watch::Sender<Arc<BTreeMap<String, Value>>>,
}

/// Watches until the receiver of objects is dropped. An outage ends nothing: the last set stays, and is replaced by the
/// first complete one after it. Needs a tokio runtime.
pub fn watch_kubernetes(access: &KubernetesAccess) -> KubernetesSets {
    let (objects_sender, objects) = watch::channel(None);
    let starting = SourceHealth::stale(SystemTime::now(), "the first lists are not complete");
    let (health_sender, health) = watch::channel(starting);
    let (statuses_sender, statuses) = watch::channel(Arc::default());
    let senders = Senders { objects: objects_sender, health: health_sender, statuses: statuses_sender };
    let access = access.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = senders.objects.closed() => {}
            () = sessions(&access, &senders) => {}
        }
    });
    KubernetesSets { objects, health, statuses }
}

/// Why a session ended.
enum End {
    /// The API did not answer as it should.
    Failed(String),
    /// It answers again after a silence; who knows what was missed.
    Back,
}

async fn sessions(access: &KubernetesAccess, senders: &Senders) {
    let mut backoff = Backoff::default();
    loop {
        let end = Session::new(access, senders).run(&mut backoff).await;
        let End::Failed(why) = end else { continue };
        tracing::warn!(reason = why, "the Kubernetes source is stale");
        stale(senders, &why);
        tokio::time::sleep(backoff.pause()).await;
    }
}

/// The beginning of an outage stays, whatever its reasons are.
fn stale(senders: &Senders, why: &str) {
    senders.health.send_modify(|health| {
        let since = health.stale_since.unwrap_or_else(SystemTime::now);
        *health = SourceHealth::stale(since, why);
    });
}

/// An event of one of the watches.
enum WatchEvent {
    Cluster(Box<Event<DynamicObject>>),
    Secret(Box<Event<Secret>>),
}

/// Two watches and a probe, from the lists to the first failure.
struct Session<'a> {
    senders: &'a Senders,
    store: Store,
    events: BoxStream<'static, Result<WatchEvent, String>>,
    clusters: Api<DynamicObject>,
    /// Whether the last probe failed.
    is_silent: bool,
}

impl<'a> Session<'a> {
    fn new(access: &KubernetesAccess, senders: &'a Senders) -> Self {
        let clusters = clusters(&access.client);
        let secrets: Api<Secret> = Api::namespaced(access.client.clone(), &access.namespace);
        let config = watcher::Config::default().timeout(WATCH);
        let of_clusters = watcher::watcher(clusters.clone(), config.clone()).map(|event| match event {
            Ok(event) => Ok(WatchEvent::Cluster(Box::new(event))),
            Err(error) => Err(watch_reason("watching upstreamclusters", &error)),
        });
        let of_secrets = watcher::watcher(secrets, config.labels(SECRET_LABEL)).map(|event| match event {
            Ok(event) => Ok(WatchEvent::Secret(Box::new(event))),
            Err(error) => Err(watch_reason("watching secrets", &error)),
        });
        let events = futures_util::stream::select(of_clusters, of_secrets).boxed();
        Self { senders, store: Store::default(), events, clusters, is_silent: false }
    }

    async fn run(mut self, backoff: &mut Backoff) -> End {
        if let Err(why) = tokio::time::timeout(LISTS_TIMEOUT, self.lists()).await.unwrap_or(Err(late())) {
            return End::Failed(why);
        }
        backoff.reset();
        self.publish();
        self.follow().await
    }

    async fn lists(&mut self) -> Result<(), String> {
        while !self.store.is_complete() {
            self.take_next().await?;
        }
        Ok(())
    }

    async fn follow(&mut self) -> End {
        let mut probe = probe(self.clusters.clone());
        loop {
            tokio::select! {
                taken = self.take_next() => {
                    let burst = match taken {
                        Ok(()) => self.burst().await,
                        Err(why) => Err(why),
                    };
                    // Events before an error are good.
                    self.publish();
                    if let Err(why) = burst {
                        return End::Failed(why);
                    }
                }
                answer = &mut probe => {
                    match answer {
                        Ok(()) if self.is_silent => return End::Back,
                        Ok(()) => {}
                        Err(why) => {
                            self.is_silent = true;
                            stale(self.senders, &why);
                        }
                    }
                    probe = self::probe(self.clusters.clone());
                }
            }
        }
    }

    /// Takes what follows closely.
    async fn burst(&mut self) -> Result<(), String> {
        let end = tokio::time::sleep(DEBOUNCE);
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => return Ok(()),
                taken = self.take_next() => taken?,
            }
        }
    }

    async fn take_next(&mut self) -> Result<(), String> {
        match self.events.next().await {
            Some(Ok(WatchEvent::Cluster(event))) => {
                let named = |object: DynamicObject| {
                    let name = object.name_any();
                    documents::cluster(object).map(|document| (name, document))
                };
                if let Some(event) = try_map(*event, named) {
                    self.store.cluster(event);
                }
                Ok(())
            }
            Some(Ok(WatchEvent::Secret(event))) => {
                let named = |secret: Secret| Some((secret.name_any(), documents::secret(secret)));
                if let Some(event) = try_map(*event, named) {
                    self.store.secret(event);
                }
                Ok(())
            }
            Some(Err(why)) => Err(why),
            None => Err("the watch ended".to_owned()),
        }
    }

    /// Yields what is known, if it differs from what was yielded last.
    fn publish(&mut self) {
        if let Some(mut set) = self.store.take_changed() {
            set.noticed = NoticedAt(Some(Instant::now()));
            // After an outage everything was listed again, and may be what it was.
            self.senders.objects.send_if_modified(|last| {
                let is_new = last.as_deref() != Some(&set);
                if is_new {
                    *last = Some(Arc::new(set));
                }
                is_new
            });
        }
        if let Some(statuses) = self.store.take_statuses() {
            self.senders.statuses.send_replace(Arc::new(statuses));
        }
        if !self.is_silent {
            self.senders.health.send_if_modified(|health| {
                let was_stale = health.stale_since.is_some();
                *health = SourceHealth::current();
                was_stale
            });
        }
    }
}

fn late() -> String {
    "the lists are not complete in time".to_owned()
}

fn clusters(client: &Client) -> Api<DynamicObject> {
    let (group, version) = CLUSTER_API_VERSION.split_once('/').unwrap_or_default();
    let kind = GroupVersionKind::gvk(group, version, CLUSTER_KIND);
    Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, "upstreamclusters"))
}

type Probe = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Asks, after a while, for as little as there is.
fn probe(clusters: Api<DynamicObject>) -> Probe {
    Box::pin(async move {
        tokio::time::sleep(PROBE_INTERVAL).await;
        let least = ListParams::default().limit(1);
        match tokio::time::timeout(PROBE_TIMEOUT, clusters.list_metadata(&least)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(reason("listing upstreamclusters", &error)),
            Err(_) => Err("listing upstreamclusters: no answer".to_owned()),
        }
    })
}

fn try_map<T, U>(event: Event<T>, map: impl FnOnce(T) -> Option<U>) -> Option<Event<U>> {
    Some(match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(map(object)?),
        Event::Apply(object) => Event::Apply(map(object)?),
        Event::Delete(object) => Event::Delete(map(object)?),
    })
}
