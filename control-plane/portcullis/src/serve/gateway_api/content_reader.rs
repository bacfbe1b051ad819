//! Reads the Secrets and `ConfigMaps` to which Gateways refer, each by its name, again and again.
//!
//! A watch would need the right to list all of a namespace. A read needs `get` alone, and its answer says which of the two is the
//! matter: the object is not there, or the right is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use kube::Client;
use kube::api::GetParams;
use kube::core::Request;
use portcullis_attach::{ContentName, ObjectName, ReferredContents};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::content_documents::read_document;
use super::read_pace::{PACE, ReadPace};
use super::secrets::{ContentAnswer, GatewayContents, resource};

/// How long after an answer an object is read again: a renewed certificate acts that much later.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long after one that says nothing of the object.
const RETRY: Duration = Duration::from_secs(1);
/// The most reads at a time.
const AT_A_TIME: usize = 8;
/// Timeout of a read.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long the first verdicts wait for what is to be read, beside the time that the reads take: listeners without certificates would
/// close, and routes to upstreams without credentials.
const FIRST_PATIENCE: Duration = Duration::from_secs(5);
/// The most of both.
const MAX_FIRST_PATIENCE: Duration = Duration::from_secs(60);
/// How long later ones wait for new objects, so that a new Gateway need not have two verdicts. An API that is slow for one holds up
/// no others.
const PATIENCE: Duration = Duration::from_millis(200);

/// The reader's end of the verdicts.
pub(super) struct ContentReader {
    referred: watch::Sender<Arc<ReferredContents>>,
    contents: watch::Receiver<Arc<GatewayContents>>,
    /// Whether verdicts have waited before.
    has_waited: bool,
}

impl ContentReader {
    /// Reads until this value is dropped. Needs a tokio runtime.
    pub(super) fn start(client: Client) -> Self {
        let (referred, wanted) = watch::channel(Arc::default());
        let (sender, contents) = watch::channel(Arc::default());
        tokio::spawn(Reads::new(client, wanted, sender).run());
        Self { referred, contents, has_waited: false }
    }

    /// Has these read and no others, and yields their contents after a bounded time, as far as they are known.
    pub(super) async fn read(&mut self, referred: ReferredContents) -> Arc<GatewayContents> {
        let (are_all_read, patience) = match self.has_waited {
            true => (false, PATIENCE),
            false => (true, first_patience(referred.iter().count())),
        };
        self.has_waited = true;
        self.follow(&referred);
        let has_answers = |contents: &Arc<GatewayContents>| contents.has_answers(&referred, are_all_read);
        // After that the contents that are known so far have to do.
        let _ = timeout(patience, self.contents.wait_for(has_answers)).await;
        self.newest()
    }

    /// Has these read and no others.
    pub(super) fn follow(&self, referred: &ReferredContents) {
        self.referred.send_if_modified(|before| {
            let is_new = **before != *referred;
            if is_new {
                *before = Arc::new(referred.clone());
            }
            is_new
        });
    }

    /// The contents that are known now. Later ones are changes.
    pub(super) fn newest(&mut self) -> Arc<GatewayContents> {
        Arc::clone(&self.contents.borrow_and_update())
    }

    /// Waits for another answer; false if there is none any more.
    pub(super) async fn changed(&mut self) -> bool {
        self.contents.changed().await.is_ok()
    }
}

/// The task that reads.
struct Reads {
    client: Client,
    wanted: watch::Receiver<Arc<ReferredContents>>,
    sender: watch::Sender<Arc<GatewayContents>>,
    contents: GatewayContents,
    /// When each is to be read again.
    due: BTreeMap<ContentName, Instant>,
    /// Those that are being read.
    reading: BTreeSet<ContentName>,
    pace: ReadPace,
}

impl Reads {
    fn new(
        client: Client,
        wanted: watch::Receiver<Arc<ReferredContents>>,
        sender: watch::Sender<Arc<GatewayContents>>,
    ) -> Self {
        let (contents, due, reading) = (GatewayContents::default(), BTreeMap::new(), BTreeSet::new());
        Self { client, wanted, sender, contents, due, reading, pace: ReadPace::new(Instant::now()) }
    }

    async fn run(mut self) {
        let mut reads = FuturesUnordered::new();
        loop {
            for name in self.next(Instant::now()) {
                let client = self.client.clone();
                reads.push(async move {
                    let answer = read(&client, &name).await;
                    (name, answer)
                });
            }
            let wake = self.wake();
            tokio::select! {
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let wanted = self.wanted.borrow_and_update().clone();
                    self.follow(&wanted, Instant::now());
                }
                Some((name, answer)) = reads.next() => self.take(&name, answer, Instant::now()),
                () = sleep_until(wake) => {}
            }
        }
    }

    /// New ones are read at once.
    fn follow(&mut self, wanted: &ReferredContents, now: Instant) {
        if self.contents.follow(wanted) {
            self.publish();
        }
        self.due.retain(|name, _| wanted.contains(name));
        for name in wanted.iter() {
            self.due.entry(name.clone()).or_insert(now);
        }
    }

    /// The next that are read: by turns one that was read before and one that never was, so that neither a renewed certificate
    /// nor a new listener waits for all of the others.
    fn next(&mut self, now: Instant) -> Vec<ContentName> {
        let room = AT_A_TIME.saturating_sub(self.reading.len());
        let is_due = |(name, due): &(&ContentName, &Instant)| **due <= now && !self.reading.contains(*name);
        let mut due: Vec<(Instant, &ContentName)> =
            self.due.iter().filter(is_due).map(|(name, at)| (*at, name)).collect();
        due.sort();
        let (unread, known): (Vec<_>, Vec<_>) = due.into_iter().partition(|(_, name)| self.contents.is_unread(name));
        let (mut unread, mut known) = (unread.into_iter(), known.into_iter());
        let by_turns = std::iter::from_fn(|| match [known.next(), unread.next()] {
            [None, None] => None,
            both => Some(both),
        });
        let mut next: Vec<ContentName> = Vec::new();
        for (_, name) in by_turns.flatten().flatten().take(room) {
            if !self.pace.allows(now) {
                break;
            }
            next.push(name.clone());
        }
        self.reading.extend(next.iter().cloned());
        next
    }

    /// The time of the next read, if there is room for one.
    fn wake(&self) -> Option<Instant> {
        if self.reading.len() >= AT_A_TIME {
            return None;
        }
        let next = self.due.iter().filter(|(name, _)| !self.reading.contains(*name)).map(|(_, due)| *due).min();
        next.map(|next| next.max(self.pace.next()))
    }

    fn take(&mut self, name: &ContentName, answer: ContentAnswer, now: Instant) {
        self.reading.remove(name);
        let pause = match answer {
            ContentAnswer::Found(_) | ContentAnswer::Absent => INTERVAL,
            ContentAnswer::Refused | ContentAnswer::Failed => RETRY,
        };
        let share = PACE.saturating_mul(u32::try_from(self.due.len()).unwrap_or(u32::MAX));
        if let Some(due) = self.due.get_mut(name) {
            *due = now + pause.max(share);
        }
        self.contents.take(name, answer, now);
        self.publish();
    }

    fn publish(&self) {
        self.sender.send_if_modified(|before| {
            let is_new = **before != self.contents;
            if is_new {
                *before = Arc::new(self.contents.clone());
            }
            is_new
        });
    }
}

/// How long the first verdicts wait for this many objects.
fn first_patience(objects: usize) -> Duration {
    let reads = PACE.saturating_mul(u32::try_from(objects).unwrap_or(u32::MAX));
    FIRST_PATIENCE.saturating_add(reads).min(MAX_FIRST_PATIENCE)
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Reads an object once. The client's own reading would log a document that it cannot parse.
async fn read(client: &Client, name: &ContentName) -> ContentAnswer {
    let ObjectName { namespace, name: object } = &name.object;
    // An author of a Gateway writes them, and they are parts of a path.
    if ![namespace, object].into_iter().all(|part| is_object_name(part)) {
        return ContentAnswer::Absent;
    }
    let path = format!("/api/v1/namespaces/{namespace}/{}", resource(name.kind));
    let Ok(request) = Request::new(path).get(object, &GetParams::default()) else { return ContentAnswer::Failed };
    match timeout(TIMEOUT, client.request_text(request)).await {
        Ok(Ok(document)) => ContentAnswer::Found(read_document(name.kind, &document)),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => ContentAnswer::Absent,
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => ContentAnswer::Refused,
        Ok(Err(_)) | Err(_) => ContentAnswer::Failed,
    }
}

/// Whether an object may have this name: a DNS subdomain.
fn is_object_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let ends = [part.as_bytes().first(), part.as_bytes().last()];
        ends.into_iter().all(|end| end.is_some_and(|byte| is_inner(*byte)))
            && part.bytes().all(|byte| is_inner(byte) || byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use axum::Router;
    use axum::extract::State;
    use axum::http::{StatusCode, Uri, header};
    use axum::response::{IntoResponse, Response};
    use portcullis_attach::Usability;
    use serde_json::json;

    use super::super::content_documents::made_secret;
    use super::super::secrets::referred;
    use super::*;

    type Paths = Arc<Mutex<BTreeSet<String>>>;

    async fn answer(State(paths): State<Paths>, uri: Uri) -> Response {
        paths.lock().unwrap_or_else(PoisonError::into_inner).insert(uri.path().to_owned());
        let code = match uri.path().rsplit('/').next().unwrap_or_default() {
            "hanging" => return std::future::pending().await,
            "good" => return ([(header::CONTENT_TYPE, "application/json")], made_secret()).into_response(),
            "denied" => StatusCode::FORBIDDEN,
            "absent" => StatusCode::NOT_FOUND,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16()});
        (code, [(header::CONTENT_TYPE, "application/json")], status.to_string()).into_response()
    }

    async fn started() -> (ContentReader, Paths) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let paths = Paths::default();
        let app = Router::new().fallback(answer).with_state(Arc::clone(&paths));
        tokio::spawn(async { axum::serve(listener, app).await });
        (ContentReader::start(Client::try_from(kube::Config::new(uri)).unwrap()), paths)
    }

    fn why(contents: &GatewayContents, name: &str) -> String {
        match contents.secrets().remove(&ObjectName::new("infra", name)) {
            Some(Usability::Usable) => "usable".to_owned(),
            Some(Usability::Malformed(why) | Usability::Former(why)) => why,
            None => "absent".to_owned(),
        }
    }

    #[tokio::test]
    async fn contents_are_read_by_their_names_alone() {
        let (mut reader, paths) = started().await;
        let first = reader.read(referred(&["good", "absent"])).await;
        assert_eq!(["good", "absent"].map(|name| why(&first, name)), ["usable", "absent"]);
        assert_eq!(first.serving().len(), 1);
        let odd = ["../configmaps/x", "a/b", "x?watch=true", "X", ".", "x-"];
        let more: Vec<&str> = ["good", "denied", "broken", "hanging"].into_iter().chain(odd).collect();
        let mut found = reader.read(referred(&more)).await;
        while ["denied", "broken"].iter().any(|name| why(&found, name).contains("not read yet")) {
            assert!(reader.changed().await);
            found = reader.newest();
        }
        assert!(why(&found, "denied").contains("may not get secrets in namespace infra"));
        assert!(why(&found, "broken").contains("does not answer"));
        assert_eq!(why(&found, "good"), "usable");
        assert_eq!(odd.map(|name| why(&found, name)), ["absent"; 6]);
        // The one that hangs takes its time, and no other waits for it.
        assert!(why(&found, "hanging").contains("not read yet"));
        let asked: Vec<String> = paths.lock().unwrap().iter().cloned().collect();
        let expected = ["absent", "broken", "denied", "good", "hanging"]
            .map(|name| format!("/api/v1/namespaces/infra/secrets/{name}"));
        assert_eq!(asked, expected);
    }

    #[tokio::test]
    async fn content_is_read_again_until_no_gateway_names_it() {
        let wanted = watch::Sender::new(Arc::new(referred(&["a", "b"])));
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let mut reads = Reads::new(client, wanted.subscribe(), watch::channel(Arc::default()).0);
        let start = Instant::now();
        reads.follow(&referred(&["a", "b"]), start);
        let names = |found: Vec<ContentName>| found.into_iter().map(|one| one.object.name).collect::<Vec<_>>();
        let first = reads.next(start);
        assert_eq!(names(first.clone()), ["a", "b"]);
        assert!(names(reads.next(start)).is_empty(), "both are being read");
        reads.take(&first[0], ContentAnswer::Absent, start);
        reads.take(&first[1], ContentAnswer::Refused, start);
        assert_eq!(reads.wake(), Some(start + RETRY));
        assert_eq!(names(reads.next(start + RETRY)), ["b"]);
        reads.follow(&referred(&["b", "c"]), start + RETRY);
        assert_eq!(names(reads.next(start + RETRY)), ["c"], "a new one is read at once");
        assert!(names(reads.next(start + INTERVAL)).is_empty(), "no Gateway names a any more");
        let many: Vec<String> = (0..60).map(|index| format!("n{index:02}")).collect();
        reads.follow(&referred(&many.iter().map(String::as_str).collect::<Vec<_>>()), start);
        assert_eq!(reads.next(start).len(), AT_A_TIME - 2, "the two before are still being read");
    }

    #[tokio::test]
    async fn new_contents_take_half_of_the_reads() {
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let wanted = watch::Sender::new(Arc::default());
        let mut reads = Reads::new(client, wanted.subscribe(), watch::channel(Arc::default()).0);
        let start = Instant::now();
        let known: Vec<String> = (0..8).map(|index| format!("k{index}")).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        reads.follow(&referred(&known), start);
        for name in reads.next(start) {
            reads.take(&name, ContentAnswer::Absent, start);
        }
        let later = start + INTERVAL;
        let new: Vec<String> = (0..60).map(|index| format!("n{index:02}")).collect();
        let all: Vec<&str> = known.iter().copied().chain(new.iter().map(String::as_str)).collect();
        reads.follow(&referred(&all), later);
        let next = reads.next(later);
        let again = next.iter().filter(|one| one.object.name.starts_with('k')).count();
        assert_eq!((next.len(), again), (AT_A_TIME, AT_A_TIME / 2));
    }

    #[test]
    fn first_verdicts_wait_as_long_as_reads_take() {
        for (objects, seconds) in [(0, 5), (100, 10), (1_000, 55), (2_000, 60), (usize::MAX, 60)] {
            assert_eq!(first_patience(objects), Duration::from_secs(seconds), "{objects}");
        }
    }

    #[test]
    fn names_of_objects_are_dns_subdomains() {
        for name in ["a", "a.b", "a-1.b2", "1"] {
            assert!(is_object_name(name), "{name:?}");
        }
        for name in ["", ".", "..", "a/b", "a..b", "-a", "a-", "A", "a?b", "a%2fb", "\u{e4}", &"a".repeat(254)] {
            assert!(!is_object_name(name), "{name:?}");
        }
    }
}
