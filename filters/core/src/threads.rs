//! State that workers share, used by many threads at once. `make tsan` runs these tests, and the others whose names contain
//! `thread`, under ThreadSanitizer.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use portcullis_filter_config as config;
use rcgen::DnType;

use crate::identity::UserInfo;
use crate::long_streams::{Edition, LoadPart, RouteLoad, StreamOwners, StreamStart, TableLoad, TablePlace};
use crate::moment::Moment;
use crate::policy::Policies;
use crate::request_info::RequestInfo;
use crate::review::Reviewer;
use crate::review::Store;
use crate::review::{CredentialCaches, Lifetimes, PassedToken, Review, ReviewAnswers, ReviewResult};
use crate::testing::{self, ca, client_params, issue, moment, now, reviewer};
use crate::upstream_user::{HeaderNames, UpstreamUser};
use crate::weak_map::WeakMap;
use crate::x509::{CertificateCache, ClientCa, ClientChain};

const THREADS: usize = 8;
const TURNS: usize = 5_000;

/// Runs the work on each thread, with the thread's number, all from one moment on.
fn on_threads(work: impl Fn(usize) + Sync) {
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(thread);
            });
        }
    });
}

/// Numbers that differ from thread to thread, the same at each run.
fn number(thread: usize, turn: usize, most: usize) -> usize {
    (thread * 7_919 + turn * 104_729) % 1_000_003 % most
}

fn secs(seconds: usize) -> Duration {
    Duration::from_secs(seconds as u64)
}

fn body_of(user: Option<&str>) -> String {
    let status = match user {
        Some(user) => format!(r#"{{"authenticated":true,"user":{{"username":"{user}","groups":["of-{user}"]}}}}"#),
        None => r#"{"authenticated":false}"#.to_owned(),
    };
    format!(r#"{{"kind":"TokenReview","status":{status}}}"#)
}

fn is_user(result: &ReviewResult, name: &str) -> bool {
    let ReviewResult::User(user) = result else { return false };
    user.user().name == name && user.user().groups.first() == Some(&format!("of-{name}"))
}

/// One turn of a token at one cluster: its known answer, or a review. A third of the tokens are not valid.
fn present(caches: &Arc<CredentialCaches>, reviewer: &Reviewer, (cluster, token): (usize, usize), at: Moment) {
    let (text, user) = (format!("token-{token}"), format!("user-{token}-at-{cluster}"));
    let is_good = token % 3 != 0;
    let is_right = |result: &ReviewResult| {
        if is_good { is_user(result, &user) } else { *result == ReviewResult::Rejected }
    };
    let (_, known) = Review::known_token(text.as_bytes(), caches, &ReviewAnswers::default(), at);
    if let Some(known) = known {
        assert!(is_right(&known), "token {token} at cluster {cluster} is {known:?}");
        return;
    }
    let review = Review::of_token(text.as_bytes(), reviewer, caches);
    let Some(_permit) = review.permit() else { return };
    assert!(caches.under_way() <= 2 * 64);
    let body = body_of(is_good.then_some(&user));
    assert!(is_right(&review.accept_answer(201, body.as_bytes(), at.uptime)));
    if token % 11 == 0 {
        PassedToken::new(review.key(), caches).report_rejected(at.uptime.saturating_add(secs(11)));
    }
}

#[test]
fn tokens_stay_with_their_users_and_clusters() {
    let (store, reviewer) = (Store::default(), reviewer());
    let clusters: Vec<_> =
        (0..4).map(|_| Arc::new(CredentialCaches::new(&[7; 32], Lifetimes::default(), &store))).collect();
    on_threads(|thread| {
        for turn in 0..TURNS {
            let cluster = number(thread, turn, clusters.len());
            let at = Moment { now: now(), uptime: secs(turn / 10) };
            present(&clusters[cluster], &reviewer, (cluster, number(thread, turn, 211)), at);
            if turn % 97 == 0 {
                store.forget_old(at.uptime);
            }
        }
    });
    assert!(clusters.iter().all(|caches| caches.under_way() == 0));
    assert!(store.bytes() > 0);
    store.forget_old(secs(1_000_000));
    // Every entry that was displaced, replaced or forgotten was counted out once.
    assert_eq!(store.bytes(), 0);
    assert!(clusters.iter().flat_map(|caches| caches.entries()).all(|(_, entries)| entries == 0));
}

#[test]
fn certificates_stay_with_their_users() {
    let (trusted, other) = (ca("clients"), ca("strangers"));
    let trust = ClientCa::from_pem(&trusted.pem()).unwrap();
    let chains: Vec<Vec<u8>> = (0..12)
        .map(|number| {
            let name = format!("user-{number}");
            let issuer = if number % 4 == 0 { &other } else { &trusted };
            testing::encode(&[&issue(client_params(&[(DnType::CommonName, name.as_str())]), issuer)])
        })
        .collect();
    let store = Store::default();
    let caches: Vec<_> = (0..2).map(|_| CertificateCache::new(&store.certificates, store.owner())).collect();
    on_threads(|thread| {
        for turn in 0..TURNS {
            let which = number(thread, turn, chains.len());
            let chain = ClientChain::decode(&chains[which]).unwrap();
            let at = Moment { now: now(), uptime: secs(turn) };
            let user = caches[turn % 2].user(&chain, &trust, &HeaderNames::impersonate(), at);
            match user {
                Ok(user) => assert_eq!(user.unwrap().user().name, format!("user-{which}")),
                Err(_) => assert_eq!(which % 4, 0),
            }
            if turn % 97 == 0 {
                store.forget_old(at.uptime);
            }
        }
    });
    store.forget_old(secs(1_000_000));
    assert_eq!((store.bytes(), caches[0].entries(), caches[1].entries()), (0, (0, 0), (0, 0)));
}

/// Two policy sets ask about one user by turns, as two configurations do while one replaces the other.
#[test]
fn memo_of_a_user_answers_each_configuration() {
    let policy = |users: &[&str], group: &str| config::Policy {
        rules: vec![config::Rule {
            verbs: vec!["*".to_owned()],
            api_groups: vec!["*".to_owned()],
            resources: vec!["*".to_owned()],
            users: users.iter().map(|user| (*user).to_owned()).collect(),
            ..config::Rule::default()
        }],
        group: group.to_owned(),
        flow_control_schema: None,
        log: false,
        deny: None,
    };
    let first = Policies::new(&[policy(&["bob"], "b"), policy(&["alice"], "a"), policy(&["*"], "rest")]);
    let second = Policies::new(&[policy(&["alice", "bob"], "both"), policy(&["*"], "rest")]);
    let user = UpstreamUser::new(UserInfo { name: "alice".into(), ..UserInfo::default() }).unwrap();
    let info = RequestInfo::resolve(b"GET", b"/api/v1/pods", b"").unwrap();
    on_threads(|thread| {
        for turn in 0..TURNS {
            let (policies, expected) = if (thread + turn) % 2 == 0 { (&first, 1) } else { (&second, 0) };
            assert_eq!(user.first_match(policies, &info), Some(expected));
        }
    });
}

#[test]
fn live_value_is_one_for_all_threads() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::AcqRel);
        }
    }
    let (alive, there) = (WeakMap::<usize, Counted>::default(), Arc::<AtomicUsize>::default());
    on_threads(|thread| {
        for turn in 0..TURNS {
            let key = number(thread, turn, 5);
            let make = || {
                there.fetch_add(1, Ordering::AcqRel);
                Counted(Arc::clone(&there))
            };
            let one = alive.get_or_insert_with(key, make);
            assert!(Arc::ptr_eq(&one, &alive.get_or_insert_with(key, make)), "a value that is held is found");
            if turn % 50 == 0 {
                alive.for_each(drop);
            }
        }
    });
    assert_eq!(there.load(Ordering::Acquire), 0);
    alive.for_each(|_| panic!("no value is held"));
}

#[test]
fn streams_are_ended_once_and_never_after_they_left() {
    struct LongStream {
        has_left: AtomicBool,
        ends: AtomicU64,
    }
    let owners = StreamOwners::<Arc<LongStream>>::default();
    let streams = owners.of("a", "1");
    let ended = AtomicUsize::new(0);
    on_threads(|thread| {
        let mut registered = Vec::new();
        for turn in 0..TURNS {
            let time = secs(turn);
            let server = ["a", "b", "c"][number(thread, turn, 3)];
            let stream = Arc::new(LongStream { has_left: AtomicBool::new(false), ends: AtomicU64::new(0) });
            let edition = Edition::new(turn as u64, 0, 50_000);
            let kept = RouteLoad::newest(&edition);
            let table = kept.table_or(|| TableLoad::alone(time, LoadPart::new(kept.id(), &edition, 0)));
            owners.use_load("a", TablePlace { listener: Box::default(), variant: None }, table, time);
            kept.note_use();
            let arrival = StreamStart {
                server: Some(server),
                is_session: turn % 2 == 0,
                is_answer: turn % 3 == 0,
                kept: &kept,
                load: turn as u64,
                received: time,
                origin: None,
            };
            registered.push(((streams.register(arrival, Arc::clone(&stream), moment(time)).0, kept), stream));
            match turn % 13 {
                0 => drop(streams.set_servers(["a", "b"].into_iter(), secs(5), u64::MAX, time)),
                4 => drop(streams.set_servers(["b", "c"].into_iter(), secs(5), u64::MAX, time)),
                7 => drop(streams.limit_sessions((turn % 3 != 0).then(|| secs(9)))),
                _ => {}
            }
            streams.expire(time, |stream, _| {
                assert!(!stream.has_left.load(Ordering::Acquire));
                assert_eq!(stream.ends.fetch_add(1, Ordering::AcqRel), 0);
                ended.fetch_add(1, Ordering::AcqRel);
            });
            streams.for_each(|stream| assert!(!stream.has_left.load(Ordering::Acquire)));
            if registered.len() > 20 {
                for (stay, stream) in registered.drain(..10) {
                    drop(stay);
                    stream.has_left.store(true, Ordering::Release);
                }
            }
        }
    });
    assert!(ended.load(Ordering::Acquire) > 0);
    streams.for_each(|_| panic!("all have left"));
}
