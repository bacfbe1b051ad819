use super::*;

fn caches() -> Arc<CredentialCaches> {
    Arc::new(CredentialCaches::new(&[7; 32], Lifetimes::default()))
}

#[test]
fn no_more_reviews_are_under_way_than_the_bound() {
    let caches = caches();
    let permits: Vec<_> = std::iter::from_fn(|| caches.permit()).take(100).collect();
    assert_eq!(permits.len(), 64);
    drop(permits);
    assert!(caches.permit().is_some());
}

#[test]
fn keys_tell_tokens_clusters_and_questions_apart() {
    let caches = caches();
    let other = CredentialCaches::new(&[8; 32], Lifetimes::default());
    let keys = [caches.token_key(b"a"), caches.token_key(b"b"), caches.access_key("a"), other.token_key(b"a"), [0; 32]];
    for (index, key) in keys.iter().enumerate() {
        assert!(!keys.iter().skip(index + 1).any(|later| later == key));
    }
    assert_eq!(caches.token_key(b"a"), caches.token_key(b"a"));
}

#[test]
fn a_review_shows_no_token_where_it_is_printed() {
    let review = Review::of_token(b"very-secret", &"c".into(), &caches());
    assert!(!format!("{review:?}").contains("very-secret"));
}

#[test]
fn an_answer_that_is_no_text_is_none() {
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1));
    let answer = |key: &[u8]| {
        let start = br#"{"kind":"TokenReview","status":{"authenticated":true,"user":{"username":"bob","#;
        let body = [&start[..], b"\"", key, br#"":"x"}}}"#].concat();
        Review::of_token(b"t", &"c".into(), &caches()).settle(201, &body, now)
    };
    assert!(matches!(answer(b"other"), ReviewResult::User(_)));
    assert_eq!(answer(b"oth\xffer"), ReviewResult::Failed);
}
