//! The watches of the clusters' session, as one stream of events.

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::{self, Event};

use super::health::watch_reason;
use super::{KubernetesAccess, WatchedKind};

/// How long a watch lives, in seconds: then the server ends it and it is taken up again where it was. One that says
/// nothing for longer is dead, whatever the probe says, which may have met another server.
const WATCH: u32 = 60;

/// An event of one of the watches.
pub(super) enum WatchEvent {
    /// Of an object.
    Object(WatchedKind, Box<Event<DynamicObject>>),
    /// Of a Secret to which objects of a kind may refer.
    Secret(WatchedKind, Box<Event<Secret>>),
}

pub(super) type Events = BoxStream<'static, Result<WatchEvent, String>>;

/// The events of all watches, of objects of these kinds and of the Secrets to which they may refer. An error ends the session.
pub(super) fn events(access: &KubernetesAccess, kinds: &[WatchedKind]) -> Events {
    let objects = kinds.iter().map(|kind| objects(access, *kind));
    // Without a label all Secrets would be listed.
    let secrets = kinds.iter().filter(|kind| kind.has_secrets()).map(|kind| secrets(access, *kind));
    stream::select_all(objects.chain(secrets)).boxed()
}

/// How every watch is made.
pub(super) fn config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH)
}

fn objects(access: &KubernetesAccess, kind: WatchedKind) -> Events {
    let what = format!("watching {}", kind.plural());
    let events = watcher::watcher(kind.api(access.client.clone()), config());
    let events = events.map_ok(move |event| WatchEvent::Object(kind, Box::new(event)));
    events.map_err(move |error| watch_reason(&what, &error)).boxed()
}

fn secrets(access: &KubernetesAccess, kind: WatchedKind) -> Events {
    let secrets: Api<Secret> = Api::namespaced(access.client.clone(), &access.namespace);
    let events = watcher::watcher(secrets, config().labels(kind.secret_label()));
    let events = events.map_ok(move |event| WatchEvent::Secret(kind, Box::new(event)));
    events.map_err(|error| watch_reason("watching secrets", &error)).boxed()
}
