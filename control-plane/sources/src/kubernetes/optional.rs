//! A kind without which `UpstreamCluster`s are served all the same, watched in sessions of its own: whatever becomes of it, neither
//! theirs nor those of other kinds wait or end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::absence::KindAbsence;
use super::bounded::BoundedObjects;
use super::documents::{self, WatchedObject};
use super::fair_room::KindBounds;
use super::health::{Backoff, watch_reason};
use super::published::Published;
use super::watches::config;
use super::{KubernetesAccess, WatchedKind};

/// The most that is kept of a kind. Beyond it the youngest are left out: tenants write routes, and the older one has a name. Of policies,
/// which own none, it is the youngest of the namespace that has most. Policies and permissions of the control plane's own namespace are
/// the last to be.
const BOUNDS: KindBounds = KindBounds { objects: 5_000, bytes: 64 * 1024 * 1024 };
/// Most namespaces that a log line names.
const MAX_NAMED: usize = 8;
/// The most objects in one answer to a list: each may have 1.5 MiB.
const PAGE: u32 = 100;
/// Timeout of a list, of any length.
const LIST_TIMEOUT: Duration = Duration::from_secs(120);
/// Time to wait for the rest of a burst of changes.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// The pause before a kind is asked for again that may not be there, or may not be listed.
const ABSENT_PAUSE: Duration = Duration::from_secs(10);
/// The least time between two lists for objects for which there is room again.
const REFILL_PAUSE: Duration = Duration::from_secs(60);

/// How a session ended.
enum KindEnd {
    /// There is no such kind.
    NoKind(String),
    /// It may not be listed or watched.
    Forbidden(String),
    /// The API did not answer as it should.
    Failed(String),
    /// Everything is to be listed again, because the API was silent, or because there is room for more.
    Anew,
}

type KindEvents = BoxStream<'static, watcher::Result<Event<DynamicObject>>>;

/// The sessions of a kind.
pub(super) struct OptionalKind {
    access: KubernetesAccess,
    kind: WatchedKind,
    objects: BoundedObjects,
    absence: KindAbsence,
    /// Whether clusters may depend on its objects, so that a definition that is missing says nothing about them.
    is_needed: bool,
    published: Published,
    /// Changes when the API answers again.
    returns: watch::Receiver<u64>,
    /// The kind of trouble that was logged last.
    logged: Option<&'static str>,
}

impl OptionalKind {
    pub(super) fn new(
        access: &KubernetesAccess,
        kind: WatchedKind,
        is_needed: bool,
        published: &Published,
        returns: watch::Receiver<u64>,
    ) -> Self {
        let (access, published) = (access.clone(), published.clone());
        // No tenant pushes out what the owner denies.
        let preferred = if WatchedKind::OF_POLICIES.contains(&kind) { access.namespace.as_str() } else { "" };
        let (objects, absence) = (BoundedObjects::new(BOUNDS, preferred), KindAbsence::default());
        let objects = if matches!(kind, WatchedKind::Policy(_)) { objects } else { objects.by_age() };
        Self { access, kind, objects, absence, is_needed, published, returns, logged: None }
    }

    /// Watches for ever.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::default();
        loop {
            let end = self.session(&mut backoff).await;
            if self.has_none(&end, Instant::now()) && self.objects.clear() {
                self.publish();
            }
            let pause = match &end {
                KindEnd::Anew => continue,
                KindEnd::Failed(_) => backoff.pause(),
                KindEnd::NoKind(_) | KindEnd::Forbidden(_) => ABSENT_PAUSE,
            };
            self.log(&end);
            tokio::time::sleep(pause).await;
        }
    }

    /// Whether the end of a session says that there are no objects of the kind. Objects of the Gateway API decide what is served: a
    /// right that is missing, as it is for a moment at an apiserver that starts, leaves such a kind as it was, known or not. A missing
    /// definition leaves one as it was that clusters depend on: without its objects their own fields would hold.
    fn has_none(&mut self, end: &KindEnd, now: Instant) -> bool {
        if !matches!(end, KindEnd::NoKind(_)) {
            self.absence.contradicted();
        }
        match end {
            KindEnd::Anew | KindEnd::Failed(_) => false,
            // Those that were known before a right was lost stay, as in an outage.
            KindEnd::Forbidden(_) => !self.kind.is_judged() && self.objects.is_empty(),
            KindEnd::NoKind(_) => !self.is_needed && (self.absence.said(now) || !self.kind.is_judged()),
        }
    }

    /// From a list to the first error.
    async fn session(&mut self, backoff: &mut Backoff) -> KindEnd {
        self.returns.mark_unchanged();
        let config = config().page_size(PAGE);
        let mut events: KindEvents = watcher::watcher(self.kind.api(self.access.client.clone()), config).boxed();
        match timeout(LIST_TIMEOUT, self.list(&mut events)).await {
            Ok(None) => {}
            Ok(Some(end)) => return end,
            Err(_) => return KindEnd::Failed(format!("listing {}: not complete in time", self.kind.plural())),
        }
        self.publish();
        let listed = Instant::now();
        let end = self.follow(&mut events, listed).await;
        // A kind that can be listed and not watched ends at once.
        if listed.elapsed() >= ABSENT_PAUSE {
            backoff.reset();
            self.logged = None;
        }
        end
    }

    /// Takes events until the list is complete.
    async fn list(&mut self, events: &mut KindEvents) -> Option<KindEnd> {
        loop {
            let event = match events.next().await {
                Some(Ok(event)) => event,
                Some(Err(error)) => return Some(self.end(&error)),
                None => return Some(KindEnd::Anew),
            };
            let is_complete = matches!(event, Event::InitDone);
            self.take(event);
            if is_complete {
                return None;
            }
        }
    }

    async fn follow(&mut self, events: &mut KindEvents, listed: Instant) -> KindEnd {
        // The time at which changes are published.
        let mut due: Option<Instant> = None;
        let mut refill = listed + REFILL_PAUSE;
        let end = loop {
            let wake = due.unwrap_or(refill);
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => {
                        if self.take(event) {
                            due = due.or(Some(Instant::now() + DEBOUNCE));
                        }
                    }
                    Some(Err(error)) => break self.end(&error),
                    None => break KindEnd::Anew,
                },
                _ = self.returns.changed() => break KindEnd::Anew,
                () = tokio::time::sleep_until(wake) => {
                    if due.take().is_some() {
                        self.publish();
                    } else if self.objects.has_room() {
                        break KindEnd::Anew;
                    } else {
                        refill = Instant::now() + REFILL_PAUSE;
                    }
                }
            }
        };
        // Events before an error are good.
        if due.is_some() {
            self.publish();
        }
        end
    }

    /// Returns whether something may have changed.
    fn take(&mut self, event: Event<DynamicObject>) -> bool {
        let kind = self.kind;
        let named = |object: DynamicObject| {
            let path = documents::path(&object);
            let read = documents::object(kind, object);
            (path, read)
        };
        let event = match event {
            Event::Init => Event::Init,
            Event::InitDone => Event::InitDone,
            Event::InitApply(object) => match named(object) {
                (path, Some(object)) => Event::InitApply((path, object)),
                (_, None) => return false,
            },
            Event::Apply(object) => match named(object) {
                (path, Some(object)) => Event::Apply((path, object)),
                // Its newest version cannot be looked at.
                (path, None) => return self.objects.remove(&path),
            },
            Event::Delete(object) => return self.objects.remove(&documents::path(&object)),
        };
        self.objects.apply(event)
    }

    fn end(&self, error: &watcher::Error) -> KindEnd {
        let why = watch_reason(&format!("watching {}", self.kind.plural()), error);
        match code(error) {
            Some(404) => KindEnd::NoKind(why),
            Some(403) => KindEnd::Forbidden(why),
            // The watched version is too old to go on from.
            Some(410) => KindEnd::Anew,
            _ => KindEnd::Failed(why),
        }
    }

    fn publish(&self) {
        let cut = self.objects.cut();
        if !cut.is_empty() {
            let KindBounds { objects, bytes } = BOUNDS;
            let namespaces: Vec<&str> = cut.iter().map(String::as_str).take(MAX_NAMED).collect();
            tracing::warn!(
                kind = self.kind.plural(),
                count = cut.len(),
                namespaces = namespaces.join(", "),
                "only the oldest objects are looked at, of these namespaces if any are named: at most {objects} of all, of {bytes} bytes"
            );
        }
        if self.objects.is_preferred_cut() {
            tracing::error!(
                kind = self.kind.plural(),
                namespace = self.access.namespace.as_str(),
                "the control plane's own namespace has more objects of this kind than can be looked at; those known before stay"
            );
            return;
        }
        if !self.kind.is_referred_to() {
            let statuses = self.objects.iter().map(|(_, object)| (Arc::clone(&object.key), Arc::clone(&object.stored)));
            self.published.statuses(self.kind, statuses.collect());
        }
        let document = |(_, object): (&String, &WatchedObject)| Arc::clone(&object.document);
        let documents: Arc<[_]> = self.objects.iter().map(document).collect();
        if self.kind.is_for_gateway_api() {
            self.published.gateway_api(self.kind, Arc::clone(&documents), cut.clone());
        }
        if WatchedKind::OF_POLICIES.contains(&self.kind) {
            self.published.policies(self.kind, documents, cut.clone());
        }
    }

    /// Each kind of trouble once, until a watch has lived.
    fn log(&mut self, end: &KindEnd) {
        let (trouble, reason) = match end {
            KindEnd::Anew => return,
            KindEnd::NoKind(why) => ("there is no such kind", why),
            KindEnd::Forbidden(why) => ("the right is missing", why),
            KindEnd::Failed(why) => ("the API does not answer as it should", why),
        };
        if self.logged.replace(trouble) != Some(trouble) {
            tracing::warn!(
                kind = self.kind.plural(),
                trouble,
                reason,
                "objects of this kind are not watched; those known before stay, unless the kind is gone for good"
            );
        }
    }
}

/// The code by which the server refuses.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status.code),
        watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn optional(kind: WatchedKind, is_needed: bool) -> OptionalKind {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let access =
            KubernetesAccess { client: kube::Client::try_from(config).unwrap(), namespace: "portcullis".to_owned() };
        OptionalKind::new(&access, kind, is_needed, &Published::new(), watch::Sender::new(0).subscribe())
    }

    #[tokio::test]
    async fn refusal_is_no_empty_list_of_what_decides() {
        let (forbidden, no_kind) = (|| KindEnd::Forbidden(String::new()), || KindEnd::NoKind(String::new()));
        let start = Instant::now();
        let later = start + Duration::from_secs(60);
        for kind in WatchedKind::OF_GATEWAY_API {
            let mut kind = optional(kind, false);
            assert!(!kind.has_none(&forbidden(), start) && !kind.has_none(&forbidden(), later));
            assert!(!kind.has_none(&no_kind(), start), "its definition may come back");
            assert!(!kind.has_none(&forbidden(), later) && !kind.has_none(&no_kind(), later), "it is there");
            assert!(kind.has_none(&no_kind(), later + Duration::from_secs(60)));
        }
        for kind in WatchedKind::OF_POLICIES {
            let mut kind = optional(kind, true);
            for end in [forbidden(), no_kind()] {
                let ends = [start, later, later + Duration::from_secs(3_600)].map(|now| kind.has_none(&end, now));
                assert_eq!(ends, [false; 3], "clusters would have their own fields again");
            }
        }
        let mut settings = optional(WatchedKind::GatewaySettings, false);
        assert!(settings.has_none(&forbidden(), start) && settings.has_none(&no_kind(), start));
    }
}
