//! Verified tokens that the upstream is asked about while their requests go on.

use portcullis_filter_config::Reviews;

use super::reviews::{asked, token_of};
use super::*;
use crate::cluster::CompiledCluster;
use crate::local_token::tests::{Signer, pod_claims};
use crate::observe::RequestRecord;
use crate::review::{CalloutResult, Review, ReviewQueue, ReviewResult, TokenEnd};

const PERIOD: u64 = 60;
const ROBOT: &str = "system:serviceaccount:shop:robot";

struct Site {
    fixture: Fixture,
    signer: Signer,
}

/// The course of one request.
struct Presented {
    /// Reviews that it waited for.
    asked: usize,
    /// The review that is sent beside it.
    check: Option<Box<Review>>,
    outcome: String,
}

impl Presented {
    fn is_verified(&self) -> bool {
        self.asked == 0 && self.outcome.contains(&format!("impersonate-user={ROBOT} "))
    }
}

fn rejected() -> (u16, String) {
    (201, r#"{"kind":"TokenReview","status":{"authenticated":false}}"#.to_owned())
}

/// The upstream's own word about the token of [`pod_claims`].
fn confirmed() -> (u16, String) {
    let key = |name: &str| format!("authentication.kubernetes.io/{name}");
    let extra: serde_json::Map<String, serde_json::Value> = [
        ("credential-id", "JTI=4a5b"),
        ("pod-name", "robot-7"),
        ("pod-uid", "u-2"),
        ("node-name", "n1"),
        ("node-uid", "u-3"),
    ]
    .map(|(name, value)| (key(name), serde_json::json!([value])))
    .into_iter()
    .collect();
    let groups = ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"];
    let user = serde_json::json!({"username": ROBOT, "uid": "u-1", "groups": groups, "extra": extra});
    let status = serde_json::json!({"authenticated": true, "user": user});
    (201, serde_json::json!({"kind": "TokenReview", "status": status}).to_string())
}

impl Site {
    fn new(period: Option<u64>, token_ttl_seconds: u64) -> Self {
        let signer = Signer::new();
        let fixture = fixture_with(|config| {
            let reviews = Reviews { token_ttl_seconds, revocation_check_seconds: period, ..asked(None) };
            config.reviews = Some(reviews);
            config.token_issuers = vec![signer.issuer()];
        });
        Site { fixture, signer }
    }

    fn token(&self, id: &str) -> String {
        let mut claims = pod_claims(now().as_secs());
        claims["jti"] = id.into();
        self.signer.sign(&claims)
    }

    /// Presents a token so many seconds from [`now`] on, to an upstream with this answer.
    fn present(&self, token: &str, at: u64, answer: fn() -> (u16, String)) -> Presented {
        let cluster = &self.fixture.route.cluster;
        let authorization = format!("Bearer {token}");
        let headers =
            [(":method", "GET"), (":path", POD), (":authority", "prod.example.com"), ("authorization", &authorization)];
        let headers = headers.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let (now, uptime) = (testing::at(now().as_secs() + at), Duration::from_secs(at));
        let (mut answers, mut presented) = (ReviewAnswers::default(), 0);
        loop {
            let scan = self.fixture.gateway.scan(Some(cluster), headers.into_iter());
            let request = RequestContext { scan: &scan, peer: Peer::None, answers: &answers, now, uptime };
            let mut seen = RequestRecord::default();
            let outcome = match self.fixture.gateway.decide_recording(cluster, &request, &mut seen) {
                Decision::Forward(forward) => {
                    let lines = forward.user.iter().flat_map(|user| user.header_lines());
                    lines.map(|(name, value)| format!("{name}={value} ")).collect()
                }
                Decision::Refuse(refusal) | Decision::Queue(_, refusal) => refusal.code.to_string(),
                Decision::Review(reviews) => {
                    for review in reviews {
                        let (status, body) = answer();
                        answers.push(review.key(), review.accept_answer(status, body.as_bytes(), uptime));
                        presented += 1;
                    }
                    continue;
                }
            };
            return Presented { asked: presented, check: seen.revocation_check, outcome };
        }
    }

    /// Presents a token that is checked, and takes the answer to the check.
    fn check(&self, token: &str, at: u64, (status, body): (u16, String)) -> ReviewResult {
        let presented = self.present(token, at, || panic!("no request waits"));
        assert!(presented.is_verified(), "{}", presented.outcome);
        presented.check.unwrap().accept_answer(status, body.as_bytes(), Duration::from_secs(at))
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.fixture.route.cluster.caches.take_check_counts().collect()
    }
}

#[test]
fn verified_token_is_checked_once_in_a_period() {
    // However long the verification itself is remembered.
    for ttl in [120, 7, 0] {
        let site = Site::new(Some(PERIOD), ttl);
        let token = site.token("4a5b");
        for at in 0..200 {
            let presented = site.present(&token, at, || panic!("no request waits"));
            assert!(presented.is_verified(), "{at}: {}", presented.outcome);
            assert_eq!(presented.check.is_some(), at % PERIOD == 0, "{at}");
            if let Some(check) = presented.check {
                assert!(check.body().contains(&token));
                let (status, body) = confirmed();
                check.accept_answer(status, body.as_bytes(), Duration::from_secs(at));
            }
        }
        assert_eq!(site.counts(), [("confirmed", 4)]);
        assert!(site.present(&site.token("other"), 200, || panic!("no request waits")).check.is_some());
    }
    let unchecked = Site::new(None, 120);
    assert!(unchecked.present(&unchecked.token("4a5b"), 0, || panic!("no request waits")).check.is_none());
}

#[test]
fn token_that_a_check_rejects_is_reviewed_from_then_on() {
    for ttl in [120, 0] {
        let site = Site::new(Some(PERIOD), ttl);
        let (token, other) = (site.token("4a5b"), site.token("other"));
        assert!(matches!(site.check(&token, 0, confirmed()), ReviewResult::User(_)));
        assert_eq!(site.check(&token, 60, rejected()), ReviewResult::Rejected);
        for at in [60, 70, 80] {
            let presented = site.present(&token, at, rejected);
            assert_eq!((presented.asked, presented.outcome.as_str()), (1, "401"), "{at}");
            let presented = site.present(&token, at + 9, || panic!("the rejection is remembered"));
            assert_eq!((presented.outcome.as_str(), presented.check.is_none()), ("401", true), "{at}");
        }
        // The upstream may find it good again: by a review that its request waits for, and no other way.
        let presented = site.present(&token, 310, || token_of("reviewed"));
        assert!(presented.asked == 1 && presented.outcome.contains("user=reviewed "), "{}", presented.outcome);
        let after_ttl = site.present(&token, 310 + 120, || token_of("reviewed"));
        assert!(after_ttl.asked == 1 && after_ttl.check.is_none(), "{}", after_ttl.outcome);
        assert_eq!(site.present(&token, 3_500, rejected).asked, 1);
        assert!(site.present(&other, 80, || panic!("no request waits")).is_verified(), "others are as ever");
        assert_eq!(site.counts(), [("confirmed", 1), ("rejected", 1)]);
    }
}

#[test]
fn token_of_another_user_for_the_upstream_is_the_upstreams() {
    let site = Site::new(Some(PERIOD), 120);
    let token = site.token("4a5b");
    site.check(&token, 0, token_of("other"));
    let presented = site.present(&token, 1, || panic!("it is remembered"));
    assert!(presented.outcome.contains("user=other "), "{}", presented.outcome);
    let presented = site.present(&token, 59, || panic!("it is remembered"));
    assert!(presented.outcome.contains("user=other "), "{}", presented.outcome);
    let presented = site.present(&token, 60, || token_of("other"));
    assert_eq!((presented.asked, presented.check.is_none()), (1, true), "its revocation is noticed as soon");
    assert_eq!(site.counts(), [("other_user", 1)]);
}

/// One of several servers may be mistaken, or not know yet what another one knows.
#[test]
fn rejection_by_a_check_alone_refuses_no_request() {
    let site = Site::new(Some(PERIOD), 120);
    let token = site.token("4a5b");
    assert_eq!(site.check(&token, 0, rejected()), ReviewResult::Rejected);
    let presented = site.present(&token, 0, || token_of("reviewed"));
    assert!(presented.asked == 1 && presented.outcome.contains("user=reviewed "), "{}", presented.outcome);
    for at in 1..PERIOD {
        assert!(site.present(&token, at, || panic!("it is remembered")).outcome.contains("user=reviewed "), "{at}");
    }
    let presented = site.present(&token, PERIOD, rejected);
    assert_eq!((presented.asked, presented.outcome.as_str()), (1, "401"), "believed for no longer than a period");
}

/// kube-apiserver answers `authenticated: false` to every error of its authenticators.
#[test]
fn server_that_could_not_look_rejects_no_verified_token() {
    let answer = |error: &str| {
        let status = serde_json::json!({"authenticated": false, "error": error});
        (201, serde_json::json!({"kind": "TokenReview", "status": status}).to_string())
    };
    let unchecked = [
        "[invalid bearer token, oidc: authenticator not initialized]",
        "oidc: verify token: failed to verify signature: fetching keys oidc: get keys failed",
        "Post \"https://w.example\": context deadline exceeded",
        "Post \"https://w.example\": dial tcp 10.0.0.7:443: connect: connection refused",
        "dial tcp: lookup w.example: no such host",
        "etcdserver: request timed out",
        "etcdserver: leader changed",
    ];
    for error in unchecked {
        let site = Site::new(Some(PERIOD), 120);
        let token = site.token("4a5b");
        assert_eq!(site.check(&token, 0, answer(error)), ReviewResult::Failed, "{error}");
        assert!(site.present(&token, 1, || panic!("no request waits")).is_verified());
        assert_eq!(site.counts(), [("failed", 1)]);
    }
    // The last one is a name that a client may choose.
    let rejecting = [
        "",
        "invalid bearer token",
        "[invalid bearer token, service account token has been invalidated]",
        "[invalid bearer token, serviceaccounts \"robot\" not found]",
        "serviceaccounts \"connection-refused.timed-out\" not found",
    ];
    for error in rejecting {
        let site = Site::new(Some(PERIOD), 120);
        assert_eq!(site.check(&site.token("4a5b"), 0, answer(error)), ReviewResult::Rejected, "{error}");
    }
    // A request that waits is refused as by the server itself.
    let site = Site::new(None, 120);
    let reviewer = site.fixture.route.cluster.reviewer.as_ref().unwrap();
    let waiting = Review::of_token(b"t", reviewer, &site.fixture.route.cluster.caches);
    assert_eq!(waiting.read(201, answer(unchecked[0]).1.as_bytes()), ReviewResult::Rejected);
}

#[test]
fn check_without_an_answer_is_tried_again_soon() {
    let site = Site::new(Some(PERIOD), 120);
    let token = site.token("4a5b");
    for at in [0, 10, 25] {
        assert_eq!(site.check(&token, at, (503, String::new())), ReviewResult::Failed);
        assert!(site.present(&token, at + 9, || panic!("no request waits")).check.is_none(), "{at}");
    }
    site.check(&token, 35, confirmed());
    for at in [45, 60, 94] {
        assert!(site.present(&token, at, || panic!("no request waits")).check.is_none(), "{at}");
    }
    // One is under way already, which may have no answer either.
    let mut queue: ReviewQueue<u8, u32> = ReviewQueue::default();
    let check = |at: u64| site.present(&token, at, || panic!("no request waits")).check;
    assert!(queue.ask_aside(*check(95).unwrap(), Duration::from_secs(95)));
    assert!(check(96).is_none() && !queue.ask_aside(*check(155).unwrap(), Duration::from_secs(155)));
    assert!(check(156).is_some());
}

#[test]
fn check_without_an_answer_changes_nothing_but_is_counted() {
    let site = Site::new(Some(PERIOD), 120);
    let token = site.token("4a5b");
    for (at, answer) in [(0, (503, String::new())), (60, (201, "{".to_owned())), (120, (0, String::new()))] {
        assert_eq!(site.check(&token, at, answer), ReviewResult::Failed);
        let presented = site.present(&token, at + 1, || panic!("no request waits"));
        assert!(presented.is_verified() && presented.check.is_none(), "{at}");
    }
    assert_eq!(site.counts(), [("failed", 3)]);
}

#[test]
fn rejection_that_a_request_waited_for_counts_for_verification() {
    let site = Site::new(None, 120);
    let token = site.token("4a5b");
    assert!(site.present(&token, 0, || panic!("no request waits")).is_verified());
    let cluster = &site.fixture.route.cluster;
    // As of another edition of the issuers, which did not verify it.
    let reviewer = cluster.reviewer.as_ref().unwrap();
    let (status, body) = rejected();
    Review::of_token(token.as_bytes(), reviewer, &cluster.caches).accept_answer(
        status,
        body.as_bytes(),
        Duration::from_secs(1),
    );
    assert_eq!(site.present(&token, 2, || panic!("the rejection is remembered")).outcome, "401");
    assert_eq!(site.present(&token, 20, rejected).asked, 1);
}

#[test]
fn checks_have_slots_of_their_own_and_come_again_later() {
    let site = Site::new(Some(PERIOD), 120);
    let tokens: Vec<String> = (0..40).map(|number| site.token(&number.to_string())).collect();
    let checks = |at: u64| {
        let present = |token: &String| site.present(token, at, || panic!("no request waits"));
        tokens.iter().filter_map(|token| present(token).check).collect::<Vec<_>>()
    };
    let mut queue: ReviewQueue<u8, u32> = ReviewQueue::default();
    let begun = checks(0).into_iter().filter_map(|check| queue.ask_aside(*check, Duration::ZERO).then_some(())).count();
    assert_eq!((begun, site.fixture.route.cluster.caches.under_way()), (16, 16));
    assert_eq!(checks(0).len(), 0, "not at each request");
    for key in queue.take_unsent() {
        queue.end(&key, &CalloutResult::from_chunks(503, &[]), Duration::ZERO).unwrap();
    }
    assert_eq!((checks(1).len(), site.counts()), (24, vec![("failed", 16)]), "those that found no slot");
}

#[test]
fn tokens_beyond_the_room_for_rejected_ones_are_all_reviewed() {
    let site = Site::new(Some(PERIOD), 120);
    let (token, fresh) = (site.token("4a5b"), site.token("fresh"));
    let CompiledCluster { caches, reviewer, .. } = &*site.fixture.route.cluster;
    let user = site.present(&token, 0, || panic!("no request waits")).check.unwrap();
    let ReviewResult::User(user) = user.read(201, confirmed().1.as_bytes()) else { panic!("a user") };
    let reject = |number: u32| {
        let token = format!("token {number}");
        let at = moment(Duration::ZERO);
        let (key, _) = Review::known_token(token.as_bytes(), caches, &ReviewAnswers::default(), at);
        let end = now().as_secs() + 600;
        let end = TokenEnd { until: end, expires: end };
        let verified = caches.insert_verified(key, (Arc::clone(&user), 1), end, at);
        verified.is_some_and(|verified| {
            let check = Review::of_revocation(token.as_bytes(), &verified, reviewer.as_ref().unwrap(), caches);
            check.accept_answer(201, rejected().1.as_bytes(), Duration::ZERO) == ReviewResult::Rejected
        })
    };
    assert!((0..5_000).all(reject) && site.present(&token, 1, || panic!("no request waits")).is_verified());
    let most = (5_000..6_000).take_while(|number| reject(*number)).count();
    assert!((100..900).contains(&most), "{most}");
    for one in [&fresh, &token] {
        let presented = site.present(one, 121, || token_of("reviewed"));
        assert_eq!((presented.asked, presented.check.is_none()), (1, true), "{}", presented.outcome);
    }
    // Until all of them have ended.
    caches.entries().iter().for_each(|(kind, entries)| assert!(*entries < 6_000, "{kind}"));
}

#[test]
fn thread_that_claims_a_check_is_the_only_one() {
    let site = Site::new(Some(PERIOD), 0);
    let token = site.token("4a5b");
    site.check(&token, 0, confirmed());
    let claimed = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for at in 1..=3 * PERIOD {
                    let presented = site.present(&token, at, || panic!("no request waits"));
                    claimed.fetch_add(usize::from(presented.check.is_some()), std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    // Each thread has its own time, and none goes back behind a claim.
    assert_eq!(claimed.into_inner(), 3);
}
