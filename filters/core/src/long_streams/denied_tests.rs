use std::cell::RefCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::long_streams::{Edition, RouteLoad, StreamGuard, StreamRegistry, TerminationReason};
use crate::request::Client;
use crate::stream_origin::{Impersonated, RequestedHost};
use crate::testing::moment;

#[path = "denied_variant_tests.rs"]
mod variants;

/// Denies paths, and has work done in the middle of a judgement.
struct Paths {
    denied: &'static [&'static str],
    between: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    is_gone: bool,
    variant: &'static str,
    listener: &'static str,
    host: &'static str,
    digest: &'static str,
    /// Whether it knows that its host's requests are its own.
    is_owner: bool,
    /// How often it was asked for that.
    asked: AtomicUsize,
}

impl Paths {
    fn new(denied: &'static [&'static str]) -> Self {
        Paths {
            denied,
            between: Mutex::new(None),
            is_gone: false,
            variant: "",
            listener: "",
            host: "",
            digest: "",
            is_owner: false,
            asked: AtomicUsize::new(0),
        }
    }

    fn is_for_host(&self, origin: &StreamOrigin) -> bool {
        matches!(&origin.host, RequestedHost::Authority(host) if *self.host.as_bytes() == **host)
    }
}

impl Debug for Paths {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.denied.fmt(formatter)
    }
}

impl StreamJudge for Paths {
    fn digest(&self) -> &[u8] {
        let denied = self.denied.first().map_or("", |path| path);
        if self.digest.is_empty() { denied.as_bytes() } else { self.digest.as_bytes() }
    }

    fn denies(&self, origin: &StreamOrigin, _: u64) -> Option<bool> {
        let between = self.between.lock().unwrap().take();
        if let Some(work) = between {
            work();
        }
        (!self.is_gone).then(|| self.denied.iter().any(|path| *path.as_bytes() == *origin.path))
    }

    fn variant(&self) -> &str {
        self.variant
    }

    fn listener(&self) -> &str {
        self.listener
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }

    fn owns(&self, origin: &StreamOrigin) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.is_owner && self.is_for_host(origin)
    }

    fn concerns(&self, variant: &str, origin: &StreamOrigin) -> bool {
        self.variant.is_empty() || self.variant == variant || self.is_for_host(origin)
    }
}

fn denying(denied: &'static [&'static str]) -> Arc<dyn StreamJudge> {
    Arc::new(Paths::new(denied))
}

fn of_variant(variant: &'static str, host: &'static str, denied: &'static [&'static str]) -> Arc<dyn StreamJudge> {
    Arc::new(Paths { variant, host, ..Paths::new(denied) })
}

fn edition(id: u64) -> Arc<Edition> {
    Arc::new(Edition::new(id, 0, 0))
}

/// A stream that begins; when it has to be looked at.
fn begin(
    streams: &Arc<StreamRegistry<&'static str>>,
    edition: &Arc<Edition>,
    path: &'static str,
) -> (StreamGuard<&'static str>, Option<Duration>) {
    begin_at(streams, edition, "", path)
}

fn begin_at(
    streams: &Arc<StreamRegistry<&'static str>>,
    edition: &Arc<Edition>,
    host: &str,
    path: &'static str,
) -> (StreamGuard<&'static str>, Option<Duration>) {
    begin_of(streams, edition, (host, path), 1)
}

/// The same of a request that came at an uptime. The answer comes whenever it likes.
fn begin_of(
    streams: &Arc<StreamRegistry<&'static str>>,
    edition: &Arc<Edition>,
    (host, path): (&str, &'static str),
    received: u64,
) -> (StreamGuard<&'static str>, Option<Duration>) {
    let origin = Arc::new(StreamOrigin {
        method: (*b"GET").into(),
        path: path.as_bytes().into(),
        host: RequestedHost::Authority(host.as_bytes().into()),
        listener: Arc::default(),
        address: None,
        user_agent: Box::default(),
        client: Client::Anonymous,
        acting: Client::Anonymous,
        impersonated: Impersonated::No,
    });
    let received = Duration::from_secs(received);
    let start = StreamStart {
        server: Some("a"),
        is_session: false,
        is_answer: false,
        kept: &RouteLoad::newest(edition),
        load: edition.id(),
        received,
        origin: Some(&origin),
    };
    streams.register(start, path, moment(Duration::from_secs(1)))
}

fn judge(streams: &StreamRegistry<&'static str>, judge: &Arc<dyn StreamJudge>, edition: u64) -> Option<Duration> {
    judge_load(streams, judge, (edition, edition), 2)
}

/// The first load of an edition has its number here.
fn judge_load(
    streams: &StreamRegistry<&'static str>,
    judge: &Arc<dyn StreamJudge>,
    (edition, load): (u64, u64),
    uptime: u64,
) -> Option<Duration> {
    streams.judge(judge, edition, load, moment(Duration::from_secs(uptime)))
}

fn ended(streams: &StreamRegistry<&'static str>) -> Vec<&'static str> {
    let ended = RefCell::new(Vec::new());
    let look = || {
        streams.expire(Duration::from_secs(3), |path, why| {
            assert_eq!(why, TerminationReason::NewlyDenied);
            ended.borrow_mut().push(*path);
        })
    };
    while look() == Some(Duration::from_secs(3)) {}
    ended.into_inner()
}

#[test]
fn denied_streams_end_once_and_others_go_on() {
    let streams = Arc::new(StreamRegistry::default());
    let first = edition(1);
    assert_eq!(judge(&streams, &denying(&[]), 1), None);
    let _kept = ["/a", "/b", "/c"].map(|path| begin(&streams, &first, path));
    let (gone, _) = begin(&streams, &first, "/b");
    drop(gone);
    assert_eq!(judge(&streams, &denying(&["/b", "/c"]), 2), Some(Duration::from_secs(2)));
    assert_eq!(ended(&streams), ["/b", "/c"]);
    assert_eq!(ended(&streams), [""; 0], "once");
    assert_eq!(judge(&streams, &denying(&["/a"]), 3), Some(Duration::from_secs(2)));
    assert_eq!(ended(&streams), ["/a"]);
}

#[test]
fn edition_with_the_same_lists_judges_nothing_again() {
    let streams = Arc::new(StreamRegistry::default());
    judge(&streams, &denying(&["/b"]), 1);
    // As if the list's `until` had been over when it began.
    let (_kept, due) = begin(&streams, &edition(1), "/b");
    assert_eq!((due, judge(&streams, &denying(&["/b"]), 2)), (None, None));
    assert_eq!(ended(&streams), [""; 0]);
}

#[test]
fn stream_of_an_earlier_edition_is_judged_when_it_is_registered() {
    let streams = Arc::new(StreamRegistry::default());
    let editions = [0, 1, 2, 3].map(edition);
    judge(&streams, &denying(&[]), 1);
    judge(&streams, &denying(&["/b"]), 2);
    let table = [(1, "/b", true), (1, "/a", false), (2, "/b", false), (3, "/b", false)];
    let kept = table.map(|(id, path, is_denied)| {
        let (guard, due) = begin(&streams, &editions[id], path);
        assert_eq!(due.is_some(), is_denied, "{path} of {id}");
        guard
    });
    assert_eq!(ended(&streams), ["/b"]);
    drop(kept);
    // An edition that comes back judges those of the one that it replaces.
    judge_load(&streams, &denying(&["/c"]), (1, 4), 2);
    let (_kept, due) = begin(&streams, &editions[2], "/c");
    assert_eq!((due.is_some(), ended(&streams)), (true, vec!["/c"]));
}

#[test]
fn stream_that_is_registered_during_a_judgement_is_judged() {
    let streams = Arc::new(StreamRegistry::default());
    judge(&streams, &denying(&[]), 1);
    let _first = begin(&streams, &edition(1), "/a");
    let late = Arc::new(Mutex::new(None));
    let (registry, place) = (Arc::clone(&streams), Arc::clone(&late));
    let between: Box<dyn FnOnce() + Send> =
        Box::new(move || *place.lock().unwrap() = Some(begin(&registry, &edition(1), "/b")));
    let between = Mutex::new(Some(between));
    let slow: Arc<dyn StreamJudge> = Arc::new(Paths { between, ..Paths::new(&["/b"]) });
    judge(&streams, &slow, 2);
    assert_eq!(ended(&streams), ["/b"]);
    assert!(late.lock().unwrap().as_ref().unwrap().1.is_some());
}

#[test]
fn many_streams_are_judged_a_few_at_a_time() {
    let streams = Arc::new(StreamRegistry::default());
    let first = edition(1);
    judge(&streams, &denying(&[]), 1);
    let _kept: Vec<_> = (0..1_000).map(|_| begin(&streams, &first, "/a")).collect();
    judge(&streams, &denying(&["/a"]), 2);
    let mut slices = Vec::new();
    loop {
        let ended = RefCell::new(0);
        let next = streams.expire(Duration::from_secs(3), |_, _| *ended.borrow_mut() += 1);
        slices.push(ended.into_inner());
        if next.is_none() {
            break;
        }
    }
    assert_eq!(slices, [256, 256, 256, 232]);
}

/// An edition is gone as soon as nothing uses it, which may be before the next one is in use.
#[test]
fn stream_that_could_not_be_judged_is_judged_next_time() {
    let streams = Arc::new(StreamRegistry::default());
    judge(&streams, &denying(&[]), 1);
    let gone: Arc<dyn StreamJudge> = Arc::new(Paths { is_gone: true, ..Paths::new(&["/b"]) });
    judge(&streams, &gone, 2);
    let (_kept, due) = begin(&streams, &edition(1), "/b");
    assert_eq!((due, ended(&streams)), (None, vec![]));
    assert!(judge(&streams, &denying(&["/b"]), 3).is_some(), "although its lists are the same");
    assert_eq!(ended(&streams), ["/b"]);
}

#[test]
fn stream_whose_judge_goes_meanwhile_is_judged_by_the_next() {
    let streams = Arc::new(StreamRegistry::default());
    judge(&streams, &denying(&[]), 1);
    let registry = Arc::clone(&streams);
    let next: Box<dyn FnOnce() + Send> = Box::new(move || _ = judge(&registry, &denying(&["/b"]), 3));
    let between = Mutex::new(Some(next));
    let going: Arc<dyn StreamJudge> = Arc::new(Paths { is_gone: true, between, ..Paths::new(&["/b"]) });
    judge(&streams, &going, 2);
    let (_kept, due) = begin(&streams, &edition(1), "/b");
    assert_eq!((due.is_some(), ended(&streams)), (true, vec!["/b"]));
}
