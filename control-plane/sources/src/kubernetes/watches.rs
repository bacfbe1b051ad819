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
    /// Objects of this kind are not looked at; with the reason.
    Absent(WatchedKind, Absence, String),
}

/// Why objects of a kind are not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// There is no such kind.
    NoKind,
    /// It may not be listed or watched.
    Forbidden,
}

/// A kind that is to be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watch {
    pub(super) kind: WatchedKind,
    /// Whether the source is stale without it. Otherwise a Kubernetes that does not have it, or never let it be listed, has none of
    /// its objects.
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
    let client = access.client.clone();
    let watched = move || watcher::watcher(watch.kind.api(client.clone()), config());
    if watch.is_required {
        let events = watched().map_ok(move |event| WatchEvent::Object(watch.kind, Box::new(event)));
        return events.map_err(move |error| watch_reason(&what, &error)).boxed();
    }
    let events = patient(ABSENT_PAUSE, watched).map(move |event| match event {
        Ok(event) => Ok(WatchEvent::Object(watch.kind, Box::new(event))),
        Err(error) => match absence(&error) {
            Some(absence) => Ok(WatchEvent::Absent(watch.kind, absence, watch_reason(&what, &error))),
            None => Err(watch_reason(&what, &error)),
        },
    });
    events.boxed()
}

fn secrets(access: &KubernetesAccess, kind: WatchedKind) -> Events {
    let secrets: Api<Secret> = Api::namespaced(access.client.clone(), &access.namespace);
    let events = watcher::watcher(secrets, config().labels(kind.secret_label()));
    let events = events.map_ok(move |event| WatchEvent::Secret(kind, Box::new(event)));
    events.map_err(|error| watch_reason("watching secrets", &error)).boxed()
}

/// The events of a watch, with a pause after each sign of absence, and then those of a new one: the old one would go on from where
/// it was, without the objects that were there before.
fn patient<T, S>(
    pause: Duration,
    watched: impl FnMut() -> S + Send + 'static,
) -> impl Stream<Item = watcher::Result<T>> + Send
where
    T: Send + 'static,
    S: Stream<Item = watcher::Result<T>> + Send + 'static,
{
    let none: Option<BoxStream<'static, watcher::Result<T>>> = None;
    stream::unfold((none, false, watched), move |(events, was_absent, mut watched)| async move {
        if was_absent {
            tokio::time::sleep(pause).await;
        }
        let mut events = events.filter(|_| !was_absent).unwrap_or_else(|| watched().boxed());
        let event = events.next().await?;
        let is_absent = event.as_ref().is_err_and(|error| absence(error).is_some());
        Some((event, (Some(events), is_absent, watched)))
    })
}

/// Whether the server says that there is no such kind, or that it may not be listed.
fn absence(error: &watcher::Error) -> Option<Absence> {
    let code = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => status.code,
        watcher::Error::WatchError(status) => status.code,
        _ => return None,
    };
    match code {
        404 => Some(Absence::NoKind),
        403 => Some(Absence::Forbidden),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_found() -> watcher::Error {
        let status = serde_json::json!({"status": "Failure", "message": "", "reason": "", "code": 404});
        watcher::Error::WatchError(Box::new(serde_json::from_value(status).unwrap()))
    }

    /// Otherwise the objects of before would never come back.
    #[tokio::test]
    async fn kind_that_is_back_is_listed_anew() {
        let mut starts = 0;
        let watched = move || {
            starts += 1;
            stream::iter([Ok(starts), Err(not_found())])
        };
        let events: Vec<_> = patient(Duration::ZERO, watched).take(4).map(Result::ok).collect().await;
        assert_eq!(events, [Some(1), None, Some(2), None]);
    }
}
