//! A bearer token: reviewed as it was presented, and never cached past its own expiry.
#![no_main]

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::fuzz_target;
use portcullis_core::Decision;
use portcullis_core::review::ReviewAnswers;
use portcullis_fuzz::{NOW, age, cluster, gateway, judge};
use serde_json::Value;

/// Read apart from the code under test; only for claims that are written in the plain way.
fn expiry(token: &str) -> Option<u64> {
    let mut parts = token.split('.');
    let claims = parts.nth(1)?;
    parts.next()?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    claims.get("exp")?.as_u64()
}

/// A repeated claim has no one meaning.
fn tells_once(token: &str) -> bool {
    let claims = token.split('.').nth(1).and_then(|claims| URL_SAFE_NO_PAD.decode(claims).ok()).unwrap_or_default();
    claims.windows(3).filter(|window| *window == b"exp").count() == 1 && !claims.contains(&b'\\')
}

fuzz_target!(|data: &[u8]| {
    // Plain bytes are a token; behind a dot they are the claims of one.
    let token = match data.split_first() {
        Some((b'.', claims)) => format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims)).into_bytes(),
        _ => data.to_vec(),
    };
    let (gateway, cluster) = (gateway(), cluster());
    let header = [b"Bearer ", &*token].concat();
    let headers: [(&[u8], &[u8]); 1] = [(b"authorization", &header)];
    let review = judge(&gateway, &cluster, &headers, &ReviewAnswers::default(), NOW, |decision| match decision {
        Decision::Review(mut reviews) => reviews.pop(),
        Decision::Forward(forward) => {
            assert!(forward.user.is_none(), "nobody was asked about");
            None
        }
        Decision::Refuse(_) | Decision::Queue(..) => None,
    });
    let Some(review) = review else { return };
    let asked: Value = serde_json::from_str(review.body()).expect("a question is JSON");
    let asked = asked["spec"]["token"].as_str().expect("a token").to_owned();
    assert!(!asked.is_empty());
    assert!(header.windows(asked.len()).any(|window| window == asked.as_bytes()), "another token than was presented");

    review.accept_answer(
        201,
        br#"{"kind":"TokenReview","status":{"authenticated":true,"user":{"username":"u"}}}"#,
        age(NOW),
    );
    let is_known = |now: u64| {
        judge(&gateway, &cluster, &headers, &ReviewAnswers::default(), now, |decision| {
            matches!(decision, Decision::Forward(_))
        })
    };
    assert!(!is_known(NOW + 120), "the lifetime is an upper bound");
    if let Some(expires) = expiry(&asked).filter(|_| tells_once(&asked)) {
        assert!(!is_known(expires.max(NOW)), "it is believed past its expiry");
        assert!(expires <= NOW || is_known(NOW), "it is believed until then");
    }
});
