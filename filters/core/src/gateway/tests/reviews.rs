//! Credentials that only the upstream can judge.

use portcullis_filter_config::Reviews;
use rcgen::DnType;

use super::*;

fn reviewing() -> Fixture {
    reviewing_with(|_| {})
}

pub(crate) fn reviewing_with(change: impl FnOnce(&mut ClusterConfig)) -> Fixture {
    fixture_with(|config| {
        change(config);
        config.reviews = Some(asked(None));
    })
}

/// Reviews by the credential's own user, or as another one.
pub(crate) fn asked(user: Option<&str>) -> Reviews {
    Reviews {
        cluster: "apiserver".into(),
        user: user.map(str::to_owned),
        token_ttl_seconds: 120,
        rejected_token_ttl_seconds: 10,
        authorized_ttl_seconds: 300,
        unauthorized_ttl_seconds: 30,
        constrained_impersonation: false,
        token_audiences: vec![],
        revocation_check_seconds: None,
    }
}

/// Like `outcome`, with an upstream that answers every review by the status and body that `answer` makes of its question.
/// Questions that were asked, and the outcome.
pub(crate) fn reviewed(
    fixture: &Fixture,
    peer: Peer<'_>,
    headers: Headers<'_>,
    now: UnixTime,
    answer: impl Fn(&str) -> (u16, String),
) -> (Vec<String>, String) {
    let uptime = Duration::from_secs(now.as_secs().saturating_sub(testing::now().as_secs()));
    reviewed_at(fixture, peer, headers, Moment { now, uptime }, answer)
}

/// The same, by two clocks.
fn reviewed_at(
    fixture: &Fixture,
    peer: Peer<'_>,
    headers: Headers<'_>,
    Moment { now, uptime }: Moment,
    answer: impl Fn(&str) -> (u16, String),
) -> (Vec<String>, String) {
    let mut all = vec![(":method", "GET"), (":path", POD), (":authority", "prod.example.com")];
    all.extend_from_slice(headers);
    let mut answers = ReviewAnswers::default();
    let mut asked = Vec::new();
    loop {
        let scan = fixture
            .gateway
            .scan(Some(&fixture.route.cluster), all.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        let request = RequestContext { scan: &scan, peer, answers: &answers, now, uptime };
        match fixture.gateway.decide(&fixture.route.cluster, &request) {
            Decision::Forward(forward) => {
                let lines = forward.user.iter().flat_map(|user| user.header_lines()).chain(&forward.attribution);
                let lines: Vec<String> = lines.map(|(name, value)| format!("{name}={value}")).collect();
                return (asked, format!("{} {}", forward.destination, lines.join(" ")).trim_end().to_owned());
            }
            Decision::Refuse(refusal) | Decision::Queue(_, refusal) => {
                return (asked, format!("{} {}", refusal.code, refusal.cause.as_str()));
            }
            Decision::Review(reviews) => {
                assert!(asked.len() < 100, "it always needs more");
                for review in reviews {
                    assert_eq!(review.cluster(), "apiserver");
                    let (status, body) = answer(review.body());
                    asked.push(review.body().to_owned());
                    answers.push(review.key(), review.accept_answer(status, body.as_bytes(), uptime));
                }
            }
        }
    }
}

pub(super) const TOKEN: Headers<'static> = &[("authorization", "Bearer abc")];

pub(crate) fn token_of(user: &str) -> (u16, String) {
    let status = serde_json::json!({"authenticated": true, "user": {
        "username": user, "uid": "u1", "groups": ["g"],
        "extra": {"scopes": ["all"], "example.com/other": ["x"], "authentication.kubernetes.io/pod-name": ["p"]},
    }});
    (201, serde_json::json!({"kind": "TokenReview", "status": status}).to_string())
}

pub(crate) fn access(allowed: bool) -> (u16, String) {
    (201, serde_json::json!({"kind": "SubjectAccessReview", "status": {"allowed": allowed}}).to_string())
}

#[test]
fn token_names_whom_the_review_names() {
    let fixture = reviewing();
    let (asked, outcome) = reviewed(&fixture, Peer::None, TOKEN, now(), |_| token_of("robot"));
    assert_eq!(asked.len(), 1);
    assert!(asked[0].contains(r#""token":"abc""#), "{asked:?}");
    assert_eq!(
        outcome,
        "all.h2.read impersonate-user=robot impersonate-uid=u1 impersonate-group=g \
         impersonate-extra-authentication.kubernetes.io%2fpod-name=p impersonate-extra-example.com%2fother=x \
         impersonate-extra-scopes=all"
    );
    let (asked, again) = reviewed(&fixture, Peer::None, TOKEN, now(), |_| (500, String::new()));
    assert_eq!((asked.len(), again), (0, outcome), "the answer is remembered");
    let later = testing::at(now().as_secs() + 120);
    let (asked, _) = reviewed(&fixture, Peer::None, TOKEN, later, |_| token_of("robot"));
    assert_eq!(asked.len(), 1, "but not for ever");
}

#[test]
fn review_without_confirmation_authenticates_no_user() {
    let body = |text: &str| text.to_owned();
    let rejected = [
        (201, body(r#"{"kind":"TokenReview","status":{"authenticated":false,"user":{"username":"eve"}}}"#)),
        (201, body(r#"{"kind":"TokenReview","status":{"user":{"username":"eve"},"error":"bad"}}"#)),
        (201, body(r#"{"kind":"TokenReview","status":{"authenticated":true,"user":{"username":"eve "}}}"#)),
        (201, body(r#"{"kind":"TokenReview"}"#)),
    ];
    let failed = [
        (200, token_of("eve").1),
        (503, token_of("eve").1),
        (401, body("")),
        (403, body("{}")),
        (201, body("")),
        (201, body("null")),
        (201, body(r#"{"kind":"Status"}"#)),
        (201, body(r#"{"kind":"TokenReview","status":{"authenticated":true,"user":{"username":""}}}"#)),
        (201, body(r#"{"kind":"TokenReview","status":{"authenticated":true}}"#)),
        (201, body(r#"{"kind":"TokenReview","status":{"authenticated":"true","user":{"username":"eve"}}}"#)),
    ];
    for (answers, expected) in [(rejected.as_slice(), "401 unauthorized"), (failed.as_slice(), "503 review_failed")] {
        for answer in answers {
            let (_, outcome) = reviewed(&reviewing(), Peer::None, TOKEN, now(), |_| answer.clone());
            assert_eq!(outcome, expected, "{answer:?}");
        }
    }
}

#[test]
fn failures_are_not_remembered_and_rejections_are_for_a_while() {
    let fixture = reviewing();
    let ask = |seconds: u64, answer: (u16, &str)| {
        let now = testing::at(now().as_secs() + seconds);
        let (asked, outcome) = reviewed(&fixture, Peer::None, TOKEN, now, |_| (answer.0, answer.1.to_owned()));
        (asked.len(), outcome)
    };
    let rejection = r#"{"kind":"TokenReview","status":{"authenticated":false}}"#;
    assert_eq!(ask(0, (503, "")), (1, "503 review_failed".to_owned()));
    assert_eq!(ask(0, (201, rejection)), (1, "401 unauthorized".to_owned()));
    assert_eq!(ask(9, (503, "")), (0, "401 unauthorized".to_owned()));
    assert_eq!(ask(10, (503, "")), (1, "503 review_failed".to_owned()));
}

/// Moments after a good or a bad answer came, by the time of day and by the uptime; whether it is asked again.
#[test]
fn answers_age_by_the_clock_that_nobody_sets() {
    const DAY: i64 = 86_400;
    let set = |shift: i64| testing::at(now().as_secs().checked_add_signed(shift).unwrap());
    let rejection = || (201, r#"{"kind":"TokenReview","status":{"authenticated":false}}"#.to_owned());
    let impersonating: Headers<'static> = &[("impersonate-user", "bob")];
    let access = |allowed: bool| (201, format!(r#"{{"kind":"SubjectAccessReview","status":{{"allowed":{allowed}}}}}"#));
    for (kind, headers, answer, lifetime) in [
        ("token", TOKEN, token_of("robot"), 120),
        ("rejected token", TOKEN, rejection(), 10),
        ("allowed", impersonating, access(true), 300),
        ("denied", impersonating, access(false), 30),
    ] {
        for shift in [-10 * DAY, -1, 0, 1, 10 * DAY] {
            let fixture = reviewing();
            let asked = |shift: i64, age: u64| {
                let at = Moment { now: set(shift), uptime: UPTIME + Duration::from_secs(age) };
                reviewed_at(&fixture, Peer::None, headers, at, |_| answer.clone()).0.len()
            };
            assert_eq!(asked(0, 0), 1, "{kind}");
            assert_eq!(asked(shift, lifetime - 1), 0, "{kind}: the clock was set by {shift}, it is believed");
            assert_eq!(asked(shift, lifetime), 1, "{kind}: the clock was set by {shift}, it is too old");
        }
    }
}

#[test]
fn token_is_never_believed_past_its_own_expiry() {
    use base64::Engine;
    let fixture = reviewing();
    let claims = format!(r#"{{"exp":{}}}"#, now().as_secs() + 5);
    let token = format!("h.{}.s", crate::credential::BASE64URL.encode(claims));
    let header = format!("Bearer {token}");
    let headers = [("authorization", header.as_str())];
    let asked = |seconds: u64| {
        let now = testing::at(now().as_secs() + seconds);
        reviewed(&fixture, Peer::None, &headers, now, |_| token_of("robot")).0.len()
    };
    assert_eq!([asked(0), asked(4), asked(5)], [1, 0, 1]);
    let set_forward = Moment { now: testing::at(now().as_secs() + 5), uptime: UPTIME };
    let (asked, _) = reviewed_at(&fixture, Peer::None, &headers, set_forward, |_| token_of("robot"));
    assert_eq!(asked.len(), 1, "its expiry is a time of day");
}

#[test]
fn good_token_or_good_certificate_is_enough() {
    let fixture = reviewing();
    let foreign = testing::encode(&[&issue(testing::alice(), &ca("other"))]);
    let good = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    let (_, outcome) = reviewed(&fixture, Peer::Chain(&foreign), TOKEN, now(), |_| token_of("robot"));
    assert!(outcome.starts_with("all.h2.read impersonate-user=robot "), "{outcome}");
    let (asked, outcome) = reviewed(&fixture, Peer::Chain(&good), TOKEN, now(), |_| (500, String::new()));
    assert_eq!(asked.len(), 0);
    assert!(outcome.starts_with("all.h2.read impersonate-user=alice "), "{outcome}");
    let no_anonymous = fixture_with(|config| config.allow_anonymous = false);
    assert_eq!(outcome_of_nobody(&no_anonymous), "401 unauthorized");
    assert_eq!(outcome_of_nobody(&fixture), "all.anonymous.read nobody");
}

#[test]
fn client_may_act_as_whom_it_may_impersonate() {
    let fixture = reviewing();
    let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    let headers = [
        ("impersonate-user", "bob"),
        ("impersonate-group", "ops"),
        ("impersonate-uid", "7"),
        ("impersonate-extra-example.com%2fteam", "blue"),
    ];
    let (asked, outcome) = reviewed(&fixture, Peer::Chain(&chain), &headers, now(), |_| access(true));
    assert_eq!(asked.len(), 4);
    assert!(asked.iter().all(|question| question.contains(r#""user":"alice""#)), "{asked:?}");
    assert_eq!(
        outcome,
        "all.h2.read impersonate-user=bob impersonate-uid=7 impersonate-group=ops \
         impersonate-extra-example.com%2fteam=blue"
    );
    for part in ["users", "groups", "uids", "userextras"] {
        let fixture = reviewing();
        let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
        let refuse = format!(r#""resource":"{part}""#);
        let (_, outcome) =
            reviewed(&fixture, Peer::Chain(&chain), &headers, now(), |question| access(!question.contains(&refuse)));
        assert_eq!(outcome, "403 impersonation", "{part}");
    }
    let fixture = reviewing();
    let (_, outcome) = reviewed(&fixture, Peer::None, &headers, now(), |question| {
        assert!(question.contains(r#""user":"system:anonymous""#));
        access(false)
    });
    assert_eq!(outcome, "403 impersonation", "an anonymous client is asked about, too");
    for broken in [(503, ""), (201, "{}"), (200, r#"{"kind":"SubjectAccessReview","status":{"allowed":true}}"#)] {
        let fixture = reviewing();
        let (_, outcome) = reviewed(&fixture, Peer::None, &headers, now(), |_| (broken.0, broken.1.to_owned()));
        assert_eq!(outcome, "503 review_failed", "{broken:?}");
    }
}

#[test]
fn impersonation_review_ends_at_the_first_denial() {
    let groups: Vec<String> = (0..63).map(|number| format!("g{number}")).collect();
    let headers: Vec<_> =
        groups.iter().map(|group| ("impersonate-group", group.as_str())).chain([("impersonate-user", "bob")]).collect();
    let reviews_until_denied = |denied: &str| {
        let fixture = reviewing();
        let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
        [Peer::None, Peer::Chain(&chain)].map(|peer| {
            let (asked, outcome) =
                reviewed(&fixture, peer, &headers, now(), |question| access(!question.contains(denied)));
            assert_eq!(outcome, "403 impersonation");
            asked.len()
        })
    };
    assert_eq!(reviews_until_denied(r#""resource":"users""#), [1, 1], "the user is reviewed first and alone");
    assert_eq!(reviews_until_denied(r#""name":"g3""#), [9, 9], "then eight parts at a time");
}

#[test]
fn rights_of_one_user_are_not_those_of_another() {
    let fixture = reviewing();
    let bob = testing::client_params(&[(DnType::CommonName, "bob")]);
    let (alice, bob) = (issue(testing::alice(), &fixture.ca), issue(bob, &fixture.ca));
    let headers = [("impersonate-user", "admin")];
    for (leaf, allowed, expected) in [(&alice, true, "all.h2.read"), (&bob, false, "403 impersonation")] {
        let chain = testing::encode(&[leaf]);
        let (asked, outcome) = reviewed(&fixture, Peer::Chain(&chain), &headers, now(), |_| access(allowed));
        assert_eq!(asked.len(), 1);
        assert!(outcome.starts_with(expected), "{outcome}");
    }
}

#[test]
fn token_that_could_be_spelt_otherwise_is_not_asked_about() {
    let never = |question: &str| panic!("asked: {question}");
    for token in ["Bearer abc\tdef", "Bearer \u{a0}abc", "Bearer abc\u{3000}d", "Bearer ü"] {
        let (_, outcome) = reviewed(&reviewing(), Peer::None, &[("authorization", token)], now(), never);
        assert_eq!(outcome, "401 unauthorized", "{token:?}");
    }
    // abc and a line end
    let entry = "base64url.bearer.authorization.k8s.io.YWJjCg, x";
    let upgrade = [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-protocol", entry)];
    let (_, outcome) = reviewed(&reviewing(), Peer::None, &upgrade, now(), never);
    assert_eq!(outcome, "401 unauthorized");
}
