use rustls_pki_types::UnixTime;

use super::*;
use crate::review::Store;
use crate::testing::{reviewer, reviewer_for};

fn caches() -> Arc<CredentialCaches> {
    Arc::new(CredentialCaches::new(&[7; 32], Lifetimes::default(), &Store::default()))
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn at(seconds: u64) -> Moment {
    Moment { now: UnixTime::since_unix_epoch(secs(seconds)), uptime: secs(seconds) }
}

/// A token that keys verify: up to when, and its own expiry, in seconds from 0 on.
fn verified_token(
    caches: &CredentialCaches,
    number: u32,
    (until, expires): (u64, u64),
    now: u64,
) -> Option<Arc<VerifiedUser>> {
    caches.insert_verified(key_of(number), (alice(), 1), TokenEnd { until, expires }, at(now))
}

fn key_of(number: u32) -> ReviewKey {
    let mut key = [0; 32];
    key[..4].copy_from_slice(&number.to_le_bytes());
    key
}

fn reject(caches: &CredentialCaches, number: u32, ends: u64, now: u64) -> bool {
    let verified = verified_token(caches, number, (ends, ends), now);
    let check = |verified: Arc<VerifiedUser>| {
        caches.accept_check(key_of(number), (&verified, None), &ReviewResult::Rejected, secs(now));
    };
    verified.map(check).is_some()
}

/// A later edition of the issuers may verify it for longer.
#[test]
fn rejected_token_is_distrusted_to_its_own_end() {
    let store = Store::default();
    let caches = CredentialCaches::new(&[7; 32], Lifetimes::default(), &store);
    for (number, expires) in [(1, 900), (2, u64::MAX)] {
        let verified = verified_token(&caches, number, (60, expires), 0).unwrap();
        caches.accept_check(key_of(number), (&verified, None), &ReviewResult::Rejected, secs(1));
    }
    let distrusted = |now| {
        store.forget_old(secs(now));
        [1, 2].map(|number| caches.distrusts(&key_of(number), secs(now)))
    };
    assert_eq!([100, 899].map(distrusted), [[true, true]; 2]);
    assert!(verified_token(&caches, 1, (899, 900), 899).is_none());
    // No issuer's tokens are verified for more than a day.
    assert_eq!([910, 86_459, 86_470].map(distrusted), [[false, true], [false, true], [false, false]]);
}

/// The room is one for all clusters, and several that have half of it displace each other's tokens.
#[test]
fn displaced_token_is_distrusted_with_all_of_its_cluster() {
    let store = Store::default();
    let owners: Vec<_> = (1..4).map(|own| CredentialCaches::new(&[own; 32], Lifetimes::default(), &store)).collect();
    let quiet = CredentialCaches::new(&[9; 32], Lifetimes::default(), &store);
    assert!(reject(&quiet, 7, 500, 0));
    for number in 0..5_400 {
        owners
            .iter()
            .for_each(|caches| assert!(reject(caches, number, 600, 0) || caches.distrusts(&key_of(number), secs(0))));
    }
    let entries: u64 = owners.iter().map(|caches| caches.distrusted.entries()).sum();
    assert!(entries < 3 * 5_400, "the room has displaced some: {entries}");
    for caches in &owners {
        assert!((0..5_400).all(|number| caches.distrusts(&key_of(number), secs(599))));
        assert!(!caches.distrusts(&key_of(9_999), secs(600)), "up to the end of what was displaced");
    }
    assert!(quiet.distrusts(&key_of(7), secs(499)));
    assert!(!quiet.distrusts(&key_of(8), secs(500)));
}

#[test]
fn token_that_is_rejected_again_displaces_nothing() {
    let caches = caches();
    let [one, other] = [600, 700].map(|end| verified_token(&caches, 1, (end, end), 0).unwrap());
    for verified in [one, other] {
        caches.accept_check(key_of(1), (&verified, None), &ReviewResult::Rejected, secs(1));
    }
    assert!(caches.distrusts(&key_of(1), secs(2)) && !caches.distrusts(&key_of(2), secs(2)));
}

/// Otherwise each of its requests would be a review.
#[test]
fn verified_token_without_room_is_not_checked() {
    let caches = caches();
    let claims = |number| {
        let claim = |now| verified_token(&caches, number, (600, 600), now).unwrap().claim_check(secs(60), secs(now));
        [0, 1, 2].map(claim)
    };
    assert_eq!(claims(1), [true, false, false]);
    let user = UserInfo { name: "u".repeat(60 << 10), ..UserInfo::default() };
    let large = ReviewResult::User(Arc::new(UpstreamUser::new(user).unwrap()));
    (1_000..1_300).for_each(|number| caches.insert(key_of(number), &large, None, secs(0)));
    let small = |number| caches.insert(key_of(number), &ReviewResult::User(alice()), None, secs(0));
    (2_000..3_000).for_each(small);
    assert_eq!(claims(2), [false; 3]);
}

fn alice() -> Arc<UpstreamUser> {
    Arc::new(UpstreamUser::new(UserInfo { name: "alice".into(), ..UserInfo::default() }).unwrap())
}

#[test]
fn no_more_reviews_are_under_way_than_the_bound() {
    let caches = caches();
    let permits: Vec<_> = std::iter::from_fn(|| caches.permit(&[1; 32], Requester::Token)).take(100).collect();
    assert_eq!(permits.len(), 64);
    drop(permits);
    assert!(caches.permit(&[1; 32], Requester::Token).is_some());
}

#[test]
fn strangers_leave_room_to_renew_what_was_good() {
    let caches = caches();
    let (known, revoked) = ([2; 32], [3; 32]);
    let user = UpstreamUser::new(UserInfo { name: "alice".into(), ..UserInfo::default() }).unwrap();
    let good = ReviewResult::User(Arc::new(user));
    caches.insert(known, &good, None, secs(1_000));
    caches.insert(revoked, &good, None, secs(1_000));
    caches.insert(revoked, &ReviewResult::Rejected, None, secs(2_000));
    assert_eq!(caches.token(&known, at(2_000)), None, "too old");
    let strangers: Vec<_> = std::iter::from_fn(|| caches.permit(&[1; 32], Requester::Token)).take(100).collect();
    let renewals: Vec<_> = std::iter::from_fn(|| caches.permit(&known, Requester::Token)).take(100).collect();
    assert_eq!((strangers.len(), renewals.len()), (64, 64));
    drop(renewals);
    assert!(caches.permit(&revoked, Requester::Token).is_none(), "what was rejected since is a stranger's");
}

#[test]
fn review_slots_of_one_requester_keep_no_other_out() {
    let caches = caches();
    let take = |requester| -> Vec<_> { std::iter::from_fn(|| caches.permit(&[1; 32], requester)).take(200).collect() };
    let taken = [Requester::Unauthenticated, Requester::Token, Requester::User].map(take);
    assert_eq!(taken.each_ref().map(Vec::len), [16, 64, 64]);
    assert_eq!(caches.under_way(), 144);
    drop(taken);
    assert_eq!(caches.under_way(), 0);
}

#[test]
fn answer_without_a_name_is_none() {
    let review = Review::of_token(b"token", &reviewer(), &caches());
    let answer = |user: &str| {
        let body = format!(r#"{{"kind":"TokenReview","status":{{"authenticated":true,"user":{user}}}}}"#);
        review.accept_answer(201, body.as_bytes(), secs(1_000))
    };
    assert_eq!(answer(r#"{"username":""}"#), ReviewResult::Failed, "the upstream's fault, not the token's");
    assert_eq!(answer("{}"), ReviewResult::Failed);
    assert_eq!(answer(r#"{"username":" alice"}"#), ReviewResult::Rejected, "known, but no header can carry it");
    assert!(matches!(answer(r#"{"username":"alice"}"#), ReviewResult::User(_)));
}

/// As kube-apiserver reads the answer of a webhook, which may not know audiences. There an answer without any is for the server's
/// own, which are not among these.
#[test]
fn token_without_a_wanted_audience_is_rejected() {
    let status = |audiences: &str| {
        format!(
            r#"{{"kind":"TokenReview","status":{{"authenticated":true,"user":{{"username":"alice"}}{audiences}}}}}"#
        )
    };
    let answer = |reviewer: &Reviewer, audiences: &str| {
        Review::of_token(b"t", reviewer, &caches()).read(201, status(audiences).as_bytes())
    };
    let asking = reviewer_for(["gateway", "other"]);
    for one in [r#","audiences":["gateway"]"#, r#","audiences":["x","other"]"#] {
        assert!(matches!(answer(&asking, one), ReviewResult::User(_)), "{one}");
    }
    for none in ["", r#","audiences":null"#, r#","audiences":[]"#, r#","audiences":["x","Gateway",""]"#] {
        assert_eq!(answer(&asking, none), ReviewResult::Rejected, "{none}");
        assert!(matches!(answer(&reviewer(), none), ReviewResult::User(_)), "no audience was asked for: {none}");
    }
    assert_eq!(answer(&asking, r#","audiences":"gateway""#), ReviewResult::Failed, "it is no list");
    let body = |reviewer: &Reviewer| Review::of_token(b"t", reviewer, &caches()).body().to_owned();
    let spec = |reviewer: &Reviewer| serde_json::from_str::<serde_json::Value>(&body(reviewer)).unwrap()["spec"].take();
    assert_eq!(spec(&asking), serde_json::json!({"token": "t", "audiences": ["gateway", "other"]}));
    assert_eq!(spec(&reviewer()), serde_json::json!({"token": "t"}));
}

#[test]
fn keys_tell_tokens_clusters_and_questions_apart() {
    let caches = caches();
    let other = CredentialCaches::new(&[8; 32], Lifetimes::default(), &Store::default());
    let keys =
        [caches.token_key(b"a"), caches.token_key(b"b"), caches.access_key(b"a"), other.token_key(b"a"), [0; 32]];
    for (index, key) in keys.iter().enumerate() {
        assert!(!keys.iter().skip(index + 1).any(|later| later == key));
    }
    assert_eq!(caches.token_key(b"a"), caches.token_key(b"a"));
}

#[test]
fn review_shows_no_token_where_it_is_printed() {
    let review = Review::of_token(b"very-secret", &reviewer(), &caches());
    assert!(!format!("{review:?}").contains("very-secret"));
    let caches = caches();
    let verified = verified_token(&caches, 1, (600, 600), 0).unwrap();
    let check = Review::of_revocation(b"very-secret", &verified, &reviewer(), &caches);
    let shown = format!("{check:?}");
    assert!(shown.contains("Revocation") && !shown.contains("alice") && !shown.contains("very-secret"), "{shown}");
}

#[test]
fn answer_that_is_no_text_is_none() {
    let answer = |key: &[u8]| {
        let start = br#"{"kind":"TokenReview","status":{"authenticated":true,"user":{"username":"bob","#;
        let body = [&start[..], b"\"", key, br#"":"x"}}}"#].concat();
        Review::of_token(b"t", &reviewer(), &caches()).accept_answer(201, &body, secs(1))
    };
    assert!(matches!(answer(b"other"), ReviewResult::User(_)));
    assert_eq!(answer(b"oth\xffer"), ReviewResult::Failed);
}

#[test]
fn large_users_take_the_room_of_many_small_ones() {
    let caches = caches();
    let user = UserInfo { name: "u".repeat(60 << 10), ..UserInfo::default() };
    let large = ReviewResult::User(Arc::new(UpstreamUser::new(user).unwrap()));
    let keys: Vec<ReviewKey> =
        (0..5_000u16).map(|number| std::array::from_fn(|at| number.to_le_bytes()[at % 2])).collect();
    keys.iter().for_each(|key| caches.insert(*key, &large, None, secs(0)));
    let kept = keys.iter().filter(|key| caches.token(key, at(1)).is_some()).count();
    // 120 KiB each, and half of the room.
    assert!((150..=210).contains(&kept), "{kept}");
}

#[test]
fn answer_of_any_length_is_not_read() {
    let caches = caches();
    let answer = |padding: usize| {
        let token = format!("token-{padding}");
        let status = r#""status":{"authenticated":true,"user":{"username":"alice"}}"#;
        let body = format!(r#"{{"kind":"TokenReview",{status},"padding":"{}"}}"#, "x".repeat(padding));
        Review::of_token(token.as_bytes(), &reviewer(), &caches).accept_answer(201, body.as_bytes(), secs(1))
    };
    assert!(matches!(answer(MAX_ANSWER / 2), ReviewResult::User(_)));
    assert_eq!(answer(MAX_ANSWER), ReviewResult::Failed);
}

/// An upstream may answer 401 to a good token as often as it likes, and a client may cause it: that leads to a review now and
/// then, and displaces no other entry.
#[test]
fn token_that_the_upstream_rejects_is_doubted_but_not_at_once() {
    let caches = caches();
    let (key, other) = ([1; 32], [2; 32]);
    let user = UpstreamUser::new(UserInfo { name: "alice".into(), ..UserInfo::default() }).unwrap();
    let good = ReviewResult::User(Arc::new(user));
    caches.insert(key, &good, None, secs(1_000));
    caches.insert(other, &good, None, secs(1_000));
    let mut reviews = 0;
    for now in 1_000..1_100 {
        if caches.token(&key, at(now)).is_none() {
            reviews += 1;
            caches.insert(key, &good, None, secs(now));
        }
        PassedToken::new(key, &caches).report_rejected(secs(now));
    }
    assert_eq!(reviews, 9, "one in eleven seconds");
    assert_eq!(caches.token(&other, at(1_100)), Some(good.clone()), "the neighbour's answer stays");

    caches.insert(key, &good, None, secs(2_000));
    caches.invalidate_if_older(&key, secs(2_050));
    assert_eq!(caches.token(&key, at(2_050)), None);
    let strangers: Vec<_> = std::iter::from_fn(|| caches.permit(&[3; 32], Requester::Token)).take(100).collect();
    assert!(caches.permit(&key, Requester::Token).is_some(), "it is renewed where {} strangers wait", strangers.len());
    caches.invalidate_if_older(&[9; 32], secs(2_050));
    assert_eq!(caches.token(&[9; 32], at(2_050)), None, "nothing is remembered of a stranger");
}
