//! The watches of one session, as one stream of events.

use std::time::Duration;

use futures_util::stream::{self, BoxStream, Stream};
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::{self, Event};

use super::health::watch_reason;
use super::{KubernetesAccess, WatchedKind};

/// How long a watch lives, in seconds: then the server ends it and it is taken up again where it was. One that says
/// nothing for longer is dead, whatever the probe says, which may have met another server.
const WATCH: u32 = 60;
/// The pause before a kind is asked for again that may not be there, or may not be listed.
const ABSENT_PAUSE: Duration = Duration::from_secs(10);

/// An event of one of the watches.
pub(super) enum WatchEvent {
    /// Of an object.
    Object(WatchedKind, Box<Event<DynamicObject>>),
    /// Of a Secret to which objects of a kind may refer.
    Secret(WatchedKind, Box<Event<Secret>>),
    /// There is no such kind here, or it may not be listed; with the reason.
    Absent(WatchedKind, String),
}

/// A kind that is to be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watch {
    pub(super) kind: WatchedKind,
    /// Whether the source is stale without it. Otherwise a Kubernetes that does not have it, or does not let it be listed, has none
    /// of its objects.
    pub(super) is_required: bool,
    /// Whether Secrets are watched to which its objects may refer.
    pub(super) has_secrets: bool,
}

pub(super) type Events = BoxStream<'static, Result<WatchEvent, String>>;

/// The events of all watches. An error ends the session.
pub(super) fn events(access: &KubernetesAccess, watches: &[Watch]) -> Events {
    let objects = watches.iter().map(|watch| objects(access, *watch));
    let secrets = watches.iter().filter(|watch| watch.has_secrets).map(|watch| secrets(access, watch.kind));
    stream::select_all(objects.chain(secrets)).boxed()
}

fn config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH)
}

fn objects(access: &KubernetesAccess, watch: Watch) -> Events {
    let what = format!("watching {}", watch.kind.plural());
    let events = watcher::watcher(watch.kind.api(access.client.clone()), config());
    if watch.is_required {
        let events = events.map_ok(move |event| WatchEvent::Object(watch.kind, Box::new(event)));
        return events.map_err(move |error| watch_reason(&what, &error)).boxed();
    }
    let events = patient(events).map(move |event| match event {
        Ok(event) => Ok(WatchEvent::Object(watch.kind, Box::new(event))),
        Err(error) if is_absence(&error) => Ok(WatchEvent::Absent(watch.kind, watch_reason(&what, &error))),
        Err(error) => Err(watch_reason(&what, &error)),
    });
    events.boxed()
}

fn secrets(access: &KubernetesAccess, kind: WatchedKind) -> Events {
    let secrets: Api<Secret> = Api::namespaced(access.client.clone(), &access.namespace);
    let events = watcher::watcher(secrets, config().labels(kind.secret_label()));
    let events = events.map_ok(move |event| WatchEvent::Secret(kind, Box::new(event)));
    events.map_err(|error| watch_reason("watching secrets", &error)).boxed()
}

/// The same events, with a pause after each sign of absence.
fn patient<T: Send + 'static>(
    events: impl Stream<Item = watcher::Result<T>> + Send + 'static,
) -> impl Stream<Item = watcher::Result<T>> + Send {
    stream::unfold((events.boxed(), false), |(mut events, was_absent)| async move {
        if was_absent {
            tokio::time::sleep(ABSENT_PAUSE).await;
        }
        let event = events.next().await?;
        let is_absent = event.as_ref().is_err_and(is_absence);
        Some((event, (events, is_absent)))
    })
}

/// Whether the server says that there is no such kind, or that it may not be listed.
fn is_absence(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => {
            matches!(error, kube::Error::Api(status) if matches!(status.code, 403 | 404))
        }
        watcher::Error::WatchError(status) => matches!(status.code, 403 | 404),
        watcher::Error::NoResourceVersion => false,
    }
}
