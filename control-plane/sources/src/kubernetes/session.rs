use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};
use kube::runtime::watcher::Event;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::documents;
use super::health::{Backoff, reason};
use super::optional::OptionalKind;
use super::published::{Published, PublishedReceivers};
use super::store::Store;
use super::watches::{Events, WatchEvent, events};
use super::{GatewayApiObjects, KubernetesAccess, SourceHealth, StoredStatuses, WatchedKind};
use crate::object_set::{NoticedAt, ObjectSet};

/// Time to wait for the rest of a burst of changes.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// The interval of asking whether the API answers; a watch alone looks the same when it is silent and when it is dead.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of all lists.
const LISTS_TIMEOUT: Duration = Duration::from_secs(30);

/// The output of the Kubernetes source.
pub struct KubernetesSets {
    /// Sets of objects, newest last; `None` until the first is complete.
    pub objects: watch::Receiver<Option<Arc<ObjectSet>>>,
    /// Whether the newest set is current.
    pub health: watch::Receiver<SourceHealth>,
    /// The `status` of each object as the server has it. It is no part of the sets, so that writing a status does not cause a new
    /// one.
    pub statuses: watch::Receiver<Arc<StoredStatuses>>,
    /// The objects for the Gateway API, if they are watched.
    pub gateway_api: watch::Receiver<Arc<GatewayApiObjects>>,
    /// Policies, with the permissions for them, if they are watched.
    pub policies: watch::Receiver<Arc<GatewayApiObjects>>,
}

/// The objects that are watched beside `UpstreamCluster`s.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// The name of the `GatewaySettings` that are used, if an object is; the sets then have them, or a document that is refused.
    pub settings: Option<String>,
    /// Whether the objects of the Gateway API are watched.
    pub gateway_api: bool,
    /// Whether `Instance`s are watched. They decide who gets which cluster: nothing is served before they are listed.
    pub instances: bool,
    /// Whether policies are watched.
    pub policies: bool,
}

/// The receivers' other ends.
struct Senders {
    objects: watch::Sender<Option<Arc<ObjectSet>>>,
    health: watch::Sender<SourceHealth>,
    published: Published,
}

/// Watches until the receiver of objects is dropped. An outage ends nothing: the last set stays, and is replaced by the
/// first complete one after it. Needs a tokio runtime.
pub fn watch_kubernetes(access: &KubernetesAccess, options: WatchOptions) -> KubernetesSets {
    let (objects_sender, objects) = watch::channel(None);
    let starting = SourceHealth::stale(SystemTime::now(), "the first lists are not complete");
    let (health_sender, health) = watch::channel(starting);
    let published = Published::new();
    let PublishedReceivers { statuses, gateway_api, policies } = published.subscribe();
    let senders = Senders { objects: objects_sender, health: health_sender, published };
    let access = access.clone();
    tokio::spawn(async move {
        let returns = watch::Sender::new(0);
        // They end with this task.
        let mut optional = JoinSet::new();
        for kind in options.optional() {
            let is_needed = options.is_needed(kind);
            let sessions = OptionalKind::new(&access, kind, is_needed, &senders.published, returns.subscribe());
            optional.spawn(sessions.run());
        }
        tokio::select! {
            () = senders.objects.closed() => {}
            () = sessions(&access, &options, &senders, &returns) => {}
        }
    });
    KubernetesSets { objects, health, statuses, gateway_api, policies }
}

impl WatchOptions {
    /// The kinds of the clusters' session: without one of them the source is stale.
    fn required(&self) -> Vec<WatchedKind> {
        let settings = self.has_settings().then_some(WatchedKind::GatewaySettings);
        let instances = self.instances.then_some(WatchedKind::Instance);
        [WatchedKind::UpstreamCluster].into_iter().chain(settings).chain(instances).collect()
    }

    /// Whether what is served depends on `GatewaySettings` of the API: instances may name some.
    fn has_settings(&self) -> bool {
        self.settings.is_some() || self.instances
    }

    /// The kinds that have sessions of their own: a Kubernetes that does not have them has none of their objects. Settings that are
    /// not used are watched for their status alone.
    fn optional(&self) -> BTreeSet<WatchedKind> {
        let settings = (!self.has_settings()).then_some(WatchedKind::GatewaySettings);
        let of_gateway_api = WatchedKind::OF_GATEWAY_API.into_iter().filter(|_| self.gateway_api);
        let of_policies = WatchedKind::OF_POLICIES.into_iter().filter(|_| self.policies);
        settings.into_iter().chain(of_gateway_api).chain(of_policies).collect()
    }

    /// Whether clusters may depend on the objects of a kind. Policies are asked for by an option of their own; where their definitions,
    /// or those of the permissions for them, are missing, that is a mistake.
    fn is_needed(&self, kind: WatchedKind) -> bool {
        self.policies && WatchedKind::OF_POLICIES.contains(&kind)
    }
}

/// Why a session ended.
enum End {
    /// The API did not answer as it should.
    Failed(String),
    /// It answers again after a silence; who knows what was missed.
    Back,
}

async fn sessions(access: &KubernetesAccess, options: &WatchOptions, senders: &Senders, returns: &watch::Sender<u64>) {
    let mut backoff = Backoff::default();
    let kinds = options.required();
    let mut store = Store::new(&kinds, options.settings.clone());
    loop {
        store.begin();
        let end = Session::new(access, &kinds, &mut store, senders).run(&mut backoff).await;
        let End::Failed(why) = end else {
            returns.send_modify(|count| *count += 1);
            continue;
        };
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

/// The watches and a probe, from the lists to the first failure.
struct Session<'a> {
    senders: &'a Senders,
    store: &'a mut Store,
    events: Events,
    clusters: Api<DynamicObject>,
    /// Whether the last probe failed.
    is_silent: bool,
}

impl<'a> Session<'a> {
    fn new(access: &KubernetesAccess, kinds: &[WatchedKind], store: &'a mut Store, senders: &'a Senders) -> Self {
        let clusters = WatchedKind::UpstreamCluster.api(access.client.clone());
        Self { senders, store, events: events(access, kinds), clusters, is_silent: false }
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
            Some(Ok(WatchEvent::Object(kind, event))) => {
                let named = |object: DynamicObject| {
                    let path = documents::path(&object);
                    documents::object(kind, object).map(|object| (path, object))
                };
                if let Some(event) = try_map(*event, named) {
                    self.store.object(kind, event);
                }
                Ok(())
            }
            Some(Ok(WatchEvent::Secret(kind, event))) => {
                let named = |secret: Secret| Some((secret.name_any(), documents::secret(kind, secret)));
                if let Some(event) = try_map(*event, named) {
                    self.store.secret(kind, event);
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
        for (kind, statuses) in self.store.take_statuses() {
            self.senders.published.statuses(kind, statuses);
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
