//! The module itself among many workers: its sources, the real filter, behind the stand-in for Envoy. `make tsan` runs this under
//! ThreadSanitizer: reviews that several workers wait for, streams that end meanwhile, counts that are carried to Envoy.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(
    dead_code,
    unreachable_pub,
    unexpected_cfgs,
    reason = "the module's sources, and the stand-in, are not used whole"
)]

#[path = "../../../dynamic-module/src/activity_reports.rs"]
mod activity_reports;
#[path = "../../../dynamic-module/src/agent.rs"]
mod agent;
#[path = "../stand_in/callbacks.rs"]
mod callbacks;
#[path = "../stand_in/envoy.rs"]
mod envoy;
#[path = "../../../dynamic-module/src/filter.rs"]
mod filter;
#[path = "../../../dynamic-module/src/host.rs"]
mod host;
#[path = "../../../dynamic-module/src/limit_reports.rs"]
mod limit_reports;
#[path = "../../../dynamic-module/src/limits.rs"]
mod limits;
#[path = "../../../dynamic-module/src/long_streams.rs"]
mod long_streams;
#[path = "../../../dynamic-module/src/memory.rs"]
mod memory;
#[path = "../../../dynamic-module/src/metrics.rs"]
mod metrics;
#[path = "../../../dynamic-module/src/random.rs"]
mod random;
#[path = "../../../dynamic-module/src/resident_memory.rs"]
mod resident_memory;
#[path = "../../../dynamic-module/src/timer.rs"]
mod timer;

/// The module that the stand-in drives.
mod module {
    pub(crate) type Module = crate::filter::Filter;
}

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use envoy::{Config, Stream, Worker};
use portcullis_filter_config::{CONFIG_VERSION, names};
use serde_json::json;

const WORKERS: usize = 4;
const TURNS: usize = 600;
/// Number of times that each worker presents a token, about when the others do. A fifth of the tokens are not valid.
const EACH: usize = 3;
const CONTINUE: u32 = 0;
const WAIT: u32 = 4;

fn config() -> Config {
    let filter = json!({"version": CONFIG_VERSION, "instance": "i"}).to_string();
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]});
    let route = json!({
        "version": CONFIG_VERSION, "name": "i/-/prod", "identity": "x", "authorities": ["prod"], "allowAnonymous": true,
        "reviews": {"cluster": "reviewer"}, "upstreamIdentity": "Impersonate", "topTalkers": 1_000,
        "rebalance": {"chancePerMillion": 20_000, "connectionsPerSecond": 1_000_000,
            "when": {"inFlight": 2, "requestsPerSecond": 1_000, "memoryBytes": 1}},
        "flowControlSchemas": [{"name": "some", "limit": {"maxRequestsInflight": 10_000}}],
        "policies": [{"group": "all", "flowControlSchema": "some", "rules": [everything]}],
    })
    .to_string();
    Config::new(names::HTTP_FILTER.as_bytes(), filter.as_bytes(), route.as_bytes()).unwrap()
}

/// A token's turn, and whose it is.
struct Turn {
    stream: Arc<Stream>,
    token: usize,
}

impl Turn {
    fn begin(worker: &Worker<'_>, token: usize) -> (Self, u32) {
        let bearer = format!("Bearer token-{token}-");
        let lines = [(":method", "GET"), (":path", "/api/v1/pods"), (":authority", "prod"), ("authorization", &bearer)];
        let stream = worker.stream(&lines);
        let status = stream.request_headers().unwrap();
        (Turn { stream, token }, status)
    }

    fn header(&self, wanted: &str) -> Option<String> {
        let lines = self.stream.lines(0);
        let found = lines.iter().find(|(name, _)| **name == *wanted.as_bytes());
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }

    /// Asserts that the request went on as its own user, or not at all.
    fn is_its_own(&self, has_gone_on: bool) {
        if has_gone_on {
            assert!(!self.token.is_multiple_of(5), "token {} is nobody's", self.token);
            assert_eq!(self.header("impersonate-user"), Some(format!("user-{}", self.token)));
            assert_eq!(self.header("authorization"), None);
        } else {
            assert_eq!(self.header("impersonate-user"), None);
        }
    }
}

/// Answers what the module asks, until all workers are done.
fn answer_reviews(config: &Config, busy: &AtomicUsize) -> usize {
    let mut next = 0;
    loop {
        let is_last = busy.load(Ordering::Acquire) == 0;
        config.run_main();
        let asked: Vec<(u64, Vec<u8>)> = config.posted().callouts.lock().unwrap()[next..].to_vec();
        next += asked.len();
        for (id, question) in &asked {
            let question = String::from_utf8_lossy(question).into_owned();
            let token: usize =
                question.split("token-").nth(1).and_then(|rest| rest.split('-').next()).unwrap().parse().unwrap();
            let status = match token % 5 {
                0 => json!({"authenticated": false}),
                _ => json!({"authenticated": true, "user": {"username": format!("user-{token}")}}),
            };
            // Now and then there is no answer.
            let body = json!({"kind": "TokenReview", "status": status}).to_string();
            config.answer(*id, (id % 17 != 3).then_some(body.as_bytes()));
        }
        if asked.is_empty() && is_last {
            return next;
        }
        std::thread::yield_now();
    }
}

/// Streams come and wait, are answered, or end before that.
fn work(worker: &Worker<'_>) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    let mut count = |what| *counts.entry(what).or_default() += 1;
    let mut waiting: Vec<Turn> = Vec::new();
    for turn in 0..TURNS {
        let (one, status) = Turn::begin(worker, turn / EACH);
        match status {
            WAIT => waiting.push(one),
            CONTINUE => {
                one.is_its_own(true);
                one.stream.response_headers();
                one.stream.end();
                count("known");
            }
            _ => {
                one.is_its_own(false);
                assert!(!one.stream.is_alive(), "it was answered");
                count("refused at once");
            }
        }
        if turn % 3 == 0 && !waiting.is_empty() {
            let left = waiting.swap_remove(turn % waiting.len());
            left.stream.end();
            count("left");
        }
        worker.run();
        waiting.retain(|one| one.stream.is_alive() || settled(one, &mut count));
    }
    // Every waiting stream is answered: there are as many tries as a question has, and then none is an answer, too.
    while !waiting.is_empty() {
        worker.run();
        waiting.retain(|one| one.stream.is_alive() || settled(one, &mut count));
        std::thread::yield_now();
    }
    counts
}

/// Judges a stream that has waited. False: it is done.
fn settled(one: &Turn, count: &mut impl FnMut(&'static str)) -> bool {
    let has_gone_on = one.stream.saw("continued");
    one.is_its_own(has_gone_on);
    count(if has_gone_on { "went on" } else { "refused later" });
    false
}

/// Waits until the activity has all these requests of users, each under a name that a token has.
fn every_client_is_counted(config: &Config, requests: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let worker = config.worker(false);
    loop {
        config.run_main();
        // As with Envoy 1.38, counts are carried on by requests.
        Turn::begin(&worker, 1).0.stream.end();
        let activity = memory::activity(1);
        let top = activity.clusters.iter().find_map(|cluster| cluster.top.as_ref());
        let users = top.map(|top| top.users.as_slice()).unwrap_or_default();
        let tokens = users.iter().map(|user| user.name.strip_prefix("user-").unwrap().parse::<usize>().unwrap());
        assert!(tokens.into_iter().all(|token| !token.is_multiple_of(5)), "{users:?}");
        if users.iter().map(|user| user.requests).sum::<u64>() >= requests as u64 {
            return;
        }
        assert!(Instant::now() < deadline, "{requests} requests, and {activity:?}");
        std::thread::yield_now();
    }
}

#[test]
fn workers_share_reviews_and_keep_their_users_apart() {
    let config = config();
    let busy = AtomicUsize::new(WORKERS);
    let (counts, asked) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| {
                let (config, busy) = (&config, &busy);
                scope.spawn(move || {
                    let worker = config.worker(false);
                    let counts = work(&worker);
                    busy.fetch_sub(1, Ordering::AcqRel);
                    counts
                })
            })
            .collect();
        let asked = answer_reviews(&config, &busy);
        let counts: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        (counts, asked)
    });
    eprintln!("{asked} reviews; by worker: {counts:?}");
    // How many of each a single worker sees is the scheduler's choice.
    for outcome in ["known", "went on"] {
        assert!(counts.iter().any(|counts| counts.contains_key(outcome)), "{outcome}");
    }
    assert!(asked < WORKERS * TURNS / 2, "answers are shared");
    let known = counts.iter().filter_map(|counts| counts.get("known")).sum();
    every_client_is_counted(&config, known);
    // All places for reviews are there again, and so are those of requests.
    let worker = config.worker(false);
    let waiting: Vec<_> = (0..64).map(|number| Turn::begin(&worker, 1_000 + number)).collect();
    assert!(waiting.iter().all(|(_, status)| *status == WAIT));
    assert_ne!(Turn::begin(&worker, 2_000).1, WAIT, "and no more than these");
    waiting.iter().for_each(|(one, _)| one.stream.end());
}
