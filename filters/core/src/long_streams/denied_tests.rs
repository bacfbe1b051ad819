use std::cell::RefCell;
use std::sync::Mutex;

use super::*;
use crate::long_streams::{Edition, StreamGuard, StreamStart, TerminationReason};
use crate::request::Client;
use crate::stream_origin::Impersonated;
use crate::testing::moment;

/// Denies paths, and has work done in the middle of a judgement.
struct Paths {
    denied: &'static [&'static str],
    between: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    is_gone: bool,
    variant: &'static str,
    host: &'static str,
}

impl Paths {
    fn new(denied: &'static [&'static str]) -> Self {
        Paths { denied, between: Mutex::new(None), is_gone: false, variant: "", host: "" }
    }
}

impl Debug for Paths {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.denied.fmt(formatter)
    }
}

impl StreamJudge for Paths {
    fn digest(&self) -> &[u8] {
        self.denied.first().map_or(b"", |path| path.as_bytes())
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

    fn is_gone(&self) -> bool {
        self.is_gone
    }

    fn concerns(&self, variant: &str, origin: &StreamOrigin) -> bool {
        self.variant.is_empty() || self.variant == variant || *self.host.as_bytes() == *origin.host
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
    let origin = Arc::new(StreamOrigin {
        method: (*b"GET").into(),
        path: path.as_bytes().into(),
        host: host.as_bytes().into(),
        address: None,
        user_agent: Box::default(),
        client: Client::Anonymous,
        acting: Client::Anonymous,
        impersonated: Impersonated::No,
    });
    let start = StreamStart { server: Some("a"), is_session: false, is_answer: false, edition, origin: Some(&origin) };
    streams.register(start, path, moment(Duration::from_secs(1)))
}

fn judge(streams: &StreamRegistry<&'static str>, judge: &Arc<dyn StreamJudge>, edition: u64) -> Option<Duration> {
    streams.judge(judge, edition, moment(Duration::from_secs(2)))
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
    judge(&streams, &denying(&["/c"]), 1);
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
fn denials_of_a_variant_end_streams_of_its_routes_alone() {
    let streams = Arc::new(StreamRegistry::default());
    let (own, variant) = (edition(1), Arc::new(Edition::new(2, 0, 0).of_variant("team/a")));
    judge(&streams, &denying(&[]), 1);
    let _before = begin_at(&streams, &own, "a.test", "/exec");
    let _other = begin_at(&streams, &own, "b.test", "/exec");
    // The route had no policy until now.
    assert!(judge(&streams, &of_variant("team/a", "a.test", &["/exec"]), 2).is_some());
    assert_eq!(ended(&streams), ["/exec"], "not that of the other route");
    let _kept = [begin_at(&streams, &variant, "10.0.0.1", "/log"), begin_at(&streams, &own, "b.test", "/log")];
    judge(&streams, &of_variant("team/a", "a.test", &["/log"]), 3);
    assert_eq!(ended(&streams), ["/log"]);
    let late = begin_at(&streams, &variant, "a.test", "/log");
    assert_eq!((late.1.is_some(), ended(&streams)), (true, vec!["/log"]), "it began under the edition before");
    // Denials of the cluster itself hold for each route.
    let _kept = begin_at(&streams, &variant, "a.test", "/x");
    judge(&streams, &denying(&["/x"]), 4);
    assert_eq!(ended(&streams), ["/x"]);
    let late = begin_at(&streams, &variant, "a.test", "/x");
    assert_eq!((late.1.is_some(), ended(&streams)), (true, vec!["/x"]));
}

#[test]
fn judges_of_variants_that_are_gone_are_forgotten() {
    let streams = StreamRegistry::<&'static str>::default();
    for number in 0..100 {
        let variant: &'static str = Box::leak(format!("team/{number}").into_boxed_str());
        let gone: Arc<dyn StreamJudge> = Arc::new(Paths { is_gone: true, variant, ..Paths::new(&[]) });
        judge(&streams, &gone, number);
    }
    assert_eq!(streams.lock().judged.judges.len(), 1);
}
